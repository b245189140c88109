"""Why a question came out wrong, in words: a hole left open, a wrong answer known by name, or the first wrong number.

The wrong answers that people give are code too, so the same numbers on every question about a function mean the same mistake.
"""

import ast
import traceback
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..attention.oracle import Array
from ..i18n import Message, _
from .lesson import Answer, Lesson, Question, Wrong, wrong_answer
from .outcome import Changed, Hole, InvalidAnswer, Outcome, ask
from .questions import named


@dataclass(frozen=True)
class Submission:
    """What a person handed in for an exercise: its text and syntax tree, and its names after it ran."""

    name: str  # of the exercise
    lesson: Lesson
    answer: Answer
    text: str
    tree: ast.Module
    file: str


def diagnose(submission: Submission, question: Question, got: Outcome, want: Array) -> tuple[list[Message], str]:
    """Return what is wrong, in sentences, and the id of the wrong answer if it is a known one."""
    asked = Message("Asked: {call}", call=question.shown)
    error, tree = got.error, submission.tree
    if isinstance(error, Hole | NotImplementedError):
        line = last_line(error, submission.file) or _assigned(tree, question.function)
        return [
            Message(
                "line {line}: the hole is still there. Put your code (or your numbers) in its place, for {name}.",
                line=line or "?",
                name=question.function,
            )
        ], "hole"
    if isinstance(error, InvalidAnswer):
        return [asked, Message(error.sentence, **error.values)], error.sentence
    if isinstance(error, Changed):
        return [
            asked,
            Message(
                "your function wrote into {name}, which belongs to its caller: the next one who uses it gets other "
                "numbers. Make a new array (x = x - …, not x -= …).",
                name=str(error),
            ),
        ], "changed"
    if error is None and got.value is None:
        return [
            Message(
                "{call} gave None. The function (line {line}) computes something, perhaps, but doesn't return it.",
                call=question.shown,
                line=_defined(tree, question.function),
            )
        ], "none"
    match = known(submission, question, got)
    if error is not None:
        stop = describe(error, submission.text, submission.file)
        if match:
            return [asked, stop, match.hint, *catalogue(match.mistake)], match.id
        return [asked, stop, *_doctor(submission)], ""
    assert got.value is not None  # it would be "none" above
    if match:
        shows = match.shows or partial(named, match.sentence)
        hint = Message(match.sentence, **shows(got.value, want))
        return [asked, hint, *catalogue(match.mistake)], match.id
    return [asked, *difference(got.value, want, question.tolerance), *_doctor(submission)], ""


def catalogue(mistake: str) -> list[Message]:
    """What the doctor's catalogue says of a mistake: its name, what it does, what to write instead."""
    if not mistake:
        return []
    from ..doctor.mistakes import CATALOGUE

    one = CATALOGUE[mistake]
    words = {"name": Message(one.name), "does": Message(one.does), "fix": Message(one.fix)}
    return [Message("qkv check calls this {id}, {name}. {does} Fix: {fix}", id=mistake, **words)]


def known(submission: Submission, question: Question, got: Outcome) -> Wrong | None:
    """The wrong answer that gives the same on every question about this function; else the first that does on this one."""
    about = [other for other in submission.lesson.questions if other.function == question.function]
    theirs = {id(other): got if other is question else ask(other, submission.answer) for other in about}
    near = None
    telling = got.value is None or (got.value.size >= 4 and bool(np.isfinite(got.value).all()))
    for wrong in submission.lesson.wrongs.get(question.function, ()):
        variant = wrong_answer(submission.name, question.function, wrong)
        alike = [theirs[id(other)].same(ask(other, variant), other.tolerance) for other in about]
        if all(alike):
            return wrong
        # The same complaint about the same shapes, or several finite numbers all the same, are no accident; NaN may be.
        if near is None and telling and alike[about.index(question)]:
            near = wrong
    return near


def difference(got: Array, want: Array, tolerance: float = 1e-5) -> list[Message]:
    """What the numbers show when nobody knows the mistake by name; `tolerance` is the question's own."""
    if got.shape != want.shape:
        says = [Message("your result has the shape {got}; {want} is right.", got=got.shape, want=want.shape)]
        if sorted(got.shape) == sorted(want.shape):
            says.append(Message("The sizes are right, their order isn't."))
        return says
    says = []
    if not np.isfinite(got).all() and np.isfinite(want).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(got))[0])
        return [
            Message("at {at} you have {value}; {want} is right.", value=str(got[at]), at=list(at), want=float(want[at]))
        ]
    wrong = ~np.isclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    # the one furthest off, by the measure that makes it wrong: a large number may be further off than a small one
    off = np.where(wrong, np.nan_to_num(np.abs(got - want) / (1 + np.abs(want)), nan=np.inf), -1.0)
    at = tuple(int(i) for i in np.unravel_index(int(off.argmax()), got.shape))
    says.append(
        Message(
            "at {at} you have {got}; {want} is right. {n} of {total} numbers differ.",
            at=list(at),
            got=float(got[at]),
            want=float(want[at]),
            n=int(wrong.sum()),
            total=got.size,
        )
        if at
        else Message("you have {got}; {want} is right.", got=float(got[at]), want=float(want[at]))
    )
    used = np.abs(want) > 1e-9
    if used.sum() > 1 and np.abs(got[~used]).max(initial=0) < 1e-9:
        ratio = got[used] / want[used]
        if abs(ratio[0]) > 1e-9 and np.allclose(ratio, ratio[0], rtol=tolerance):  # "times 0" would say nothing
            says.append(Message("All your numbers are the right ones times {ratio}.", ratio=float(ratio[0])))
    if want.ndim >= 2 and want.size > 1 and want.shape[-1] == want.shape[-2]:
        if np.allclose(got, want.swapaxes(-1, -2), rtol=tolerance):
            says.append(Message("Your table is the right one transposed."))
    return says


def _doctor(submission: Submission) -> list[Message]:
    """What `qkv check` says about a whole attention, where it is sure that something is wrong."""
    if submission.lesson.doctor is None:
        return []
    try:
        from qkv.doctor import check  # type: ignore[import-not-found,unused-ignore,attr-defined]

        target, options = submission.lesson.doctor(submission.answer)
        report = check(target, **options)
        if report.verdict != "wrong":
            return []
        return [
            said
            for finding in report.findings[:2]
            for said in (
                Message("qkv check finds: {name}. {evidence}", name=finding.name, evidence=finding.evidence),
                *catalogue(finding.id),
            )
        ]
    except Exception:  # an opinion more, never a reason to fail
        return []


def describe(error: BaseException, text: str, file: str, loading: bool = False) -> Message:
    """Return an exception as a sentence, with the person's own line where it came through one."""
    line = last_line(error, file)
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
    return Message(sentence, line=line or 0, shown=line_of(text, line) if line else "", error=first_line(error))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether memory ran out; PyTorch has no error of its own for it."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error)


def last_line(error: BaseException, file: str) -> int | None:
    """Return the last line of the person's file that an exception came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def line_of(text: str, line: int) -> str:
    """That line, without its indent."""
    lines = text.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def first_line(error: BaseException) -> str:
    """Return the kind of an exception and the first line of what it says."""
    told = str(getattr(error, "msg", None) or error).strip().split("\n")[0]
    return f"{type(error).__name__}: {told}"[:300] if told else type(error).__name__


def _defined(tree: ast.Module, name: str) -> int:
    found = (node.lineno for node in tree.body if getattr(node, "name", None) == name)
    return next(found, 1)


def _assigned(tree: ast.Module, name: str) -> int | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) == name for target in node.targets):
            return node.lineno
    return None
