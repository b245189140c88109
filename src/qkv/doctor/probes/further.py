"""What must hold besides of a mask argument that is right for one mask: for empty rows, large scores, two masks at once; and
whose mask hides a memory.
"""

import re

import numpy as np

from ...i18n import _
from ..case import Case
from ..numbers.watching import contexts_of, poked
from ..subject.errors import UserError
from ..subject.formats import Format, formats
from .owners import WINDOW
from .structure import support
from .trials import View, batch_of, error_of, form_of, masked_place, patterns, rows_of, tensor_for, tolerance_of, view

Array = np.ndarray

EMPTY_ROWS = {
    "nan": _("a row that may look at nothing gives NaN (−inf everywhere); make sure that no text is all padding"),
    "uniform": _("a row that may look at nothing looks at everything alike (a finite fill value)"),
    "zero": _("a row that may look at nothing gives 0"),
}


def other_keys(case: Case, parameter: str, format_: Format, looked: View) -> None:
    """C3: keys of another number run without the mask, and stop with it."""
    n, m = case.lengths
    if looked.n != looked.m or n == m or "k" not in case.subject.inputs:
        return
    given = tensor_for(case, format_, patterns(n, m, batch_of(looked))["right"])
    if given is None:
        return
    try:
        case.subject(case.inputs, {parameter: given})
    except UserError as error:
        if re.search(r"size|shape|broadcast|expand|match", str(error)):
            case.add("C3", n=n, m=m, error=str(error), line=error.line)


def empty_row(case: Case, parameter: str, format_: Format, looked: View) -> None:
    """M18: what a row gives that may look at nothing; reported, never counted as a mistake."""
    keep = np.ones((batch_of(looked), looked.n, looked.m), bool)
    keep[0] = False
    given = tensor_for(case, format_, keep)
    if given is None:
        return
    try:
        result = case.subject(looked.inputs, {parameter: given}, watch=True)
    except UserError:
        return
    row = (contexts_of(case.subject, result, looked.inputs, looked.watched) if looked.watched else [result.output])[0][
        0
    ]
    what = "nan" if np.isnan(row).any() else "zero" if not row.any() else "uniform"
    case.remark("M18", EMPTY_ROWS[what])


def large_scores(case: Case, parameter: str, format_: Format, looked: View, keep: Array, memory: bool) -> None:
    """M19: a fill that is not low enough when scores are large."""
    subject = case.subject
    fill = case.says.fill
    if case.says.text and (fill is None or not -1e6 < fill < 0):
        return  # no such number is written there
    encoded = tensor_for(case, format_, keep)
    if (
        subject.layout == "ids"
        or encoded is None
        or format_.kind == "additive"
        or (case.match is not None and case.match.variant.ids)
    ):
        return
    inputs = {r: a * 60 for r, a in looked.inputs.items()}
    roles = [r for r in subject.inputs if r in ("k", "v") or (r == "memory" and memory)] or subject.inputs[:1]
    item = int(np.argmin(keep[:, 0].sum(-1)))  # the fewer keys are left, the lower the best score may be
    gone = np.flatnonzero(~keep[item].any(0))
    if not len(gone):
        return
    place = int(gone[0])
    louder = {r: a.copy() for r, a in inputs.items()}
    for r in roles:
        louder[r][item, ..., place, :] *= -3
    try:
        base, moved = (subject(i, {parameter: encoded}).output for i in (inputs, louder))
    except UserError:
        return
    if not (np.isfinite(base).all() and np.isfinite(moved).all()):
        return
    change = rows_of(np.abs(moved - base)[item], subject.layout)
    if roles == subject.inputs[:1] and place < len(change):
        change[place] = 0
    relative = float(change.max() / (np.abs(base[item]).max() or 1))
    if relative > 1e-6 and fill is not None and fill <= -1e4:  # BERT's, which only scores of thousands reach
        case.remark("M19", _("masked scores are filled with {fill}, which scores of thousands would reach"), fill=fill)
    elif relative > 1e-6:
        case.add("M19", change=relative)


def two_masks(case: Case, one: tuple[str, Format], two: tuple[str, Format]) -> None:
    """M5: given two masks, both hide."""
    n = case.lengths[0]
    looked = view(case, n, n) if "memory" not in case.subject.inputs else None
    if looked is None or looked.guess is None or case.match is None:
        return
    case.checked.append("masks together")
    everything = patterns(looked.n, looked.m, batch_of(looked))
    for first, second in (("causal", "right"), ("right", "causal")):
        keeps = everything[first], everything[second]
        given = {p: tensor_for(case, f, k) for (p, f), k in zip((one, two), keeps, strict=True)}
        if any(g is None for g in given.values()):
            continue
        try:
            result = case.subject(looked.inputs, given, watch=True)
        except UserError as error:
            case.stopped("masks together", error)
            return
        contexts = contexts_of(case.subject, result, looked.inputs, looked.watched)  # type: ignore[arg-type]
        together = form_of(case, keeps[0] & keeps[1])
        if error_of(case, looked, together, contexts) < tolerance_of(case):
            return
        for index, (parameter, _mask) in enumerate((one, two)):
            alone = error_of(case, looked, form_of(case, keeps[1 - index]), contexts)
            if alone < tolerance_of(case):
                case.add("M5", "two", parameter=parameter, other=(two, one)[index][0], error=alone)
                return


def mask_and_window(case: Case, window: str, mask: str, format_: Format) -> None:
    """M5: given a mask and the width of a window, what either hides is hidden."""
    n = case.lengths[0]
    looked = view(case, n, n) if not case.subject.crosses else None
    given = looked and tensor_for(case, format_, patterns(n, n, batch_of(looked))["right"])
    if looked is None or given is None:
        return
    try:
        near, kept, both = (
            support(case.subject, looked.inputs, one)[0]
            for one in ({window: WINDOW}, {mask: given}, {window: WINDOW, mask: given})
        )
    except UserError as error:
        case.stopped("masks together", error)
        return
    case.checked.append("masks together")
    if (both & ~near).any() or (both & ~kept).any():
        lost, other = (window, mask) if (both & ~near).any() else (mask, window)
        case.add("M5", "seen", parameter=lost, other=other)


def _targets_padding(case: Case, parameter: str, equal: View) -> bool:
    """C2 in a whole model: where the target has padding, the memory is hidden."""
    subject, last = case.subject, equal.n - 1
    for pad in range(4):
        inputs = {r: a.copy() for r, a in equal.inputs.items()}
        inputs[subject.inputs[0]][0, last] = pad
        change = [
            float(np.abs(subject(poked(subject, i, last, 0, ["memory"])).output - subject(i).output)[0, :last].max())
            for i in (equal.inputs, inputs)
        ]
        if change[0] > 1e-6 and change[1] < 1e-12:
            other = next(p for p, r in subject.roles.items() if r == subject.inputs[0])
            case.add("C2", parameter=parameter, other=other, change=change[0])
            return True
    return False


def memory_mask(case: Case, parameter: str, looked: View) -> None:
    """C2: the memory's own mask does nothing; does the target's stand in its place?"""
    equal = view(case, looked.n, looked.n)
    if equal is None:
        case.add("M3", parameter=parameter, tried=1)
        return
    if case.subject.layout == "ids" and _targets_padding(case, parameter, equal):
        return
    if not stands_in(case, parameter, equal):
        case.add("M3", parameter=parameter, tried=1)


def stands_in(case: Case, parameter: str, equal: View | None) -> bool:
    """C2: whether another mask hides the memory in this one's place."""
    for other in [p for p in case.subject.masks if p != parameter] if equal is not None else ():
        assert equal is not None
        keep = patterns(equal.n, equal.n, batch_of(equal))["right"]
        for format_ in formats(other, "mask"):
            given = tensor_for(case, format_, keep)
            if given is None:
                continue
            try:
                output = case.subject(equal.inputs, {other: given}).output
                item, place = masked_place(keep)
                moved = case.subject(poked(case.subject, equal.inputs, place, item, ["memory"]), {other: given}).output
                free = case.subject(poked(case.subject, equal.inputs, place, item, ["memory"])).output
            except UserError:
                continue
            plain = case.subject(equal.inputs).output
            if np.abs(free - plain).max() > 1e-9 and np.abs(moved - output).max() < 1e-12:
                unmasked = float(np.abs(free - plain).max() / (np.abs(plain).max() or 1))
                case.add("C2", parameter=parameter, other=other, change=unmasked)
                return True
    return False
