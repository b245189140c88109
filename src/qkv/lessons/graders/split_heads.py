"""Splitting into heads, and the weights of each head."""

import numpy as np
from torch import Tensor

from ...attention.oracle import Array, from_qkv
from ..lesson import Lesson, WrongAnswer
from ..module_questions import tensors
from ..questions import calls

_x = tensors(11, 2)
SPLITS = [(_x(2, 3, 8), 4), (_x(1, 5, 6), 2), (_x(3, 4, 4), 4), (_x(2, 2, 9), 3), (_x(2, 3, 5), 1)]
PAIRS = [
    (_x(2, 3, 8), _x(2, 5, 8), 4),
    (_x(1, 4, 6), _x(1, 4, 6), 3),
    (_x(3, 1, 4), _x(3, 2, 4), 1),
    (_x(2, 3, 12), _x(2, 3, 12), 2),
]


def right_split(x: Tensor, n_head: int) -> Array:
    wide = x.shape[-1] // n_head
    return np.stack([x.numpy()[..., h * wide : (h + 1) * wide] for h in range(n_head)], axis=1)


def right(q: Tensor, k: Tensor, n_head: int) -> Array:
    keys = right_split(k, n_head)
    return from_qkv(right_split(q, n_head), keys, keys).weights


LESSON = Lesson(
    questions=[
        *(calls("split", right_split, *inputs, names="x n_head") for inputs in SPLITS),
        *(calls("head_weights", right, *inputs, names="q k n_head") for inputs in PAIRS),
    ],
    wrong_answers={
        "split": {
            "view only": WrongAnswer(
                lambda x, n_head: x.reshape(x.shape[0], n_head, x.shape[1], -1),
                "right shape, wrong numbers: a reshape straight to (B, H, N, D) cuts the sentence into H stretches, "
                "and a head sees numbers of different words as one. Reshape to (B, N, H, D), then transpose(1, 2).",
                mistake="H1",
            ),
            "unturned": WrongAnswer(
                lambda x, n_head: x.reshape(x.shape[0], x.shape[1], n_head, -1),
                "you have {shape}: the split is right, but words still come before heads. transpose(1, 2) makes it "
                "{right}.",
            ),
            "strided": WrongAnswer(
                lambda x, n_head: x.reshape(x.shape[0], x.shape[1], -1, n_head).permute(0, 3, 1, 2),
                "each head got every H-th number (0, H, 2H, …). A head gets D neighbours: reshape to (…, H, D), not "
                "(…, D, H).",
            ),
            "turned wrong": WrongAnswer(
                lambda x, n_head: x.reshape(x.shape[0], x.shape[1], n_head, -1).permute(0, 2, 3, 1),
                "you have {shape}; {right} is right: words and head width changed places. Only the axes 1 and 2 swap.",
            ),
            "heads first": WrongAnswer(
                lambda x, n_head: x.reshape(x.shape[0], x.shape[1], n_head, -1).permute(2, 0, 1, 3),
                "you have {shape}: the heads come before the batch. The batch stays first: {right}.",
            ),
            "width is heads": WrongAnswer(
                lambda x, n_head: x.reshape(x.shape[0], x.shape[1], -1, n_head).transpose(1, 2),
                "you have {shape}: n_head is the number of heads, not their width. The width is C // n_head: {right}.",
            ),
            "joined": WrongAnswer(
                lambda x, n_head: x.reshape(x.shape[0], x.shape[1], n_head, -1).transpose(1, 2).flatten(0, 1),
                "you have {shape}: batch and heads became one axis. Keep them apart: {right}.",
            ),
        },
        "head_weights": {
            "by width": WrongAnswer(
                {"q.shape[-1]": "(n_head * q.shape[-1])"},
                "you divide by √C, the width of the model ({got} instead of {want}): one of the commonest mistakes in "
                "published code. After the split, d is the head's width, q.shape[-1] of the split q.",
                mistake="S3",
            ),
            "by heads": WrongAnswer(
                {"q.shape[-1]": "n_head"},
                "you divide by the root of the number of heads. It is the head's width: √D.",
                mistake="S4",
            ),
            "unscaled": WrongAnswer(
                {" / q.shape[-1] ** 0.5": ""}, "the scores aren't scaled: divide by √D.", mistake="S2"
            ),
            "over heads": WrongAnswer(
                {"dim=-1": "dim=1"},
                "one of your rows adds up to {sum}: the softmax runs over the heads (dim=1), which then share one 1 "
                "between them. dim=-1, the keys.",
                mistake="X3",
            ),
            "over queries": WrongAnswer(
                {"dim=-1": "dim=-2"},
                "one of your rows adds up to {sum}: the softmax runs over the queries (dim=-2). dim=-1, the keys.",
                mistake="X1",
            ),
            "no softmax": WrongAnswer(
                {"torch.softmax": "", ", dim=-1": ""},
                "these are the scores, {got} for instance; the softmax is missing.",
                mistake="X6",
            ),
            "one head": WrongAnswer(
                {"n_head)": "1)", "dim=-1)": "dim=-1).repeat(1, n_head, 1, 1)"},
                "all heads have the same weights: they come from the whole width. Split q and k first.",
                mistake="H4",
            ),
            "unsplit": WrongAnswer(
                {"split(q, n_head), split(k, n_head)": "q, k"},
                "you have {shape}, one head: q and k were not split. {right} is right.",
                mistake="H4",
            ),
            "viewed": WrongAnswer(
                {"split(q, n_head), split(k, n_head)": "(t.reshape(len(t), n_head, t.shape[1], -1) for t in (q, k))"},
                "here heads were cut by a reshape straight to (B, H, N, D). Use your split.",
                mistake="H1",
            ),
        },
    },
    hints={
        "split": [
            "Take the shape apart: `batch, n, width = x.shape`. A head's width is `width // n_head`.",
            "First `.reshape(batch, n, n_head, width // n_head)`, which leaves every word together; then "
            "`.transpose(1, 2)`.",
        ],
        "head_weights": [
            "head_weights: split both, `q @ k.transpose(-1, -2)`, divide by the root of the split q.shape[-1], softmax "
            "over dim=-1."
        ],
    },
    takeaway="Each head now looks for something of its own. `qkv see` shows what the heads of a real model look for.",
)
