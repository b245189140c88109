"""The cache of a mixer layer: a state and the last inputs of its convolution. It never grows.

Used like a `KVCache`: batch items may have different lengths (`expect`), can be reordered, and the cache can be reset.

B batch, H heads, D key width, P value width, N new tokens, K taps of the convolution, C its channels.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor

from ..attention import masks
from ..attention.cache import check_counts
from ..attention.dispatch import MaskLike
from ..attention.mask_algebra import Full
from ..attention.positions import Positions
from ..attention.rules import Band, Documents, Padding
from ..i18n import Problem
from .dispatch import mix


class Storage(TypedDict, total=False):
    """Dtype and device of a cache."""

    dtype: torch.dtype
    device: torch.device | str | None


class StateCache:
    """The state after all tokens so far.

    >>> cache = StateCache(batch=2, n_head=1, key_width=2, value_width=3)
    >>> cache.expect([3, 1])
    >>> cache.real(4).tolist(), cache.at(1)
    ([[True, True, True, False], [True, False, False, False]], 0)
    >>> cache.advance(torch.ones(2, 1, 2, 3), torch.zeros(2, 4, 0), cache.real(4))
    >>> cache.lengths.tolist(), cache.at(1).tolist(), cache.numbers
    ([3, 1], [[3], [1]], 12)
    >>> cache.reorder(torch.tensor([1, 1]))
    >>> cache.reset()
    >>> cache.at(1), bool(cache.state.any())
    (0, False)
    """

    def __init__(
        self,
        batch: int,
        n_head: int,
        key_width: int,
        value_width: int,
        *,
        channels: int = 0,
        taps: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        state_dtype = dtype if dtype.itemsize > 2 else torch.float32  # the state is a sum over the whole text
        self.state = torch.zeros(batch, n_head, key_width, value_width, dtype=state_dtype, device=device)
        self.tail = torch.zeros(batch, taps - 1, channels, dtype=dtype, device=device)
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.longest, self.uniform = 0, True
        self._expected: Tensor | None = None

    @property
    def numbers(self) -> int:
        """How many numbers it stores, for any length of text."""
        return self.state.numel() + self.tail.numel()

    def expect(self, counts: Sequence[int] | Tensor) -> None:
        """Announce how many real tokens per item, (B,), the next call has; the rest of each row is padding."""
        self._expected = torch.as_tensor(counts, device=self.lengths.device)

    def at(self, n: int) -> Positions:
        """Return the positions of n new tokens: an int while all items have the same length, else (B, N)."""
        if self.uniform:
            return self.longest
        return self.lengths[:, None] + torch.arange(n, device=self.lengths.device)

    def real(self, n: int) -> Tensor | None:
        """Return which of n new tokens are real according to `expect`, (B, N); None: all."""
        if self._expected is None:
            return None
        return torch.arange(n, device=self.lengths.device) < self._expected[:, None]

    def check_counts(self, n: int) -> None:
        """Raise if the announced counts don't fit n new tokens.

        >>> cache = StateCache(batch=1, n_head=1, key_width=2, value_width=3)
        >>> cache.expect([4])
        >>> cache.check_counts(3)
        Traceback (most recent call last):
        qkv.i18n.Problem: the cache expects [4] new tokens, but the input has 3: give 0 … 3 per item
        """
        check_counts(self._expected, n)

    def advance(self, state: Tensor, inputs: Tensor, keep: Tensor | None = None) -> None:
        """Store the state and the convolution's last inputs after N new tokens, both detached, and advance the lengths.

        `inputs` (B, K − 1 + N, C) are the inputs of the convolution, the previous ones first; `keep` marks real tokens.
        """
        n = inputs.shape[1] - self.tail.shape[1]
        self.state = state.detach().to(self.state.dtype)
        if keep is None:
            self.tail = inputs[:, n:].detach().to(self.tail.dtype).clone()
        else:
            last = torch.where(keep, torch.arange(1, n + 1, device=keep.device), 0).amax(1)  # (B,)
            index = last[:, None] + torch.arange(self.tail.shape[1], device=keep.device)
            self.tail = inputs.detach().gather(1, index[..., None].expand(-1, -1, inputs.shape[2])).to(self.tail.dtype)
        self.lengths = self.lengths + (n if self._expected is None else self._expected)
        self.longest += n
        if self._expected is not None:
            self.longest, self.uniform, self._expected = int(self.lengths.max()), False, None

    def reorder(self, index: Tensor) -> None:
        """Replace item i by item index[i] (beam search)."""
        self.state, self.tail, self.lengths = self.state[index], self.tail[index], self.lengths[index]

    def reset(self) -> None:
        """Empty the cache. Allocates new tensors, since recorded calls keep references to the old state."""
        self.state, self.tail, self.lengths = (torch.zeros_like(t) for t in (self.state, self.tail, self.lengths))
        self.longest, self.uniform, self._expected = 0, True, None


def read_mask(mask: MaskLike, x: Tensor, cache: StateCache | None) -> tuple[Tensor | None, Tensor | None]:
    """Return which tokens of x (B, N, …) are real and their document numbers, (B, N) or None each.

    `mask` is a bool tensor (B, N), True = real, or a mask that a state can follow: causal, padding, documents, joined by &.

    >>> keep, documents = read_mask(masks.causal() & masks.padding([2]), torch.zeros(1, 3, 8), None)
    >>> keep.tolist(), documents
    ([[True, True, False]], None)
    """
    batch, n = x.shape[:2]
    _check_cache(cache, batch, n)
    before = 0 if cache is None else cache.longest
    position = torch.arange(n, device=x.device).expand(batch, n)  # of the new tokens
    if cache is not None:
        position = position + cache.lengths[:, None]
    keep, ids = None if cache is None else cache.real(n), None
    rule = masks.padding(mask) if isinstance(mask, Tensor) else masks.full() if mask is None else mask
    rule.check(batch, 1, n, before + n)
    for term in rule.terms():
        if isinstance(term, Full) or (isinstance(term, Band) and (term.left, term.right) == (None, 0)):
            continue
        if isinstance(term, Padding) and term.lengths is not None:
            real = position < torch.as_tensor(term.lengths, device=x.device)[:, None]
        elif isinstance(term, Padding):
            real = torch.as_tensor(term.real, device=x.device).expand(batch, -1).gather(1, position)
        elif isinstance(term, Documents) and before == 0:
            ids = torch.as_tensor(term.ids, device=x.device)[:, :n].expand(batch, n)
            continue
        elif isinstance(term, Documents):
            raise Problem("several documents need an empty cache: this one has read tokens already, so give one text")
        else:
            raise Problem(
                "mixers support the masks causal, padding and documents, but not {mask}: use an attention layer for that",
                mask=repr(term),
            )
        keep = real if keep is None else keep & real
    return keep, ids


def mix_cached(cache: StateCache | None, inputs: Tensor, *parts: Tensor, keep: Tensor | None, **options: Any) -> Tensor:
    """Return the output of `mix` from the state of the cache, and advance the cache.

    `inputs` are the inputs of the convolution, see `StateCache.advance`.
    """
    y, state = mix(*parts, state=None if cache is None else cache.state, keep=keep, **options)
    if cache is not None:
        cache.advance(state, inputs, keep)
    return y


def check_groups(n_head: int, groups: int) -> None:
    """Raise if the heads can't be divided into groups."""
    if n_head % groups:
        raise Problem(
            "{heads} heads don't divide over {groups} groups: the first must be a multiple", heads=n_head, groups=groups
        )


def _check_cache(cache: object, batch: int, n: int) -> None:
    if cache is None:
        return
    if not isinstance(cache, StateCache):
        raise Problem(
            "this layer keeps a state: make its cache with new_cache(), not {kind}", kind=type(cache).__name__
        )
    if len(cache.lengths) != batch:
        raise Problem(
            "the cache is for a batch of {cached}, but the input has {batch}: make it with new_cache(batch={batch})",
            cached=len(cache.lengths),
            batch=batch,
        )
    cache.check_counts(n)
