"""What words cost, without the logits of all of them at once.

A vocabulary is large: the logits of 1,024 tokens of SmolLM2 are 200 MB, and the plain way writes them four times over
(logits, log-softmax, and the gradients of both). Here a part of the rows is taken at a time. Of each part the gradient is
known as soon as the loss is, softmax − the word itself, so it is put where the logits were, multiplied into what it is
wanted for, and the room is taken by the next part.

B batch, N tokens, R rows of both together, C model width, V vocabulary.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LOGITS = 1 << 25  # numbers that are there at once, 128 MB: with fewer, adding up the weights' gradient costs more


def word_loss(head: nn.Linear, states: Tensor, labels: Tensor) -> Tensor:
    """The sum of −log p of labels (B, N) by states (B, N, C), but for those that are −100.

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
    """−log p (R,) of each of labels (R,) by rows (R, C), 0 for −100, in float64."""
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
    """Is it a matrix and no more? What is compiled is written by the compiler."""
    if type(head) is not nn.Linear or torch.compiler.is_compiling() or torch.is_autocast_enabled(rows.device.type):
        return False
    return head.weight.dtype == rows.dtype in (torch.float32, torch.float64)


Chunk = tuple[slice, Tensor, Tensor, Tensor]


def _chunks(rows: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Iterator[Chunk]:
    """Some rows at a time: which, the probabilities (r, V) of all words, the words themselves (r, 1), their costs (r,)."""
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
        # The log of the sum is the largest logit − log p of its word, which is never near 0. Their difference is exact.
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
