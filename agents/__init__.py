"""Who writes the kernel: agent loops, models, tools and budgets."""
