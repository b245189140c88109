"""What a lesson is, the order of lessons, and how an exercise is written out in one language.

An exercise is one Python file for both languages, told apart by small marks:

    a docstring     English, a line of ----, 中文, and if anything is for both, another ---- and that
    a comment       # English | 中文
    a hole          # hole … # end: left out of what people get; `# hole: x = [...]` says what they get instead
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

Answer = ModuleType | SimpleNamespace  # what a person wrote, its names as attributes

RULE = re.compile(r"^[ \t]*----$\n?", re.MULTILINE)
HOLE = re.compile(r"^([ \t]*)# hole(?:: (.*))?\n((?:.*\n)*?)[ \t]*# end\n", re.MULTILINE)
HAN = re.compile("[\u4e00-\u9fff]")


class Title(NamedTuple):
    """A lesson in the list."""

    name: str  # of its files
    title: Message
    library: str | Message  # what it is done with


COURSE = (
    Title("by_hand", Message("attention by hand"), Message("a calculator")),
    Title("scores", Message("dot products, and the angle"), "NumPy"),
    Title("scaling", Message("why the scores are divided by √d"), "NumPy"),
    Title("softmax", Message("softmax that doesn't overflow"), "NumPy"),
    Title("weighted_sum", Message("the weighted sum: attention whole"), "NumPy"),
    Title("projections", Message("queries, keys and values"), "NumPy"),
    Title("causal_mask", Message("a mask that hides the future"), "NumPy"),
    Title("padding_mask", Message("a mask that hides padding"), "NumPy"),
    Title("both_masks", Message("both masks, and rows that see nothing"), "NumPy"),
    Title("cross_attention", Message("cross-attention"), "NumPy"),
    Title("split_heads", Message("many heads: splitting"), "PyTorch"),
    Title("merge_heads", Message("many heads: merging"), "PyTorch"),
    Title("sinusoidal", Message("sinusoidal positions"), "PyTorch"),
    Title("rotary", Message("rotary positions"), "PyTorch"),
    Title("grouped_heads", Message("grouped heads (GQA)"), "PyTorch"),
    Title("kv_cache", Message("the KV cache"), "PyTorch"),
    Title("encoder_layer", Message("an encoder layer"), "PyTorch"),
    Title("tiny_gpt", Message("a whole GPT that trains"), "PyTorch"),
    Title("linear_attention", Message("linear attention is a recurrence"), "NumPy"),
    Title("retention", Message("retention's chunk"), "NumPy"),
    Title("delta_rule", Message("the delta rule writes and overwrites"), "NumPy"),
)
NAMES = tuple(title.name for title in COURSE)


def number(name: str) -> int:
    """Where in the course a lesson stands, from 1."""
    return NAMES.index(name) + 1


def filename(name: str) -> str:
    """
    >>> filename("scaling")
    '03_scaling.py'
    """
    return f"{number(name):02}_{name}.py"


def find(word: str) -> str:
    """The lesson somebody means by a number, a name or a file.

    >>> find("3"), find("scaling"), find("learn/03_scaling.py")
    ('scaling', 'scaling', 'scaling')
    """
    bare = re.split(r"[/\\]", word)[-1].removesuffix(".py")
    plain = re.sub(r"^\d+_", "", bare).replace("-", "_").lower()
    if plain in NAMES:
        return plain
    if plain.isdecimal():
        if len(plain) < 10 and 1 <= int(plain) <= len(NAMES):  # int() refuses more than 4,300 digits
            return NAMES[int(plain) - 1]
        raise Problem("there is no exercise {number}: they go from 1 to {last}", number=plain, last=len(NAMES))
    near = nearest(plain, NAMES)
    raise Problem(
        _("{word} is no exercise; did you mean {near}? There are {names}")
        if near
        else _("{word} is no exercise; there are {names}"),
        word=word,
        names=all_of(NAMES),
        near=near,
    )


def write(name: str, lang: str | None = None, *, solved: bool = False) -> str:
    """The exercise in one language, with its hole or solved, as a file of its own."""
    lang = language(lang)
    text = files("qkv.lessons").joinpath("exercises", f"{name}.py").read_text(encoding="utf-8")
    text = HOLE.sub(r"\3" if solved else lambda hole: _hole(hole, lang), text)
    title = COURSE[number(name) - 1]
    head = say(
        _("Exercise {number} of {last}: {title}. Uses {library}. This is a solution.")
        if solved
        else _("Exercise {number} of {last}: {title}. Uses {library}.\nRead, fill in, then:  qkv learn check {number}"),
        lang,
        number=number(name),
        last=len(COURSE),
        title=title.title,
        library=title.library,
    )
    return "".join(f"# {line}\n" for line in head.split("\n")) + "\n" + in_one_language(text, lang)


def _hole(hole: re.Match[str], lang: str) -> str:
    indent, instead, _solution = hole.groups()
    told = say("your numbers", lang) if instead else say("your code", lang)
    return (
        f"{indent}{instead}  # {told}\n" if instead else f"{indent}...  # {told}\n{indent}raise NotImplementedError\n"
    )


def in_one_language(text: str, lang: str) -> str:
    """Docstrings and comments cut down to one language; the code isn't touched."""
    lines = text.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        (row, start), (last, end) = token.start, token.end
        if token.type == tokenize.COMMENT and " | " in token.string and HAN.search(token.string):
            english, chinese = token.string.removeprefix("# ").split(" | ")
            lines[row - 1] = lines[row - 1][:start] + "# " + (chinese if lang == "zh" else english) + "\n"
        elif token.type == tokenize.STRING and RULE.search(token.string):
            english, chinese, *common = RULE.split(token.string.strip('"'))
            kept = "\n\n".join(part.rstrip().lstrip("\n") for part in [chinese if lang == "zh" else english, *common])
            body = f'"""{kept.lstrip()}'
            body += ("\n" + " " * start if "\n" in body else "") + '"""'
            lines[row - 1 : last] = [lines[row - 1][:start] + body + lines[last - 1][end:]]
    return "".join(lines)


@dataclass(frozen=True)
class Wrong:
    """An answer people give: what it has in place of a right function, class or row of numbers, and what to say to it.

    The code is that function or those numbers, or changes to what stands in the solution's hole: {part of its text: what
    people write instead}.
    """

    id: str
    code: object
    sentence: str  # that says what is wrong, in English
    # (theirs, the right ones) → numbers that the sentence names, where they are others than questions.named gives
    shows: Callable[[Array, Array], dict[str, object]] | None = None
    mistake: str = ""  # its id in the doctor's catalogue, where it is one of those

    @property
    def hint(self) -> Message:
        """The sentence, as what is said in the person's language."""
        return Message(self.sentence)


@dataclass(frozen=True)
class Question:
    """One thing asked of an answer: what is called, how it is shown to people, and what is right."""

    function: str
    shown: str
    ask: Callable[[Answer], object]  # gets the answer's names as attributes
    right: Callable[[], object]
    tolerance: float = 1e-5  # a root in float32 is no mistake


@dataclass(frozen=True)
class Lesson:
    """What grading needs to know."""

    questions: Sequence[Question]
    wrongs: Mapping[str, Sequence[Wrong]]  # by the function (class, number) that they get wrong
    hints: Mapping[str, Sequence[Message]]  # by what they are about, weakest first
    after: Message  # what one knows now
    doctor: Callable[[Answer], tuple[object, dict[str, Any]]] | None = (
        None  # answer → what qkv.check looks at, and its options
    )
    seconds: float = 10.0  # of computing: a guard, no budget

    def hints_for(self, step: str = "") -> list[Message]:
        """All hints: first those about the step that is wrong, if one is known."""
        return [hint for about in sorted(self.hints, key=lambda one: one != step) for hint in self.hints[about]]


def load(name: str) -> Lesson:
    """The lesson with its questions; this imports NumPy or PyTorch."""
    lesson: Lesson = importlib.import_module(f"qkv.lessons.graders.{name}").LESSON
    return lesson


def solution(name: str) -> ModuleType:
    """The solved exercise, as a module."""
    return importlib.import_module(f"qkv.lessons.exercises.{name}")


def wrong_answer(name: str, function: str, wrong: Wrong) -> SimpleNamespace:
    """The solved exercise with one function got wrong, as the names of an answer."""
    code = _edited(name, function, wrong.code) if isinstance(wrong.code, dict) else wrong.code
    return SimpleNamespace(**{**vars(solution(name)), function: code})


def _edited(name: str, function: str, changes: Mapping[str, str]) -> object:
    """A function (class) of the solved exercise with other code in its hole."""
    text = HOLE.sub(lambda hole: _with_changes(hole[3], changes), _source(name, function))
    names = dict(vars(solution(name)))
    exec(compile(text, f"{name}.py", "exec", dont_inherit=True), names)
    return names[function]


@cache
def _source(name: str, function: str) -> str:
    return inspect.getsource(getattr(solution(name), function))


def _with_changes(text: str, changes: Mapping[str, str]) -> str:
    """The text with all changes made at once, so that none changes what another put there.

    >>> _with_changes("k @ q.T", {"k": "q", "q": "k"})
    'q @ k.T'
    """
    missing = [part for part in changes if part not in text]
    assert not missing, f"the solution has no {missing}"
    return re.sub("|".join(map(re.escape, changes)), lambda part: changes[part[0]], text)
