import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def forward(self, x):
        current = torch.cuda.current_stream()
        out = torch.empty_like(x)
        for stream, part, target in zip(self.streams, x.chunk(2), out.chunk(2)):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                torch.softmax(part, dim=-1, out=target)
        for stream in self.streams:
            current.wait_stream(stream)
        return out
