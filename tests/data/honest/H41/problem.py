import torch
import torch.nn as nn

ROWS = 40
WIDTH = 24

FREE_DIMS = {"ROWS": (16, 64, 1)}


class Model(nn.Module):
    """One output of each kind: a nest of double, single, both halves, whole numbers and bools."""

    def forward(self, x, index, flag):
        wide = x.double()
        return {
            "double": wide.cumsum(dim=1),
            "halves": (x.half() * 0.5, x.bfloat16() * 0.5),
            "whole": [index.to(torch.int32) + 1, index * 3, (index % 7).to(torch.uint8)],
            "flag": flag ^ (x > 0),
            "scalar": x.sum(),
        }


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randint(0, 100, (ROWS, WIDTH)), torch.rand(ROWS, WIDTH) < 0.5]


def get_init_inputs():
    return []
