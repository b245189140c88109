"""Who else uses a class: the definitions of its own file, and the other files of its project."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .file import Source

ROOTS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
MOST_PARENTS = 4
MOST_FILES = 400
LARGEST = 1 << 20  # bytes of a file that is looked into


def used_by(source: Any, name: str) -> str:
    """A class of the file that builds a class, and has a matrix or hands what the class gives to a part that has one; or a
    file that builds it; else ""."""
    if not isinstance(source, Source):
        return ""
    for other, node in source.definitions.items():
        if isinstance(node, ast.ClassDef) and other != name and _builds(node, name):
            if _has_matrix(node) or _hands_on(node, name, source):
                return other
    return used_elsewhere(source, name)


def used_elsewhere(source: Any, name: str) -> str:
    """Another file of the project that has a matrix and builds a class; else ""."""
    if not isinstance(source, Source):
        return ""
    builds = re.compile(rf"\b{re.escape(name)}\s*\(")
    for file, text in _importers(source, name):
        if builds.search(text) and re.search(r"Linear|Dense|Parameter", text):
            return file.name
    return ""


def reached_from_outside(source: Any, name: str, weights: Iterable[str]) -> bool:
    """True if code outside a class uses the layer of one of these weights, such as `self.attention.w_k(memory)`."""
    words = {next(w for w in reversed(name.removesuffix(".weight").split(".")) if not w.isdigit()) for name in weights}
    if not words or not isinstance(source, Source):
        return False
    if any(
        isinstance(node, ast.Attribute) and node.attr in words and getattr(node.value, "id", "") != "self"
        for node in ast.walk(source.tree)
    ):
        return True
    reach = re.compile(rf"(?<!\bself)\.({'|'.join(map(re.escape, words))})\b")
    return any(reach.search(text) for _file, text in _importers(source, name))


def scaled_by_caller(source: Any, name: str) -> str:
    """A definition of the file, or a file that imports it, which calls a function and computes a scale too; else ""."""
    if not isinstance(source, Source):
        return ""
    scales = re.compile(r"\bq\w*\s*(\*=|/=|=\s*q\w*\s*[*/])|l2_?norm|normalize\(|cosine", re.I)
    for other, node in source.definitions.items():
        if other != name and _builds(node, name) and scales.search(ast.unparse(node)):
            return other
    calls = re.compile(rf"\b{re.escape(name)}\s*\(")
    return next((f.name for f, text in _importers(source, name) if calls.search(text) and scales.search(text)), "")


def _importers(source: Source, name: str) -> Iterator[tuple[Path, str]]:
    """The other files of the project that import the class, with their text."""
    stem = re.escape(source.path.stem)
    imports = re.compile(
        rf"^\s*(from\s+[\w.]*\b{stem}\s+import\s+(\(|\*|.*\b{re.escape(name)}\b)|import\s+[\w.]*\b{stem}\b)", re.M
    )
    for file in _project(source.path):
        try:
            text = file.read_text(encoding="utf-8", errors="replace") if file.stat().st_size < LARGEST else ""
        except OSError:
            continue
        if imports.search(text):
            yield file, text


def _builds(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name for n in ast.walk(node))


def _has_matrix(node: ast.AST) -> bool:
    called = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    words = {getattr(f, "attr", getattr(f, "id", "")) for f in called}
    return bool(words & {"Linear", "Dense", "Parameter", "Conv1d", "Conv1D"})


def _hands_on(node: ast.ClassDef, name: str, source: Source) -> bool:
    """True if what the class's object gives goes, as it is, into another part of the file's own that has a matrix."""
    parts = {
        ast.unparse(line.targets[0]): line.value.func.id
        for line in ast.walk(node)
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call) and isinstance(line.value.func, ast.Name)
    }

    def part(call: ast.AST) -> str:
        return parts.get(ast.unparse(call.func).removesuffix(".forward"), "") if isinstance(call, ast.Call) else ""

    results = {
        name_.id
        for line in ast.walk(node)
        if isinstance(line, ast.Assign) and part(line.value) == name
        for target in line.targets
        for name_ in ast.walk(target)
        if isinstance(name_, ast.Name)
    }
    return any(
        (isinstance(value, ast.Name) and value.id in results) or part(value) == name
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and part(call) in source.definitions
        and _has_matrix(source.definitions[part(call)])
        for value in call.args
    )


def _project(path: Path) -> Iterator[Path]:
    """The other Python files of the project: of its root's folder, where one is near, else those beside the file."""
    path = path.resolve()
    near = list(path.parents)[:MOST_PARENTS]
    root = next((folder for folder in near if any((folder / mark).exists() for mark in ROOTS)), None)
    found = root.rglob("*.py") if root is not None else path.parent.glob("*.py")
    for count, file in enumerate(found):
        if count >= MOST_FILES:
            return
        if file != path and not any(part.startswith(".") or part == "site-packages" for part in file.parts):
            yield file
