"""Beam search: keep the few best beginnings in play and take the text that is likeliest as a whole.

R rows (beginnings in play, of all items one after the other), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..i18n import Problem
from ..model.transformer import Transformer
from ..text.generation_defaults import Habits
from .prefill import Prompts, Reading, as_rows, source_rows
from .token_constraints import obey, penalised


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
    never: Sequence[int] = (),
    length_penalty: float = 1.0,
    best: int = 1,
    source: Prompts | None = None,
    source_lengths: Any = None,
    cache: bool = True,
    habits: Habits | None = None,
) -> list[list[Found]]:
    """The `best` texts found for each prompt, the highest score first.

    Each step extends every beginning by every token. Of the likeliest `width` extensions, those that end are put aside;
    the likeliest `width` that don't end go on. The score is logprob / length ** length_penalty: 0 compares whole texts, 1
    the average token, more favours long ones. An item is done when `width` texts have ended and no beginning in play
    scores better than the worst of them. Width 1 is the greedy choice; any width finds what transformers finds.
    Tokens in `never` are not said. `habits` are what a model's files say of which tokens may come, and when to stop.

    >>> from ..model.config import Config
    >>> _ = torch.manual_seed(0)
    >>> model = Transformer(Config(vocab=5, width=8, n_layer=1, n_head=2))
    >>> narrow, wide = (beam(model, [[1]], width=w, most=3, length_penalty=0)[0][0] for w in (1, 125))
    >>> wide.score >= narrow.score
    True
    """
    if width < 1 or not 1 <= best <= width:
        raise Problem(
            "width is {width} and best is {best}: give a width of 1 or more and ask for 1 to width texts",
            width=width,
            best=best,
        )
    if most < 1:
        raise Problem("most is {value}: give how many new tokens may come, 1 or more", value=most)
    rows = as_rows("prompt", prompts, model.config.vocab)
    found: list[list[Found]] = [[] for _ in rows]
    if not rows:
        return found
    reading = Reading(model, rows, most=most, source=source, source_lengths=source_lengths, cache=cache)
    early = False if habits is None else habits.early_stopping

    def done(best: float, n: int, worst: float) -> bool:
        """Can the best in play, after n tokens, no longer beat the worst of `width` texts that have ended?"""
        longest = most if early == "never" and length_penalty > 0 else n
        return early is True or best / longest**length_penalty <= worst

    ends = frozenset(int(i) for i in stop)
    items = list(range(len(rows)))  # of which item each row is a beginning
    begun: list[list[int]] = [[] for _ in rows]
    totals = torch.zeros(len(rows), dtype=torch.float64)
    sources = None if habits is None or source is None else source_rows(model, source, source_lengths)
    for n in range(1, most + 1):
        chances = reading.logits.double().log_softmax(-1).cpu()  # (R, V)
        if habits is not None:
            texts = [rows[i] + new for i, new in zip(items, begun, strict=True)]
            read = None if sources is None else [sources[i] for i in items]
            chances = penalised(chances, texts, habits.repetition_penalty)
            given = [len(rows[i]) for i in items]
            chances = obey(habits, chances, texts, given, last=n == most, ends=stop, sources=read)
        chances = totals[:, None] + chances
        if never:
            chances[:, list(never)] = float("-inf")
        vocab = chances.shape[1]
        kept: list[tuple[int, int, float]] = []  # (row, token, logprob), an item's rows together
        for item in sorted(set(items)):
            first, count = items.index(item), items.count(item)
            candidates = chances[first : first + count].flatten()
            # Every beginning may end in any of the stop tokens, and `width` others are still needed.
            values, index = candidates.topk(min(max(2, 1 + len(ends)) * width, len(candidates)))
            going = []
            for rank, (logprob, place) in enumerate(zip(values.tolist(), index.tolist(), strict=True)):
                row, token = first + place // vocab, place % vocab
                if token not in ends and n < most:
                    going.append((row, token, logprob))
                elif rank < width and logprob > float("-inf"):
                    ended = token in ends
                    text = begun[row] if ended else [*begun[row], token]
                    found[item].append(Found(text, logprob, logprob / n**length_penalty, ended))
            found[item] = sorted(found[item], key=lambda text: -text.score)[:width]
            if going and not (len(found[item]) == width and done(going[0][2], n, found[item][-1].score)):
                kept += going[:width]
        if not kept:
            break
        items, begun = [items[row] for row, _, _ in kept], [[*begun[row], token] for row, token, _ in kept]
        totals = torch.tensor([logprob for _, _, logprob in kept], dtype=torch.float64)
        reading.keep([row for row, _, _ in kept])
        reading.feed(torch.tensor([token for _, token, _ in kept]))
    return [texts[:best] for texts in found]
