"""Claims that are withdrawn because of how the object was built: sizes that hide everything, an option that is the caller's."""

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from ...i18n import Message, _
from ..case import Case, Found
from ..mistakes import CATALOGUE
from ..subject.errors import CannotRun, UserError
from ..subject.search import find_subject
from ..subject.values import parameters_of

Look = Callable[[Case], Case]
MOST_OPTIONS = 3  # that are tried the other way
OF_A_PRODUCT = {"P1", "P2", "P3", "P4", "C3", "H3", "H9", "M3", "M20"}  # these need to know what q, k and v are


def withdraw(case: Case, target: Any, examined: Look) -> None:
    """Move findings that this way of building the object explains to what is not checked."""
    if not case.founds:
        return
    trivial, identified = _softmaxes(case)
    if case.match is None and trivial:
        case.miss(
            "sizes",
            _(
                "{names}: with the sizes that it was built with, a softmax runs over one element and always gives 1, so "
                "what shows here may not be a mistake. Give other sizes: --args"
            ),
            names=_names(case.founds),
        )
        case.founds.clear()
    elif case.match is None and not identified and (left := [f for f in case.founds if f.id in OF_A_PRODUCT]):
        case.miss(
            "product",
            _("{names}: the product of q and k was not identified in this run, so it is not claimed"),
            names=_names(left),
        )
        case.founds[:] = [found for found in case.founds if found not in left]
    elif option := _option_without(case, target, examined):
        case.miss(
            "option",
            _("{names}: this shows with {default}, the default, and not with {option}, so it is the caller's choice"),
            names=_names(case.founds),
            default=option[0],
            option=option[1],
        )
        case.founds.clear()


def _names(founds: list[Found]) -> str:
    return ", ".join(f"{found.id} ({Message(CATALOGUE[found.id].name)})" for found in founds)


def _softmaxes(case: Case) -> tuple[bool, bool]:
    """Whether a softmax of the run is over one element, and whether one is over scores of all queries and keys."""
    try:
        seen = case.subject(case.inputs, watch=True).seen
    except UserError:
        return False, True
    if seen is None or case.subject.framework != "torch":
        return False, True  # what NumPy code did is known by its numbers alone
    squares = {tuple(scores.shape[-2:]) for scores, _axis, _shares in seen.softmaxes}
    trivial = any(axis is not None and scores.shape[axis] == 1 for scores, axis, _shares in seen.softmaxes)
    texts = len(next(iter(case.inputs.values())))
    return trivial, bool(seen.kernels or seen.along) or case.lengths in squares or (texts, texts) in squares


def _option_without(case: Case, target: Any, examined: Look) -> tuple[str, str] | None:
    """The default of a constructor's flag and its other value, if with that the numbers are attention's and nothing is found."""
    if not inspect.isclass(target) or case.asked.args is not None:
        return None
    flags = [p for p in parameters_of(target) if p.default is False]  # what is switched off hides its own mistakes
    for flag in flags[:MOST_OPTIONS]:
        with contextlib.suppress(CannotRun, UserError):
            subject = find_subject(
                target,
                name=case.subject.name,
                space=case.space,
                sizes=case.subject.sizes,
                args={flag.name: True},
                call=None,
            )
            subject.budget = case.subject.budget
            other = examined(case.other(subject, case.asked))
            if other.match is not None and not other.founds:
                return f"{flag.name}=False", f"{flag.name}=True"
    return None
