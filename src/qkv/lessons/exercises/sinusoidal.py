"""Sinusoidal positions: telling attention where a word stands.

Attention sees a set of words: shuffle them, and the outputs are shuffled, nothing else. So "dog bites man"
and "man bites dog" are alike to it, unless each word vector carries its place. The first Transformer adds a
fixed row per place, sines and cosines of ever slower waves:

    table[p, 2i]     = sin(p / 10000^(2i/C))          i = 0, 1, 2, …
    table[p, 2i + 1] = cos(p / 10000^(2i/C))

A sine and the cosine beside it share one frequency. Column 0 turns once in about 6 places, the last pair
hardly at all: like the hands of a clock. Since sin² + cos² = 1, all rows are equally long, and a step of k
places is the same rotation everywhere.

N places from 0, C the width, which may be odd: then the last sine has no cosine.
----
正弦位置编码：告诉注意力每个词在哪里。

注意力看到的是一组没有次序的词：打乱词，输出只是跟着打乱，别的都不变。所以“狗咬人”和“人咬狗”对它是一样的，除
非每个词向量带上自己的位置。最早的 Transformer 给每个位置加上固定的一行，由越来越慢的正弦波和余弦波组成：

    table[p, 2i]     = sin(p / 10000^(2i/C))          i = 0, 1, 2, …
    table[p, 2i + 1] = cos(p / 10000^(2i/C))

相邻的一个正弦和一个余弦频率相同。第 0 列大约 6 个位置转一圈，最后一对几乎不动：像钟表的指针。因为 sin² +
cos² = 1，每一行一样长；前进 k 个位置，在哪里都是同样的旋转。

N 个位置，从 0 开始；C 是宽度，可以是奇数：这时最后一个正弦没有配对的余弦。
"""

import torch
from torch import Tensor


def sinusoid(n: int, width: int) -> Tensor:
    """The table for places 0 … n−1, (n, width), in float64.
    ----
    位置 0 … n−1 的表，(n, width)，float64。
    ----

    >>> [[round(value, 3) for value in row] for row in sinusoid(3, 4).tolist()]
    [[0.0, 1.0, 0.0, 1.0], [0.841, 0.54, 0.01, 1.0], [0.909, -0.416, 0.02, 1.0]]
    """
    place = torch.arange(n, dtype=torch.float64)[:, None]  # (n, 1)
    # hole
    even = torch.arange(0, width, 2, dtype=torch.float64)  # 0, 2, 4, …: this is 2i | 0, 2, 4, …：即 2i
    angles = place / 10000 ** (even / width)  # (n, ⌈width/2⌉)
    table = torch.empty(n, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(angles)
    table[:, 1::2] = torch.cos(angles)[:, : width // 2]
    return table
    # end


def add_positions(x: Tensor) -> Tensor:
    """Word vectors (B, N, C) with the place of each word added.
    ----
    给词向量 (B, N, C) 加上每个词的位置。
    ----

    >>> [round(value, 3) for value in add_positions(torch.ones(1, 2, 2, dtype=torch.float64))[0, 1].tolist()]
    [1.841, 1.54]
    """
    # hole
    return x + sinusoid(x.shape[1], x.shape[2])
    # end
