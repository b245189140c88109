"""Causal depthwise convolution: each channel is mixed with its last few values before the state is updated.

PyTorch's convolution needs channels before tokens, and its backward is slow on a CPU. Here forward and backward are
written out in token order, a few rows at a time so that they stay in the CPU cache.

B batch, N tokens, C channels, K taps.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention.heads import check_sizes
from .dispatch import document_starts
from .state_cache import StateCache

ROWS = 64  # tokens processed at once


class CausalConvolution(nn.Module):
    """y[t] = bias + Σ_s weight[s]·x[t − K + 1 + s]: the last tap is the token itself.

    >>> convolution = CausalConvolution(1, taps=2, bias=False)
    >>> _ = torch.nn.init.ones_(convolution.weight)
    >>> convolution(torch.tensor([[[0.0], [1.0], [2.0], [3.0]]])).flatten().tolist()  # the first input is the context
    [1.0, 3.0, 5.0]
    """

    def __init__(self, channels: int, taps: int = 4, bias: bool = True) -> None:
        super().__init__()
        check_sizes(channels=channels, taps=taps)
        self.weight = nn.Parameter(torch.empty(channels, taps).uniform_(-(taps**-0.5), taps**-0.5))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None

    @property
    def taps(self) -> int:
        """Number of taps, K.

        >>> CausalConvolution(8, taps=3).taps
        3
        """
        return self.weight.shape[1]

    def forward(self, x: Tensor, resets: Tensor | None = None) -> Tensor:
        """x (B, K − 1 + N, C), with K − 1 tokens of context first → (B, N, C); taps don't reach across `resets` (B, N)."""
        weight = self.weight.t().contiguous()  # (K, C)
        bias = weight.new_zeros(weight.shape[1]) if self.bias is None else self.bias
        if resets is None:
            return _ConvolutionFunction.apply(x, weight, bias)
        n = resets.shape[1]
        document = F.pad(resets.cumsum(1), (x.shape[1] - n, 0))  # (B, K − 1 + N)
        y = bias.expand(len(x), n, -1)
        for tap in range(len(weight)):
            same_document = (document[:, tap : tap + n] == document[:, -n:])[..., None]
            y = torch.addcmul(y, x[:, tap : tap + n].masked_fill(~same_document, 0.0), weight[tap])
        return y

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, taps={self.taps}, bias={self.bias is not None}"


def convolve(
    convolution: CausalConvolution, x: Tensor, keep: Tensor | None, documents: Tensor | None, cache: StateCache | None
) -> tuple[Tensor, Tensor]:
    """Return SiLU of the convolution of x (B, N, C), and its input with the context in front, (B, K − 1 + N, C).

    Padding is set to 0, like the context of a new text.
    """
    if keep is not None:
        x = x.masked_fill(~keep[..., None], 0.0)
    if cache is None:
        x = F.pad(x, (0, 0, convolution.taps - 1, 0))
    else:
        x = torch.cat([cache.tail.to(x.dtype), x], 1)
    return F.silu(convolution(x, None if documents is None else document_starts(documents, keep))), x


class _ConvolutionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        taps, n = len(weight), x.shape[1] - len(weight) + 1
        y = x.new_empty(len(x), n, x.shape[2])
        for start in range(0, n, ROWS):
            stop = min(start + ROWS, n)
            part = y[:, start:stop]
            torch.addcmul(bias, x[:, start:stop], weight[0], out=part)
            for tap in range(1, taps):
                part.addcmul_(x[:, start + tap : stop + tap], weight[tap])
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        n, dx, dweight = dy.shape[1], torch.zeros_like(x), torch.zeros_like(weight)
        for start in range(0, n, ROWS):
            stop = min(start + ROWS, n)
            part = dy[:, start:stop]
            for tap in range(len(weight)):
                dx[:, start + tap : stop + tap].addcmul_(part, weight[tap])
                dweight[tap] += (x[:, start + tap : stop + tap] * part).sum((0, 1))
        return dx, dweight, dy.sum((0, 1))
