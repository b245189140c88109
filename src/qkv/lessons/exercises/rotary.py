"""Rotary positions: turning q and k by their place.

Most models today add nothing to the words. They take the D numbers of a query or key as D/2 pairs, each a
point in the plane, and rotate each point by an angle that grows with the place p of the word:

    pair i = (xᵢ, xᵢ₊D/2)         its angle at place p:   θ = p / 10000^(2i/D)          i = 0 … D/2 − 1

    a' = a·cos θ − b·sin θ
    b' = b·cos θ + a·sin θ         (a the first, b the second of the pair)

A query rotated by p and a key rotated by r differ by the angle p − r: their score depends on how far apart
the words are, not on where they stand. Lengths don't change, and place 0 is not rotated. The values v are
left alone.

Here the pairs are made of the two halves, as in Hugging Face's LLaMA: number i goes with number i + D/2.

B sentences, H heads, N words, D head width (even).
----
旋转位置编码：按位置转动 q 和 k。

如今的大多数模型不给词向量加位置编码，而是把查询或键的 D 个数看成 D/2 对，每一对是平面上的一个点，再把每个点
转过一个角度，角度随词的位置 p 增大：

    第 i 对 = (xᵢ, xᵢ₊D/2)         在位置 p 的角度：   θ = p / 10000^(2i/D)          i = 0 … D/2 − 1

    a' = a·cos θ − b·sin θ
    b' = b·cos θ + a·sin θ         （a 是一对中的前一个，b 是后一个）

查询按位置 p 旋转，键按位置 r 旋转，两者的夹角只随 p − r 变化：分数只取决于两个词相距多远，与它们在哪里无关。
向量的长度不变，位置 0 不旋转，值 v 不动。

这里的对由前后两半组成，与 Hugging Face 的 LLaMA 相同：第 i 个数与第 i + D/2 个数配对。

B 个句子，H 个头，N 个词，D 是头的宽度（偶数）。
"""

import torch
from torch import Tensor


def rotate(x: Tensor, places: Tensor) -> Tensor:
    """x (B, H, N, D), queries or keys, rotated by their places (N,) → (B, H, N, D).
    ----
    把查询或键 x (B, H, N, D) 转到各自的位置 places (N,) → (B, H, N, D)。
    ----

    >>> x = torch.tensor([[[[1.0, 1.0, 0.0, 0.0]]]])
    >>> [round(value, 3) for value in rotate(x, torch.tensor([1]))[0, 0, 0].tolist()]
    [0.54, 1.0, 0.841, 0.01]
    """
    # hole
    half = x.shape[-1] // 2
    frequencies = 10000 ** -(torch.arange(half, dtype=x.dtype) * 2 / x.shape[-1])  # (D/2,)
    angles = places[:, None] * frequencies  # (N, D/2)
    cos, sin = torch.cos(angles), torch.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    # end
