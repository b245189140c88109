"""Grading in a process of its own, the same as the doctor's (sandbox/child.py).

A person's code may run for ever, eat the memory or end the process; here it harms nobody.
"""

from pathlib import Path
from typing import Any

from ..i18n import Message
from ..sandbox.audit import AuditHook
from ..sandbox.child import Child, End
from ..sandbox.child_main import Send, limit_resources
from ..sandbox.guard import limit
from .diagnosis import line_of
from .grade import Grade, grade
from .lesson import filename, load

GIGABYTES = 2  # on top of what Python and the libraries take


def run(name: str, path: Path, seconds: float | None = None) -> Grade:
    """Grade that file elsewhere and wait for it; `seconds` of computing are for the person's code, not for imports."""
    request = {"name": name, "path": str(path)}
    with Child("qkv.lessons.grading_process:answer", request, seconds or load(name).seconds, GIGABYTES) as child:
        for message in child.messages():
            if isinstance(message, End):
                return _without_result(message, path, filename(name))
            if message["event"] == "grade":
                return Grade.from_dict(message["grade"])
    raise AssertionError("the last of a process's messages is how it ended")


def answer(request: dict[str, Any], send: Send) -> None:
    """The task there: import first, then limits, then the person's code."""
    name = request["name"]
    if load(name).doctor is not None:
        import qkv.doctor.doctor  # noqa: F401  not to be counted as the person's time
    limit_resources(request["gigabytes"])
    send("begins")
    limit(request["seconds"], request["traces"])
    text = Path(request["path"]).read_text(encoding="utf-8-sig", errors="replace")
    with AuditHook(request["scratch"], has_kernel=request["confined"]):
        graded = grade(name, text, filename(name))
    send("grade", grade=graded.to_dict())


def _without_result(end: End, path: Path, called: str) -> Grade:
    """The process ended before it had an answer: too slow, or killed."""
    if not end.late:
        said = Message("the process that ran your code ended without an answer (exit code {code})", code=end.code)
    elif (line := end.line(called)) is not None:
        shown = line_of(path.read_text(encoding="utf-8", errors="replace"), line)
        said = Message(
            "your code was still at line {line} when the time was up. A loop without end?\n    {shown}",
            line=line,
            shown=shown,
        )
    else:
        said = Message("your code wasn't done when the time was up. A loop without end?")
    return Grade("unknown", [said])
