"""A probe changes one thing about the input or the call and says what must then hold."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...i18n import Message
from ..case import Case


@dataclass(frozen=True)
class Probe:
    """A look that has a name; it is skipped, with the reason kept, where it doesn't apply."""

    name: str
    look: Callable[[Case], None]


def probe(name: str) -> Callable[[Callable[[Case], None]], Probe]:
    """Makes a function a probe."""
    return partial(Probe, name)


def skip(case: Case, name: str, why: str) -> None:
    """Doesn't apply."""
    case.skipped[name] = Message(why)


def size_of(output: np.ndarray) -> float:
    """The largest finite number in it, to compare differences with."""
    return float(np.abs(np.nan_to_num(output, posinf=0, neginf=0)).max()) or 1.0
