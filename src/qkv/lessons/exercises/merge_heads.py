"""Merging heads: multi-head attention, whole.

After attention every head has its own output, (B, H, N, D). The heads are put side by side again, the way
they were cut, and a last matrix W_o mixes their outputs:

    heads    (B, H, N, D)
    turned   (B, N, H, D)      words in front again: transpose(1, 2)
    merged   (B, N, H·D)       the H rows of D as one row of C
    output   merged·W_o        (B, N, C)

Without the transpose the shape is right and the numbers are not: words get mixed with one another. Nothing
crashes, and the model trains, worse.

B sentences, N words, H heads, D head width, C = H·D model width. Masks: True = may attend, of any shape
that fits (B, H, N, N).
----
合并各个头：完整的多头注意力。

注意力之后，每个头有自己的输出 (B, H, N, D)。要照切开时的样子把各个头并排放回去，最后用矩阵 W_o 把它们找到的
内容混合：

    heads    (B, H, N, D)
    换轴     (B, N, H, D)      词又回到前面：transpose(1, 2)
    合并     (B, N, H·D)       H 行、每行 D 个，变成一行 C 个
    输出     merged·W_o        (B, N, C)

少了换轴，形状是对的，数却不对：不同的词混在了一起。程序不会报错，模型也能训练，只是更差。

B 个句子，N 个词，H 个头，D 是头的宽度，C = H·D 是模型宽度。掩码：True = 可以看，形状只要能对上 (B, H, N, N)。
"""

import torch
from torch import Tensor, nn


def split(x: Tensor, n_head: int) -> Tensor:
    """Given: (B, N, C) → (B, H, N, D).
    ----
    已给出：(B, N, C) → (B, H, N, D)。
    """
    return x.unflatten(-1, (n_head, -1)).transpose(1, 2)


def merge(heads: Tensor) -> Tensor:
    """The way back: (B, H, N, D) → (B, N, H·D).
    ----
    反过来：(B, H, N, D) → (B, N, H·D)。
    ----

    >>> merge(torch.tensor([[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]])).tolist()
    [[[1, 2, 3, 4], [5, 6, 7, 8]]]
    """
    # hole
    return heads.transpose(1, 2).flatten(2)
    # end


class MultiHeadAttention(nn.Module):
    """Self-attention with n_head heads.
    ----
    n_head 个头的自注意力。
    """

    def __init__(self, width: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, N, C), mask True = may attend → (B, N, C): project, split, attend, merge, self.out.
        ----
        x (B, N, C)，mask 里 True = 可以看 → (B, N, C)：投影，拆分，注意力，合并，self.out。
        """
        # hole
        q, k, v = (split(project(x), self.n_head) for project in (self.q, self.k, self.v))  # (B, H, N, D)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (B, H, N, N)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.out(merge(torch.softmax(scores, dim=-1) @ v))
        # end
