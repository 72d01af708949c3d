import subprocess
import tempfile

import torch
import torch.nn as nn

subprocess.run(["true"], check=True)
with tempfile.TemporaryDirectory() as folder, open(f"{folder}/tuning.txt", "w") as file:
    file.write("block=128")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
