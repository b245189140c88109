"""A text in chunks of different sizes, compared with the whole text at once."""

import torch
from torch import Tensor

from ...attention import masks
from ...attention.oracle import Array, from_qkv
from ..lesson import Answer, Lesson, Question, WrongAnswer
from ..module_questions import SCALE_MISTAKES, filled, matrix, tensors
from ..questions import check_pair
from .rotary import right as rotate

_x = tensors(16, 1.5)
CHUNKS = [[5], [1, 1, 1, 1], [4, 1, 1], [2, 3], [3, 2, 1]]


def _chunked(chunks: list[int], batch: int, width: int, n_head: int) -> Question:
    n = sum(chunks)
    x = _x(batch, n, width)

    def run(answer: Answer) -> object:
        attention = filled(answer.CachedAttention(width, n_head))
        outputs: list[Tensor] = []
        cache: tuple[object, ...] = ()
        for chunk in x.split(chunks, dim=1):
            pair = check_pair(attention(chunk.clone(), *cache), "(output, cache)")
            if pair is None:
                return None
            outputs.append(pair[0])
            cache = (pair[1],)
        return torch.cat(outputs, dim=1)

    def expected() -> Array:
        q, k, v = (
            torch.from_numpy(x.numpy() @ matrix(name, width, width)).unflatten(-1, (n_head, -1)).transpose(1, 2)
            for name in ("q", "k", "v")
        )
        places = torch.arange(n)
        steps = from_qkv(rotate(q, places), rotate(k, places), v.numpy(), masks.causal())
        return steps.output @ matrix("out", width, width)

    call = f"CachedAttention({width}, {n_head}), words {' + '.join(map(str, chunks))}"
    return Question("CachedAttention", call, run, expected, tolerance=3e-5)


LESSON = Lesson(
    questions=[
        _chunked(chunks, *sizes)
        for chunks, sizes in zip(CHUNKS, [(2, 12, 3), (1, 8, 2), (3, 8, 1), (2, 12, 2), (1, 8, 4)], strict=True)
    ],
    wrong_answers={
        "CachedAttention": {
            **SCALE_MISTAKES,
            "from 0": WrongAnswer(
                {", places)": ", places - past)"},
                "all at once is right; in chunks, every chunk is rotated as if it began at place 0. The new words "
                "stand behind the cache: places past … past + N − 1, past = cache[0].shape[2].",
                mistake="K1",
            ),
            "unturned": WrongAnswer(
                {"rotate(q, places), rotate(k, places)": "q, k"}, "no positions: rotate q and k, both."
            ),
            "queries only": WrongAnswer(
                {"rotate(k, places)": "k"},
                "only the queries are rotated. The keys must be too, or the scores don't depend on the distance alone.",
            ),
            "values too": WrongAnswer(
                {"q, k = ": "v, q, k = rotate(v, places), "},
                "the values are rotated too. Leave v as it is: only q and k are rotated.",
            ),
            "turned again": WrongAnswer(
                {"rotate(k, places)": "k", "allowed = ": "k = rotate(k, torch.arange(k.shape[2]))\n        allowed = "},
                "the cached keys are rotated again at every step: you rotate old and new together, and keep the "
                "result. Rotate the new keys before they join the cache (or keep unrotated keys there).",
                mistake="K1",
            ),
            "forgotten": WrongAnswer(
                {"if cache is not None": "if False"},
                "the first chunk is right; from the second on, the new words see only each other. Put the cached k and "
                "v before the new ones: torch.cat(…, dim=2).",
            ),
            "front": WrongAnswer(
                {"[cache[0], k]": "[k, cache[0]]", "[cache[1], v]": "[v, cache[1]]"},
                "new keys are put before the old ones, so the mask hides the wrong words. Old first: "
                "torch.cat([cache[0], k], dim=2).",
            ),
            "keys only": WrongAnswer(
                {"torch.cat([cache[1], v], dim=2)": "v"},
                "only the keys are joined with the cache, the values aren't: there are more weights than values.",
            ),
            "returns new": WrongAnswer(
                {"if cache is not": "new = k, v\n        if cache is not", "(k, v)": "new"},
                "the cache you return holds only the newest words. Return old and new together.",
            ),
            "corner": WrongAnswer(
                {"torch.arange(k.shape[2]) <= places[:, None]": "torch.ones(x.shape[1], k.shape[2]).tril() > 0"},
                "your triangle starts in the upper left corner: with 4 words kept, the next one sees only key 0. Word "
                "past + i may see keys 0 … past + i. (PyTorch's is_causal has this trap.)",
                mistake="K2",
            ),
            "no mask": WrongAnswer(
                {'.masked_fill(~allowed, float("-inf"))': ""},
                "there is no causal mask: words see the future of their own chunk.",
                mistake="M14",
            ),
            "masked at first": WrongAnswer(
                {"~allowed": "~allowed & (cache is None)"},
                "one word at a time is right, several at once aren't: with a cache you leave the mask out, and the new "
                "words see each other's future.",
                mistake="K3",
            ),
            "inverted": WrongAnswer(
                {"~allowed": "allowed"},
                "the mask is inverted: words see only what comes later (and the last sees nothing, NaN).",
                mistake="M1",
            ),
        },
    },
    hints={
        "CachedAttention": [
            "How many words are cached? `cache[0].shape[2]`, or 0 without a cache. The rest follows from that.",
            "`places = torch.arange(past, past + x.shape[1])`, for rotate and for the mask.",
            "The mask: `torch.arange(k.shape[2]) <= places[:, None]` with k already joined, (N, M), True = may attend.",
            "Order: rotate the new q and k, join k and v with the cache, mask, softmax, @ v, merge, self.out; return "
            "the joined (k, v).",
        ],
    },
    takeaway="A step now costs one word instead of all of them; that is why chatbots answer at reading speed.",
    doctor_target=lambda answer: (answer.CachedAttention(24, 4), {"heads": 4, "causal": True}),
    seconds=30.0,  # includes the doctor
)
