"""Five questions, one per step; the reference is `steps` on the same q, k and v."""

import numpy as np

from ...attention.oracle import from_qkv
from ...i18n import Message
from ..exercises import by_hand as solved
from ..lesson import Lesson, Question, Wrong
from ..questions import row

NEAR = 0.011  # typed with two decimals, from numbers rounded to two decimals
STEPS = from_qkv([solved.q], solved.k, solved.v)
V = np.asarray(solved.v, dtype=np.float64)
SCORES, SCALED, WEIGHTS = STEPS.scores[0], STEPS.scaled[0], STEPS.weights[0]
RIGHT = {"scores": SCORES, "scaled": SCALED, "powers": np.exp(SCALED), "weights": WEIGHTS, "output": STEPS.output[0]}
STEP = {name: i for i, name in enumerate(RIGHT, 1)}


def _typed(name: str) -> Question:
    def ask(answer: object) -> object:
        return getattr(answer, name)

    return Question(name, f"{STEP[name]}  {name}", ask, lambda: RIGHT[name], tolerance=NEAR)


def _theirs(got: np.ndarray, want: np.ndarray) -> dict[str, object]:
    return {"got": row(got), "sum": float(got.sum())}


LESSON = Lesson(
    questions=[_typed(name) for name in RIGHT],
    wrongs={
        "scores": [
            Wrong(
                "products",
                [float(np.sum(solved.q) * np.sum(key)) for key in solved.k],
                "your scores {got} are (sum of q) × (sum of k). Multiply first, number by number, then add: 2·2 + 0·1 "
                "+ 1·0 + 0·3.",
                _theirs,
            ),
            Wrong(
                "keys",
                [float(np.dot(key, key)) for key in solved.k],
                "your scores {got} are each k with itself. The query asks: multiply q with each k.",
                _theirs,
            ),
        ],
        "scaled": [
            Wrong(
                "by d", SCORES / 4, "your {got} are the scores divided by d = 4. Divide by its root, √4 = 2.", _theirs
            ),
            Wrong(
                "unscaled",
                SCORES,
                "your {got} are the scores as they were. q has d = 4 numbers, so divide each by √4 = 2.",
                _theirs,
                mistake="S2",
            ),
            Wrong(
                "times root",
                SCORES * 2,
                "your {got} are the scores times √d. Divide: the scores shall become smaller.",
                _theirs,
                mistake="S1",
            ),
        ],
        "powers": [
            Wrong(
                "of scores",
                np.exp(SCORES),
                "your {got} are e to the power of the unscaled scores. Take the scaled ones, 2, 1 and 0.",
                _theirs,
            ),
            Wrong(
                "powers of two",
                2**SCALED,
                "your {got} are powers of 2. Softmax takes powers of e = 2.718…: e² = 7.389.",
                _theirs,
            ),
            Wrong(
                "e to the 0",
                np.where(SCALED == 0, 0.0, np.exp(SCALED)),
                "your {got} has 0 for the scaled score 0, but e⁰ = 1, not 0, as with any number to the power of 0. So "
                "this word too gets a share.",
                _theirs,
            ),
        ],
        "weights": [
            Wrong(
                "no powers",
                SCALED / SCALED.sum(),
                "your {got} are shares of the scaled scores themselves. Take shares of the powers of step 3; a score "
                "of 0 then still gets something, and negative ones work too.",
                _theirs,
            ),
            Wrong(
                "by the largest",
                np.exp(SCALED) / np.exp(SCALED).max(),
                "your weights {got} add up to {sum}, not 1: you divided by the largest power. Divide by the sum of "
                "all three.",
                _theirs,
            ),
            Wrong(
                "unscaled weights",
                np.exp(SCORES) / np.exp(SCORES).sum(),
                "your weights {got} are the softmax of the unscaled scores: much sharper. Use the powers of step 3.",
                _theirs,
                mistake="S2",
            ),
        ],
        "output": [
            Wrong(
                "plain mean",
                V.mean(0),
                "your output {got} is the plain mean of the values: every word counted alike. Multiply each value by "
                "its weight first.",
                _theirs,
            ),
            Wrong(
                "plain sum",
                V.sum(0),
                "your output {got} is the sum of the values without weights. Multiply each value by its weight, then "
                "add.",
                _theirs,
            ),
            Wrong(
                "weighted mean over three",
                STEPS.output[0] / 3,
                "your output {got} is a third of the right one. The weights add up to 1 already: don't divide by the "
                "number of words.",
                _theirs,
            ),
            Wrong(
                "strongest",
                V[int(WEIGHTS.argmax())],
                "your output {got} is the value of the strongest word alone. Attention is soft: the others give their "
                "share too.",
                _theirs,
            ),
        ],
    },
    hints={
        "scores": [Message("Step 1, first word: 2·2 + 0·1 + 1·0 + 0·3.")],
        "scaled": [Message("q has four numbers, so d = 4 and √d = 2. The scaled scores are 2, 1 and 0.")],
        "powers": [Message("The powers are e², e¹ and e⁰ = 1.")],
        "weights": [Message("The powers' sum is 11.107. The first weight is 7.389 / 11.107.")],
        "output": [Message("The first number of the output: 0.665·1 + 0.245·0 + 0.090·1.")],
    },
    after=Message(
        "That is all of attention: softmax(q·Kᵀ/√d)·V. The rest of the course does this for many words, with "
        "masks and heads."
    ),
)
