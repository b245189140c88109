"""An answer → right, or what is wrong with it, in words.

Every question is asked of the answer and compared with the reference in float64; the first that comes out wrong is
explained (diagnosis.py).
"""

import ast
import contextlib
import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

import numpy as np

from ..i18n import Message, unpacked
from .diagnosis import Submission, describe, diagnose, first_line, is_out_of_memory, line_of
from .lesson import load
from .outcome import PrintedText, ask, is_close, reference

GradeVerdict = Literal["right", "wrong", "unknown"]


@dataclass
class Grade:
    """The result of grading; its verdict is "unknown" where the answer could not be run."""

    verdict: GradeVerdict
    says: list[Message] = field(default_factory=list)
    wrong: str = ""  # the id of the wrong answer it is
    passed: int = 0
    total: int = 0
    printed: str = ""  # by the person's code, in the question that this is about
    lines: int = 0  # how many lines of it there were; too many aren't kept
    step: str = ""  # the function, class or number that is wrong

    @property
    def exit_code(self) -> int:
        """As the command line gives it."""
        return {"right": 0, "wrong": 1}.get(self.verdict, 2)

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**vars(self), "says": [sentence.packed() for sentence in self.says]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Grade":
        """Back from `to_dict`."""
        return cls(**{**plain, "says": [unpacked(sentence) for sentence in plain["says"]]})


def grade(name: str, text: str, file: str) -> Grade:
    """Grade the text of an answer; `file` is what it is called. Runs it in this process."""
    lesson = load(name)
    total = len(lesson.questions)
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        said = Message(
            "line {line} is no Python yet ({error}):\n    {shown}",
            line=line,
            shown=line_of(text, line),
            error=first_line(error),
        )
        return Grade("unknown", [said], total=total)
    printed = PrintedText()
    try:
        with contextlib.redirect_stdout(printed):
            answer = execute(text, file)
    except (Exception, SystemExit) as error:
        return _with(printed, Grade("unknown", [describe(error, text, file, loading=True)], total=total))
    for function in dict.fromkeys(question.function for question in lesson.questions):
        if not hasattr(answer, function):
            said = Message(
                "there is no {name} in the file any more. Keep the names; qkv learn reset {lesson} brings the "
                "exercise back (and keeps your file).",
                name=function,
                lesson=name,
            )
            return Grade("unknown", [said], total=total)
    return _with(printed, grade_questions(Submission(name, lesson, answer, text, tree, file)))


def _with(printed: PrintedText, made: Grade) -> Grade:
    """Return the grade, with what was printed while the file was loaded before what was printed later."""
    made.printed, made.lines = printed.text + made.printed, printed.lines + made.lines
    return made


def execute(text: str, file: str) -> ModuleType:
    """Run a file as a module of its own; its lines are known to tracebacks."""
    module = ModuleType("answer")
    module.__file__ = file
    sys.modules["answer"] = module  # dataclasses and typing look their module up
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module


def grade_questions(submission: Submission) -> Grade:
    """Ask the questions one after the other, up to the first that comes out wrong."""
    lesson, worst = submission.lesson, 0.0
    total = len(lesson.questions)
    notes: list[Message] = []
    first = PrintedText()  # of an answer that is right, only what the first question made it print is shown
    for passed, question in enumerate(lesson.questions):
        printed = first if passed == 0 else PrintedText()
        outcome = ask(question, submission.answer, printed)
        want = reference(question)
        if outcome.value is not None and is_close(outcome.value, want, question.tolerance):
            worst = max(worst, float(np.max(np.abs(outcome.value - want), initial=0.0)))
            notes += [] if outcome.note is None else [outcome.note]
            continue
        says, wrong = diagnose(submission, question, outcome, want)
        could_not_run = isinstance(outcome.error, SystemExit | PermissionError) or is_out_of_memory(outcome.error)
        verdict: GradeVerdict = "unknown" if could_not_run else "wrong"
        return _with(printed, Grade(verdict, says, wrong, passed, total, step=question.function))
    says = [
        Message("All {n} questions; the largest difference from the reference is {worst}.", n=total, worst=worst),
        *notes,
        lesson.after,
    ]
    return _with(first, Grade("right", says, "", total, total))
