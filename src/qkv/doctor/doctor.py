"""The doctor: builds and calls what it was given, compares, probes, and names the mistakes.

    from qkv.doctor import check
    print(check(MyMultiHeadAttention))              # or an object, or a function of q, k, v

In reading order: subject/ (how to run it), numbers/ (attention right and wrong, and which of it gives these numbers),
probes/ (what else can be wrong), places, replay (where), conclusion, report; mistakes/ is the catalogue.
"""

import contextlib
import copy
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from ..i18n import Message, Problem, _
from .case import Asked, Case, Found
from .conclusion import adapted, cannot, concluded, confirmed, finding
from .cure import proved, stops_a_call
from .ignores import apply_ignores
from .mistakes.training import Crashes
from .probes import (
    block,
    cached,
    changes,
    comparison,
    exercise,
    mask_makers,
    masking,
    owners,
    positions,
    roads,
    run,
    scores,
    stages,
    state_modules,
    states,
    structure,
    surroundings,
    withdrawn,
)
from .report import Remark, Report
from .source.file import Source
from .source.says import says
from .subject import makers
from .subject.errors import OPERATIONS, Budget, Calls, CannotRun, Spent, UserError
from .subject.search import find_subject, fresh, handed_over, sizes_for

# What is looked at in turn, for what the budget leaves out.
LOOKS = {
    "cache": _("its cache"),
    "claims": _("whether an option explains what was found"),
    "inputs": _("whether every input counts"),
    "exercise": _("lines that no call reached"),
    "flags": _("its flags the other way"),
    "masks": _("its masks"),
    "memory": _("attention to a memory"),
    "numbers": _("the numbers, one by one"),
    "parts": _("the parts that it is made of"),
    "probes": _("the probes that change one thing at a time"),
    "wiring": _("residuals and norms"),
}

OF_AN_AXIS = ("S3", "S4", "S7", "X1", "X2", "X3", "H9")  # an axis that is counted from the front is another with heads

Look = Callable[[Case], None]
# The objects of one file share their operations, else a notebook of nine large models takes minutes; each gets at least
# these, some three times what an object of our own sizes takes.
LEAST = 3e10
_spent: WeakKeyDictionary[Source, list[Budget]] = WeakKeyDictionary()


def check(
    target: Any,
    *,
    source: Any = None,
    name: str = "",
    heads: int | None = None,
    causal: bool | None = None,
    mask_true_means: str | None = None,
    args: dict[str, Any] | None = None,
    call: dict[str, str] | None = None,
    operations: float = OPERATIONS,
) -> Report:
    """Examine a class, an object or a function that should be attention, a layer around it, or its positions.

    target: with a class, `args` are its constructor's arguments (guessed where they aren't given).
    heads, causal, mask_true_means ("keep" or "block"), call ({"q": "first_argument"}): what can't be guessed.
    operations: what running it may cost, estimated from its sizes. Past that no further probe is begun, and the report
    says which were left out: the verdict is then "partly", never "right". Checks with one `source` share them, down to
    `LEAST` for each. No clock is read, so a busy machine gives the same answer. The source, if it isn't given, is found
    by Python's own means; without it lines and fixes are left out.

    >>> def attention(q, k, v):
    ...     return torch.softmax(q @ k.transpose(-2, -1), -1) @ v
    >>> report = check(attention)
    >>> report.verdict, report.findings[0].id
    ('wrong', 'S2')
    """
    name = name or getattr(target, "__name__", type(target).__name__)
    source = source if source is not None else surroundings.source_of(target)
    asked = Asked(heads, causal, mask_true_means, args, call)
    label = f"{source.path.name}:{name}" if source is not None and getattr(source, "path", None) else name
    states = torch.get_rng_state(), np.random.get_state()
    if isinstance(source, Source):
        source.loader.module.ran.forget()  # what other definitions of the file ran
    diagnose = partial(_diagnose, name=name, label=label, source=source, asked=asked)
    new_budget = _budgets(source, operations)
    try:
        first = new_budget()
        report = diagnose(target, budget=first)
        if report.findings:
            report = confirmed(report, lambda: _anew(target, name, source, asked, new_budget(2)))
        again = partial(_again, target=target, name=name, asked=asked, new_budget=new_budget, before=first.calls)
        report.findings[:] = proved(report.findings, source, again)
        report = _with_older_namesakes(report, name, source)
        return apply_ignores(report, source, name) if isinstance(source, Source) else report
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])


def _budgets(source: Any, operations: float) -> Callable[..., Budget]:
    """A maker of budgets for one object, of what the other objects of its file left over; `times` as much for larger sizes."""
    spent = _spent.setdefault(source, []) if isinstance(source, Source) else []
    left = max(min(operations, LEAST), operations - sum(budget.spent for budget in spent))

    def new_budget(times: int = 1) -> Budget:
        spent.append(Budget(times * left))
        return spent[-1]

    return new_budget


def _with_older_namesakes(report: Report, name: str, source: Any) -> Report:
    """The report, with a remark if the file defines the name more than once: only the last definition was checked."""
    if isinstance(source, Source) and source.tree is not None:
        lines = [node.lineno for node in source.tree.body if getattr(node, "name", "") == name]
        if len(lines) > 1:
            text = _("{name} is defined {n} times: the last definition replaces the others, and only that was checked")
            report.remarks.append(Remark("twice", Message(text, name=name, n=len(lines)), lines[-1]))
    return report


def _anew(target: Any, name: str, source: Any, asked: Asked, budget: Budget) -> Report:
    """The report on the same code, loaded anew: a call may have left something in its module."""
    if isinstance(source, Source) and (inspect.isclass(target) or inspect.isroutine(target)):
        with contextlib.suppress(Problem):  # a class within a function can't be had again
            again = source.edited(())
            source, target = again, again.load(name)
    return _diagnose(target, name, "", source=source, asked=asked, budget=budget)


def _again(
    patched: Source, target: Any, name: str, asked: Asked, new_budget: Callable[..., Budget], before: Calls
) -> Report | None:
    """The report on the patched file, loaded anew; None if it can't be run, or stops a call that ended before the patch."""
    budget = new_budget()
    try:
        if inspect.isclass(target) or inspect.isroutine(target):
            mended = patched.load(name)
        else:  # an object keeps its weights and gets the methods of the mended class
            mended = handed_over(target)
            mended.__class__ = patched.load(type(target).__qualname__)
        report = _diagnose(mended, name, "", source=patched, asked=asked, budget=budget)
    except Exception:
        return None
    return None if stops_a_call(before, budget.calls) else report


def _diagnose(
    target: Any, name: str, label: str, *, source: Any, asked: Asked, budget: Budget, whole: bool = True
) -> Report:
    if isinstance(source, Source) and inspect.isroutine(target):
        other = partial(_diagnose, label="", source=source, asked=Asked(), budget=budget, whole=False)
        report = mask_makers.examine(source, name, label, lambda one: other(source.load(one), one))
        if report is not None:
            return report
    told = says(source, name)
    space = surroundings.around(surroundings.space_of(target, source), source)
    if (special := positions.examine(target, name, space, told)) is not None:
        return concluded(special, source, name, label)
    mixer = states.examine(target, name, told, space, asked, source)
    if mixer is not None:
        return concluded(mixer, source, name, label) if isinstance(mixer, Case) else replace(mixer, target=label)
    owner = handed_over(target)
    sizes = sizes_for(owner, asked.heads, asked.args)
    try:
        subject = find_subject(
            owner, name=name, space=space, sizes=sizes, args=asked.args, call=asked.call, source=source
        )
    except CannotRun as problem:
        if surroundings.own_fault(problem, source):
            found = Found("W1", Crashes.evidence[""], {"error": problem.reason}, problem.line)
            tried = {"tried": problem.tried[:6]}
            return Report(label, "wrong", [finding(found, source, name)], adapted=tried)
        return cannot(problem, name, label)
    if asked.heads:
        subject.declared["heads"] = subject.chosen["heads"] = asked.heads
    subject.budget = budget
    strange = owners.discovered(subject)
    case = Case(subject, told, asked, space, source, discovered=list(strange))
    subject.roles |= strange
    if (mixer := state_modules.examine(case, name)) is not None:
        if whole and isinstance(mixer, Case) and isinstance(source, Source):
            part = partial(_diagnose, name=name, label="", source=source, asked=asked, budget=budget, whole=False)
            states.place(mixer, source, name, lambda mended: part(mended).verdict in ("right", "partly"))
        return concluded(mixer, source, name, label) if isinstance(mixer, Case) else replace(mixer, target=label)
    if subject.masks and isinstance(source, Source) and not told.library:
        case.made = makers.masks(source, name)
        case.handed = makers.handed(source, name.split(".")[0], list(subject.roles), subject.masks)
    surroundings.pad_ids(case, source)
    examined(case)
    case = _with_fewer_axes(case)
    if case.apart and not case.founds:
        if (special := positions.alone(target, name, space, told)) is not None:
            return concluded(special, source, name, label)
        text = Message("{name} is no attention: no token's output depends on another token", name=name)
        return Report(label, "unknown", problem=text, adapted={**adapted(case), "kind": "no attention"})
    looks: dict[str, Look] = {"memory": partial(roads.with_memory, examined=examined)}
    if whole:
        part = partial(_diagnose, source=source, asked=Asked(), budget=budget, whole=False)
        looks["flags"] = partial(roads.other_way, target=target, examined=examined)
        looks["parts"] = partial(roads.parts, source=source, diagnose=part)
        looks["exercise"] = partial(exercise.exercise, target=target, source=source, name=name, examined=examined)
        looks["claims"] = partial(withdrawn.withdraw, target=target, examined=examined)
    _looked(case, looks)
    if not case.founds:
        owners.unsettled(case)
    return concluded(case, source, name, label)


def _with_fewer_axes(case: Case) -> Case:
    """The case. Of code without weights that is wrong with an axis of heads and right without one: the case without, or, if
    its file speaks of heads or it is right for one text at a time only, the case with its findings withdrawn.
    """
    if case.subject.layout != "bhnd" or not case.has(*OF_AN_AXIS) or case.asked.call is not None:
        return case
    for layout in ("bnc",) if structure.takes_many(case, case.says.segment) else ("bnc", "nc"):
        twin = copy.copy(case.subject)
        twin.layout = layout
        other = case.other(twin, case.asked)
        other.handed = case.handed
        with contextlib.suppress(UserError, ValueError, TypeError, RuntimeError, IndexError):
            if examined(other).match is None or other.founds:
                continue
            if layout == "bnc" and not re.search(r"head|\bn?h\b", case.says.text, re.IGNORECASE):
                return other
            text = _("{names}: this shows with four axes and not with fewer, so it is not claimed")
            case.miss("axes", text, names=", ".join(mistake.id for mistake in case.founds))
            case.founds.clear()
            return case
    return case


def examined(case: Case) -> Case:
    """Every look at one subject that runs; those that the budget leaves no room for are told."""
    case.fresh = fresh(case.subject)
    _looked(
        case,
        {
            "numbers": _numbers,
            "inputs": partial(run.run_probes, only=("every input counts",)),
            "masks": masking.examine_masks,
            "probes": run.run_probes,
            "wiring": block.examine,
            "cache": cached.examine,
        },
    )
    if case.match is None and not case.founds:
        case.unseen.setdefault("numbers", stages.sentence(case))
    return case


def _looked(case: Case, looks: dict[str, Look]) -> None:
    left = list(looks)
    try:
        for name, look in looks.items():
            look(case)
            left.remove(name)
    except Spent:
        for name in left:
            case.miss(
                name,
                _("{what}: it is too large for that; make it smaller (--args), or in Python pass operations=…"),
                what=Message(LOOKS[name]),
            )


def _numbers(case: Case) -> None:
    subject = case.subject
    structure.lengths(case)
    structure.who_sees_whom(case)
    structure.layout(case)
    comparison.compare(case)
    case.heads = case.match.at.heads if case.match else subject.declared.get("heads") or subject.sizes.heads
    case.called_causal = changes.causal_name(case, subject.name)
    structure.left_out(case)
    comparison.few_keys(case)
    scores.examine(case)
