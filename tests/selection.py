"""Which cases of a test run every time, and which only with the slow tests."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_except(fast: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return cases for `parametrize`: those in `fast` run every time, all others are marked slow.

    >>> [type(case).__name__ for case in slow_except(["b"], "abc")]
    ['ParameterSet', 'str', 'ParameterSet']
    """
    cases = list(cases)
    missing = [case for case in fast if case not in cases]
    assert not missing, f"not among the cases: {missing}"
    return [
        case if case in fast else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow)
        for case in cases
    ]
