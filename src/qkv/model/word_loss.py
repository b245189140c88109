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
    if _plain(head, rows) and len(rows) * len(head.weight) > LOGITS:
        return _Words.apply(rows, head.weight, head.bias, labels.flatten())
    return F.cross_entropy(head(states).flatten(0, -2), labels.flatten(), reduction="sum")


@torch.no_grad()
def word_costs(head: nn.Linear, rows: Tensor, labels: Tensor) -> Tensor:
    """−log p (R,) of each of labels (R,) by rows (R, C), 0 for −100, in float64."""
    if _plain(head, rows):
        return torch.cat([costs for _, _, _, costs in _parts(rows, head.weight, head.bias, labels)])
    size = max(LOGITS // len(head.weight), 1)
    found = []
    for some, words in zip(rows.split(size), labels.split(size), strict=True):
        logits = head(some)
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        found.append(F.cross_entropy(logits, words, reduction="none"))
    return torch.cat(found).double()


def _plain(head: nn.Linear, rows: Tensor) -> bool:
    """Is it a matrix and no more? What is compiled is written by the compiler."""
    if type(head) is not nn.Linear or torch.compiler.is_compiling() or torch.is_autocast_enabled(rows.device.type):
        return False
    return head.weight.dtype == rows.dtype in (torch.float32, torch.float64)


Part = tuple[slice, Tensor, Tensor, Tensor]


def _parts(rows: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Iterator[Part]:
    """Some rows at a time: which, the probabilities (r, V) of all words, the words themselves (r, 1), their costs (r,)."""
    many = max(len(rows), 1)
    size = -(-many // -(-many * len(weight) // LOGITS))
    room = rows.new_empty(size, len(weight))
    for begin in range(0, many, size):
        which = slice(begin, min(begin + size, len(rows)))
        logits = torch.mm(rows[which], weight.t(), out=room[: which.stop - begin])
        if bias is not None:
            logits += bias
        words = labels[which, None]
        counts = words != -100
        words = words.where(counts, 0)
        said, (top, at) = logits.gather(1, words), logits.max(1, keepdim=True)
        p = torch.softmax(logits, 1, out=logits)
        # The log of the sum is the largest logit − log p of its word, which is never near 0. Their difference is exact.
        costs = top.double() - p.gather(1, at).double().log() - said.double()
        yield which, p, words, costs.where(counts, 0)[:, 0]


class _Words(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
        wants = ctx.needs_input_grad
        of_rows = torch.empty_like(rows) if wants[0] else None
        of_weight = torch.empty_like(weight) if wants[1] else None
        of_bias = torch.zeros_like(bias) if bias is not None and wants[2] else None
        total = rows.new_zeros((), dtype=torch.float64)
        for which, p, words, costs in _parts(rows, weight, bias, labels):
            total += costs.sum()
            if not any(wants):
                continue
            gradient = p.scatter_add_(1, words, p.new_full((1, 1), -1.0).expand_as(words))
            gradient[labels[which] == -100] = 0
            if of_rows is not None:
                torch.mm(gradient, weight, out=of_rows[which])
            if of_weight is not None:
                of_weight.addmm_(gradient.t(), rows[which], beta=float(which.start > 0))
            if of_bias is not None:
                of_bias += gradient.sum(0)
        ctx.save_for_backward(of_rows, of_weight, of_bias)
        return total.to(rows.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if of is None else of.mul_(gradient) for of in ctx.saved_tensors), None
