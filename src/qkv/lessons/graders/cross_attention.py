"""Queries from one text, keys and values from another, of different and of equal lengths."""

import numpy as np

from ...attention.oracle import steps
from ..lesson import Lesson, WrongAnswer
from ..questions import calls

Array = np.ndarray  # of numbers or of True and False
RNG = np.random.default_rng(10)


def _inputs(n: int, m: int, c: int, d: int, e: int, words: list[int]) -> tuple[Array, ...]:
    x, memory = RNG.normal(size=(n, c)), RNG.normal(size=(m, c))
    return x, memory, *(RNG.normal(size=(c, wide)) for wide in (d, d, e)), np.array(words, bool)


INPUTS = [
    _inputs(2, 5, 4, 3, 6, [1, 1, 1, 0, 0]),
    _inputs(4, 4, 3, 3, 3, [1, 1, 1, 0]),
    _inputs(5, 3, 6, 2, 1, [0, 1, 1]),
    _inputs(3, 4, 2, 5, 2, [1, 1, 1, 1]),
    _inputs(1, 6, 5, 4, 3, [1, 0, 1, 0, 1, 1]),
]


def right(x: Array, memory: Array, w_q: Array, w_k: Array, w_v: Array, words: Array) -> Array:
    mask = np.broadcast_to(words, (len(x), len(memory)))
    return steps(x, w_q, w_k, w_v, memory=memory, mask=mask).output


LESSON = Lesson(
    questions=[calls("cross_attention", right, *inputs, names="x memory w_q w_k w_v words") for inputs in INPUTS],
    wrong_answers={
        "cross_attention": {
            "itself": WrongAnswer(
                {"memory": "x", "words[None, :]": "True"},
                "x attends to itself; the memory isn't used. Keys and values come from memory.",
                mistake="C1",
            ),
            "memory only": WrongAnswer(
                {"x @": "memory @"},
                "your output has a row per source word, {shape}: the queries must come from x, which gives {right}.",
            ),
            "roles swapped": WrongAnswer(
                {"x @": "memory @", "memory @": "x @", "words[None, :]": "True"},
                "memory and x are swapped, so you get {shape} instead of {right}. The queries come from x: q = x @ "
                "w_q.",
                mistake="C5",
            ),
            "values from x": WrongAnswer(
                {"memory @ w_v": "x @ w_v"},
                "the keys come from memory but the values from x, so the weights of source words are put on target "
                "words; where the lengths differ it doesn't even fit. Both from memory.",
            ),
            "keys from x": WrongAnswer(
                {"memory @ w_k": "x @ w_k"},
                "the values come from memory but the keys from x: both must come from memory.",
            ),
            "no mask": WrongAnswer(
                {"words[None, :]": "True"},
                "the padding of the memory is attended to: `words` isn't used.",
                mistake="M3",
            ),
            "inverted": WrongAnswer(
                {"words": "~words"},
                "only the padding is seen: words is True for words, and True = may attend. Remove the ~ (or “== "
                "False”).",
                mistake="M1",
            ),
            "on rows": WrongAnswer(
                {"words[None, :]": "words[:, None]"},
                "the mask hides rows, which are target words. It belongs to the keys, the columns: words[None, :].",
                mistake="M11",
            ),
            "causal": WrongAnswer(
                {"words[None, :]": "np.tri(len(x), len(memory), dtype=bool) & words"},
                "a causal mask has no place here: the whole source may be read from the first word on.",
            ),
            "matrices swapped": WrongAnswer({"w_q": "w_k", "w_k": "w_q"}, "w_q and w_k changed places.", mistake="P1"),
            "values by w_k": WrongAnswer(
                {"w_v": "w_k"}, "your values were made with w_k; they need w_v.", mistake="P1"
            ),
        },
    },
    hints={
        "cross_attention": [
            "Who asks? The text being written, x. Who answers? The memory.",
            "words is (M,), a row of keys: words[None, :] is (1, M) and fits every query.",
            "`attention(x @ w_q, memory @ w_k, …, words[None, :])`",
        ],
    },
    takeaway="The weights of such a layer align two texts. `qkv see` shows them in a real translator.",
)
