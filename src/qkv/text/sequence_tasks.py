"""Tasks of pure position: copy, reverse, repeat. Small models solve them, and their attention shows how.

Ids 0, 1, 2 are pad, bos and the separator; the symbols are 3 … vocab − 1. `repeat` is a random sequence twice: the
second half can be predicted only from what followed the same symbol before, so induction heads form.

Legend: B batch, L length of the random sequence.
"""

import numpy as np

from ..i18n import Problem, all_of
from .mlm_masking import IGNORED
from .pairs import PairBatch
from .seeded_rng import dice

PAD, BOS, SEPARATOR, SYMBOLS = 0, 1, 2, 3
TASKS = ("copy", "reverse", "repeat")


def sequences(task: str, seed: int, step: int, batch: int, length: int, vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (x, y) for a decoder: the row is bos, sequence, separator (not for "repeat"), answer.

    x is the row without its last token, y the row without its first, with −100 before the answer.

    >>> x, y = sequences("reverse", seed=0, step=0, batch=1, length=3, vocab=9)
    >>> x.tolist(), y.tolist()
    ([[1, 8, 4, 7, 2, 7, 4]], [[-100, -100, -100, -100, 7, 4, 8]])
    """
    sequence = _random(task, seed, step, batch, length, vocab)
    start = np.full((batch, 1), BOS)
    middle = [] if task == "repeat" else [np.full((batch, 1), SEPARATOR)]
    rows = np.concatenate([start, sequence, *middle, _answer(task, sequence)], axis=1)
    y = rows[:, 1:].copy()
    y[:, : rows.shape[1] - length - 1] = IGNORED
    return rows[:, :-1], y


def sequence_pairs(task: str, seed: int, step: int, batch: int, length: int, vocab: int) -> PairBatch:
    """Return pairs for an encoder-decoder: the sequence as source, its copy, reverse or repetition as target.

    >>> batch = sequence_pairs("reverse", seed=0, step=0, batch=1, length=3, vocab=9)
    >>> batch.source.tolist(), batch.target_in.tolist(), batch.target_out.tolist()
    ([[8, 4, 7, 2]], [[1, 7, 4, 8]], [[7, 4, 8, 2]])
    """
    sequence = _random(task, seed, step, batch, length, vocab)
    answer = np.concatenate([sequence, sequence], axis=1) if task == "repeat" else _answer(task, sequence)
    start, end = np.full((batch, 1), BOS), np.full((batch, 1), SEPARATOR)
    source, target_in, target_out = np.hstack([sequence, end]), np.hstack([start, answer]), np.hstack([answer, end])
    lengths = np.full(batch, source.shape[1]), np.full(batch, target_in.shape[1])
    return PairBatch(source, lengths[0], target_in, target_out, lengths[1])


def _random(task: str, seed: int, step: int, batch: int, length: int, vocab: int) -> np.ndarray:
    if task not in TASKS:
        raise Problem("there is no task {task}: choose from {tasks}", task=repr(task), tasks=all_of(TASKS))
    if vocab <= SYMBOLS:
        raise Problem(
            "vocab={vocab} leaves no symbols: ids 0 to 2 are pad, bos and separator, so give 5 or more", vocab=vocab
        )
    return dice(seed, step, stream=3).integers(SYMBOLS, vocab, size=(batch, length))


def _answer(task: str, sequence: np.ndarray) -> np.ndarray:
    return sequence[:, ::-1] if task == "reverse" else sequence
