"""Which heads share keys, compared with `from_qkv`, which takes grouped keys."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...attention.oracle import Array, from_qkv
from ..lesson import Lesson, WrongAnswer
from ..module_questions import ATTENTION_MISTAKES, matrix, module_question, tensors
from ..questions import calls

_x = tensors(15, 1.5)
SPREADS = [(_x(1, 2, 3, 4), 6), (_x(2, 3, 2, 5), 6), (_x(3, 1, 4, 2), 4), (_x(2, 4, 3, 3), 4)]
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
MODULES = [
    ((12, 6, 2), _x(2, 5, 12), None),
    ((24, 6, 3), _x(1, 4, 24), None),
    ((12, 4, 2), _x(3, 5, 12), CAUSAL),
    ((8, 4, 1), _x(2, 3, 8), None),
    ((10, 2, 2), _x(2, 3, 10), None),
]


def right_spread(x: Tensor, n_head: int) -> Array:
    shared = n_head // x.shape[1]
    return np.stack([x[:, h // shared].numpy() for h in range(n_head)], axis=1)


def right(x: Array, mask: NDArray[np.bool_] | None, width: int, n_head: int, n_kv_head: int) -> Array:
    wide = width // n_head
    q, k, v = (
        (x @ matrix(name, width, heads * wide)).reshape(*x.shape[:2], heads, wide).swapaxes(1, 2)
        for name, heads in (("q", n_head), ("k", n_kv_head), ("v", n_kv_head))
    )
    return from_qkv(q, k, v, mask).output @ matrix("out", n_head * wide, width)


LESSON = Lesson(
    questions=[
        *(calls("spread", right_spread, *inputs, names="x n_head") for inputs in SPREADS),
        *(module_question("GroupedQueryAttention", right, *inputs) for inputs in MODULES),
    ],
    wrong_answers={
        "spread": {
            "tiled": WrongAnswer(
                lambda x, n_head: x.repeat(1, n_head // x.shape[1], 1, 1),
                "right shape, wrong partners: the row of heads is repeated as a whole, 0, 1, 0, 1, …. Neighbours "
                "share: 0, 0, 0, 1, 1, 1. That is repeat_interleave, not repeat.",
                mistake="H8",
            ),
            "first only": WrongAnswer(
                lambda x, n_head: x[:, :1].repeat(1, n_head, 1, 1),
                "every query head got key head 0; the others are never used.",
            ),
            "averaged": WrongAnswer(
                lambda x, n_head: x.mean(1, keepdim=True).repeat(1, n_head, 1, 1),
                "the key heads were averaged. Each query head uses one of them, as it is.",
            ),
            "on words": WrongAnswer(
                lambda x, n_head: x.repeat_interleave(n_head // x.shape[1], dim=2),
                "you have {shape}: the words were repeated (dim=2). Repeat the heads, dim=1: {right}.",
            ),
            "heads times": WrongAnswer(
                lambda x, n_head: x.repeat_interleave(n_head, dim=1),
                "you have {shape}: each head is repeated n_head times. H // G times makes {right}.",
            ),
            "unchanged": WrongAnswer(lambda x, n_head: x, "nothing was repeated: {shape}, and {right} is right."),
        },
        "GroupedQueryAttention": {
            **ATTENTION_MISTAKES,
            "all tiled": WrongAnswer(
                {
                    "spread(split(project(x), self.n_kv_head), self.n_head)": "split(project(x), self.n_kv_head).repeat(1, self.n_head // self.n_kv_head, 1, 1)"
                },
                "in forward, keys and values are repeated as a whole row (0, 1, 0, 1). Use spread.",
                mistake="H8",
            ),
            "values tiled": WrongAnswer(
                {"@ v": "@ split(self.v(x), self.n_kv_head).repeat(1, self.n_head // self.n_kv_head, 1, 1)"},
                "the keys are right, but the heads of the values are in the order 0, 1, 0, 1. Use spread for both.",
                mistake="H8",
            ),
            "all first": WrongAnswer(
                {"spread(split(project(x), self.n_kv_head), self.n_head)": "split(project(x), self.n_kv_head)[:, :1]"},
                "all query heads use the first key/value head.",
            ),
            "mask ignored": WrongAnswer(
                {"scores = scores.": "scores."}, "right without a mask; with one, nothing changes.", mistake="M3"
            ),
            "mask inverted": WrongAnswer(
                {"~mask": "mask"}, "the mask is inverted: True = may attend, so fill where ~mask.", mistake="M1"
            ),
            "view merge": WrongAnswer(
                {"heads.transpose(1, 2).flatten(2)": "heads.reshape(x.shape)"},
                "the heads were merged without transpose(1, 2): words are mixed.",
                mistake="H2",
            ),
        },
    },
    hints={
        "spread": [
            "PyTorch has two repeats: `x.repeat(…)` copies the whole, `x.repeat_interleave(n, dim=…)` each entry in "
            "place.",
            "Each head is repeated `n_head // x.shape[1]` times, along dim=1.",
        ],
        "GroupedQueryAttention": [
            "forward is as in “merging heads”, but k and v are split into n_kv_head heads and spread to n_head."
        ],
    },
    takeaway="With H = 32 and G = 8, as in LLaMA 3, the cache of the next exercise is four times smaller.",
    doctor_target=lambda answer: (answer.GroupedQueryAttention(24, 6, 2), {"heads": 6}),
    seconds=30.0,  # includes the doctor
)
