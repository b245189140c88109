"""Read sentences with their grammar from CoNLL-U files, the format of treebanks (universaldependencies.org).

A line per word with ten columns separated by tabs, an empty line after each sentence. The columns used are the number (1),
the word (2), its head (7), the relation (8), and in the last one SpaceAfter=No and, as an extension, Coref=3: this pronoun
means word 3. A comment `# text = …` gives the sentence as written, `# lang = zh` its language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from ...i18n import Problem, _

LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Word:
    """A word of a sentence: the characters text[start:end]. Words count from 0; −1 is none."""

    form: str
    start: int
    end: int
    head: int  # −1: the root
    relation: str  # without its subtype: nsubj:pass is nsubj
    coref: int = -1  # the word that this pronoun means


@dataclass(frozen=True)
class Sentence:
    """A text and its words."""

    text: str
    words: tuple[Word, ...]
    language: str = ""

    def __str__(self) -> str:
        return self.text


class _Line(NamedTuple):
    """A line of a file, split into columns."""

    file: str
    number: int
    columns: list[str]

    def wrong(self, why: str, **values: object) -> Problem:
        """Return a problem that names the line."""
        return Problem(why, file=self.file, line=self.number, **values)


# Written tokens in order: line, form, True if a space follows, the words in it with their indices.
_Surface = list[tuple[_Line, str, bool, list[tuple[int, str]]]]


def shipped(languages: Sequence[str] = LANGUAGES) -> list[Sentence]:
    """Return the sentences that ship with qkv, 21 English and 21 Chinese.

    >>> print(shipped(["en"])[0])
    The animal didn't cross the street because it was too tired.
    """
    folder = resources.files("qkv.tracing.study") / "treebank"
    sentences = []
    for language in languages:
        name = f"{language}.conllu"
        sentences += parse((folder / name).read_text(encoding="utf-8"), name)
    return sentences


def read(path: str | Path) -> list[Sentence]:
    """Return the sentences of a file."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise Problem("{file} can't be read: {error}", file=path, error=error.strerror or error) from None
    except UnicodeDecodeError as error:
        raise Problem("{file} is not UTF-8 text: byte {place} can't be read", file=path, place=error.start) from None
    return parse(text, str(path))


def parse(text: str, file: str = "") -> list[Sentence]:
    """Return the sentences of a CoNLL-U text; a `Problem` names a wrong line."""
    sentences: list[Sentence] = []
    comments: dict[str, str] = {}
    rows: list[_Line] = []
    for line, raw in enumerate([*text.split("\n"), ""], start=1):
        raw = raw.rstrip("\r")
        if raw.startswith("#"):
            name, _sign, value = raw[1:].partition("=")
            comments[name.strip()] = value.strip()
        elif raw.strip():
            rows.append(_Line(file, line, raw.split("\t")))
            if (columns := len(rows[-1].columns)) != 10:
                why = _("{file}, line {line}: {found} columns where CoNLL-U has 10, apart by tabs")
                raise rows[-1].wrong(why, found=columns)
        elif rows:
            sentences.append(_sentence(file, rows, comments))
            rows, comments = [], {}
    if not sentences:
        raise Problem("{file} has no sentence: CoNLL-U was expected", file=file)
    return sentences


def _sentence(file: str, rows: list[_Line], comments: dict[str, str]) -> Sentence:
    words = [line for line in rows if not {"-", "."} & {*line.columns[0]}]  # 8.1 is an empty word
    for expected, line in enumerate(words, start=1):
        if (number := line.columns[0]) != str(expected):
            why = _("{file}, line {line}: the word is numbered {found}, but {expected} comes next")
            raise line.wrong(why, found=number, expected=expected)
    if not words:
        raise Problem("{file} has no sentence: CoNLL-U was expected", file=file)
    text, spans = _spans(_surface(rows, len(words)), comments.get("text"), len(words))
    parsed = []
    for i, line in enumerate(words):
        row = line.columns
        attributes = dict(pair.split("=", 1) for pair in row[9].split("|") if "=" in pair)
        head = _number(line, "head", row[6], len(words), least=0)
        coref = _number(line, "Coref", attributes["Coref"], len(words), least=1) if "Coref" in attributes else 0
        if i + 1 in (head, coref):
            raise line.wrong(_("{file}, line {line}: {form} can't be its own head or antecedent"), form=row[1])
        parsed.append(Word(row[1], *spans[i], head - 1, row[7].split(":")[0], coref - 1))
    return Sentence(text, tuple(parsed), comments.get("lang", ""))


def _surface(rows: list[_Line], count: int) -> _Surface:
    """Return the written tokens; words 3-4 are written as one."""
    surface: _Surface = []
    covered = 0
    for line in rows:
        number, form, *_others, last_column = line.columns
        spaced = "SpaceAfter=No" not in last_column.split("|")
        if "." in number:
            continue
        first, dash, last = number.partition("-")
        if not dash:
            if int(first) > covered:
                surface.append((line, form, spaced, [(int(first) - 1, form)]))
            else:
                surface[-1][3].append((int(first) - 1, form))
            continue
        if not (first.isdecimal() and last.isdecimal() and covered < int(first) < int(last) <= count):
            why = _("{file}, line {line}: {found} is no range of the sentence's words, 1 to {last}, in order")
            raise line.wrong(why, found=number, last=count)
        covered = int(last)
        surface.append((line, form, spaced, []))
    return surface


def _spans(surface: _Surface, text: str | None, count: int) -> tuple[str, list[tuple[int, int]]]:
    """Return the sentence as written, and the range of characters of each word."""
    if text is None:
        text = "".join(form + (" " if spaced else "") for _line, form, spaced, _words in surface).rstrip(" ")
    spans = [(0, 0)] * count
    at = 0
    for line, form, _spaced, inside in surface:
        while text[at : at + 1].isspace():
            at += 1
        if not form or text[at : at + len(form)] != form:
            why = _("{file}, line {line}: {form} was to come in the sentence's text, but that goes on with: {rest}")
            raise line.wrong(why, form=form, rest=text[at : at + 20])
        start, end = at, at + len(form)
        if "".join(word for _i, word in inside) == form:  # don't is do and n't, each with its own letters
            for i, word in inside:
                spans[i] = (start, start + len(word))
                start += len(word)
        else:  # du is de and le, both with all letters
            for i, _word in inside:
                spans[i] = (start, end)
        at = end
    return text, spans


def _number(line: _Line, what: str, value: str, last: int, least: int) -> int:
    if not (value.isascii() and value.isdecimal()) or len(value) > 9 or not least <= int(value) <= last:
        why = _("{file}, line {line}: {what} is {found}, but it must be a number from {least} to {last}")
        raise line.wrong(why, what=what, found=value, least=least, last=last)
    return int(value)
