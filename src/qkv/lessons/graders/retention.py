"""Chunks of any size compared with the whole matrix of the reference, and the state with its recurrence."""

import numpy as np

from ...mixers.reference import Array, linear
from ...mixers.reference import retention as reference
from ..lesson import Answer, Lesson, Question, WrongAnswer
from ..outcome import InvalidAnswer
from ..questions import attention_inputs, calls

RNG = np.random.default_rng(20)
FADES = [(3, 0.5), (5, 0.9), (1, 0.25), (4, 0.7)]


# C = d = e first: a decay along the wrong axis then gives wrong numbers instead of an error.
CHUNKS = [
    (*attention_inputs(RNG, n, n, d, e), gamma, RNG.normal(size=(d, e)))
    for n, d, e, gamma in [(4, 4, 4, 0.8), (3, 2, 5, 0.5), (1, 3, 2, 0.9), (5, 2, 3, 0.7)]
]
TEXTS = [
    (*attention_inputs(RNG, n, n, d, e), gamma, size)
    for n, d, e, gamma, size in [(8, 3, 2, 0.9, 4), (7, 2, 3, 0.8, 3), (5, 3, 3, 0.6, 1), (3, 2, 2, 0.9, 8)]
]


def right_fading(n: int, gamma: float) -> Array:
    column = np.ones((n, 1))
    return reference(column, column, column, gamma).weights


def right_chunk(q: Array, k: Array, v: Array, gamma: float, state: Array) -> tuple[Array, Array]:
    """Return output and state of one text: the state before the chunk is d words without decay that each write a row."""
    d = len(state)
    queries, keys, values = (np.concatenate(both) for both in ((0 * np.eye(d), q), (np.eye(d), k), (state, v)))
    whole = linear(queries, keys, values, np.concatenate([np.zeros(d), np.full(len(q), np.log(gamma))]))
    return whole.output[d:], whole.state


def right(q: Array, k: Array, v: Array, gamma: float, size: int) -> Array:
    return reference(q, k, v, gamma).output


def _twice(answer: Answer) -> object:
    """Run a text twice; raise `InvalidAnswer` if the state of the first call is still there in the second."""
    q, k, v, gamma, size = TEXTS[0]
    first, second = (answer.retention(q.copy(), k.copy(), v.copy(), gamma, size) for _ in range(2))
    if (
        first is not None
        and second is not None
        and np.shape(first) == np.shape(second)
        and not np.allclose(first, second)
    ):
        raise InvalidAnswer(
            "the same text a second time gave other numbers: the state of the first call was still there. Begin every call "
            "with a state of zeros, made inside the function."
        )
    return first


LESSON = Lesson(
    questions=[
        *(calls("fading", right_fading, n, gamma, names="n gamma") for n, gamma in FADES),
        *(
            calls("chunk", right_chunk, *inputs, names="q k v gamma state", returns="(output, state)", part=part)
            for part in (0, 1)
            for inputs in CHUNKS
        ),
        Question("retention", "retention(q (8, 3), k (8, 3), v (8, 2), …), twice", _twice, lambda: right(*TEXTS[0])),
        *(calls("retention", right, *inputs, names="q k v gamma size") for inputs in TEXTS),
    ],
    wrong_answers={
        "fading": {
            "transposed": WrongAnswer(
                {"0.0)": "0.0).T"},
                "L is transposed: later words count and earlier ones don't. The row is the word that reads, i; the "
                "column the one that wrote, j; γ^(i−j) for j ≤ i.",
            ),
            "both sides": WrongAnswer(
                lambda n, gamma: gamma ** abs(np.arange(n)[:, None] - np.arange(n)),
                "γ^|i−j| fades to both sides: words see the future. What comes later (j > i) gets 0.",
            ),
            "grows": WrongAnswer(
                lambda n, gamma: gamma ** (np.arange(n)[:, None] - np.arange(n)),
                "after the diagonal i − j is negative, and γ to a negative power is above 1 ({got} instead of {want}): "
                "the future counts most of all. Set it to 0.",
            ),
            "one more": WrongAnswer(
                {"np.maximum(distance, 0)": "(distance + 1)"},
                "there is one γ too many everywhere: a new word hasn't faded yet, the diagonal is γ⁰ = 1.",
            ),
            "by row": WrongAnswer(
                {"np.maximum(distance, 0)": "np.arange(n)[:, None]"},
                "the decay runs along the wrong axis: γ^i counts from the beginning of the text, the same for all that "
                "was written. It is the distance that counts, γ^(i−j).",
                mistake="L1",
            ),
            "by column": WrongAnswer(
                {"np.maximum(distance, 0)": "np.arange(n)"},
                "the decay runs along the wrong axis: γ^j makes later words weaker, whoever reads them. It is the "
                "distance that counts, γ^(i−j).",
                mistake="L1",
            ),
            "none": WrongAnswer(
                {"np.maximum(distance, 0)": "0"},
                "nothing fades: this is the causal mask of linear attention, γ is unused.",
            ),
        },
        "chunk": {
            "no fading": WrongAnswer(
                {"fading(n, gamma)": "np.tri(n)"},
                "inside the chunk nothing fades: multiply q @ k.T by fading(n, gamma) before @ v.",
            ),
            "no triangle": WrongAnswer(
                {"fading(n, gamma) * ": ""},
                "inside the chunk every word sees every other: multiply q @ k.T by fading(n, gamma) before @ v.",
            ),
            "nothing before": WrongAnswer(
                {"within + before": "within"},
                "the state before the chunk isn't read: γ^(i+1) · qᵢ·S is missing in the output.",
            ),
            "from 0": WrongAnswer(
                {"np.arange(1, n + 1)": "np.arange(n)"},
                "the border of the chunk is off by one: word i reads S with γ^i, so word 0 reads it unfaded. S is as "
                "the last word of the chunk before left it; at word 0 it has faded once: γ^(i+1).",
                mistake="L3",
            ),
            "unfaded": WrongAnswer(
                {"gamma ** np.arange(1, n + 1)[:, None] * ": ""},
                "word i reads S as if nothing had faded since: γ^(i+1) is missing.",
            ),
            "whole chunk": WrongAnswer(
                {"np.arange(1, n + 1)[:, None]": "n"},
                "all words read S with γ^C, as if each were the last of the chunk. Word i reads it with γ^(i+1).",
            ),
            "own chunk": WrongAnswer(
                {"q @ state": "q @ (gamma**n * state + (gamma ** np.arange(n - 1, -1, -1)[:, None] * k).T @ v)"},
                "S is brought up to date before it is read, so the chunk's own words count twice, later ones too. Read "
                "the state that was given; return the new one.",
            ),
            "values' axis": WrongAnswer(
                {"(1, n + 1)[:, None]": "(1, n + 1)"},
                "the decay runs along the wrong axis: γ^(i+1) is a row and is lined up with the e columns of q @ S. It "
                "belongs to the words, a column: np.arange(1, n + 1)[:, None].",
                mistake="L1",
            ),
            "one γ more": WrongAnswer(
                {"np.arange(n - 1, -1, -1)": "np.arange(n, 0, -1)"},
                "the border of the chunk is off by one: what is written fades once too often, γ^(C−j). The last word, "
                "j = C − 1, hasn't faded yet: γ^(C−1−j).",
                mistake="L3",
            ),
            "turned round": WrongAnswer(
                {"np.arange(n - 1, -1, -1)": "np.arange(n)"},
                "the writes fade in reverse: γ^j makes the last word weakest. The first fades longest: γ^(C−1−j).",
            ),
            "unfaded writes": WrongAnswer(
                {"(left * k)": "k"},
                "the output is right; in the new state the words of the chunk haven't faded: γ^(C−1−j) is missing.",
            ),
            "keys' axis": WrongAnswer(
                {"-1, -1)[:, None]": "-1, -1)"},
                "the output is right; in the new state the decay runs along the wrong axis: γ^(C−1−j) is a row and is "
                "lined up with the d numbers of a key. It belongs to the words, a column: […][:, None].",
                mistake="L1",
            ),
            "S unfaded": WrongAnswer(
                {"gamma**n * ": ""},
                "the output is right; in the new state the old S hasn't faded: γ^C · S.",
                mistake="L3",
            ),
            "S faded once": WrongAnswer(
                {"gamma**n": "gamma"},
                "the output is right; in the new state the old S has faded once. C words have passed: γ^C · S.",
                mistake="L3",
            ),
            "S forgotten": WrongAnswer(
                {"gamma**n * state + ": ""},
                "the output is right; the new state holds this chunk only. What was before stays in it: γ^C · S.",
            ),
        },
        "retention": {
            "not carried": WrongAnswer(
                {"output, state = ": "output, _ = "},
                "the first chunk is right; the others start empty. Pass the state that chunk returns to the next one.",
                mistake="L3",
            ),
            "faded between": WrongAnswer(
                {"gamma, state": "gamma, gamma * state"},
                "the border of the chunk is off by one: the state fades once more between two chunks. chunk has done "
                "all of it: hand on what it returns.",
                mistake="L3",
            ),
            "end lost": WrongAnswer(
                {"len(q), size": "len(q) - len(q) % size, size", "(parts)": "([np.zeros((0, v.shape[1])), *parts])"},
                "words are lost at the end: the last chunk may be shorter. Use range(0, len(q), size).",
            ),
            "next word too": WrongAnswer(
                {"start + size": "start + size + 1"},
                "the border of the chunk is off by one: each chunk holds the first word of the next one too. [start : "
                "start + size] already leaves its end out.",
            ),
            "last word lost": WrongAnswer(
                {"start + size": "start + size - 1"},
                "the border of the chunk is off by one: the last word of each chunk is left out. [start : start + "
                "size] holds size words; its end isn't part of it.",
            ),
        },
    },
    hints={
        "fading": ["`np.arange(n)[:, None] - np.arange(n)` is the distance i − j; where it is negative, 0."],
        "chunk": [
            "Two sums. Output: (fading(n, gamma) * (q @ k.T)) @ v, plus γ^(i+1) times q @ state. State: γ^C times the "
            "old one, plus the writes with what is left of each.",
            "Powers of γ belong to words, so they are columns: `gamma ** np.arange(1, n + 1)[:, None]` for reading, "
            "`gamma ** np.arange(n - 1, -1, -1)[:, None]` for k before `.T @ v`.",
        ],
        "retention": [
            "Begin with a state of zeros, (d, e). Each chunk gives an output and the state for the next one.",
            "`for start in range(0, len(q), size)`, the slice `[start : start + size]`, at the end np.concatenate.",
        ],
    },
    takeaway="Inside a chunk matrices are multiplied, which is quick; between chunks only d × e numbers pass. Mamba-2 "
    'and Qwen3-Next are trained like this; `qkv steps "我 爱 北京" --mixer retention` shows every number of it.',
)
