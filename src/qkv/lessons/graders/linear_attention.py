"""Both forms compared with the reference without decay; packed texts with each text by itself."""

from itertools import pairwise

import numpy as np

from ...attention.oracle import softmax
from ...mixers.reference import Array, Mixed, linear
from ..lesson import Lesson, WrongAnswer
from ..questions import attention_inputs, calls

RNG = np.random.default_rng(19)
# d = e first: a transposed state then gives wrong numbers instead of an error.
SIZES = [(4, 3, 3), (5, 2, 4), (1, 3, 2), (6, 4, 1)]


INPUTS = [attention_inputs(RNG, n, n, d, e) for n, d, e in SIZES]
TEXTS = [
    (*attention_inputs(RNG, 5, 5, 3, 2), np.array([True, False, True, False, False])),
    (*attention_inputs(RNG, 4, 4, 2, 2), np.array([True, True, False, True])),
    (*attention_inputs(RNG, 6, 6, 2, 3), np.array([True, False, False, False, False, True])),
]


def _mixed(q: Array, k: Array, v: Array) -> Mixed:
    return linear(q, k, v, np.zeros(len(q)))


def right_parallel(q: Array, k: Array, v: Array) -> Array:
    return _mixed(q, k, v).output


def right_recurrent(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    whole = _mixed(q, k, v)
    return whole.output, whole.state


def right_packed(q: Array, k: Array, v: Array, begins: Array) -> Array:
    borders = [*np.flatnonzero(begins), len(q)]
    pieces = [slice(first, last) for first, last in pairwise(borders)]
    return np.concatenate([_mixed(q[piece], k[piece], v[piece]).output for piece in pieces])


def _first_wrong_word(actual: Array, expected: Array) -> dict[str, object]:
    """Return the first word with wrong numbers."""
    return {"word": int(np.flatnonzero(np.abs(actual - expected).max(-1) > 1e-9)[0])}


LESSON = Lesson(
    questions=[
        *(calls("parallel", right_parallel, *inputs, names="q k v") for inputs in INPUTS),
        *(
            calls("recurrent", right_recurrent, *inputs, names="q k v", returns="(output, state)", part=part)
            for inputs in INPUTS
            for part in (0, 1)
        ),
        *(calls("packed", right_packed, *inputs, names="q k v begins") for inputs in TEXTS),
    ],
    wrong_answers={
        "parallel": {
            "softmax": WrongAnswer(
                lambda q, k, v: softmax(np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)) @ v,
                "there is still a softmax ({got} instead of {want}). With it the sum over the words can't be made "
                "before the query is known, and there is no recurrence. Take the scores as they are.",
            ),
            "scaled": WrongAnswer(
                lambda q, k, v: right_parallel(q / np.sqrt(q.shape[1]), k, v),
                "the scores are divided by √d. That was for the softmax; here they are taken as they are.",
            ),
            "no mask": WrongAnswer(
                lambda q, k, v: q @ (k.T @ v),
                "every word sees all the others, the later ones too. (q @ (k.T @ v) is quick, but it is the sum over "
                "all words.) Set the scores after the diagonal to 0: np.tril(q @ k.T).",
            ),
            "strict": WrongAnswer(
                lambda q, k, v: np.tril(q @ k.T, -1) @ v,
                "no word sees itself, and the first gets 0. The diagonal belongs to it: j ≤ i, not j < i.",
                mistake="M12",
            ),
            "upper": WrongAnswer(
                lambda q, k, v: np.triu(q @ k.T) @ v,
                "your triangle points the other way: words see what comes later. np.tril, not np.triu.",
                mistake="M12",
            ),
            "other way": WrongAnswer(
                lambda q, k, v: np.tril(k @ q.T) @ v,
                "row i of your table holds what key i is to every query. It should be query i: q @ k.T, not k @ q.T.",
            ),
            "shares": WrongAnswer(
                {"np.tril(q @ k.T)": "np.tril(q @ k.T) / np.tril(q @ k.T).sum(-1, keepdims=True)"},
                "you divide each row by its sum. Scores may be negative, so that sum may be near 0: here nothing is "
                "divided ({got} instead of {want}).",
            ),
        },
        "recurrent": {
            "read first": WrongAnswer(
                {
                    "state = state + np.outer(k[i], v[i])": "output[i] = q[i] @ state",
                    "output[i] = q[i] @ state": "state = state + np.outer(k[i], v[i])",
                },
                "you read before you write: no word sees itself. First S ← S + k vᵀ, then y = q · S.",
            ),
            "replaced": WrongAnswer(
                {"state + np": "np"}, "S is replaced at every word, so each sees only itself. Add to it: S ← S + k vᵀ."
            ),
            "turned round": WrongAnswer(
                {"k[i], v[i]": "v[i], k[i]"},
                "you write v kᵀ instead of k vᵀ: rows and columns of S are exchanged. np.outer(k[i], v[i]) is (d, e), "
                "one row for every number of the key.",
            ),
            "transposed": WrongAnswer(
                {"output, state": "output, state.T"},
                "the output is right; the state you return is (e, d). It must be (d, e): a row for every number of k.",
            ),
            "end": WrongAnswer(
                {"return output": "return q @ state"},
                "every word reads the state as it is at the end, and so sees the future. Read inside the loop. For a "
                "list of states, use state = state + …: state += … changes the same array N times.",
            ),
        },
        "packed": {
            "not emptied": WrongAnswer(
                {"begins[i]": "False"},
                "from word {word} on, S still holds the text before. Set S to 0 where begins[i] is True, before the "
                "write.",
                values=_first_wrong_word,
                mistake="L2",
            ),
            "after the write": WrongAnswer(
                {
                    "begins[i]": "False",
                    "state + np.outer(k[i], v[i])": "(state + np.outer(k[i], v[i])) * (not begins[i])",
                },
                "you empty S after the first word of a text is written, which loses it. Empty, then write, then read.",
            ),
            "too late": WrongAnswer(
                {"begins[i]": "i > 0 and begins[i - 1]"},
                "you empty S one word too late: the first word of a text still reads the old text, and then vanishes "
                "with it. begins[i] comes before the write of word i.",
            ),
            "output only": WrongAnswer(
                {"begins[i]": "False", "q[i] @ state": "q[i] @ (np.outer(k[i], v[i]) if begins[i] else state)"},
                "the first word of each text is right, the next still read the old text: S itself wasn't emptied.",
            ),
            "inverted": WrongAnswer(
                {"begins[i]": "not begins[i]"},
                "you empty S everywhere but where a text begins: it is begins[i], not `not begins[i]`.",
            ),
        },
    },
    hints={
        "parallel": ["The scores are q @ k.T, as they are; np.tril sets those after the diagonal to 0."],
        "recurrent": [
            "Begin with `state = np.zeros((k.shape[1], v.shape[1]))`; then a loop over the words: write, then read.",
            "Write: `state = state + np.outer(k[i], v[i])`. Read: `output[i] = q[i] @ state`.",
        ],
        "packed": [
            "The same loop; what has to be true of S before the first word of a text is written?",
            "`if begins[i]: state = np.zeros_like(state)`, as the first thing in the loop.",
        ],
    },
    takeaway="The N × N table and the loop gave the same numbers; the loop kept only d × e. Attention can't do this: "
    "its softmax needs all scores of a query at once.",
)
