"""How a file itself builds and calls what is checked: its demo, its tests, its larger models are run up to that call.

Whoever writes attention most often shows below it how it is used: `print(Cross(32)(torch.randn(2, 10, 32), image))`.
That says more than any name: what is a vector, a mask, a length, a dictionary of weights, and which sizes fit. Only the
lines that such a call needs are run, in a module of their own, counted, and nothing that reaches outside.
"""

import ast
import contextlib
import copy
import functools
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..source.file import Source
from ..source.loading import Loader
from ..source.statements import Statement, reaches_out
from .errors import Spent
from .makers import counted
from .values import settings

LINES = 50_000  # that a demo may run before its call is reached
MOST = 6  # places of a file that are tried
CALLS = 3  # that are looked at
SHOWS = re.compile(
    r"(test|main|demo|example|check|try|run|sanity|smoke)\w*|\w+_(test|demo|example)|_main", re.IGNORECASE
)
WRITES = frozenset(
    "save savez savez_compressed savetxt savefig tofile dump memmap mkdir makedirs remove unlink rmtree rename write "
    "write_text write_bytes to_csv to_json to_pickle save_pretrained".split()
)
METHODS = ("forward", "__call__", "call", "attention", "attend", "compute", "run", "apply", "step")


@dataclass(frozen=True)
class Example:
    """One call that the file makes: what the constructor got (None for a function), and what the call got, by parameter."""

    built: dict[str, Any] | None
    given: dict[str, Any]
    method: str = ""


class _Enough(BaseException):
    """The call was seen: nothing behind it is run."""


@dataclass
class _Recorder:
    found: list[Example] = field(default_factory=list)
    built: dict[int, dict[str, Any]] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)  # so that no id is given out twice
    stop: bool = False

    def called(self, built: dict[str, Any] | None, given: dict[str, Any], method: str = "") -> None:
        if len(self.found) < CALLS:
            self.found.append(Example(built, {name: _copied(one) for name, one in given.items()}, method))
        if self.stop or len(self.found) >= CALLS:
            raise _Enough


def examples(source: Any, name: str) -> list[Example]:
    """The calls of a definition that its own file makes, as far as they can be reached by counting alone."""
    if not isinstance(source, Source) or name not in source.definitions or "site-packages" in str(source.path):
        return []
    before = dict(sys.modules)
    recorder = _Recorder()
    try:
        loader = Loader(source)
        sites = _sites(loader, name)
        if not sites:
            return []
        with settings("float32"), contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng(devices=[]):
            loader.load(name)
            _listen(loader.space, name, recorder)
            for site in sites[:MOST]:
                _run(loader, site, recorder)
    except (KeyboardInterrupt, Spent):
        raise
    except BaseException:  # anybody's code: what can't be run says nothing
        pass
    finally:
        for key in [key for key, module in sys.modules.items() if before.get(key) is not module and key in before]:
            sys.modules[key] = before[key]
    return _distinct(recorder.found)


def _distinct(found: list[Example]) -> list[Example]:
    kept: dict[tuple[Any, ...], Example] = {}
    for one in found:
        kept.setdefault((one.method, tuple((k, getattr(v, "shape", type(v))) for k, v in one.given.items())), one)
    return list(kept.values())


def _run(loader: Loader, site: Statement, recorder: _Recorder) -> None:
    try:
        with counted(LINES, str(loader.source.path)), loader.reading():
            for used in sorted(site.uses):
                if loader.binders(used):
                    with contextlib.suppress(Exception):
                        loader.load(used)
            recorder.stop = True
            exec(site.compiled(loader.source), loader.space)
    except (KeyboardInterrupt, Spent):
        raise
    except BaseException:
        pass
    finally:
        recorder.stop = False


def _sites(loader: Loader, name: str) -> list[Statement]:
    """The lines of the file outside its definitions that call it, by themselves or through others; the nearest first."""
    lines = [s for tier in loader.tiers[:2] for s in tier]
    definitions = [s for s in lines if s.defines and isinstance(s.node, ast.FunctionDef | ast.ClassDef)]
    distance = {name: 0}
    while True:
        new = {
            bound: min(distance[u] for u in s.uses & distance.keys()) + 1
            for s in definitions
            for bound in s.binds - distance.keys()
            if s.uses & distance.keys()
        }
        if not new:
            break
        distance |= new
    objects = {name}  # names that stand for an object of it
    found = []
    for line in lines:
        if line in definitions:
            node = line.node
            if isinstance(node, ast.FunctionDef) and SHOWS.fullmatch(node.name) and line.binds & distance.keys():
                if not node.args.args[: len(node.args.args) - len(node.args.defaults)] and node.name != name:
                    shown = ast.parse(f"{node.name}()").body[0]
                    found.append((distance[node.name], Statement(shown, line.index, loader.source)))
            continue
        if isinstance(line.node, ast.Import | ast.ImportFrom) or not any(
            isinstance(n, ast.Call) for n in ast.walk(line.node)
        ):
            continue
        near = [distance[u] for u in line.uses & distance.keys()]
        if near or line.uses & objects:
            found.append((min(near, default=0), line))
            objects |= line.binds
    safe = [(far, s) for far, s in found if not _outside(loader, s)]
    return [s for _, s in sorted(safe, key=lambda pair: pair[0])]


def _outside(loader: Loader, site: Statement) -> bool:
    """Whether a line, or a function that it may call, reaches outside the file."""
    if site.outside or _writes(site.node):
        return True
    seen: set[str] = set()
    wanted = list(site.uses)
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for binder in loader.binders(name):
            if binder.outside or _writes(binder.node):
                return True
            wanted += binder.uses
    return False


def _writes(node: ast.AST) -> bool:
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any(reaches_out(n) or getattr(n.func, "attr", "") in WRITES for n in calls)


def _listen(space: dict[str, Any], name: str, recorder: _Recorder) -> None:
    """Puts an ear on a function, or on a class's constructor and the methods by which it is called."""
    target = space[name]
    if not inspect.isclass(target):
        space[name] = _heard(target, lambda given: recorder.called(None, given))
        return
    begins = target.__init__

    @functools.wraps(begins)
    def built(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is target:
            recorder.built[id(self)] = _bound(begins, (self, *args), kwargs, skip=1)
            recorder.kept.append(self)
        begins(self, *args, **kwargs)

    target.__init__ = built  # type: ignore[method-assign]
    for method in METHODS:
        if (own := vars(target).get(method)) is None or not inspect.isfunction(own):
            continue

        def note(given: dict[str, Any], method: str = method) -> None:
            owner = next(iter(given.values()))
            if id(owner) in recorder.built:
                rest = dict(list(given.items())[1:])
                recorder.called(recorder.built[id(owner)], rest, method)

        setattr(target, method, _heard(own, note))


def _heard(function: Callable[..., Any], note: Callable[[dict[str, Any]], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def heard(*args: Any, **kwargs: Any) -> Any:
        note(_bound(function, args, kwargs))
        return function(*args, **kwargs)

    return heard


def _bound(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], skip: int = 0) -> dict[str, Any]:
    """Arguments by the names of their parameters; a torch module's own ways of being called are looked through."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # the call itself is wrong: it will say so
        return {}
    found = dict(list(bound.arguments.items())[skip:])
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= found.pop(parameter.name, {})
        elif parameter.kind is parameter.VAR_POSITIONAL:
            found.pop(parameter.name, None)
    return found


def _copied(value: Any) -> Any:
    """As it is now: a cache is filled by the call."""
    try:
        return value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
    except Exception:
        return value


def walk(value: Any) -> Iterator[Any]:
    """Everything in tuples, lists and dicts."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    yield value
    for one in inner:
        yield from walk(one)
