"""Runs the doctor on a user's code in a process of its own and brings its reports back.

A candidate's report is sent as soon as it is there, and after a death the rest is done by a new process.
"""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..i18n import Message, Problem, _
from ..sandbox.child import START, Child, End
from ..sandbox.child_main import SILENT
from ..sandbox.guard import WALL, stopped
from .numbers.evidence import is_confirmed
from .report import Report
from .source.file import Source, read

SECONDS = 120.0  # of processor time for each name: many times what a check takes
PHASES = {"check": _("running"), "load": _("loading"), "start": _("starting")}
DOCTOR = "qkv.doctor.doctor:check"
NOT_COMPARED = ("positions", "state")  # kinds of code whose numbers the child compares alone
UNCONFIRMED = _(
    "The process that ran it reported no mistake, but the numbers it sent with the report do not confirm that. Either the "
    "file interferes with the check, or its sizes are too large to send; then make it smaller: --args."
)


def examine(
    path: Path | str,
    name: str | list[str] | None = None,
    options: dict[str, Any] | None = None,
    *,
    seconds: float = SECONDS,
    gigabytes: float = 4,
    doctor: str = DOCTOR,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Report]:
    """A report per name, or per thing in the file that looks like attention.

    `seconds` of processor time are a guard for each after torch has been imported, no budget: what it stops could not be
    checked. `gigabytes` is what the process may take beside torch.
    """
    source = read(path)
    names = [name] if isinstance(name, str) else list(name) if name else source.candidates()
    if not names:
        raise Problem(
            "{file} holds nothing that looks like attention (a softmax beside a product of matrices); to check a "
            "class or function anyway, name it: qkv check {file}:NAME",
            file=path,
        )
    for one in names:
        source.node(one)
    request = {"path": str(source.path), "options": options or {}, "doctor": doctor}
    reports: dict[str, Report] = {}
    while left := [one for one in names if one not in reports]:
        with Child("qkv.doctor.examination:examine", {**request, "names": left}, seconds, gigabytes) as child:
            reports |= _heard(child, source, left, progress, gigabytes)
    found = [reports[one] for one in names]
    about = [report for report in found if report.adapted.get("kind") != "no attention"]
    return about if about and not name else found  # who names a thing gets an answer about it


def _heard(
    child: Child, source: Source, names: list[str], progress: Callable[[str], None], gigabytes: float
) -> dict[str, Report]:
    """What it had to say; where it died, the one it died of gets a report that says so."""
    found: dict[str, Report] = {}
    phase, now = "start", names[0]
    for message in child.messages():
        if isinstance(message, End):
            problem = _problem(message, phase, source, child.seconds, gigabytes)
            failed = names if phase == "start" else [now]  # what did not even start would not for the others
            return found | {name: Report(f"{source.path}:{name}", "unknown", problem=problem) for name in failed}
        name = message.get("name")
        if name not in names:
            continue
        if message["event"] in ("begins", "loaded"):
            phase, now = "load" if message["event"] == "begins" else "check", name
            if phase == "load":
                progress(now)
        elif message["event"] == "report" and name == now:
            found[now] = _judge(message, f"{source.path}:{now}")
            left = [one for one in names if one not in found]
            now = left[0] if left else now
        if len(found) == len(names):
            break
    return found


def _judge(message: dict[str, Any], target: str) -> Report:
    """The report that the child sent, with a verdict that the numbers beside it confirm, else "unknown".

    The child runs the user's code, which can reach the doctor there and send a report of its own.
    """
    try:
        report = replace(Report.from_dict(message["report"]), target=target)
        report.to_dict(), str(report)  # a forged one may hold anything
    except Exception:
        return Report(target, "unknown", problem=Message(UNCONFIRMED))
    evidence, kind = message.get("evidence"), report.adapted.get("kind")
    needs_evidence = report.verdict == "right" and kind not in NOT_COMPARED
    if (needs_evidence or (evidence and report.verdict == "partly")) and not is_confirmed(evidence):
        return Report(target, "unknown", remarks=report.remarks, adapted=report.adapted, problem=Message(UNCONFIRMED))
    return report


def _problem(end: End, at_phase: str, source: Source, seconds: float, gigabytes: float) -> Message:
    """What killed the process, or why it had to be killed."""
    phase, at = Message(PHASES[at_phase]), _at(end, source)
    died = -end.code if end.code is not None and end.code < 0 else None
    more = round(seconds * 3)
    if end.code is None:
        waited = START if at_phase == "start" else seconds * WALL
        return Message(
            "It did not finish within {seconds} s while it was {phase}, and was waiting for something.{at}\nIf it "
            "is only slow, make it smaller (--args) or give it longer: --seconds {more}.",
            seconds=f"{waited:g}",
            more=more,
            phase=phase,
            at=at,
        )
    if stopped(end.code):
        return Message(
            "It did not finish within {seconds} s of computing while it was {phase}.{at}\nIf it is only slow, make "
            "it smaller (--args) or give it longer: --seconds {more}.",
            seconds=f"{seconds:g}",
            more=more,
            phase=phase,
            at=at,
        )
    if died == getattr(signal, "SIGKILL", 9) or "MemoryError" in end.trace:
        return Message(
            "It took more than {gigabytes} GB of memory while it was {phase}.{at}\nMake it smaller: --args.",
            gigabytes=f"{gigabytes:g}",
            phase=phase,
            at=at,
        )
    if died is not None:
        names = {s.value: s.name for s in signal.Signals}
        return Message(
            "It crashed the interpreter ({signal}) while it was {phase}.{at}",
            signal=names.get(died, died),
            phase=phase,
            at=at,
        )
    if at_phase == "start":
        return Message(
            "The process that runs your code could not start: {error}",
            error=end.trace.strip().split("\n")[-1] or f"exit code {end.code}",
        )
    if end.code == SILENT:
        return Message("Its process ended without an answer while it was {phase}.", phase=phase)
    return Message(
        "It ended the program by itself (exit code {code}) while it was {phase}. Take sys.exit and os._exit "
        "out of what it runs.",
        code=end.code,
        phase=phase,
    )


def _at(end: End, source: Source) -> Message:
    """The innermost line of the user's file in the last trace."""
    line = end.line(str(source.path))
    if line is None:
        return Message("")
    return Message("\nIt was at {place}:\n  {code}", place=place(source, line), code=source.line(line).strip())


def place(source: Source, line: int) -> Message:
    """A line as `file:line`, or as cell and line of a notebook."""
    cell, within = source.place(line)
    if cell is None:
        return Message("{file}:{line}", file=source.path, line=line)
    return Message("{file} cell {cell}, line {line}", file=source.path, cell=cell, line=within)
