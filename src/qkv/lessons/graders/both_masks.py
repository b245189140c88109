"""The causal mask with left and right padding, rows without any allowed key, and the causal mask alone."""

import numpy as np

from ...attention.oracle import from_qkv
from ...attention.oracle import softmax as right_softmax
from ..lesson import Lesson, WrongAnswer
from ..questions import calls

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


def _inputs(causal: Array, padding: Array | None, d: int, e: int, b: int = 2) -> tuple[Array, ...]:
    b, (n, m) = b if padding is None else len(padding), causal.shape
    q, k, v = (RNG.normal(size=shape) * 1.5 for shape in ((b, n, d), (b, m, d), (b, m, e)))
    return (q, k, v, causal) if padding is None else (q, k, v, causal, padding)


INPUTS = [
    _inputs(*PAIRS[0], 3, 4),
    _inputs(*PAIRS[1], 4, 2),
    _inputs(PAIRS[1][0], None, 6, 3),
    _inputs(*PAIRS[2], 2, 5),
]


def right_both(causal: Array, padding: Array) -> Array:
    return np.logical_and(causal[None], padding).astype(np.float64)


def right(q: Array, k: Array, v: Array, causal: Array, padding: Array | None = None) -> Array:
    allowed = np.broadcast_to(causal if padding is None else causal[None] & padding, (len(q), *causal.shape))
    return from_qkv(q, k, v, allowed).output


LESSON = Lesson(
    questions=[
        *(calls("both", right_both, *pair, names="causal padding") for pair in PAIRS),
        calls("safe_softmax", right_softmax, ROWS[0], names="x"),
        calls("safe_softmax", right_softmax, ROWS[1], names="x", description="x = [[1000, 1001, −inf], [0, 1, 2]]"),
        calls("safe_softmax", right_softmax, ROWS[2], names="x", description="x = [[−inf, −inf, −inf], [−inf, 1, 2]]"),
        *(
            calls(
                "masked_attention",
                right,
                *inputs,
                names="q k v causal padding",
                description=f"q {inputs[0].shape}, k {inputs[1].shape}, v {inputs[2].shape}, causal {inputs[3].shape}, "
                + (f"padding {inputs[4].shape}" if len(inputs) > 4 else "padding=None"),
            )
            for inputs in INPUTS
        ),
    ],
    wrong_answers={
        "both": {
            "either": WrongAnswer(
                lambda causal, padding: causal | padding,
                "you joined the masks with “or”: what either allows is seen, including the future of every word. A "
                "pair must be allowed by both: &.",
            ),
            "only padding": WrongAnswer(
                lambda causal, padding: np.broadcast_to(padding, (len(padding), *causal.shape)),
                "only the padding mask is left: the future is visible again.",
                mistake="M5",
            ),
            "only causal": WrongAnswer(
                lambda causal, padding: np.broadcast_to(causal, (len(padding), *causal.shape)),
                "only the causal mask is left: padding is attended to.",
                mistake="M5",
            ),
            "summed": WrongAnswer(
                lambda causal, padding: causal.astype(np.float64) + padding,
                "True + True is 2 here, and True + False is 1, which counts as True. Combine with &.",
            ),
        },
        "safe_softmax": {
            "nan rows": WrongAnswer(
                {"np.where(np.isneginf(top), 0.0, top)": "top", "np.where(total == 0, 1.0, total)": "total"},
                "a row of −inf becomes NaN, in one of two places: its maximum is −inf, and −inf − (−inf) is NaN: "
                "subtract 0 there instead. Its sum is 0, and 0/0 is NaN too: divide by 1 there.",
                mistake="M18",
            ),
            "even rows": WrongAnswer(
                lambda x: right_softmax(np.maximum(x, -1e9)),
                "a row that may see nothing gets equal shares of everything hidden ({got} each): the largest finite "
                "number instead of −inf does that. It must give 0.",
                mistake="M18",
            ),
            "unstable": WrongAnswer(
                {"x - np.where(np.isneginf(top), 0.0, top)": "x"},
                "empty rows are right, but the maximum is no longer subtracted, so 1000 overflows.",
                mistake="X5",
            ),
        },
        "masked_attention": {
            "padding wins": WrongAnswer(
                {"both(causal, padding)": "padding"},
                "with padding given, the causal mask is dropped: the second mask replaced the first. Train like this "
                "and the loss falls almost to 0, because the answer is visible. Use both(causal, padding).",
                mistake="M6",
            ),
            "causal wins": WrongAnswer(
                {"both(causal, padding)": "causal"},
                "the padding mask isn't used: padding gets its share.",
                mistake="M5",
            ),
            "either one": WrongAnswer(
                {"both(causal, padding)": "causal | padding"}, "you joined the masks with “or”. Both are needed: &."
            ),
            "only with padding": WrongAnswer(
                {"causal if": "True if"}, "without padding (padding=None) your attention forgets the causal mask too."
            ),
            "needs padding": WrongAnswer(
                {"causal if padding is None else ": ""},
                "padding may be None: then only the causal mask counts. `causal & None` is an error.",
            ),
            "NaN attention": WrongAnswer(
                {"@ v": "@ v + np.where(allowed.any(-1, keepdims=True), 0.0, np.nan)"},
                "rows that see nothing are NaN: you used a softmax that doesn't know them. Use safe_softmax.",
                mistake="M18",
            ),
            "even attention": WrongAnswer(
                {"-np.inf": "-1e9"},
                "rows that see nothing get the mean of everything hidden ({got}), because −1e9 is the same for all. "
                "Fill with −inf, and safe_softmax gives 0.",
                mistake="M18",
            ),
        },
    },
    hints={
        "both": ["For arrays of True and False, “and” is written &."],
        "safe_softmax": [
            "safe_softmax: two places go wrong in a row of −inf, the subtraction (−inf − −inf) and the division (0/0). "
            "np.where fixes both.",
            "`top = x.max(-1, keepdims=True)`, then `np.exp(x - np.where(np.isneginf(top), 0.0, top))`.",
        ],
        "masked_attention": ["masked_attention: `allowed = causal if padding is None else both(causal, padding)`."],
    },
    takeaway="NaN in such rows is a well-known issue of attention in PyTorch (issue 41508). Yours has none.",
)
