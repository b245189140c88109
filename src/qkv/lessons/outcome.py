"""What comes of asking an answer one question: its numbers in float64, or the error that it raised."""

import contextlib
import io
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..attention.oracle import Array
from ..i18n import Message, Spoken
from .lesson import Answer, Question


class Hole(Exception):
    """A number that wasn't filled in."""


class InvalidAnswer(Spoken):
    """Something wrong that is known by its sentence."""

    def __repr__(self) -> str:
        return f"InvalidAnswer({self.sentence!r})"  # the same complaint, whatever its numbers


class Changed(Exception):
    """An answer wrote into what it was given."""


class ValueWithNote(NamedTuple):
    """What a question may return instead of numbers alone: with a note that is shown if the answer is right."""

    value: object
    note: Message


@dataclass(frozen=True)
class Outcome:
    """What a question got: an array, or an error."""

    value: Array | None = None
    error: BaseException | None = None
    note: Message | None = None

    def same(self, other: "Outcome", tolerance: float) -> bool:
        """The same numbers in the same shape, or the same complaint."""
        if self.error is not None or other.error is not None:
            return repr(self.error) == repr(other.error)
        if self.value is None or other.value is None:
            return self.value is other.value
        return is_close(self.value, other.value, tolerance)


def is_close(a: Array, b: Array, tolerance: float) -> bool:
    """Equal up to rounding, shapes too; NaN equals NaN."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


class PrintedText(io.TextIOBase):
    """The beginning of what is printed: a print without end must not fill the memory."""

    most = 2000  # characters

    def __init__(self) -> None:
        self.text, self.lines = "", 0

    def write(self, text: str) -> int:
        """As files do."""
        self.text += text[: max(self.most + 1 - len(self.text), 0)]
        self.lines += text.count("\n")
        return len(text)

    def writable(self) -> bool:
        """As files do."""
        return True


def ask(question: Question, answer: Answer, printed: PrintedText | None = None) -> Outcome:
    """Put one question to an answer; what it prints meanwhile is kept from the screen."""
    try:
        with np.errstate(all="ignore"), contextlib.redirect_stdout(printed or PrintedText()):
            given = question.ask(answer)
    except (Exception, SystemExit) as error:
        return Outcome(error=error)
    given, note = given if isinstance(given, ValueWithNote) else (given, None)
    try:
        return Outcome(numbers(given), note=note)
    except Hole as error:
        return Outcome(error=error)
    except Exception:
        return Outcome(
            error=InvalidAnswer(
                "it gave a {kind} that isn't a table of numbers: return one array (or tensor).",
                kind=type(given).__name__,
            )
        )


def reference(question: Question) -> Array:
    """Return the right numbers."""
    want = numbers(question.right())
    assert want is not None
    return want


def numbers(value: object) -> Array | None:
    """Whatever an answer gave, as float64; a pair or list of different shapes is laid out flat; None stays None."""
    if value is None or value is NotImplemented:
        return None
    if value is ... or (isinstance(value, list | tuple) and any(item is ... for item in value)):
        raise Hole
    if isinstance(value, list | tuple) and any(getattr(item, "ndim", 0) for item in value):
        parts = [part for item in value if (part := numbers(item)) is not None]
        if len(parts) < len(value):
            raise TypeError("None among arrays")
        return np.concatenate([np.ravel(part) for part in parts])
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value, dtype=np.float64)
