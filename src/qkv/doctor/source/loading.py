"""One name of a user's file as an object, with only those statements run that it needs.

People keep attention in scripts that train as they are imported, read input.txt or parse a command line. So the file is
never imported: its statements are looked at one by one, those that the name needs (and those that these need, …) are
run in order, each guarded, and the rest never. What failed is told only if the name can't do without it.
"""

import argparse
import ast
import contextlib
import copy
import functools
import io
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ...i18n import Message, Problem
from . import standins
from .beside import Module, told
from .file import Definition, Source
from .statements import Statement, assignments, globals_set, is_main, root, run_by, wraps

# The one number of a model that scripts count from a text which they read.
COUNTED = re.compile(r"(\w+_)?(n_?)?(vocab|vocabulary)(_?(size|len|dim))?|n_?tokens?|num_tokens|ntoken", re.IGNORECASE)
SMALL = 61
# What a snippet takes for granted when it is pasted without its imports.
USUAL = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "Tensor": "from torch import Tensor",
    "math": "import math",
    "np": "import numpy as np",
    "copy": "import copy",
    "partial": "from functools import partial",
    "dataclass": "from dataclasses import dataclass",
    **{
        word: f"from typing import {word}" for word in ("Any", "Callable", "Dict", "List", "Optional", "Tuple", "Union")
    },
}


class Loader:
    """Runs what is needed of one file, and remembers what it ran and what failed."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = Module(source)
        self.space = self.module.__dict__
        self.done: set[int] = set()
        self.failed: dict[str, tuple[BaseException, int]] = {}  # name: (why, line)
        self.guessed: dict[str, int] = {}
        self.supplied: list[str] = []  # usual names that the file uses and never imports
        self.wanted: set[str] = set()
        body = list(source.tree.body)
        guarded = [inner for node in body if is_main(node) for inner in node.body]  # type: ignore[attr-defined]
        order = [node for node in body if not is_main(node)]
        mains = [node for node in order if isinstance(node, ast.FunctionDef) and node.name in ("main", "_main")]
        within = [inner for node in mains for inner in assignments(node.body)]
        declared = [
            inner
            for node in order
            if isinstance(node, ast.FunctionDef)
            for inner in globals_set(node)
            if node not in mains
        ]
        # Where a name is sought: the module, then what runs as a script, then what only a function sets.
        self.tiers = [self._statements(nodes) for nodes in (order, guarded, [*within, *declared])]
        imports = [s.binds for tier in self.tiers for s in tier if isinstance(s.node, ast.Import | ast.ImportFrom)]
        self.imported = set().union(*imports)

    def _statements(self, nodes: Iterable[ast.stmt]) -> list[Statement]:
        return [Statement(node, (node.lineno, node.col_offset), self.source) for node in nodes]

    def assignment(self, name: str) -> ast.stmt | None:
        """The last statement that binds a name."""
        for tier in self.tiers:
            if bound := [s for s in tier if name in s.binds]:
                return bound[-1].node
        return None

    def load(self, name: str) -> Any:
        """The object behind a name."""
        if name not in self.space:
            if not self.binders(name) and not self._starred(name):
                raise self.source.absent(name)
            with self.reading():
                self._run(self._plan(name))
        if name not in self.space:
            raise self.why(name)
        return self.space[name]

    def names(self) -> list[str]:
        """The public names that the module binds."""
        return [n for n in dict.fromkeys(n for s in self.tiers[0] for n in s.binds) if not n.startswith("_")]

    def why(self, name: str) -> Problem:
        """Why a name could not be had: the first failure on the way to it."""
        seen = {name}
        error, line = self.failed.get(name, (NameError(f"name {name!r} is not defined"), 0))
        while isinstance(error, NameError) and error.name in self.failed and error.name not in seen:
            seen.add(error.name)
            error, line = self.failed[error.name]
        if isinstance(error, Problem) and not line:
            return error
        return Problem(
            "{name} could not be loaded ({place}):\n  {code}\n{error}",
            name=name,
            error=error if isinstance(error, Problem) else told(error),
            place=self.place(line),
            code=self.source.line(line).strip(),
        )

    def place(self, line: int) -> Message:
        """A line as `file:line`, or as cell and line."""
        cell, within = self.source.place(line)
        file = self.source.path.name
        if cell is None:
            return Message("{file}:{line}", file=file, line=line)
        return Message("{file} cell {cell}, line {line}", file=file, cell=cell, line=within)

    def binders(self, name: str) -> list[Statement]:
        """The statements that give a name its object, from the first tier that has any."""
        for tier in self.tiers:
            bound = [s for s in tier if name in s.binds]
            if not bound:
                continue
            if defining := [s for s in bound if s.defines]:
                # A name that is a function stays one, unless it is wrapped: attend = torch.compile(attend).
                last = defining[-1].index
                return defining + [s for s in bound if s.index > last and wraps(s.node, name)]
            plain = [s for s in bound if not isinstance(s.node, ast.For | ast.While | ast.With)]
            if plain and all(s.is_none for s in plain):
                continue  # a place that running as a script fills
            return plain or bound
        return [s for s in self.tiers[0] if name in s.binds]

    def _starred(self, name: str) -> bool:
        """Whether `from x import *` brings it."""
        if name in self.wanted:  # asked already, by a file that this one asks
            return False
        self.wanted.add(name)
        with self.reading():
            self._run([s for s in self.tiers[0] if s.star])
        return name in self.space

    def _plan(self, name: str) -> list[Statement]:
        """What has to be run for a name, in the order of the file."""
        plan = {id(s): s for s in self.tiers[0] if s.star}
        wanted, seen = [name], set[str]()
        while wanted:
            now = wanted.pop()
            if now in seen or (now in self.space and now not in self.imported):
                continue
            seen.add(now)
            found = self.binders(now)
            if found and now not in self.imported:
                found += [s for tier in self.tiers[:2] for s in tier if now in s.changes and not s.outside]
            for statement in found:
                if id(statement) not in plan:
                    plan[id(statement)] = statement
                    wanted += statement.uses
        self.wanted |= seen
        return sorted(plan.values(), key=lambda s: s.index)

    def _run(self, plan: list[Statement]) -> None:
        """Each in turn; what lacks a name that comes later is tried again."""
        waiting = [s for s in plan if id(s) not in self.done]
        while waiting:
            again = [s for s in waiting if not self._execute(s)]
            if len(again) == len(waiting):
                break
            waiting = again
        unknown = {str(e.name) for e, _ in self.failed.values() if isinstance(e, NameError)}
        lacking = (unknown & USUAL.keys()) - self.space.keys()
        if lacking:  # a snippet without its imports
            for name in sorted(lacking):
                self._supply(name)
            self._run(plan)
            return
        for name in USUAL.keys() - self.space.keys():  # used inside, and bound nowhere
            if re.search(rf"\b{name}\b", self.source.text) and not self.binders(name):
                self._supply(name)
        for name in [name for name in self.failed if COUNTED.fullmatch(name) and name not in self.space]:
            self.space[name] = self.guessed[name] = SMALL

    def _supply(self, name: str) -> None:
        with contextlib.suppress(SyntaxError, ImportError):
            exec(USUAL[name], self.space)
            used = any(name in s.uses for tier in self.tiers for s in tier)  # else it is a local name, or in a comment
            if used and name not in self.supplied and not any(s.star for s in self.tiers[0]):
                self.supplied.append(name)

    def _execute(self, statement: Statement) -> bool:
        """Whether it ran, or never will."""
        if not statement.star:  # which brings more each time more is wanted
            self.done.add(id(statement))
        node, line = statement.node, statement.node.lineno
        if statement.outside and not statement.defines:
            self._fail(
                statement,
                Problem("qkv does not run what calls {call}(), which reaches outside the file", call=statement.outside),
                line,
            )
            return True
        try:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            else:
                self._exec(statement)
        except NameError as error:
            self.done.discard(id(statement))
            self._fail(statement, error, line)
            return False
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit at import, too
            self._fail(statement, error, line_of(error, self.source) or line)
            return True
        for name in statement.binds:
            self.failed.pop(name, None)
        return True

    def _exec(self, statement: Statement) -> None:
        self.module.soft = statement.soft
        self._undecorate(statement)
        try:
            exec(statement.compiled(self.source, marks=statement.defines), self.space)
        except Exception:
            if not statement.defines:
                raise
            # An annotation may need what isn't there; the code below it doesn't.
            exec(statement.compiled(self.source, late_annotations=True, marks=True), self.space)
        finally:
            self.module.soft = False
        # if is_torch_available(): import torch
        for inner in run_by(statement.node) if isinstance(statement.node, ast.If) else ():
            if isinstance(inner, ast.Import | ast.ImportFrom):
                names = {alias.asname or alias.name.split(".")[0] for alias in inner.names}
                if not names & self.space.keys():
                    self._import(inner)

    def _undecorate(self, statement: Statement) -> None:
        """Takes off the decorators of absent packages: the function below them is what is to be checked."""
        for inner in ast.walk(statement.node):
            if isinstance(inner, Definition) and any(map(self._is_absent, inner.decorator_list)):
                statement.node = copy.deepcopy(statement.node)  # the tree stays as the file is
                statement.code.clear()
                break
        else:
            return
        for inner in ast.walk(statement.node):
            if isinstance(inner, Definition):
                inner.decorator_list = [one for one in inner.decorator_list if not self._is_absent(one)]

    def _is_absent(self, decorator: ast.expr) -> bool:
        known = self.space.get(root(decorator.func if isinstance(decorator, ast.Call) else decorator))
        return isinstance(known, standins.Standin) and known.absent

    def _fail(self, statement: Statement, error: BaseException, line: int) -> None:
        for name in statement.binds:
            self.failed[name] = (error, line)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """An import whose absent packages, and absent names in them, get stand-ins."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = self.module.find(alias.name, 0, soft=True, whole=alias.asname is not None)
                self.space[alias.asname or alias.name.split(".")[0]] = top
            return
        if node.module == "__future__":
            return
        found = self.module.find(node.module or "", node.level, soft=True, whole=True)
        for alias in node.names:
            if alias.name == "*":
                self._import_all(found)
                continue
            self.space[alias.asname or alias.name] = self.module.member(found, alias.name, node)

    def _import_all(self, found: Any) -> None:
        """From a package, every public name; from a file beside this one, only those that are wanted."""
        if not isinstance(found, Module):
            for name in _public(found):
                self.space[name] = getattr(found, name)
            return
        for name in sorted(self.wanted):
            if not name.startswith("_") and name not in self.space and not self.binders(name) and found.has(name):
                self.space[name] = getattr(found, name)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """While the file's statements run: an empty command line, and parsers that answer with their defaults."""
        argv, parse = sys.argv, argparse.ArgumentParser.parse_known_args

        @functools.wraps(parse)
        def defaults(parser: Any, args: Any = None, namespace: Any = None) -> Any:
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    return parse(parser, args, namespace)
            except SystemExit:  # required arguments that nobody gave
                known = {a.dest: a.default for a in parser._actions if a.dest != argparse.SUPPRESS}
                return argparse.Namespace(**{dest: value for dest, value in known.items() if dest != "help"}), []

        sys.argv = [str(self.source.path)]
        argparse.ArgumentParser.parse_known_args = defaults  # type: ignore[method-assign, assignment]
        try:
            with standins.loading():
                yield
        finally:
            sys.argv = argv
            argparse.ArgumentParser.parse_known_args = parse  # type: ignore[method-assign]


def line_of(error: BaseException, source: Source) -> int | None:
    """The deepest line of the user's file in a traceback."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(source.path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _public(module: Any) -> list[str]:
    listed = getattr(module, "__all__", None)
    return list(listed) if listed is not None else [n for n in vars(module) if not n.startswith("_")]
