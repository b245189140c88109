"""Grades the exercise on softmax: arrays of one to three axes, huge numbers and −inf."""

import numpy as np

from ...attention.oracle import Array
from ...attention.oracle import softmax as right
from ..lesson import Lesson, WrongAnswer
from ..questions import calls, format_row

RNG = np.random.default_rng(4)
HUGE = np.array([[1000.0, 999.0, 0.0], [3.0, 1.0, 2.0]])
APART = np.array([[900.0, 901.0], [-900.0, -902.0]])
HIDDEN = np.array([[1.0, -np.inf, 2.0, 0.0], [-np.inf, -np.inf, 0.5, -np.inf]])
INPUTS = [
    RNG.normal(size=(3, 5)),
    RNG.normal(size=(2, 3, 4)) * 3,
    RNG.normal(size=(4, 4)),
    RNG.normal(size=6),
    HIDDEN,
    APART,
    HUGE,
]


def _nonfinite_row(actual: Array, expected: Array) -> dict[str, object]:
    rows = ~np.isfinite(actual).all(-1)
    if not rows.any():
        return {"row": "", "want": ""}
    return {"row": format_row(actual[rows][0]), "want": format_row(expected[rows][0])}


LESSON = Lesson(
    questions=[calls("softmax", right, x, names="x", description=f"x {x.shape}") for x in INPUTS[:4]]
    + [
        calls("softmax", right, HIDDEN, names="x", description="x = [[1, −inf, 2, 0], [−inf, −inf, 0.5, −inf]]"),
        calls("softmax", right, APART, names="x", description="x = [[900, 901], [−900, −902]]"),
        calls("softmax", right, HUGE, names="x", description="x = [[1000, 999, 0], [3, 1, 2]]"),
    ],
    wrong_answers={
        "softmax": {
            "unstable": WrongAnswer(
                {" - x.max(-1, keepdims=True)": ""},
                "small numbers come out right, but here your row is {row} and {want} is right: e to such a power is "
                "more than a float can hold. Subtract the row's maximum before np.exp.",
                values=_nonfinite_row,
                mistake="X5",
            ),
            "NaN covered": WrongAnswer(
                {
                    " - x.max(-1, keepdims=True)": "",
                    "powers / powers.sum(-1, keepdims=True)": "np.nan_to_num(powers / powers.sum(-1, keepdims=True))",
                },
                "one of your rows adds up to {sum}: e to such a power overflows (or all powers are 0), and nan_to_num "
                "makes 0 of the NaN. That hides the fault and loses the row. Subtract the row's maximum before np.exp.",
            ),
            "over middle": WrongAnswer(
                {"-1": "-2 if x.ndim > 1 else -1"},
                "one of your rows adds up to {sum}: your columns add up to 1. You went over the axis before the last, "
                "the queries; shares are taken over the keys, the last axis.",
            ),
            "over rows": WrongAnswer(
                {"-1": "0"},
                "one of your rows adds up to {sum}, not 1: you took the softmax over axis 0. It is taken over each "
                "row: axis=-1.",
                mistake="X1",
            ),
            "over all": WrongAnswer(
                {"-1, keepdims=True": ""},
                "the whole table adds up to 1, and a row only to {sum}: max() and sum() without an axis go over "
                "everything. Give axis=-1.",
            ),
            "own max, all sum": WrongAnswer(
                {"powers.sum(-1, keepdims=True)": "powers.sum()"},
                "one of your rows adds up to {sum}: the maximum is each row's own, but sum() goes over everything. "
                "Give it axis=-1, keepdims=True.",
            ),
            "axis one": WrongAnswer(
                {"-1": "1"},
                "with two axes this is right, with three or one it isn't: axis 1 is the last only of a matrix. Write "
                "axis=-1, the last of any array.",
            ),
            "one maximum": WrongAnswer(
                {"x.max(-1, keepdims=True)": "x.max()"},
                "you subtracted one maximum, that of the whole table. The other row lies 1,800 below it: all its "
                "powers become 0, and 0/0 is NaN ({row}; {want} is right). Subtract each row's own: x.max(-1, "
                "keepdims=True).",
                values=_nonfinite_row,
            ),
            "no sum": WrongAnswer(
                {" / powers.sum(-1, keepdims=True)": ""},
                "one of your rows adds up to {sum}: the powers are right, now divide by their sum along the row.",
            ),
            "by largest": WrongAnswer(
                {" - x.max(-1, keepdims=True)": "", "powers.sum": "powers.max"},
                "one of your rows adds up to {sum}: you divide by the largest power. Divide by the sum.",
            ),
            "no exp": WrongAnswer(
                lambda x: x / x.sum(-1, keepdims=True),
                "x divided by its sum gives {got} where {want} is right: the powers are missing. Shares must come from "
                "np.exp(x), which is never negative.",
            ),
            "shifted, no exp": WrongAnswer(
                {"np.exp": ""},
                "your largest number gets the share 0: the maximum was subtracted, but np.exp is missing after it.",
            ),
            "minus mean": WrongAnswer(
                {"x.max": "x.mean"},
                "subtracting the mean instead of the maximum leaves room to overflow, and with −inf in the row the "
                "mean is −inf: your row is {row}, and {want} is right. Subtract the maximum.",
                values=_nonfinite_row,
            ),
            "plus max": WrongAnswer(
                {"x - ": "x + "},
                "you add the maximum instead of subtracting it, so the powers grow: your row is {row}, and {want} is "
                "right. x − max.",
                values=_nonfinite_row,
            ),
            "log softmax": WrongAnswer(
                {
                    "np.exp": "",
                    "powers / powers.sum(-1, keepdims=True)": "powers - np.log(np.exp(powers).sum(-1, keepdims=True))",
                },
                "your numbers are negative: this is the logarithm of the softmax ({got}). Return the shares ({want}).",
            ),
            "no keepdims": WrongAnswer(
                {", keepdims=True": ""},
                "x.max(-1) has one axis less than x, so NumPy lines it up with the wrong axis, or can't at all. Keep "
                "it as a column: x.max(-1, keepdims=True), and the same for the sum.",
            ),
        },
    },
    hints={
        "softmax": [
            "Three lines: subtract the maximum, np.exp, divide by the sum.",
            "Maximum and sum are each row's own: give axis=-1, and keepdims=True, so that (3, 5) and (3, 1) fit "
            "together.",
            "`powers = np.exp(x - x.max(-1, keepdims=True))`",
        ],
    },
    takeaway="Every library does it this way. Flash attention keeps a running maximum, as it never sees a whole row.",
)
