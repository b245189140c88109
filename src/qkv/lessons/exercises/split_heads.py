"""Many heads: cutting the width into pieces.

One softmax can look for one thing at a time. So the width C is cut into H heads of D = C / H numbers each,
and every head attends by itself, with its own weights. Head 0 gets the numbers 0 … D−1 of every word, head
1 the next D, and so on:

    x       (B, N, C)        C = H·D
    cut     (B, N, H, D)     each word's C numbers as H rows of D
    turned  (B, H, N, D)     heads in front, so that each head sees N words of width D

Both steps are needed. A reshape straight to (B, H, N, D) gives the right shape and the wrong numbers: it
cuts the sentence, not the words. A head is D wide, so its scores are divided by √D, not √C.

B sentences, N queries, M keys, H heads, D head width, C = H·D model width.
----
多头：把宽度切成几份。

一个 softmax 一次只能找一样东西。所以把宽度 C 切成 H 个头，每个头 D = C / H 个数，各自做注意力，有自己的权重。
第 0 个头拿每个词的第 0 … D−1 个数，第 1 个头拿接下来的 D 个，依此类推：

    x       (B, N, C)        C = H·D
    切开    (B, N, H, D)     每个词的 C 个数变成 H 行，每行 D 个
    换轴    (B, H, N, D)     头放到前面，这样每个头看到 N 个宽度为 D 的词

两步都要。直接 reshape 成 (B, H, N, D) 形状对，数却不对：它切的是句子，而不是每个词。
一个头的宽度是 D，所以分数除以 √D，不是 √C。

B 个句子，N 个查询，M 个键，H 个头，D 是头的宽度，C = H·D 是模型宽度。
"""

import torch
from torch import Tensor


def split(x: Tensor, n_head: int) -> Tensor:
    """(B, N, C) → (B, H, N, D), neighbouring numbers of a word to one head.
    ----
    (B, N, C) → (B, H, N, D)，每个头拿一个词里相邻的数。
    ----

    >>> split(torch.tensor([[[1, 2, 3, 4], [5, 6, 7, 8]]]), 2).tolist()
    [[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]]
    """
    # hole
    batch, n, width = x.shape
    return x.reshape(batch, n, n_head, width // n_head).transpose(1, 2)
    # end


def head_weights(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    """The weights of every head: q (B, N, C), k (B, M, C) → (B, H, N, M), each row adding up to 1.
    ----
    每个头的权重：q (B, N, C)，k (B, M, C) → (B, H, N, M)，每行加起来是 1。
    ----

    >>> q, k = torch.tensor([[[2.0, 0.0]]]), torch.tensor([[[1.0, 9.0], [0.0, 0.0]]])
    >>> [[round(w, 3) for w in head[0]] for head in head_weights(q, k, 2)[0].tolist()]
    [[0.881, 0.119], [0.5, 0.5]]
    """
    # hole
    q, k = split(q, n_head), split(k, n_head)
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
    # end
