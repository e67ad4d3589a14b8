"""Writes python.safetensors, the committed file, with Hugging Face's own library.

    interop.py python.safetensors

Needs: pip install safetensors packaging, and torch.
"""

import sys

import safetensors.torch
import torch


def sample(path):
    tensors = {
        "embed.weight": torch.tensor([[1.5, -2.25, 0.0], [3.4e38, -1e-45, float("inf")]]),
        "scalar": torch.tensor(0.1),
        "empty": torch.zeros(0, 3),
        "half": torch.tensor([1.0, -65504.0, 6e-8, 0.1], dtype=torch.float16),
        "brain": torch.tensor([1.0, -3.0e38, 0.1], dtype=torch.bfloat16),
        "double": torch.tensor([0.1, -1e-300], dtype=torch.float64),
    }
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


if __name__ == "__main__":
    sample(sys.argv[1])
