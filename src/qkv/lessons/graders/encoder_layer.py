"""How the parts are wired, against the same layer in NumPy."""

import numpy as np
import torch
from numpy.typing import NDArray

from ...attention.oracle import Array
from ...i18n import Message
from ..lesson import Lesson, Wrong
from ..module_questions import attention, layer_norm, linear, module_question, tensors

_x = tensors(17, 1.5, 0.5)
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
PADDED = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=torch.bool)[:, None, None]
LAYERS = [
    ((12, 3, 20), _x(2, 5, 12), None),
    ((8, 4, 8), _x(1, 3, 8), None),
    ((6, 2, 24), _x(2, 5, 6), CAUSAL),
    ((10, 5, 7), _x(3, 3, 10), PADDED),
    ((4, 1, 9), _x(2, 1, 4), None),
]


def right(x: Array, mask: NDArray[np.bool_] | None, width: int, n_head: int, hidden: int) -> Array:
    between = x + attention(layer_norm(x, "norm1"), n_head, "attention.", mask)
    wide = np.maximum(linear(layer_norm(between, "norm2"), "up", hidden), 0)
    return between + linear(wide, "down", width)


LESSON = Lesson(
    questions=[module_question("EncoderLayer", right, *given) for given in LAYERS],
    wrongs={
        "EncoderLayer": [
            Wrong(
                "post-norm",
                {
                    "x + self.attention(self.norm1(x), mask)": "self.norm1(x + self.attention(x, mask))",
                    "x + self.down(torch.relu(self.up(self.norm2(x))))": "self.norm2(x + self.down(torch.relu(self.up(x))))",
                },
                "you normalise after the sum, as the first Transformer did (post-norm). Here the norm stands before "
                "each part: x + attention(norm1(x)).",
            ),
            Wrong(
                "from normed",
                {"x = x +": "x = self.norm1(x) +", "return x +": "return self.norm2(x) +"},
                "the residual starts from the normalised x: x = norm1(x) overwrites the x that should go straight "
                "through. Keep x, and give norm1(x) to the attention only.",
                mistake="T5",
            ),
            Wrong(
                "second from normed",
                {"return x +": "return self.norm2(x) +"},
                "the first line is right. The second residual starts from norm2(x): add the feed-forward to x itself.",
                mistake="T5",
            ),
            Wrong(
                "no residuals",
                {"x + self": "self"},
                "both sums are missing: x + … in each line. Without them deep stacks hardly train.",
                mistake="T6",
            ),
            Wrong("no first residual", {"x = x +": "x ="}, "the first sum is missing: x + attention(…).", mistake="T6"),
            Wrong(
                "no second residual",
                {"return x +": "return"},
                "the second sum is missing: x + feed-forward(…).",
                mistake="T6",
            ),
            Wrong(
                "from input",
                {"x = x": "between = x", "norm2(x)": "norm2(between)"},
                "the feed-forward is added to the layer's input, so what attention found is thrown away again. Add it "
                "to the x that the first line made.",
                mistake="T6",
            ),
            Wrong(
                "parallel",
                {"x = x": "both = x", "return x": "return both"},
                "attention and feed-forward both read the input, side by side. Some models (GPT-J) do, but here the "
                "second reads what the first has made.",
            ),
            Wrong(
                "no norms",
                {"self.norm1(x)": "x", "self.norm2(x)": "x"},
                "neither norm is used ({got} instead of {want}).",
                mistake="T6",
            ),
            Wrong(
                "norm1 twice",
                {"norm2": "norm1"},
                "norm1 is used twice and norm2 never: a slip of copying that leaves norm2 untrained.",
                mistake="T6",
            ),
            Wrong("second unnormed", {"self.norm2(x)": "x"}, "the feed-forward gets x without norm2.", mistake="T6"),
            Wrong(
                "no relu",
                {"torch.relu": ""},
                "without relu, up and down are one matrix: the layer can't do more than a product. down(relu(up(…))).",
            ),
            Wrong(
                "relu last",
                {"self.down(torch.relu(": "torch.relu(self.down("},
                "relu stands behind down; it belongs between up and down.",
            ),
            Wrong(
                "gelu",
                {"torch.relu": "nn.functional.gelu"},
                "you used gelu. Good models do; here relu is asked for, so that numbers can be compared.",
            ),
            Wrong(
                "mask lost",
                {", mask)": ")"},
                "right without a mask; with one, it never reaches the attention: self.attention(…, mask).",
                mistake="M3",
            ),
            Wrong(
                "mask inverted",
                {", mask)": ", None if mask is None else ~mask)"},
                "the mask is turned round on its way: True = may attend, there as here.",
                mistake="M1",
            ),
            Wrong(
                "only attention",
                {" + self.down(torch.relu(self.up(self.norm2(x))))": ""},
                "the second half is missing: x + feed-forward(norm2(x)).",
                mistake="T6",
            ),
            Wrong(
                "norm behind",
                {
                    "self.attention(self.norm1(x), mask)": "self.norm1(self.attention(x, mask))",
                    "self.down(torch.relu(self.up(self.norm2(x))))": "self.norm2(self.down(torch.relu(self.up(x))))",
                },
                "the norms stand on the branch but behind each part: norm1(attention(x)). They go before: "
                "attention(norm1(x)).",
                mistake="T6",
            ),
        ],
    },
    hints={
        "EncoderLayer": [
            Message("Two lines, each of the form x = x + part(norm(x))."),
            Message("`x = x + self.attention(self.norm1(x), mask)`"),
            Message("The feed-forward part is `self.down(torch.relu(self.up(…)))`."),
        ]
    },
    after=Message("Stack twelve of these and you have BERT. With a causal mask it is a GPT, which comes next."),
    doctor=lambda answer: (answer.EncoderLayer(24, 4, 40), {"heads": 4}),
    seconds=30.0,  # of computing, the doctor's too
)
