"""Keys hidden per sentence, in a batch whose sizes are all different, and one whose sizes are all equal."""

import numpy as np

from ...attention import masks
from ...attention.steps import from_qkv, softmax
from ...words import Both
from ..exercises import padding_mask as solved
from ..grade import calls, furthest, shapes
from ..lesson import Lesson, Wrong

Array = np.ndarray  # of numbers or of True and False
RNG = np.random.default_rng(8)
LENGTHS = [(np.array([3, 2]), 4), (np.array([5, 1, 3]), 5), (np.array([2, 4, 1, 3]), 4), (np.array([6]), 7)]


def right_mask(lengths: Array, m: int) -> Array:
    return masks.padding([int(length) for length in lengths]).array(1, m, batch=len(lengths))[:, 0].astype(np.float64)


def _given(lengths: list[int], n: int, m: int, d: int, e: int) -> tuple[Array, ...]:
    b = len(lengths)
    q, k, v = (RNG.normal(size=shape) * 1.5 for shape in ((b, n, d), (b, m, d), (b, m, e)))
    return q, k, v, right_mask(np.array(lengths), m) > 0


GIVEN = [_given([5, 2], 3, 5, 4, 6), _given([1, 3, 2], 3, 3, 3, 3), _given([4, 1], 5, 6, 2, 1)]


def right(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return from_qkv(q, k, v, mask).output


def inverted(lengths: Array, m: int) -> Array:
    return (np.arange(m) >= lengths[:, None])[:, None]


def one_more(lengths: Array, m: int) -> Array:
    return (np.arange(m) <= lengths[:, None])[:, None]


def one_less(lengths: Array, m: int) -> Array:
    return (np.arange(m) < lengths[:, None] - 1)[:, None]


def flat(lengths: Array, m: int) -> Array:
    return np.arange(m) < lengths[:, None]


def queries(lengths: Array, m: int) -> Array:
    return (np.arange(m) < lengths[:, None])[:, :, None]


def left(lengths: Array, m: int) -> Array:
    return (np.arange(m) >= m - lengths[:, None])[:, None]


def longest(lengths: Array, m: int) -> Array:
    return np.repeat((np.arange(m) < lengths.max())[None, None], len(lengths), 0)


def _scores(q: Array, k: Array) -> Array:
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])


def ignored(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(_scores(q, k)) @ v


def zero_keys(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(_scores(q, k * mask.swapaxes(-1, -2))) @ v


def zero_values(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(_scores(q, k)) @ (v * mask.swapaxes(-1, -2))


def wrong_way(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return solved.softmax(np.where(mask, -np.inf, _scores(q, k))) @ v  # a row that sees nothing is NaN


def wrong_way_finite(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, -1e9, _scores(q, k))) @ v  # such a row is the plain mean


def wrong_way_zeros(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, -np.inf, _scores(q, k))) @ v  # such a row is 0: a softmax that looks out for it


def first_sentence(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask[:1], _scores(q, k), -np.inf)) @ v


def on_queries(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask.swapaxes(-1, -2), _scores(q, k), -np.inf)) @ v


def dot_t(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)) @ v


def unscaled(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, q @ k.swapaxes(-1, -2), -np.inf)) @ v


LESSON = Lesson(
    questions=[
        *(calls("padding_mask", right_mask, lengths, m, names="lengths m") for lengths, m in LENGTHS),
        *(calls("batched_attention", right, *given, names="q k v mask") for given in GIVEN),
    ],
    wrongs=[
        Wrong(
            "inverted",
            {"padding_mask": inverted},
            Both(
                "your mask is True on the padding. Here True means may attend: the words.",
                "你的掩码在填充处是 True。这里 True 表示可以看，应该是词。",
            ),
        ),
        Wrong(
            "one more",
            {"padding_mask": one_more},
            Both(
                "one padding too many is allowed: a sentence of 3 words has the places 0, 1 and 2, so place < length, not ≤.",
                "多放过了一个填充：3 个词的句子位置是 0、1、2，所以是 位置 < 长度，不是 ≤。",
            ),
        ),
        Wrong(
            "one less",
            {"padding_mask": one_less},
            Both(
                "the last word of each sentence is hidden: places 0 … length − 1 are words, so place < length.",
                "每句的最后一个词被遮住了：位置 0 … 长度 − 1 都是词，所以是 位置 < 长度。",
            ),
        ),
        Wrong(
            "flat",
            {"padding_mask": flat},
            Both(
                "your mask is {shape}; NumPy would line it up with queries and keys, and sentence 0's padding would hide query 0's keys. An axis of 1 for the "
                "queries makes it {right}: [:, None, :].",
                "你的掩码是 {shape}，NumPy 会把它对到（查询，键）上，第 0 句的填充就成了第 0 个查询的掩码。"
                "给查询加一个长度为 1 的轴，成为 {right}：[:, None, :]。",
            ),
            shapes,
        ),
        Wrong(
            "queries",
            {"padding_mask": queries},
            Both(
                "your mask is {shape}: the words stand on the axis of the queries, so padded queries would be hidden and padded keys attended to. "
                "It has to be {right}.",
                "你的掩码是 {shape}：词放到了查询的轴上，遮住的是填充的查询，填充的键仍会被看到。应为 {right}。",
            ),
            shapes,
        ),
        Wrong(
            "left",
            {"padding_mask": left},
            Both(
                "your padding stands on the left. Here the words come first: sentence places 0 … length − 1 are True.",
                "你把填充放在了左边。这里词在前面：位置 0 … 长度 − 1 是 True。",
            ),
        ),
        Wrong(
            "longest",
            {"padding_mask": longest},
            Both(
                "all sentences got the mask of the longest one. Compare np.arange(m) with each length: lengths[:, None].",
                "所有句子都用了最长那句的掩码。应把 np.arange(m) 与每个长度比较：lengths[:, None]。",
            ),
        ),
        Wrong(
            "ignored",
            {"batched_attention": ignored},
            Both("the mask isn't used: padding gets its share.", "没有用到掩码：填充也分到了份额。"),
        ),
        Wrong(
            "zero keys",
            {"batched_attention": zero_keys},
            Both(
                "the scores of the padding are 0 (you set its keys to 0, or multiplied by the mask), and e⁰ = 1 is a share like any other ({got} instead of {want}). They must be −inf: np.where(mask, scores, −np.inf).",
                "填充的分数是 0（把填充的键设成了 0，或乘以了掩码），而 e⁰ = 1 照样分到份额（{got}，应为 {want}）。分数应为 −inf：np.where(mask, scores, −np.inf)。",
            ),
            furthest,
        ),
        Wrong(
            "zero values",
            {"batched_attention": zero_values},
            Both(
                "you set the padded values to 0. They add nothing, but their weights are still taken from the words: the outputs are too small "
                "({got} instead of {want}). Hide the scores instead.",
                "你把填充的值设成了 0。它们虽不贡献内容，却仍占走了词的权重：输出太小（{got}，应为 {want}）。应遮住分数。",
            ),
            furthest,
        ),
        *(
            Wrong(
                f"wrong way{how}",
                {"batched_attention": code},
                Both(
                    "the words are hidden and the padding is seen: np.where(mask, scores, −inf) keeps the scores where mask is True. "
                    "(A row whose scores are all −inf becomes NaN.)",
                    "遮住了词，露出了填充：np.where(mask, scores, −inf) 在 mask 为 True 时保留分数。（分数全是 −inf 的行会变成 NaN。）",
                ),
            )
            for how, code in (("", wrong_way), (", finite", wrong_way_finite), (", zeros", wrong_way_zeros))
        ),
        Wrong(
            "first sentence",
            {"batched_attention": first_sentence},
            Both(
                "every sentence is masked like the first one: the first sentence is right, the second isn't.",
                "每句都用了第一句的掩码：第一句是对的，第二句就不对了。",
            ),
        ),
        Wrong(
            "on queries",
            {"batched_attention": on_queries},
            Both(
                "the mask acts on the queries (rows) instead of the keys (columns): use it as it is, (B, 1, M).",
                "掩码作用在了查询（行）上，而不是键（列）上：直接用 (B, 1, M) 即可。",
            ),
        ),
        Wrong(
            "dot T",
            {"batched_attention": dot_t},
            Both(
                "k.T turns round all three axes, the batch too: (B, M, d) becomes (d, M, B). Swap only the last two: k.swapaxes(-1, -2).",
                "k.T 把三个轴全部颠倒了，连批次也是：(B, M, d) 变成 (d, M, B)。只交换最后两个：k.swapaxes(-1, -2)。",
            ),
        ),
        Wrong(
            "unscaled",
            {"batched_attention": unscaled},
            Both("the mask is right; the scores aren't divided by √d.", "掩码是对的，但分数没有除以 √d。"),
        ),
    ],
    hints=[
        Both(
            "`np.arange(m)` are the places, (m,). `lengths[:, None]` is a column, (B, 1). Comparing the two gives (B, m).",
            "`np.arange(m)` 是各个位置，(m,)。`lengths[:, None]` 是一列，(B, 1)。两者比较得到 (B, m)。",
        ),
        Both("`[:, None, :]` puts an axis of length 1 in the middle.", "`[:, None, :]` 在中间加一个长度为 1 的轴。"),
        Both(
            "In a batch keys are transposed by `k.swapaxes(-1, -2)`; the rest is as in the last exercise.",
            "有批次时，键用 `k.swapaxes(-1, -2)` 转置；其余与上一个练习相同。",
        ),
        Both(
            "`scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])`, then np.where, softmax, `@ v`.",
            "`scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])`，然后 np.where、softmax、`@ v`。",
        ),
    ],
    after=Both(
        "A sentence now gives the same numbers alone and in any batch. Whoever gets this wrong trains on padding and never sees an error.",
        "现在一个句子单独算和放在任何批次里算，结果都一样。这里写错的人会在填充上训练，而且看不到任何报错。",
    ),
)
