"""Run one question on an answer: its numbers in float64, or the error that it raised."""

import contextlib
import io
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..attention.oracle import Array
from ..i18n import Message, Spoken
from .lesson import Answer, Question


class UnfilledHole(Exception):
    """A number is still the `...` of the exercise."""


class InvalidAnswer(Spoken):
    """An answer with a fault that its sentence explains."""

    def __repr__(self) -> str:
        return f"InvalidAnswer({self.sentence!r})"  # equal for equal sentences, whatever the values


class ModifiedArgument(Exception):
    """An answer modified one of its arguments."""


class ValueWithNote(NamedTuple):
    """A result with a note that is shown if the answer is right."""

    value: object
    note: Message


@dataclass(frozen=True)
class Outcome:
    """The result of a question: an array, or an error."""

    value: Array | None = None
    error: BaseException | None = None
    note: Message | None = None

    def matches(self, other: "Outcome", tolerance: float) -> bool:
        """True for close numbers of the same shape, or for equal errors."""
        if self.error is not None or other.error is not None:
            return repr(self.error) == repr(other.error)
        if self.value is None or other.value is None:
            return self.value is other.value
        return is_close(self.value, other.value, tolerance)


def is_close(a: Array, b: Array, tolerance: float) -> bool:
    """True if two arrays have the same shape and equal values up to rounding; NaN equals NaN."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


class PrintedText(io.TextIOBase):
    """A text stream that stores the first 2,000 characters and counts the lines."""

    max_characters = 2000

    def __init__(self) -> None:
        self.text, self.lines = "", 0

    def write(self, text: str) -> int:
        """Store what fits; return the length of the text."""
        self.text += text[: max(self.max_characters + 1 - len(self.text), 0)]
        self.lines += text.count("\n")
        return len(text)

    def writable(self) -> bool:
        """Return True."""
        return True


def run_question(question: Question, answer: Answer, printed: PrintedText | None = None) -> Outcome:
    """Run a question on an answer; what the answer prints goes to `printed`."""
    try:
        with np.errstate(all="ignore"), contextlib.redirect_stdout(printed or PrintedText()):
            value = question.run(answer)
    except (Exception, SystemExit) as error:
        return Outcome(error=error)
    value, note = value if isinstance(value, ValueWithNote) else (value, None)
    try:
        return Outcome(to_array(value), note=note)
    except UnfilledHole as error:
        return Outcome(error=error)
    except Exception:
        return Outcome(
            error=InvalidAnswer(
                "it gave a {kind} that isn't a table of numbers: return one array (or tensor).",
                kind=type(value).__name__,
            )
        )


def expected_array(question: Question) -> Array:
    """Return the right numbers."""
    array = to_array(question.expected())
    assert array is not None
    return array


def to_array(value: object) -> Array | None:
    """Return a result as float64. Flattens and joins a sequence of arrays; None stays None."""
    if value is None or value is NotImplemented:
        return None
    if value is ... or (isinstance(value, list | tuple) and any(item is ... for item in value)):
        raise UnfilledHole
    if isinstance(value, list | tuple) and any(getattr(item, "ndim", 0) for item in value):
        parts = [part for item in value if (part := to_array(item)) is not None]
        if len(parts) < len(value):
            raise TypeError("None among arrays")
        return np.concatenate([np.ravel(part) for part in parts])
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value, dtype=np.float64)
