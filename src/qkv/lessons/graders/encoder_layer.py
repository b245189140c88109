"""The order of the parts, compared with the same layer in NumPy."""

import numpy as np
import torch
from numpy.typing import NDArray

from ...attention.oracle import Array
from ..lesson import Lesson, WrongAnswer
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
    questions=[module_question("EncoderLayer", right, *inputs) for inputs in LAYERS],
    wrong_answers={
        "EncoderLayer": {
            "post-norm": WrongAnswer(
                {
                    "x + self.attention(self.norm1(x), mask)": "self.norm1(x + self.attention(x, mask))",
                    "x + self.down(torch.relu(self.up(self.norm2(x))))": "self.norm2(x + self.down(torch.relu(self.up(x))))",
                },
                "you normalise after the sum, as the first Transformer did (post-norm). Here the norm stands before "
                "each part: x + attention(norm1(x)).",
            ),
            "from normed": WrongAnswer(
                {"x = x +": "x = self.norm1(x) +", "return x +": "return self.norm2(x) +"},
                "the residual starts from the normalised x: x = norm1(x) overwrites the x that should go straight "
                "through. Keep x, and give norm1(x) to the attention only.",
                mistake="T5",
            ),
            "second from normed": WrongAnswer(
                {"return x +": "return self.norm2(x) +"},
                "the first line is right. The second residual starts from norm2(x): add the feed-forward to x itself.",
                mistake="T5",
            ),
            "no residuals": WrongAnswer(
                {"x + self": "self"},
                "both sums are missing: x + … in each line. Without them deep stacks hardly train.",
                mistake="T6",
            ),
            "no first residual": WrongAnswer(
                {"x = x +": "x ="}, "the first sum is missing: x + attention(…).", mistake="T6"
            ),
            "no second residual": WrongAnswer(
                {"return x +": "return"}, "the second sum is missing: x + feed-forward(…).", mistake="T6"
            ),
            "from input": WrongAnswer(
                {"x = x": "between = x", "norm2(x)": "norm2(between)"},
                "the feed-forward is added to the layer's input, so the output of the attention is lost. Add it to the "
                "x that the first line made.",
                mistake="T6",
            ),
            "parallel": WrongAnswer(
                {"x = x": "both = x", "return x": "return both"},
                "attention and feed-forward both read the input, side by side. Some models (GPT-J) do, but here the "
                "second reads what the first has made.",
            ),
            "no norms": WrongAnswer(
                {"self.norm1(x)": "x", "self.norm2(x)": "x"},
                "neither norm is used ({got} instead of {want}).",
                mistake="T6",
            ),
            "norm1 twice": WrongAnswer(
                {"norm2": "norm1"},
                "norm1 is used twice and norm2 never: a slip of copying that leaves norm2 untrained.",
                mistake="T6",
            ),
            "second unnormed": WrongAnswer(
                {"self.norm2(x)": "x"}, "the feed-forward gets x without norm2.", mistake="T6"
            ),
            "no relu": WrongAnswer(
                {"torch.relu": ""},
                "without relu, up and down are one matrix: the layer can't do more than a product. down(relu(up(…))).",
            ),
            "relu last": WrongAnswer(
                {"self.down(torch.relu(": "torch.relu(self.down("},
                "relu comes after down; it belongs between up and down.",
            ),
            "gelu": WrongAnswer(
                {"torch.relu": "nn.functional.gelu"},
                "you used gelu. Good models do; here relu is asked for, so that numbers can be compared.",
            ),
            "mask lost": WrongAnswer(
                {", mask)": ")"},
                "right without a mask; with one, it never reaches the attention: self.attention(…, mask).",
                mistake="M3",
            ),
            "mask inverted": WrongAnswer(
                {", mask)": ", None if mask is None else ~mask)"},
                "the mask is inverted on its way: True = may attend, there as here.",
                mistake="M1",
            ),
            "only attention": WrongAnswer(
                {" + self.down(torch.relu(self.up(self.norm2(x))))": ""},
                "the second half is missing: x + feed-forward(norm2(x)).",
                mistake="T6",
            ),
            "norm behind": WrongAnswer(
                {
                    "self.attention(self.norm1(x), mask)": "self.norm1(self.attention(x, mask))",
                    "self.down(torch.relu(self.up(self.norm2(x))))": "self.norm2(self.down(torch.relu(self.up(x))))",
                },
                "the norms are on the branch, but after each part: norm1(attention(x)). They go before: "
                "attention(norm1(x)).",
                mistake="T6",
            ),
        },
    },
    hints={
        "EncoderLayer": [
            "Two lines, each of the form x = x + part(norm(x)).",
            "`x = x + self.attention(self.norm1(x), mask)`",
            "The feed-forward part is `self.down(torch.relu(self.up(…)))`.",
        ],
    },
    takeaway="Stack twelve of these and you have BERT. With a causal mask it is a GPT, which comes next.",
    doctor_target=lambda answer: (answer.EncoderLayer(24, 4, 40), {"heads": 4}),
    seconds=30.0,  # includes the doctor
)
