import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        values, columns = x.new_empty(x.shape[0]), torch.empty(x.shape[0], dtype=torch.int64)
        for index, row in enumerate(x):
            values[index], columns[index] = row.max(dim=0)
        return values, columns
