"""Turning by multiplication with e^(iθ): the reference uses complex numbers, where a turn is one product."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...attention.steps import Array
from ...words import Both
from ..grade import calls, furthest
from ..lesson import Lesson, Wrong

RNG = np.random.default_rng(14)


def _given(places: list[int], *shape: int) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(RNG.normal(size=shape)), torch.tensor(places)


GIVEN = [
    _given([0, 1, 2], 2, 4, 3, 6),
    _given([5, 6, 7, 8], 1, 2, 4, 8),
    _given([0, 3, 9], 1, 3, 3, 4),
    _given([0], 2, 1, 1, 2),
    _given([100, 7], 3, 2, 2, 10),
]


def right(x: Tensor, places: Tensor) -> Array:
    half = x.shape[-1] // 2
    points = x.numpy()[..., :half] + 1j * x.numpy()[..., half:]
    turned = points * np.exp(1j * places.numpy()[:, None] * 10000.0 ** (-2 * np.arange(half) / x.shape[-1]))
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _angles(x: Tensor, places: Tensor, two: float = 2.0, base: float = 10000.0) -> Tensor:
    i = torch.arange(x.shape[-1] // 2, dtype=x.dtype)
    return places[:, None] * base ** -(i * two / x.shape[-1])


def _turn(x: Tensor, angles: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def neighbours(x: Tensor, places: Tensor) -> Tensor:
    angles, (a, b) = _angles(x, places), (x[..., 0::2], x[..., 1::2])
    pair = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
    return torch.stack(pair, -1).flatten(-2)


def neighbours_to_halves(x: Tensor, places: Tensor) -> Tensor:
    angles, (a, b) = _angles(x, places), (x[..., 0::2], x[..., 1::2])
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def backwards(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, -_angles(x, places))


def no_minus(x: Tensor, places: Tensor) -> Tensor:
    angles, (a, b) = _angles(x, places), x.chunk(2, -1)
    return torch.cat([a * angles.cos() + b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def mixed_tables(x: Tensor, places: Tensor) -> Tensor:
    angles = _angles(x, places).repeat_interleave(2, -1)  # (N, D): 0, 0, 1, 1, …
    a, b = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()


def halved(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, _angles(x, places, two=1.0))


def doubled(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, _angles(x, places, two=4.0))


def base_1000(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, _angles(x, places, base=1000.0))


def counted(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, _angles(x, torch.arange(len(places))))


def from_one(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, _angles(x, places + 1))


def over_heads(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, _angles(x, places)[:, None])


def faster(x: Tensor, places: Tensor) -> Tensor:
    return _turn(x, _angles(x, places, two=-2.0))


def first_half(x: Tensor, places: Tensor) -> Tensor:
    angles, (a, b) = _angles(x, places), x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b], -1)


def updated(x: Tensor, places: Tensor) -> Tensor:
    angles, (a, b) = _angles(x, places), x.chunk(2, -1)
    a = a * angles.cos() - b * angles.sin()
    return torch.cat([a, b * angles.cos() + a * angles.sin()], -1)


def _length(got: Any, want: Any) -> dict[str, object]:
    return {"got": float(np.linalg.norm(got[..., -1, :])), "want": float(np.linalg.norm(want[..., -1, :]))}


LESSON = Lesson(
    questions=[calls("rotate", right, *given, names="x places", tolerance=3e-5) for given in GIVEN],
    wrongs=[
        Wrong(
            "neighbours",
            {"rotate": neighbours},
            Both(
                "you turn neighbours, (x₀, x₁), (x₂, x₃), …, as the first RoPE paper does. That works as well, but not with weights made for the other way: here "
                "the pairs are (xᵢ, xᵢ₊D/2).",
                "你转的是相邻的数 (x₀, x₁)、(x₂, x₃)……，与最早的 RoPE 论文相同。这样本身也行，但与按另一种方式训练的权重不相容：这里的对是 (xᵢ, xᵢ₊D/2)。",
            ),
        ),
        Wrong(
            "neighbours to halves",
            {"rotate": neighbours_to_halves},
            Both(
                "a and b are taken from neighbours (x[..., ::2] and x[..., 1::2]), but put back as halves: the numbers change places. Here a is the first half, "
                "x[..., :half], and b the second.",
                "a 和 b 取自相邻的数（x[..., ::2] 和 x[..., 1::2]），却按前后两半放回：数换了位置。这里 a 是前一半 x[..., :half]，b 是后一半。",
            ),
        ),
        Wrong(
            "backwards",
            {"rotate": backwards},
            Both(
                "you turn the other way: the signs of the sines are swapped. a' has the minus, b' the plus.",
                "转的方向反了：正弦的符号换了。a' 里是减，b' 里是加。",
            ),
        ),
        Wrong(
            "no minus",
            {"rotate": no_minus},
            Both(
                "this is no turn: lengths change, {got} instead of {want}. One of the two sines needs a minus: a' = a·cos − b·sin.",
                "这不是旋转：长度变了，{got}，应为 {want}。两个正弦里有一个要带负号：a' = a·cos − b·sin。",
            ),
            _length,
        ),
        Wrong(
            "mixed tables",
            {"rotate": mixed_tables},
            Both(
                "table and pairs don't agree: the angles are laid out for neighbours (0, 0, 1, 1, …) but the halves are turned. The two numbers of a pair get different "
                "angles. For halves the table is [θ₀ … , θ₀ …], torch.cat([angles, angles], −1).",
                "角度表和配对方式不一致：角度按相邻的数排列（0, 0, 1, 1, …），转的却是前后两半，一对里的两个数转了不同的角度。"
                "按两半配对时表应是 [θ₀ …, θ₀ …]，即 torch.cat([angles, angles], −1)。",
            ),
        ),
        Wrong(
            "halved",
            {"rotate": halved},
            Both(
                "your exponent is i/D; 2i/D is right: over the D/2 pairs it runs from 0 to nearly 1 ({got} instead of {want}).",
                "你的指数是 i/D，应为 2i/D：在 D/2 对上从 0 走到接近 1（{got}，应为 {want}）。",
            ),
            furthest,
        ),
        Wrong(
            "doubled",
            {"rotate": doubled},
            Both(
                "your exponent is 4i/D: arange(0, D, 2) is 2i already, don't double it again.",
                "你的指数是 4i/D：arange(0, D, 2) 已经是 2i，不要再乘 2。",
            ),
        ),
        Wrong(
            "base 1000",
            {"rotate": base_1000},
            Both("the base is 1000 in yours; 10000 is right.", "你的底数是 1000，应为 10000。"),
        ),
        Wrong(
            "counted",
            {"rotate": counted},
            Both(
                "places isn't used: you count 0, 1, 2, … yourself. With a cache the words stand at 5, 6, 7, …, as given.",
                "没有用到 places：你自己数了 0、1、2……。用缓存时词在 5、6、7…… 处，应按传入的来。",
            ),
        ),
        Wrong(
            "from one",
            {"rotate": from_one},
            Both("place 0 isn't turned at all; yours is, by one step.", "位置 0 完全不转；你的多转了一步。"),
        ),
        Wrong(
            "over heads",
            {"rotate": over_heads},
            Both(
                "the angles (N, 1, D/2) are lined up with the heads, not with the words. (N, D/2) fits the last two axes of (B, H, N, D/2) by itself.",
                "角度 (N, 1, D/2) 对到了头上，而不是词上。(N, D/2) 自己就能对上 (B, H, N, D/2) 的最后两个轴。",
            ),
        ),
        Wrong(
            "faster",
            {"rotate": faster},
            Both(
                "later pairs turn faster instead of slower: divide the place by 10000^(2i/D), or use a negative exponent.",
                "后面的对越转越快，而不是越慢：位置应除以 10000^(2i/D)，或用负指数。",
            ),
        ),
        Wrong(
            "first half",
            {"rotate": first_half},
            Both(
                "only the first half is turned; b' = b·cos θ + a·sin θ is missing.",
                "只转了前一半；少了 b' = b·cos θ + a·sin θ。",
            ),
        ),
        Wrong(
            "updated",
            {"rotate": updated},
            Both(
                "b' is computed from the new a. Both need the old a and b: keep them until both are done.",
                "b' 用的是已经更新的 a。两者都要用原来的 a 和 b：都算完之前不要覆盖。",
            ),
        ),
    ],
    hints=[
        Both(
            "Three parts: D/2 frequencies, angles = places as a column × frequencies, then a and b turned.",
            "三部分：D/2 个频率；角度 = places 作一列 × 频率；然后转 a 和 b。",
        ),
        Both(
            "`half = x.shape[-1] // 2`; a is `x[..., :half]`, b is `x[..., half:]`. `torch.arange(half) * 2 / x.shape[-1]` is 2i/D.",
            "`half = x.shape[-1] // 2`；a 是 `x[..., :half]`，b 是 `x[..., half:]`。`torch.arange(half) * 2 / x.shape[-1]` 是 2i/D。",
        ),
        Both(
            "`angles = places[:, None] * 10000 ** -(…)` is (N, D/2) and fits the last two axes of a and b.",
            "`angles = places[:, None] * 10000 ** -(…)` 是 (N, D/2)，正好对上 a 和 b 的最后两个轴。",
        ),
        Both(
            "`torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)`",
            "`torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)`",
        ),
    ],
    after=Both(
        "Move all words by 100 places: every score stays the same. Try it with your function.",
        "把所有词都移动 100 个位置：每个分数都不变。用你的函数试试看。",
    ),
)
