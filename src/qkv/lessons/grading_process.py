"""Grade in a separate process, so that endless loops, memory use and crashes of the learner's code do no harm."""

from pathlib import Path
from typing import Any

from ..i18n import Message
from ..sandbox.audit import AuditHook
from ..sandbox.child import Child, End
from ..sandbox.child_main import Send, limit_resources
from ..sandbox.guard import limit
from .diagnosis import line_text
from .grade import Grade, grade
from .lesson import filename, load

GIGABYTES = 2  # in addition to what Python and the libraries need


def run(name: str, path: Path, seconds: float | None = None) -> Grade:
    """Grade a file in a child process; `seconds` limits the CPU time of the learner's code, without imports."""
    request = {"name": name, "path": str(path)}
    with Child("qkv.lessons.grading_process:grade_file", request, seconds or load(name).seconds, GIGABYTES) as child:
        for message in child.messages():
            if isinstance(message, End):
                return _without_result(message, path, filename(name))
            if message["event"] == "grade":
                return Grade.from_dict(message["grade"])
    raise AssertionError("the last message of a child is its End")


def grade_file(request: dict[str, Any], send: Send) -> None:
    """Grade in the child process: import first, then set the limits, then run the learner's code."""
    name = request["name"]
    if load(name).doctor_target is not None:
        import qkv.doctor.doctor  # noqa: F401  before the time limit starts
    limit_resources(request["gigabytes"])
    send("begins")
    limit(request["seconds"], request["traces"])
    text = Path(request["path"]).read_text(encoding="utf-8-sig", errors="replace")
    with AuditHook(request["scratch"], has_kernel=request["confined"]):
        graded = grade(name, text, filename(name))
    send("grade", grade=graded.to_dict())


def _without_result(end: End, path: Path, file: str) -> Grade:
    """Return the grade of a process that ended without a result: too slow, or killed."""
    if not end.late:
        message = Message("the process that ran your code ended without an answer (exit code {code})", code=end.code)
    elif (line := end.line(file)) is not None:
        message = Message(
            "your code was still at line {line} when the time was up. A loop without end?\n    {shown}",
            line=line,
            shown=line_text(path.read_text(encoding="utf-8", errors="replace"), line),
        )
    else:
        message = Message("your code wasn't done when the time was up. A loop without end?")
    return Grade("unknown", [message])
