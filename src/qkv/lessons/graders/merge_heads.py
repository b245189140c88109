"""Merging, and multi-head attention as a module compared with `steps` with the same matrices."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...attention.oracle import Array
from ..lesson import Lesson, WrongAnswer
from ..module_questions import ATTENTION_MISTAKES, attention, module_question, tensors
from ..questions import calls

_x = tensors(12, 1.5)
MERGES = [_x(2, 4, 3, 2), _x(1, 2, 5, 3), _x(3, 3, 3, 3), _x(2, 1, 4, 5)]
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
PADDED = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)[:, None, None]
MODULES = [
    ((12, 3), _x(2, 5, 12), None),
    ((8, 4), _x(3, 3, 8), None),
    ((12, 2), _x(2, 5, 12), CAUSAL),
    ((6, 3), _x(3, 4, 6), PADDED),
    ((6, 1), _x(1, 2, 6), None),
]


def right_merge(heads: Tensor) -> Array:
    return np.concatenate([heads[:, h].numpy() for h in range(heads.shape[1])], axis=-1)


def right(x: Array, mask: NDArray[np.bool_] | None, width: int, n_head: int) -> Array:
    return attention(x, n_head, "", mask)


LESSON = Lesson(
    questions=[
        *(calls("merge", right_merge, heads, names="heads") for heads in MERGES),
        *(module_question("MultiHeadAttention", right, *inputs) for inputs in MODULES),
    ],
    wrong_answers={
        "merge": {
            "unturned": WrongAnswer(
                lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1),
                "right shape, wrong numbers: without transpose(1, 2) a row holds several words of one head instead of "
                "all heads of one word.",
                mistake="H2",
            ),
            "strided": WrongAnswer(
                lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
                "the heads are mixed number by number (head 0, head 1, head 0, …). They go side by side: all D numbers "
                "of head 0, then head 1.",
            ),
            "averaged": WrongAnswer(
                lambda heads: heads.mean(1),
                "you averaged the heads, {shape}. They are put side by side: {right}.",
                mistake="H11",
            ),
            "summed": WrongAnswer(
                lambda heads: heads.sum(1),
                "you added the heads up, {shape}. They are put side by side: {right}.",
                mistake="H11",
            ),
            "only turned": WrongAnswer(
                lambda heads: heads.transpose(1, 2),
                "the transpose is right, {shape}, but the last two axes aren't joined: flatten(2) makes it {right}.",
            ),
            "view": WrongAnswer(
                lambda heads: heads.transpose(1, 2).view(heads.shape[0], heads.shape[2], -1),
                "almost: after a transpose the numbers don't lie in the new order in memory, and view refuses. reshape "
                "or flatten(2) copies them where needed (so does .contiguous() before view).",
                mistake="H2",
            ),
        },
        "MultiHeadAttention": {
            **ATTENTION_MISTAKES,
            "inverse scale": WrongAnswer(
                {"** 0.5": "** -0.5"},
                "you divide by D**-0.5, which multiplies by √D. Either × D**-0.5 or / D**0.5.",
                mistake="S1",
            ),
            "view split": WrongAnswer(
                {"split(project(x), self.n_head)": "project(x).reshape(len(x), self.n_head, x.shape[1], -1)"},
                "here the heads were cut by a reshape straight to (B, H, N, D). Use the given split.",
                mistake="H1",
            ),
            "view merge": WrongAnswer(
                {"merge(": "(", "@ v)": "@ v).reshape(x.shape)"},
                "your merge is right, but forward puts the heads together without the transpose. Use merge.",
                mistake="H2",
            ),
            "one head": WrongAnswer(
                {"self.n_head": "1"},
                "your attention has one head as wide as the model: split by self.n_head.",
                mistake="H4",
            ),
            "keys for values": WrongAnswer(
                {"@ v": "@ k"}, "the weights are multiplied with k instead of v.", mistake="P2"
            ),
            "mask ignored": WrongAnswer(
                {"scores = scores.": "scores."},
                "right without a mask; with one, your numbers don't change. (masked_fill gives a new tensor: scores = "
                "scores.masked_fill(…).)",
                mistake="M3",
            ),
            "mask inverted": WrongAnswer(
                {"~mask": "mask"},
                "right without a mask; with one, you hide what may be seen. True = may attend, so masked_fill needs "
                "~mask (or mask == 0).",
                mistake="M1",
            ),
            "mask zero": WrongAnswer(
                {'float("-inf")': "0.0"}, "hidden scores become 0, and e⁰ = 1 is a share. Fill with −inf.", mistake="M8"
            ),
            "mask added": WrongAnswer(
                {'scores.masked_fill(~mask, float("-inf"))': "scores + mask"},
                "the mask of True and False is added to the scores: allowed pairs get 1 more, and nothing is hidden.",
                mistake="M7",
            ),
            "residual": WrongAnswer(
                {"return self": "return x + self"},
                "x is added at the end. That belongs to the layer around attention, not here.",
            ),
        },
    },
    hints={
        "merge": ["merge undoes split: what came last there comes first here.", "`heads.transpose(1, 2).flatten(2)`"],
        "MultiHeadAttention": [
            "forward: q, k, v = split(self.q(x), self.n_head), …; scores by √q.shape[-1]; masked_fill(~mask, −inf) if "
            "there is a mask; softmax; @ v; merge; self.out."
        ],
    },
    takeaway="Libraries call this module MultiHeadAttention. `qkv check yourfile.py` can examine any implementation.",
    doctor_target=lambda answer: (answer.MultiHeadAttention(24, 4), {"heads": 4}),
    seconds=30.0,  # includes the doctor
)
