"""Questions about modules, with weights that depend only on the name and shape of a parameter."""

import zlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..attention.masks import Mask
from ..attention.oracle import Array, steps
from .lesson import Answer, Question, WrongAnswer

T = TypeVar("T")
# Wrong answers of every exercise with multi-head attention.
SCALE_MISTAKES = {
    "unscaled": WrongAnswer(
        {" / q.shape[-1] ** 0.5": ""}, "the scores aren't divided by √D ({got} instead of {want}).", mistake="S2"
    ),
    "by width": WrongAnswer(
        {"q.shape[-1]": "x.shape[-1]"},
        "the scale is √C ({got} instead of {want}). A head is D wide: √D.",
        mistake="S3",
    ),
}
ATTENTION_MISTAKES = {
    **SCALE_MISTAKES,
    "over queries": WrongAnswer(
        {"dim=-1": "dim=-2"}, "the softmax runs over the queries (dim=-2). dim=-1, the keys.", mistake="X1"
    ),
    "over heads": WrongAnswer(
        {"dim=-1": "dim=1"}, "the softmax runs over the heads (dim=1). dim=-1, the keys.", mistake="X3"
    ),
    "no output matrix": WrongAnswer(
        {"self.out(": "("},
        "self.out isn't used: the heads stay side by side and are never mixed. The last step is self.out(merged).",
        mistake="P4",
    ),
}


def tensors(seed: int, times: float = 1.0, plus: float = 0.0) -> Callable[..., Tensor]:
    """Return a function that draws a tensor of the given shape: times · normal + plus."""
    rng = np.random.default_rng(seed)
    return lambda *shape: torch.from_numpy(rng.normal(size=shape) * times + plus)


def module_question(
    module: str, expected: Callable[..., object], sizes: tuple[int, ...], x: Tensor, mask: Tensor | None
) -> Question:
    """Return a question that builds a module with these sizes (width, heads, …) and calls it with x and the mask.

    `expected(x, mask, *sizes)` gets NumPy arrays, the mask in the shape of the scores.
    """

    def run(answer: Answer) -> object:
        built = filled(getattr(answer, module)(*sizes))
        return built(x.clone()) if mask is None else built(x.clone(), mask.clone())

    n = x.shape[1]
    allowed = None if mask is None else np.broadcast_to(mask.numpy(), (len(x), sizes[1], n, n))
    description = f"{module}({', '.join(map(str, sizes))})(x), x {tuple(x.shape)}"
    description += "" if mask is None else f", mask {tuple(mask.shape)}"
    return Question(module, description, run, lambda: expected(x.numpy(), allowed, *sizes))


def filled(module: T) -> T:
    """Return the module in float64 and eval mode, with every parameter set to `drawn(name, *shape)`."""
    if isinstance(module, nn.Module):
        module.double().eval()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(drawn(name, *parameter.shape))
    return module


def drawn(name: str, *shape: int) -> Tensor:
    """Return the numbers for a name and shape. Matrices are scaled by 1.5 / √(input width), vectors by 0.5."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return torch.from_numpy(rng.normal(size=shape) * (1.5 / shape[-1] ** 0.5 if len(shape) > 1 else 0.5))


def matrix(name: str, rows: int, columns: int) -> Array:
    """Return the transposed weight of a Linear(rows → columns), (rows, columns)."""
    return drawn(f"{name}.weight", columns, rows).numpy().T


def layer_norm(x: Array, name: str) -> Array:
    """Apply nn.LayerNorm with the parameters drawn for this name."""
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    width = x.shape[-1]
    return normed * drawn(f"{name}.weight", width).numpy() + drawn(f"{name}.bias", width).numpy()


def attention(x: Array, n_head: int, name: str, mask: Mask | NDArray[np.bool_] | None = None) -> Array:
    """Return multi-head attention with the matrices drawn for this name."""
    width = x.shape[-1]
    q, k, v, out = (matrix(f"{name}{part}", width, width) for part in ("q", "k", "v", "out"))
    return steps(x, w_q=q, w_k=k, w_v=v, w_o=out, n_head=n_head, mask=mask).output


def linear(x: Array, name: str, columns: int) -> Array:
    """Apply nn.Linear with the weight and bias drawn for this name."""
    return x @ matrix(name, x.shape[-1], columns) + drawn(f"{name}.bias", columns).numpy()
