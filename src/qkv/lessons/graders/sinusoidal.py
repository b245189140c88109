"""The table compared with `attention.oracle.sinusoid`."""

from ...attention.oracle import sinusoid as right
from ..exercises import sinusoidal as solved
from ..lesson import Lesson, WrongAnswer
from ..module_questions import tensors
from ..questions import calls

_x = tensors(13)
SIZES = [(3, 4), (7, 6), (1, 2), (50, 16), (4, 5)]
WORDS = [_x(2, 3, 4), _x(3, 3, 6), _x(1, 5, 8)]

LESSON = Lesson(
    questions=[
        *(calls("sinusoid", right, *size, names="n width") for size in SIZES),
        *(calls("add_positions", lambda x: x.numpy() + right(*x.shape[1:]), x, names="x") for x in WORDS),
    ],
    wrong_answers={
        "sinusoid": {
            "doubled": WrongAnswer(
                {"even / width": "2 * even / width"},
                "the exponent is doubled: torch.arange(0, width, 2) is 2i already, so 10000^(2·2i/C) slows down twice "
                "as fast ({got} instead of {want}). Use it as it is: even / width.",
                mistake="R1",
            ),
            "halved": WrongAnswer(
                {"even / width": "even / 2 / width"},
                "the exponent is i/C where 2i/C is right ({got} instead of {want}): i counts pairs of columns, the "
                "exponent needs 2i.",
                mistake="R1",
            ),
            "own column": WrongAnswer(
                {"cos(angles)": "cos(place / 10000 ** ((even + 1) / width))"},
                "your cosines have their own frequency, with 2i + 1 in the exponent. A sine and its cosine share 2i.",
                mistake="R1",
            ),
            "next pair": WrongAnswer(
                {"cos(angles)": "cos(place / 10000 ** ((even + 2) / width))"},
                "your cosines have the frequency of the next pair, 2i + 2. A sine and its cosine share 2i.",
                mistake="R1",
            ),
            "base 1000": WrongAnswer({"10000": "1000"}, "the base is 1000 in yours; 10000 is right.", mistake="R1"),
            "from one": WrongAnswer(
                {"place": "(place + 1)"}, "places count from 0: your first row is that of place 1."
            ),
            "swapped": WrongAnswer(
                {"sin": "cos", "cos": "sin"}, "sines and cosines changed places: row 0 is [0, 1, 0, 1, …], sine first."
            ),
            "halves": WrongAnswer(
                {"return table": "return torch.cat([table[:, 0::2], table[:, 1::2]], 1)"},
                "all sines come first, then all cosines. Here they alternate: table[:, 0::2] and table[:, 1::2].",
            ),
            "times": WrongAnswer(
                {"place /": "place *"},
                "the waves get faster instead of slower: the place is multiplied by 10000^(2i/C). Divide.",
            ),
            "whole width": WrongAnswer(
                {"even / width": "even / 2 / max((width + 1) // 2 - 1, 1)"},
                "your exponent runs from 0 to 1 exactly, i / (C/2 − 1). In the paper it is 2i/C and stays below 1.",
            ),
            "even only": WrongAnswer(
                {"[:, : width // 2]": ""},
                "right for even widths. With width 5 there are three sines but two cosines: cut the cosines, [:, : "
                "width // 2].",
            ),
        },
        "add_positions": {
            "scaled words": WrongAnswer(
                lambda x: x * x.shape[-1] ** 0.5 + solved.sinusoid(x.shape[1], x.shape[2]),
                "the word vectors are multiplied by √C first. The whole Transformer does that to its embeddings, but "
                "here only the place is added.",
            ),
            "by batch": WrongAnswer(
                lambda x: x + solved.sinusoid(x.shape[0], x.shape[2])[:, None],
                "the table is counted along the batch: every word of a sentence gets the same row. Places run along "
                "axis 1: x.shape[1].",
                mistake="R3",
            ),
            "multiplied": WrongAnswer(
                lambda x: x * solved.sinusoid(x.shape[1], x.shape[2]), "positions are added, not multiplied."
            ),
            "only table": WrongAnswer(
                lambda x: solved.sinusoid(x.shape[1], x.shape[2]).expand(x.shape),
                "the words are gone: x + table, not the table alone.",
            ),
        },
    },
    hints={
        "sinusoid": [
            "`torch.arange(0, width, 2)` is 0, 2, 4, …, which is 2i. One frequency per pair of columns.",
            "`angles = place / 10000 ** (even / width)` is (n, ⌈width/2⌉): a column of places by a row of frequencies.",
            "`table[:, 0::2]` are the even columns, `table[:, 1::2]` the odd ones: sines there, cosines here, `[:, : "
            "width // 2]` of them.",
        ],
        "add_positions": ["add_positions: one table (N, C) for every text; (B, N, C) + (N, C) adds it to each."],
    },
    takeaway="Learned tables train as well, but end at the longest text seen. The next exercise rotates q and k "
    "instead of adding.",
)
