"""Beam search: keep the few best beginnings in play and take the text that is likeliest as a whole.

R rows (beginnings in play, of all items one after the other), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .reading import Prompts, Reading, as_rows
from .transformer import Transformer


@dataclass(frozen=True)
class Found:
    """A text that the search came up with."""

    tokens: list[int]  # the new ones, without the stop token
    logprob: float  # of all of them, and of the stop token where there was one
    score: float  # logprob / length ** length_penalty, the stop token counted
    ended: bool  # by a stop token; else it was cut off at `most`


def beam(
    model: Transformer,
    prompts: Prompts,
    *,
    width: int = 4,
    most: int = 128,
    stop: Sequence[int] = (),
    length_penalty: float = 1.0,
    best: int = 1,
    source: Prompts | None = None,
    source_lengths: Any = None,
    cache: bool = True,
) -> list[list[Found]]:
    """The `best` texts found for each prompt, the highest score first.

    Each step extends every beginning by every token and keeps the `width` likeliest; one that ends takes its place out
    of the beam, so that width 1 is the greedy choice. The score is logprob / length ** length_penalty: 0 compares whole
    texts, 1 the average token, more favours long ones. An item ends when nothing in play can still win.

    >>> from .config import Config
    >>> _ = torch.manual_seed(0)
    >>> model = Transformer(Config(vocab=5, width=8, n_layer=1, n_head=2))
    >>> narrow, wide = (beam(model, [[1]], width=w, most=3, length_penalty=0)[0][0] for w in (1, 125))
    >>> wide.score >= narrow.score
    True
    """
    if width < 1 or not 1 <= best <= width:
        raise ValueError(f"width is {width} and best is {best}: give a width of 1 or more and ask for 1 to width texts")
    if most < 1:
        raise ValueError(f"most is {most}: give how many new tokens may come, 1 or more")
    rows = as_rows("prompt", prompts, model.config.vocab)
    found: list[list[Found]] = [[] for _ in rows]
    if not rows:
        return found
    reading = Reading(model, rows, most=most, source=source, source_lengths=source_lengths, cache=cache)
    ends = frozenset(int(i) for i in stop)
    items = list(range(len(rows)))  # of which item each row is a beginning
    begun: list[list[int]] = [[] for _ in rows]
    totals = torch.zeros(len(rows), dtype=torch.float64)
    for n in range(1, most + 1):
        chances = totals[:, None] + reading.logits.double().log_softmax(-1).cpu()  # (R, V)
        vocab = chances.shape[1]
        kept: list[tuple[int, int, float]] = []  # (row, token, logprob), an item's rows together
        for item in sorted(set(items)):
            first, count = items.index(item), items.count(item)
            candidates = chances[first : first + count].flatten()
            places = width - sum(text.ended for text in found[item])
            values, index = candidates.topk(min(places, len(candidates)))
            going = []
            for logprob, place in zip(values.tolist(), index.tolist(), strict=True):
                row, token = first + place // vocab, place % vocab
                if token in ends:
                    found[item].append(Found(begun[row], logprob, logprob / n**length_penalty, True))
                else:
                    going.append((row, token, logprob))
            if n == most:
                found[item] += [
                    Found([*begun[row], token], logprob, logprob / n**length_penalty, False)
                    for row, token, logprob in going
                ]
            elif going and not _decided(found[item], best, going[0][2], n + 1, most, length_penalty):
                kept += going
        if not kept:
            break
        items, begun = [items[row] for row, _, _ in kept], [[*begun[row], token] for row, token, _ in kept]
        totals = torch.tensor([logprob for _, _, logprob in kept], dtype=torch.float64)
        reading.keep([row for row, _, _ in kept])
        reading.feed(torch.tensor([token for _, token, _ in kept]))
    return [sorted(texts, key=lambda text: -text.score)[:best] for texts in found]


def _decided(found: list[Found], best: int, logprob: float, soonest: int, most: int, penalty: float) -> bool:
    """Can the likeliest beginning in play no longer enter the best? Its logprob only falls; its length may help it."""
    if len(found) < best:
        return False
    hope = max(logprob / soonest**penalty, logprob / most**penalty)
    return sorted((text.score for text in found), reverse=True)[best - 1] >= hope
