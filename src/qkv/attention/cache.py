"""KV caches: keys and values already computed, so that a new token costs one row of attention instead of n.

Memory is allocated once and written by position. `KVCache` keeps all tokens, `WindowCache` only those that a window can
still see. Batch items may have different lengths: call `expect` before a forward pass with the number of real tokens.

Use in an attention layer:

    at = cache.at(n)                     positions of the new tokens
    keys, values = cache.append(k, v)    store them, get all visible keys and values
    mask = cache.place(mask, at)         the mask for queries at these positions

B batch, G key/value heads, N new tokens, M keys, D head width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..i18n import Problem
from . import masks
from .positions import Positions


class KVCache:
    """Keys and values of up to `capacity` tokens per item.

    With `static=True` every read returns the full capacity, and `place` masks empty slots: shapes never change, so a
    compiled step is compiled once. Without it reads end at the longest item, which is faster in eager mode.

    >>> cache = KVCache(batch=1, n_kv_head=1, capacity=4, head_width=2)
    >>> k, v = cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
    >>> k.shape, cache.at(1)
    (torch.Size([1, 1, 3, 2]), 3)
    """

    def __init__(
        self,
        batch: int,
        n_kv_head: int,
        capacity: int,
        head_width: int,
        *,
        value_width: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        static: bool = False,
    ) -> None:
        value_width = head_width if value_width is None else value_width
        self.k = torch.zeros(batch, n_kv_head, capacity, head_width, dtype=dtype, device=device)
        self.v = torch.zeros(batch, n_kv_head, capacity, value_width, dtype=dtype, device=device)
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.capacity, self.static = capacity, static
        self.longest = 0  # max(lengths) as an int, so that nothing waits for the device
        self.uniform = True
        self.memory: int | None = None  # number of keys of a memory, for cross-attention
        self.keys_at: Tensor | None = None  # positions of the keys, if not 0, 1, 2, …
        self._expected: Tensor | None = None

    def expect(self, counts: Sequence[int] | Tensor) -> None:
        """Announce how many real tokens per item, (B,), the next `append` has; the rest of each row is padding.

        >>> cache = KVCache(batch=2, n_kv_head=1, capacity=4, head_width=2)
        >>> cache.expect([3, 1])
        >>> _ = cache.append(torch.ones(2, 1, 3, 2), torch.ones(2, 1, 3, 2))
        >>> cache.lengths
        tensor([3, 1])
        """
        self._expected = torch.as_tensor(counts, device=self.lengths.device)
        self.uniform = False

    def at(self, n: int) -> Positions:
        """Return the positions of n new tokens: an int while all items have the same length, else (B, N)."""
        if self.uniform and not self.static:
            return self.longest
        return self.lengths[:, None] + torch.arange(n, device=self.lengths.device)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values (B, G, N, D), detached; return all stored ones, (B, G, M, D)."""
        n = k.shape[2]
        if k.shape[0] != len(self.lengths) or k.shape[1] != self.k.shape[1]:
            raise Problem(
                "keys are {keys} but the cache is {cache} (batch, heads, …)",
                keys=tuple(k.shape),
                cache=tuple(self.k.shape),
            )
        if not torch.compiler.is_compiling():
            check_counts(self._expected, n)
            used = int(self.lengths.max()) if self.static else self.longest
            if used + n > self.capacity:
                raise Problem(
                    "the cache has room for {capacity} tokens and holds {held}: {n} more don't fit; make it larger or "
                    "shorten the text",
                    capacity=self.capacity,
                    held=used,
                    n=n,
                )
        if self.uniform and not self.static:
            self.k[:, :, self.longest : self.longest + n] = k.detach()  # in the cache's own dtype
            self.v[:, :, self.longest : self.longest + n] = v.detach()
            self.lengths += n
            self.longest += n
        else:
            position = self.lengths[:, None] + torch.arange(n, device=k.device)  # (B, N)
            index = position[:, None, :, None].expand(-1, k.shape[1], -1, 1)
            self.k.scatter_(2, index.expand(-1, -1, -1, k.shape[3]), k.detach().to(self.k.dtype))
            self.v.scatter_(2, index.expand(-1, -1, -1, v.shape[3]), v.detach().to(self.v.dtype))
            self.lengths += n if self._expected is None else self._expected
            if not self.static:
                self.longest = int(self.lengths.max())
        self._expected = None
        stop = self.capacity if self.static else self.longest
        return self.k[:, :, :stop].to(k.dtype), self.v[:, :, :stop].to(v.dtype)

    def place(self, mask: masks.Mask, at: Positions) -> masks.Mask:
        """Return the mask for queries at `at` over the keys that `append` returned.

        >>> cache = KVCache(batch=1, n_kv_head=1, capacity=3, head_width=2, static=True)
        >>> at = cache.at(2)
        >>> _ = cache.append(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
        >>> print(cache.place(masks.causal(), at).draw(2, 3))
        ■ · ·
        ■ ■ ·
        """
        if isinstance(at, int):
            return mask
        return mask.placed(at) & masks.padding(self.lengths.clone())  # a copy: append changes the lengths in place

    def reorder(self, index: Tensor) -> None:
        """Replace item i by item index[i] (beam search).

        >>> cache = KVCache(batch=2, n_kv_head=1, capacity=1, head_width=1)
        >>> k, v = cache.append(torch.tensor([5.0, 7.0]).view(2, 1, 1, 1), torch.zeros(2, 1, 1, 1))
        >>> cache.reorder(torch.tensor([1, 1]))
        >>> cache.k.flatten()
        tensor([7., 7.])
        """
        self.k, self.v, self.lengths = self.k[index], self.v[index], self.lengths[index]

    def reset(self) -> None:
        """Empty the cache and keep its memory.

        >>> cache = KVCache(batch=1, n_kv_head=1, capacity=3, head_width=1)
        >>> _ = cache.append(torch.ones(1, 1, 3, 1), torch.ones(1, 1, 3, 1))
        >>> cache.reset()
        >>> cache.at(1), cache.capacity
        (0, 3)
        """
        self.lengths.zero_()
        self.longest, self.uniform, self.memory, self._expected = 0, True, None, None


class WindowCache:
    """Keys and values of the last `left` + 1 tokens, all that `window(left, 0)` can see: memory does not grow.

    >>> cache = WindowCache(batch=1, n_kv_head=1, left=2, head_width=1)
    >>> for token in range(100):
    ...     at = cache.at(1)
    ...     k, v = cache.append(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    >>> at, k.shape
    (tensor([[99]]), torch.Size([1, 1, 4, 1]))
    >>> print(cache.place(masks.causal(), at).draw(1, 4))
    · ■ ■ ■
    >>> cache.reset()
    >>> cache.expect([0])
    >>> _ = cache.append(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    >>> cache.reorder(torch.tensor([0, 0]))
    >>> cache.lengths
    tensor([0, 0])
    """

    def __init__(
        self,
        batch: int,
        n_kv_head: int,
        left: int,
        head_width: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.size = left + 1
        self.k = torch.zeros(batch, n_kv_head, self.size, head_width, dtype=dtype, device=device)
        self.v = torch.zeros_like(self.k)
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self._expected: Tensor | None = None
        self.keys_at = torch.zeros(batch, 0, dtype=torch.long, device=device)  # of the keys that `append` returned

    def expect(self, counts: Sequence[int] | Tensor) -> None:
        """Announce how many real tokens per item, (B,), the next `append` has; the rest of each row is padding."""
        self._expected = torch.as_tensor(counts, device=self.lengths.device)

    def at(self, n: int) -> Positions:
        """Return the positions (B, N) of n new tokens."""
        return self.lengths[:, None] + torch.arange(n, device=self.lengths.device)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values (B, G, N, D), detached; return the ones before this call followed by the new ones."""
        n, device = k.shape[2], k.device
        check_counts(self._expected, n)
        after = self.lengths + (n if self._expected is None else self._expected)
        fresh = self.lengths[:, None] + torch.arange(n, device=device)  # (B, N)
        self.keys_at = torch.cat([self._slots(self.lengths), torch.where(fresh < after[:, None], fresh, -1)], 1)
        keys, values = torch.cat([self.k.to(k.dtype), k.detach()], 2), torch.cat([self.v.to(v.dtype), v.detach()], 2)

        # Slot s holds the newest position p with p % size == s, from the old slots or from the new keys.
        newest = self._slots(after)  # (B, size)
        slot = torch.arange(self.size, device=device)
        source = torch.where(newest >= self.lengths[:, None], self.size + newest - self.lengths[:, None], slot)
        index = source[:, None, :, None].expand(-1, k.shape[1], -1, k.shape[3])
        self.k, self.v = keys.gather(2, index).to(self.k.dtype), values.gather(2, index).to(self.v.dtype)
        self.lengths, self._expected = after, None
        return keys, values

    def _slots(self, lengths: Tensor) -> Tensor:
        """Return the position in each slot at these lengths, (B, size); −1 if empty."""
        slot = torch.arange(self.size, device=lengths.device)
        last = lengths[:, None] - 1
        newest = last - (last - slot) % self.size
        return torch.where(newest >= 0, newest, -1)

    def place(self, mask: masks.Mask, at: Positions) -> masks.Mask:
        """Return the mask for queries at `at` over the keys that `append` returned."""
        return mask.placed(at, self.keys_at) & masks.window(self.size - 1, None).placed(at, self.keys_at)

    def reorder(self, index: Tensor) -> None:
        """Replace item i by item index[i] (beam search)."""
        self.k, self.v, self.lengths = self.k[index], self.v[index], self.lengths[index]

    def reset(self) -> None:
        """Empty the cache and keep its memory."""
        self.lengths = torch.zeros_like(self.lengths)
        self._expected = None


Cache = KVCache | WindowCache


def check_counts(counts: Tensor | None, n: int) -> None:
    """Raise if the announced counts don't fit n new tokens."""
    if counts is not None and (int(counts.max()) > n or int(counts.min()) < 0):
        raise Problem(
            "the cache expects {counts} new tokens, but the input has {n}: give 0 … {n} per item",
            counts=counts.tolist(),
            n=n,
        )
