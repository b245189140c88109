"""The cross-entropy of words without all logits in memory at once.

The logits of 1,024 tokens of SmolLM2 take 200 MB, and plain cross-entropy writes them four times (logits, log-softmax, and
the gradients of both). Here rows are processed in chunks. The gradient of a chunk, softmax − one-hot, is known with its
loss: it overwrites the logits, is multiplied into the gradients of states and weights, and its memory is reused.

B batch, N tokens, R rows of both together, C model width, V vocabulary.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LOGITS = 1 << 25  # per chunk, 128 MB; with smaller chunks, adding up the weights' gradient is slower


def word_loss(head: nn.Linear, states: Tensor, labels: Tensor) -> Tensor:
    """Return the sum of −log p of labels (B, N) by states (B, N, C). Labels of −100 don't count.

    >>> head, states, labels = nn.Linear(8, 5, bias=False), torch.randn(2, 3, 8), torch.tensor([[1, 4, -100], [0, 0, 2]])
    >>> plain = F.cross_entropy(head(states).flatten(0, 1), labels.flatten(), reduction="sum")
    >>> torch.allclose(word_loss(head, states, labels), plain)
    True
    """
    rows = states.flatten(0, -2)
    if _is_plain_linear(head, rows) and len(rows) * len(head.weight) > LOGITS:
        return _Words.apply(rows, head.weight, head.bias, labels.flatten())
    return F.cross_entropy(head(states).flatten(0, -2), labels.flatten(), reduction="sum")


@torch.no_grad()
def word_costs(head: nn.Linear, rows: Tensor, labels: Tensor) -> Tensor:
    """Return −log p (R,) of each label (R,) by rows (R, C) in float64, 0 for −100."""
    if _is_plain_linear(head, rows):
        return torch.cat([costs for _, _, _, costs in _chunks(rows, head.weight, head.bias, labels)])
    size = max(LOGITS // len(head.weight), 1)
    costs = []
    for chunk, words in zip(rows.split(size), labels.split(size), strict=True):
        logits = head(chunk)
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        costs.append(F.cross_entropy(logits, words, reduction="none"))
    return torch.cat(costs).double()


def _is_plain_linear(head: nn.Linear, rows: Tensor) -> bool:
    """True if the head is only a matrix and the compiler doesn't optimise it anyway."""
    if type(head) is not nn.Linear or torch.compiler.is_compiling() or torch.is_autocast_enabled(rows.device.type):
        return False
    return head.weight.dtype == rows.dtype in (torch.float32, torch.float64)


Chunk = tuple[slice, Tensor, Tensor, Tensor]


def _chunks(rows: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Iterator[Chunk]:
    """Yield chunks of rows: their slice, probabilities (r, V), labels (r, 1) and costs (r,)."""
    count = max(len(rows), 1)
    size = -(-count // -(-count * len(weight) // LOGITS))
    buffer = rows.new_empty(size, len(weight))
    for begin in range(0, count, size):
        part = slice(begin, min(begin + size, len(rows)))
        logits = torch.mm(rows[part], weight.t(), out=buffer[: part.stop - begin])
        if bias is not None:
            logits += bias
        words = labels[part, None]
        counts = words != -100
        words = words.where(counts, 0)
        label_logits, (top, at) = logits.gather(1, words), logits.max(1, keepdim=True)
        p = torch.softmax(logits, 1, out=logits)
        # logsumexp is the largest logit − log of its probability, which is never near 0, so costs are exact.
        costs = top.double() - p.gather(1, at).double().log() - label_logits.double()
        yield part, p, words, costs.where(counts, 0)[:, 0]


class _Words(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
        needs_gradient = ctx.needs_input_grad
        rows_gradient = torch.empty_like(rows) if needs_gradient[0] else None
        weight_gradient = torch.empty_like(weight) if needs_gradient[1] else None
        bias_gradient = torch.zeros_like(bias) if bias is not None and needs_gradient[2] else None
        total = rows.new_zeros((), dtype=torch.float64)
        for part, p, words, costs in _chunks(rows, weight, bias, labels):
            total += costs.sum()
            if not any(needs_gradient):
                continue
            gradient = p.scatter_add_(1, words, p.new_full((1, 1), -1.0).expand_as(words))
            gradient[labels[part] == -100] = 0
            if rows_gradient is not None:
                torch.mm(gradient, weight, out=rows_gradient[part])
            if weight_gradient is not None:
                weight_gradient.addmm_(gradient.t(), rows[part], beta=float(part.start > 0))
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0)
        ctx.save_for_backward(rows_gradient, weight_gradient, bias_gradient)
        return total.to(rows.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if gradients is None else gradients.mul_(gradient) for gradients in ctx.saved_tensors), None
