"""A CUDA device as judge and worker use it: shared memory, the harness around a call, and the device's state."""
