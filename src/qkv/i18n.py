"""Translation: English sentences stand in the code, translations in gettext catalogues under `locale/`.

Sentences are the first argument of `say`, `echo`, `Problem`, `Notice` and `Message`, or are marked by `_("…")` to be
translated later. They are translated when they are shown, so sentences in class bodies follow --lang too. Values are
named in braces and filled in after the translation, so f-strings don't work. `make words` updates locale/zh_CN.po.

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
MAX_VALUE = 1500  # characters of a value in an error message


def _(sentence: str) -> str:
    """Return the sentence unchanged; `make words` finds it by this call."""
    return sentence


def _languages() -> tuple[str, ...]:
    """Return "en" and every language that has a catalogue: zh_CN.po (zh_CN.mo in an installed package) is "zh"."""
    files = sorted(os.listdir(LOCALE)) if os.path.isdir(LOCALE) else []
    return tuple(dict.fromkeys(["en", *(re.split("[_.]", name)[0] for name in files if name.endswith((".po", ".mo")))]))


LANGUAGES = _languages()


def language(requested: str | None = None) -> str:
    """Return the output language: the requested one, else that of QKV_LANG, LC_ALL, LC_MESSAGES or LANG, else "en"."""
    if requested is not None:
        code = re.split("[-_.]", requested.lower())[0]  # zh-CN and zh_TW.UTF-8 are zh
        if code not in LANGUAGES:
            raise Problem(
                "unknown language {code}: give --lang {languages}", code=requested or '""', languages=one_of(LANGUAGES)
            )
        return code
    for variable in ("QKV_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            code = re.split("[-_.]", value.lower())[0]
            return code if code in LANGUAGES else "en"
    return "en"


@functools.cache
def _catalogue(lang: str) -> gettext.NullTranslations:
    """Return the catalogue of a language. In a checkout whose .po was edited, the .mo is compiled first."""
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
    """Compile a .po file; do nothing if Babel is not installed or the folder is read-only."""
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
    """Return the sentence in a language with its values still in braces; English if there is no translation."""
    code = language(lang)
    return sentence if code == "en" or not sentence else _catalogue(code).gettext(sentence)


def say(sentence: "str | Spoken | Message", lang: str | None = None, /, **values: object) -> str:
    """Return the sentence in the output language with its values filled in; floats get four digits."""
    if not isinstance(sentence, str):
        return sentence.say(lang)
    code = language(lang)

    def localized(value: object) -> object:
        if isinstance(value, Message | Spoken):
            return value.say(code)
        return _Short(value) if isinstance(value, float) else value

    return translated(sentence, code).format(**{name: localized(value) for name, value in values.items()})


def echo(sentence: "str | Spoken | Message", stream: TextIO | None = None, /, **values: object) -> None:
    """Print a sentence in the output language to stdout or another stream."""
    print(say(sentence, **values), file=stream)


class _Short(float):
    """A float that is formatted with four digits unless the sentence has a format of its own."""

    def __format__(self, spec: str) -> str:
        return super().__format__(spec or ".4g")


class Message:
    """A sentence with its values, translated when it is shown. `str` gives the English.

    >>> print(Message("{n} heads", n=3))
    3 heads
    """

    def __init__(self, sentence: str, /, **values: object) -> None:
        self.sentence, self.values = sentence, values

    def say(self, lang: str | None = None) -> str:
        """Return the sentence in a language."""
        return say(self.sentence, lang, **self.values)

    def __str__(self) -> str:
        return self.say("en")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.say('en')!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.say("en") == other.say("en")

    def __hash__(self) -> int:
        return hash(self.say("en"))

    def __bool__(self) -> bool:
        return bool(self.sentence)

    def packed(self) -> dict[str, str]:
        """Return the text in every language, to send it to another process; see `unpacked`."""
        return {lang: self.say(lang) for lang in LANGUAGES}


class _Unpacked(Message):
    """A message from another process, with its text in every language."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__(texts["en"])
        self.texts = texts

    def say(self, lang: str | None = None) -> str:
        return self.texts.get(language(lang), self.sentence)


def unpacked(texts: dict[str, str]) -> Message:
    """Return the message whose `packed` texts these are.

    >>> unpacked(Message("{n} heads", n=3).packed()) == Message("{n} heads", n=3)
    True
    """
    return _Unpacked(texts)


def paragraph(sentences: Iterable[str], lang: str | None = None) -> str:
    """Join sentences, with a space between them in languages that use one."""
    return functools.reduce(
        lambda before, after: say("{sentence} {next}", lang, sentence=before, next=after), sentences
    )


class Listed(Message):
    """A list that is joined with the separator of the output language."""

    def __init__(self, items: Iterable[object], joint: str) -> None:
        super().__init__(joint)
        self.items = list(items)

    def say(self, lang: str | None = None) -> str:
        """Return the joined items in a language."""
        texts = (item.say(lang) if isinstance(item, Message | Spoken) else str(item) for item in self.items)
        return translated(self.sentence, lang).join(texts)


def one_of(items: Iterable[object]) -> Listed:
    """Join alternatives.

    >>> str(one_of([2, 3]))
    '2 or 3'
    """
    return Listed(items, _(" or "))


def all_of(items: Iterable[object]) -> Listed:
    """Join the items of a list.

    >>> str(all_of(["q", "k"]))
    'q, k'
    """
    return Listed(items, _(", "))


def nearest(word: object, among: Iterable[object]) -> str:
    """Return the valid word that is closest to a misspelt one, "" if none is close.

    >>> nearest("rotery", ["rotary", "learned"]), nearest("x", ["rotary"])
    ('rotary', '')
    """
    misspelt, valid = str(word)[:100], list(map(str, among))  # a file may hold a name of a million characters
    swapped = [name for name in valid if sorted(name) == sorted(misspelt)]  # difflib scores these too low
    return "".join(swapped[:1] or difflib.get_close_matches(misspelt, valid, n=1))


class Spoken(Exception):
    """Base class of Problem and Notice: `str` gives the English, the command line shows the output language.

    Its args are the sentence and the values, so that pickle, copy and pytest-xdist (`cls(*args)`) rebuild an equal one.
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
        """Return the text in a language."""
        return say(self.sentence, lang, **self.values)


def _cut(value: Any) -> Any:
    """Shorten a value for a message: a file may hold a name of a million characters."""
    if isinstance(value, _Unpacked):
        return value
    if isinstance(value, Listed):
        return Listed(map(_cut, value.items), value.sentence)
    if isinstance(value, Message):
        return Message(value.sentence, **{name: _cut(item) for name, item in value.values.items()})
    text = str(value) if isinstance(value, str | os.PathLike | list | tuple | dict | int) else ""
    return value if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE // 2]} … {text[-MAX_VALUE // 4 :]}"


class Problem(Spoken, ValueError):
    """An error that the user can correct.

    >>> print(Problem("{word} is not a token of the text; near ones: {near}", word="dog", near=all_of(["cat", "mat"])))
    dog is not a token of the text; near ones: cat, mat
    """


class Notice(Spoken, UserWarning):
    """A warning to the user; the command continues."""


def pip_install(package: str) -> str:
    """Return the command that installs a package for this Python (`pip` alone may belong to another one).

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
    """Return the message of an OSError: a full disk, a missing permission, …"""
    if sentence := SYSTEM.get(errno.errorcode.get(error.errno or 0, "")):
        return Message(sentence)
    return Message("{system_message}", system_message=error.strerror or str(error) or type(error).__name__)


def quoted(reason: object) -> "Message | Problem":
    """Return the message of an error, also of another library or the system (marked as English in other languages).

    >>> print(quoted(KeyError("n_embd")), quoted(Message("cut off")), sep="; ")
    KeyError: 'n_embd'; cut off
    """
    if isinstance(reason, Message | Problem):
        return reason
    if isinstance(reason, OSError) and reason.errno is not None:
        return refused(reason)
    text = str(reason).strip().split("\n")[0][:200]
    if isinstance(reason, Exception) and (not text or not isinstance(reason, ValueError | OSError)):
        text = f"{type(reason).__name__}: {text}"  # the text of a KeyError is only the key
    return Message("{library_message}", library_message=text)


LARGEST = 2**64  # of integers that users give; a larger one may not fit into a float


def too_large(name: str, value: int) -> Problem:
    """Return the problem of an integer above LARGEST.

    >>> str(too_large("--steps", 10**400))
    '--steps has 401 digits: give a number of at most 19'
    """
    digits = int(abs(value).bit_length() * 0.30103) + 1
    return Problem("{name} has {digits} digits: give a number of at most 19", name=name, digits=digits)


def unknown(what: str, word: object, among: Iterable[object]) -> Problem:
    """Return the problem of an unknown word: it names the valid words and the nearest one.

    >>> print(unknown("norm", "rsm", ["rms", "layer"]))
    norm 'rsm' is not one of rms, layer; did you mean 'rms'?
    """
    valid = list(among)
    near = nearest(word, valid)
    sentence = (
        _("{what} {word} is not one of {words}; did you mean '{near}'?")
        if near
        else _("{what} {word} is not one of {words}")
    )
    return Problem(sentence, what=what, word=repr(word), words=all_of(valid), near=near)
