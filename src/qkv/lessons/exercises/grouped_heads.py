"""Grouped heads (GQA): many queries share few keys.

While a model writes, it keeps the keys and values of every word so far, and that memory grows with the
number of heads. So newer models have fewer heads of keys and values than of queries: H query heads, G
key/value heads, and H / G neighbouring query heads share one. G = H is what you wrote before, G = 1 is
called MQA.

    H = 6, G = 2:    query heads 0, 1, 2 use key/value head 0;   3, 4, 5 use head 1

    k     (B, G, N, D)
    k for every query head     (B, H, N, D):    0, 0, 0, 1, 1, 1     each head repeated H/G times in place

LLaMA, Qwen and Mistral do it in this order. Repeating the whole row instead (0, 1, 0, 1, 0, 1) has the
right shape and gives each query the wrong partner.

B sentences, N words, H query heads, G key/value heads, D head width, C = H·D. Masks: True = may attend.
----
分组查询注意力（GQA）：多个查询头共用少数键/值头。

模型生成时要保留前面每个词的键和值，这份内存随头数增长。所以较新的模型里，键和值的头比查询的头少：H 个查询
头，G 个键/值头，相邻的 H / G 个查询头共用一个。G = H 就是前面写过的，G = 1 叫 MQA。

    H = 6，G = 2：    查询头 0、1、2 用键/值头 0；   3、4、5 用头 1

    k     (B, G, N, D)
    给每个查询头的 k     (B, H, N, D)：    0, 0, 0, 1, 1, 1     每个头原地重复 H/G 次

LLaMA、Qwen、Mistral 都是这个顺序。如果整排重复（0, 1, 0, 1, 0, 1），形状是对的，但每个查询头配错了键/值头。

B 个句子，N 个词，H 个查询头，G 个键/值头，D 是头的宽度，C = H·D。掩码：True = 可以看。
"""

import torch
from torch import Tensor, nn


def split(x: Tensor, heads: int) -> Tensor:
    """Given: (B, N, heads·D) → (B, heads, N, D).
    ----
    已给出：(B, N, heads·D) → (B, heads, N, D)。
    """
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def spread(x: Tensor, n_head: int) -> Tensor:
    """Keys or values (B, G, N, D) → (B, H, N, D): the one each query head uses.
    ----
    键或值 (B, G, N, D) → (B, H, N, D)：每个查询头所用的那一个。
    ----

    >>> spread(torch.tensor([[[[1]], [[2]]]]), 6).flatten().tolist()
    [1, 1, 1, 2, 2, 2]
    """
    # hole
    return x.repeat_interleave(n_head // x.shape[1], dim=1)
    # end


class GroupedQueryAttention(nn.Module):
    """Self-attention with n_head query heads and n_kv_head heads of keys and values.
    ----
    n_head 个查询头、n_kv_head 个键/值头的自注意力。
    """

    def __init__(self, width: int, n_head: int, n_kv_head: int) -> None:
        super().__init__()
        self.n_head, self.n_kv_head = n_head, n_kv_head
        head_width = width // n_head
        self.q = nn.Linear(width, n_head * head_width, bias=False)
        self.k = nn.Linear(width, n_kv_head * head_width, bias=False)
        self.v = nn.Linear(width, n_kv_head * head_width, bias=False)
        self.out = nn.Linear(n_head * head_width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, N, C), mask True = may attend → (B, N, C).
        ----
        x (B, N, C)，mask 里 True = 可以看 → (B, N, C)。
        """
        # hole
        q = split(self.q(x), self.n_head)  # (B, H, N, D)
        k, v = (spread(split(project(x), self.n_kv_head), self.n_head) for project in (self.k, self.v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        heads = torch.softmax(scores, dim=-1) @ v  # (B, H, N, D)
        return self.out(heads.transpose(1, 2).flatten(2))
        # end
