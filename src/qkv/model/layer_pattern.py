"""What stands in each layer, written short: "mamba2×3 attention", "(delta×3 attention)×2"; and words found in a list."""

import re
from itertools import groupby
from typing import get_args

from ..i18n import Problem, unknown
from .words import Mixer

MIXERS: tuple[Mixer, ...] = get_args(Mixer)  # what lets tokens see each other
STATES = ("retention", "mamba2", "delta")  # those that keep a state of one size instead of all keys and values


def choose(what: str, word: object, among: tuple[object, ...]) -> None:
    """Refuse a word that isn't among the right ones, naming them and the nearest."""
    if not any(word is right or (isinstance(right, str) and word == right) for right in among):
        raise unknown(what, word, among)


def layer_words(pattern: object, among: tuple[str, ...], most: int, what: str = "mixer") -> tuple[str, ...]:
    """What a pattern names, layer by layer: "mamba2×3 attention", "(delta*3 attention)*2".

    >>> layer_words("(delta×2 attention)×2", ("attention", "delta"), most=9)
    ('delta', 'delta', 'attention', 'delta', 'delta', 'attention')
    >>> layer_words("mamba", ("attention", "mamba2"), most=9)
    Traceback (most recent call last):
    qkv.i18n.Problem: mixer 'mamba' is not one of attention, mamba2; did you mean 'mamba2'?
    """
    if not isinstance(pattern, str) or not pattern.strip():
        raise unknown(what, pattern, among)
    stack: list[list[str]] = [[]]
    last: list[str] = []  # what a number that follows repeats
    for sign, word, count in re.findall(r"([()])|([^\s()×*]+)|[×*]\s*(\d*)", pattern):
        if word:
            choose(what, word, among)
            last = [word]
            stack[-1] += last
        elif sign == "(":
            stack.append([])
            last = []
        elif sign == ")" and len(stack) > 1:
            last = stack.pop()
            stack[-1] += last
        elif sign or not last or not 0 < len(count) < 7 or not 1 <= int(count) * len(last) <= most:
            stack.append([])  # as a bracket that never closes
            break
        else:
            stack[-1] += last * (int(count) - 1)
            last = []
    if len(stack) != 1 or not 1 <= len(stack[0]) <= most:
        raise Problem(
            "{what} {pattern!r} can't be read: give one word for all layers, or one per layer as in 'mamba2×3 attention' or "
            "'(delta×3 attention)×2'",
            what=what,
            pattern=pattern,
        )
    return tuple(stack[0])


def layer_pattern(words: tuple[str, ...]) -> str:
    """The other way, in as few words as may be.

    >>> layer_pattern(("delta", "delta", "attention") * 2), layer_pattern(("mamba2",) * 5)
    ('(delta×2 attention)×2', 'mamba2')
    """
    count = len(words)
    period = next(n for n in range(1, count + 1) if count % n == 0 and words[:n] * (count // n) == words)
    if period == 1:
        return words[0]
    runs = ((word, len(list(same))) for word, same in groupby(words[:period]))
    once = " ".join(word if times == 1 else f"{word}×{times}" for word, times in runs)
    return once if period == count else f"({once})×{count // period}"
