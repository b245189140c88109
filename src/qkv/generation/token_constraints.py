"""Constraints on the next token from a model's generation settings, applied as in transformers and in its order.

    (repetition penalty) → no repeats, bad words, minimum length → forced tokens → likelier end → suppressed tokens

R rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..text.generation_defaults import GenerationDefaults
from . import sampling

NEVER = float("-inf")


def obey(
    habits: GenerationDefaults,
    scores: Tensor,
    texts: Sequence[Sequence[int]],
    prompt_lengths: Sequence[int],
    *,
    last: bool,
    ends: Sequence[int],
    sources: Sequence[Sequence[int]] | None = None,
) -> Tensor:
    """Return logits or log-probabilities (R, V), −inf for excluded tokens, 0 for forced ones.

    `texts` are the tokens so far, the first `prompt_lengths` of them from the prompt; `last` is True for the last new token.

    >>> scores = obey(GenerationDefaults(no_repeat_ngram_size=2), torch.zeros(1, 4), [[1, 2, 3, 1]], [1], last=False, ends=[])
    >>> scores.tolist()  # 1 was followed by 2 before
    [[0.0, 0.0, -inf, 0.0]]
    """
    if habits.is_unrestricted and habits.forced_bos_token_id is None:
        return scores
    scores, vocab = scores.clone(), scores.shape[1]

    def forbid(row: Tensor, tokens: Sequence[int]) -> None:
        row[[i for i in tokens if i < vocab]] = NEVER

    def force(row: Tensor, tokens: Sequence[int]) -> None:
        row.fill_(NEVER)
        row[[i for i in tokens if i < vocab]] = 0.0

    for n, (row, text, first) in enumerate(zip(scores, texts, prompt_lengths, strict=True)):
        new = len(text) - first
        forbid(row, _follow(text, text, habits.no_repeat_ngram_size))
        if sources is not None:
            forbid(row, _follow(sources[n], text, habits.encoder_no_repeat_ngram_size))
        words = [word for word in habits.bad_words_ids if len(word) > 1 or word[0] not in ends]
        forbid(row, [word[-1] for word in words if tuple(text[len(text) - len(word) + 1 :]) == word[:-1]])
        if len(text) < habits.min_length or new < habits.min_new_tokens:
            forbid(row, ends)
        if len(text) == 1 and habits.forced_bos_token_id is not None:
            force(row, [habits.forced_bos_token_id])
        if last and habits.forced_eos_token_id:
            force(row, habits.forced_eos_token_id)
        if habits.exponential_decay_length_penalty is not None:
            start, factor = habits.exponential_decay_length_penalty
            if new > start:
                grown = math.expm1(
                    min((new - start) * math.log(factor), 80.0)
                )  # avoids overflow; such an end is certain anyway
                end = row[list(ends)]
                row[list(ends)] = end + torch.where(end.isfinite(), end.abs() * grown, 0.0)
        forbid(row, habits.suppress_tokens)
        # A forced first token doesn't count as the beginning.
        if new == (first == 1 and habits.forced_bos_token_id is not None):
            forbid(row, habits.begin_suppress_tokens)
    return scores


def _follow(where: Sequence[int], text: Sequence[int], size: int) -> list[int]:
    """Return the tokens that follow the last size − 1 tokens of a text anywhere in `where`."""
    if not size or len(text) < size - 1:
        return []
    before = list(text[len(text) - size + 1 :])
    windows = (where[i : i + size] for i in range(len(where) - size + 1))
    return [window[-1] for window in windows if list(window[:-1]) == before]


def penalize(scores: Tensor, texts: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Apply the repetition penalty to the tokens of each text."""
    return scores if penalty == 1.0 else sampling.penalize(scores, sampling.token_mask(texts, scores), penalty)
