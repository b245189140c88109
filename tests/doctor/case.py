"""One file of the corpus: what stands in it, and what the doctor must say about it; and which of them every run takes."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.selection import slow_except


@dataclass(frozen=True)
class Case:
    file: str
    name: str
    expects: tuple[str, ...] = ()  # ids as in the catalogue, the main one first; () where all is right
    also: tuple[str, ...] = ()  # ids that would be true as well, but need not be named
    unseen: tuple[str, ...] = ()  # what can't be checked of it: then it is right only as far as checked
    options: dict[str, Any] = field(default_factory=dict)  # heads=, causal=, mask_true_means=, args=

    def __str__(self) -> str:
        return f"{self.file.removesuffix('.py')}:{self.name}"


def in_the_tenth(file: str) -> bool:
    """A fixed tenth of the corpora is looked at in every run, by a hash of their names; `make test-check` takes all."""
    return zlib.crc32(file.encode()) % 10 == 0


def in_the_twentieth(file: str) -> bool:
    """Half of that tenth, for the largest corpora: .ci/run takes them whole where what judges them changed."""
    return zlib.crc32(file.encode()) % 20 == 0


def a_tenth(cases: Iterable[Case]) -> list[Any]:
    """Those of the tenth as they are, the others marked as slow."""
    return [
        case if in_the_tenth(case.file or case.name) else pytest.param(case, marks=pytest.mark.slow) for case in cases
    ]


def one_of_each(cases: Iterable[Case]) -> list[Any]:
    """The first case of every mistake; the others marked as slow."""
    every, seen = list(cases), set()
    first = [case for case in every if not (case.expects[0] in seen or seen.add(case.expects[0]))]
    return slow_except(first, every)
