"""Rotation compared with complex numbers, where it is a product with e^(iθ)."""

import numpy as np
import torch
from torch import Tensor

from ...attention.oracle import Array
from ..lesson import Lesson, WrongAnswer
from ..module_questions import tensors
from ..questions import calls

_x = tensors(14)
INPUTS = [
    (_x(2, 4, 3, 6), torch.tensor([0, 1, 2])),
    (_x(1, 2, 4, 8), torch.tensor([5, 6, 7, 8])),
    (_x(1, 3, 3, 4), torch.tensor([0, 3, 9])),
    (_x(2, 1, 1, 2), torch.tensor([0])),
    (_x(3, 2, 2, 10), torch.tensor([100, 7])),
]


def right(x: Tensor, places: Tensor) -> Array:
    half = x.shape[-1] // 2
    points = x.numpy()[..., :half] + 1j * x.numpy()[..., half:]
    rotated = points * np.exp(1j * places.numpy()[:, None] * 10000.0 ** (-2 * np.arange(half) / x.shape[-1]))
    return np.concatenate([rotated.real, rotated.imag], axis=-1)


def _last_norms(actual: Array, expected: Array) -> dict[str, object]:
    return {"got": float(np.linalg.norm(actual[..., -1, :])), "want": float(np.linalg.norm(expected[..., -1, :]))}


LESSON = Lesson(
    questions=[calls("rotate", right, *inputs, names="x places", tolerance=3e-5) for inputs in INPUTS],
    wrong_answers={
        "rotate": {
            "neighbours": WrongAnswer(
                {":half": "0::2", "half:": "1::2", "torch.cat": "torch.stack", "dim=-1)": "dim=-1).flatten(-2)"},
                "you rotate neighbours, (x₀, x₁), (x₂, x₃), …, as the first RoPE paper does. That works as well, but "
                "not with weights made for the other layout: here the pairs are (xᵢ, xᵢ₊D/2).",
            ),
            "neighbours to halves": WrongAnswer(
                {":half": "0::2", "half:": "1::2"},
                "a and b are taken from neighbours (x[..., ::2] and x[..., 1::2]), but put back as halves: the numbers "
                "change places. Here a is the first half, x[..., :half], and b the second.",
            ),
            "backwards": WrongAnswer(
                {"= places": "= -places"},
                "you rotate in the other direction: the signs of the sines are swapped. a' has the minus, b' the plus.",
            ),
            "no minus": WrongAnswer(
                {"cos - b": "cos + b"},
                "this is not a rotation: lengths change, {got} instead of {want}. One of the two sines needs a minus: "
                "a' = a·cos − b·sin.",
                values=_last_norms,
            ),
            "mixed tables": WrongAnswer(
                {
                    "places[:, None] * frequencies": "(places[:, None] * frequencies).repeat_interleave(2, -1)",
                    "[a * cos - b * sin, b * cos + a * sin], dim=-1)": "[-b, a], dim=-1) * sin + x * cos",
                },
                "table and pairs don't agree: the angles are laid out for neighbours (0, 0, 1, 1, …) but the halves "
                "are rotated. The two numbers of a pair get different angles. For halves the table is [θ₀ … , θ₀ …], "
                "torch.cat([angles, angles], −1).",
                mistake="R4",
            ),
            "halved": WrongAnswer(
                {" * 2": ""},
                "your exponent is i/D; 2i/D is right: over the D/2 pairs it runs from 0 to nearly 1 ({got} instead of "
                "{want}).",
            ),
            "doubled": WrongAnswer(
                {" * 2": " * 4"}, "your exponent is 4i/D: arange(0, D, 2) is 2i already, don't double it again."
            ),
            "base 1000": WrongAnswer({"10000": "1000"}, "the base is 1000 in yours; 10000 is right."),
            "counted": WrongAnswer(
                {"= places": "= torch.arange(len(places))"},
                "places isn't used: you count 0, 1, 2, … yourself. With a cache they may be 5, 6, 7, ….",
            ),
            "from one": WrongAnswer(
                {"= places": "= (places + 1)"}, "place 0 isn't rotated at all; yours is, by one step."
            ),
            "over heads": WrongAnswer(
                {"places[:, None] * frequencies": "(places[:, None] * frequencies)[:, None]"},
                "the angles (N, 1, D/2) are lined up with the heads, not with the words. (N, D/2) fits the last two "
                "axes of (B, H, N, D/2) by itself.",
                mistake="R5",
            ),
            "faster": WrongAnswer(
                {"10000 ** -": "10000 ** "},
                "later pairs rotate faster instead of slower: divide by 10000^(2i/D), or use a negative exponent.",
            ),
            "first half": WrongAnswer(
                {"b * cos + a * sin": "b"}, "only the first half is rotated; b' = b·cos θ + a·sin θ is missing."
            ),
            "updated": WrongAnswer(
                {"return torch.cat([a * cos - b * sin": "a = a * cos - b * sin\n    return torch.cat([a"},
                "b' is computed from the new a. Both need the old a and b: keep them until both are done.",
            ),
        },
    },
    hints={
        "rotate": [
            "Three parts: D/2 frequencies, angles = places as a column × frequencies, then a and b rotated.",
            "`half = x.shape[-1] // 2`; a is `x[..., :half]`, b is `x[..., half:]`. `torch.arange(half) * 2 / "
            "x.shape[-1]` is 2i/D.",
            "`angles = places[:, None] * 10000 ** -(…)` is (N, D/2) and fits the last two axes of a and b.",
            "`torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)`",
        ],
    },
    takeaway="Move all words by 100 places: every score stays the same. Try it with your function.",
)
