"""Cutting into heads, and the weights of each."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...attention.steps import from_qkv
from ...words import Both
from ..exercises import split_heads as solved
from ..grade import calls, furthest, shapes, sums
from ..lesson import Lesson, Wrong

RNG = np.random.default_rng(11)


def _x(*shape: int) -> Tensor:
    return torch.from_numpy(RNG.normal(size=shape) * 2)


SPLITS = [(_x(2, 3, 8), 4), (_x(1, 5, 6), 2), (_x(3, 4, 4), 4), (_x(2, 2, 9), 3), (_x(2, 3, 5), 1)]
PAIRS = [
    (_x(2, 3, 8), _x(2, 5, 8), 4),
    (_x(1, 4, 6), _x(1, 4, 6), 3),
    (_x(3, 1, 4), _x(3, 2, 4), 1),
    (_x(2, 3, 12), _x(2, 3, 12), 2),
]


def right_split(x: Tensor, n_head: int) -> Any:
    wide = x.shape[-1] // n_head
    return np.stack([x.numpy()[..., h * wide : (h + 1) * wide] for h in range(n_head)], axis=1)


def right(q: Tensor, k: Tensor, n_head: int) -> Any:
    k = right_split(k, n_head)
    return from_qkv(right_split(q, n_head), k, k).weights


def view_only(x: Tensor, n_head: int) -> Tensor:
    return x.reshape(x.shape[0], n_head, x.shape[1], -1)


def unturned(x: Tensor, n_head: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], n_head, -1)


def strided(x: Tensor, n_head: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], -1, n_head).permute(0, 3, 1, 2)


def turned_wrong(x: Tensor, n_head: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], n_head, -1).permute(0, 2, 3, 1)


def heads_first(x: Tensor, n_head: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], n_head, -1).permute(2, 0, 1, 3)


def width_is_heads(x: Tensor, n_head: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], -1, n_head).transpose(1, 2)


def joined(x: Tensor, n_head: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], n_head, -1).transpose(1, 2).flatten(0, 1)


def _weights(
    q: Tensor, k: Tensor, n_head: int, by: float | None = None, dim: int = -1, split: Any = solved.split
) -> Tensor:
    q, k = split(q, n_head), split(k, n_head)
    return torch.softmax(q @ k.transpose(-1, -2) / (q.shape[-1] ** 0.5 if by is None else by), dim=dim)


def by_width(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return _weights(q, k, n_head, q.shape[-1] ** 0.5)


def by_heads(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return _weights(q, k, n_head, n_head**0.5)


def unscaled(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return _weights(q, k, n_head, 1.0)


def over_heads(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return _weights(q, k, n_head, dim=1)


def over_queries(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return _weights(q, k, n_head, dim=-2)


def no_softmax(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    q, k = solved.split(q, n_head), solved.split(k, n_head)
    return q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5


def one_head(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return _weights(q, k, 1).repeat(1, n_head, 1, 1)


def unsplit(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)


def viewed(q: Tensor, k: Tensor, n_head: int) -> Tensor:
    return _weights(q, k, n_head, split=view_only)


LESSON = Lesson(
    questions=[
        *(calls("split", right_split, *given, names="x n_head") for given in SPLITS),
        *(calls("head_weights", right, *given, names="q k n_head") for given in PAIRS),
    ],
    wrongs=[
        Wrong(
            "view only",
            {"split": view_only},
            Both(
                "right shape, wrong numbers: a reshape straight to (B, H, N, D) cuts the sentence into H stretches, and a head sees numbers of different words as "
                "one. Reshape to (B, N, H, D), then transpose(1, 2).",
                "形状对，数不对：直接 reshape 成 (B, H, N, D) 是把句子切成了 H 段，一个头看到的是不同词的数拼在一起。先 reshape 成 (B, N, H, D)，再 transpose(1, 2)。",
            ),
        ),
        Wrong(
            "unturned",
            {"split": unturned},
            Both(
                "you have {shape}: cut rightly, but words are still in front of heads. transpose(1, 2) makes it {right}.",
                "你得到 {shape}：切得对，但词还在头的前面。transpose(1, 2) 之后是 {right}。",
            ),
            shapes,
        ),
        Wrong(
            "strided",
            {"split": strided},
            Both(
                "each head got every H-th number (0, H, 2H, …). A head gets D neighbours: the sizes in the reshape are (…, H, D), not (…, D, H).",
                "每个头拿的是每隔 H 个的数（0、H、2H……）。一个头应拿相邻的 D 个：reshape 的顺序是 (…, H, D)，不是 (…, D, H)。",
            ),
        ),
        Wrong(
            "turned wrong",
            {"split": turned_wrong},
            Both(
                "you have {shape}; {right} is right: words and head width changed places. Only the axes 1 and 2 swap.",
                "你得到 {shape}，应为 {right}：词和头宽换了位置。只交换轴 1 和轴 2。",
            ),
            shapes,
        ),
        Wrong(
            "heads first",
            {"split": heads_first},
            Both(
                "you have {shape}: the heads stand before the batch. The batch stays in front: {right}.",
                "你得到 {shape}：头放到了批次前面。批次要留在最前：{right}。",
            ),
            shapes,
        ),
        Wrong(
            "width is heads",
            {"split": width_is_heads},
            Both(
                "you have {shape}: n_head is how many heads there are, not how wide one is. Its width is C // n_head; {right} is right.",
                "你得到 {shape}：n_head 是头的个数，不是头的宽度。宽度是 C // n_head；应为 {right}。",
            ),
            shapes,
        ),
        Wrong(
            "joined",
            {"split": joined},
            Both(
                "you have {shape}: batch and heads became one axis. Keep them apart: {right}.",
                "你得到 {shape}：批次和头合成了一个轴。请分开：{right}。",
            ),
            shapes,
        ),
        Wrong(
            "by width",
            {"head_weights": by_width},
            Both(
                "you divide by √C, the width of the model ({got} instead of {want}): one of the commonest mistakes in published code. After the split, d is the head's width, "
                "q.shape[-1] of the split q.",
                "你除以了模型宽度的 √C（{got}，应为 {want}）：这是公开代码里最常见的错误之一。拆分之后 d 是头的宽度，即拆分后 q 的 q.shape[-1]。",
            ),
            furthest,
        ),
        Wrong(
            "by heads",
            {"head_weights": by_heads},
            Both(
                "you divide by the root of the number of heads. It is the head's width: √D.",
                "你除以了头数的平方根。应是头的宽度：√D。",
            ),
        ),
        Wrong(
            "unscaled",
            {"head_weights": unscaled},
            Both("the scores aren't scaled: divide by √D.", "分数没有缩放：除以 √D。"),
        ),
        Wrong(
            "over heads",
            {"head_weights": over_heads},
            Both(
                "a row of yours adds up to {sum}: the softmax runs over the heads (dim=1), which then share one 1 between them. dim=-1, the keys.",
                "你的一行加起来是 {sum}：softmax 沿头的方向（dim=1）做了，各个头共分一个 1。应是 dim=-1，即键。",
            ),
            sums,
        ),
        Wrong(
            "over queries",
            {"head_weights": over_queries},
            Both(
                "a row of yours adds up to {sum}: the softmax runs over the queries (dim=-2). dim=-1, the keys.",
                "你的一行加起来是 {sum}：softmax 沿查询（dim=-2）做了。应是 dim=-1，即键。",
            ),
            sums,
        ),
        Wrong(
            "no softmax",
            {"head_weights": no_softmax},
            Both(
                "these are the scores, {got} for instance; the softmax is missing.",
                "这是分数（例如 {got}），少了 softmax。",
            ),
            furthest,
        ),
        Wrong(
            "one head",
            {"head_weights": one_head},
            Both(
                "all heads have the same weights: they were computed from the whole width and copied. Split q and k first.",
                "所有头的权重都一样：是用整个宽度算好再复制的。要先拆分 q 和 k。",
            ),
        ),
        Wrong(
            "unsplit",
            {"head_weights": unsplit},
            Both(
                "you have {shape}, one head: q and k were not split. {right} is right.",
                "你得到 {shape}，只有一个头：q 和 k 没有拆分。应为 {right}。",
            ),
            shapes,
        ),
        Wrong(
            "viewed",
            {"head_weights": viewed},
            Both(
                "here heads were cut by a reshape straight to (B, H, N, D). Use your split.",
                "这里的头是直接 reshape 成 (B, H, N, D) 切的。请用你写的 split。",
            ),
        ),
    ],
    hints=[
        Both(
            "Take the shape apart: `batch, n, width = x.shape`. A head's width is `width // n_head`.",
            "先取出形状：`batch, n, width = x.shape`。头的宽度是 `width // n_head`。",
        ),
        Both(
            "First `.reshape(batch, n, n_head, width // n_head)`, which leaves every word together; then `.transpose(1, 2)`.",
            "先 `.reshape(batch, n, n_head, width // n_head)`，每个词仍在一起；再 `.transpose(1, 2)`。",
        ),
        Both(
            "head_weights: split both, `q @ k.transpose(-1, -2)`, divide by the root of the split q.shape[-1], softmax over dim=-1.",
            "head_weights：两个都拆分，`q @ k.transpose(-1, -2)`，除以拆分后 q.shape[-1] 的平方根，softmax 用 dim=-1。",
        ),
    ],
    after=Both(
        "Each head now looks for something of its own. `qkv see` shows what the heads of a real model look for.",
        "现在每个头都可以找自己的东西。`qkv see` 能看到真实模型的各个头在找什么。",
    ),
)
