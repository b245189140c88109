"""Matrix products with few rows, as in generation: one row for each text.

Such a product should be limited by reading the weights. On some CPUs `F.linear` is slower: one row goes to a routine of one
thread, several rows to a routine that first reorders the weights. W·xᵀ, without copying xᵀ, avoids both. On an EPYC with 2
cores, all weights of SmolLM2 times one row take 18 ms instead of 50, a vocabulary of 65,001 times sixteen rows 16 ms
instead of 26. Each machine measures once which is faster.

R rows, C in, V out.
"""

import math
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGE = 1 << 18  # elements from which the matrix doesn't fit a CPU cache
SIZES = (1, 2, 4, 8, 16, 32, 64)  # measured numbers of rows; larger ones use F.linear


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x·Wᵀ + b (R, V) of x (R, C) and weight (V, C).

    >>> x, linear = torch.randn(3, 512), nn.Linear(512, 600)
    >>> with torch.no_grad():
    ...     torch.allclose(product(x, linear.weight, linear.bias), linear(x), atol=1e-5)
    True
    """
    rows = len(x)
    use_linear = rows > SIZES[-1] or weight.numel() < LARGE
    if use_linear or weight.dtype != torch.float32 or weight.device.type != "cpu" or torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    if not is_transposed_faster(next(size for size in SIZES if size >= rows), torch.get_num_threads()):
        return F.linear(x, weight, bias)
    output = transposed_product(x, weight)
    return output if bias is None else output.add_(bias)


def transposed_product(x: Tensor, weight: Tensor) -> Tensor:
    """Return x·Wᵀ, computed as (W·xᵀ)ᵀ."""
    rows = len(x)
    padded_rows = 2 if rows == 1 else 16 if 8 < rows < 16 else rows  # sizes with a fast routine
    x = F.pad(x, (0, 0, 0, padded_rows - rows)) if padded_rows > rows else x.contiguous()
    return torch.mm(weight, x.t())[:, :rows].t().contiguous()


@cache
def is_transposed_faster(rows: int, threads: int) -> bool:
    """True if (W·xᵀ)ᵀ is faster by 10 % or more, measured on a matrix larger than the CPU cache."""
    x, weight = torch.ones(rows, 2048), torch.ones(8192, 2048)
    kernels: list[Callable[[Tensor, Tensor], Tensor]] = [transposed_product, F.linear]
    best = [math.inf, math.inf]
    for _ in range(4):
        for i, kernel in enumerate(kernels):
            start = time.perf_counter()
            kernel(x, weight)
            best[i] = min(best[i], time.perf_counter() - start)
    return best[0] < 0.9 * best[1]


def logits_of(model: Any, states: Tensor) -> Tensor:
    """Return logits (R, V) of states (R, C)."""
    head = model.head
    return product(states, head.weight, head.bias) if type(head) is nn.Linear else head(states)
