"""Left and right padding together with the triangle; rows that see nothing; and one mask alone."""

import numpy as np

from ...attention.steps import from_qkv
from ...attention.steps import softmax as right_softmax
from ...words import Both
from ..exercises import both_masks as solved
from ..grade import calls, furthest
from ..lesson import Lesson, Wrong

Array = np.ndarray  # of numbers or of True and False
RNG = np.random.default_rng(9)
RIGHT_PADDED = np.array([[[1, 1, 1, 0]], [[1, 1, 0, 0]]], bool)
LEFT_PADDED = np.array([[[0, 1, 1, 1, 1]], [[1, 1, 1, 1, 1]], [[0, 0, 0, 1, 1]]], bool)
PAIRS = [
    (np.tri(4, dtype=bool), RIGHT_PADDED),
    (np.tri(5, dtype=bool), LEFT_PADDED),
    (np.tri(2, 4, 2, dtype=bool), RIGHT_PADDED),
]
ROWS = [
    RNG.normal(size=(3, 4)),
    np.array([[1000.0, 1001.0, -np.inf], [0.0, 1.0, 2.0]]),
    np.array([[-np.inf, -np.inf, -np.inf], [-np.inf, 1.0, 2.0]]),
]


def _given(causal: Array, padding: Array | None, d: int, e: int, b: int = 2) -> tuple[Array, ...]:
    b, (n, m) = b if padding is None else len(padding), causal.shape
    q, k, v = (RNG.normal(size=shape) * 1.5 for shape in ((b, n, d), (b, m, d), (b, m, e)))
    return (q, k, v, causal) if padding is None else (q, k, v, causal, padding)


GIVEN = [_given(*PAIRS[0], 3, 4), _given(*PAIRS[1], 4, 2), _given(PAIRS[1][0], None, 6, 3), _given(*PAIRS[2], 2, 5)]


def right_both(causal: Array, padding: Array) -> Array:
    return np.logical_and(causal[None], padding).astype(np.float64)


def right(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    allowed = np.broadcast_to(causal if padding is None else causal[None] & padding, (len(q), *causal.shape))
    return from_qkv(q, k, v, allowed).output


def either(causal: Array, padding: Array) -> Array:
    return causal | padding


def only_padding(causal: Array, padding: Array) -> Array:
    return np.broadcast_to(padding, (len(padding), *causal.shape))


def only_causal(causal: Array, padding: Array) -> Array:
    return np.broadcast_to(causal, (len(padding), *causal.shape))


def summed(causal: Array, padding: Array) -> Array:
    return causal.astype(np.float64) + padding


def nan_rows(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def even_rows(x: Array) -> Array:
    return right_softmax(np.maximum(x, -1e9))


def unstable(x: Array) -> Array:
    powers = np.exp(x)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def _scores(q: Array, k: Array) -> Array:
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])


def _attend(allowed: Array, scores: Array, v: Array) -> Array:
    return right_softmax(np.where(allowed, scores, -np.inf)) @ v


def padding_wins(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    return _attend(causal if padding is None else padding, _scores(q, k), v)


def causal_wins(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    return _attend(causal, _scores(q, k), v)


def either_one(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    return _attend(causal if padding is None else causal | padding, _scores(q, k), v)


def needs_padding(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    return _attend(solved.both(causal, padding), _scores(q, k), v)  # type: ignore[arg-type]


def only_with_padding(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    if padding is None:
        return right_softmax(_scores(q, k)) @ v
    return right(q, k, v, causal, padding)


def nan_attention(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    allowed = causal if padding is None else causal & padding
    return nan_rows(np.where(allowed, _scores(q, k), -np.inf)) @ v


def even_attention(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    allowed = causal if padding is None else causal & padding
    return nan_rows(np.where(allowed, _scores(q, k), -1e9)) @ v


LESSON = Lesson(
    questions=[
        *(calls("both", right_both, *pair, names="causal padding") for pair in PAIRS),
        calls("safe_softmax", right_softmax, ROWS[0], names="x"),
        calls("safe_softmax", right_softmax, ROWS[1], names="x", shown="x = [[1000, 1001, −inf], [0, 1, 2]]"),
        calls("safe_softmax", right_softmax, ROWS[2], names="x", shown="x = [[−inf, −inf, −inf], [−inf, 1, 2]]"),
        *(
            calls(
                "masked_attention",
                right,
                *given,
                names="q k v causal padding",
                shown=f"q {given[0].shape}, k {given[1].shape}, v {given[2].shape}, causal {given[3].shape}, "
                + (f"padding {given[4].shape}" if len(given) > 4 else "padding=None"),
            )
            for given in GIVEN
        ),
    ],
    wrongs=[
        Wrong(
            "either",
            {"both": either},
            Both(
                "you joined the masks with “or”: what either allows is seen, the future of every word among it. A pair must be allowed by both: &.",
                "你用“或”合并了掩码：任一允许就能看，后文也看得到了。一对要两者都允许：用 &。",
            ),
        ),
        Wrong(
            "only padding",
            {"both": only_padding},
            Both(
                "only the padding mask is left: the future is visible again.",
                "只剩填充掩码了：又能看到后文了。",
            ),
        ),
        Wrong(
            "only causal",
            {"both": only_causal},
            Both("only the causal mask is left: padding is attended to.", "只剩因果掩码了：填充也会被看到。"),
        ),
        Wrong(
            "summed",
            {"both": summed},
            Both(
                "True + True is 2 here, and True + False is 1, which counts as True. Combine with &.",
                "这里 True + True 是 2，True + False 是 1，也算 True。请用 & 合并。",
            ),
        ),
        Wrong(
            "nan rows",
            {"safe_softmax": nan_rows},
            Both(
                "a row of −inf becomes NaN, in one of two places: its maximum is −inf, and −inf − (−inf) is NaN: take off 0 there instead. "
                "Its sum is 0, and 0/0 is NaN too: divide by 1 there.",
                "全是 −inf 的行变成了 NaN，有两处可能：最大值是 −inf，而 −inf − (−inf) 是 NaN，这时应改为减 0；总和是 0，0/0 也是 NaN，这时应改为除以 1。",
            ),
        ),
        Wrong(
            "even rows",
            {"safe_softmax": even_rows},
            Both(
                "a row that may see nothing gets equal shares of everything hidden ({got} each): the largest finite number instead of −inf does that. "
                "It must give 0.",
                "什么都看不到的行反而平均分到了所有被遮的内容（每个 {got}）：用很大的负数代替 −inf 就会这样。应给出 0。",
            ),
            furthest,
        ),
        Wrong(
            "unstable",
            {"safe_softmax": unstable},
            Both(
                "empty rows are right, but the maximum is no longer taken off, so 1000 overflows.",
                "空行是对的，但不再减去最大值，1000 就溢出了。",
            ),
        ),
        Wrong(
            "padding wins",
            {"masked_attention": padding_wins},
            Both(
                "with padding given, the causal mask is dropped: the second mask replaced the first. Train like this and the loss falls to nothing, because "
                "the answer is visible. Use both(causal, padding).",
                "给了填充掩码后，因果掩码就丢了：第二个掩码替换了第一个。这样训练损失会降到几乎为 0，因为答案看得见。请用 both(causal, padding)。",
            ),
        ),
        Wrong(
            "causal wins",
            {"masked_attention": causal_wins},
            Both("the padding mask isn't used: padding gets its share.", "没有用到填充掩码：填充也分到了份额。"),
        ),
        Wrong(
            "either one",
            {"masked_attention": either_one},
            Both("you joined the masks with “or”. It takes both: &.", "你用“或”合并了掩码。要两者都允许：用 &。"),
        ),
        Wrong(
            "only with padding",
            {"masked_attention": only_with_padding},
            Both(
                "without padding (padding=None) your attention forgets the causal mask too.",
                "没有填充时（padding=None），你的注意力把因果掩码也忘了。",
            ),
        ),
        Wrong(
            "needs padding",
            {"masked_attention": needs_padding},
            Both(
                "padding may be None: then only the causal mask counts. `causal & None` is an error.",
                "padding 可以是 None：这时只用因果掩码。`causal & None` 会报错。",
            ),
        ),
        Wrong(
            "NaN attention",
            {"masked_attention": nan_attention},
            Both(
                "rows that see nothing are NaN: you used a softmax that doesn't know them. Use safe_softmax.",
                "什么都看不到的行是 NaN：你用的 softmax 不会处理这种行。请用 safe_softmax。",
            ),
        ),
        Wrong(
            "even attention",
            {"masked_attention": even_attention},
            Both(
                "rows that see nothing get the mean of everything hidden ({got}), because −1e9 is the same for all. Fill with −inf, and safe_softmax gives 0.",
                "什么都看不到的行得到了所有被遮内容的平均（{got}），因为大家都是 −1e9。请填 −inf，safe_softmax 会给出 0。",
            ),
            furthest,
        ),
    ],
    hints=[
        Both("For arrays of True and False, “and” is written &.", "对 True/False 数组，“并且”写作 &。"),
        Both(
            "safe_softmax: two places go wrong in a row of −inf, the subtraction (−inf − −inf) and the division (0/0). np.where mends both.",
            "safe_softmax：全 −inf 的行有两处出错，减法（−inf − −inf）和除法（0/0）。两处都可以用 np.where 补救。",
        ),
        Both(
            "`top = x.max(-1, keepdims=True)`, then `np.exp(x - np.where(np.isneginf(top), 0.0, top))`.",
            "`top = x.max(-1, keepdims=True)`，然后 `np.exp(x - np.where(np.isneginf(top), 0.0, top))`。",
        ),
        Both(
            "masked_attention: `allowed = causal if padding is None else both(causal, padding)`.",
            "masked_attention 里：`allowed = causal if padding is None else both(causal, padding)`。",
        ),
    ],
    after=Both(
        "NaN from such rows is one of the oldest complaints about attention in PyTorch (issue 41508). Yours has none.",
        "这种行产生的 NaN 是 PyTorch 注意力里最老的抱怨之一（issue 41508）。你的没有。",
    ),
)
