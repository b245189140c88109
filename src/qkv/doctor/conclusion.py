"""From a case to a report: the verdict, and for each mistake its evidence, its line and its patch."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..i18n import Message, _
from ..sandbox.audit import RULES
from . import replay
from .case import Case, Found, looked_at
from .mistakes import CATALOGUE
from .numbers.evidence import Evidence
from .places import locate
from .report import Finding, Remark, Report
from .source.file import Source
from .subject.errors import CannotRun, Spent, raises
from .subject.guess import AGAIN, FIRST, drawing

CANNOT = {
    "build": _("could not build {name}: {reason}. {advice}"),
    "call": _("could not call {name}: {reason} (line {line}). It was given {given}. {advice}"),
    "endless": _("could not call {name}: line {line} calls itself without end"),
    "forward": _("{name} has no forward method: there is nothing to call"),
    "permission": _("could not run {name}: {reason} (line {line}). {rules}"),
    "names": _("--call names an argument that {name} does not have; it has: {reason}"),
}
ADVICE = {
    "build": _('Say what to pass to its constructor: --args "d_model=64, num_heads=8"'),
    "call": _('Say what its arguments are: --call "q=first, mask=second"'),
    "refused": _("Its own line {line} refuses the sizes that were tried. Give sizes that it accepts: --args"),
    "own": _("The error is in the code itself (line {line}), whatever it is given"),
    "shapes": _(
        'If its sizes or arguments were meant otherwise, say so: --args "d_model=64, num_heads=8", --call "q=first, mask=second"'
    ),
    "module": _(
        "{module} is a module of its project that was not found: check it from the project's main folder, or set PYTHONPATH"
    ),
}


def concluded(case: Case, source: Any, name: str, label: str) -> Report:
    """What a person reads about a case. What is only suspected is listed under "not checked"."""
    findings = [finding(found, source, name, case) for found in case.founds if found.certain] + case.inner
    unseen = [Remark(what, missed) for what, missed in case.unseen.items()]
    unseen += [
        Remark(
            found.id,
            Message(
                _("{id} ({name}) is suspected, and not proved: {evidence}"),
                id=found.id,
                name=CATALOGUE[found.id].name,
                evidence=Message(found.sentence, **found.values),
            ),
        )
        for found in case.founds
        if not found.certain
    ]
    verdict = "wrong" if findings else "partly" if unseen else "right"
    evidence = None if findings else _evidence(case)
    return Report(label, verdict, findings, case.remarks, adapted(case), unseen=unseen, evidence=evidence)


def _evidence(case: Case) -> Evidence | None:
    """The numbers in which the user's code equals attention, if they were compared."""
    match, watched = case.match, case.watched
    if match is None or watched is None:
        return None
    guess, context = match.guess, watched.contexts[match.context]
    return Evidence(guess.q, guess.k, guess.v, match.variant.form, context, case.subject.dtype)


def confirmed(report: Report, diagnose: Callable[[], Report]) -> Report:
    """Keep the findings that a second diagnosis has too, with other sizes and another seed; list the others as not checked."""
    claimed, seen, ran = {finding.id for finding in report.findings}, set[str](), False
    for draw in AGAIN:
        if claimed <= seen or (ran and draw.sizes == FIRST.sizes):
            break
        with drawing(draw):
            other = diagnose()
        ran = ran or other.verdict != "unknown"
        seen |= {finding.id for finding in other.findings}
    kept = [finding for finding in report.findings if finding.id in seen]
    unseen = report.unseen + [
        Remark(
            finding.id,
            Message(
                _("{id} ({name}): it showed with one set of sizes and not with another, so it is not claimed"),
                id=finding.id,
                name=finding.name,
            ),
            finding.line,
            finding.cell,
        )
        for finding in report.findings
        if finding.id not in seen
    ]
    return replace(report, findings=kept, unseen=unseen, verdict="wrong" if kept else "partly")


def finding(found: Found, source: Any, name: str, case: Case | None = None) -> Finding:
    """A mistake with its place: as a traceback or the numbers have it, as the code reads, as running it again proves."""
    place = found.place
    if source is not None and place is None:
        place = locate(found.id, source, name, *((case.unused, case.says.mask_words) if case is not None else ()))
    line = found.line or (place.line if place else None)
    if case is not None and isinstance(source, Source) and found.line is None and not (place and place.diff):
        with contextlib.suppress(Spent):  # the line stays the one that reading gives
            line = replay.line_of(case, found.id, str(source.path)) or line
    diff: Any = place.diff if place and place.line == line else ""
    cell, shown, code = None, line, ""
    if line is not None and hasattr(source, "place"):
        cell, shown = source.place(line)
        code = source.line(line).strip()
    evidence = Message(found.sentence, **found.values)
    return Finding(found.id, evidence, shown, cell, diff, code, getattr(diff, "edits", ()))


def adapted(case: Case) -> dict[str, Any]:
    """How it was built and called, for the last line of a report and for --json."""
    subject, match = case.subject, case.match
    called = [p for p, r in subject.roles.items() if r in ("x", "q", "k", "v", "memory") or p in subject.fixed]
    adapted = {
        "kind": case.kind,
        "called": f"{subject.name}({case.called or ', '.join(called)})",
        "built": subject.built,
        "heads": match.at.heads if match else None,
        "compared": f"{match.error:.1e}" if match else None,
        "mask": case.mask_format,
        "layout": subject.layout,
        "precision": subject.dtype,
        "checked": {name: looked_at(name) for name in case.checked},
        "skipped": case.skipped,
    }
    return {key: value for key, value in adapted.items() if value not in (None, "")}


def cannot(problem: CannotRun, name: str, label: str) -> Report:
    """It could not be run: why, and what to do."""
    values = {"name": name, "reason": problem.reason or "?", "line": problem.line or "?", "given": problem.given or "?"}
    stage = problem.stage
    if isinstance(problem.error, PermissionError) and "QKV_CHECK_PROCESS" in os.environ:
        stage = "permission"
    text = Message(CANNOT[stage], advice=_advice(problem), rules=Message(RULES), **values)
    return Report(label, "unknown", problem=text, adapted={"tried": problem.tried[:6]})


def _advice(problem: CannotRun) -> Message:
    """What to do, by what stopped it."""
    error, line = problem.error, problem.line
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Message(ADVICE["module"], module=error.name)
    if line is not None and (isinstance(error, AssertionError) or (isinstance(error, ValueError) and raises(error))):
        return Message(ADVICE["refused"], line=line)
    if line is not None and isinstance(error, NameError):
        return Message(ADVICE["own"], line=line)
    if problem.stage == "build":
        return Message(ADVICE["build"])
    missing = isinstance(error, TypeError) and "argument" in str(error)
    return Message(ADVICE["call" if missing else "shapes"])
