"""A user's file or notebook: its text, its tree, what looks like attention in it, and any of its names as an object.

Nothing runs when a file is read. `load` runs only what one name needs: see loading.py.

>>> source = parse('''
... import torch
... def attend(q, k, v):
...     return torch.softmax(q @ k.mT / 8, -1) @ v
... print("training for an hour")
... ''')
>>> source.candidates(), source.segment("attend")
(['attend'], (3, 4))
"""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...i18n import Problem, _

if TYPE_CHECKING:
    from .loading import Loader

LARGEST = 64 << 20  # bytes; notebooks carry their pictures
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(eq=False)
class Source:
    """One file as Python: `text`, its `lines`, its `tree`."""

    path: Path
    text: str
    tree: ast.Module
    starts: list[int] = field(default_factory=list)  # of a notebook: the line before each code cell
    broken: dict[int, str] = field(default_factory=dict)  # of a notebook: cells that are no Python, and why

    @cached_property
    def lines(self) -> list[str]:
        """The text line by line; line n is lines[n - 1]."""
        return self.text.split("\n")

    def place(self, line: int) -> tuple[int | None, int]:
        """(cell, line within it) of a line of the text; the cell is None where the file has none.

        Code cells are counted from 1, as a notebook run from top to bottom numbers them.
        """
        if not self.starts:
            return None, line
        cell = sum(start < line for start in self.starts)
        return cell, line - self.starts[cell - 1]

    def line(self, number: int | None) -> str:
        """The text of a line, or "" past the ends."""
        return self.lines[number - 1] if number and 0 < number <= len(self.lines) else ""

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Classes and functions by name, those under `if` and `try` too; of two with a name, the later."""
        return {node.name: node for node in _definitions(self.tree.body)}

    def node(self, name: str) -> ast.stmt:
        """What defines a name: `Class`, `function`, `Class.method`, or a name that something is assigned to."""
        first, *rest = name.split(".")
        found: ast.stmt | None = self.definitions.get(first)
        for part in rest:
            inside = {node.name: node for node in _definitions(getattr(found, "body", []))}
            found = inside.get(part)
        if found is None and not rest:
            found = self.loader.assignment(name)
        if found is None:
            raise self.absent(name)
        return found

    def segment(self, name: str) -> tuple[int, int]:
        """First and last line of a definition, decorators included."""
        node = self.node(name)
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        return first, node.end_lineno or node.lineno

    def edited(self, edits: Iterable[tuple[int, int, str]]) -> "Source":
        """The file with other text from here to there; a notebook's cells stay where they are."""
        text = self.text
        for begin, end, new in sorted(edits, reverse=True):
            text = text[:begin] + new + text[end:]
        return Source(self.path, text, _tree(text, self.path), self.starts, self.broken)

    def candidates(self) -> list[str]:
        """The names that look like attention, the most central first; see looks.py."""
        from .looks import candidates

        return candidates(self)

    def load(self, name: str) -> Any:
        """The object of that name, with only what it needs run; a `Problem` says why it can't be had."""
        first, *rest = name.split(".")
        found = self.loader.load(first)
        for part in rest:
            if not hasattr(found, part):
                raise self.absent(name)
            found = getattr(found, part)
        return found

    @cached_property
    def loader(self) -> "Loader":
        """What runs this file's statements; it remembers what it has run."""
        from .loading import Loader

        return Loader(self)

    def absent(self, name: str) -> Problem:
        """The problem of a name that isn't there: it says what is, and the nearest."""
        from ...i18n import all_of, nearest

        there = list(dict.fromkeys([*self.candidates(), *self.definitions]))
        if not there:
            return Problem("{file} has no {name}, nor any other class or function", file=self.path.name, name=name)
        lower = {one.lower(): one for one in reversed(there)}
        near = lower.get(nearest(name.lower(), lower), "")
        key = (
            _("{file} has no {name}; did you mean {near}? (it has {there})")
            if near
            else _("{file} has no {name}; it has {there}")
        )
        return Problem(key, file=self.path.name, name=name, near=near, there=all_of(there[:12]))


def read(path: Path | str) -> Source:
    """A .py file or a notebook; a `Problem` says why it can't be read, with the line where it is no Python."""
    path = Path(path)
    if path.is_dir():
        inside = sorted(file.name for file in path.iterdir() if file.suffix in (".py", ".ipynb"))[:6]
        raise Problem(
            _("{file} is a folder: name one of its files, such as {inside}")
            if inside
            else _("{file} is a folder without a .py file or a notebook: name the file to check"),
            file=path,
            inside=", ".join(inside),
        )
    if not path.exists():
        raise Problem("there is no file {file}", file=path)
    if not path.is_file():
        raise Problem("{file} is not a file that can be read", file=path)
    if path.stat().st_size > LARGEST:
        raise Problem(
            "{file} is larger than {most} MB: put the attention into a file of its own", file=path, most=LARGEST >> 20
        )
    raw = path.read_bytes()
    if path.suffix == ".ipynb":
        return _notebook(path, raw)
    if b"\0" in raw[:4096] and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Problem("{file} is not text: give a .py file or a notebook (.ipynb)", file=path)
    return parse(_decoded(raw), path)


def parse(text: str, path: Path | str = "<text>") -> Source:
    """Python from a text; lines of IPython's (`!pip …`, `%matplotlib`) are blanked if it can't be read otherwise."""
    path = Path(path)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    error: SyntaxError | None = None
    for way in (str, _without_magics, lambda t: t.expandtabs(8), lambda t: t.expandtabs(4)):
        attempt = way(text)
        try:
            return Source(path, attempt, _tree(attempt, path))
        except SyntaxError as wrong:
            error = error or wrong
    assert error is not None
    line = error.lineno or 1
    shown = (error.text or [*text.split("\n"), ""][line - 1]).strip()
    raise Problem(
        "{file}:{line} is not Python, so nothing in it can be run ({error}):\n  {code}",
        file=path,
        line=line,
        code=shown,
        error=error.msg,
    )


def _tree(text: str, path: Path) -> ast.Module:
    try:
        return ast.parse(text, str(path))
    except (RecursionError, MemoryError, ValueError) as error:
        raise SyntaxError(str(error) or "too deeply nested") from None


def _decoded(raw: bytes) -> str:
    """Text in the encoding that it names, else UTF-8, else what Chinese and Western editors used to write."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    try:
        named = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
    except SyntaxError:
        named = "utf-8"
    for encoding in (named, "utf-8", "gb18030"):
        try:
            return raw.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return raw.decode("latin-1")


def _notebook(path: Path, raw: bytes) -> Source:
    """The code cells one below the other; a cell that is no Python is left out and remembered."""
    try:
        whole = json.loads(_decoded(raw))
        cells = whole["cells"] if "cells" in whole else [c for sheet in whole["worksheets"] for c in sheet["cells"]]
        code = [cell.get("source", cell.get("input", "")) for cell in cells if cell.get("cell_type") == "code"]
        texts = [text if isinstance(text, str) else "".join(text) for text in code]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Problem(
            "{file} is not a notebook: it should be JSON with `cells`; save it again in Jupyter", file=path
        ) from None
    lines: list[str] = []
    starts: list[int] = []
    broken: dict[int, str] = {}
    for number, text in enumerate(texts, 1):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        starts.append(len(lines))
        try:
            tree = parse(_without_cell_magic(text), path).text
        except Problem as problem:
            broken[number] = str(problem.values["error"])
            tree = "\n" * text.count("\n")
        lines += tree.split("\n")
    joined = "\n".join(lines)
    return Source(path, joined, _tree(joined, path), starts, broken)


def _without_cell_magic(text: str) -> str:
    """A cell under %%time or %%writefile x.py is Python; one under %%bash or %%html is none of ours."""
    first = re.match(r"\s*%%(\w+).*", text)
    if first is None:
        return text
    if first[1] in ("time", "timeit", "capture", "prun", "python", "python3", "py", "script", "memit", "mprun"):
        return "\n" * first[0].count("\n") + text[first.end() :]
    if first[1] in ("writefile", "file") and first[0].rstrip().endswith(".py"):
        return "\n" * first[0].count("\n") + text[first.end() :]
    return "\n" * text.count("\n")


def _without_magics(text: str) -> str:
    """Lines only IPython reads, made into `pass`, or into None where something is assigned; no line is moved."""
    kept = []
    for line in text.split("\n"):
        if re.match(r"\s*([%!]|\?+\w)", line) or re.match(r"\s*[\w.]+\?+\s*$", line):
            line = line[: len(line) - len(line.lstrip())] + "pass"
        else:
            line = re.sub(r"^(\s*[\w, ]+=\s*)[!%].*$", r"\1None", line)
        kept.append(line)
    return "\n".join(kept)


def _definitions(body: list[ast.stmt]) -> Iterator[Definition]:
    """Definitions of a body and of the blocks in it, but not of the functions in it."""
    for node in body:
        if isinstance(node, Definition):
            yield node
        else:
            for block in ("body", "handlers", "orelse", "finalbody"):
                for inner in getattr(node, block, []):
                    yield from _definitions(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])
