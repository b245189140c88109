"""Random numbers without state: the same (seed, step) always gives the same numbers.

So a run that is killed and resumed reads the data that it would have read, and nothing need be saved for it.
"""

import numpy as np

WORD = (1 << 64) - 1


def dice(seed: int, step: int, stream: int = 0) -> np.random.Generator:
    """Return a generator that depends only on (seed, step, stream).

    Philox is counter-based with the key (seed, step), so steps can be skipped. Different streams of a step are
    independent: one chooses windows, another masks.

    >>> int(dice(1, 1000).integers(100)) == int(dice(1, 1000).integers(100))
    True
    """
    key = np.array([seed & WORD, step & WORD], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, stream], dtype=np.uint64)))


def mix(seed: int, index: int) -> int:
    """Return a 64-bit number whose every bit depends on (seed, index); far cheaper than a generator.

    >>> mix(0, 1) == mix(0, 1), mix(0, 1) == mix(1, 0)
    (True, False)
    """
    return _scramble(_scramble(seed & WORD) + (index & WORD))


def _scramble(word: int) -> int:
    # splitmix64: a published sequence of multiply and shift whose output passes the usual tests of randomness
    word = (word + 0x9E3779B97F4A7C15) & WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)
