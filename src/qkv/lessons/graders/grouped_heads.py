"""Who shares with whom, against `steps`, which takes grouped keys as they are."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...attention.oracle import Array, from_qkv
from ...i18n import Message
from ..lesson import Lesson, Wrong
from ..module_questions import matrix, module_question, tensors
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
        *(calls("spread", right_spread, *given, names="x n_head") for given in SPREADS),
        *(module_question("GroupedQueryAttention", right, *given) for given in MODULES),
    ],
    wrongs={
        "spread": [
            Wrong(
                "tiled",
                lambda x, n_head: x.repeat(1, n_head // x.shape[1], 1, 1),
                "right shape, wrong partners: the row of heads is repeated as a whole, 0, 1, 0, 1, …. Neighbours "
                "share: 0, 0, 0, 1, 1, 1. That is repeat_interleave, not repeat.",
                mistake="H8",
            ),
            Wrong(
                "first only",
                lambda x, n_head: x[:, :1].repeat(1, n_head, 1, 1),
                "every query head got key head 0; the others are never used.",
            ),
            Wrong(
                "averaged",
                lambda x, n_head: x.mean(1, keepdim=True).repeat(1, n_head, 1, 1),
                "the key heads were averaged. Each query head uses one of them, as it is.",
            ),
            Wrong(
                "on words",
                lambda x, n_head: x.repeat_interleave(n_head // x.shape[1], dim=2),
                "you have {shape}: the words were repeated (dim=2). Repeat the heads, dim=1: {right}.",
            ),
            Wrong(
                "heads times",
                lambda x, n_head: x.repeat_interleave(n_head, dim=1),
                "you have {shape}: each head is repeated n_head times. H // G times makes {right}.",
            ),
            Wrong("unchanged", lambda x, n_head: x, "nothing was repeated: {shape}, and {right} is right."),
        ],
        "GroupedQueryAttention": [
            Wrong(
                "all tiled",
                {
                    "spread(split(project(x), self.n_kv_head), self.n_head)": "split(project(x), self.n_kv_head).repeat(1, self.n_head // self.n_kv_head, 1, 1)"
                },
                "in forward, keys and values are repeated as a whole row (0, 1, 0, 1). Use spread.",
                mistake="H8",
            ),
            Wrong(
                "values tiled",
                {"@ v": "@ split(self.v(x), self.n_kv_head).repeat(1, self.n_head // self.n_kv_head, 1, 1)"},
                "the keys are spread rightly, the values aren't: their heads are in the order 0, 1, 0, 1. Use spread "
                "for both.",
                mistake="H8",
            ),
            Wrong(
                "all first",
                {"spread(split(project(x), self.n_kv_head), self.n_head)": "split(project(x), self.n_kv_head)[:, :1]"},
                "all query heads use the first key/value head.",
            ),
            Wrong(
                "by width",
                {"q.shape[-1]": "x.shape[-1]"},
                "the scale is √C ({got} instead of {want}). A head is D wide: √D.",
                mistake="S3",
            ),
            Wrong("unscaled", {" / q.shape[-1] ** 0.5": ""}, "the scores aren't divided by √D.", mistake="S2"),
            Wrong(
                "mask ignored",
                {"scores = scores.": "scores."},
                "right without a mask; with one, nothing changes.",
                mistake="M3",
            ),
            Wrong(
                "mask inverted",
                {"~mask": "mask"},
                "the mask is turned round: True = may attend, so fill where ~mask.",
                mistake="M1",
            ),
            Wrong(
                "view merge",
                {"heads.transpose(1, 2).flatten(2)": "heads.reshape(x.shape)"},
                "the heads were merged without transpose(1, 2): words are mixed.",
                mistake="H2",
            ),
            Wrong("no output matrix", {"self.out(": "("}, "self.out isn't used.", mistake="P4"),
            Wrong(
                "over heads",
                {"dim=-1": "dim=1"},
                "the softmax runs over the heads (dim=1). dim=-1, the keys.",
                mistake="X3",
            ),
        ],
    },
    hints={
        "spread": [
            Message(
                "PyTorch has two repeats: `x.repeat(…)` copies the whole, `x.repeat_interleave(n, dim=…)` each entry "
                "in place."
            ),
            Message("Each head is repeated `n_head // x.shape[1]` times, along dim=1."),
        ],
        "GroupedQueryAttention": [
            Message(
                "forward is as in “merging heads”, only that k and v are split into n_kv_head heads and then spread "
                "to n_head."
            )
        ],
    },
    after=Message("With H = 32 and G = 8, as in LLaMA 3, the cache of the next exercise is four times smaller."),
    doctor=lambda answer: (answer.GroupedQueryAttention(24, 6, 2), {"heads": 6}),
    seconds=30.0,  # of computing, the doctor's too
)
