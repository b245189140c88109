"""One file of the corpus: what stands in it, and what the doctor must say about it."""

from dataclasses import dataclass, field
from typing import Any


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
