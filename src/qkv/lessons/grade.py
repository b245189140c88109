"""Grade an answer: run every question, compare with the reference in float64 and explain the first wrong result."""

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
from .diagnosis import Submission, describe_error, diagnose, error_summary, is_out_of_memory, line_text
from .lesson import load
from .outcome import PrintedText, expected_array, is_close, run_question

GradeVerdict = Literal["right", "wrong", "unknown"]


@dataclass
class Grade:
    """The result of grading; its verdict is "unknown" if the answer could not be run."""

    verdict: GradeVerdict
    messages: list[Message] = field(default_factory=list)
    cause: str = ""  # of a wrong verdict, as `diagnose` returns it
    passed: int = 0
    total: int = 0
    printed: str = ""  # by the learner's code in the graded question, at most about 2,000 characters
    lines: int = 0  # printed in all
    step: str = ""  # the wrong function, class or number

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return {"right": 0, "wrong": 1}.get(self.verdict, 2)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {**vars(self), "messages": [message.packed() for message in self.messages]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Grade":
        """Return the grade that `to_dict` packed."""
        return cls(**{**plain, "messages": [unpacked(message) for message in plain["messages"]]})


def grade(name: str, text: str, file: str) -> Grade:
    """Grade an answer in this process, from its text and file name."""
    lesson = load(name)
    total = len(lesson.questions)
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        message = Message(
            "line {line} is not valid Python yet ({error}):\n    {shown}",
            line=line,
            shown=line_text(text, line),
            error=error_summary(error),
        )
        return Grade("unknown", [message], total=total)
    printed = PrintedText()
    try:
        with contextlib.redirect_stdout(printed):
            answer = execute(text, file)
    except (Exception, SystemExit) as error:
        return _add_output(Grade("unknown", [describe_error(error, text, file, loading=True)], total=total), printed)
    for function in dict.fromkeys(question.function for question in lesson.questions):
        if not hasattr(answer, function):
            message = Message(
                "there is no {name} in the file any more. Keep the names; qkv learn reset {lesson} brings the "
                "exercise back (and keeps your file).",
                name=function,
                lesson=name,
            )
            return Grade("unknown", [message], total=total)
    return _add_output(grade_questions(Submission(name, lesson, answer, text, tree, file)), printed)


def _add_output(graded: Grade, earlier: PrintedText) -> Grade:
    """Return the grade with earlier output added in front of its own."""
    graded.printed, graded.lines = earlier.text + graded.printed, earlier.lines + graded.lines
    return graded


def execute(text: str, file: str) -> ModuleType:
    """Run a file as a module named "answer"; tracebacks show its lines."""
    module = ModuleType("answer")
    module.__file__ = file
    sys.modules["answer"] = module  # dataclasses and typing look their module up
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module


def grade_questions(submission: Submission) -> Grade:
    """Run the questions in order, up to the first wrong result."""
    lesson, worst = submission.lesson, 0.0
    total = len(lesson.questions)
    notes: list[Message] = []
    first_output = PrintedText()  # the only output that a right answer shows
    for passed, question in enumerate(lesson.questions):
        printed = first_output if passed == 0 else PrintedText()
        outcome = run_question(question, submission.answer, printed)
        expected = expected_array(question)
        if outcome.value is not None and is_close(outcome.value, expected, question.tolerance):
            worst = max(worst, float(np.max(np.abs(outcome.value - expected), initial=0.0)))
            notes += [] if outcome.note is None else [outcome.note]
            continue
        messages, cause = diagnose(submission, question, outcome, expected)
        could_not_run = isinstance(outcome.error, SystemExit | PermissionError) or is_out_of_memory(outcome.error)
        verdict: GradeVerdict = "unknown" if could_not_run else "wrong"
        return _add_output(Grade(verdict, messages, cause, passed, total, step=question.function), printed)
    summary = Message("All {n} questions; the largest difference from the reference is {worst}.", n=total, worst=worst)
    return _add_output(Grade("right", [summary, *notes, Message(lesson.takeaway)], "", total, total), first_output)
