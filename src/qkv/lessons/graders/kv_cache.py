"""The same text in chunks of different sizes, against all of it at once, computed by `steps`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...attention import masks
from ...attention.oracle import Array, from_qkv
from ...i18n import Message
from ..exercises import kv_cache as solved
from ..fixed_weights import filled, matrix
from ..lesson import Answer, Lesson, Question, Wrong
from ..questions import furthest, pair
from .rotary import right as turned

RNG = np.random.default_rng(16)
CHUNKS = [[5], [1, 1, 1, 1], [4, 1, 1], [2, 3], [3, 2, 1]]


def _chunked(chunks: list[int], batch: int, width: int, n_head: int) -> Question:
    n = sum(chunks)
    x = torch.from_numpy(RNG.normal(size=(batch, n, width)) * 1.5)

    def ask(answer: Answer) -> object:
        made, cache, parts = filled(answer.CachedAttention(width, n_head)), None, []
        for part in x.split(chunks, dim=1):
            given = pair(made(part.clone()) if cache is None else made(part.clone(), cache), "(output, cache)")
            if given is None:
                return None
            output, cache = given
            parts.append(output)
        return torch.cat(parts, dim=1)

    def right() -> Array:
        q, k, v = (
            torch.from_numpy(x.numpy() @ matrix(name, width, width)).unflatten(-1, (n_head, -1)).transpose(1, 2)
            for name in ("q", "k", "v")
        )
        done = from_qkv(turned(q, torch.arange(n)), turned(k, torch.arange(n)), v.numpy(), masks.causal())
        return done.output @ matrix("out", width, width)

    words = " + ".join(map(str, chunks))
    return Question("CachedAttention", f"CachedAttention({width}, {n_head}), words {words}", ask, right, tolerance=3e-5)


def _variant(**change: Any) -> object:
    """The right module with one thing done otherwise."""

    class Variant(solved.CachedAttention):
        def forward(
            self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None
        ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            q, k, v = (solved.split(project(x), self.n_head) for project in (self.q, self.k, self.v))
            n = x.shape[1]
            past = 0 if cache is None else cache[0].shape[2]
            places = torch.arange(past, past + n)
            turn = torch.arange(n) if change.get("places") == "from 0" else places
            if change.get("turn") != "none":
                q = solved.rotate(q, turn)
            if change.get("turn") not in ("none", "queries", "again"):
                k = solved.rotate(k, turn)
            if change.get("turn") == "values":
                v = solved.rotate(v, turn)
            new = k, v
            if cache is not None and change.get("join") != "forgotten":
                order = -1 if change.get("join") == "front" else 1
                k = torch.cat([cache[0], k][::order], dim=2)
                v = v if change.get("join") == "keys" else torch.cat([cache[1], v][::order], dim=2)
            if change.get("turn") == "again":
                k = solved.rotate(k, torch.arange(k.shape[2]))
            allowed = torch.arange(k.shape[2]) <= places[:, None]
            if change.get("mask") == "corner":
                allowed = torch.ones(n, k.shape[2], dtype=torch.bool).tril()
            if change.get("mask") == "none" or (change.get("mask") == "first" and cache is not None):
                allowed = torch.ones(n, k.shape[2], dtype=torch.bool)
            if change.get("mask") == "inverted":
                allowed = ~allowed
            scale = change.get("scale", lambda x, q: q.shape[-1] ** 0.5)(x, q)
            scores = (q @ k.transpose(-1, -2) / scale).masked_fill(~allowed, float("-inf"))
            heads = torch.softmax(scores, dim=-1) @ v
            output = self.out(heads.transpose(1, 2).flatten(2))
            return output, new if change.get("returns") == "new" else (k, v)

    return Variant


LESSON = Lesson(
    questions=[
        _chunked(chunks, *sizes)
        for chunks, sizes in zip(CHUNKS, [(2, 12, 3), (1, 8, 2), (3, 8, 1), (2, 12, 2), (1, 8, 4)], strict=True)
    ],
    wrongs={
        "CachedAttention": [
            Wrong(
                "from 0",
                _variant(places="from 0"),
                "all at once is right; in chunks, every chunk is turned as if it began at place 0. The new words "
                "stand behind the cache: places past … past + N − 1, past = cache[0].shape[2].",
                mistake="K1",
            ),
            Wrong("unturned", _variant(turn="none"), "no positions: rotate q and k, both."),
            Wrong(
                "queries only",
                _variant(turn="queries"),
                "only the queries are turned. The keys must be too, or the scores don't depend on the distance alone.",
            ),
            Wrong(
                "values too",
                _variant(turn="values"),
                "the values are turned too. Leave v as it is: only q and k are turned.",
            ),
            Wrong(
                "turned again",
                _variant(turn="again"),
                "the cached keys are turned again at every step: you rotate old and new together, and keep the "
                "result. Turn the new keys before they join the cache (or keep unturned keys there).",
                mistake="K1",
            ),
            Wrong(
                "forgotten",
                _variant(join="forgotten"),
                "the first chunk is right; from the second on, the new words see only each other. Put the cached k "
                "and v before the new ones: torch.cat(…, dim=2).",
            ),
            Wrong(
                "front",
                _variant(join="front"),
                "new keys are put before the old ones, so the mask hides the wrong words. Old first: "
                "torch.cat([cache[0], k], dim=2).",
            ),
            Wrong(
                "keys only",
                _variant(join="keys"),
                "only the keys are joined with the cache, the values aren't: there are more weights than values.",
            ),
            Wrong(
                "returns new",
                _variant(returns="new"),
                "the cache you return holds only the newest words: after two chunks the first is forgotten. Return "
                "old and new together.",
            ),
            Wrong(
                "corner",
                _variant(mask="corner"),
                "your triangle starts in the upper left corner: with 4 words kept, the next one sees only key 0. Word "
                "past + i may see keys 0 … past + i. (PyTorch's is_causal has this trap.)",
                mistake="K2",
            ),
            Wrong(
                "no mask",
                _variant(mask="none"),
                "there is no causal mask: words see the future of their own chunk.",
                mistake="M14",
            ),
            Wrong(
                "masked at first",
                _variant(mask="first"),
                "one word at a time is right, several at once aren't: with a cache you leave the mask out, and the "
                "new words see each other's future.",
                mistake="K3",
            ),
            Wrong(
                "inverted",
                _variant(mask="inverted"),
                "the mask is turned round: words see only what comes later (and the last sees nothing, NaN).",
                mistake="M1",
            ),
            Wrong(
                "by width",
                _variant(scale=lambda x, q: x.shape[-1] ** 0.5),
                "the scale is √C ({got} instead of {want}). A head is D wide: √D.",
                furthest,
                mistake="S3",
            ),
            Wrong(
                "unscaled",
                _variant(scale=lambda x, q: 1.0),
                "the scores aren't divided by √D ({got} instead of {want}).",
                furthest,
                mistake="S2",
            ),
        ],
    },
    hints={
        "CachedAttention": [
            Message(
                "How many words are kept? `cache[0].shape[2]`, or 0 without a cache. Everything else follows from "
                "this number."
            ),
            Message("`places = torch.arange(past, past + x.shape[1])`, for rotate and for the mask."),
            Message(
                "The mask: `torch.arange(k.shape[2]) <= places[:, None]` with k already joined, (N, M), True = may attend."
            ),
            Message(
                "Order: rotate the new q and k, join k and v with the cache, mask, softmax, @ v, merge, self.out; "
                "return the joined (k, v)."
            ),
        ]
    },
    after=Message("A step now costs one word instead of all of them; that is why chatbots answer at reading speed."),
    doctor=lambda answer: (answer.CachedAttention(24, 4), {"heads": 4, "causal": True}),
    seconds=30.0,  # of computing, the doctor's too
)
