"""What may come of running somebody's code: errors with the lines that are theirs, and a budget that is used up."""

import sysconfig
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .subject import Subject


class CannotRun(Exception):
    """No way was found to build or to call it; `reason` is the traceback's last line of the likeliest attempt."""

    def __init__(
        self,
        stage: str,
        reason: str,
        tried: list[str],
        line: int | None = None,
        error: BaseException | None = None,
        given: str = "",
    ) -> None:
        super().__init__(stage, reason, tried, line, error, given)
        self.stage, self.reason, self.tried, self.line, self.error, self.given = (
            stage,
            reason,
            tried,
            line,
            error,
            given,
        )

    def __str__(self) -> str:
        return self.reason


class UserError(Exception):
    """The user's code raised while it was called."""

    def __init__(self, error: BaseException, line: int | None = None) -> None:
        self.error, self.line = error, line_of(error) if line is None else line
        self.reason = last_line(error)  # now, since it is the user's code that says it
        super().__init__(error, self.line)

    def __str__(self) -> str:
        return self.reason


class Spent(BaseException):
    """The operations for this check are used up: what was not looked at by now is not looked at any more."""


# A call of a small module takes Python as long as so many operations take the processor.
CALL = 2e7


OPERATIONS = 5e11


# Calls that ended, by how the object was built and what the call was given: the subject, and the arguments by name.
Calls = dict[tuple[Any, ...], tuple["Subject", dict[str, Any]]]


@dataclass
class Budget:
    """How much of the user's code may be run. Counted, never timed: a busy machine must give the same verdict.

    >>> budget = Budget(5e7)
    >>> budget.pay(CALL), budget.pay(CALL)
    (None, None)
    >>> budget.pay(CALL)
    Traceback (most recent call last):
    qkv.doctor.subject.errors.Spent: 6e+07 operations of 5e+07
    """

    operations: float = OPERATIONS
    spent: float = 0.0
    calls: Calls = field(default_factory=dict)  # those that ended, one of each kind

    def pay(self, operations: float) -> None:
        """Counts a call before it is made."""
        self.spent += operations
        if self.spent > self.operations:
            raise Spent(f"{self.spent:.0e} operations of {self.operations:.0e}")


def last_line(error: BaseException) -> str:
    """As a traceback ends; of a message of many lines, its first."""
    return "".join(traceback.format_exception_only(error)).strip().split("\n")[0][:300]


# Where code lies that is not the user's: this package and Python's own. By folder, since a user's may be called qkv too.
NOT_THEIRS = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"))


def line_of(error: BaseException) -> int | None:
    """The innermost line of the user's own file in a traceback."""
    lines = lines_of(error)
    return lines[-1] if lines else None


def lines_of(error: BaseException) -> tuple[int, ...]:
    """The user's own lines in a traceback, outermost first: files under site-packages and qkv are not theirs."""
    theirs = []
    for frame in traceback.extract_tb(error.__traceback__):
        if _is_theirs(frame.filename):
            theirs.append(frame.lineno or 0)
    return tuple(theirs)


def _is_theirs(file: str) -> bool:
    path = Path(file)
    installed = "site-packages" in path.parts or file.startswith("<frozen")
    return not installed and not any(path.is_relative_to(folder) for folder in NOT_THEIRS)


def raises(error: BaseException) -> bool:
    """True if a `raise` of the user's own made the error, not a library that the code called."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and _is_theirs(frames[-1].filename)


def endless(error: BaseException | None) -> bool:
    """Whether the user's code calls itself without end: no other way to call it would help, and each takes seconds."""
    return isinstance(error, RecursionError) and len(lines_of(error)) > 100
