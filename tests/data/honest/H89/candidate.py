import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.graphs = {}

    def capture(self, x, residual):
        given = [torch.empty_like(x), torch.empty_like(residual)]
        self.norm(given[0] + given[1])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.norm(given[0] + given[1])
        return graph, given, out

    def forward(self, x, residual):
        if x.shape not in self.graphs:
            self.graphs[x.shape] = self.capture(x, residual)
        graph, given, out = self.graphs[x.shape]
        given[0].copy_(x)
        given[1].copy_(residual)
        graph.replay()
        return out.clone()
