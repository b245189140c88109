"""Text input of a verb: its argument, stdin (-) or a file.

Some verbs read a whole text. Others read stdin or a file line by line and print a line for each, in the same order, so
that the lines of `cat in.txt | qkv translate - > out.txt` correspond: an empty line gives an empty line.
"""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..i18n import Message, Notice, Problem, _, echo, say
from ..library import store
from ..process import streams
from ..terminal.progress import bar

Prepared = TypeVar("Prepared")

PIPE = "-"
SEVERAL_SOURCES = _("give the text in one way: as an argument, by - from a pipe, or by --text FILE, as in  {example}")


def text_arguments(parser: argparse.ArgumentParser, means: str, *, nargs: str = "?", by_line: bool = False) -> None:
    """Add the text argument and --text FILE (--file is its old name)."""
    add = parser.add_argument
    piped = say("; - takes a line at a time from a pipe") if by_line else ""
    add("text", nargs=nargs, help=means + (piped or say("; - takes it from a pipe")))
    per_line = _("texts from a file, one per line; a line for each comes out")
    whole = _("a text from a file, or a data set (see qkv data)")
    add("--text", dest="file", metavar="FILE", help=say(per_line if by_line else whole))
    add("--file", metavar="FILE", help=argparse.SUPPRESS)


def read_whole(text: str | None, file: str | None, example: str) -> str:
    """Return the text from the argument, stdin (-) or a file, without line ends at its end."""
    if text is not None and file is not None:
        raise Problem(SEVERAL_SOURCES, example=example)
    if file is not None or text == PIPE:
        text = re.sub(r"[\r\n]+\Z", "", read_source(PIPE if file is None else file))
    elif text is not None:
        check_text(text)
        hint_at_file(text)
    if text is None or not text.strip():
        raise Problem("give a text, as in  {example}", example=example)
    return text


def read_lines(texts: list[str], file: str | None, example: str) -> list[str] | None:
    """Return the lines of stdin or a file; None if the texts are arguments, which must not be empty."""
    if (file is not None and texts) or (PIPE in texts and len(texts) > 1):
        raise Problem(SEVERAL_SOURCES, example=example)
    if file is not None or texts == [PIPE]:
        rows = read_source(PIPE if file is None else file).split("\n")  # splitlines would also split at form feeds
        return [row.removesuffix("\r") for row in (rows if rows[-1] else rows[:-1])]
    for text in texts or [""]:
        read_whole(text, None, example)
    return None


def answer_lines(
    what: str,
    rows: list[str],
    prepare: Callable[[str], Prepared],
    length: Callable[[Prepared], int],
    answer: Callable[[list[Prepared]], list[str]],
) -> int:
    """Print an answer to each row and return the exit code.

    All rows are prepared first, so problems are reported with their line before the work. Such a row gives an empty line
    and the exit code 1.
    """
    from ..generation.batching import in_batches

    prepared: dict[int, Prepared] = {}
    skipped = 0
    for number, row in enumerate(rows):
        try:
            if row.strip():
                prepared[number] = prepare(row)
        except Problem as problem:
            echo("line {line}: {problem}", sys.stderr, line=number + 1, problem=problem)
            skipped += 1
    with bar(what) as progress:
        count = 0

        def answer_batch(batch: list[Prepared]) -> list[str]:
            nonlocal count
            answers = answer(batch)
            count += len(batch)
            progress(count, len(prepared))
            return answers

        results = in_batches(list(prepared.values()), length, answer_batch)
        for number in range(len(rows)):
            print(escape_line_ends(next(results)) if number in prepared else "", flush=True)
    if skipped:
        echo("lines left out, as named above: {n}", sys.stderr, n=skipped)
    return 1 if skipped else 0


def escape_line_ends(text: str) -> str:
    r"""Escape the line ends of a text as in JSON.

    >>> print(escape_line_ends("a\nb"))
    a\nb
    """
    return text.replace("\r", "\\r").replace("\n", "\\n")


def read_source(source: str | Path) -> str:
    """Return the text of stdin or a file, which must be UTF-8."""
    if str(source) == PIPE:
        name: object = Message("what came through the pipe")
        raw = _piped()
    else:
        name, path = source, Path(store.locate(str(source)))
        if not str(source) or not path.exists():
            raise Problem(
                "there is no file {file}: --text takes the name of a file; give a text without --text, in quotes",
                file=source or '""',
            )
        raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")  # Notepad writes a byte order mark
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Problem(
            "{what} can't be read: byte {byte} in line {line} is not UTF-8; convert it first, as in  iconv -f "
            "GB18030 -t UTF-8",
            what=name,
            line=line,
            byte=f"{raw[error.start]:02x}",
        ) from None


def _piped() -> bytes:
    if "stdin" in streams.replaced:
        raise Problem("- reads from a pipe, but stdin is closed")
    if sys.stdin.isatty():
        echo("type the text, then end it with Ctrl-D on a line of its own (Windows: Ctrl-Z and Enter)", sys.stderr)
    return sys.stdin.buffer.read()


def hint_at_file(text: str) -> None:
    """Warn if the text is the name of a file: --text reads files."""
    if os.path.isfile(text):  # also False for a text too long for a file name
        warnings.warn(
            Notice(
                "{text} is the name of a file, but is used as the text itself; to read the file: --text {text}",
                text=text,
            ),
            stacklevel=2,
        )


def check_text(text: str) -> None:
    """Refuse an argument with bytes that are not UTF-8, which Python passes as lone surrogates."""
    if invalid := re.search("[\ud800-\udfff]", text):
        raise Problem(
            "the text holds bytes that are not UTF-8, at character {place}: set the terminal to UTF-8, or type it "
            "again",
            place=invalid.start() + 1,
        )
