"""What a candidate does with the device beside being fast: counters, launches, memory and energy of one forward."""
