"""A mixture of experts: many feed-forwards, of which each token is routed to a few.

    scores = softmax(x·W_r)                          one number per expert
    y = Σ  share_e · expert_e(x)                     over the `per_token` experts with the best scores

`mixture` is this formula token by token. `grouped` computes the same expert by expert: the pairs (token, expert) are sorted
by expert, and each expert reads all of its tokens in one product. Both break ties as `topk` does.

T tokens (of all texts), E experts, K of them per token, C model width.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..attention.dispatch import registered
from .config import Config
from .layers import FeedForward
from .mixture import Experts

# x (T, C), indices (T, K), shares (T, K), the experts → (T, C)
Compute = Callable[[Tensor, Tensor, Tensor, nn.ModuleList], Tensor]


def mixture(x: Tensor, indices: Tensor, shares: Tensor, experts: nn.ModuleList) -> Tensor:
    """Send x (T, C) through the experts `indices` (T, K), weighted by `shares` (T, K): the formula, token by token."""
    outputs = []
    for token, expert_numbers, token_shares in zip(x, indices.tolist(), shares, strict=True):
        expert_outputs = [experts[number](token) for number in expert_numbers]
        outputs.append(token_shares @ torch.stack(expert_outputs))  # (K) @ (K, C)
    return torch.stack(outputs)  # (T, C)


def grouped(x: Tensor, indices: Tensor, shares: Tensor, experts: nn.ModuleList) -> Tensor:
    """Compute the same expert by expert.

    With gradients enabled, unused experts read zero tokens: their gradient is then 0 instead of None, as training in
    several processes requires.
    """
    per_token, flat = indices.shape[1], indices.flatten()  # pair p is of token p // K
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat, minlength=len(experts)).tolist()
    parts = x[order // per_token].split(counts)  # the tokens of each expert
    keep_idle = torch.is_grad_enabled()
    outputs = [expert(part) for expert, part in zip(experts, parts, strict=True) if len(part) or keep_idle]
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order), device=order.device)  # the row of each pair's result
    pairs = torch.cat(outputs)[position].view(*indices.shape, x.shape[1])  # (T, K, C)
    return (shares[:, None] @ pairs)[:, 0]  # (T, C); einsum takes twelve times as long on a CPU


def route(logits: Tensor, settings: Experts, balance: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the experts of each token, best first, and their shares, both (T, K), from logits (T, E).

    >>> route(torch.tensor([[0.0, 3.0, 1.0]]), Experts(count=3, per_token=2))
    (tensor([[1, 2]]), tensor([[0.8808, 0.1192]]))
    """
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores = exact.softmax(-1) if settings.score == "softmax" else exact.sigmoid()
    ranked = scores.detach() if balance is None else scores.detach() + balance
    if settings.groups > 1:
        ranked = ranked.masked_fill(~_in_best_groups(ranked, settings), float("-inf"))
    indices = ranked.topk(settings.per_token).indices
    shares = scores.gather(-1, indices)
    if settings.normed:  # all sigmoids can be 0
        shares = shares / (shares.sum(-1, keepdim=True) + (1e-20 if settings.score == "sigmoid" else 0.0))
    return indices, (shares * settings.scale).to(logits.dtype)


def _in_best_groups(ranked: Tensor, settings: Experts) -> Tensor:
    """Return which experts (T, E) are in a group that the token may choose from."""
    groups = ranked.unflatten(-1, (settings.groups, -1))  # (T, groups, E / groups)
    best = groups.topk(2 if settings.score == "sigmoid" else 1).values.sum(-1)
    allowed = torch.zeros_like(best, dtype=torch.bool).scatter_(-1, best.topk(settings.groups_per_token).indices, True)
    return allowed[..., None].expand_as(groups).flatten(-2)


@dataclass(frozen=True)
class Routing:
    """The experts of each token of a text in one layer, and their shares, both (B, N, K)."""

    name: str  # "decoder.3"
    chosen: Tensor
    shares: Tensor
    count: int  # number of experts


_listeners: list[tuple[list[Routing], int]] = []  # with the thread of each listener


@contextmanager
def record_routing() -> Iterator[list[Routing]]:
    """Yield a list that gets a Routing for every call of a mixture in this thread.

    >>> layer = MixtureOfExperts(Config(width=8, n_head=2, n_layer=1, experts=Experts(count=4)), "decoder.0")
    >>> with record_routing() as routings:
    ...     _ = layer(torch.randn(1, 3, 8))
    >>> routings[0].name, routings[0].chosen.shape
    ('decoder.0', torch.Size([1, 3, 2]))
    """
    routings: list[Routing] = []
    with registered(_listeners, (routings, threading.get_ident())):
        yield routings


class MixtureOfExperts(nn.Module):
    """A router and its experts in place of a feed-forward, optionally with an expert for all tokens.

    >>> layer = MixtureOfExperts(Config(width=8, n_head=2, n_layer=1, experts=Experts(count=4)), "decoder.0")
    >>> x = torch.randn(2, 5, 8)
    >>> layer(x).shape, bool(torch.allclose(layer(x), layer.reference(x), atol=1e-6))
    (torch.Size([2, 5, 8]), True)
    """

    def __init__(self, config: Config, name: str | None = None) -> None:
        super().__init__()
        assert config.experts is not None
        self.settings, self.name = config.experts, name
        self.router = nn.Linear(config.width, self.settings.count, bias=False)
        self.balance = (
            nn.Parameter(torch.zeros(self.settings.count), requires_grad=False) if self.settings.balance else None
        )
        self.experts = nn.ModuleList(FeedForward(config, self.settings.hidden) for _ in range(self.settings.count))
        self.shared = FeedForward(config, self.settings.shared) if self.settings.shared else None

    def forward(self, x: Tensor) -> Tensor:
        """(…, C) → (…, C)."""
        is_single_token = x.numel() == x.shape[-1] and not torch.is_grad_enabled()  # a single token needs no sorting
        return self._through(mixture if is_single_token else grouped, x)

    def reference(self, x: Tensor) -> Tensor:
        """Compute the same by the formula."""
        return self._through(mixture, x)

    def _through(self, compute: Compute, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])  # (T, C)
        indices, shares = route(self.router(flat), self.settings, self.balance)
        for routings, thread in _listeners:
            if thread == threading.get_ident():
                shape = (*x.shape[:-1], self.settings.per_token)
                routings.append(
                    Routing(self.name or "", indices.view(shape), shares.detach().view(shape), self.settings.count)
                )
        output = compute(flat, indices, shares, self.experts)
        if self.shared is not None:
            output = output + self.shared(flat)
        return output.view(x.shape)

    def extra_repr(self) -> str:
        return f"{self.settings.per_token} of {self.settings.count} experts"
