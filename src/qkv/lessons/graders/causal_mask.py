"""The causal mask and attention with it."""

import numpy as np

from ...attention import masks
from ..lesson import Answer, Lesson, Question, WrongAnswer
from ..questions import INVERTED_MASK, attention_inputs, attention_output, calls

Array = np.ndarray  # of numbers or of True and False
RNG = np.random.default_rng(7)
SIZES = [(3, 3), (2, 4), (1, 5), (5, 5), (3, 7)]


def right_mask(n: int, m: int) -> Array:
    return masks.causal().array(n, m)[0, 0].astype(np.float64)


INPUTS = [
    (*attention_inputs(RNG, n, m, d, e, scale), right_mask(n, m) > 0)
    for n, m, d, e, scale in [(4, 4, 8, 3, 4.0), (4, 4, 4, 4, 1.5), (3, 5, 2, 4, 1.5), (5, 5, 6, 1, 1.5)]
]


def _is_boolean(answer: Answer) -> bool:
    return np.asarray(answer.causal_mask(3, 3)).dtype == bool


LESSON = Lesson(
    questions=[
        *(calls("causal_mask", right_mask, n, m, names="n m") for n, m in SIZES),
        Question("causal_mask", "causal_mask(n=3, m=3).dtype == bool", _is_boolean, lambda: True),
        *(calls("masked_attention", attention_output, *inputs, names="q k v mask") for inputs in INPUTS),
    ],
    wrong_answers={
        "causal_mask": {
            "inverted": WrongAnswer(
                lambda n, m: ~(right_mask(n, m) > 0),
                "your mask is the right one inverted: True where it should be False. Here True means may attend "
                "(PyTorch's nn.MultiheadAttention has it the other way).",
                mistake="M1",
            ),
            "upper": WrongAnswer(
                lambda n, m: np.triu(np.ones((n, m), bool), m - n),
                "your triangle points the other way: words see themselves and what comes after, never what came "
                "before. np.tril, not np.triu.",
                mistake="M12",
            ),
            "strict": WrongAnswer(
                lambda n, m: np.tril(np.ones((n, m), bool), m - n - 1),
                "your diagonal is False: no word sees itself, and the first sees nothing at all (its softmax would be "
                "NaN). Key j is allowed for j ≤ i, not j < i.",
                mistake="M12",
            ),
            "one further": WrongAnswer(
                lambda n, m: np.tril(np.ones((n, m), bool), m - n + 1),
                "each word also sees the one after it: the word it has to predict. The diagonal is one too far right.",
                mistake="M12",
            ),
            "corner": WrongAnswer(
                lambda n, m: np.tril(np.ones((n, m), bool)),
                "right where n = m. With n = 2 queries of m = 4 words your triangle starts in the upper left corner, "
                "so the last query doesn't see the end. The queries are the last ones: shift by m − n (k= of np.tril).",
                mistake="K2",
            ),
            "other shift": WrongAnswer(
                lambda n, m: np.tril(np.ones((n, m), bool), n - m),
                "right where n = m; elsewhere you shifted the wrong way: k = m − n, not n − m.",
            ),
            "additive": WrongAnswer(
                lambda n, m: np.where(right_mask(n, m) > 0, 0.0, -np.inf),
                "you give 0 and −inf, a mask to add. A mask of True and False is needed: True = may attend.",
            ),
            "numbers": WrongAnswer(
                right_mask,
                "1 and 0 stand in the right places, but they are numbers. True and False are needed: ~mask, mask & "
                "other and x[mask] do something else with numbers, or fail. np.ones((n, m), bool), or .astype(bool) at "
                "the end.",
            ),
        },
        "masked_attention": {
            "ignored": WrongAnswer(
                {"np.where(mask, scores, -np.inf)": "scores"},
                "the mask changes nothing: your numbers are those without one. (np.where and masked_fill return a new "
                "array.)",
                mistake="M3",
            ),
            **INVERTED_MASK,
            "multiplied": WrongAnswer(
                {"np.where(mask, scores, -np.inf)": "scores * mask"},
                "your hidden scores are 0 (times the mask, or filled with 0 or −1e-9), and e⁰ = 1: they still get a "
                "share ({got} instead of {want}). They must become −inf.",
                mistake="M8",
            ),
            "added": WrongAnswer(
                {"np.where(mask, scores, -np.inf)": "scores + mask"},
                "adding True and False adds 1 or 0 to the scores and hides nothing. Use np.where(mask, scores, −inf).",
                mistake="M7",
            ),
            "afterwards": WrongAnswer(
                {"softmax(np.where(mask, scores, -np.inf))": "(softmax(scores) * mask)"},
                "you mask after the softmax: the hidden words have taken their share already, and your rows no longer "
                "add up to 1 ({got} instead of {want}). Mask the scores, before the softmax.",
                mistake="X7",
            ),
            "inf afterwards": WrongAnswer(
                {"softmax(np.where(mask, scores, -np.inf))": "np.where(mask, softmax(scores), -np.inf)"},
                "you set weights to −inf after the softmax, so the sum is −inf or NaN. Set the scores, before it.",
                mistake="X7",
            ),
            "weak fill": WrongAnswer(
                {"-np.inf": "-10.0"},
                "hidden scores become −10. Where real scores are as low, the hidden ones still get a share ({got} "
                "instead of {want}). Use −np.inf.",
                mistake="M19",
            ),
            "unscaled": WrongAnswer(
                {" / np.sqrt(q.shape[-1])": ""}, "the mask is right; the scores aren't divided by √d.", mistake="S2"
            ),
            "times inf": WrongAnswer(
                {"np.where(mask, scores, -np.inf)": "scores + (1 - mask) * -np.inf"},
                "0 × −inf is NaN, so allowed pairs become NaN too. Use np.where(mask, scores, −np.inf).",
            ),
        },
    },
    hints={
        "causal_mask": [
            "Query i of N stands at word i + M − N. It may see key j if j ≤ that.",
            "Either compare `np.arange(m)` with a column of positions, or `np.tril(np.ones((n, m), bool), k=…)`.",
            "causal_mask: `np.arange(m) <= np.arange(m - n, m)[:, None]`",
        ],
        "masked_attention": ["`np.where(mask, scores, -np.inf)` before the softmax."],
    },
    takeaway="With this mask one pass over a text trains every position on its own past. `qkv masks causal` draws it.",
)
