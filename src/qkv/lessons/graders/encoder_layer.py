"""How the parts are wired, against the same layer in NumPy."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...attention.masks import Mask
from ...attention.oracle import Array, steps
from ...i18n import Message
from ..exercises import encoder_layer as solved
from ..fixed_weights import drawn, filled, matrix
from ..lesson import Answer, Lesson, Question, Wrong
from ..questions import furthest

Feed = Callable[[Tensor], Tensor]
RNG = np.random.default_rng(17)
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
PADDED = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=torch.bool)[:, None, None]


def _x(*shape: int) -> Tensor:
    return torch.from_numpy(RNG.normal(size=shape) * 1.5 + 0.5)


LAYERS: list[tuple[int, int, int, Tensor, Tensor | None]] = [
    (12, 3, 20, _x(2, 5, 12), None),
    (8, 4, 8, _x(1, 3, 8), None),
    (6, 2, 24, _x(2, 5, 6), CAUSAL),
    (10, 5, 7, _x(3, 3, 10), PADDED),
    (4, 1, 9, _x(2, 1, 4), None),
]


def layer_norm(x: Array, name: str) -> Array:
    """As nn.LayerNorm has it, with the numbers drawn for that name."""
    centred = x - x.mean(-1, keepdims=True)
    even = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    width = x.shape[-1]
    return even * drawn(f"{name}.weight", width).numpy() + drawn(f"{name}.bias", width).numpy()


def attention(x: Array, n_head: int, name: str, mask: Mask | NDArray[np.bool_] | None = None) -> Array:
    """Multi-head attention by `steps`, with the matrices drawn for that name."""
    width = x.shape[-1]
    q, k, v, out = (matrix(f"{name}{part}", width, width) for part in ("q", "k", "v", "out"))
    return steps(x, w_q=q, w_k=k, w_v=v, w_o=out, n_head=n_head, mask=mask).output


def linear(x: Array, name: str, columns: int) -> Array:
    """As nn.Linear with its bias."""
    return x @ matrix(name, x.shape[-1], columns) + drawn(f"{name}.bias", columns).numpy()


def _layer(width: int, n_head: int, hidden: int, x: Tensor, mask: Tensor | None) -> Question:
    def ask(answer: Answer) -> object:
        made = filled(answer.EncoderLayer(width, n_head, hidden))
        return made(x.clone()) if mask is None else made(x.clone(), mask.clone())

    def right() -> Array:
        n = x.shape[1]
        allowed = None if mask is None else np.broadcast_to(mask.numpy(), (len(x), n_head, n, n))
        between = x.numpy() + attention(layer_norm(x.numpy(), "norm1"), n_head, "attention.", allowed)
        wide = np.maximum(linear(layer_norm(between, "norm2"), "up", hidden), 0)
        return between + linear(wide, "down", width)

    shown = f"EncoderLayer({width}, {n_head}, {hidden})(x), x {tuple(x.shape)}"
    return Question("EncoderLayer", shown + ("" if mask is None else f", mask {tuple(mask.shape)}"), ask, right)


def _wired(forward: Callable[[solved.EncoderLayer, Tensor, Tensor | None, Feed], Tensor]) -> object:
    """The right layer with another forward; `forward(layer, x, mask, feed)`."""

    class Variant(solved.EncoderLayer):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return forward(self, x, mask, lambda t: self.down(torch.relu(self.up(t))))

    return Variant


def post_norm(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = s.norm1(x + s.attention(x, mask))
    return s.norm2(x + feed(x))


def from_normed(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = s.norm1(x)
    x = x + s.attention(x, mask)
    x = s.norm2(x)
    return x + feed(x)


def second_from_normed(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = s.norm2(x + s.attention(s.norm1(x), mask))
    return x + feed(x)


def no_residuals(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    return feed(s.norm2(s.attention(s.norm1(x), mask)))


def no_first(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = s.attention(s.norm1(x), mask)
    return x + feed(s.norm2(x))


def no_second(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x), mask)
    return feed(s.norm2(x))


def from_input(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    between = x + s.attention(s.norm1(x), mask)
    return x + feed(s.norm2(between))


def parallel(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    return x + s.attention(s.norm1(x), mask) + feed(s.norm2(x))


def no_norms(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(x, mask)
    return x + feed(x)


def norm1_twice(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x), mask)
    return x + feed(s.norm1(x))


def second_unnormed(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x), mask)
    return x + feed(x)


def no_relu(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x), mask)
    return x + s.down(s.up(s.norm2(x)))


def relu_last(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x), mask)
    return x + torch.relu(s.down(s.up(s.norm2(x))))


def gelu(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x), mask)
    return x + s.down(torch.nn.functional.gelu(s.up(s.norm2(x))))


def mask_lost(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x))
    return x + feed(s.norm2(x))


def mask_inverted(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.attention(s.norm1(x), None if mask is None else ~mask)
    return x + feed(s.norm2(x))


def only_attention(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    return x + s.attention(s.norm1(x), mask)


def norm_on_branch_end(s: solved.EncoderLayer, x: Tensor, mask: Tensor | None, feed: Feed) -> Tensor:
    x = x + s.norm1(s.attention(x, mask))
    return x + s.norm2(feed(x))


LESSON = Lesson(
    questions=[_layer(*given) for given in LAYERS],
    wrongs={
        "EncoderLayer": [
            Wrong(
                "post-norm",
                _wired(post_norm),
                "you normalise after the sum, as the first Transformer did (post-norm). Here the norm stands before "
                "each part: x + attention(norm1(x)).",
            ),
            Wrong(
                "from normed",
                _wired(from_normed),
                "the residual starts from the normalised x: x = norm1(x) overwrites the x that should go straight "
                "through. Keep x, and give norm1(x) to the attention only.",
                mistake="T5",
            ),
            Wrong(
                "second from normed",
                _wired(second_from_normed),
                "the first line is right. The second residual starts from norm2(x): add the feed-forward to x itself.",
                mistake="T5",
            ),
            Wrong(
                "no residuals",
                _wired(no_residuals),
                "both sums are missing: x + … in each line. Without them deep stacks hardly train.",
                mistake="T6",
            ),
            Wrong("no first residual", _wired(no_first), "the first sum is missing: x + attention(…).", mistake="T6"),
            Wrong(
                "no second residual", _wired(no_second), "the second sum is missing: x + feed-forward(…).", mistake="T6"
            ),
            Wrong(
                "from input",
                _wired(from_input),
                "the feed-forward is added to the layer's input, so what attention found is thrown away again. Add it "
                "to the x that the first line made.",
                mistake="T6",
            ),
            Wrong(
                "parallel",
                _wired(parallel),
                "attention and feed-forward both read the input, side by side. Some models (GPT-J) do, but here the "
                "second reads what the first has made.",
            ),
            Wrong(
                "no norms", _wired(no_norms), "neither norm is used ({got} instead of {want}).", furthest, mistake="T6"
            ),
            Wrong(
                "norm1 twice",
                _wired(norm1_twice),
                "norm1 is used twice and norm2 never: a slip of copying that leaves norm2 untrained.",
                mistake="T6",
            ),
            Wrong("second unnormed", _wired(second_unnormed), "the feed-forward gets x without norm2.", mistake="T6"),
            Wrong(
                "no relu",
                _wired(no_relu),
                "without relu, up and down are one matrix: the layer can't do more than a product. down(relu(up(…))).",
            ),
            Wrong("relu last", _wired(relu_last), "relu stands behind down; it belongs between up and down."),
            Wrong(
                "gelu",
                _wired(gelu),
                "you used gelu. Good models do; here relu is asked for, so that numbers can be compared.",
            ),
            Wrong(
                "mask lost",
                _wired(mask_lost),
                "right without a mask; with one, it never reaches the attention: self.attention(…, mask).",
                mistake="M3",
            ),
            Wrong(
                "mask inverted",
                _wired(mask_inverted),
                "the mask is turned round on its way: True = may attend, there as here.",
                mistake="M1",
            ),
            Wrong(
                "only attention",
                _wired(only_attention),
                "the second half is missing: x + feed-forward(norm2(x)).",
                mistake="T6",
            ),
            Wrong(
                "norm behind",
                _wired(norm_on_branch_end),
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
