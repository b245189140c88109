"""Questions about the modules people write, with weights by the name of each parameter: every answer gets the same ones."""

import zlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..attention.masks import Mask
from ..attention.oracle import Array, steps
from .lesson import Answer, Question

T = TypeVar("T")


def tensors(seed: int, times: float = 1.0, plus: float = 0.0) -> Callable[..., Tensor]:
    """Return a function that draws a tensor of the shape asked for: times · normal + plus."""
    rng = np.random.default_rng(seed)
    return lambda *shape: torch.from_numpy(rng.normal(size=shape) * times + plus)


def module_question(
    module: str, right: Callable[..., object], sizes: tuple[int, ...], x: Tensor, mask: Tensor | None
) -> Question:
    """The usual question about a module: made with these sizes (width, heads, …), filled, and called with x and the mask.

    `right(x, mask, *sizes)` gets NumPy arrays, the mask as wide as the scores.
    """

    def ask(answer: Answer) -> object:
        made = filled(getattr(answer, module)(*sizes))
        return made(x.clone()) if mask is None else made(x.clone(), mask.clone())

    n = x.shape[1]
    allowed = None if mask is None else np.broadcast_to(mask.numpy(), (len(x), sizes[1], n, n))
    shown = f"{module}({', '.join(map(str, sizes))})(x), x {tuple(x.shape)}"
    shown += "" if mask is None else f", mask {tuple(mask.shape)}"
    return Question(module, shown, ask, lambda: right(x.numpy(), allowed, *sizes))


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


def layer_norm(x: Array, name: str) -> Array:
    """As nn.LayerNorm has it, with the numbers drawn for that name."""
    centred = x - x.mean(-1, keepdims=True)
    even = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    width = x.shape[-1]
    return even * drawn(f"{name}.weight", width).numpy() + drawn(f"{name}.bias", width).numpy()


def attention(x: Array, n_head: int, name: str, mask: Mask | NDArray[np.bool_] | None = None) -> Array:
    """Multi-head attention by `steps`, with the matrices drawn for that name."""
    width = x.shape[-1]
    q, k, v, out = (matrix(f"{name}{part}", width, width) for part in ("q", "k", "v", "out"))
    return steps(x, w_q=q, w_k=k, w_v=v, w_o=out, n_head=n_head, mask=mask).output


def linear(x: Array, name: str, columns: int) -> Array:
    """As nn.Linear with its bias."""
    return x @ matrix(name, x.shape[-1], columns) + drawn(f"{name}.bias", columns).numpy()
