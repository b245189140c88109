"""What a source says before anything runs: whether it means to be causal, what its masks mean, what it never reads."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import conventions
from .nodes import HEADS, called, names, path
from .trees import Code, open_code


@dataclass(frozen=True)
class Says:
    """What a file says before anything runs; the words are no proof of anything, the lines are where to look."""

    text: str = ""  # the whole file
    segment: str = ""  # what is checked
    docstring: str = ""
    library: bool = False  # somebody's installed package
    fill: float | None = None  # the number that hides a score
    mask_words: str | None = None  # "keep", "block" or "additive"
    mask_rank: Mapping[str, int] = field(default_factory=dict)  # how many axes a mask is said to have
    mask_suspect: str | None = None  # the mistake that a mask's line looks like
    loop_over_heads: int | None = None  # line of a Python loop over heads
    mask_built_in_forward: int | None = None  # line where every call makes a triangle
    bare_fill: int | None = None  # line of a masked_fill whose result is dropped
    unused_arguments: tuple[str, ...] = ()  # of forward (or of the function), never read


def says(source: Any, name: str) -> Says:
    """What the source says about `name`."""
    if source is None:
        return Says()
    node, segment = source.tree, source.text
    try:
        node = source.node(name)
        start, end = source.segment(name)
        segment = "\n".join(source.text.split("\n")[start - 1 : end])
    except Exception:
        pass  # an object of another name than its class: the whole file then
    fill = conventions.fill(node, source.tree)
    if fill is None:  # a helper's, beside it
        fill = conventions.fill(source.tree, source.tree)
    said = [node, *(m for m in getattr(node, "body", ()) if getattr(m, "name", "") in ("forward", "__call__"))]
    words = dict.fromkeys(re.findall(r"\b\w*mask\w*\b|\b\w*pad\w*\b", segment))
    told = Says(
        text=source.text,
        segment=segment,
        docstring=" ".join(
            ast.get_docstring(one) or "" for one in said if isinstance(one, ast.ClassDef | ast.FunctionDef)
        ),
        library="site-packages" in str(getattr(source, "path", "")),
        fill=fill,
        mask_words=conventions.sayings(segment, "mask"),
        mask_rank={word: rank for word in words if (rank := conventions.rank(segment, word))},
        mask_suspect=suspect(segment, fill),
    )
    try:
        code = open_code(source)
        assert code is not None
        roots = code.uses(name) or [code.tree]
        return replace(
            told,
            loop_over_heads=first(head_loop(code, root) for root in roots),
            mask_built_in_forward=first(built_in_forward(code, root) for root in roots),
            bare_fill=first(bare_fill(code, root) for root in roots),
            unused_arguments=tuple(unused_arguments(code, roots[0])),
        )
    except Exception:
        return told  # anybody's file comes here: hints are worth no crash


def suspect(text: str, filled: float | None) -> str | None:
    """What a mask that hides nothing is most likely done with: multiplied in, added as it is, or filled with next to nothing."""
    scores = r"(score|attn|att|energy|dots|sim|logit|wei|qk)\w*"
    if filled is not None and abs(filled) < 1e-3:
        return "M9" if filled else "M8"
    if re.search(rf"{scores}\s*(\*=|=\s*{scores}\s*\*)\s*\w*mask", text):
        return "M8"
    if re.search(rf"{scores}\s*(\+=|=\s*{scores}\s*\+)\s*\w*mask", text):
        return "M7"
    return None


def first(lines: Iterable[int | None]) -> int | None:
    return next((line for line in lines if line is not None), None)


def head_loop(code: Code, root: ast.AST) -> int | None:
    """The line of a loop over heads in what runs at each call."""
    for node in code.walk(root):
        function = code.function(node)
        if function is None or function.name in ("__init__", "reset_parameters", "build", "init_weights"):
            continue
        if isinstance(node, ast.For):
            over, body = node.iter, node.body
        elif isinstance(node, ast.ListComp):
            over, body = node.generators[0].iter, []
        else:
            continue
        counts = called(over) == "range" and any(HEADS.match(n) for n in names(over))
        holds = bool(re.search(r"heads?$", path(over), re.I)) or (
            called(over) in ("zip", "enumerate") and any(re.search("heads?$", n, re.I) for n in names(over))
        )
        work = [
            n
            for part in (body or [node])
            for n in ast.walk(part)
            if isinstance(n, ast.Call) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult))
        ]
        if (counts or holds) and work:
            return int(node.lineno)
    return None


def built_in_forward(code: Code, root: ast.AST) -> int | None:
    """The line where each call builds a triangle anew."""
    for node in code.walk(root):
        if called(node) in ("tril", "triu", "tri"):
            function = code.function(node)
            kept = any(called(n) == "register_buffer" for n in code.up(node))
            if function is not None and function.name != "__init__" and not kept and not guarded(code, node):
                return int(node.lineno)
    return None


def guarded(code: Code, node: ast.AST) -> bool:
    """Whether it is made only when missing: `if self.mask is None`."""
    return any(
        isinstance(n, ast.If) and ("None" in ast.dump(n.test) or "hasattr" in names(n.test)) and "self" in names(n.test)
        for n in code.up(node)
    )


def bare_fill(code: Code, root: ast.AST) -> int | None:
    for node in code.walk(root):
        if isinstance(node, ast.Expr) and called(node.value) in ("masked_fill", "where"):
            return int(node.lineno)
    return None


def unused_arguments(code: Code, root: ast.AST) -> list[str]:
    """Arguments of forward, __call__ or the function itself that its body never reads."""
    functions = [root] if isinstance(root, ast.FunctionDef) else []
    if isinstance(root, ast.ClassDef):
        functions = [
            m for m in root.body if isinstance(m, ast.FunctionDef) and m.name in ("forward", "__call__", "call")
        ]
    found: list[str] = []
    for function in {function.name: function for function in functions}.values():  # the last: overloads have no body
        read = {n.id for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        if "locals" not in read:
            found += [p for p in code.parameters(function) if p not in read]
    return found


def never_read(code: Code, root: ast.AST | None) -> list[str]:
    """Attributes that a class sets on itself and never reads again, with no subclass or getattr to do it."""
    if not isinstance(root, ast.ClassDef) or {"getattr", "__dict__", "vars"} & names(root):
        return []
    read = {n.attr for n in ast.walk(code.tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}
    made = [
        n.attr
        for n in code.walk(root)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and path(n.value) == "self"
    ]
    return [name for name in dict.fromkeys(made) if name not in read]
