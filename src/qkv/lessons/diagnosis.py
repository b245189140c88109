"""Explain why a question came out wrong: an unfilled hole, a known wrong answer, or the first wrong number.

Known wrong answers are code, so an answer that gives the same numbers on every question about a function has that mistake.
"""

import ast
import traceback
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..attention.oracle import Array
from ..i18n import Message, _
from .lesson import Answer, Lesson, Question, build_wrong_answer
from .outcome import InvalidAnswer, ModifiedArgument, Outcome, UnfilledHole, run_question
from .questions import hint_values


@dataclass(frozen=True)
class Submission:
    """A learner's file for an exercise: its text, its syntax tree, and its names after it ran."""

    name: str  # of the exercise
    lesson: Lesson
    answer: Answer
    text: str
    tree: ast.Module
    file: str


def diagnose(
    submission: Submission, question: Question, outcome: Outcome, expected: Array
) -> tuple[list[Message], str]:
    """Return the explanation, and its cause: the id of a known wrong answer, "hole", "changed", "none" or ""."""
    call = Message("Asked: {call}", call=question.description)
    function, error, tree = question.function, outcome.error, submission.tree
    if isinstance(error, UnfilledHole | NotImplementedError):
        line = last_line_number(error, submission.file) or _assignment_line(tree, function) or "?"
        sentence = _("line {line}: the hole is still there. Put your code (or your numbers) in its place, for {name}.")
        return [Message(sentence, line=line, name=function)], "hole"
    if isinstance(error, InvalidAnswer):
        return [call, Message(error.sentence, **error.values)], error.sentence
    if isinstance(error, ModifiedArgument):
        sentence = _(
            "your function wrote into {name}, which belongs to its caller: the caller's next use of it gets other "
            "numbers. Make a new array (x = x - …, not x -= …)."
        )
        return [call, Message(sentence, name=str(error))], "changed"
    if error is None and outcome.value is None:
        sentence = _("{call} gave None. The function (line {line}) may compute a result, but doesn't return it.")
        return [Message(sentence, call=question.description, line=_definition_line(tree, function))], "none"
    cause = match_wrong_answer(submission, question, outcome)
    if not cause:
        difference = (
            [describe_error(error, submission.text, submission.file)]
            if outcome.value is None
            else describe_difference(outcome.value, expected, question.tolerance)
        )
        return [call, *difference, *_doctor_findings(submission)], ""
    wrong = submission.lesson.wrong_answers[function][cause]
    catalogue = catalogue_entry(wrong.mistake)
    if outcome.value is None:
        stop = describe_error(error, submission.text, submission.file)
        return [call, stop, Message(wrong.sentence), *catalogue], cause
    values = wrong.values or partial(hint_values, wrong.sentence)
    return [call, Message(wrong.sentence, **values(outcome.value, expected)), *catalogue], cause


def catalogue_entry(mistake: str) -> list[Message]:
    """Return the name, effect and fix of a mistake from the doctor's catalogue; nothing for ""."""
    if not mistake:
        return []
    from ..doctor.mistakes import CATALOGUE

    entry = CATALOGUE[mistake]
    words = {"name": Message(entry.name), "does": Message(entry.does), "fix": Message(entry.fix)}
    return [Message("qkv check calls this {id}, {name}. {does} Fix: {fix}", id=mistake, **words)]


def match_wrong_answer(submission: Submission, question: Question, outcome: Outcome) -> str:
    """Return the id of the wrong answer with the same outcomes on all questions about the function, or "".

    If there is none, return the first with the same outcome on this question, where that can't be a coincidence.
    """
    questions = [other for other in submission.lesson.questions if other.function == question.function]
    outcomes = [outcome if other is question else run_question(other, submission.answer) for other in questions]
    # Equal errors for equal shapes, or several equal finite numbers, are no coincidence; equal NaNs may be.
    is_distinctive = outcome.value is None or (outcome.value.size >= 4 and bool(np.isfinite(outcome.value).all()))
    partial_match = ""
    for cause, wrong in submission.lesson.wrong_answers.get(question.function, {}).items():
        variant = build_wrong_answer(submission.name, question.function, wrong)
        matches = [
            mine.matches(run_question(other, variant), other.tolerance)
            for other, mine in zip(questions, outcomes, strict=True)
        ]
        if all(matches):
            return cause
        if not partial_match and is_distinctive and matches[questions.index(question)]:
            partial_match = cause
    return partial_match


def describe_difference(actual: Array, expected: Array, tolerance: float = 1e-5) -> list[Message]:
    """Return sentences about the first difference between two arrays, and patterns such as a common factor."""
    if actual.shape != expected.shape:
        sentence = _("your result has the shape {got}; {want} is right.")
        messages = [Message(sentence, got=actual.shape, want=expected.shape)]
        if sorted(actual.shape) == sorted(expected.shape):
            messages.append(Message("The sizes are right, their order isn't."))
        return messages
    if not np.isfinite(actual).all() and np.isfinite(expected).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(actual))[0])
        sentence = _("at {at} you have {value}; {want} is right.")
        return [Message(sentence, value=str(actual[at]), at=list(at), want=float(expected[at]))]
    wrong = ~np.isclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    # The largest error relative to 1 + |expected|, which is what the tolerance is relative to.
    errors = np.where(wrong, np.nan_to_num(np.abs(actual - expected) / (1 + np.abs(expected)), nan=np.inf), -1.0)
    at = tuple(int(i) for i in np.unravel_index(int(errors.argmax()), actual.shape))
    sentence = (
        _("at {at} you have {got}; {want} is right. {n} of {total} numbers differ.")
        if at
        else _("you have {got}; {want} is right.")
    )
    numbers = {"got": float(actual[at]), "want": float(expected[at]), "n": int(wrong.sum()), "total": actual.size}
    messages = [Message(sentence, at=list(at), **numbers)]
    nonzero = np.abs(expected) > 1e-9
    if nonzero.sum() > 1 and np.abs(actual[~nonzero]).max(initial=0) < 1e-9:
        ratio = actual[nonzero] / expected[nonzero]
        if abs(ratio[0]) > 1e-9 and np.allclose(ratio, ratio[0], rtol=tolerance):  # "times 0" would not help
            messages.append(Message("All your numbers are the right ones times {ratio}.", ratio=float(ratio[0])))
    if expected.ndim >= 2 and expected.size > 1 and expected.shape[-1] == expected.shape[-2]:
        if np.allclose(actual, expected.swapaxes(-1, -2), rtol=tolerance):
            messages.append(Message("Your table is the right one transposed."))
    return messages


def _doctor_findings(submission: Submission) -> list[Message]:
    """Return the first two findings of `qkv check` on a whole attention, if its verdict is "wrong"."""
    if submission.lesson.doctor_target is None:
        return []
    try:
        from qkv.doctor import check  # type: ignore[import-not-found,unused-ignore,attr-defined]

        target, options = submission.lesson.doctor_target(submission.answer)
        report = check(target, **options)
        findings = report.findings[:2] if report.verdict == "wrong" else []
        sentence = _("qkv check finds: {name}. {evidence}")
        return [
            message
            for finding in findings
            for message in (
                Message(sentence, name=finding.name, evidence=finding.evidence),
                *catalogue_entry(finding.id),
            )
        ]
    except Exception:  # a second opinion; grading does not depend on it
        return []


def describe_error(error: BaseException | None, text: str, file: str, loading: bool = False) -> Message:
    """Return an exception as a sentence, with the line of the learner's file that raised it."""
    line = last_line_number(error, file)
    if isinstance(error, SystemExit):
        sentence = (
            _("line {line} ends the program (sys.exit). Return the result instead:\n    {shown}")
            if line
            else _("the program ended itself (sys.exit)")
        )
    elif is_out_of_memory(error):
        sentence = (
            _("line {line} asked for more memory than the 2 GB there are for an exercise:\n    {shown}")
            if line
            else _("it asked for more memory than the 2 GB there are for an exercise")
        )
    elif isinstance(error, RecursionError):
        sentence = (
            _("line {line} calls itself without end:\n    {shown}")
            if line
            else _("a function calls itself without end")
        )
    elif loading:
        sentence = (
            _("the file could not be run: line {line} stopped with {error}:\n    {shown}")
            if line
            else _("the file could not be run: {error}")
        )
    else:
        sentence = _("line {line} stopped with {error}:\n    {shown}") if line else _("it stopped with {error}")
    return Message(sentence, line=line or 0, shown=line_text(text, line) if line else "", error=error_summary(error))


def is_out_of_memory(error: BaseException | None) -> bool:
    """True if memory ran out. PyTorch raises a RuntimeError for that."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error)


def last_line_number(error: BaseException | None, file: str) -> int | None:
    """Return the last line of a file in the traceback of an exception."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return lines[-1] if lines else None


def line_text(text: str, line: int) -> str:
    """Return a line of a text, stripped; "" if there is none."""
    lines = text.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def error_summary(error: BaseException | None) -> str:
    """Return the type of an exception and the first line of its message."""
    message = str(getattr(error, "msg", None) or error).strip().split("\n")[0]
    return f"{type(error).__name__}: {message}"[:300] if message else type(error).__name__


def _definition_line(tree: ast.Module, name: str) -> int:
    return next((node.lineno for node in tree.body if getattr(node, "name", None) == name), 1)


def _assignment_line(tree: ast.Module, name: str) -> int | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) == name for target in node.targets):
            return node.lineno
    return None
