"""Who shares with whom, against `steps`, which takes grouped keys as they are."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...attention.steps import from_qkv
from ...words import Both
from ..exercises import grouped_heads as solved
from ..grade import calls, furthest, shapes
from ..lesson import Lesson, Question, Wrong
from ..weights import filled, matrix

RNG = np.random.default_rng(15)


def _x(*shape: int) -> Tensor:
    return torch.from_numpy(RNG.normal(size=shape) * 1.5)


SPREADS = [(_x(1, 2, 3, 4), 6), (_x(2, 3, 2, 5), 6), (_x(3, 1, 4, 2), 4), (_x(2, 4, 3, 3), 4)]
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
MODULES: list[tuple[int, int, int, Tensor, Tensor | None]] = [
    (12, 6, 2, _x(2, 5, 12), None),
    (24, 6, 3, _x(1, 4, 24), None),
    (12, 4, 2, _x(3, 5, 12), CAUSAL),
    (8, 4, 1, _x(2, 3, 8), None),
    (10, 2, 2, _x(2, 3, 10), None),
]


def right_spread(x: Tensor, n_head: int) -> Any:
    shared = n_head // x.shape[1]
    return np.stack([x[:, h // shared].numpy() for h in range(n_head)], axis=1)


def _module(width: int, n_head: int, n_kv_head: int, x: Tensor, mask: Tensor | None) -> Question:
    def ask(answer: Any) -> Any:
        made = filled(answer.GroupedQueryAttention(width, n_head, n_kv_head))
        return made(x.clone()) if mask is None else made(x.clone(), mask.clone())

    def right() -> Any:
        wide = width // n_head
        q, k, v = (
            (x.numpy() @ matrix(name, width, heads * wide)).reshape(*x.shape[:2], heads, wide).swapaxes(1, 2)
            for name, heads in (("q", n_head), ("k", n_kv_head), ("v", n_kv_head))
        )
        allowed = None if mask is None else np.broadcast_to(mask.numpy(), (len(x), n_head, x.shape[1], x.shape[1]))
        return from_qkv(q, k, v, allowed).output @ matrix("out", n_head * wide, width)

    shown = f"GroupedQueryAttention({width}, {n_head}, {n_kv_head})(x), x {tuple(x.shape)}"
    return Question("GroupedQueryAttention", shown + ("" if mask is None else ", mask (5, 5)"), ask, right)


def tiled(x: Tensor, n_head: int) -> Tensor:
    return x.repeat(1, n_head // x.shape[1], 1, 1)


def first_only(x: Tensor, n_head: int) -> Tensor:
    return x[:, :1].repeat(1, n_head, 1, 1)


def averaged(x: Tensor, n_head: int) -> Tensor:
    return x.mean(1, keepdim=True).repeat(1, n_head, 1, 1)


def on_words(x: Tensor, n_head: int) -> Tensor:
    return x.repeat_interleave(n_head // x.shape[1], dim=2)


def heads_times(x: Tensor, n_head: int) -> Tensor:
    return x.repeat_interleave(n_head, dim=1)


def unchanged(x: Tensor, n_head: int) -> Tensor:
    return x


def _gqa(**change: Any) -> dict[str, Any]:
    """The right attention with one thing done otherwise."""

    class Variant(solved.GroupedQueryAttention):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            q = solved.split(self.q(x), self.n_head)
            k = change.get("keys", solved.spread)(solved.split(self.k(x), self.n_kv_head), self.n_head)
            v = change.get("values", solved.spread)(solved.split(self.v(x), self.n_kv_head), self.n_head)
            scores = q @ k.transpose(-1, -2) / change.get("scale", lambda x, q: q.shape[-1] ** 0.5)(x, q)
            if mask is not None and change.get("mask") != "ignored":
                scores = scores.masked_fill(mask if change.get("mask") == "inverted" else ~mask, float("-inf"))
            heads = torch.softmax(scores, dim=change.get("dim", -1)) @ v
            heads = (
                heads.reshape(*x.shape[:2], -1) if change.get("merge") == "viewed" else heads.transpose(1, 2).flatten(2)
            )
            return heads if change.get("out") == "left out" else self.out(heads)

    return {"GroupedQueryAttention": Variant}


LESSON = Lesson(
    questions=[
        *(calls("spread", right_spread, *given, names="x n_head") for given in SPREADS),
        *(_module(*given) for given in MODULES),
    ],
    wrongs=[
        Wrong(
            "tiled",
            {"spread": tiled},
            Both(
                "right shape, wrong partners: the row of heads is repeated as a whole, 0, 1, 0, 1, …. Neighbours share: 0, 0, 0, 1, 1, 1. That is "
                "repeat_interleave, not repeat.",
                "形状对，配对错：整排的头被重复了，0, 1, 0, 1, …。应是相邻的共用：0, 0, 0, 1, 1, 1。用 repeat_interleave，不是 repeat。",
            ),
        ),
        Wrong(
            "first only",
            {"spread": first_only},
            Both(
                "every query head got key head 0; the others are never used.",
                "所有查询头都用了键头 0，其余的没有用到。",
            ),
        ),
        Wrong(
            "averaged",
            {"spread": averaged},
            Both(
                "the key heads were averaged. Each query head uses one of them, as it is.",
                "对键头取了平均。每个查询头应原样用其中一个。",
            ),
        ),
        Wrong(
            "on words",
            {"spread": on_words},
            Both(
                "you have {shape}: the words were repeated (dim=2). Repeat the heads, dim=1: {right}.",
                "你得到 {shape}：重复的是词（dim=2）。应重复头，dim=1：{right}。",
            ),
            shapes,
        ),
        Wrong(
            "heads times",
            {"spread": heads_times},
            Both(
                "you have {shape}: each head is repeated n_head times. H // G times makes {right}.",
                "你得到 {shape}：每个头重复了 n_head 次。重复 H // G 次才是 {right}。",
            ),
            shapes,
        ),
        Wrong(
            "unchanged",
            {"spread": unchanged},
            Both("nothing was repeated: {shape}, and {right} is right.", "没有重复：{shape}，应为 {right}。"),
            shapes,
        ),
        Wrong(
            "all tiled",
            _gqa(keys=tiled, values=tiled),
            Both(
                "in forward, keys and values are repeated as a whole row (0, 1, 0, 1). Use spread.",
                "forward 里键和值是整排重复的（0, 1, 0, 1）。请用 spread。",
            ),
        ),
        Wrong(
            "values tiled",
            _gqa(values=tiled),
            Both(
                "the keys are spread rightly, the values aren't: their heads are in the order 0, 1, 0, 1. Use spread for both.",
                "键展开得对，值不对：它的头是 0, 1, 0, 1 的顺序。两者都用 spread。",
            ),
        ),
        Wrong(
            "all first",
            _gqa(keys=first_only, values=first_only),
            Both("all query heads use the first key/value head.", "所有查询头都用了第一个键/值头。"),
        ),
        Wrong(
            "by width",
            _gqa(scale=lambda x, q: x.shape[-1] ** 0.5),
            Both(
                "the scale is √C ({got} instead of {want}). A head is D wide: √D.",
                "缩放用了 √C（{got}，应为 {want}）。头的宽度是 D：√D。",
            ),
            furthest,
        ),
        Wrong(
            "unscaled",
            _gqa(scale=lambda x, q: 1.0),
            Both("the scores aren't divided by √D.", "分数没有除以 √D。"),
        ),
        Wrong(
            "mask ignored",
            _gqa(mask="ignored"),
            Both("right without a mask; with one, nothing changes.", "没有掩码时是对的；有掩码时没有变化。"),
        ),
        Wrong(
            "mask inverted",
            _gqa(mask="inverted"),
            Both(
                "the mask is turned round: True = may attend, so fill where ~mask.",
                "掩码用反了：True = 可以看，所以应填 ~mask 的地方。",
            ),
        ),
        Wrong(
            "view merge",
            _gqa(merge="viewed"),
            Both(
                "the heads were merged without transpose(1, 2): words are mixed.",
                "合并头时没有 transpose(1, 2)：不同的词混在了一起。",
            ),
        ),
        Wrong(
            "no output matrix",
            _gqa(out="left out"),
            Both("self.out isn't used.", "没有用到 self.out。"),
        ),
        Wrong(
            "over heads",
            _gqa(dim=1),
            Both(
                "the softmax runs over the heads (dim=1). dim=-1, the keys.",
                "softmax 沿头（dim=1）做了。应是 dim=-1，即键。",
            ),
        ),
    ],
    hints=[
        Both(
            "PyTorch has two repeats: `x.repeat(…)` copies the whole, `x.repeat_interleave(n, dim=…)` each entry in place.",
            "PyTorch 有两种重复：`x.repeat(…)` 复制整体，`x.repeat_interleave(n, dim=…)` 逐个原地重复。",
        ),
        Both(
            "Each head is repeated `n_head // x.shape[1]` times, along dim=1.",
            "每个头沿 dim=1 重复 `n_head // x.shape[1]` 次。",
        ),
        Both(
            "forward is as in “merging heads”, only that k and v are split into n_kv_head heads and then spread to n_head.",
            "forward 与“合并各个头”一样，只是 k 和 v 先拆成 n_kv_head 个头，再 spread 到 n_head 个。",
        ),
    ],
    after=Both(
        "With H = 32 and G = 8, as in LLaMA 3, the cache of the next exercise is four times smaller.",
        "LLaMA 3 里 H = 32、G = 8，下一个练习的缓存就小到四分之一。",
    ),
    doctor=lambda answer: (answer.GroupedQueryAttention(24, 6, 2), {"heads": 6}),
    seconds=30.0,  # of computing, the doctor's too
)
