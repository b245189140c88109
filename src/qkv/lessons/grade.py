"""An answer → right, or what is wrong with it, in words.

Every question is asked of the answer and compared with the reference in float64. The first that comes out wrong is
looked for among the wrong answers people give: each of those is code too, so the same numbers on every question about that
function mean the same mistake. What matches none is told by its first wrong number.
"""

import ast
import contextlib
import io
import linecache
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..i18n import Message, Spoken, _, unpacked
from .lesson import Lesson, Question, Wrong, load, solution


@dataclass
class Grade:
    """What came of it. `verdict`: "right", "wrong", or "unknown" where it could not be run."""

    verdict: str
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "says": [sentence.packed() for sentence in self.says]}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Grade":
        """Back from `to_dict`."""
        return cls(**{**plain, "says": [unpacked(sentence) for sentence in plain["says"]]})


class Hole(Exception):
    """A number that wasn't filled in."""


class Told(Spoken):
    """Something wrong that is known by its sentence."""

    def __repr__(self) -> str:
        return f"Told({self.sentence!r})"  # the same complaint, whatever its numbers


class Changed(Exception):
    """An answer wrote into what it was given."""


class Noted(NamedTuple):
    """What a question may give instead of numbers alone: with what it has to tell about an answer that is right."""

    value: Any
    note: Message


@dataclass(frozen=True)
class Outcome:
    """What a question got: an array, or an error."""

    value: Any = None  # float64 array; None where there is none
    error: BaseException | None = None
    note: Message | None = None

    def same(self, other: "Outcome", tolerance: float) -> bool:
        """The same numbers in the same shape, or the same complaint."""
        if self.error is not None or other.error is not None:
            return repr(self.error) == repr(other.error)
        if self.value is None or other.value is None:
            return self.value is other.value
        return close(self.value, other.value, tolerance)


def close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Equal up to rounding, shapes too; NaN equals NaN."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


class Heard(io.TextIOBase):
    """What is printed, its beginning: a print without end must not fill the memory."""

    most = 2000  # characters

    def __init__(self) -> None:
        self.text, self.lines = "", 0

    def write(self, text: str) -> int:
        """As files do."""
        self.text += text[: max(self.most + 1 - len(self.text), 0)]
        self.lines += text.count("\n")
        return len(text)

    def writable(self) -> bool:
        """As files do."""
        return True


def ask(question: Question, answer: Any, heard: Heard | None = None) -> Outcome:
    """Put one question to an answer; what it prints meanwhile is kept from the screen."""
    try:
        with np.errstate(all="ignore"), contextlib.redirect_stdout(heard or Heard()):
            given = question.ask(answer)
    except (Exception, SystemExit) as error:
        return Outcome(error=error)
    given, note = given if isinstance(given, Noted) else (given, None)
    try:
        return Outcome(numbers(given), note=note)
    except Hole as error:
        return Outcome(error=error)
    except Exception:
        return Outcome(
            error=Told(
                "it gave a {kind} that isn't a table of numbers: return one array (or tensor).",
                kind=type(given).__name__,
            )
        )


def numbers(value: Any) -> Any:
    """Whatever an answer gave, as float64; a pair or list of different shapes is laid out flat; None stays None."""
    if value is None or value is NotImplemented:
        return None
    if value is ... or (isinstance(value, list | tuple) and any(item is ... for item in value)):
        raise Hole
    if isinstance(value, list | tuple) and any(getattr(item, "ndim", 0) for item in value):
        return np.concatenate([np.ravel(numbers(item)) for item in value])
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value, dtype=np.float64)


def pair(given: Any, what: str) -> Any:
    """An answer that has to be two things, or None; else a sentence that says which two."""
    if given is not None and (not isinstance(given, tuple | list) or len(given) != 2):
        raise Told("it has to return two things: {what}.", what=what)
    return given


def calls(
    function: str,
    right: Callable[..., Any],
    *given: Any,
    shown: str = "",
    tolerance: float = 1e-5,
    names: str = "",
    returns: str = "",
    part: int = 0,
) -> Question:
    """The usual question: call the function with these; `names` are the arguments', for people to read.

    It gets copies, and may not write into them. Of a function that `returns` two things, the question is about one `part`.
    """

    def of(out: Any) -> Any:
        both = pair(out, returns) if returns else None
        return out if both is None else both[part]

    def put(answer: Any) -> Any:
        copies = [_copy(item) for item in given]
        out = of(getattr(answer, function)(*copies))
        for name, before, after in zip(names.split(), given, copies, strict=False):
            if _sized(before) and not np.array_equal(numbers(before), numbers(after), equal_nan=True):
                raise Changed(name)
        return out

    shown = shown or ", ".join(_shown(name, item) for name, item in zip(names.split(), given, strict=True))
    call = f"{function}({shown})" + (f"[{part}]" if returns else "")
    return Question(function, call, put, lambda: of(right(*(_copy(item) for item in given))), tolerance=tolerance)


def _sized(value: Any) -> bool:
    return bool(getattr(value, "ndim", 0))


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy() if _sized(value) else value


def _shown(name: str, value: Any) -> str:
    if not _sized(value):
        return f"{name}={value!r}"
    small = value.size if isinstance(value, np.ndarray) else value.numel()
    if value.ndim == 1 and small <= 4:
        return f"{name}={list(value.tolist())}"
    return f"{name} {tuple(value.shape)}"


def grade(name: str, text: str, file: str) -> Grade:
    """Grade the text of an answer; `file` is what it is called. Runs it in this process."""
    lesson = load(name)
    total = len(lesson.questions)
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        shown = line_of(text, line)
        return Grade(
            "unknown",
            [
                Message(
                    "line {line} is no Python yet ({error}):\n    {shown}",
                    line=line,
                    shown=shown,
                    error=_first_line(error),
                )
            ],
            total=total,
        )
    heard = Heard()
    try:
        with contextlib.redirect_stdout(heard):
            answer = execute(text, file)
    except (Exception, SystemExit) as error:
        return _with(
            heard,
            Grade(
                "unknown",
                [
                    stopped(
                        error,
                        text,
                        file,
                        loading=True,
                    )
                ],
                total=total,
            ),
        )
    for function in dict.fromkeys(question.function for question in lesson.questions):
        if not hasattr(answer, function):
            return Grade(
                "unknown",
                [
                    Message(
                        "there is no {name} in the file any more. Keep the names; qkv learn reset {lesson} brings the "
                        "exercise back (and keeps your file).",
                        name=function,
                        lesson=name,
                    )
                ],
                total=total,
            )
    return _with(heard, _questions(name, lesson, answer, text, tree, file))


def _with(heard: Heard, made: Grade) -> Grade:
    """The grade, with what was printed while the file was loaded before what was printed later."""
    made.printed, made.lines = heard.text + made.printed, heard.lines + made.lines
    return made


def execute(text: str, file: str) -> ModuleType:
    """Run a file as a module of its own; its lines are known to tracebacks."""
    module = ModuleType("answer")
    module.__file__ = file
    sys.modules["answer"] = module  # dataclasses and typing look their module up
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module


def _questions(name: str, lesson: Lesson, answer: Any, text: str, tree: ast.Module, file: str) -> Grade:
    worst = 0.0
    notes: list[Message] = []
    shown = Heard()  # of an answer that is right, what the first question made it print
    for passed, question in enumerate(lesson.questions):
        heard = shown if passed == 0 else Heard()
        outcome = ask(question, answer, heard)
        want = numbers(question.right())
        if outcome.error is None and outcome.value is not None and close(outcome.value, want, question.tolerance):
            worst = max(worst, float(np.max(np.abs(outcome.value - want), initial=0.0)))
            notes += [] if outcome.note is None else [outcome.note]
            continue
        says, wrong = _diagnose(name, lesson, answer, question, outcome, want, text, tree, file)
        could_not_run = isinstance(outcome.error, SystemExit | PermissionError) or _out_of_memory(outcome.error)
        verdict = "unknown" if could_not_run else "wrong"
        return _with(heard, Grade(verdict, says, wrong, passed, len(lesson.questions), step=question.function))
    total = len(lesson.questions)
    says = [
        Message("All {n} questions; the largest difference from the reference is {worst}.", n=total, worst=worst),
        *notes,
        lesson.after,
    ]
    return _with(shown, Grade("right", says, "", total, total))


def _diagnose(
    name: str, lesson: Lesson, answer: Any, question: Question, got: Outcome, want: Any, text: str, tree: Any, file: str
) -> tuple[list[Message], str]:
    """What is wrong, in sentences, and the id of the wrong answer if it is a known one."""
    asked = Message("Asked: {call}", call=question.shown)
    if isinstance(got.error, Hole | NotImplementedError):
        line = place(got.error, file) or _assigned(tree, question.function)
        return [
            Message(
                "line {line}: the hole is still there. Put your code (or your numbers) in its place, for {name}.",
                line=line or "?",
                name=question.function,
            )
        ], "hole"
    if isinstance(got.error, Told):
        return [asked, Message(got.error.sentence, **got.error.values)], got.error.sentence
    if isinstance(got.error, Changed):
        return [
            asked,
            Message(
                "your function wrote into {name}, which belongs to its caller: the next one who uses it gets other "
                "numbers. Make a new array (x = x - …, not x -= …).",
                name=str(got.error),
            ),
        ], "changed"
    if got.error is None and got.value is None:
        return [
            Message(
                "{call} gave None. The function (line {line}) computes something, perhaps, but doesn't return it.",
                call=question.shown,
                line=_defined(tree, question.function),
            )
        ], "none"
    if found := known(name, lesson, answer, question, got):
        if got.error is not None:
            return [
                asked,
                stopped(got.error, text, file),
                found.hint,
                *catalogue(found.mistake),
            ], found.id
        hint = Message(found.hint.sentence, **found.shows(got.value, want))
        return [asked, hint, *catalogue(found.mistake)], found.id
    if got.error is not None:
        return [
            asked,
            stopped(got.error, text, file),
            *_doctor(lesson, answer),
        ], ""
    return [asked, *difference(got.value, want, question.tolerance), *_doctor(lesson, answer)], ""


def catalogue(mistake: str) -> list[Message]:
    """What the doctor's catalogue says of a mistake: its name, what it does, what to write instead."""
    if not mistake:
        return []
    from ..doctor.mistakes import CATALOGUE

    one = CATALOGUE[mistake]
    words = {"name": Message(one.name), "does": Message(one.does), "fix": Message(one.fix)}
    return [Message("qkv check calls this {id}, {name}. {does} Fix: {fix}", id=mistake, **words)]


def known(name: str, lesson: Lesson, answer: Any, question: Question, got: Outcome) -> Wrong | None:
    """The wrong answer that gives the same on every question about this function; else the first that does on this one."""
    about = [other for other in lesson.questions if other.function == question.function]
    theirs = {id(other): got if other is question else ask(other, answer) for other in about}
    solved, near = solution(name), None
    telling = got.error is not None or (got.value.size >= 4 and bool(np.isfinite(got.value).all()))
    for wrong in lesson.wrongs:
        if question.function not in wrong.code:
            continue
        variant = SimpleNamespace(**{**vars(solved), **wrong.code})
        alike = [theirs[id(other)].same(ask(other, variant), other.tolerance) for other in about]
        if all(alike):
            return wrong
        # The same complaint about the same shapes, or several finite numbers all the same, are no accident; NaN may be.
        if near is None and telling and alike[about.index(question)]:
            near = wrong
    return near


def difference(got: np.ndarray, want: np.ndarray, tolerance: float = 1e-5) -> list[Message]:
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


def _doctor(lesson: Lesson, answer: Any) -> list[Message]:
    """What `qkv check` says about a whole attention, where it is sure that something is wrong."""
    if lesson.doctor is None:
        return []
    try:
        from qkv.doctor import check  # type: ignore[import-not-found,unused-ignore,attr-defined]

        target, options = lesson.doctor(answer)
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


def stopped(error: BaseException, text: str, file: str, loading: bool = False) -> Message:
    """An exception in a sentence, with the person's own line where it came through one."""
    line = place(error, file)
    if isinstance(error, SystemExit):
        sentence = (
            _("line {line} ends the program (sys.exit). Return the result instead:\n    {shown}")
            if line
            else _("the program ended itself (sys.exit)")
        )
    elif _out_of_memory(error):
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
    return Message(sentence, line=line or 0, shown=line_of(text, line) if line else "", error=_first_line(error))


def _out_of_memory(error: BaseException | None) -> bool:
    return isinstance(error, MemoryError) or "allocate memory" in str(error)  # torch has no error of its own for it


def place(error: BaseException, file: str) -> int | None:
    """The last line of the person's file that an exception came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def line_of(text: str, line: int) -> str:
    """That line, without its indent."""
    lines = text.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _first_line(error: BaseException) -> str:
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


def row(values: Iterable[float]) -> str:
    """A few numbers as people read them.

    >>> row([0.25, 1.0])
    '[0.25, 1]'
    """
    return "[" + ", ".join(f"{float(value):.4g}" for value in values) + "]"


def furthest(got: np.ndarray, want: np.ndarray) -> dict[str, object]:
    """For a hint: the number that is furthest off, and the right one."""
    at = 0 if got.shape != want.shape else int(np.nan_to_num(np.abs(got - want), nan=np.inf).argmax())
    return {"got": float(got.flat[at]), "want": float(want.flat[at])}


def shapes(got: np.ndarray, want: np.ndarray) -> dict[str, object]:
    """For a hint: the shape that came, and the right one."""
    return {"shape": got.shape, "right": want.shape}


def sums(got: np.ndarray, want: np.ndarray) -> dict[str, object]:
    """For a hint: the sum of the row that is furthest from 1."""
    rows = np.nan_to_num(got.sum(-1), nan=0.0)
    return {"sum": float(rows.flat[np.abs(rows - 1).argmax()])}
