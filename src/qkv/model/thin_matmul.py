"""A matrix product with a few rows, as generation has them: one for each text that goes on.

Such a product only reads the weights, so memory should be its limit. On some CPUs it isn't as `F.linear` asks for it: one
row goes to a routine of one thread, several to one that first writes the weights down in another order. Asked for the
other way round, W·xᵀ with xᵀ as it lies, both are avoided. On an EPYC of 2 cores: all weights of SmolLM2 times one row
18 ms for 50, a vocabulary of 65,001 times sixteen 16 ms for 26. Which is quicker is for the machine to say, once.

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

LARGE = 1 << 18  # numbers of a matrix from which on it is worth it: no cache keeps it
SIZES = (1, 2, 4, 8, 16, 32, 64)  # rows that are looked at; what has more is left alone


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·Wᵀ + b of x (R, C) and weight (V, C): (R, V).

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
    """x·Wᵀ as (W·xᵀ)ᵀ."""
    rows = len(x)
    padded_rows = 2 if rows == 1 else 16 if 8 < rows < 16 else rows  # numbers of rows that there are routines for
    x = F.pad(x, (0, 0, 0, padded_rows - rows)) if padded_rows > rows else x.contiguous()
    return torch.mm(weight, x.t())[:, :rows].t().contiguous()


@cache
def is_transposed_faster(rows: int, threads: int) -> bool:
    """Is the other way round quicker here, by a tenth or more? Both are tried on a matrix that no cache holds."""
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
    """Logits (R, V) of states (R, C)."""
    head = model.head
    return product(states, head.weight, head.bias) if type(head) is nn.Linear else head(states)
