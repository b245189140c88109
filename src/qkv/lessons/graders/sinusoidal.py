"""The table against `attention.steps.sinusoid`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...attention.steps import sinusoid as right
from ...words import Both
from ..exercises import sinusoidal as solved
from ..grade import calls, furthest
from ..lesson import Lesson, Wrong

RNG = np.random.default_rng(13)
SIZES = [(3, 4), (7, 6), (1, 2), (50, 16), (4, 5)]
WORDS = [torch.from_numpy(RNG.normal(size=shape)) for shape in ((2, 3, 4), (3, 3, 6), (1, 5, 8))]


def _table(
    n: int, width: int, exponent: Any = None, base: float = 10000.0, start: int = 0, cos: Any = None, pairs: Any = None
) -> Tensor:
    """The table with the exponent of base for column pair i, the cosine's if it has its own, and the way sines and cosines are laid out."""
    i = torch.arange((width + 1) // 2, dtype=torch.float64)
    place = torch.arange(start, start + n, dtype=torch.float64)[:, None]
    own = (lambda i: 2 * i / width) if exponent is None else exponent
    sines = torch.sin(place / base ** own(i))
    cosines = torch.cos(place / base ** (cos or own)(i))[:, : width // 2]
    if pairs is not None:
        return pairs(sines, cosines)
    table = torch.empty(n, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = sines, cosines
    return table


def doubled(n: int, width: int) -> Tensor:
    return _table(n, width, lambda i: 4 * i / width)


def halved(n: int, width: int) -> Tensor:
    return _table(n, width, lambda i: i / width)


def own_column(n: int, width: int) -> Tensor:
    return _table(n, width, cos=lambda i: (2 * i + 1) / width)


def next_pair(n: int, width: int) -> Tensor:
    return _table(n, width, cos=lambda i: (2 * i + 2) / width)


def base_1000(n: int, width: int) -> Tensor:
    return _table(n, width, base=1000.0)


def from_one(n: int, width: int) -> Tensor:
    return _table(n, width, start=1)


def swapped(n: int, width: int) -> Tensor:
    i = torch.arange((width + 1) // 2, dtype=torch.float64)
    angles = torch.arange(n, dtype=torch.float64)[:, None] / 10000 ** (2 * i / width)
    table = torch.empty(n, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = torch.cos(angles), torch.sin(angles)[:, : width // 2]
    return table


def halves(n: int, width: int) -> Tensor:
    return _table(n, width, pairs=lambda sines, cosines: torch.cat([sines, cosines], 1))


def times(n: int, width: int) -> Tensor:
    return _table(n, width, lambda i: -2 * i / width)


def whole_width(n: int, width: int) -> Tensor:
    return _table(n, width, lambda i: i / max((width + 1) // 2 - 1, 1))


def even_only(n: int, width: int) -> Tensor:
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angles = torch.arange(n, dtype=torch.float64)[:, None] / 10000 ** (even / width)
    table = torch.empty(n, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(angles)
    table[:, 1::2] = torch.cos(angles)
    return table


def scaled_words(x: Tensor) -> Tensor:
    return x * x.shape[-1] ** 0.5 + solved.sinusoid(x.shape[1], x.shape[2])


def by_batch(x: Tensor) -> Tensor:
    return x + solved.sinusoid(x.shape[0], x.shape[2])[:, None]


def multiplied(x: Tensor) -> Tensor:
    return x * solved.sinusoid(x.shape[1], x.shape[2])


def only_table(x: Tensor) -> Tensor:
    return solved.sinusoid(x.shape[1], x.shape[2]).expand(x.shape)


LESSON = Lesson(
    questions=[
        *(calls("sinusoid", right, *size, names="n width") for size in SIZES),
        *(calls("add_positions", lambda x: x.numpy() + right(*x.shape[1:]), x, names="x") for x in WORDS),
    ],
    wrongs=[
        Wrong(
            "doubled",
            {"sinusoid": doubled},
            Both(
                "the exponent is doubled: torch.arange(0, width, 2) is 2i already, so 10000^(2·2i/C) slows down twice as fast ({got} instead of {want}). "
                "Use it as it is: even / width.",
                "指数多乘了一个 2：torch.arange(0, width, 2) 已经是 2i，10000^(2·2i/C) 会慢得过快（{got}，应为 {want}）。直接用 even / width。",
            ),
            furthest,
        ),
        Wrong(
            "halved",
            {"sinusoid": halved},
            Both(
                "the exponent is i/C where 2i/C is right ({got} instead of {want}): i counts pairs of columns, the exponent needs 2i.",
                "指数是 i/C，应为 2i/C（{got}，应为 {want}）：i 数的是列的对数，指数要用 2i。",
            ),
            furthest,
        ),
        Wrong(
            "own column",
            {"sinusoid": own_column},
            Both(
                "your cosines have their own frequency, with 2i + 1 in the exponent. A sine and its cosine share 2i: only so sin² + cos² = 1.",
                "你的余弦用了自己的频率（指数里是 2i + 1）。正弦和它旁边的余弦共用 2i：这样才有 sin² + cos² = 1。",
            ),
        ),
        Wrong(
            "next pair",
            {"sinusoid": next_pair},
            Both(
                "your cosines have the frequency of the next pair, 2i + 2. A sine and its cosine share 2i.",
                "你的余弦用了下一对的频率 2i + 2。正弦和它旁边的余弦共用 2i。",
            ),
        ),
        Wrong(
            "base 1000",
            {"sinusoid": base_1000},
            Both("the base is 1000 in yours; 10000 is right.", "你的底数是 1000，应为 10000。"),
        ),
        Wrong(
            "from one",
            {"sinusoid": from_one},
            Both("places count from 0: your first row is that of place 1.", "位置从 0 数起：你的第一行是位置 1 的。"),
        ),
        Wrong(
            "swapped",
            {"sinusoid": swapped},
            Both(
                "sines and cosines changed places: row 0 is [0, 1, 0, 1, …], sine first.",
                "正弦和余弦换了位置：第 0 行应是 [0, 1, 0, 1, …]，正弦在前。",
            ),
        ),
        Wrong(
            "halves",
            {"sinusoid": halves},
            Both(
                "all sines first, then all cosines: some models do that, but here they take turns, table[:, 0::2] and table[:, 1::2].",
                "先放全部正弦，再放全部余弦：有的模型这样做，但这里是交替放，table[:, 0::2] 和 table[:, 1::2]。",
            ),
        ),
        Wrong(
            "times",
            {"sinusoid": times},
            Both(
                "the waves get faster instead of slower: the place is multiplied by 10000^(2i/C). Divide.",
                "波越来越快，而不是越来越慢：位置乘以了 10000^(2i/C)。应除以它。",
            ),
        ),
        Wrong(
            "whole width",
            {"sinusoid": whole_width},
            Both(
                "your exponent runs from 0 to 1 exactly, i / (C/2 − 1). In the paper it is 2i/C and stays below 1.",
                "你的指数恰好从 0 到 1，即 i / (C/2 − 1)。论文里是 2i/C，始终小于 1。",
            ),
        ),
        Wrong(
            "even only",
            {"sinusoid": even_only},
            Both(
                "right for even widths. With width 5 there are three sines but only two places for cosines: cut them, [:, : width // 2].",
                "偶数宽度时是对的。宽度为 5 时有三个正弦，余弦只有两个位置：截掉多的，[:, : width // 2]。",
            ),
        ),
        Wrong(
            "scaled words",
            {"add_positions": scaled_words},
            Both(
                "the word vectors are multiplied by √C first. The whole Transformer does that to its embeddings, but here only the place is added.",
                "词向量先乘以了 √C。完整的 Transformer 会对嵌入这样做，但这里只加位置。",
            ),
        ),
        Wrong(
            "by batch",
            {"add_positions": by_batch},
            Both(
                "the table is counted along the batch: every word of a sentence gets the same row. Places run along axis 1: x.shape[1].",
                "表是沿批次数的：同一句的每个词得到同一行。位置沿轴 1：x.shape[1]。",
            ),
        ),
        Wrong(
            "multiplied",
            {"add_positions": multiplied},
            Both("positions are added, not multiplied.", "位置是加上去的，不是乘。"),
        ),
        Wrong(
            "only table",
            {"add_positions": only_table},
            Both("the words are gone: x + table, not the table alone.", "词没有了：应是 x + 表，而不是只有表。"),
        ),
    ],
    hints=[
        Both(
            "`torch.arange(0, width, 2)` is 0, 2, 4, …, which is 2i. One frequency per pair of columns.",
            "`torch.arange(0, width, 2)` 是 0、2、4……，也就是 2i。每对列一个频率。",
        ),
        Both(
            "`angles = place / 10000 ** (even / width)` is (n, ⌈width/2⌉): a column of places by a row of frequencies.",
            "`angles = place / 10000 ** (even / width)` 是 (n, ⌈width/2⌉)：一列位置对一行频率。",
        ),
        Both(
            "`table[:, 0::2]` are the even columns, `table[:, 1::2]` the odd ones: sines there, cosines here, `[:, : width // 2]` of them.",
            "`table[:, 0::2]` 是偶数列，放正弦；`table[:, 1::2]` 是奇数列，放余弦，取前 `width // 2` 个。",
        ),
    ],
    after=Both(
        "Learned tables do as well in training, but end at the longest text seen. The next exercise turns q and k instead of adding.",
        "学出来的位置表训练时效果一样好，但到见过的最长文本为止。下一个练习不再相加，而是旋转 q 和 k。",
    ),
)
