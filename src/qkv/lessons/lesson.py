"""The parts of a lesson, the order of the course, and the text of an exercise in one language.

An exercise is one Python file for both languages:

    a docstring     English, a line of ----, 中文, and optionally another ---- and text for both
    a comment       # English | 中文
    a hole          # hole … # end: removed from the learner's file; `# hole: x = [...]` gives a replacement
"""

from __future__ import annotations

import importlib
import inspect
import io
import re
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..i18n import Message, Problem, _, all_of, language, nearest, say

if TYPE_CHECKING:
    from ..attention.oracle import Array

Answer = ModuleType | SimpleNamespace  # the names that the learner's file defines, as attributes

SEPARATOR = re.compile(r"^[ \t]*----$\n?", re.MULTILINE)
HOLE = re.compile(r"^([ \t]*)# hole(?:: (.*))?\n((?:.*\n)*?)[ \t]*# end\n", re.MULTILINE)
CHINESE = re.compile("[\u4e00-\u9fff]")


class CourseEntry(NamedTuple):
    """A lesson in the course: its file name without .py, its title and the library it uses."""

    name: str
    title: Message
    library: str | Message


COURSE = (
    CourseEntry("by_hand", Message("attention by hand"), Message("a calculator")),
    CourseEntry("scores", Message("dot products, and the angle"), "NumPy"),
    CourseEntry("scaling", Message("why the scores are divided by √d"), "NumPy"),
    CourseEntry("softmax", Message("softmax that doesn't overflow"), "NumPy"),
    CourseEntry("weighted_sum", Message("the weighted sum: attention whole"), "NumPy"),
    CourseEntry("projections", Message("queries, keys and values"), "NumPy"),
    CourseEntry("causal_mask", Message("a mask that hides the future"), "NumPy"),
    CourseEntry("padding_mask", Message("a mask that hides padding"), "NumPy"),
    CourseEntry("both_masks", Message("both masks, and rows that see nothing"), "NumPy"),
    CourseEntry("cross_attention", Message("cross-attention"), "NumPy"),
    CourseEntry("split_heads", Message("many heads: splitting"), "PyTorch"),
    CourseEntry("merge_heads", Message("many heads: merging"), "PyTorch"),
    CourseEntry("sinusoidal", Message("sinusoidal positions"), "PyTorch"),
    CourseEntry("rotary", Message("rotary positions"), "PyTorch"),
    CourseEntry("grouped_heads", Message("grouped heads (GQA)"), "PyTorch"),
    CourseEntry("kv_cache", Message("the KV cache"), "PyTorch"),
    CourseEntry("encoder_layer", Message("an encoder layer"), "PyTorch"),
    CourseEntry("tiny_gpt", Message("a whole GPT that trains"), "PyTorch"),
    CourseEntry("linear_attention", Message("linear attention is a recurrence"), "NumPy"),
    CourseEntry("retention", Message("retention's chunk"), "NumPy"),
    CourseEntry("delta_rule", Message("the delta rule writes and overwrites"), "NumPy"),
)
NAMES = tuple(entry.name for entry in COURSE)


def number(name: str) -> int:
    """Return the number of a lesson in the course, from 1."""
    return NAMES.index(name) + 1


def filename(name: str) -> str:
    """Return the file name of an exercise in the learner's folder.

    >>> filename("scaling")
    '03_scaling.py'
    """
    return f"{number(name):02}_{name}.py"


def find(word: str) -> str:
    """Return the name of the lesson with this number, name or file.

    >>> find("3"), find("scaling"), find("learn/03_scaling.py")
    ('scaling', 'scaling', 'scaling')
    """
    stem = re.split(r"[/\\]", word)[-1].removesuffix(".py")
    name = re.sub(r"^\d+_", "", stem).replace("-", "_").lower()
    if name in NAMES:
        return name
    if name.isdecimal():
        if len(name) < 10 and 1 <= int(name) <= len(NAMES):  # int() refuses more than 4,300 digits
            return NAMES[int(name) - 1]
        raise Problem("there is no exercise {number}: they go from 1 to {last}", number=name, last=len(NAMES))
    near = nearest(name, NAMES)
    sentence = (
        _("{word} is not an exercise; did you mean {near}? There are {names}")
        if near
        else _("{word} is not an exercise; there are {names}")
    )
    raise Problem(sentence, word=word, names=all_of(NAMES), near=near)


def render(name: str, lang: str | None = None, *, solved: bool = False) -> str:
    """Return the text of an exercise in one language, with its holes or solved."""
    lang = language(lang)
    text = files("qkv.lessons").joinpath("exercises", f"{name}.py").read_text(encoding="utf-8")
    text = HOLE.sub(r"\3" if solved else lambda hole: _unfilled(hole, lang), text)
    entry = COURSE[number(name) - 1]
    head = say(
        _("Exercise {number} of {last}: {title}. Uses {library}. This is a solution.")
        if solved
        else _("Exercise {number} of {last}: {title}. Uses {library}.\nRead, fill in, then:  qkv learn check {number}"),
        lang,
        number=number(name),
        last=len(COURSE),
        title=entry.title,
        library=entry.library,
    )
    return "".join(f"# {line}\n" for line in head.split("\n")) + "\n" + select_language(text, lang)


def _unfilled(hole: re.Match[str], lang: str) -> str:
    indent, replacement, _solution = hole.groups()
    if replacement:
        return f"{indent}{replacement}  # {say('your numbers', lang)}\n"
    return f"{indent}...  # {say('your code', lang)}\n{indent}raise NotImplementedError\n"


def select_language(text: str, lang: str) -> str:
    """Return the source with its docstrings and comments in one language."""
    lines = text.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        (row, start), (last, end) = token.start, token.end
        if token.type == tokenize.COMMENT and " | " in token.string and CHINESE.search(token.string):
            english, chinese = token.string.removeprefix("# ").split(" | ")
            lines[row - 1] = lines[row - 1][:start] + "# " + (chinese if lang == "zh" else english) + "\n"
        elif token.type == tokenize.STRING and SEPARATOR.search(token.string):
            english, chinese, *common = SEPARATOR.split(token.string.strip('"'))
            parts = [chinese if lang == "zh" else english, *common]
            docstring = "\n\n".join(part.rstrip().lstrip("\n") for part in parts)
            body = f'"""{docstring.lstrip()}'
            body += ("\n" + " " * start if "\n" in body else "") + '"""'
            lines[row - 1 : last] = [lines[row - 1][:start] + body + lines[last - 1][end:]]
    return "".join(lines)


@dataclass(frozen=True)
class WrongAnswer:
    """A typical wrong answer: the wrong function, class or numbers, and the hint for it.

    `code` replaces the right one as a whole; a dict lists replacements in the hole of the solution.
    """

    code: object
    sentence: str  # the hint, in English
    # (actual, expected) → the values of the sentence's placeholders, if not those of questions.hint_values
    values: Callable[[Array, Array], dict[str, object]] | None = None
    mistake: str = ""  # id in the doctor's catalogue


@dataclass(frozen=True)
class Question:
    """One call of the learner's function, its description, and how to compute the expected result."""

    function: str
    description: str
    run: Callable[[Answer], object]
    expected: Callable[[], object]
    tolerance: float = 1e-5  # allows for float32


@dataclass(frozen=True)
class Lesson:
    """The questions, known wrong answers and hints of an exercise, the latter two by function, class or number."""

    questions: Sequence[Question]
    wrong_answers: Mapping[str, Mapping[str, WrongAnswer]]  # by function, then by id
    hints: Mapping[str, Sequence[str]]  # weakest first
    takeaway: str  # shown when the exercise is solved
    doctor_target: Callable[[Answer], tuple[object, dict[str, Any]]] | None = None  # arguments of qkv.check
    seconds: float = 10.0  # of CPU time; a safeguard

    def ordered_hints(self, step: str = "") -> list[Message]:
        """Return all hints, those about the wrong step first."""
        topics = sorted(self.hints, key=lambda topic: topic != step)
        return [Message(hint) for topic in topics for hint in self.hints[topic]]


def load(name: str) -> Lesson:
    """Return the lesson of an exercise. Imports NumPy or PyTorch."""
    lesson: Lesson = importlib.import_module(f"qkv.lessons.graders.{name}").LESSON
    return lesson


def solution(name: str) -> ModuleType:
    """Return the solved exercise as a module."""
    return importlib.import_module(f"qkv.lessons.exercises.{name}")


def build_wrong_answer(name: str, function: str, wrong: WrongAnswer) -> SimpleNamespace:
    """Return the solved exercise with one wrong function, class or row of numbers."""
    code = _compile_variant(name, function, wrong.code) if isinstance(wrong.code, dict) else wrong.code
    return SimpleNamespace(**{**vars(solution(name)), function: code})


def _compile_variant(name: str, function: str, changes: Mapping[str, str]) -> object:
    text = HOLE.sub(lambda hole: _apply_changes(hole[3], changes), _function_source(name, function))
    names = dict(vars(solution(name)))
    exec(compile(text, f"{name}.py", "exec", dont_inherit=True), names)
    return names[function]


@cache
def _function_source(name: str, function: str) -> str:
    return inspect.getsource(getattr(solution(name), function))


def _apply_changes(text: str, changes: Mapping[str, str]) -> str:
    """Return the text with all changes applied at once, so that no change applies to the text of another.

    >>> _apply_changes("k @ q.T", {"k": "q", "q": "k"})
    'q @ k.T'
    """
    missing = [part for part in changes if part not in text]
    assert not missing, f"the solution does not contain {missing}"
    return re.sub("|".join(map(re.escape, changes)), lambda part: changes[part[0]], text)
