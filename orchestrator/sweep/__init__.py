"""Runs a plan: launchers, workers, cells, grades."""
