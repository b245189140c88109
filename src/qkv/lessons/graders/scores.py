"""Scores and cosines, on sizes that are all different."""

import numpy as np

from ...attention.steps import Array, from_qkv
from ...words import Both
from ..exercises import scores as solved
from ..grade import calls, furthest, shapes
from ..lesson import Lesson, Wrong

RNG = np.random.default_rng(2)


def _pair(n: int, m: int, d: int) -> tuple[Array, Array]:
    return RNG.normal(size=(n, d)) * 2, RNG.normal(size=(m, d)) * 3


PAIRS = [
    (np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [2.0, -1.0], [0.0, 1.0]])),
    _pair(3, 5, 4),
    _pair(4, 4, 7),
    _pair(1, 6, 1),
]


def right_scores(q: Array, k: Array) -> Array:
    return from_qkv(q, k, k).scores


def right_cosines(q: Array, k: Array) -> Array:
    def length(t: Array) -> Array:
        return np.sqrt((t * t).sum(-1, keepdims=True))

    return from_qkv(q / length(q), k / length(k), k).scores


def other_way(q: Array, k: Array) -> Array:
    return k @ q.T


def pairwise(q: Array, k: Array) -> Array:
    return q * k


def untransposed(q: Array, k: Array) -> Array:
    return q @ k


def untransposed_dot(q: Array, k: Array) -> Array:
    return np.dot(q, k)


def with_itself(q: Array, k: Array) -> Array:
    return q @ q.T


def distances(q: Array, k: Array) -> Array:
    return np.sqrt(((q[:, None] - k[None]) ** 2).sum(-1))


def scaled(q: Array, k: Array) -> Array:
    return q @ k.T / np.sqrt(q.shape[-1])


def uncut(q: Array, k: Array) -> Array:
    return q @ k.T


def whole_norms(q: Array, k: Array) -> Array:
    return q @ k.T / (np.linalg.norm(q) * np.linalg.norm(k))


def squared(q: Array, k: Array) -> Array:
    return q @ k.T / ((q**2).sum(-1)[:, None] * (k**2).sum(-1))


def query_only(q: Array, k: Array) -> Array:
    return q @ k.T / np.linalg.norm(q, axis=-1)[:, None]


def key_only(q: Array, k: Array) -> Array:
    return q @ k.T / np.linalg.norm(k, axis=-1)


def angles(q: Array, k: Array) -> Array:
    return np.arccos(np.clip(solved.cosines(q, k), -1, 1))


LESSON = Lesson(
    questions=[
        *(calls("scores", right_scores, *pair, names="q k") for pair in PAIRS),
        *(calls("cosines", right_cosines, *pair, names="q k") for pair in PAIRS),
    ],
    wrongs=[
        Wrong(
            "other way",
            {"scores": other_way},
            Both(
                "your table is {shape}: rows are keys and columns queries. A row belongs to a query: Q·Kᵀ, not K·Qᵀ.",
                "你的表是 {shape}：行是键，列是查询。一行应属于一个查询：是 Q·Kᵀ，不是 K·Qᵀ。",
            ),
            shapes,
        ),
        Wrong(
            "pairwise",
            {"scores": pairwise},
            Both(
                "q * k multiplies number by number and adds nothing up. The dot product needs the sum over d, for every pair: the sign is @.",
                "q * k 只是逐个相乘，没有求和。点积要对 d 求和，而且每一对都要算：用 @。",
            ),
        ),
        Wrong(
            "untransposed",
            {"scores": untransposed},
            Both(
                "q @ k wants the rows of k to be d long. Both q and k have d columns: transpose k, so that its keys become columns.",
                "q @ k 要求 k 有 d 行。q 和 k 都是 d 列：把 k 转置，让每个键成为一列。",
            ),
        ),
        Wrong(
            "untransposed dot",
            {"scores": untransposed_dot},
            Both(
                "np.dot(q, k) wants k to have d rows. Both q and k have d columns: transpose k, so that its keys become columns.",
                "np.dot(q, k) 要求 k 有 d 行。q 和 k 都是 d 列：把 k 转置，让每个键成为一列。",
            ),
        ),
        Wrong(
            "with itself",
            {"scores": with_itself},
            Both(
                "your table is {shape}: q was multiplied with itself. The keys must be in it.",
                "你的表是 {shape}：q 与它自己相乘了。键应该参与计算。",
            ),
            shapes,
        ),
        Wrong(
            "distances",
            {"scores": distances},
            Both(
                "your numbers are distances |q − k|: small where they fit. A score is the dot product: large where they fit.",
                "你的数是距离 |q − k|：越匹配越小。分数是点积：越匹配越大。",
            ),
        ),
        Wrong(
            "scaled",
            {"scores": scaled},
            Both(
                "your scores are divided by √d already ({got} instead of {want}). That comes in the next exercise; here the plain dot product.",
                "你的分数已经除以了 √d（{got}，应为 {want}）。那是下一个练习的事，这里只要点积本身。",
            ),
            furthest,
        ),
        Wrong(
            "uncut",
            {"cosines": uncut},
            Both(
                "{got} is no cosine: those lie between −1 and 1. Divide the score by the length of q and by the length of k.",
                "{got} 不可能是余弦，余弦在 −1 到 1 之间。把分数除以 q 的长度和 k 的长度。",
            ),
            lambda got, want: {"got": float(got.flat[np.abs(got).argmax()])},
        ),
        Wrong(
            "whole norms",
            {"cosines": whole_norms},
            Both(
                "np.linalg.norm without axis gives one length for the whole matrix, so all your cosines shrink alike. "
                "Each row has its own length: axis=-1.",
                "np.linalg.norm 不写 axis 时给出整个矩阵的一个长度，所以余弦全都按同一比例变小。每一行有自己的长度：axis=-1。",
            ),
        ),
        Wrong(
            "squared",
            {"cosines": squared},
            Both(
                "you divided by the squared lengths: q and k in one direction then give 1/(|q|·|k|) instead of 1. The root is missing.",
                "你除以了长度的平方：方向相同时得到 1/(|q|·|k|) 而不是 1。少了开方。",
            ),
        ),
        Wrong(
            "query only",
            {"cosines": query_only},
            Both(
                "you divided by the length of q alone: {got} where the cosine is {want}. Divide by the length of k too.",
                "你只除以了 q 的长度：得到 {got}，余弦是 {want}。还要除以 k 的长度。",
            ),
            furthest,
        ),
        Wrong(
            "key only",
            {"cosines": key_only},
            Both(
                "you divided by the length of k alone: {got} where the cosine is {want}. Divide by the length of q too.",
                "你只除以了 k 的长度：得到 {got}，余弦是 {want}。还要除以 q 的长度。",
            ),
            furthest,
        ),
        Wrong(
            "angles",
            {"cosines": angles},
            Both(
                "these are the angles themselves, in radians ({got}). The cosine was asked for ({want}): leave arccos out.",
                "这些是角度本身（弧度，{got}）。这里要的是余弦（{want}）：去掉 arccos。",
            ),
            furthest,
        ),
    ],
    hints=[
        Both(
            "`a @ b` makes every dot product of a row of a with a column of b.",
            "`a @ b` 算出 a 的每一行与 b 的每一列的点积。",
        ),
        Both(
            "The keys are the rows of k; `k.T` has them as columns. So the scores are one `@`.",
            "键是 k 的行，`k.T` 把它们变成列。所以分数只需要一个 `@`。",
        ),
        Both(
            "Lengths: `np.linalg.norm(q, axis=-1)` is (N,) and the same of k is (M,). With `[:, None]` the first becomes a column, (N, 1).",
            "长度：`np.linalg.norm(q, axis=-1)` 是 (N,)，k 的是 (M,)。用 `[:, None]` 把前者变成一列 (N, 1)。",
        ),
        Both(
            "scores: `q @ k.T`.  cosines: `q @ k.T / (|q| as a column × |k| as a row)`.",
            "scores：`q @ k.T`。cosines：`q @ k.T /（|q| 作列 × |k| 作行）`。",
        ),
    ],
    after=Both(
        "A long key gets a high score from everyone, whatever its direction: that is why models normalise what comes in.",
        "很长的键不论方向如何，从谁那里都得高分：这就是模型要先对输入做归一化的原因。",
    ),
)
