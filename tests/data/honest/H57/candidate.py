import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.side = torch.cuda.Stream()
        self.begun, self.done = torch.cuda.Event(), torch.cuda.Event()

    def forward(self, x, residual):
        current = torch.cuda.current_stream()
        self.begun.record(current)
        self.side.wait_event(self.begun)
        with torch.cuda.stream(self.side):
            y = self.norm(x + residual)
            self.done.record(self.side)
        current.wait_event(self.done)
        y.record_stream(current)
        return y
