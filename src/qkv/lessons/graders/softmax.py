"""Softmax on two, three and one axes, with huge numbers and −inf."""

import numpy as np

from ...attention.steps import Array
from ...attention.steps import softmax as right
from ...words import Both
from ..grade import calls, furthest, row, sums
from ..lesson import Lesson, Wrong

RNG = np.random.default_rng(4)
HUGE = np.array([[1000.0, 999.0, 0.0], [3.0, 1.0, 2.0]])
APART = np.array([[900.0, 901.0], [-900.0, -902.0]])
HIDDEN = np.array([[1.0, -np.inf, 2.0, 0.0], [-np.inf, -np.inf, 0.5, -np.inf]])
GIVEN = [
    RNG.normal(size=(3, 5)),
    RNG.normal(size=(2, 3, 4)) * 3,
    RNG.normal(size=(4, 4)),
    RNG.normal(size=6),
    HIDDEN,
    APART,
    HUGE,
]


def unstable(x: Array) -> Array:
    powers = np.exp(x)
    return powers / powers.sum(-1, keepdims=True)


def covered(x: Array) -> Array:
    return np.nan_to_num(unstable(x))


def over_rows(x: Array) -> Array:
    powers = np.exp(x - x.max(0, keepdims=True))
    return powers / powers.sum(0, keepdims=True)


def over_middle(x: Array) -> Array:
    axis = -2 if x.ndim > 1 else -1
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def over_all(x: Array) -> Array:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def axis_one(x: Array) -> Array:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def one_maximum(x: Array) -> Array:
    powers = np.exp(x - x.max())
    return powers / powers.sum(-1, keepdims=True)


def own_max_all_sum(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum()


def no_sum(x: Array) -> Array:
    return np.exp(x - x.max(-1, keepdims=True))


def by_largest(x: Array) -> Array:
    powers = np.exp(x)
    return powers / powers.max(-1, keepdims=True)


def no_exp(x: Array) -> Array:
    return x / x.sum(-1, keepdims=True)


def shifted_no_exp(x: Array) -> Array:
    x = x - x.max(-1, keepdims=True)
    return x / x.sum(-1, keepdims=True)


def minus_mean(x: Array) -> Array:
    powers = np.exp(x - x.mean(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def plus_max(x: Array) -> Array:
    powers = np.exp(x + x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def no_keepdims(x: Array) -> Array:
    powers = np.exp(x - x.max(-1))
    return powers / powers.sum(-1)


def _bad(got: Array, want: Array) -> dict[str, object]:
    where = ~np.isfinite(got).all(-1)
    return {"row": row(got[where][0]), "want": row(want[where][0])} if where.any() else {"row": "", "want": ""}


LESSON = Lesson(
    questions=[calls("softmax", right, x, names="x", shown=f"x {x.shape}") for x in GIVEN[:4]]
    + [
        calls("softmax", right, HIDDEN, names="x", shown="x = [[1, −inf, 2, 0], [−inf, −inf, 0.5, −inf]]"),
        calls("softmax", right, APART, names="x", shown="x = [[900, 901], [−900, −902]]"),
        calls("softmax", right, HUGE, names="x", shown="x = [[1000, 999, 0], [3, 1, 2]]"),
    ],
    wrongs=[
        Wrong(
            "unstable",
            {"softmax": unstable},
            Both(
                "small numbers come out right, but here your row is {row} and {want} is right: e to such a power is more than a float can "
                "hold. Take the row's maximum off before np.exp.",
                "小的数都对，但这里你的一行是 {row}，应为 {want}：e 的这么大的次方超出了浮点数的范围。请在 np.exp 之前减去这一行的最大值。",
            ),
            _bad,
        ),
        Wrong(
            "NaN covered",
            {"softmax": covered},
            Both(
                "one of your rows adds up to {sum}: e to such a power overflows (or all powers are 0), and nan_to_num makes 0 of the NaN. "
                "That hides the fault and loses the row. Take the row's maximum off before np.exp, and no NaN arises.",
                "你的某一行加起来是 {sum}：e 的这么大的次方溢出了（或者次方全是 0），nan_to_num 又把 NaN 变成了 0。"
                "这只是掩盖了问题，那一行就丢了。请在 np.exp 之前减去这一行的最大值，就不会有 NaN。",
            ),
            sums,
        ),
        Wrong(
            "over middle",
            {"softmax": over_middle},
            Both(
                "one of your rows adds up to {sum}: your columns add up to 1. You went over the axis before the last, the queries; shares are taken "
                "over the keys, the last axis.",
                "你的某一行加起来是 {sum}，而列加起来是 1。你沿倒数第二个轴（查询）做了 softmax；份额应沿最后一个轴（键）。",
            ),
            sums,
        ),
        Wrong(
            "over rows",
            {"softmax": over_rows},
            Both(
                "one of your rows adds up to {sum}, not 1: you took the softmax over axis 0. Each row is on its own: axis=-1.",
                "你的某一行加起来是 {sum}，不是 1：你沿轴 0 做了 softmax。每一行各算各的：axis=-1。",
            ),
            sums,
        ),
        Wrong(
            "over all",
            {"softmax": over_all},
            Both(
                "the whole table adds up to 1, and a row only to {sum}: max() and sum() without an axis go over everything. Give axis=-1.",
                "整张表加起来是 1，一行只有 {sum}：max() 和 sum() 不写轴就作用于全部。请写 axis=-1。",
            ),
            sums,
        ),
        Wrong(
            "own max, all sum",
            {"softmax": own_max_all_sum},
            Both(
                "a row of yours adds up to {sum}: the maximum is each row's own, but sum() goes over everything. Give it axis=-1, keepdims=True.",
                "你的一行加起来是 {sum}：最大值是每行自己的，但 sum() 作用于全部。请写 axis=-1, keepdims=True。",
            ),
            sums,
        ),
        Wrong(
            "axis one",
            {"softmax": axis_one},
            Both(
                "with two axes this is right, with three or one it isn't: axis 1 is the last only of a matrix. Write axis=-1, the last of any array.",
                "两个轴时是对的，三个轴或一个轴时不对：轴 1 只在矩阵里是最后一个。请写 axis=-1，任何数组的最后一个轴。",
            ),
        ),
        Wrong(
            "one maximum",
            {"softmax": one_maximum},
            Both(
                "you took off one maximum, of the whole table. The other row lies 1,800 below it: all its powers become 0, and 0/0 is NaN ({row}; {want} "
                "is right). Take off each row's own: x.max(-1, keepdims=True).",
                "你减去的是整张表的一个最大值。另一行比它低 1800：次方全变成 0，0/0 是 NaN（{row}，应为 {want}）。"
                "请减去每一行自己的最大值：x.max(-1, keepdims=True)。",
            ),
            _bad,
        ),
        Wrong(
            "no sum",
            {"softmax": no_sum},
            Both(
                "one of your rows adds up to {sum}: the powers are right, now divide by their sum along the row.",
                "你的某一行加起来是 {sum}：次方是对的，还要除以这一行的总和。",
            ),
            sums,
        ),
        Wrong(
            "by largest",
            {"softmax": by_largest},
            Both(
                "one of your rows adds up to {sum}: you divide by the largest power. Divide by the sum.",
                "你的某一行加起来是 {sum}：你除以了最大的次方。应除以总和。",
            ),
            sums,
        ),
        Wrong(
            "no exp",
            {"softmax": no_exp},
            Both(
                "x divided by its sum gives {got} where {want} is right: the powers are missing. Shares must come from np.exp(x), "
                "which is never negative.",
                "x 除以总和得到 {got}，应为 {want}：少了求次方。份额要从 np.exp(x) 来，它不会是负数。",
            ),
            furthest,
        ),
        Wrong(
            "shifted, no exp",
            {"softmax": shifted_no_exp},
            Both(
                "your largest number gets the share 0: the maximum was taken off, but np.exp is missing after it.",
                "最大的数得到的份额是 0：减去了最大值，但之后少了 np.exp。",
            ),
        ),
        Wrong(
            "minus mean",
            {"softmax": minus_mean},
            Both(
                "taking off the mean instead of the maximum leaves room to overflow, and with −inf in the row the mean is −inf: your row is {row}, "
                "and {want} is right. Take off the maximum.",
                "减去平均值而不是最大值，仍可能溢出；行里有 −inf 时平均值也是 −inf：你的一行是 {row}，应为 {want}。请减去最大值。",
            ),
            _bad,
        ),
        Wrong(
            "plus max",
            {"softmax": plus_max},
            Both(
                "you add the maximum instead of taking it off, so the powers grow: your row is {row}, and {want} is right. x − max.",
                "你加上了最大值，而不是减去，次方反而更大：你的一行是 {row}，应为 {want}。应为 x − max。",
            ),
            _bad,
        ),
        Wrong(
            "log softmax",
            {"softmax": log_softmax},
            Both(
                "your numbers are negative: this is the logarithm of the softmax ({got}). The shares themselves are asked for ({want}).",
                "你的数是负的：这是 softmax 的对数（{got}）。这里要的是份额本身（{want}）。",
            ),
            furthest,
        ),
        Wrong(
            "no keepdims",
            {"softmax": no_keepdims},
            Both(
                "x.max(-1) has one axis less than x, so NumPy lines it up with the wrong axis, or can't at all. Keep it as a column: "
                "x.max(-1, keepdims=True), and the same for the sum.",
                "x.max(-1) 比 x 少一个轴，NumPy 会把它对到错误的轴上，或者根本对不上。请保留成一列：x.max(-1, keepdims=True)，求和也一样。",
            ),
        ),
    ],
    hints=[
        Both("Three lines: take off the maximum, np.exp, divide by the sum.", "三行：减去最大值，np.exp，除以总和。"),
        Both(
            "Maximum and sum are each row's own: give axis=-1, and keepdims=True, so that (3, 5) and (3, 1) fit together.",
            "最大值和总和都是每行自己的：写 axis=-1，并加 keepdims=True，这样 (3, 5) 和 (3, 1) 才对得上。",
        ),
        Both("`powers = np.exp(x - x.max(-1, keepdims=True))`", "`powers = np.exp(x - x.max(-1, keepdims=True))`"),
    ],
    after=Both(
        "Every library does it this way; flash attention even keeps a running maximum, because it never sees the whole row at once.",
        "所有的库都这样做；flash attention 甚至边走边维护最大值，因为它从不一次看到整行。",
    ),
)
