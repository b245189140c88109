"""The same text in chunks of different sizes, against all of it at once, computed by `steps`."""

import torch

from ...attention import masks
from ...attention.oracle import Array, from_qkv
from ...i18n import Message
from ..lesson import Answer, Lesson, Question, Wrong
from ..module_questions import filled, matrix, tensors
from ..questions import pair
from .rotary import right as turned

_x = tensors(16, 1.5)
CHUNKS = [[5], [1, 1, 1, 1], [4, 1, 1], [2, 3], [3, 2, 1]]


def _chunked(chunks: list[int], batch: int, width: int, n_head: int) -> Question:
    n = sum(chunks)
    x = _x(batch, n, width)

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


LESSON = Lesson(
    questions=[
        _chunked(chunks, *sizes)
        for chunks, sizes in zip(CHUNKS, [(2, 12, 3), (1, 8, 2), (3, 8, 1), (2, 12, 2), (1, 8, 4)], strict=True)
    ],
    wrongs={
        "CachedAttention": [
            Wrong(
                "from 0",
                {", places)": ", places - past)"},
                "all at once is right; in chunks, every chunk is turned as if it began at place 0. The new words "
                "stand behind the cache: places past … past + N − 1, past = cache[0].shape[2].",
                mistake="K1",
            ),
            Wrong("unturned", {"rotate(q, places), rotate(k, places)": "q, k"}, "no positions: rotate q and k, both."),
            Wrong(
                "queries only",
                {"rotate(k, places)": "k"},
                "only the queries are turned. The keys must be too, or the scores don't depend on the distance alone.",
            ),
            Wrong(
                "values too",
                {"q, k = ": "v, q, k = rotate(v, places), "},
                "the values are turned too. Leave v as it is: only q and k are turned.",
            ),
            Wrong(
                "turned again",
                {"rotate(k, places)": "k", "allowed = ": "k = rotate(k, torch.arange(k.shape[2]))\n        allowed = "},
                "the cached keys are turned again at every step: you rotate old and new together, and keep the "
                "result. Turn the new keys before they join the cache (or keep unturned keys there).",
                mistake="K1",
            ),
            Wrong(
                "forgotten",
                {"if cache is not None": "if False"},
                "the first chunk is right; from the second on, the new words see only each other. Put the cached k "
                "and v before the new ones: torch.cat(…, dim=2).",
            ),
            Wrong(
                "front",
                {"[cache[0], k]": "[k, cache[0]]", "[cache[1], v]": "[v, cache[1]]"},
                "new keys are put before the old ones, so the mask hides the wrong words. Old first: "
                "torch.cat([cache[0], k], dim=2).",
            ),
            Wrong(
                "keys only",
                {"torch.cat([cache[1], v], dim=2)": "v"},
                "only the keys are joined with the cache, the values aren't: there are more weights than values.",
            ),
            Wrong(
                "returns new",
                {"if cache is not": "new = k, v\n        if cache is not", "(k, v)": "new"},
                "the cache you return holds only the newest words: after two chunks the first is forgotten. Return "
                "old and new together.",
            ),
            Wrong(
                "corner",
                {"torch.arange(k.shape[2]) <= places[:, None]": "torch.ones(x.shape[1], k.shape[2]).tril() > 0"},
                "your triangle starts in the upper left corner: with 4 words kept, the next one sees only key 0. Word "
                "past + i may see keys 0 … past + i. (PyTorch's is_causal has this trap.)",
                mistake="K2",
            ),
            Wrong(
                "no mask",
                {'.masked_fill(~allowed, float("-inf"))': ""},
                "there is no causal mask: words see the future of their own chunk.",
                mistake="M14",
            ),
            Wrong(
                "masked at first",
                {"~allowed": "~allowed & (cache is None)"},
                "one word at a time is right, several at once aren't: with a cache you leave the mask out, and the "
                "new words see each other's future.",
                mistake="K3",
            ),
            Wrong(
                "inverted",
                {"~allowed": "allowed"},
                "the mask is turned round: words see only what comes later (and the last sees nothing, NaN).",
                mistake="M1",
            ),
            Wrong(
                "by width",
                {"q.shape[-1]": "x.shape[-1]"},
                "the scale is √C ({got} instead of {want}). A head is D wide: √D.",
                mistake="S3",
            ),
            Wrong(
                "unscaled",
                {" / q.shape[-1] ** 0.5": ""},
                "the scores aren't divided by √D ({got} instead of {want}).",
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
