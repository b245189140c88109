"""One write compared with its transition matrix, whole texts with the reference's triangular inverse."""

import numpy as np

from ...mixers.reference import Array, delta
from ..lesson import Lesson, WrongAnswer
from ..questions import calls

RNG = np.random.default_rng(21)


def _unit(*shape: int) -> Array:
    """Return keys of length 1, whose values can be overwritten exactly."""
    keys = RNG.normal(size=shape)
    return np.asarray(keys / np.linalg.norm(keys, axis=-1, keepdims=True))


# d = e first, and N = d: a wrong axis then gives wrong numbers instead of an error.
WRITES = [
    (RNG.normal(size=(d, e)), _unit(d) * length, RNG.normal(size=e), beta)
    for d, e, beta, length in [(4, 4, 0.5, 1.0), (3, 2, 0.75, 1.0), (2, 5, 0.3, 2.0), (3, 4, 0.9, 1.0)]
]
TEXTS = [
    (RNG.normal(size=(n, d)), _unit(n, d), RNG.normal(size=(n, e)), RNG.uniform(0.2, 0.9, n))
    for n, d, e in [(4, 4, 4), (6, 2, 3), (1, 3, 2), (5, 3, 2)]
]
FADING = [(*inputs, RNG.uniform(0.4, 0.9, len(inputs[0]))) for inputs in TEXTS]


def right_write(state: Array, k: Array, v: Array, beta: float) -> Array:
    """Return (I − β k kᵀ) S + β k vᵀ."""
    return (np.eye(len(k)) - beta * np.outer(k, k)) @ state + beta * np.outer(k, v)


def right(q: Array, k: Array, v: Array, beta: Array) -> Array:
    return right_gated(q, k, v, beta, np.ones(len(q)))


def right_gated(q: Array, k: Array, v: Array, beta: Array, gamma: Array) -> Array:
    return delta(q, k, v, np.log(gamma), beta).output


LESSON = Lesson(
    questions=[
        *(calls("write", right_write, *inputs, names="state k v beta") for inputs in WRITES),
        *(calls("delta_rule", right, *inputs, names="q k v beta") for inputs in TEXTS),
        *(calls("gated_delta_rule", right_gated, *inputs, names="q k v beta gamma") for inputs in FADING),
    ],
    wrong_answers={
        "write": {
            "added": WrongAnswer(
                {"v - held": "v"},
                "you write without taking out what the key held: after Paris and Rome it holds both. Write the "
                "difference, β · k (v − held)ᵀ with held = Sᵀ k.",
                mistake="L5",
            ),
            "no share": WrongAnswer(
                {"beta * ": ""},
                "β isn't used: everything is overwritten whole ({got} instead of {want}).",
                mistake="L5",
            ),
            "all removed": WrongAnswer(
                {"beta * np.outer(k, v - held)": "np.outer(k, beta * v - held)"},
                "you remove all that the key held but write only β · v. The factor applies to both: β · (v − held).",
                mistake="L5",
            ),
            "all written": WrongAnswer(
                {"beta * np.outer(k, v - held)": "np.outer(k, v - beta * held)"},
                "you remove only β · held but write all of v. The factor applies to both: β · (v − held).",
                mistake="L5",
            ),
            "fades everything": WrongAnswer(
                {"state + beta": "(1 - beta) * state + beta", "v - held": "v"},
                "(1 − β) · S fades the values of all keys. Only the value of k may change: held = Sᵀ k.",
            ),
            "wrong axis": WrongAnswer(
                {"state.T @ k": "state @ k"},
                "held is computed along the wrong axis: S k adds up over the values. A key looks along the rows of S: "
                "Sᵀ k, state.T @ k or k @ state, (e,).",
            ),
            "other sign": WrongAnswer(
                {"v - held": "held - v"},
                "the sign is wrong: the state moves away from v. v − held, not held − v.",
            ),
            "replaced": WrongAnswer(
                {"state + ": "", "v - held": "v"}, "the old state is gone: what other keys hold has to stay. S + …"
            ),
            "turned round": WrongAnswer(
                {"k, v - held": "v - held, k"},
                "rows and columns are exchanged: np.outer(k, …) is (d, e), one row for every number of the key.",
            ),
        },
        "delta_rule": {
            "looked up once": WrongAnswer(
                {"write(state, k[i], v[i], beta[i])": "state + beta[i] * np.outer(k[i], v[i])"},
                "every word finds the key empty: held comes from the state before the text. It has to be looked up in "
                "the state as the word before left it.",
            ),
            "beta unused": WrongAnswer(
                {"beta[i]": "1"}, "beta isn't used: every word overwrites whole. Hand beta[i] to write.", mistake="L5"
            ),
            "read first": WrongAnswer(
                {
                    "state = write(state, k[i], v[i], beta[i])": "output[i] = q[i] @ state",
                    "output[i] = q[i] @ state": "state = write(state, k[i], v[i], beta[i])",
                },
                "you read before you write: the first word gets 0. Write, then y = q · S.",
            ),
            "not carried": WrongAnswer(
                {"write(state": "write(0 * state"},
                "each word writes into an empty state. Keep what write returns: state = write(state, …).",
            ),
            "end": WrongAnswer(
                {"return output": "return q @ state"},
                "every word reads the state as it is at the end, and so sees the future. Read inside the loop.",
            ),
        },
        "gated_delta_rule": {
            "unused": WrongAnswer({"gamma[i] * ": ""}, "gamma isn't used: nothing fades.", mistake="L4"),
            "after": WrongAnswer(
                {"write(gamma[i] * ": "gamma[i] * write("},
                "you fade after the write, so the new value has faded when it is read. First γ · S, then write.",
                mistake="L4",
            ),
            "looked up first": WrongAnswer(
                {
                    "write(gamma[i] * state, k[i], v[i], beta[i])": "gamma[i] * state + beta[i] * np.outer(k[i], v[i] - state.T @ k[i])"
                },
                "held is looked up before the state fades, so too much is removed. First γ · S; then look up and "
                "write.",
                mistake="L4",
            ),
            "late": WrongAnswer(
                {"gamma[i]": "gamma[i - 1]"},
                "the decay comes one word late: word i fades by the γ of the word before (or you fade at the end of "
                "the loop). gamma[i] comes before the write of word i.",
                mistake="L4",
            ),
            "twice": WrongAnswer(
                {"gamma[i]": "gamma[i] ** 2"},
                "the state fades twice at every word ({got} instead of {want}).",
                mistake="L4",
            ),
            "whole vector": WrongAnswer(
                {"gamma[i]": "gamma[:, None]"},
                "the decay is on the wrong axis: gamma holds one number for each word, and you multiply the rows of S "
                "by all of them. It is one number now: gamma[i].",
                mistake="L1",
            ),
        },
    },
    hints={
        "write": [
            "What would a query equal to k read? That is `held = state.T @ k`, (e,).",
            "`state + beta * np.outer(k, v - held)`",
        ],
        "delta_rule": [
            "As in linear attention: a state of zeros (d, e), a loop over the words, write, then read `q[i] @ state`."
        ],
        "gated_delta_rule": ["The same loop; what goes into write is the faded state, `gamma[i] * state`."],
    },
    takeaway='With β = 1 and keys at right angles this is a dictionary; with β = 0 nothing is learned. `qkv steps "我 爱 '
    '北京" --mixer delta` shows what is taken out and written at each word.',
)
