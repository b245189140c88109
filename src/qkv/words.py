"""How qkv speaks English and 简体中文: the sentences are in `sentences/`, this fills them in.

Each key holds the pair (English, 中文); `say(key, lang, **values)` fills it in. Exceptions read English.

>>> say("row.sum", "zh", low=1.0, high=1.0)
'每行之和：1 到 1。'
"""

import difflib
import errno
import os
import re
import shlex
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from .sentences import SENTENCES

LANGUAGES = ("en", "zh")
LONGEST = 1500  # characters that an error quotes


class Both(NamedTuple):
    """A value that is a word itself and so differs between the languages."""

    english: str
    chinese: str


def one_of(items: Iterable[object]) -> Both:
    """
    >>> one_of([2, 3]).english, one_of(["en", "zh"]).chinese
    ('2 or 3', 'en 或 zh')
    """
    *most, last = map(str, items)
    return Both(" or ".join([*most, last]), " 或 ".join([*most, last]))


def all_of(items: Iterable[object]) -> Both:
    """
    >>> all_of(["q", "k"]).english, all_of(["q", "k"]).chinese
    ('q, k', 'q、k')
    """
    listed = list(map(str, items))
    return Both(", ".join(listed), "、".join(listed))


def nearest(word: object, among: Iterable[object]) -> str:
    """The one of the right words that a wrong one comes close to, or "" where none does.

    >>> nearest("rotery", ["rotary", "learned"]), nearest("x", ["rotary"])
    ('rotary', '')
    """
    # A file may name something of a million characters, which comes close to nothing.
    wrong, right = str(word)[:100], list(map(str, among))
    swapped = [each for each in right if sorted(each) == sorted(wrong)]  # which difflib rates too low
    return "".join(swapped[:1] or difflib.get_close_matches(wrong, right, n=1))


def language(asked: str | None = None) -> str:
    """The language to speak: what was asked for, else QKV_LANG, LC_ALL, LC_MESSAGES, LANG, else English."""
    if asked is not None:
        begins = re.split("[-_]", asked.lower())[0]  # zh-CN and zh_TW.UTF-8 are zh
        if begins not in LANGUAGES:
            raise Problem("problem.lang", asked=asked or '""', languages=one_of(LANGUAGES))
        return begins
    for variable in ("QKV_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def say(key: str, lang: str | None = None, /, **values: object) -> str:
    """The sentence behind `key` with the values filled in; numbers are shortened to what a person reads."""
    spoken = LANGUAGES.index(language(lang))

    def shown(value: object) -> object:
        if isinstance(value, Problem):
            return value.say(LANGUAGES[spoken])
        return value[spoken] if isinstance(value, Both) else _Short(value) if isinstance(value, float) else value

    return SENTENCES[key][spoken].format(**{name: shown(value) for name, value in values.items()})


class _Short(float):
    """A number as a person reads it, unless the sentence says how many digits it wants."""

    def __format__(self, spec: str) -> str:
        return super().__format__(spec or ".4g")


def both(english: str, chinese: str, lang: str | None = None) -> str:
    """The one of two sentences that is in the language spoken: for texts that stand where they are used."""
    return chinese if language(lang) == "zh" else english


class Spoken(Exception):
    """What a Problem and a Notice share: as an exception it reads English, the command line says it in its own language.

    Its args are the key and the values, so that whoever makes it anew from them gets the same: pickle, copy, and pytest,
    whose processes send each other warnings.
    """

    def __init__(self, key: str, values: dict[str, Any] | None = None, /, **more: Any) -> None:
        self.key, self.values = key, {name: _cut(value) for name, value in {**(values or {}), **more}.items()}
        self.english = say(key, "en", **self.values)
        super().__init__(key, self.values)

    def __str__(self) -> str:
        return self.english

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.english!r})"

    def say(self, lang: str | None = None) -> str:
        """The same in that language."""
        return say(self.key, lang, **self.values)


def _cut(value: Any) -> Any:
    """A value as a sentence quotes it: a file may hold a name of a million characters."""
    if isinstance(value, Both):
        return Both(*map(_cut, value))
    text = value if isinstance(value, str) else ""
    if isinstance(value, list | tuple | dict | int) and not isinstance(value, bool):
        text = str(value)
    return value if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 4 :]}"


class Problem(Spoken, ValueError):
    """A user's mistake, told in both languages.

    >>> print(Problem("problem.word", word="dog", words="cat, mat").say("zh"))
    文中没有 dog，只有：cat, mat
    """


class Notice(Spoken, UserWarning):
    """Something a user should know although the work goes on."""


def pip_install(package: str) -> str:
    """The command that installs a package where this very Python sees it: `pip` alone may be another's."""
    return f"{shlex.quote(sys.executable)} -m pip install {package}"


def quoted(reason: object) -> "Both | Problem":
    """Why something failed, in the words of another library or of the system: in Chinese marked as quoted.

    >>> quoted(KeyError("n_embd")).chinese, quoted(Both("cut", "不完整")).chinese
    ("原文“KeyError: 'n_embd'”", '不完整')
    """
    if isinstance(reason, Both | Problem):
        return reason
    if isinstance(reason, OSError) and reason.errno is not None:
        said, key = reason.strerror or str(reason), f"os.{errno.errorcode.get(reason.errno)}"
        return Both(said, SENTENCES[key][1] if key in SENTENCES else f"系统原文“{said}”")
    said = str(reason).strip().split("\n")[0][:200]
    if isinstance(reason, Exception) and (not said or not isinstance(reason, ValueError | OSError)):
        said = f"{type(reason).__name__}: {said}"  # a KeyError's words alone are only the key
    return Both(said, f"原文“{said}”")


def unknown(what: str, word: object, among: Iterable[object]) -> Problem:
    """The problem of a word that isn't among the right ones: it names them, and the nearest.

    >>> print(unknown("norm", "rsm", ["rms", "layer"]))
    norm 'rsm' is not one of rms, layer; did you mean 'rms'?
    """
    right = list(among)
    near = nearest(word, right)
    return Problem("choice.near" if near else "choice", what=what, word=repr(word), words=all_of(right), near=near)
