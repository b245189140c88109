"""Numbers for the modules people write: by the name of each parameter, so that every answer gets the same ones."""

import zlib
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..attention.oracle import Array

T = TypeVar("T")


def filled(module: T) -> T:
    """Return the module in float64 and eval mode, each parameter drawn from its own name."""
    if isinstance(module, nn.Module):
        module.double().eval()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(drawn(name, *parameter.shape))
    return module


def drawn(name: str, *shape: int) -> Tensor:
    """The same numbers for the same name and shape; matrices keep the size of what they multiply, roughly, times 1.5."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return torch.from_numpy(rng.normal(size=shape) * (1.5 / shape[-1] ** 0.5 if len(shape) > 1 else 0.5))


def matrix(name: str, rows: int, columns: int) -> Array:
    """The weight of a Linear(rows → columns) as a reference multiplies it, (rows, columns)."""
    return drawn(f"{name}.weight", columns, rows).numpy().T
