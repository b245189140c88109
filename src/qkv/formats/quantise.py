"""8-bit weights for faster decoding: per token only a quarter of float32's bytes are read from memory.

Each row of a matrix is divided by its largest absolute value / 127 and rounded; this scale is stored per row.
Activations stay floating point ("weight-only"). On CPU the product of few rows runs on PyTorch's int8 kernel, whose
input and output are bfloat16 (about three decimal digits). Many rows (a prompt) are multiplied in float32 by the
dequantised matrix, since there compute is the bottleneck, not memory.

O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model.transformer import Transformer

MAX_INT8_ROWS = 8  # up to this many rows the int8 kernel is faster than float32
STRIDE = 32  # the kernel reads whole vectors without checking; other widths are computed in float32


class Int8Linear(nn.Module):
    """`nn.Linear` with an 8-bit matrix: y = x·(int8·scale)ᵀ + bias."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        largest = weight.float().abs().amax(1, keepdim=True).clamp_min(1e-12)
        # The kernel reads the scale in bfloat16: round it first, so that the integers match it.
        self.scale: Tensor
        self.register_buffer("scale", (largest[:, 0] / 127).to(torch.bfloat16))  # (O,)
        self.integers: Tensor
        rounded = (weight.float() / self.scale.float()[:, None]).round().clamp(-127, 127)
        self.register_buffer("integers", rounded.to(torch.int8))  # (O, I)
        self.bias = linear.bias
        self.in_features, self.out_features, self.dtype = linear.in_features, linear.out_features, weight.dtype

    @property
    def weight(self) -> Tensor:
        """The dequantised matrix (O, I)."""
        return (self.integers.float() * self.scale.float()[:, None]).to(self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        output = self.flat()(x.reshape(-1, self.in_features))
        return output.view(*x.shape[:-1], self.out_features)

    def flat(self) -> Callable[[Tensor], Tensor]:
        """Return the product of rows (R, I) → (R, O) as a plain function, for token-by-token decoding."""
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
    """Quantise the linear layers of the blocks and the head to 8 bits, in place. Embeddings and norms are unchanged.

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
        # A rounded router would send tokens to other experts.
        if type(module) is nn.Linear and not name.endswith(".router"):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, Int8Linear(module))
    return model
