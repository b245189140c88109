"""An encoder layer: attention, and then each word thinks for itself.

A Transformer is a stack of equal layers. Each does two things to every word, and each is added to what the
word was:

    x = x + attention(norm₁(x))           words exchange information
    x = x + feed_forward(norm₂(x))        each word by itself:  relu(x·W_up)·W_down

The sum is the residual connection: x itself passes through all layers unchanged, and gradients come back
undamped. The norm comes before each part, on the branch only ("pre-norm"; the first Transformer had it
after the sum, which trains less easily). The second line starts from the x of the first line, not from the
layer's input.

B sentences, N words, C width. Masks: True = may attend.
----
编码器层：先做注意力，再让每个词各自处理。

Transformer 是许多相同的层叠起来的。每层对每个词做两件事，每次都加到这个词原来的向量上：

    x = x + attention(norm₁(x))           词与词交换信息
    x = x + feed_forward(norm₂(x))        每个词各自处理：  relu(x·W_up)·W_down

这个相加叫残差连接：一条贯穿各层的直通路径，x 在上面原样通过，梯度也能无衰减地传回。归一化放在每个子层之前，
只在支路上（“pre-norm”；最早的 Transformer 放在相加之后，较难训练）。第二行从第一行得到的 x 开始，而不是从层的
输入开始。

B 个句子，N 个词，宽度 C。掩码：True = 可以看。
"""

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Given: what you wrote in “merging heads”.
    ----
    已给出：“合并各个头”里写过。
    """

    def __init__(self, width: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, N, C), mask True = may attend → (B, N, C).
        ----
        x (B, N, C)，mask 里 True = 可以看 → (B, N, C)。
        """
        q, k, v = (part(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """Pre-norm: x + attention(norm1(x)), then x + feed-forward(norm2(x)).
    ----
    Pre-norm：先 x + attention(norm1(x))，再 x + feed-forward(norm2(x))。
    """

    def __init__(self, width: int, n_head: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(width, n_head)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, N, C), mask for the attention → (B, N, C). If both parts give 0, the output is x:
        ----
        x (B, N, C)，mask 交给注意力 → (B, N, C)。两个分支输出都为零时，x 原样返回：
        ----

        >>> layer = EncoderLayer(4, 2, 8)
        >>> for silent in (layer.attention.out.weight, layer.down.weight, layer.down.bias):
        ...     _ = nn.init.zeros_(silent)
        >>> layer(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])).tolist()
        [[[1.0, 2.0, 3.0, 4.0]]]
        """
        # hole
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(torch.relu(self.up(self.norm2(x))))
        # end
