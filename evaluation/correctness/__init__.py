"""Whether an output is right: oracle, tolerance, draws."""
