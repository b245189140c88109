"""Whose a mask is: of which argument, beside which other mask, for which of the outputs; none is passed over in silence."""

import copy
import itertools
import re

import numpy as np

from ...i18n import _
from ..case import Case
from ..subject.errors import UserError
from ..subject.formats import Format, formats
from ..subject.subject import Subject
from ..subject.values import arrays, signature
from .structure import support
from .trials import Trial, View, batch_of, hides, patterns, tensor_for


def discovered(subject: Subject) -> dict[str, str]:
    """Arguments of no known name that are masks, lengths or windows by what they do: left out by default, and given one
    another output."""
    parameters = signature(subject.function).parameters
    strange = [
        p for p, r in subject.roles.items() if r == "" and parameters[p].default is None and p not in subject.fixed
    ]
    found: dict[str, str] = {}
    for parameter in strange if subject.layout in ("bnc", "nbc", "ids") else ():
        n, m = subject.sizes.queries, subject.sizes.keys if subject.crosses else subject.sizes.queries
        inputs = subject.draw(n=n, m=m)
        try:
            base = subject(inputs).output
        except UserError:
            return found
        if n == m and _band(subject, inputs, parameter):
            found[parameter] = "window"
            continue
        keep = patterns(n, m, subject.sizes.batch)["right"]
        for format_ in (Format("bm"), Format("bm", "int"), Format("bnm"), Format("b1nm"), Format("lengths")):
            given = format_.encode(keep, subject.sizes.heads, subject.framework, subject.dtype)
            try:
                if not np.array_equal(subject(inputs, {parameter: given}).output, base, equal_nan=True):
                    found[parameter] = "lengths" if format_.shape == "lengths" else "mask"
                    break
            except UserError:
                continue
    return found


WINDOW = 2  # narrower than any text that is tried


def _band(subject: Subject, inputs: dict[str, np.ndarray], parameter: str) -> bool:
    """Whether a number handed over leaves each token only those near it."""
    try:
        seen = support(subject, inputs, {parameter: WINDOW})[0]
    except UserError:
        return False
    far = np.abs(np.subtract.outer(np.arange(len(seen)), np.arange(len(seen)))) > WINDOW
    return not seen[far].any() and bool(seen[~far & ~np.eye(len(seen), dtype=bool)].any())


def unsettled(case: Case) -> None:
    """Every mask argument was understood, or it is said that it was not looked at."""
    known = {*case.formats, *case.defaults, *case.discovered}
    for parameter in case.subject.masks:
        if parameter in known or any(what.endswith(f" {parameter}") for what in case.unseen):
            continue
        if other := belongs(case, parameter):
            if other != case.memory:  # tried: what takes no memory needs no mask for it
                case.miss(
                    f"mask {parameter}",
                    _("the mask {parameter}: it is for {other}, which was not handed over"),
                    parameter=parameter,
                    other=other,
                )
            continue
        case.miss(f"mask {parameter}", _("the mask {parameter}: what it does was not found out"), parameter=parameter)


def belongs(case: Case, parameter: str) -> str:
    """The argument that a mask is for by its name, where that one was not handed over: mem_mask and mem."""
    stem = re.sub(r"_?((attention|attn|key|padding)_)*mask$", "", parameter)
    subject, given = case.subject, {*case.subject.fixed}
    absent = (p for p, r in subject.roles.items() if p != parameter and r not in subject.inputs and p not in given)
    others = {*subject.masks, *(p for p, r in subject.roles.items() if r == "flag")}
    return next((p for p in absent if stem and p.startswith(stem) and p not in others), "")


def for_memory(case: Case, parameter: str) -> bool:
    """Whether a mask is the memory's by its name: frame_keep and frames."""
    stem = re.split(r"_|mask", parameter)[0]
    return any(r == "memory" and stem and p.startswith(stem) for p, r in case.subject.roles.items())


def elsewhere(case: Case, parameter: str, looked: View, trial: Trial) -> bool:
    """Whether something else that comes back moves with the mask: of two texts that look at each other, the other."""
    one, two = (
        list(arrays(case.subject(looked.inputs, given).raw))
        for given in (None, {parameter: tensor_for(case, trial.format, trial.keep)})
    )
    features = trial.output.shape[-1]  # no weights, which may be masked for showing only
    return any(
        a.shape == b.shape and a.shape[-1] == features and (a != b).any() for a, b in zip(one, two, strict=False)
    )


def only_together(case: Case, parameter: str, looked: View) -> bool:
    """Whether a mask works only beside another one, query_mask and key_mask: then what it hides is looked at so."""
    subject, batch = case.subject, batch_of(looked)
    rows, keys = patterns(looked.n, looked.n, batch)["right"], patterns(looked.n, looked.m, batch)["right"]
    for other, format_ in itertools.product((p for p in subject.masks if p != parameter), formats(parameter, "mask")):
        for keep, others in ((keys, rows), (rows, keys), (keys, keys)):
            given = {parameter: tensor_for(case, format_, keep), other: tensor_for(case, format_, np.ones_like(others))}
            free = {**given, parameter: tensor_for(case, format_, np.ones_like(keep))}
            if any(one is None for one in (*given.values(), *free.values())):
                continue
            try:
                base, output = subject(looked.inputs, free).output, subject(looked.inputs, given).output
                if not np.isfinite(base).all() or np.array_equal(np.nan_to_num(output), np.nan_to_num(base)):
                    continue
                beside = copy.copy(case)
                beside.subject = copy.copy(subject)
                beside.subject.fixed = {**subject.fixed, other: given[other]}
                hidden = hides(beside, parameter, Trial(format_, keep, [], output), looked, "memory" in subject.inputs)
            except UserError:
                continue
            changed = np.abs(np.nan_to_num(output) - base).max(-1) > 1e-9
            if hidden or (changed.shape == rows[:, 0].shape and np.array_equal(changed, ~rows[:, 0])):
                case.formats[parameter] = format_
                return True
    return False
