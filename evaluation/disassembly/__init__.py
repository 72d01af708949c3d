"""What a candidate's native builds hold for the GPU: machine code, read and counted, never run."""
