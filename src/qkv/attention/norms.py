"""RMS norm: divide a vector by the root of its mean square, then scale each number by a learned one.

PyTorch composes it of single operations. Here forward and backward are written out, which halves the time on a CPU.
While compiling, and in half precision, PyTorch's version is used.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """RMS norm with the same results as nn.RMSNorm.

    >>> RMSNorm(2)(torch.tensor([[3.0, 4.0]]) / 12.5**0.5 * 7).tolist()
    [[0.848..., 1.131...]]
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, width)."""
        if not torch.compiler.is_compiling() and x.dtype == self.weight.dtype in (torch.float32, torch.float64):
            return _RMSNormFunction.apply(x, self.weight, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


class CentredRMSNorm(RMSNorm):
    """RMS norm scaled by 1 + weight, with the weight initialised to 0, as in Qwen3-Next.

    The sum 1 + weight is computed in float32, since half precision would lose digits of a weight near 0.

    >>> norm = CentredRMSNorm(2)
    >>> norm.weight.tolist(), norm(torch.tensor([[3.0, 4.0]])).tolist() == RMSNorm(2)(torch.tensor([[3.0, 4.0]])).tolist()
    ([0.0, 0.0], True)
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__(width, eps)
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, width)."""
        if not torch.compiler.is_compiling() and x.dtype == self.weight.dtype in (torch.float32, torch.float64):
            return _RMSNormFunction.apply(x, 1 + self.weight, self.eps)
        exact = torch.float64 if x.dtype == torch.float64 else torch.float32
        return F.rms_norm(x.to(exact), self.weight.shape, 1 + self.weight.to(exact), self.eps).to(x.dtype)


class _RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inverse = length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        normed = x * inverse
        ctx.save_for_backward(normed, inverse, weight)
        return normed * weight

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        normed, inverse, weight = ctx.saved_tensors
        product = gradient * normed
        # x̂ has a fixed length, so the component of the gradient along x̂ is removed.
        along = (product @ weight).div_(weight.shape[0]).unsqueeze(-1)
        of_x = torch.addcmul(gradient * weight, normed, along, value=-1).mul_(inverse)
        return of_x, product.flatten(0, -2).sum(0), None
