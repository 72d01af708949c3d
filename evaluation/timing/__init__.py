"""How fast: the clock, its statistics, and the right to measure."""
