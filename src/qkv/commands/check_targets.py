"""Targets of `qkv check`: files, names in them, and the arguments of constructors and calls."""

import ast
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..doctor.source.file import read
from ..i18n import Problem, _, all_of, say

ROLES = ("q", "k", "v", "x", "memory", "mask", "lengths", "cache", "start", "frequencies", "positions")


def find_targets(targets: list[str]) -> dict[Path, list[str]]:
    """Return the names to check in each file; [] means everything that looks like attention."""
    names_by_file: dict[Path, list[str]] = {}
    for target in targets:
        split = re.fullmatch(r"(.+?\.(?:py|pyw|ipynb|txt|md))(?::(.*))?", target, re.DOTALL)
        file, name = (split[1], split[2] or "") if split else (target, "")
        if split is None and not Path(target).exists() and ":" in target:
            file, _, name = target.rpartition(":")
        if not file:
            raise Problem("name a file, as in  qkv check mymodel.py")
        if Path(file).is_dir():
            names_by_file |= {part: [] for part in _files_with_attention(Path(file)) if part not in names_by_file}
            continue
        names = [part.strip() for part in name.split(",") if part.strip()]
        previous = names_by_file.get(Path(file))
        is_whole_file = not names or previous == []  # a file without a name means all of it
        names_by_file[Path(file)] = [] if is_whole_file else list(dict.fromkeys([*(previous or []), *names]))
    return names_by_file


SKIPPED = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv", "env"}


def _files_with_attention(folder: Path) -> list[Path]:
    """Return the files below a folder with something that looks like attention, without installed packages."""
    matches, files_read = [], 0
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(
            folder_name for folder_name in folders if not folder_name.startswith(".") and folder_name not in SKIPPED
        )
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")) and not name.startswith("."):
                files_read += 1
                with suppress(Problem, OSError):  # not valid Python
                    if read(Path(path, name)).candidates():
                        matches.append(Path(path, name))
    if not matches:
        raise Problem(
            "in {folder} nothing looks like attention (files read: {seen}); name the file to check",
            folder=folder,
            seen=files_read,
        )
    return matches


class Target(NamedTuple):
    """A class or function, with its line in the file or in a notebook's cell."""

    target: str  # FILE:NAME
    line: int
    cell: int | None


def list_targets(targets: dict[Path, list[str]], as_json: bool) -> int:
    """Print the names that would be checked, with their lines, and return the exit code."""
    listed: list[Target] = []
    for file, names in targets.items():
        source = read(file)
        object_names = names or source.candidates()
        if not object_names:
            raise Problem(
                "{file} holds nothing that looks like attention (a softmax beside a product of matrices); to check a "
                "class or function anyway, name it: qkv check {file}:NAME",
                file=file,
            )
        for name in object_names:
            cell, line = source.place(source.node(name).lineno)
            listed.append(Target(f"{file}:{name}", line, cell))
    if as_json:
        print(json.dumps([target._asdict() for target in listed], ensure_ascii=False, indent=2))
        return 0
    for target, line, cell in listed:
        position = say("line {line}", line=line)
        print(f"{target}  ({position if cell is None else say('cell {cell}, {where}', cell=cell, where=position)})")
    return 0


def read_pairs(option: str, text: str | None, example: str) -> dict[str, object] | None:
    """Return `dim=64,heads=8` as a dict. Values are literals or bare words (strings); nothing is evaluated."""
    if text is None:
        return None
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args and call.keywords
        pairs: dict[str, object] = {}
        for pair in call.keywords:
            assert pair.arg is not None
            pairs[pair.arg] = pair.value.id if isinstance(pair.value, ast.Name) else ast.literal_eval(pair.value)
        json.dumps(pairs)
        return pairs
    except (AssertionError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise _not_pairs(option, text, example) from None


def _not_pairs(option: str, text: str | None, example: str) -> Problem:
    sentence = _("--{option} is {text!r}: write it as name=value pairs, as in --{option} {example}")
    return Problem(sentence, option=option, text=text, example=example)


def read_call(text: str | None) -> dict[str, object] | None:
    """Return `q=a,mask=b` as a dict from roles to the names of arguments in the user's code."""
    example = '"q=a,mask=b"'
    pairs = read_pairs("call", text, example)
    for word, name in (pairs or {}).items():
        if word not in ROLES:
            raise Problem(
                "--call: {word} is none of {roles}; write what it is, then your argument's name, as in --call "
                "{example}",
                word=word,
                roles=all_of(ROLES),
                example=example,
            )
        if not isinstance(name, str):
            raise _not_pairs("call", text, example)
    return pairs
