"""The KV cache: reading on without reading again.

A GPT writes one word at a time. The keys and values of earlier words never change (no word sees the future),
so they are computed once and kept. Each step then computes q, k and v of the new words only, puts the new k
and v behind the old ones, and lets the new queries look at all of them.

    cache              k and v of the words so far, (B, H, past, D) each, or None at the start
    new words          N of them; they stand at places past … past + N − 1
    keys, values       old and new together, M = past + N
    mask               new word i (at place past + i) may look at keys 0 … past + i

    past = 2, N = 2:   places 2 and 3, four keys, the mask     True  True  True  False
                                                               True  True  True  True

Three things go wrong easily: the places (rotary positions must count on, not start at 0 again), the mask
(aligned so that the last query sees all; and several new words at once must not see each other's future),
and the order (old first). Chunk by chunk must give the same numbers as all at once.

B sentences, H heads, D head width, N new words, M words in all.
----
KV 缓存：接着读，不用重读。

GPT 一次写一个词。前面的词的键和值不会再变（谁也看不到后文），所以只算一次，存起来。之后每一步只算新词的 q、
k、v，把新的 k、v 接在旧的后面，让新的查询看全部的键。

    cache              到目前为止的 k 和 v，各 (B, H, past, D)，开始时为 None
    新词               N 个，位置是 past … past + N − 1
    键、值             旧的加新的，M = past + N
    掩码               第 i 个新词（位置 past + i）可以看键 0 … past + i

    past = 2，N = 2：  位置 2 和 3，四个键，掩码               True  True  True  False
                                                               True  True  True  True

有三处容易出错：位置（旋转位置编码要接着数，不能又从 0 开始），掩码（要右下对齐，让最后一个查询看到全部；一次
来几个新词时，它们也不能看到彼此的后文），顺序（旧的在前）。保证：分块算与一次算完，结果相同。

B 个句子，H 个头，D 是头的宽度，N 个新词，共 M 个词。
"""

import torch
from torch import Tensor, nn


def split(x: Tensor, n_head: int) -> Tensor:
    """Given: (B, N, C) → (B, H, N, D).
    ----
    已给出：(B, N, C) → (B, H, N, D)。
    """
    return x.unflatten(-1, (n_head, -1)).transpose(1, 2)


def rotate(x: Tensor, places: Tensor) -> Tensor:
    """Given: rotary positions, x (B, H, N, D) at places (N,).
    ----
    已给出：旋转位置编码，x (B, H, N, D) 位于 places (N,)。
    """
    half = x.shape[-1] // 2
    angles = places[:, None] * 10000 ** -(torch.arange(half, dtype=x.dtype) * 2 / x.shape[-1])
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


class CachedAttention(nn.Module):
    """Causal self-attention with rotary positions that can go on where it stopped.
    ----
    带旋转位置编码的因果自注意力，可以从停下的地方继续。
    """

    def __init__(self, width: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """New words x (B, N, C) and what was returned last time → (output (B, N, C), the cache for next
        time).
        ----
        新词 x (B, N, C) 和上一次返回的缓存 →（输出 (B, N, C)，下一次用的缓存）。
        ----

        >>> attention, x = CachedAttention(8, 2), torch.randn(1, 3, 8)
        >>> whole, _ = attention(x)
        >>> begin, cache = attention(x[:, :2])
        >>> end, cache = attention(x[:, 2:], cache)
        >>> torch.allclose(torch.cat([begin, end], dim=1), whole, atol=1e-6), cache[0].shape
        (True, torch.Size([1, 2, 3, 4]))
        """
        q, k, v = (split(project(x), self.n_head) for project in (self.q, self.k, self.v))  # (B, H, N, D)
        # hole
        past = 0 if cache is None else cache[0].shape[2]
        places = torch.arange(past, past + x.shape[1])
        q, k = rotate(q, places), rotate(k, places)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)  # (B, H, M, D)
        allowed = torch.arange(k.shape[2]) <= places[:, None]  # (N, M)
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~allowed, float("-inf"))
        heads = torch.softmax(scores, dim=-1) @ v
        return self.out(heads.transpose(1, 2).flatten(2)), (k, v)
        # end
