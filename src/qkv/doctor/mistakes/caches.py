"""A text in pieces."""

import ast
import re

from ...i18n import _
from ..source.nodes import FUSED, argument, called, first_of, last, masky, names, number, path
from ..source.readings import triangles
from ..source.trees import Code
from .mistake import Mistake, Places
from .positions import rotary_calls

CACHE = re.compile(r"cache|past|kv_|_kv|history|prev_", re.I)


class PositionsFromZero(Mistake):
    """New tokens are turned as if the text began with them."""

    id = "K1"
    name = _("new tokens' positions ignore what the cache holds")
    does = _(
        "Each new token is turned as if the text began with it (or as if only the kept rows existed): distances to cached keys are wrong, and the text falls apart after a while."
    )
    fix = _("Count from the tokens seen so far, not from rows kept: `pos = torch.arange(seen, seen + n)`")
    shows = _("Token by token with the cache gives other outputs than the whole text at once.")
    evidence = {
        "": _(
            "token by token through the cache differs from all at once by {change:.1%}, from token {place} on: the position of later tokens is wrong"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if isinstance(node, ast.Assign) and (kept := always_from_zero(code, node)):
                length = length_of(code, node, kept)
                yield 0, node, code.diff(code.put(node.value, length)) if length else ""
        for node in code.walk(root):
            cut = node.slice if isinstance(node, ast.Subscript) else None
            cut = cut.elts[0] if isinstance(cut, ast.Tuple) and cut.elts else cut
            function = code.function(node)
            if not isinstance(cut, ast.Slice) or cut.lower is not None or cut.upper is None or function is None:
                continue
            if re.search("freq|cos|sin|rope|rotary|pos|pe$", last(node.value), re.I):
                start = first_of(
                    p for p in code.parameters(function) if re.search("start|offset|past_len|pos$|seen", p)
                )
                end = code.text_of(cut.upper)
                diff = code.diff(code.put(cut, f"{start} : {start} + {end}")) if start and start not in end else ""
                yield (0 if start is None or start not in end else 1), node, diff
        for call in rotary_calls(code, root):
            offset = any(
                re.search("offset|start|past|pos|seen|cache", name, re.I) for a in call.args[1:] for name in names(a)
            )
            yield (1 if offset else 0), call, ""
        for node in code.walk(root):
            if called(node) == "arange" and isinstance(node, ast.Call):
                yield (0 if len(node.args) == 1 else 1), node, ""


class UpperLeft(Mistake):
    """A square triangle for few queries and many keys."""

    id = "K2"
    name = _("with a cache, the causal mask starts at the wrong corner")
    does = _("`is_causal=True` aligns at the top left: with 1 new query and 10 keys the query sees the first key only.")
    fix = _(
        "Align at the bottom right: query i of n sees keys up to i + m − n; `torch.ones(n, m, dtype=torch.bool).tril(m - n)`. One new token needs no mask"
    )
    shows = _("Right for a whole text, wrong with a cache: new tokens have no gradient from recent keys.")
    evidence = {
        "": _(
            "after a prefix in the cache, several tokens at once differ from the whole by {change:.1%}: they see only the first keys, the triangle stands at the upper left"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call in code.walk(root):
            causal = argument(call, 5, "is_causal") if called(call) in FUSED else None
            if causal is not None and not (isinstance(causal, ast.Constant) and causal.value is False):
                q, k = (call.args[0], call.args[1]) if len(call.args) > 1 else (None, None)
                safe = isinstance(causal, ast.Constant) and path(q) and path(k)
                yield (
                    0,
                    causal,
                    code.diff(code.put(causal, f"{path(q)}.size(-2) == {path(k)}.size(-2)")) if safe else "",
                )
        for call, axis, _unused in triangles(code, root):
            yield (0 if axis is None else 1), call, ""


class NoTriangleInPieces(Mistake):
    """Several tokens at once see each other."""

    id = "K3"
    name = _("several tokens with a cache, and no causal mask among them")
    does = _(
        "Tokens of one chunk see those after them: one token at a time is right, but prompts read in chunks leak, and give other states than in training."
    )
    fix = _("Mask the chunk too: `torch.ones(n, m, dtype=torch.bool).tril(m - n)` for n new tokens and m keys in all")
    shows = _("One-token steps agree with the whole text, chunks of three do not.")
    evidence = {
        "": _(
            "several tokens at once with a cache differ from the whole by {change:.1%}: within the piece, tokens see what comes after them"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if isinstance(node, ast.keyword) and node.arg == "is_causal" and not isinstance(node.value, ast.Constant):
                yield 0, node.value, ""
            elif isinstance(node, ast.If | ast.IfExp) and (masky(node) or "causal" in ast.dump(node)):
                yield 1, node, ""


class RingOverwritten(Mistake):
    """Keys that are still needed go."""

    id = "K4"
    name = _("the rolling cache overwrites keys that are still needed")
    does = _(
        "A chunk writes its keys over those its first tokens should still see, so they see later tokens instead of earlier ones."
    )
    fix = _("Attend first, write after; or keep window + chunk − 1 rows")
    shows = _("Agrees with the whole text until the window is full, and not beyond.")
    evidence = {
        "": _(
            "beyond the window, token by token differs from the whole by {change:.1%}: slots are overwritten before they are used"
        ),
        "pieces": _(
            "beyond what is kept, pieces of 3 and 4 tokens differ from single tokens by {change:.1%}: slots are overwritten before they are used"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Subscript)
                and any(CACHE.search(n) for n in names(node.targets[0]))
            ):
                yield 0, node, ""
            elif (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Mod)
                and any(re.search("window|size|max|len", n) for n in names(node))
            ):
                yield 1, node, ""
            elif called(node) in ("index_copy_", "scatter_", "copy_", "roll"):
                yield 1, node, ""
            elif (
                isinstance(node, ast.Subscript)
                and called(node.value) in ("cat", "concat", "concatenate")
                and any(isinstance(n, ast.Slice) and isinstance(n.lower, ast.UnaryOp) for n in ast.walk(node.slice))
            ):
                yield 1, node, ""


class OffByOne(Mistake):
    """The cache, or the one-token road beside it."""

    id = "K5"
    name = _("the cache is off by one, or one-token steps take another path")
    does = _(
        "A token too many or too few is kept, or a shortcut for one token turns only the first head: outputs drift from those of the whole text."
    )
    fix = _(
        "Keep exactly the last W: `k = torch.cat([cache, k], dim=2)[:, :, -W:]`, and let one token take the same path as many"
    )
    shows = _("One-token steps differ from the whole text, chunks may agree.")
    evidence = {"": _("one token at a time through the cache differs from all at once by {change:.1%}")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if (
                isinstance(node, ast.Slice)
                and node.lower is not None
                and isinstance(node.lower, ast.UnaryOp | ast.BinOp)
            ):
                yield 0, node.lower, ""
            elif (
                isinstance(node, ast.If)
                and any(number(n) == 1 for n in ast.walk(node.test))
                and any(c for c in rotary_calls(code, node))
            ):
                yield 0, node, ""


def always_from_zero(code: Code, node: ast.Assign) -> str:
    """The cache that `start = 0` forgets: where that name is never set to anything else. "" where it is no such line."""
    name, function = path(node.targets[0]), code.function(node)
    if function is None or not re.match("start|offset|pos(ition)?$|past_len|seen", name) or number(node.value) != 0:
        return ""
    again = [at for at, _ in code.assignments[name] if code.function(at) is function and at is not node]
    kept = first_of(p for p in code.parameters(function) if CACHE.search(p))
    return "" if again or kept is None else str(kept)


def length_of(code: Code, node: ast.Assign, kept: str) -> str:
    """How many tokens a cache holds, as seen where new ones are put behind them; "" where it can't be seen."""
    function = code.function(node)
    for call in code.walk(function):
        parts = call.args[0] if called(call) == "cat" and call.args else None
        if not isinstance(parts, ast.Tuple | ast.List) or len(parts.elts) != 2 or kept not in names(parts.elts[0]):
            continue
        axis, old = argument(call, 1, "dim"), parts.elts[0]
        if number(axis) is not None and isinstance(old, ast.Name | ast.Attribute | ast.Subscript):
            assert axis is not None
            return f"0 if {kept} is None else {code.text_of(old)}.size({code.text_of(axis)})"
    return ""
