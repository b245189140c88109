"""Where mistakes of positions and caches sit: R and K of the catalogue."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from .places_heads import reshapes
from .readings import Facts, Found, triangles
from .trees import (
    FUSED,
    Code,
    argument,
    called,
    first_of,
    last,
    masky,
    names,
    number,
    path,
    same,
)

ROTARY = re.compile(r"rope|rotary|rotate|freqs?_cis|apply_rot|pos_emb|rotator", re.I)
CACHE = re.compile(r"cache|past|kv_|_kv|history|prev_", re.I)


def frequency(code: Code, root: ast.AST) -> Iterator[ast.Constant]:
    for node in code.walk(root):
        if isinstance(node, ast.Constant) and number(node) in (10000, 1000, 100000, 1e-4, 500000, 10):
            statement = code.statement(node)
            inside = names(statement)
            power = any(isinstance(n, ast.Pow) for n in ast.walk(statement))
            if (power or inside & {"log", "pow", "power", "exp"}) and not isinstance(
                statement, ast.FunctionDef | ast.ClassDef
            ):
                yield node


def r1(code: Code, root: ast.AST, facts: Facts) -> Found:
    for constant in frequency(code, root):
        statement, function = code.statement(constant), code.function(constant)
        if number(constant) in (1000, 100000, 10):
            yield 0, constant, code.diff(code.put(constant, "10000"))
        elif wrong_counters(code, statement):
            mates = [code.statement(c) for c in frequency(code, function or root)]
            edits = [edit for mate in dict.fromkeys(mates) for edit in wrong_counters(code, mate)]
            yield 0, statement, code.diff(*edits)
        else:
            yield 1, statement, ""
    for node in code.walk(root):
        if called(node) in ("sin", "cos"):
            yield 2, node, ""


def wrong_counters(code: Code, statement: ast.AST) -> list[tuple[int, int, str]]:
    """Edits for exponents that count a channel twice (2 * i over i = 0, 2, 4, …) or the next one's (i + 1)."""
    edits: list[tuple[int, int, str]] = []
    for node in code.walk(statement):
        if not isinstance(node, ast.BinOp) or any(code.span(node)[0] < end for _, end, _ in edits):
            continue
        if not any(isinstance(u, ast.BinOp) and isinstance(u.op, ast.Pow | ast.Div) for u in code.up(node)):
            continue
        inner = node.right if isinstance(node.op, ast.Mult) and number(node.left) == 2 else node
        plus = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add) and number(inner.right) == 1
        counter = inner.left if plus and isinstance(inner, ast.BinOp) else inner
        if not path(counter) or (inner is node and not plus):
            continue
        if even_steps(code, counter):
            edits.append(code.put(node, code.text_of(counter)))
        elif plus and inner is node and from_zero(code, counter) and any(called(u) == "cos" for u in code.up(node)):
            edits.append(code.put(node, f"{code.text_of(counter)} - 1"))  # every channel counted, odd ones too far
    return edits


def even_steps(code: Code, node: ast.expr) -> bool:
    """Whether a counter already goes 0, 2, 4, … so that doubling it counts twice."""
    value = code.resolve(node)
    if called(value) in ("arange", "range") and isinstance(value, ast.Call) and len(value.args) == 3:
        return number(value.args[2]) == 2
    for around in code.up(node):
        if isinstance(around, ast.For) and path(around.target) == path(node) and isinstance(around.iter, ast.Call):
            return called(around.iter) == "range" and len(around.iter.args) == 3 and number(around.iter.args[2]) == 2
    return False


def r3(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if not isinstance(node, ast.Subscript) or not re.search(
            r"pe$|pos|enc|emb|table|weight", last(node.value), re.I
        ):
            continue
        cut = first_of(
            n
            for n in ast.walk(node.slice)
            if (called(n) == "size" and isinstance(n, ast.Call) and number(argument(n, 0, "dim")) == 0)
            or (isinstance(n, ast.Subscript) and last(n.value) == "shape" and number(n.slice) == 0)
        )
        if cut is None:
            continue
        made = [n for value in code.assignments.get(path(node.value), []) for n in ast.walk(value[1])]
        owner = code.around(node, ast.ClassDef)
        text = code.text_of(owner) if owner is not None else "".join(code.text_of(n) for n in made[:1])
        tensor: Any = code.receiver(cut) if isinstance(cut, ast.Call) else cut.value.value
        whose = code.text_of(tensor)
        turned = re.search(r"transpose\(0, ?1\)|unsqueeze\(1\)", text)
        leading = re.search(r"unsqueeze\(0\)|zeros\(1,|\[None", text)
        base = code.text_of(node.value)
        new = f"{base}[:{whose}.size(1)]"
        if turned:
            new = f"{base}[:{whose}.size(1)].transpose(0, 1)"
        elif leading:
            new = f"{base}[:, :{whose}.size(1)]"
        yield 0, node, code.diff(code.put(node, new))
    for node in code.walk(root):
        if called(node) in ("arange",) and any(number(n) == 0 for n in ast.walk(node)):
            yield 1, node, ""


def r4(code: Code, root: ast.AST, facts: Facts) -> Found:
    whole = ast.dump(code.tree)
    neighbours = bool(re.search(r"step=Constant\(value=2\)", whole))
    for node in code.walk(root):
        if (
            called(node) in ("cat", "concatenate")
            and isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Tuple | ast.List)
        ):
            parts = node.args[0].elts
            if len(parts) == 2 and same(parts[0], parts[1]):
                new = f"{code.wrapped(parts[0])}.repeat_interleave(2, dim=-1)"
                alike = [n for n in code.walk(root) if isinstance(n, ast.Call) and same(n, node)]
                yield (
                    (0 if neighbours else 1),
                    node,
                    code.diff(*(code.put(n, new) for n in alike)) if neighbours and not code.numpy(node) else "",
                )
        elif called(node) == "repeat_interleave" and isinstance(node, ast.Call) and not neighbours:
            freqs = code.receiver(node)
            if freqs is not None:
                text = code.text_of(freqs)
                yield 0, node, code.diff(code.put(node, f"torch.cat(({text}, {text}), dim=-1)"))
        elif isinstance(node, ast.FunctionDef) and ROTARY.search(node.name):
            yield 2, node, ""


def rotary_calls(code: Code, root: ast.AST) -> Iterator[ast.Call]:
    for node in code.walk(root):
        if isinstance(node, ast.Call) and ROTARY.search(called(node)) and not called(node)[:1].isupper():
            function = code.function(node)
            if (function is None or function.name != "__init__") and not re.match(
                "pre|get|make|build|init", called(node)
            ):
                yield node


def r5(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        inside = code.function(node)
        if inside is None or not (ROTARY.search(inside.name) or any(True for _ in rotary_calls(code, inside))):
            continue
        axis = None
        if called(node) == "size" and isinstance(node, ast.Call):
            axis = argument(node, 0, "dim")
        elif isinstance(node, ast.Subscript) and last(node.value) == "shape":
            axis = node.slice
        if number(axis) in (1, -3, 2, -2):
            yield (0 if ROTARY.search(inside.name) else 1), node, ""
    for call in rotary_calls(code, root):
        yield 1, call, ""


def r6(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call in rotary_calls(code, root):
        function = code.function(call)
        later = [c for c, sizes, _ in reshapes(code, function or root) if c.lineno >= call.lineno and len(sizes) == 4]
        yield (0 if later else 1), call, ""


def r7(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
        if not (power or called(node) in ("pow", "power", "exp2", "logspace", "exp")):
            continue
        if not any(number(n) == 8 for n in code.sources(node, 4)):
            continue
        inside = node.right if isinstance(node, ast.BinOp) else node
        counter = first_of(n for n in code.walk(inside) if isinstance(n, ast.expr) and from_zero(code, n))
        yield (
            (0 if counter is not None else 1),
            node,
            code.diff(code.put(counter, f"({code.text_of(counter)} + 1)")) if counter else "",
        )
    for node in code.walk(root):
        if isinstance(node, ast.Assign) and "slope" in path(node.targets[0]).lower():
            yield 2, node, ""


def from_zero(code: Code, node: ast.expr) -> bool:
    """Whether it counts 0, 1, 2, …: arange(n), or the counter of a loop over range(n)."""
    value = code.resolve(node) if path(node) else node
    if called(value) in ("arange", "range") and isinstance(value, ast.Call):
        return len(value.args) == 1
    for around in code.up(node):
        for loop in getattr(around, "generators", [around] if isinstance(around, ast.For) else []):
            if path(node) and path(loop.target) == path(node) and isinstance(loop.iter, ast.Call):
                return called(loop.iter) in ("range", "arange") and len(loop.iter.args) == 1
    return False


def k1(code: Code, root: ast.AST, facts: Facts) -> Found:
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
            start = first_of(p for p in code.parameters(function) if re.search("start|offset|past_len|pos$|seen", p))
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
        elif isinstance(node, ast.Assign | ast.AugAssign) and re.search("offset|start_pos|seen", ast.dump(node)):
            yield 1, node, ""


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


def k2(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call in code.walk(root):
        causal = argument(call, 5, "is_causal") if called(call) in FUSED else None
        if causal is not None and not (isinstance(causal, ast.Constant) and causal.value is False):
            q, k = (call.args[0], call.args[1]) if len(call.args) > 1 else (None, None)
            safe = isinstance(causal, ast.Constant) and path(q) and path(k)
            yield 0, causal, code.diff(code.put(causal, f"{path(q)}.size(-2) == {path(k)}.size(-2)")) if safe else ""
    for call, axis, _ in triangles(code, root):
        yield (0 if axis is None else 1), call, ""
    for node in code.walk(root):
        if isinstance(node, ast.Subscript) and masky(node.value) and isinstance(node.slice, ast.Tuple):
            yield 1, node, ""


def k3(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if (
            isinstance(node, ast.If | ast.IfExp)
            and any(CACHE.search(n) for n in names(node.test))
            and ("causal" in ast.dump(node) or masky(node))
        ):
            yield 0, node, ""
        elif isinstance(node, ast.keyword) and node.arg == "is_causal" and not isinstance(node.value, ast.Constant):
            yield 0, node.value, ""
        elif isinstance(node, ast.If | ast.IfExp) and (masky(node) or "causal" in ast.dump(node)):
            yield 1, node, ""
    for site in code.softmaxes(root):
        yield 2, site.call, ""
    for call in code.walk(root):
        if called(call) in FUSED:
            yield 2, call, ""


def k4(code: Code, root: ast.AST, facts: Facts) -> Found:
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


def k5(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if isinstance(node, ast.Slice) and node.lower is not None and isinstance(node.lower, ast.UnaryOp | ast.BinOp):
            yield 0, node.lower, ""
        elif (
            isinstance(node, ast.If)
            and any(number(n) == 1 for n in ast.walk(node.test))
            and any(c for c in rotary_calls(code, node))
        ):
            yield 0, node, ""
        elif called(node) in ("cat", "concatenate") and any(CACHE.search(n) for n in names(node)):
            yield 1, node, ""


POSITIONS = {
    name.upper(): rule
    for name, rule in globals().copy().items()
    if name[0] in "rk" and name[1:].isdigit() and callable(rule)
}
