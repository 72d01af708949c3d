import torch


class ModelNew:
    def __call__(self, x):
        return torch.softmax(x, dim=-1)
