"""Five questions, one per step, compared with `from_qkv` on the same q, k and v."""

from operator import attrgetter

import numpy as np

from ...attention.oracle import from_qkv
from ..exercises import by_hand as solved
from ..lesson import Lesson, Question, WrongAnswer
from ..questions import format_row

TOLERANCE = 0.011  # for two decimals, computed from two decimals
STEPS = from_qkv([solved.q], solved.k, solved.v)
V = np.asarray(solved.v, dtype=np.float64)
SCORES, SCALED, WEIGHTS = STEPS.scores[0], STEPS.scaled[0], STEPS.weights[0]
RIGHT = {"scores": SCORES, "scaled": SCALED, "powers": np.exp(SCALED), "weights": WEIGHTS, "output": STEPS.output[0]}
STEP = {name: i for i, name in enumerate(RIGHT, 1)}


def _typed(name: str) -> Question:
    return Question(name, f"{STEP[name]}  {name}", attrgetter(name), lambda: RIGHT[name], tolerance=TOLERANCE)


def _row_and_sum(actual: np.ndarray, expected: np.ndarray) -> dict[str, object]:
    return {"got": format_row(actual), "sum": float(actual.sum())}


LESSON = Lesson(
    questions=[_typed(name) for name in RIGHT],
    wrong_answers={
        "scores": {
            "products": WrongAnswer(
                [float(np.sum(solved.q) * np.sum(key)) for key in solved.k],
                "your scores {got} are (sum of q) × (sum of k). Multiply first, number by number, then add: 2·2 + 0·1 "
                "+ 1·0 + 0·3.",
                values=_row_and_sum,
            ),
            "keys": WrongAnswer(
                [float(np.dot(key, key)) for key in solved.k],
                "your scores {got} are each k with itself. The query asks: multiply q with each k.",
                values=_row_and_sum,
            ),
        },
        "scaled": {
            "by d": WrongAnswer(
                SCORES / 4,
                "your {got} are the scores divided by d = 4. Divide by its root, √4 = 2.",
                values=_row_and_sum,
            ),
            "unscaled": WrongAnswer(
                SCORES,
                "your {got} are the scores as they were. q has d = 4 numbers, so divide each by √4 = 2.",
                values=_row_and_sum,
                mistake="S2",
            ),
            "times root": WrongAnswer(
                SCORES * 2,
                "your {got} are the scores times √d. Divide: the scores shall become smaller.",
                values=_row_and_sum,
                mistake="S1",
            ),
        },
        "powers": {
            "of scores": WrongAnswer(
                np.exp(SCORES),
                "your {got} are e to the power of the unscaled scores. Take the scaled ones, 2, 1 and 0.",
                values=_row_and_sum,
            ),
            "powers of two": WrongAnswer(
                2**SCALED,
                "your {got} are powers of 2. Softmax takes powers of e = 2.718…: e² = 7.389.",
                values=_row_and_sum,
            ),
            "e to the 0": WrongAnswer(
                np.where(SCALED == 0, 0.0, np.exp(SCALED)),
                "your {got} has 0 for the scaled score 0, but e⁰ = 1: any number to the power of 0 is 1. This word "
                "gets a share too.",
                values=_row_and_sum,
            ),
        },
        "weights": {
            "no powers": WrongAnswer(
                SCALED / SCALED.sum(),
                "your {got} are shares of the scaled scores themselves. Take shares of the powers of step 3; a score "
                "of 0 then still gets something, and negative ones work too.",
                values=_row_and_sum,
            ),
            "by the largest": WrongAnswer(
                np.exp(SCALED) / np.exp(SCALED).max(),
                "your weights {got} add up to {sum}, not 1: you divided by the largest power. Divide by their sum.",
                values=_row_and_sum,
            ),
            "unscaled weights": WrongAnswer(
                np.exp(SCORES) / np.exp(SCORES).sum(),
                "your weights {got} are the softmax of the unscaled scores: much sharper. Use the powers of step 3.",
                values=_row_and_sum,
                mistake="S2",
            ),
        },
        "output": {
            "plain mean": WrongAnswer(
                V.mean(0),
                "your output {got} is the plain mean of the values. Multiply each value by its weight first.",
                values=_row_and_sum,
            ),
            "plain sum": WrongAnswer(
                V.sum(0),
                "your output {got} is the sum of the values without weights. Multiply each by its weight, then add.",
                values=_row_and_sum,
            ),
            "weighted mean over three": WrongAnswer(
                STEPS.output[0] / 3,
                "your output {got} is a third of the right one. The weights add up to 1: don't divide by the number of "
                "words.",
                values=_row_and_sum,
            ),
            "strongest": WrongAnswer(
                V[int(WEIGHTS.argmax())],
                "your output {got} is the value of the strongest word alone. Attention is soft: all words contribute.",
                values=_row_and_sum,
            ),
        },
    },
    hints={
        "scores": ["Step 1, first word: 2·2 + 0·1 + 1·0 + 0·3."],
        "scaled": ["q has four numbers, so d = 4 and √d = 2. The scaled scores are 2, 1 and 0."],
        "powers": ["The powers are e², e¹ and e⁰ = 1."],
        "weights": ["The powers' sum is 11.107. The first weight is 7.389 / 11.107."],
        "output": ["The first number of the output: 0.665·1 + 0.245·0 + 0.090·1."],
    },
    takeaway="That is all of attention: softmax(q·Kᵀ/√d)·V. The course goes on with many words, masks and heads.",
)
