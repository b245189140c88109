"""Other ways to run the same code: with a memory, with a flag the other way, and the parts that it is made of."""

import ast
import contextlib
import copy
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from ...i18n import _
from ..case import Case
from ..report import Report
from ..source.file import Source
from ..subject.adapt import input_widths
from ..subject.errors import CannotRun, UserError
from ..subject.search import find_subject
from ..subject.values import parameters_of

Look = Callable[[Case], Case]


def with_memory(case: Case, examined: Look) -> None:
    """Attention that may also take a memory is examined with one too."""
    subject = case.subject
    optional = [p for p, r in subject.roles.items() if r == "memory?" and p != case.cache]
    for parameter in case.says.unused_arguments:  # said to be vectors, and never read
        shaped = rf"{re.escape(parameter)}\W{{0,3}}[\[(]\s*\w+\s*,\s*\w+\s*,\s*\w+\s*[\])]"
        if subject.roles.get(parameter) == "" and re.search(shaped, case.says.docstring):
            case.add("C1", parameter=parameter)
    if not optional or case.founds:
        return
    case.memory = optional[0]
    refused = False  # by a line of its own: built without the part that would listen to it
    for width, widths in input_widths(subject.owner, subject.sizes, {optional[0]: "memory"}, subject.chosen):
        crossing = copy.copy(subject)
        crossing.roles = {**subject.roles, optional[0]: "memory"}
        crossing.width, crossing.widths = width, widths
        try:
            crossing(crossing.draw(n=crossing.sizes.queries, m=crossing.sizes.keys))
        except UserError as error:
            refused = refused or isinstance(error.error, ValueError | NotImplementedError | AssertionError)
            continue
        other = examined(case.other(crossing))
        if other.has("C1") and optional[0] not in case.says.unused_arguments and not _crosses_by_name(case):
            return  # built without the part that would listen to it
        for found in other.founds:
            if found.id not in ("P1", "T6", "M14", "C3", "M3"):
                case.add(found.id, sentence=found.sentence, line=found.line, certain=found.certain, **found.values)
        for what, missed in other.unseen.items():
            if what == "cache":
                continue  # looked at without a memory already
            case.miss(f"memory: {what}", _("with a memory given: {what}"), what=missed)
        case.formats = {**other.formats, **case.formats}
        case.checked.append("with a memory")
        return
    if not refused:
        case.miss(
            "memory", _("attention to {parameter}: no {parameter} was found that it takes"), parameter=optional[0]
        )


def _crosses_by_name(case: Case) -> bool:
    return bool(re.search(r"cross|enc_?dec|encoder_?decoder", case.subject.name, re.I))


CAUSAL = re.compile(
    r"(is_|use_)?(causal|autoregress\w*|masked|mask_future|unidirectional)(_mask|_attn|_attention)?", re.I
)


def other_way(case: Case, target: Any, examined: Look) -> None:
    """A constructor's flag that is off by default is switched on: then a token must not see what comes after it."""
    if not inspect.isclass(target) or case.asked.args is not None or case.founds:
        return
    flags = [p.name for p in parameters_of(target) if p.default is False and CAUSAL.fullmatch(p.name)]
    for flag in flags[:1]:
        with contextlib.suppress(CannotRun):
            subject = find_subject(
                target, name=case.subject.name, space=case.space, sizes=case.subject.sizes, args={flag: True}, call=None
            )
            subject.budget = case.subject.budget
            other = examined(case.other(subject, replace(case.asked, causal=True)))
            for found in other.founds:
                if found.id[0] in "MX":
                    case.add(found.id, sentence=found.sentence, line=found.line, certain=found.certain, **found.values)
            case.checked.append(f"with {flag}=True")


# What a part alone can't be blamed for: the whole around it projects, hands over masks, says which axis is which.
OF_THE_WHOLE = {"P3", "P4", "M14", "C1", "C3", "H9", "M20", "R3", "W1", "C5", "T6"}


def parts(case: Case, source: Any, diagnose: Callable[[Any, str, str], Report]) -> None:
    """A whole is not right while a part of it is wrong: the classes of the same file that it is built of, one by one."""
    owner = case.subject.owner
    if not isinstance(owner, nn.Module) or not isinstance(source, Source) or case.founds or case.says.library:
        return
    mine = {type(part).__name__: type(part) for part in owner.modules() if type(part) is not type(owner)}
    for name, part in mine.items():
        if not isinstance(source.definitions.get(name), ast.ClassDef) or part.forward is nn.Module.forward:
            continue
        report = diagnose(part, name, name)
        case.inner += [one for one in report.findings if one.id not in OF_THE_WHOLE]
        if case.inner:
            return
