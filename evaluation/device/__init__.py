"""The device that candidates run on: its state."""
