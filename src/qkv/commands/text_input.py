"""The text that a verb works on: its argument, what comes through a pipe (-), or what a file holds.

Some verbs take it whole; others take a pipe or a file line by line and give a line for each, in the same order, so that
`cat in.txt | qkv translate - > out.txt` pairs them up: an empty line stays an empty line, and nothing else is printed.
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

Ready = TypeVar("Ready")

PIPE = "-"
TWO_WAYS = _("give the text in one way: as an argument, by - from a pipe, or by --text FILE, as in  {example}")


def text_arguments(parser: argparse.ArgumentParser, means: str, *, nargs: str = "?", lines: bool = False) -> None:
    """The text, and --text FILE. `--file`, the name it had before, still works."""
    add = parser.add_argument
    piped = say("; - takes a line at a time from a pipe") if lines else ""
    add("text", nargs=nargs, help=means + (piped or say("; - takes it from a pipe")))
    each = say("texts from a file, one per line; a line for each comes out")
    add(
        "--text",
        dest="file",
        metavar="FILE",
        help=each if lines else say("a text from a file, or a data set (see qkv data)"),
    )
    add("--file", metavar="FILE", help=argparse.SUPPRESS)


def whole(text: str | None, file: str | None, example: str) -> str:
    """The one text: given as it is, by - or by a file; without the line end that closes it there."""
    if text is not None and file is not None:
        raise Problem(TWO_WAYS, example=example)
    if file is not None or text == PIPE:
        text = re.sub(r"[\r\n]+\Z", "", read(PIPE if file is None else file))
    elif text is not None:
        check(text)
        hint_at_file(text)
    if text is None or not text.strip():
        raise Problem("give a text, as in  {example}", example=example)
    return text


def lines(texts: list[str], file: str | None, example: str) -> list[str] | None:
    """The lines of a pipe or a file; None where the texts are arguments, which must be there then."""
    if (file is not None and texts) or (PIPE in texts and len(texts) > 1):
        raise Problem(TWO_WAYS, example=example)
    if file is not None or texts == [PIPE]:
        rows = read(PIPE if file is None else file).split("\n")  # not splitlines: a form feed ends no line
        return [row.removesuffix("\r") for row in (rows if rows[-1] else rows[:-1])]
    for text in texts or [""]:
        whole(text, None, example)
    return None


def answer_lines(
    what: str,
    rows: list[str],
    prepare: Callable[[str], Ready],
    length: Callable[[Ready], int],
    answer: Callable[[list[Ready]], list[str]],
) -> int:
    """Print a line for each; gives the exit code.

    All are prepared first, so that what can't be answered is told, with its line, before the work begins; an empty line
    stands in its place, and the exit code is 1.
    """
    from ..generation.batching import in_batches

    ready: dict[int, Ready] = {}
    left_out = 0
    for number, row in enumerate(rows):
        try:
            if row.strip():
                ready[number] = prepare(row)
        except Problem as problem:
            echo("line {line}: {problem}", sys.stderr, line=number + 1, problem=problem)
            left_out += 1
    with bar(what) as progress:
        done = 0

        def counted(some: list[Ready]) -> list[str]:
            nonlocal done
            found = answer(some)
            done += len(some)
            progress(done, len(ready))
            return found

        coming = in_batches(list(ready.values()), length, counted)
        for number in range(len(rows)):
            print(one_line(next(coming)) if number in ready else "", flush=True)
    if left_out:
        echo("lines left out, as named above: {n}", sys.stderr, n=left_out)
    return 1 if left_out else 0


def one_line(text: str) -> str:
    r"""An answer that takes one line: its own line ends are written out, as JSON does.

    >>> print(one_line("a\nb"))
    a\nb
    """
    return text.replace("\r", "\\r").replace("\n", "\\n")


def read(source: str | Path) -> str:
    """All of a pipe or a file, which must be UTF-8."""
    if str(source) == PIPE:
        name: object = Message("what came through the pipe")
        raw = _piped()
    else:
        name, path = source, Path(store.locate(str(source)))
        if not str(source) or not path.exists():
            raise Problem(
                "there is no file {file}: --text takes the name of a file; a text itself stands without it, in quotes",
                file=source or '""',
            )
        raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")  # Notepad writes a mark before the text
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
        raise Problem("- reads from a pipe, and there is none")
    if sys.stdin.isatty():
        echo("type the text, then end it with Ctrl-D on a line of its own (Windows: Ctrl-Z and Enter)", sys.stderr)
    return sys.stdin.buffer.read()


def hint_at_file(text: str) -> None:
    """Say how to read a file to somebody who gave its name where the text itself belongs; the name is used as the text."""
    if os.path.isfile(text):  # False, too, for a text that is too long for a name
        warnings.warn(
            Notice(
                "{text} is the name of a file, and its letters are the text here; to read the file: --text {text}",
                text=text,
            ),
            stacklevel=2,
        )


def check(text: str) -> None:
    """Refuse an argument that holds bytes no character has: Python passes them on as halves of a pair."""
    if broken := re.search("[\ud800-\udfff]", text):
        raise Problem(
            "the text holds bytes that are not UTF-8, at character {place}: set the terminal to UTF-8, or type it "
            "again",
            place=broken.start() + 1,
        )
