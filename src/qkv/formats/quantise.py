"""Weights in 8 bits, for faster decoding: a quarter of the bytes of float32 have to come from memory for each token.

Each row of a matrix is divided by its largest number, times 127, and rounded; the row's factor is kept. Activations stay
floating point ("weight-only"). On a CPU the product of few rows runs on PyTorch's int8 kernel, which takes and gives
bfloat16: about three decimal digits, which is what this road costs in exactness. Many rows (a prompt) are multiplied in
float32 from the matrix put back together, since there the arithmetic counts, not the memory.

O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model.transformer import Transformer

MAX_INT8_ROWS = 8  # up to so many rows the int8 kernel is faster than float32's
STRIDE = 32  # the kernel reads inputs by whole vectors and doesn't check: other widths go the float32 road


class Int8Linear(nn.Module):
    """`nn.Linear` with its matrix in 8 bits: y = x·(int8·scale)ᵀ + bias."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        largest = weight.float().abs().amax(1, keepdim=True).clamp_min(1e-12)
        # The kernel reads the factor in bfloat16: round it first, so that the integers fit the factor that is used.
        self.scale: Tensor
        self.register_buffer("scale", (largest[:, 0] / 127).to(torch.bfloat16))  # (O,)
        self.integers: Tensor
        rounded = (weight.float() / self.scale.float()[:, None]).round().clamp(-127, 127)
        self.register_buffer("integers", rounded.to(torch.int8))  # (O, I)
        self.bias = linear.bias
        self.in_features, self.out_features, self.dtype = linear.in_features, linear.out_features, weight.dtype

    @property
    def weight(self) -> Tensor:
        """The matrix as it is used, put back together: (O, I)."""
        return (self.integers.float() * self.scale.float()[:, None]).to(self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        output = self.flat()(x.reshape(-1, self.in_features))
        return output.view(*x.shape[:-1], self.out_features)

    def flat(self) -> Callable[[Tensor], Tensor]:
        """The product of rows (R, I) → (R, O) as a bare function, for decoding token by token."""
        integers, scale, bias = self.integers, self.scale, self.bias
        max_rows = MAX_INT8_ROWS if integers.device.type == "cpu" and self.in_features % STRIDE == 0 else 0

        def product(x: Tensor) -> Tensor:
            if len(x) > max_rows:
                return F.linear(x, self.weight, bias)
            output = torch._weight_int8pack_mm(x.to(torch.bfloat16), integers, scale).to(x.dtype)
            return output if bias is None else output + bias

        return product

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, int8"


def quantise(model: Transformer) -> Transformer:
    """Turn the matrices of the blocks and of the head into 8 bits, in place; embeddings and norms stay as they are.

    >>> from ..model.config import Config
    >>> _ = torch.manual_seed(0)
    >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).eval()
    >>> ids = torch.randint(50, (1, 7))
    >>> before = model(ids).detach()
    >>> float((quantise(model)(ids) - before).norm() / before.norm()) < 0.02
    True
    """
    model.eval().requires_grad_(False)
    for name, module in list(model.named_modules()):
        # A router's small matrix decides who computes: rounded, tokens would take other experts.
        if type(module) is nn.Linear and not name.endswith(".router"):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, Int8Linear(module))
    return model
