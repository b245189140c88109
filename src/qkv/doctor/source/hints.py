"""What a source says before anything runs: whether it means to be causal, what its masks mean, what it never reads."""

import ast
import re
from collections.abc import Iterable
from typing import Any

from .trees import FUSED, HEADS, Code, called, last, names, number, open_code, path

# "1 = keep", "True means that the position is masked out", "zeros for padding", "1 表示可见": a value, and what it means.
MEANS = re.compile(
    r"(?<![\w.])(true|1|ones?|nonzero|non-zero|false|0|zeros?)\b['`]*\s*(?:values?\s*|entries\s*)?"
    r"(?:=+>?|:|means?|is|are|for|where|marks?|indicates?|表示|代表|为|是|->|→)\s*([^,;，；。()\n]{1,60})",
    re.I,
)
KEEPS = re.compile(
    r"keep|kept|\bmay\b|\bcan\b|allow|attend|valid|visible|real|look|\bsee\b|unmasked|可见|可以|保留|有效|参与", re.I
)
BLOCKS = re.compile(r"hid|mask|block|ignor|\bpad|drop|forbid|exclud|屏蔽|遮|忽略|填充", re.I)
NOT = re.compile(r"\bnot\b|n't|never|cannot|\bno\b|disallow|invalid|不", re.I)
NAMES = {
    "block": r"key_padding_mask|is_pad|pad(ding)?_positions|blocked|block_mask",
    "keep": r"keep|valid|allowed|visible",
}


def facts_of(source: Any, name: str | None = None) -> dict[str, Any]:
    """Cheap facts from the source of `name`; {} where there is none.

    causal_hint        it speaks of tril, triu, is_causal=True or "causal"
    loop_over_heads    line of a Python loop over heads, or None
    mask_built_in_forward  line where every call makes a triangle, or None
    bare_masked_fill   line of a masked_fill whose result is dropped, or None
    unused_params      arguments of forward (or of the function) that are never read
    unused_self        attributes that `__init__` sets and nothing reads
    mask_convention    "keep" or "block": what True in a mask means here, or None where nothing says
    dropout_line       line where dropout is used, or None
    """
    try:
        code = open_code(source)
        if code is None:
            return {}
        roots = code.uses(name) or [code.tree]
        return {
            "causal_hint": any(is_causal(root) for root in roots),
            "loop_over_heads": first(head_loop(code, root) for root in roots),
            "mask_built_in_forward": first(built_in_forward(code, root) for root in roots),
            "bare_masked_fill": first(bare_fill(code, root) for root in roots),
            "unused_params": unused_arguments(code, roots[0]),
            "unused_self": never_read(code, roots[0]),
            "mask_convention": convention(code, roots),
            "dropout_line": first(dropout(code, root) for root in roots),
        }
    except Exception:
        return {}  # anybody's file comes here: hints are worth no crash


def first(lines: Iterable[int | None]) -> int | None:
    return next((line for line in lines if line is not None), None)


def is_causal(root: ast.AST) -> bool:
    """Whether it means to hide the future."""
    for node in ast.walk(root):
        if isinstance(node, ast.keyword) and node.arg == "is_causal":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                return True
        name = (
            node.name
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            else node.arg
            if isinstance(node, ast.arg)
            else last(node)
        )
        if re.search(r"tril|triu|causal|subsequent|look_?ahead|autoregressive|gpt", name or "", re.I):
            return True
    return False


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


def dropout(code: Code, root: ast.AST) -> int | None:
    for node in code.walk(root):
        if isinstance(node, ast.Call) and "dropout" in called(node).lower():
            function = code.function(node)
            if function is None or function.name != "__init__":
                return int(node.lineno)
        if called(node) in FUSED and any(k.arg == "dropout_p" and number(k.value) != 0 for k in node.keywords):
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
    for function in functions:
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


def convention(code: Code, roots: list[ast.AST]) -> str | None:
    """What True means in the masks of this code: what it says, else its names, else how masks are made in the file.

    How a mask is *used* does not count: that is what may be wrong.
    """
    said = [vote for root in roots for vote in said_votes(code, root)]
    named = [vote for root in roots for vote in named_votes(code, root)]
    for votes in (said, named, making_votes(code)):
        if votes and len(set(votes)) == 1:
            return votes[0]
    return None


def said_votes(code: Code, root: ast.AST) -> list[str]:
    """What docstrings and comments say that a value means."""
    texts = [
        n.value
        for n in ast.walk(root)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and "mask" in n.value.lower()
    ]
    lines = [line for text in texts for line in text.split("\n")]
    for line in code.lines[getattr(root, "lineno", 1) - 1 : getattr(root, "end_lineno", len(code.lines))]:
        if "#" in line and re.search("mask|pad|掩码", line, re.I):
            lines.append(line[line.index("#") :])
    votes = []
    for line in lines:
        for value, meaning in MEANS.findall(line):
            if not (KEEPS.search(meaning) or BLOCKS.search(meaning)):
                continue
            blocks = bool(BLOCKS.search(meaning)) and "unmasked" not in meaning
            if NOT.search(meaning):
                blocks = not blocks
            positive = value.lower() in ("true", "1", "one", "ones", "nonzero", "non-zero")
            votes.append("block" if positive == blocks else "keep")
    return votes


def named_votes(code: Code, root: ast.AST) -> list[str]:
    """What the names of arguments promise: key_padding_mask hides, valid_mask keeps."""
    given = [n.arg for n in ast.walk(root) if isinstance(n, ast.arg)]
    return [meaning for name in given for meaning, pattern in NAMES.items() if re.search(pattern, name, re.I)]


def making_votes(code: Code) -> list[str]:
    """How masks are built elsewhere in the file: `!= pad` and tril keep, `== pad`, triu(1) and ~tril block."""
    votes = []
    for node in code.walk(code.tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and any(re.search("pad", n, re.I) for n in names(node)):
            if isinstance(node.ops[0], ast.NotEq):
                votes.append("keep")
            elif isinstance(node.ops[0], ast.Eq):
                votes.append("block")
        elif called(node) in ("tril", "triu"):
            turned = any(
                (isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Invert | ast.Not))
                or (isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq) and number(n.comparators[0]) == 0)
                or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and number(n.left) == 1)
                for n in code.up(node)
            )
            votes.append("keep" if (called(node) == "tril") != turned else "block")
    return votes
