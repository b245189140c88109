"""The scale, and what it does to the softmax."""

import numpy as np

from ...attention.steps import Array, from_qkv
from ...words import Both
from ..exercises import scaling as solved
from ..grade import calls, furthest
from ..lesson import Lesson, Wrong

RNG = np.random.default_rng(3)
SIZES = [(1, 2, 4), (3, 5, 6), (7, 8, 64), (2, 3, 1)]
PAIRS = [(RNG.normal(size=(n, d)), RNG.normal(size=(m, d))) for n, m, d in SIZES]
softmax = solved.softmax


def right(q: Array, k: Array) -> Array:
    return from_qkv(q, k, k).scaled


def right_largest(q: Array, k: Array) -> list[float]:
    return [from_qkv(q, k, k, scale=scale).weights.max(-1).mean() for scale in (1, None)]


def unscaled(q: Array, k: Array) -> Array:
    return q @ k.T


def by_d(q: Array, k: Array) -> Array:
    return q @ k.T / q.shape[-1]


def times_root(q: Array, k: Array) -> Array:
    return q @ k.T * np.sqrt(q.shape[-1])


def by_keys(q: Array, k: Array) -> Array:
    return q @ k.T / np.sqrt(k.shape[0])


def by_queries(q: Array, k: Array) -> Array:
    return q @ k.T / np.sqrt(q.shape[0])


def squared(q: Array, k: Array) -> Array:
    return q @ k.T / q.shape[-1] ** 2


def by_lengths(q: Array, k: Array) -> Array:
    return q @ k.T / (np.linalg.norm(q, axis=-1)[:, None] * np.linalg.norm(k, axis=-1))


def softmax_too(q: Array, k: Array) -> Array:
    return softmax(right(q, k))


def swapped(q: Array, k: Array) -> list[float]:
    return right_largest(q, k)[::-1]


def after_softmax(q: Array, k: Array) -> list[float]:
    plain = softmax(q @ k.T)
    return [plain.max(-1).mean(), (plain / np.sqrt(q.shape[-1])).max(-1).mean()]


def overall(q: Array, k: Array) -> list[float]:
    return [softmax(q @ k.T).max(), softmax(right(q, k)).max()]


def per_key(q: Array, k: Array) -> list[float]:
    return [softmax(q @ k.T).max(0).mean(), softmax(right(q, k)).max(0).mean()]


def of_scores(q: Array, k: Array) -> list[float]:
    return [(q @ k.T).max(-1).mean(), right(q, k).max(-1).mean()]


def same_twice(q: Array, k: Array) -> list[float]:
    return [right_largest(q, k)[1]] * 2


def scaled_twice(q: Array, k: Array) -> list[float]:
    return [right_largest(q, k)[0], softmax(by_d(q, k)).max(-1).mean()]


def one_scale_more(q: Array, k: Array) -> list[float]:
    return [right_largest(q, k)[1], softmax(by_d(q, k)).max(-1).mean()]


LESSON = Lesson(
    questions=[
        *(calls("scaled_scores", right, *pair, names="q k") for pair in PAIRS),
        *(calls("largest_weights", right_largest, *pair, names="q k") for pair in PAIRS),
    ],
    wrongs=[
        Wrong(
            "unscaled",
            {"scaled_scores": unscaled},
            Both(
                "your scores aren't scaled: {got}, and {want} is right. Divide by √d, d = q.shape[-1].",
                "你的分数没有缩放：得到 {got}，应为 {want}。请除以 √d，d = q.shape[-1]。",
            ),
            furthest,
        ),
        Wrong(
            "by d",
            {"scaled_scores": by_d},
            Both(
                "you divided by d instead of √d (or by √d twice, which is the same): {got}, and {want} is right. The variance of a "
                "score is d, its spread √d.",
                "你除以了 d 而不是 √d（除以两次 √d 也是同一回事）：得到 {got}，应为 {want}。分数的方差是 d，标准差是 √d。",
            ),
            furthest,
        ),
        Wrong(
            "times root",
            {"scaled_scores": times_root},
            Both(
                "your scores are d times too large: {got}, and {want} is right. You multiply by √d (or divide by d**-0.5, "
                "which is the same). Divide by √d.",
                "你的分数大了 d 倍：得到 {got}，应为 {want}。你乘以了 √d（除以 d**-0.5 也是同一回事）。应该除以 √d。",
            ),
            furthest,
        ),
        Wrong(
            "by keys",
            {"scaled_scores": by_keys},
            Both(
                "you divided by the root of the number of keys. d is how wide a query is: q.shape[-1].",
                "你除以了键的个数的平方根。d 是一个查询的宽度：q.shape[-1]。",
            ),
        ),
        Wrong(
            "by queries",
            {"scaled_scores": by_queries},
            Both(
                "you divided by the root of the number of queries (len(q)). d is how wide a query is: q.shape[-1].",
                "你除以了查询个数的平方根（len(q)）。d 是一个查询的宽度：q.shape[-1]。",
            ),
        ),
        Wrong(
            "squared",
            {"scaled_scores": squared},
            Both("you divided by d². Divide by √d: d ** 0.5.", "你除以了 d²。应除以 √d，即 d ** 0.5。"),
        ),
        Wrong(
            "by lengths",
            {"scaled_scores": by_lengths},
            Both(
                "these are cosines: you divided by the lengths of q and k. Attention divides every score by the same number, √d.",
                "这是余弦：你除以了 q 和 k 的长度。注意力把所有分数除以同一个数 √d。",
            ),
        ),
        Wrong(
            "softmax too",
            {"scaled_scores": softmax_too},
            Both(
                "your rows add up to 1: this is the softmax already. Here only the scaled scores are asked for.",
                "你的每一行加起来是 1：已经做了 softmax。这里只要缩放后的分数。",
            ),
        ),
        Wrong(
            "swapped",
            {"largest_weights": swapped},
            Both(
                "the two numbers are right but the other way round: first without scaling, then with it.",
                "两个数都对，但顺序反了：先是不缩放，再是缩放。",
            ),
        ),
        Wrong(
            "after softmax",
            {"largest_weights": after_softmax},
            Both(
                "you took the softmax first and divided by √d afterwards: {got} instead of {want}. The weights then no longer add up to 1. "
                "Scale the scores, then take the softmax.",
                "你先做了 softmax，之后才除以 √d：得到 {got}，应为 {want}。这样权重加起来不再是 1。应先缩放分数，再做 softmax。",
            ),
            furthest,
        ),
        Wrong(
            "overall",
            {"largest_weights": overall},
            Both(
                "you took the largest weight of the whole table. Take the largest of each row, .max(-1), then the mean of those.",
                "你取了整张表的最大值。应取每一行的最大值 .max(-1)，再求平均。",
            ),
        ),
        Wrong(
            "per key",
            {"largest_weights": per_key},
            Both(
                "you took the maximum of each column, over the queries. A row belongs to a query: .max(-1).",
                "你取的是每一列（沿查询方向）的最大值。一行属于一个查询：.max(-1)。",
            ),
        ),
        Wrong(
            "of scores",
            {"largest_weights": of_scores},
            Both(
                "{got} is no weight: those lie between 0 and 1. You took the maximum of the scores; the softmax comes first.",
                "{got} 不是权重，权重在 0 和 1 之间。你取了分数的最大值；要先做 softmax。",
            ),
            furthest,
        ),
        Wrong(
            "same twice",
            {"largest_weights": same_twice},
            Both(
                "both your numbers are scaled. The first is for the plain scores, q @ k.T.",
                "你的两个数都缩放了。第一个应是原始分数 q @ k.T 的。",
            ),
        ),
        Wrong(
            "scaled twice",
            {"largest_weights": scaled_twice},
            Both(
                "the first number is right; for the second the scores are divided by √d twice ({got} instead of {want}). "
                "scaled_scores(q, k) has done it already: only the softmax is left.",
                "第一个数是对的；第二个的分数除以了两次 √d（{got}，应为 {want}）。scaled_scores(q, k) 已经除过了，只差 softmax。",
            ),
            furthest,
        ),
        Wrong(
            "one scale more",
            {"largest_weights": one_scale_more},
            Both(
                "both your numbers are scaled once too often: the first is that of the scaled scores, the second is scaled twice. "
                "First q @ k.T as it is, then scaled_scores(q, k).",
                "两个数都多缩放了一次：第一个是缩放后的分数的，第二个缩放了两次。应先用原始的 q @ k.T，再用 scaled_scores(q, k)。",
            ),
        ),
    ],
    hints=[
        Both("d is the last size of q: q.shape[-1].", "d 是 q 的最后一维：q.shape[-1]。"),
        Both(
            "np.sqrt(q.shape[-1]) is the number to divide by: one number for the whole table.",
            "要除以的数是 np.sqrt(q.shape[-1])：整张表同一个数。",
        ),
        Both(
            "largest_weights: `softmax(q @ k.T).max(-1).mean()`, and the same of scaled_scores(q, k).",
            "largest_weights：`softmax(q @ k.T).max(-1).mean()`，再对 scaled_scores(q, k) 同样做一次。",
        ),
        Both("`return q @ k.T / np.sqrt(q.shape[-1])`", "`return q @ k.T / np.sqrt(q.shape[-1])`"),
    ],
    after=Both(
        "Without the root the softmax nearly picks one key and its gradient vanishes. `qkv lab scaling` draws it for widths up to 1,024.",
        "不除以这个根，softmax 几乎只选一个键，梯度消失。`qkv lab scaling` 会画出宽度直到 1024 的情形。",
    ),
)
