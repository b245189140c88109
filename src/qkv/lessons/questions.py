"""Questions that call one function of an answer, and the numbers that hints name."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from ..attention.oracle import Array
from .lesson import Answer, Question
from .outcome import Changed, InvalidAnswer, numbers

T = TypeVar("T")
# A mask the wrong way round; each gives another thing in a row that sees nothing.
MASK_WRONG_WAY = {
    "wrong way": {"scores, -np.inf": "-np.inf, scores"},  # NaN
    "wrong way, finite": {"scores, -np.inf": "-1e9, scores"},  # the plain mean
    # 0: a softmax that looks out for it
    "wrong way, zeros": {"softmax": "np.nan_to_num(softmax", "scores, -np.inf)": "-np.inf, scores))"},
}


def pair(given: T, what: str) -> T:
    """Return what has to be two things, or None; otherwise raise a sentence that says which two."""
    if given is not None and (not isinstance(given, tuple | list) or len(given) != 2):
        raise InvalidAnswer("it has to return two things: {what}.", what=what)
    return given


def calls(
    function: str,
    right: Callable[..., object],
    *given: object,
    shown: str = "",
    tolerance: float = 1e-5,
    names: str = "",
    returns: str = "",
    part: int = 0,
) -> Question:
    """The usual question: call the function with these; `names` are the arguments', for people to read.

    It gets copies, and may not write into them. Of a function that `returns` two things, the question is about one `part`.
    """

    def of(out: object) -> object:
        both = pair(out, returns) if returns else None
        return both[part] if isinstance(both, tuple | list) else out

    def put(answer: Answer) -> object:
        copies = [_copy(item) for item in given]
        out = of(getattr(answer, function)(*copies))
        for name, before, after in zip(names.split(), given, copies, strict=False):
            if _sized(before) and not _equal(before, after):
                raise Changed(name)
        return out

    shown = shown or ", ".join(_shown(name, item) for name, item in zip(names.split(), given, strict=True))
    call = f"{function}({shown})" + (f"[{part}]" if returns else "")
    return Question(function, call, put, lambda: of(right(*(_copy(item) for item in given))), tolerance=tolerance)


def _sized(value: object) -> bool:
    return bool(getattr(value, "ndim", 0))


def _equal(before: object, after: object) -> bool:
    old, new = numbers(before), numbers(after)
    return old is not None and new is not None and np.array_equal(old, new, equal_nan=True)


def _copy(value: object) -> object:
    return value.clone() if hasattr(value, "clone") else value.copy() if isinstance(value, np.ndarray) else value


def _shown(name: str, value: object) -> str:
    if not _sized(value):
        return f"{name}={value!r}"
    array = np.asarray(value)
    return f"{name}={array.tolist()}" if array.ndim == 1 and array.size <= 4 else f"{name} {array.shape}"


def row(values: Iterable[float]) -> str:
    """A few numbers as people read them.

    >>> row([0.25, 1.0])
    '[0.25, 1]'
    """
    return "[" + ", ".join(f"{float(value):.4g}" for value in values) + "]"


def named(sentence: str, got: Array, want: Array) -> dict[str, object]:
    """For a hint: the numbers that its sentence names.

    {got} and {want} are the number that is furthest off, and the right one; {shape} and {right} the shape that came, and
    the right one; {sum} is the sum of the row that is furthest from 1.
    """
    return {name: number(got, want) for name, number in NUMBERS.items() if f"{{{name}}}" in sentence}


def _furthest(got: Array, want: Array) -> int:
    return 0 if got.shape != want.shape else int(np.nan_to_num(np.abs(got - want), nan=np.inf).argmax())


def _sum(got: Array, want: Array) -> float:
    rows = np.nan_to_num(got.sum(-1), nan=0.0)
    return float(rows.flat[np.abs(rows - 1).argmax()])


NUMBERS: dict[str, Callable[[Array, Array], object]] = {
    "got": lambda got, want: float(got.flat[_furthest(got, want)]),
    "want": lambda got, want: float(want.flat[_furthest(got, want)]),
    "shape": lambda got, want: got.shape,
    "right": lambda got, want: want.shape,
    "sum": _sum,
}
