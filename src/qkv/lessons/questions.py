"""Questions that call one function of an answer, and the numbers that hints name."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..attention.oracle import Array, from_qkv
from .lesson import Answer, Question, WrongAnswer
from .outcome import InvalidAnswer, ModifiedArgument, to_array

T = TypeVar("T")
# Inverted masks, which differ in rows without any allowed key: NaN, the plain mean, or 0 by a softmax that avoids NaN.
INVERTED_MASK = {
    id: WrongAnswer(
        changes,
        "the mask is inverted: np.where(mask, scores, −inf) keeps the scores where mask is True. (A row whose scores are "
        "all −inf becomes NaN.)",
        mistake="M1",
    )
    for id, changes in {
        "wrong way": {"scores, -np.inf": "-np.inf, scores"},
        "wrong way, finite": {"scores, -np.inf": "-1e9, scores"},
        "wrong way, zeros": {"softmax": "np.nan_to_num(softmax", "scores, -np.inf)": "-np.inf, scores))"},
    }.items()
}


def attention_inputs(
    rng: np.random.Generator, n: int, m: int, d: int, e: int, scale: float = 1.0
) -> tuple[Array, Array, Array]:
    """Return random q (n, d), k (m, d) and v (m, e)."""
    q, k, v = (rng.normal(size=shape) * scale for shape in ((n, d), (m, d), (m, e)))
    return q, k, v


def attention_output(q: Array, k: Array, v: Array, mask: NDArray[np.bool_] | None = None) -> Array:
    """Return the expected output of attention."""
    return from_qkv(q, k, v, mask).output


def check_pair(value: T, names: str) -> T:
    """Return a tuple or list of two, or None, as it is; raise `InvalidAnswer` with the two names otherwise."""
    if value is not None and (not isinstance(value, tuple | list) or len(value) != 2):
        raise InvalidAnswer("it has to return two things: {what}.", what=names)
    return value


def calls(
    function: str,
    expected: Callable[..., object],
    *arguments: object,
    description: str = "",
    tolerance: float = 1e-5,
    names: str = "",
    returns: str = "",
    part: int = 0,
) -> Question:
    """Return a question that calls a function with copies of these arguments, which it must not modify.

    `names` are the arguments' names, separated by spaces; `description` shows the arguments where names and shapes don't
    do. If the function `returns` a pair, the question is about one `part` of it.
    """

    def select_part(output: object) -> object:
        pair = check_pair(output, returns) if returns else None
        return pair[part] if isinstance(pair, tuple | list) else output

    def run(answer: Answer) -> object:
        copies = [_copy(argument) for argument in arguments]
        output = select_part(getattr(answer, function)(*copies))
        for name, before, after in zip(names.split(), arguments, copies, strict=False):
            if _is_array(before) and not _equals(before, after):
                raise ModifiedArgument(name)
        return output

    description = description or ", ".join(map(_describe, names.split(), arguments))
    call = f"{function}({description})" + (f"[{part}]" if returns else "")
    return Question(function, call, run, lambda: select_part(expected(*map(_copy, arguments))), tolerance=tolerance)


def _is_array(value: object) -> bool:
    return bool(getattr(value, "ndim", 0))


def _equals(before: object, after: object) -> bool:
    old, new = to_array(before), to_array(after)
    return old is not None and new is not None and np.array_equal(old, new, equal_nan=True)


def _copy(value: object) -> object:
    return value.clone() if hasattr(value, "clone") else value.copy() if isinstance(value, np.ndarray) else value


def _describe(name: str, value: object) -> str:
    if not _is_array(value):
        return f"{name}={value!r}"
    array = np.asarray(value)
    return f"{name}={array.tolist()}" if array.ndim == 1 and array.size <= 4 else f"{name} {array.shape}"


def format_row(values: Iterable[float]) -> str:
    """Return a few numbers as text, with four digits each.

    >>> format_row([0.25, 1.0])
    '[0.25, 1]'
    """
    return "[" + ", ".join(f"{float(value):.4g}" for value in values) + "]"


def hint_values(sentence: str, actual: Array, expected: Array) -> dict[str, object]:
    """Return the values of the placeholders in a hint.

    {got} and {want} are the number with the largest error and the right one, {shape} and {right} the two shapes, and {sum}
    is the sum of the row that is furthest from 1.
    """
    return {name: compute(actual, expected) for name, compute in HINT_VALUES.items() if f"{{{name}}}" in sentence}


def _largest_error(actual: Array, expected: Array) -> int:
    return 0 if actual.shape != expected.shape else int(np.nan_to_num(np.abs(actual - expected), nan=np.inf).argmax())


def _worst_row_sum(actual: Array, expected: Array) -> float:
    rows = np.nan_to_num(actual.sum(-1), nan=0.0)
    return float(rows.flat[np.abs(rows - 1).argmax()])


HINT_VALUES: dict[str, Callable[[Array, Array], object]] = {
    "got": lambda actual, expected: float(actual.flat[_largest_error(actual, expected)]),
    "want": lambda actual, expected: float(expected.flat[_largest_error(actual, expected)]),
    "shape": lambda actual, expected: actual.shape,
    "right": lambda actual, expected: expected.shape,
    "sum": _worst_row_sum,
}
