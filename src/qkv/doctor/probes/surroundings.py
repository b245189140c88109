"""What the file around the target says: its masks, its padding ids, and the helpers that callers hand over."""

import ast
import inspect
import re
from typing import Any

from ..case import Case
from ..subject.building import re_module
from ..subject.errors import CannotRun


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
    """C4: the target's mask made with the source's padding id."""
    if source is None or "memory" not in case.subject.roles.values() or case.subject.layout != "ids":
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and re.search(
            r"(trg|tgt|target|dec)\w*mask|mask\w*(trg|tgt|target|dec)", node.name
        ):
            for test in ast.walk(node):
                if isinstance(test, ast.Compare) and re.search(r"src_?pad|source_?pad|enc_?pad", ast.unparse(test)):
                    if re.search(r"trg_?pad|tgt_?pad|target_?pad|dec_?pad", source.text):
                        case.add("C4", line=test.lineno)


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
            and not re.search(rf"\b{error.name}\b\s*(=|:|,|in\b)", source.text)
            and not re.search(rf"(import|as|def|class|for)\s+(.*\b)?{error.name}\b", source.text)
        )
    text = str(error)
    if isinstance(error, AttributeError):
        named = re.match(r"'(\w+)' object has no attribute", text)
        return bool(named) and bool(re.search(rf"class {named[1]}\b", source.text)) if named else False
    return isinstance(error, TypeError) and bool(
        re.search(r"tuple of ints,? ?but got .*float|'float' object cannot be interpreted", text)
    )
