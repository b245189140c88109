"""What a file imports from other files of its project, by reading alone."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...i18n import Problem

if TYPE_CHECKING:
    from .file import Source

MOST_PARENTS = 4  # folders above a file in which an import is looked for, as loading does


Names = dict[Path, set[str]]  # of each file that was read: the attention that it has


def imported_attention(source: "Source", known: Names) -> set[str]:
    """The words by which a file uses attention that other files of its project define: `attend`, also of `ops.attend`.

    `known` is filled: each file is read once, also where files import each other.
    """
    if not source.path.is_file():
        return set()
    known.setdefault(source.path.resolve(), set())
    words: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                words |= _names_in(_find(source.path, alias.name, 0), known)
        elif isinstance(node, ast.ImportFrom):
            module = _find(source.path, node.module or "", node.level)
            names = _names_in(module, known)
            for alias in node.names:
                below = ".".join(filter(None, (node.module, alias.name)))
                if alias.name == "*":
                    words |= names
                elif alias.name in names:
                    words.add(alias.asname or alias.name)
                elif (inner := _find(source.path, below, node.level)) != module:
                    words |= _names_in(inner, known)
    return words


def project_names(source: "Source") -> set[str]:
    """What a file imports by name from other files of its project."""
    return {
        alias.asname or alias.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and _find(source.path, node.module or "", node.level) is not None
        for alias in node.names
    }


def _names_in(file: Path | None, known: Names) -> set[str]:
    """The attention of a file, and what it imports of it from others."""
    from .file import read
    from .looks import attention_names

    if file is None:
        return set()
    if file not in known:
        known[file] = set()
        try:
            source = read(file)
        except (Problem, OSError):
            return set()
        known[file] = attention_names(source, known) | imported_attention(source, known)
    return known[file]


def _find(path: Path, module: str, level: int) -> Path | None:
    """The file of a module, as Python would find it from a file beside it or below its folder; None if it is installed."""
    for root in _roots(path.resolve().parent, level):
        place = root.joinpath(*module.split(".")) if module else root
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                return file.resolve()
    return None


def _roots(folder: Path, level: int) -> Iterator[Path]:
    if level:
        yield ([folder, *folder.parents])[min(level - 1, len(folder.parents))]
    else:
        yield from [folder, *folder.parents][: MOST_PARENTS + 1]
