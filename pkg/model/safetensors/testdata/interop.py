"""The other side of the tests against Hugging Face's own library.

    interop.py sample FILE      writes python.safetensors, the committed file
    interop.py write DIR        writes files for Go to read
    interop.py describe FILE    prints what the library reads in FILE, as JSON

Needs: pip install safetensors numpy packaging, and torch.
"""

import json
import sys

import numpy as np
import safetensors
import safetensors.numpy
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


def write(folder):
    """Every half-precision number, with float32 as the library's arrays convert it; a GRU's state."""
    all16 = np.arange(65536, dtype=np.uint16).view(np.float16)
    doubles = np.random.default_rng(1).standard_normal(5000) * 10.0 ** np.arange(-50, 50).repeat(50)
    doubles[np.abs(doubles) > 3e38] = 1
    safetensors.numpy.save_file({"f16": all16, "f64": doubles}, folder + "/numpy.safetensors")
    brain = torch.from_numpy(np.arange(65536, dtype=np.uint16).view(np.int16)).view(torch.bfloat16)
    safetensors.torch.save_file({"bf16": brain}, folder + "/torch.safetensors")
    expected = {"f16": all16.astype(np.float32), "f64": doubles.astype(np.float32), "bf16": brain.float().numpy()}
    safetensors.numpy.save_file(expected, folder + "/expected.safetensors")

    model = torch.nn.ModuleDict({
        "embed": torch.nn.Embedding(100, 64),
        "rnn": torch.nn.GRU(64, 64, num_layers=2),
        "head": torch.nn.Linear(64, 100),
    })
    safetensors.torch.save_file(model.state_dict(), folder + "/model.safetensors", metadata={"format": "pt"})


def describe(path):
    by_numpy = safetensors.numpy.load_file(path)
    by_torch = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, framework="np") as f:
        metadata = f.metadata()
    rows = {}
    for name, array in by_numpy.items():
        if by_torch[name].numpy().tobytes() != array.tobytes():
            sys.exit("numpy and torch disagree on " + name)
        rows[name] = {"dtype": str(array.dtype), "shape": array.shape, "hex": array.tobytes().hex()}
    print(json.dumps({"metadata": metadata, "tensors": rows}))


if __name__ == "__main__":
    {"sample": sample, "write": write, "describe": describe}[sys.argv[1]](sys.argv[2])
