"""What the file around the target says: its masks, its padding ids, and the helpers that callers hand over."""

import ast
import contextlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ...watching import Operation, Watcher
from ..case import Case
from ..source.nodes import path
from ..source.standins import Standin
from ..subject.building import re_module
from ..subject.errors import CannotRun, UserError
from ..subject.subject import Subject


def source_of(target: Any) -> Any:
    """The file an object came from, read as `qkv check` reads it; None where there is none."""
    from ..source import file as reading

    try:
        thing = target if inspect.isclass(target) or inspect.isroutine(target) else type(target)
        return reading.read(inspect.getsourcefile(thing) or "")
    except Exception:
        return None


HELPERS = r"cache|freq|rope|rotary|precompute|cos_sin|config|args|alibi"


def around(space: dict[str, Any], source: Any) -> dict[str, Any]:
    """Loads the file's caches, configurations and makers of tables too: the target may need them from its caller."""
    if source is None or not hasattr(source, "definitions"):
        return space
    imported = [a.asname or a.name for n in source.tree.body if isinstance(n, ast.ImportFrom) for a in n.names]
    others = [n for n in source.definitions if re.search(HELPERS, n.lower())]
    others += [n for n in imported if re.search(r"config$|args$", n.lower())]
    others += _quoted(source) + _handed_over(source)
    for other in others:
        if "." not in other and other not in space:
            try:
                space[other] = source.load(other)
            except Exception:
                continue
    return space


def _quoted(source: Any) -> list[str]:
    """Classes of the file that stand in an annotation in quotes: nothing needs them until somebody calls."""
    said = [
        a.annotation.value
        for a in ast.walk(source.tree)
        if isinstance(a, ast.arg) and isinstance(a.annotation, ast.Constant)
    ]
    words = {word for one in said for word in re.findall(r"\w+", str(one))}
    return [name for name in source.definitions if name in words]


def _handed_over(source: Any) -> list[str]:
    """The file's classes of attention and feed-forward, where a constructor of it wants such layers: no code names them."""
    wanted = any(isinstance(a, ast.arg) and re_module(a.arg) for a in ast.walk(source.tree))
    parts = r"attention|attn|feed|ffn|mlp"
    return [
        n
        for n, d in source.definitions.items()
        if isinstance(d, ast.ClassDef) and wanted and re.search(parts, n.lower())
    ]


def pad_ids(case: Case, source: Any) -> None:
    """C4: both texts are compared with one padding id, and the other of two that are declared is never used."""
    subject = case.subject
    if subject.framework != "torch" or subject.layout != "ids" or sorted(subject.inputs) != ["memory", "x"]:
        return
    if subject.sizes.queries == subject.sizes.keys:  # the two texts could not be told apart
        return
    own, other = _compared(subject)
    held = getattr(subject.owner, "__dict__", {})
    pads = [name for name, value in held.items() if PAD.search(name) and type(value) is int]
    moved = {name: _moved(subject, name, (own, other)) for name in pads}
    declared = set() if source is None else {number for name, number in _numbers(source.tree) if PAD.search(name)}
    idle = [name for name, sides in moved.items() if sides == [False, False]]
    if len(moved) == 2 and len(idle) == 1 and [True, True] in moved.values():
        case.add("C4", "attribute", name=idle[0])
    elif own == other and len(own) == 1 and len(declared) == 2 and own < declared:
        case.add("C4", used=min(own), unused=min(declared - own))


def _compared(subject: Subject) -> tuple[set[int], set[int]]:
    """The numbers that the ids of the text and those of the memory are compared with."""
    n, m = subject.sizes.queries, subject.sizes.keys
    with _Comparisons() as watching, contextlib.suppress(UserError):  # whichever text its output is as long as
        subject(subject.draw(n=n, m=m))
    return watching.with_length(n), watching.with_length(m)


def _moved(subject: Subject, name: str, before: tuple[set[int], set[int]]) -> list[bool]:
    """Whether either text is compared with another number when this attribute is another."""
    number = getattr(subject.owner, name)
    setattr(subject.owner, name, number + 1)
    try:
        return [now != was for now, was in zip(_compared(subject), before, strict=True)]
    finally:
        setattr(subject.owner, name, number)


PAD = re.compile(r"(^|_)(pad|padding)(_?(id|idx|index|token|src|tgt|trg|source|target|enc|dec)(_?id|_?idx)?)?$", re.I)


class _Comparisons(Watcher):
    """The numbers that ids of a text are compared with, by the shape of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[tuple[int, ...], int]] = []

    def on_operation(self, operation: Operation) -> Any:
        """Note the comparison of a text's ids with one number."""
        if operation.name in ("eq", "ne") and len(operation.args) == 2:
            ids, number = operation.args
            if isinstance(ids, Tensor) and ids.dim() >= 2 and not ids.is_floating_point() and isinstance(number, int):
                self.seen.append((tuple(ids.shape), number))
        return operation.run()

    def with_length(self, tokens: int) -> set[int]:
        """Those that a text of so many tokens was compared with."""
        return {number for shape, number in self.seen if tokens in shape}


def _numbers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Whole numbers that the file gives a name: PAD = 0, {"pad_id": 0}, Vocabulary(pad=0)."""
    for node in ast.walk(tree):
        named: list[tuple[ast.AST | str | None, ast.AST]] = []
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    named += zip(target.elts, node.value.elts, strict=False)
                else:
                    named.append((target, node.value))
        elif isinstance(node, ast.Dict):
            named += zip(node.keys, node.values, strict=True)
        elif isinstance(node, ast.keyword):
            named.append((node.arg, node.value))
        for name, value in named:
            if isinstance(value, ast.Constant) and type(value.value) is int:
                word = (
                    name.value if isinstance(name, ast.Constant) else path(name) if isinstance(name, ast.AST) else name
                )
                yield str(word).rpartition(".")[2], value.value


def space_of(target: Any, source: Any) -> dict[str, Any]:
    """The globals that the target's code reads."""
    thing = target if inspect.isclass(target) or inspect.isroutine(target) else type(target)
    if inspect.isclass(thing):
        for member in vars(thing).values():
            code = inspect.unwrap(member) if inspect.isroutine(member) else None
            if code is not None and hasattr(code, "__globals__"):
                return code.__globals__
    thing = inspect.unwrap(thing) if inspect.isroutine(thing) else thing
    found = getattr(thing, "__globals__", None)
    if found is None and source is not None:
        found = getattr(getattr(source, "loader", None), "space", None)
    return found if found is not None else {}


def own_fault(problem: CannotRun, source: Any) -> bool:
    """Whether it stops by a slip of its own, whatever it is called with: a name that is nowhere, an attribute never set."""
    error = problem.error
    if error is None or problem.line is None or source is None:
        return False
    if isinstance(error, NameError):
        return (
            bool(error.name)
            and not re.search(r"import\s*\*", source.text)
            and not re.search(rf"\b{error.name}\b\s*(=|:|,|in\b)", source.text)
            and not re.search(rf"(import|as|def|class|for)\s+(.*\b)?{error.name}\b", source.text)
        )
    text = str(error)
    if isinstance(error, AttributeError):
        named = re.match(r"'(\w+)' object has no attribute", text)
        own = named is not None and bool(re.search(rf"class {named[1]}\b", source.text))
        return own and not _is_set(error.name or "", source.tree) and not _derives_from_absent(type(error.obj))
    return isinstance(error, TypeError) and bool(
        re.search(r"tuple of ints,? ?but got .*float|'float' object cannot be interpreted", text)
    )


def _is_set(name: str, tree: ast.AST) -> bool:
    """True if the file sets an attribute of that name somewhere: another method may have to be called before.

    >>> tree = ast.parse('self.register_buffer("table", t); self.w = 1; self.heads == self.scale')
    >>> [_is_set(name, tree) for name in ("table", "w", "heads", "scale")]
    [True, True, False, False]
    """
    return any(
        (isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store))
        or (isinstance(node, ast.Constant) and node.value == name)
        or (isinstance(node, ast.Name) and node.id == "setattr")
        for node in ast.walk(tree)
    )


def _derives_from_absent(cls: type) -> bool:
    """True if a base class comes from a package that is not installed, and so may have had the attribute."""
    bases = [base for each in cls.__mro__ for base in vars(each).get("__orig_bases__", ())]
    return any(isinstance(base, Standin) for base in bases)
