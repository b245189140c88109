"""The masks that a file makes for its attention, found by running what makes them.

What True means can't be read off words: `mask = triu(ones, 1)` says "block", and `return mask == 0` two lines below says
"keep". So every function, lambda, buffer and line of the file that makes a mask and hands it on is run, on texts of which
the last words are padding, and what came is looked at: which half of a triangle is true, which columns are.
"""

import ast
import builtins
import contextlib
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..source.file import Definition, Source
from ..source.statements import OUTSIDE
from .errors import Spent
from .made import Made
from .scenes import MASKY, NOT_MASKS, Scene, scenes, speaks_of_masks
from .values import settings

MOST = 40  # makers of one file that are run
LINES = 50_000  # that each may run: a loop over a text's words is short, one without end is cut


def masks(source: Source, target: str) -> list[Made]:
    """Every mask that the file makes for others than the target itself; [] where it makes none, or nothing can be run."""
    inside = _inside(source, target)
    makers = [
        maker
        for scope in _scopes(source, inside)
        for maker in scope.makers()
        if _goes_on(maker, source) and _may_reach(maker, source, target)
    ][:MOST]
    found: list[tuple[_Maker, list[Made]]] = []
    for maker in makers:
        try:
            if made := maker.run():
                found.append((maker, made))
        except (KeyboardInterrupt, Spent):
            raise
        except BaseException:  # anybody's code: what can't be run says nothing
            continue
    # What only goes into another mask is no mask that attention gets.
    parts = {part for maker, _ in found for part in maker.parts}
    return [one for maker, made in found if maker.key not in parts or maker.handed for one in made]


def _goes_on(maker: "_Maker", source: Source) -> bool:
    """True unless an object keeps the mask for itself: as a factor, as a ReLU does (`x * self.mask`), or to turn it round
    (`~self.mask`), so that what it hands on is another mask."""
    name, owner = re.escape(maker.name), maker.scope.owner
    if owner is None or not maker.name.startswith("self."):
        return True
    turned = rf"(~|\bnot |logical_not\(|\b1(\.0)? - ){name}\b|\b{name}\b(\[[^\]]*\])? == (0|False)"
    return not (re.search(rf"\*\s*{name}\b|\b{name}\s*\*", source.text) or re.search(turned, ast.unparse(owner)))


def _may_reach(maker: "_Maker", source: Source, target: str) -> bool:
    """True unless it is a mask that another class keeps for itself: one that does not use the target, or what uses it."""
    owner = maker.scope.owner
    read = (
        {_path(n) for n in ast.walk(owner) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}
        if owner
        else ()
    )
    if owner is None or not (maker.name.startswith("self.") and maker.name in read):
        return True
    reached, ahead = {owner.name}, [owner.name]
    while ahead:
        node = source.definitions.get(ahead.pop())
        names = {_path(n).split(".")[0] for n in ast.walk(node) if isinstance(n, ast.Name)} if node else set()
        ahead += (names & source.definitions.keys()) - reached
        reached |= names
    return target.split(".")[0] in reached


def made_by(source: Source, name: str) -> list[Made]:
    """What a function of the file makes; [] where it does more than count with tensors, or makes no masks."""
    for scope in _scopes(source, set()):
        if scope.node is source.definitions[name]:
            return _Maker(scope, name, scope.node.lineno).run(told=False) if scope.harmless(scope.node) else []
    return []


def handed(source: Source, target: str, parameters: list[str], wanted: list[str]) -> list[Made]:
    """What the file hands to the target's mask arguments where it calls it, whatever it calls that."""
    found = []
    for scope in _scopes(source, _inside(source, target)):
        scope.loose = True
        for call in (n for n in scope.lines if isinstance(n, ast.Call) and scope.calls(n, target)):
            given = [*zip(parameters, call.args, strict=False), *((k.arg or "", k.value) for k in call.keywords)]
            for parameter, value in given:
                if parameter in wanted and not isinstance(value, ast.Constant | ast.Starred) and scope.harmless(value):
                    maker = _Maker(scope, _path(value) or parameter, value.lineno, value, parameter)
                    found += maker.run(told=False)
    return found


def _inside(source: Source, target: str) -> set[int]:
    """The target's own lines: what it makes for itself shows when it runs. A method that it never calls is for others."""
    node = source.definitions.get(target.split(".")[0])
    if node is None:
        return set()
    own = {id(n) for n in ast.walk(node)}
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        calls = {
            _last(n.func)
            for other in node.body
            if other is not method
            for n in ast.walk(other)
            if isinstance(n, ast.Call)
        }
        if isinstance(method, ast.FunctionDef) and MASKY.search(method.name) and method.name not in calls:
            own -= {id(n) for n in ast.walk(method)}
    return own


@dataclass
class _Maker:
    """Something that makes a mask: a function that is called, or an expression with the lines before it that it needs."""

    scope: "_Scope"
    name: str
    line: int
    expression: ast.expr | None = None  # None: the scope's function itself
    given: str = ""
    bound: bool = True  # to a name that other lines may read, and
    handed: bool = False  # that goes to somebody as it is

    @property
    def key(self) -> tuple[int, str]:
        """How other makers speak of it: a function by its name, a variable by its scope too."""
        if not self.bound:
            return id(self.expression), ""
        return (0 if self.expression is None else id(self.scope.node)), self.name

    @property
    def parts(self) -> set[tuple[int, str]]:
        """The functions and names that it is made of."""
        nodes: list[ast.AST] = (
            [self.expression, *self.scope.before(self.expression)] if self.expression else [self.scope.node]
        )
        called = {(0, _last(n.func)) for node in nodes for n in ast.walk(node) if isinstance(n, ast.Call)}
        read = {
            (id(self.scope.node), _path(n))
            for node in nodes
            for n in ast.walk(node)
            if isinstance(n, ast.Name | ast.Attribute)
        }
        return called | (read if self.expression is not None else set()) - {self.key}

    def run(self, told: bool = True) -> list[Made]:
        """What it makes; `told`: only masks that say what they keep."""
        for scene in scenes():
            try:
                with settings("float32"), torch.no_grad(), counted(LINES):
                    value = (
                        self.scope.call(scene) if self.expression is None else self.scope.value(self.expression, scene)
                    )
            except (KeyboardInterrupt, Spent):
                raise
            except BaseException:
                continue
            names = self.scope.returned() if self.expression is None else []
            values = list(value) if isinstance(value, tuple | list) else [value]
            labels = names if len(names) == len(values) > 1 else [self.name] * len(values)
            found = [
                Made(label, self.line, array, self.given)
                for label, one in zip(labels, values, strict=True)
                if (array := _array(one)) is not None
            ]
            says = [one for one in found if any(one.lets(m) is not None for m in ("keep", "additive"))]
            if says or (found and not told):
                return says or found
        return []


class _File:
    """What is looked up again and again in a file: its functions by name, and the classes of its objects."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.functions: dict[str, list[ast.FunctionDef]] = {}
        self.objects: dict[str, str] = {}  # self.attn: "nn.MultiheadAttention"
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name, []).append(node)
            for name, value in _bindings(node):
                while isinstance(value, ast.Call) and isinstance(getattr(value.func, "value", None), ast.Call):
                    value = value.func.value  # type: ignore[attr-defined]
                if isinstance(value, ast.Call) and _last(value.func)[:1].isupper():
                    self.objects.setdefault(name, _path(value.func))


class _Scope:
    """A function, or the file itself, whose lines may make masks."""

    def __init__(self, file: "_File", node: Any, owner: ast.ClassDef | None, inside: set[int]) -> None:
        self.file, self.source, self.node, self.owner, self.inside = file, file.source, node, owner, inside
        self.lines = [n for n in _own(node) if id(n) not in inside]
        self.loose = False  # functions of the file's own count whatever they are called

    def makers(self) -> Iterator[_Maker]:
        node = self.node
        if (
            isinstance(node, ast.FunctionDef)
            and speaks_of_masks(node.name)
            and id(node) not in self.inside
            and self.harmless(node)
        ):
            yield _Maker(self, node.name, node.lineno)
        last: dict[str, _Maker] = {}
        for line in self.lines:
            for name, value in _bindings(line):
                if speaks_of_masks(name) and isinstance(value, ast.Lambda) and node is self.source.tree:
                    if not self.harmless(value):
                        continue
                    yield _Maker(_Scope(self.file, value, None, self.inside), name, line.lineno)
                elif speaks_of_masks(name) and self.harmless(value) and not isinstance(value, ast.Name | ast.Constant):
                    last[name] = _Maker(self, name, line.lineno, value, handed=self.handed(name))
        # What is kept on an object or handed to somebody counts; a mask that only thins out a loss does not.
        yield from (maker for maker in last.values() if maker.handed)
        for call in (n for n in self.lines if isinstance(n, ast.Call) and self.consumer(n)):
            for given, value in [*((k.arg or "", k.value) for k in call.keywords), *(("", a) for a in call.args)]:
                inner = next(
                    (
                        _path(n)
                        for n in ast.walk(value)
                        if isinstance(n, ast.Name | ast.Attribute) and speaks_of_masks(_path(n))
                    ),
                    "",
                )
                named = inner or (given if speaks_of_masks(given) else "")
                if (
                    named
                    and not isinstance(value, ast.Name | ast.Attribute | ast.Constant | ast.Starred)
                    and self.harmless(value)
                ):
                    yield _Maker(self, named, value.lineno, value, given, bound=False)

    def calls(self, call: ast.Call, target: str) -> bool:
        """Whether a call is one of the target: of the function, of an object of that class, by its name or on the spot."""
        made = call.func
        while (
            isinstance(made, ast.Call)
            and isinstance(made.func, ast.Attribute)
            and isinstance(made.func.value, ast.Call)
        ):
            made = made.func.value  # Attention(8).eval()
        if isinstance(made, ast.Call):
            return _last(made.func) == target
        function = isinstance(self.source.definitions.get(target), ast.FunctionDef)
        return target == (_path(made) if function else self.file.objects.get(_path(made), "").split(".")[-1])

    def handed(self, name: str) -> bool:
        if "." in name or self.node is self.source.tree:
            return True
        for line in self.lines:
            given = (
                [*line.args, *(k.value for k in line.keywords)]
                if isinstance(line, ast.Call) and self.consumer(line)
                else []
            )
            if any(_path(one) == name for one in given):
                return True
        return False

    def consumer(self, call: ast.Call) -> bool:
        """Whether a call may be one of somebody's attention: not torch's own, not a loss, not a tensor's method."""
        name, root = _path(call.func), _path(call.func).split(".")[0]
        if not name or speaks_of_masks(name) or NOT_MASKS.search(name) or root in LIBRARIES or hasattr(builtins, name):
            return False
        made = self.file.objects.get(name, "")
        return made.split(".")[0] not in LIBRARIES and (bool(made) or root == "self" or "." not in name)

    def harmless(self, value: ast.AST, within: tuple[str, ...] = ()) -> bool:
        """Whether it only counts: with tensors, numbers, and makers of masks that do the same. Nothing else is run."""
        for node in ast.walk(value):
            if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.Import | ast.ImportFrom):
                return False
            if isinstance(node, ast.Call) and not self._counts(node, within):
                return False
        return True

    def _counts(self, call: ast.Call, within: tuple[str, ...]) -> bool:
        name, last = _path(call.func), _last(call.func)
        root = name.split(".")[0]
        if last in OUTSIDE or WRITES & {last, *name.split(".")}:
            return False
        if name in COUNTS or (root in LIBRARIES and root not in self.source.definitions):
            return True
        own = self.file.functions.get(last, [])
        if own and (speaks_of_masks(last) or self.loose):
            return last in within or all(self.harmless(n, (*within, last)) for n in own)
        # A method of whatever stands there: one that tensors have, of nothing that was imported.
        tensors = hasattr(torch.Tensor, last) or hasattr(np.ndarray, last) or last in ("append", "items", "keys", "get")
        return isinstance(call.func, ast.Attribute) and tensors and root not in self.source.loader.imported

    def before(self, expression: ast.expr) -> list[ast.stmt]:
        """The lines above that it needs, in order."""
        needed = {_path(n) for n in ast.walk(expression) if isinstance(n, ast.Name | ast.Attribute)}
        found: list[ast.stmt] = []
        for line in reversed([n for n in self.lines if isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign)]):
            if line.lineno > expression.lineno or any(n is expression for n in ast.walk(line)):
                continue
            bound = {name for name, _ in _bindings(line)}
            if bound & needed and self.harmless(line.value or line):
                found.append(line)
                needed |= {_path(n) for n in ast.walk(line) if isinstance(n, ast.Name | ast.Attribute)}
        return found[::-1]

    def value(self, expression: ast.expr, scene: "Scene") -> Any:
        space = _Space(self, scene)
        lines = [*self.before(expression), ast.Assign([ast.Name("_mask_", ast.Store())], expression)]
        module = ast.fix_missing_locations(ast.Module([_plain(line) for line in lines], []))
        exec(compile(module, str(self.source.path), "exec"), {}, space)
        return space["_mask_"]

    def call(self, scene: "Scene") -> Any:
        """The function itself, each argument by its name."""
        if isinstance(self.node, ast.Lambda):
            name = next(n for line in self.source.tree.body for n, v in _bindings(line) if v is self.node)
            function = self.source.load(name)
        elif self.owner is not None:
            static = inspect.getattr_static(self.source.load(self.owner.name), self.node.name)
            function = inspect.unwrap(static.__func__ if isinstance(static, staticmethod | classmethod) else static)
        else:
            function = self.source.load(self.node.name)
        given: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name in ("self", "cls"):
                given[parameter.name] = _Self(self, scene)
            elif parameter.default is parameter.empty and parameter.kind in (
                parameter.POSITIONAL_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
                parameter.KEYWORD_ONLY,
            ):
                given[parameter.name] = scene.guess(parameter.name)
        return function(**given)

    def returned(self) -> list[str]:
        """What the function calls the several things that it gives back."""
        for line in reversed(self.lines):
            if isinstance(line, ast.Return) and isinstance(line.value, ast.Tuple):
                return [_path(n) for n in line.value.elts]
        return []


class _Space(dict):
    """The names that a line reads: those set before it, the file's own, else a guess."""

    def __init__(self, scope: _Scope, scene: Scene) -> None:
        super().__init__()
        self.scope, self.scene = scope, scene

    def __missing__(self, name: str) -> Any:
        if name in ("self", "cls"):
            self[name] = _Self(self.scope, self.scene)
            return self[name]
        if name in COUNTS:
            raise KeyError(name)
        parameters = {
            a.arg for a in ast.walk(getattr(self.scope.node, "args", ast.Module([], []))) if isinstance(a, ast.arg)
        }
        own = name in self.scope.source.definitions  # a function: make_pad_mask
        if name not in parameters and (own or not re.search(r"pad", name, re.IGNORECASE)):
            try:
                return self.scope.source.load(name)
            except Exception:
                pass
        self[name] = self.scene.guess(name)
        return self[name]


class _Self:
    """An object of the scope's class that was never built: its own methods, and guesses for what it would hold."""

    def __init__(self, scope: _Scope, scene: Scene) -> None:
        self.__dict__.update(_scope=scope, _scene=scene)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if (owner := self._scope.owner) is not None:
            kind = self._scope.source.load(owner.name)
            static = inspect.getattr_static(kind, name, None)
            if inspect.isfunction(static):
                return types.MethodType(static, self)
            if static is not None:
                return getattr(kind, name)
            for line in (n for method in owner.body for n in _own(method)):  # a buffer, made in __init__
                for bound, value in _bindings(line):
                    if bound == f"self.{name}" and speaks_of_masks(name):
                        builder = next(m for m in owner.body if any(n is line for n in _own(m)))
                        return _Scope(self._scope.file, builder, owner, set()).value(value, self._scene)
        return self._scene.guess(name)


WRITES = frozenset(
    "save savez savez_compressed savetxt tofile dump load memmap fromfile hub jit compile utils io".split()
)
LIBRARIES = frozenset("torch np numpy math F nn jnp einops Variable".split())
COUNTS = frozenset(
    "int float bool len range max min abs sum tuple list slice Variable isinstance getattr map zip enumerate sorted".split()
)


OURS = {__file__, inspect.getfile(Scene), ast.__file__, contextlib.__file__}


@contextlib.contextmanager
def counted(lines: int, file: str = "") -> Iterator[None]:
    """Stops what runs more lines than that; counted, so that it is the same on every machine.

    What is ours doesn't count: how large the file around a maker is changes nothing. With a file: its own lines count, and
    one for each call elsewhere.
    """
    left = lines

    def count(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename in OURS:
            return None
        left -= 1
        if left < 0:
            raise RuntimeError(f"more than {lines} lines")
        return count if not file or frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


def _scopes(source: Source, inside: set[int]) -> Iterator[_Scope]:
    """Functions first: what is called in the file's own lines is theirs."""
    file = _File(source)
    owners = {id(m): c for c in ast.walk(source.tree) if isinstance(c, ast.ClassDef) for m in c.body}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            yield _Scope(file, node, owners.get(id(node)), inside)
    yield _Scope(file, source.tree, None, inside)


def _own(node: Any) -> list[Any]:
    """Everything in a body in the order of its lines, but nothing of the functions and classes in it."""
    found: list[Any] = []
    body = node.body if isinstance(getattr(node, "body", None), list) else []
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        one = stack.pop()
        if isinstance(one, Definition | ast.Lambda):
            continue
        found.append(one)
        stack += reversed(list(ast.iter_child_nodes(one)))
    return found


def _bindings(line: ast.AST) -> Iterable[tuple[str, ast.expr]]:
    """The names a line binds, self's too, and to what; of `a, b = …` the whole right side."""
    if isinstance(line, ast.Assign):
        for target in line.targets:
            several = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            values = (
                line.value.elts
                if isinstance(line.value, ast.Tuple) and len(line.value.elts) == len(several)
                else [line.value] * len(several)
            )
            yield from ((_path(one), value) for one, value in zip(several, values, strict=True))
    elif isinstance(line, ast.AnnAssign | ast.AugAssign) and line.value is not None:
        yield _path(line.target), line.value
    elif isinstance(line, ast.Call) and _last(line.func) == "register_buffer" and len(line.args) >= 2:
        if isinstance(line.args[0], ast.Constant):
            yield f"self.{line.args[0].value!s}", line.args[1]


def _plain(line: ast.stmt) -> ast.stmt:
    """`self.x = …` and `x: T = …` as they can be run without the object."""
    return ast.Assign([line.target], line.value) if isinstance(line, ast.AnnAssign) and line.value is not None else line


def _path(node: ast.AST | None) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (root := _path(node.value)):
        return f"{root}.{node.attr}"
    return ""


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _array(value: Any) -> np.ndarray | None:
    """A mask's numbers: true and false, 0 and 1, or 0 and very low; None of anything else."""
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    if not isinstance(value, np.ndarray) or value.ndim < 2 or value.dtype.kind not in "biuf" or not value.size:
        return None
    low = value < -100 if value.dtype.kind == "f" else np.zeros(value.shape, bool)
    return value if ((value == 0) | (value == 1) | low).all() else None
