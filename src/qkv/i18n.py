"""How qkv speaks: English stands where it is said; `locale/` has the other languages, as gettext keeps them.

A sentence is marked by what takes it: `say("…")`, `echo("…")`, `Problem("…")`, `Notice("…")`, `Message("…")`, or `_("…")`
where it is kept for later. It is looked up when it is said, never before, so texts of class bodies obey --lang too. Values are named
in braces and filled in after the lookup: no f-strings inside. `make words` brings locale/zh_CN.po up to date.

>>> say("{n} heads", "en", n=3), say("layer {layer} has {n} heads", "en", layer=0, n=0.123456)
('3 heads', 'layer 0 has 0.1235 heads')
"""

import difflib
import errno
import functools
import gettext
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO

LOCALE = os.path.join(os.path.dirname(__file__), "locale")
LONGEST = 1500  # characters that an error quotes


def _(sentence: str) -> str:
    """Mark a sentence that is said later: extraction finds it, and nothing else happens."""
    return sentence


def _languages() -> tuple[str, ...]:
    """English, and every language that has a file: zh_CN.po (in an installed package zh_CN.mo) is zh."""
    files = sorted(os.listdir(LOCALE)) if os.path.isdir(LOCALE) else []
    return tuple(dict.fromkeys(["en", *(re.split("[_.]", name)[0] for name in files if name.endswith((".po", ".mo")))]))


LANGUAGES = _languages()


def language(asked: str | None = None) -> str:
    """The language to speak: what was asked for, else QKV_LANG, LC_ALL, LC_MESSAGES, LANG, else English."""
    if asked is not None:
        begins = re.split("[-_.]", asked.lower())[0]  # zh-CN and zh_TW.UTF-8 are zh
        if begins not in LANGUAGES:
            raise Problem(
                "there is no language {asked}: give --lang {languages}",
                asked=asked or '""',
                languages=one_of(LANGUAGES),
            )
        return begins
    for variable in ("QKV_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            begins = re.split("[-_.]", value.lower())[0]
            return begins if begins in LANGUAGES else "en"
    return "en"


@functools.cache
def _catalogue(lang: str) -> gettext.NullTranslations:
    """What is known of a language. In a checkout whose .po was edited, the .mo is made anew."""
    files = [os.path.join(LOCALE, name) for name in os.listdir(LOCALE) if re.split("[_.]", name)[0] == lang]
    for mo in {os.path.splitext(file)[0] + ".mo" for file in files}:
        po = os.path.splitext(mo)[0] + ".po"
        if po in files and (mo not in files or os.path.getmtime(mo) < os.path.getmtime(po)):
            compile_catalogue(po, mo)
        if os.path.exists(mo):
            with open(mo, "rb") as file:
                return gettext.GNUTranslations(file)
    return gettext.NullTranslations()


def compile_catalogue(po: str, mo: str) -> None:
    """Write the .mo of a .po; where Babel or the right to write is missing, everything stays as it was."""
    try:
        from babel.messages import mofile, pofile
    except ImportError:
        return
    with open(po, "rb") as file:
        catalogue = pofile.read_po(file)
    from .disk.atomic_files import atomic_write

    with suppress(OSError), atomic_write(mo) as out:
        mofile.write_mo(out, catalogue)


def translated(sentence: str, lang: str | None = None) -> str:
    """The sentence in that language, its values still in braces; English where nobody translated it."""
    spoken = language(lang)
    return sentence if spoken == "en" or not sentence else _catalogue(spoken).gettext(sentence)


def say(sentence: "str | Spoken | Message | Listed", lang: str | None = None, /, **values: object) -> str:
    """The sentence in the language spoken, with the values filled in; numbers are shortened to what a person reads."""
    if not isinstance(sentence, str):
        return sentence.say(lang)
    spoken = language(lang)

    def shown(value: object) -> object:
        if isinstance(value, Message | Listed | Spoken):
            return value.say(spoken)
        return _Short(value) if isinstance(value, float) else value

    return translated(sentence, spoken).format(**{name: shown(value) for name, value in values.items()})


def echo(sentence: "str | Spoken | Message | Listed", stream: TextIO | None = None, /, **values: object) -> None:
    """Print what `say` gives, to stdout or to another stream."""
    print(say(sentence, **values), file=stream)


class _Short(float):
    """A number as a person reads it, unless the sentence says how many digits it wants."""

    def __format__(self, spec: str) -> str:
        return super().__format__(spec or ".4g")


class Message:
    """A sentence with its values, to be said later: who reads it chooses the language. As a string it is English.

    >>> print(Message("{n} heads", n=3))
    3 heads
    """

    def __init__(self, sentence: str, /, **values: object) -> None:
        self.sentence, self.values = sentence, values

    def say(self, lang: str | None = None) -> str:
        """The sentence in that language."""
        return say(self.sentence, lang, **self.values)

    def __str__(self) -> str:
        return self.say("en")

    def __repr__(self) -> str:
        return f"Message({self.say('en')!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.say("en") == other.say("en")

    def __hash__(self) -> int:
        return hash(self.say("en"))

    def __bool__(self) -> bool:
        return bool(self.sentence)

    def packed(self) -> dict[str, str]:
        """In every language, as plain values that may go to another process; `unpacked` takes them."""
        return {lang: self.say(lang) for lang in LANGUAGES}


class _Unpacked(Message):
    """What was said elsewhere, in every language."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__(texts["en"])
        self.texts = texts

    def say(self, lang: str | None = None) -> str:
        return self.texts.get(language(lang), self.sentence)


def unpacked(texts: dict[str, str]) -> Message:
    """The message that `packed` gave.

    >>> unpacked(Message("{n} heads", n=3).packed()) == Message("{n} heads", n=3)
    True
    """
    return _Unpacked(texts)


def paragraph(sentences: Iterable[str], lang: str | None = None) -> str:
    """Sentences one after the other, with a blank between them where the language has one."""
    return functools.reduce(
        lambda before, after: say("{sentence} {next}", lang, sentence=before, next=after), sentences
    )


class Listed:
    """Several things, joined as a language joins them."""

    def __init__(self, items: Iterable[object], joint: str) -> None:
        self.items, self.joint = list(items), joint

    def say(self, lang: str | None = None) -> str:
        """The things in that language."""
        each = (item.say(lang) if isinstance(item, Message | Spoken | Listed) else str(item) for item in self.items)
        return translated(self.joint, lang).join(each)

    def __str__(self) -> str:
        return self.say("en")

    def __repr__(self) -> str:
        return f"Listed({self.say('en')!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listed) and (self.items, self.joint) == (other.items, other.joint)


def one_of(items: Iterable[object]) -> Listed:
    """
    >>> str(one_of([2, 3]))
    '2 or 3'
    """
    return Listed(items, _(" or "))


def all_of(items: Iterable[object]) -> Listed:
    """
    >>> str(all_of(["q", "k"]))
    'q, k'
    """
    return Listed(items, _(", "))


def nearest(word: object, among: Iterable[object]) -> str:
    """The one of the right words that a wrong one comes close to, or "" where none does.

    >>> nearest("rotery", ["rotary", "learned"]), nearest("x", ["rotary"])
    ('rotary', '')
    """
    # A file may name something of a million characters, which comes close to nothing.
    wrong, right = str(word)[:100], list(map(str, among))
    swapped = [each for each in right if sorted(each) == sorted(wrong)]  # which difflib rates too low
    return "".join(swapped[:1] or difflib.get_close_matches(wrong, right, n=1))


class Spoken(Exception):
    """What a Problem and a Notice share: as an exception it reads English, the command line says it in its own language.

    Its args are the sentence and the values, so that whoever makes it anew from them gets the same: pickle, copy, and pytest,
    whose processes send each other warnings.
    """

    def __init__(self, sentence: str, values: dict[str, Any] | None = None, /, **more: Any) -> None:
        self.sentence, self.values = sentence, {name: _cut(value) for name, value in {**(values or {}), **more}.items()}
        self.english = say(sentence, "en", **self.values)
        super().__init__(sentence, self.values)

    def __str__(self) -> str:
        return self.english

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.english!r})"

    def say(self, lang: str | None = None) -> str:
        """The same in that language."""
        return say(self.sentence, lang, **self.values)


def _cut(value: Any) -> Any:
    """A value as a sentence quotes it: a file may hold a name of a million characters."""
    if isinstance(value, _Unpacked):
        return value
    if isinstance(value, Message):
        return Message(value.sentence, **{name: _cut(each) for name, each in value.values.items()})
    if isinstance(value, Listed):
        return Listed(map(_cut, value.items), value.joint)
    text = str(value) if isinstance(value, str | os.PathLike) else ""
    if isinstance(value, list | tuple | dict | int) and not isinstance(value, bool):
        text = str(value)
    return value if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 4 :]}"


class Problem(Spoken, ValueError):
    """A user's mistake.

    >>> print(Problem("{word} is not a token of the text; near ones: {near}", word="dog", near=all_of(["cat", "mat"])))
    dog is not a token of the text; near ones: cat, mat
    """


class Notice(Spoken, UserWarning):
    """Something a user should know although the work goes on."""


def pip_install(package: str) -> str:
    """Return the command that installs a package for this very Python: `pip` alone may be another's.

    Environments made by uv have no pip; uv then installs into them.
    """
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {python} {package}"
    return f"{python} -m pip install {package}"


SYSTEM = {
    "ENOSPC": _("the disk is full"),
    "EDQUOT": _("the disk quota is used up"),
    "EACCES": _("permission denied"),
    "EPERM": _("operation not permitted"),
    "ENOENT": _("there is no such file or folder"),
    "EISDIR": _("that is a folder"),
    "ENOTDIR": _("part of the path is not a folder"),
    "EEXIST": _("that exists already"),
    "EROFS": _("the disk can only be read"),
    "EIO": _("the disk has an error"),
    "EFBIG": _("the file is larger than this system allows"),
    "ENAMETOOLONG": _("the name is too long"),
    "EMFILE": _("too many files are open"),
}


def refused(error: OSError) -> Message:
    """What the system refused, in a sentence: a full disk, a missing permission, …"""
    if sentence := SYSTEM.get(errno.errorcode.get(error.errno or 0, "")):
        return Message(sentence)
    return Message("{system_words}", system_words=error.strerror or str(error) or type(error).__name__)


def quoted(reason: object) -> "Message | Problem":
    """Why something failed, in the words of another library or of the system: in other languages marked as quoted.

    >>> print(quoted(KeyError("n_embd")), quoted(Message("cut off")), sep="; ")
    KeyError: 'n_embd'; cut off
    """
    if isinstance(reason, Message | Problem):
        return reason
    if isinstance(reason, OSError) and reason.errno is not None:
        return refused(reason)
    words = str(reason).strip().split("\n")[0][:200]
    if isinstance(reason, Exception) and (not words or not isinstance(reason, ValueError | OSError)):
        words = f"{type(reason).__name__}: {words}"  # a KeyError's words alone are only the key
    return Message("{their_words}", their_words=words)


LARGEST = 2**64  # of whole numbers that people give; Python's own have no end, and floats do


def too_large(name: str, value: int) -> Problem:
    """The sentence about a whole number that nothing here can count to.

    >>> str(too_large("--steps", 10**400))
    '--steps has 401 digits: give a number of at most 19'
    """
    digits = int(abs(value).bit_length() * 0.30103) + 1
    return Problem("{name} has {digits} digits: give a number of at most 19", name=name, digits=digits)


def unknown(what: str, word: object, among: Iterable[object]) -> Problem:
    """The problem of a word that isn't among the right ones: it names them, and the nearest.

    >>> print(unknown("norm", "rsm", ["rms", "layer"]))
    norm 'rsm' is not one of rms, layer; did you mean 'rms'?
    """
    right = list(among)
    near = nearest(word, right)
    sentence = (
        _("{what} {word} is not one of {words}; did you mean '{near}'?")
        if near
        else _("{what} {word} is not one of {words}")
    )
    return Problem(sentence, what=what, word=repr(word), words=all_of(right), near=near)
