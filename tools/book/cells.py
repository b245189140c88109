"""Run the script of a chapter, once for both languages: the output of each cell, and values for the prose.

    # %% scores              begins a cell; pages refer to it by this name
    # %% trained slow        … a slow cell; its output and values are stored in softmax.kept.json

Cells share variables. `make docs` does not run slow cells: it takes their output and plain values (numbers, texts, lists of
them) from the stored file, if the hash of code and versions matches.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import platform
import re
import tempfile
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from qkv.library import store as library

BEGIN = re.compile(r"^# %% *(\w+)( slow)?$", re.MULTILINE)
PLAIN = (bool, int, float, str, type(None))
VERSIONS = ("torch", "numpy", "qkv")  # packages that determine the numbers
FETCHED = ("minilm", "shakespeare")  # models and data that slow cells load by name


class Stale(Exception):
    """The stored result of a slow cell is missing, or comes from other code."""


@dataclass(frozen=True)
class Cell:
    """One part of a script."""

    name: str
    code: str
    line: int  # where its code begins
    slow: bool


@dataclass
class Chapter:
    """A script that was run."""

    path: Path
    cells: dict[str, Cell]
    printed: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


def cells(path: Path) -> dict[str, Cell]:
    """Return the cells of a script, in order. The docstring before the first is not run."""
    text = path.read_text(encoding="utf-8")
    begins = list(BEGIN.finditer(text))
    ends = [*(match.start() for match in begins[1:]), len(text)]
    parts = {}
    for begin, end in zip(begins, ends, strict=True):
        code, line = text[begin.end() + 1 : end].rstrip() + "\n", text.count("\n", 0, begin.end()) + 2
        if begin[1] in parts:
            raise ValueError(f"{path}: two cells are called {begin[1]}")
        parts[begin[1]] = Cell(begin[1], code, line, bool(begin[2]))
    return parts


def run(path: Path, slow: bool = False) -> Chapter:
    """Run a script; with `slow`, also run slow cells and store their results next to it."""
    chapter = Chapter(path, cells(path), values={"__name__": "__main__", "__file__": str(path)})
    store = path.with_suffix(".kept.json")
    stored = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    results = {}
    for cell in chapter.cells.values():
        if cell.slow and not slow:
            chapter.printed[cell.name], values = _load_stored(stored, chapter, cell)
            chapter.values |= values
            continue
        if cell.slow:
            _fetch(cell)
        before = dict(chapter.values)
        chapter.printed[cell.name] = _run(cell, path, chapter.values)
        if cell.slow:
            changed = {
                name: chapter.values[name] for name in chapter.values if chapter.values[name] is not before.get(name)
            }
            values = {name: value for name, value in changed.items() if name[0] != "_" and _plain(value)}
            results[cell.name] = {"of": _hash(chapter, cell), "on": platform.machine(), "versions": _versions()}
            results[cell.name] |= {"printed": chapter.printed[cell.name], "values": values}
    if results:
        store.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return chapter


def _fetch(cell: Cell) -> None:
    """Fetch the models and data that a slow cell loads, unless they are in the cache."""
    for name in FETCHED:
        if f'"{name}"' in cell.code and library.path(name) is None:
            library.get(name)


def _run(cell: Cell, path: Path, values: dict[str, Any]) -> str:
    printed = io.StringIO()
    code = compile("\n" * (cell.line - 1) + cell.code, str(path), "exec")  # errors name the line of the file
    with contextlib.redirect_stdout(printed):
        exec(code, values)
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip().split("\n"))


def _load_stored(stored: dict[str, Any], chapter: Chapter, cell: Cell) -> tuple[str, dict[str, Any]]:
    entry = stored.get(cell.name)
    if entry is None or entry["of"] != _hash(chapter, cell):
        reason = "was never run" if entry is None else "changed since it was run (code or versions)"
        raise Stale(f"{chapter.path}: the slow cell {cell.name} {reason}: run make docs-all")
    return entry["printed"], entry["values"]


def _hash(chapter: Chapter, cell: Cell) -> str:
    """Return a hash of all code up to the end of a cell, and of the versions."""
    names = list(chapter.cells)
    code = [chapter.cells[name].code for name in names[: names.index(cell.name) + 1]]
    return hashlib.sha256("\n".join([*code, json.dumps(_versions())]).encode()).hexdigest()[:16]


def _versions() -> dict[str, str]:
    return {name: metadata.version(name).split("+")[0] for name in VERSIONS}


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_plain, value.values()))
    if isinstance(value, str) and value.startswith(tempfile.gettempdir()):
        return False  # a temporary folder
    return isinstance(value, PLAIN)
