"""Where mistakes of scale and softmax sit: S and X of the catalogue."""

import ast
from typing import Any

from .readings import (
    Facts,
    Found,
    default_of,
    feeds_softmax,
    fill_of,
    first_width,
    head_width,
    masked,
    operator_edit,
    removed,
    root_of,
    scalings,
    score_expressions,
    size_kind,
    unused_scale,
    weights_site,
)
from .trees import FUSED, Code, argument, called, is_library, last, masky, names, number, path, same


def s1(code: Code, root: ast.AST, facts: Facts) -> Found:
    for use in scalings(code, root):
        if use.times != (use.power > 0):
            continue
        node, diff = use.node, ""
        if isinstance(node, ast.BinOp):
            if use.times and use.factor is node.left:
                diff = code.diff(code.put(node, f"{code.wrapped(node.right)} / {code.wrapped(node.left)}"))
            elif edit := operator_edit(code, node, "*" if use.times else "/", "/" if use.times else "*"):
                diff = code.diff(edit)
        elif isinstance(node, ast.AugAssign):
            begin, end = code.span(node.target)[1], code.span(node.value)[0]
            place = code.text.find("*=" if use.times else "/=", begin, end)
            diff = code.diff((place, place + 2, "/=" if use.times else "*=")) if place >= 0 else ""
        elif use.other is None:
            diff = code.diff(code.put(use.factor, f"1 / {code.wrapped(use.factor)}"))
        elif isinstance(node.func, ast.Attribute):
            begin, end = code.span(node.func)
            opposite = node.func.attr.replace("mul", "div") if use.times else "mul" + "_" * node.func.attr.endswith("_")
            diff = code.diff((end - len(node.func.attr), end, opposite))
        product = use.other is not None and any(code.is_product(n) for n in ast.walk(use.other))
        yield (0 if product or use.other is None or feeds_softmax(code, node) else 1), node, diff


def s2(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call in code.walk(root):
        if (
            called(call) in FUSED
            and number(scale := argument(call, 99, "scale", "softmax_scale")) == 1
            and scale is not None
        ):
            yield 0, scale, code.diff(code.put(scale, "None"))
    for scores in score_expressions(code, root):
        product = code.score_product(scores)
        if product is None:
            continue
        if factor := unused_scale(code, product):
            behind = factor
        elif width := head_width(code, product, product) or first_width(code, product):
            behind = f" / {width} ** 0.5"
        else:
            behind = ""
        diff = ""
        if behind:
            outer = code.parent.get(product)
            bound = isinstance(outer, ast.Attribute) or (
                isinstance(outer, ast.BinOp)
                and (isinstance(outer.op, ast.Pow) or (outer.right is product and not isinstance(outer.op, ast.Add)))
            )
            begin, end = code.span(product)
            inside = bound and not code.text[:begin].rstrip().endswith("(")
            diff = code.diff((begin, begin, "("), (end, end, behind + ")")) if inside else code.diff((end, end, behind))
        yield 0, product, diff


def wrong_size(code: Code, root: ast.AST, wanted: dict[str, int]) -> Found:
    for use in scalings(code, root):
        kind = size_kind(code, use.base)
        on_way = feeds_softmax(code, use.node) or use.other is None
        product = None
        for scores in score_expressions(code, code.function(use.node) or root):
            product = product or code.score_product(scores)
        diff = ""
        if hasattr(use.base, "lineno") and (new := head_width(code, use.base, product)) and new != path(use.base):
            alike = [
                u.base
                for u in scalings(code, root)
                if same(u.base, use.base) and code.function(u.base) is code.function(use.base)
            ]
            diff = code.diff(*(code.put(base, new) for base in alike))
        if kind == "head":  # a name that says what it isn't: only the tensor itself can be trusted
            width = first_width(code, product) if product is not None else ""
            diff = (
                code.diff(code.put(use.base, width))
                if width and product is not None and code.function(use.base) is code.function(product)
                else ""
            )
        yield wanted.get(kind, 1) + (0 if on_way else 1), use.base, diff


def s3(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from wrong_size(code, root, {"width": 0, "head": 2})


def s4(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from wrong_size(code, root, {"length": 0, "heads": 0, "head": 2})


def s6(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
            left, right = node.left, node.right
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
            left, right = node.target, node.value
        else:
            continue
        site = weights_site(code, left)
        if site is None or masky(right) or weights_site(code, right) or code.score_product(right):
            continue
        diff = ""
        if isinstance(node, ast.BinOp):
            op = "/" if isinstance(node.op, ast.Div) else "*"
            scores = site.scores
            inner = code.text_of(scores)
            inner = (
                f"({inner})" if isinstance(scores, ast.BinOp) and isinstance(scores.op, ast.Add | ast.Sub) else inner
            )
            new_scores = f"{inner} {op} {code.wrapped(right)}"
            if any(site.call is n for n in ast.walk(node)):
                begin, end = code.span(node)
                inside = code.text_of(left)
                at = code.span(scores)[0] - code.span(left)[0]
                diff = code.diff((begin, end, inside[:at] + new_scores + inside[at + len(code.text_of(scores)) :]))
            else:
                statement = code.statement(node)
                idle = (
                    isinstance(statement, ast.Assign) and same(statement.targets[0], left) and statement.value is node
                )
                rest = removed(code, statement) if idle else code.put(node, code.text_of(left))
                diff = code.diff(rest, code.put(scores, new_scores))
        yield (0 if root_of(code, right) or "scale" in path(right) else 1), node, diff


def s7(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        swap = "swapaxes(-2, -1)" if code.numpy(node) else "transpose(-2, -1)"
        inside = any(code.is_product(n) for n in code.up(node))
        if isinstance(node, ast.Attribute) and node.attr == "T":
            yield (0 if inside else 1), node, code.diff(code.put(node, f"{code.wrapped(node.value)}.{swap}"))
        elif called(node) in ("t", "transpose") and not node.keywords:
            whole = code.receiver(node)
            if whole is not None and len(node.args) == (1 if is_library(node.func) else 0):
                yield (0 if inside else 1), node, code.diff(code.put(node, f"{code.wrapped(whole)}.{swap}"))


def s8(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if isinstance(node, ast.If) and (
            "None" in ast.dump(node.test) or "hasattr" in names(node.test) or "Not()" in ast.dump(node.test)
        ):
            for statement in node.body:
                if isinstance(statement, ast.Assign) and root_of(code, statement.value):
                    kept = isinstance(statement.targets[0], ast.Attribute | ast.Subscript)
                    yield (0 if kept or isinstance(code.parent.get(node), ast.Module) else 1), node, ""
        elif isinstance(node, ast.Global) or (
            isinstance(node, ast.FunctionDef)
            and any("cache" in last(getattr(d, "func", d)) for d in node.decorator_list)
        ):
            yield 1, node, ""


def axis_places(code: Code, root: ast.AST, wanted: set[float | None]) -> Found:
    for site in code.softmaxes(root):
        at = None if site.axis is None else number(site.axis)
        right = key_axis(code, site.scores)
        inner = code.definitions().get(called(site.call)) if isinstance(site.call.func, ast.Name) else None
        if isinstance(inner, ast.FunctionDef) and inner is not root and site.axis is None:
            continue  # a softmax of their own: its own lines are looked at
        if site.axis is not None and at is None:
            yield 1, site.axis, code.diff(code.put(site.axis, right))
        elif site.axis is None:
            end = code.span(site.owner)[1]
            more = ", " if site.owner.args else ""
            yield (0 if None in wanted else 1), site.owner, code.diff((end - 1, end - 1, f"{more}{site.word}={right}"))
        elif at != float(right):
            yield (0 if at in wanted else 1), site.axis, code.diff(code.put(site.axis, right))
        else:
            yield 2, site.call, ""
    for exp in code.exponentials(root):
        function = code.function(exp) or root
        for node in code.walk(function):
            if called(node) not in ("sum", "max", "amax"):
                continue
            axis = argument(node, 1 if is_library(node.func) else 0, "axis", "dim")
            if called(node) != "sum":
                continue
            at = number(code.resolve(axis)) if axis is not None else None
            if axis is None:
                yield 1, node, ""
            elif at is not None and at != -1:
                written = default_of(code, function, axis) or axis
                kept = argument(node, 99, "keepdims", "keepdim") is not None
                end = code.span(node)[1]
                keep = "keepdims=True" if code.numpy(node) else "keepdim=True"
                edits = [code.put(written, "-1"), *([] if kept else [(end - 1, end - 1, f", {keep}")])]
                yield 0, written, code.diff(*edits)
            elif isinstance(axis, ast.Name) and (default := default_of(code, function, axis)) is not None:
                at = number(default)
                yield (0 if at != -1 else 2), default, code.diff(code.put(default, "-1")) if at != -1 else ""
            else:
                yield 2, node, ""


def key_axis(code: Code, scores: ast.expr) -> str:
    """The axis of the keys: the last, unless an einsum says otherwise ("ibhd,jbhd->ijbh" has them second)."""
    product = code.score_product(scores)
    if product is None or called(product) != "einsum" or not isinstance(product, ast.Call):
        return "-1"
    pattern = product.args[0].value if isinstance(product.args[0], ast.Constant) else ""
    if not isinstance(pattern, str) or pattern.count(",") != 1 or "->" not in pattern or "..." in pattern:
        return "-1"
    factors, result = pattern.replace(" ", "").split("->")
    first, second = factors.split(",")
    keys = [place for place, letter in enumerate(result) if letter in second and letter not in first]
    return str(keys[0]) if len(keys) == 1 and keys[0] != len(result) - 1 else "-1"


def x1(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from axis_places(code, root, {-2, 1, 2})


def x2(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from axis_places(code, root, {0, None})


def x3(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from axis_places(code, root, {1, -3, None})


def x5(code: Code, root: ast.AST, facts: Facts) -> Found:
    for exp in code.exponentials(root):
        if not exp.args:
            continue
        inside = exp.args[0]
        tops = [
            n for n in code.sources(inside, 3) if isinstance(n, ast.Call) and called(n) in ("max", "amax", "logsumexp")
        ]
        if tops:  # one maximum of everything lets far lower rows vanish: 0/0
            whole = argument(tops[0], 1 if is_library(tops[0].func) else 0, "axis", "dim") is None
            end = code.span(tops[0])[1]
            if whole and called(tops[0]) == "max" and code.numpy(exp):
                yield (
                    0,
                    tops[0],
                    code.diff((end - 1, end - 1, (", " if tops[0].args else "") + "axis=-1, keepdims=True")),
                )
            continue
        function = code.function(exp) or root
        alike = [e for e in code.exponentials(function) if e.args and same(e.args[0], inside)]
        text = code.wrapped(inside)
        top = f"{text}.amax(dim=-1, keepdim=True)"
        if path(exp.func).startswith(("np", "numpy", "jnp")):
            top = f"{text}.max(axis=-1, keepdims=True)"
        yield 0, exp, code.diff(*(code.put(e.args[0], f"{text} - {top}") for e in alike))


def x6(code: Code, root: ast.AST, facts: Facts) -> Found:
    for site in code.softmaxes(root):
        statement, function = code.statement(site.call), code.function(site.call)
        if isinstance(statement, ast.Expr) and path(site.scores):
            begin = code.span(statement)[0]
            yield 0, statement, code.diff((begin, begin, f"{path(site.scores)} = "))
        if not isinstance(statement, ast.Assign) or function is None or not path(statement.targets[0]):
            continue
        name, after = path(statement.targets[0]), [n for n in code.walk(function) if n.lineno > statement.lineno]
        read = [n for n in after if path(n) == name and isinstance(n.ctx, ast.Load)]
        scored = path(site.scores)
        products = [p for p in code.products(function) if p.lineno > statement.lineno]
        uses = [o for p in products for o in code.operands(p) if scored and path(o) == scored and scored != name]
        again = [n for n in after if path(n) == name and isinstance(n.ctx, ast.Store)]
        if uses and not [n for n in read if any(code.is_product(u) for u in code.up(n))]:
            yield 0, uses[0], code.diff(code.put(uses[0], name))
        elif again and not [n for n in read if n.lineno <= again[0].lineno and n.lineno > statement.lineno]:
            setter = code.statement(again[0])
            raw = [
                n for n in ast.walk(getattr(setter, "value", setter)) if scored and path(n) == scored and scored != name
            ]
            yield 0, again[0], code.diff(*(code.put(n, name) for n in raw))
        elif not read and not again:
            yield 1, statement, ""


def x7(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        mask: ast.expr | None = None
        weights: ast.expr | None = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            if masky(node.right) and weights_site(code, node.left):
                weights, mask = node.left, node.right
            elif masky(node.left) and weights_site(code, node.right):
                weights, mask = node.right, node.left
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
            if masky(node.value) and weights_site(code, node.target):
                weights, mask = node.target, node.value
        elif fill := fill_of(code, node):
            if weights_site(code, fill.scores) is not None:
                rank = 0 if fill.number in (0, float("-inf")) or (fill.number or 0) < -1 else 1
                yield (
                    rank,
                    node,
                    before_softmax(code, fill.node, fill.scores, code.text_of(fill.mask))
                    if fill.kind == "fill"
                    else "",
                )
            continue
        if weights is None or mask is None:
            continue
        diff = before_softmax(code, node, weights, code.wrapped(mask) + " == 0")
        yield 0, node, diff


def before_softmax(code: Code, node: Any, weights: ast.expr | None, hide: str) -> str:
    """The patch that hides scores instead of weights; inside an `if` it makes the rows add up to 1 again."""
    numpy, site, statement = code.numpy(node), weights_site(code, weights), code.statement(node)
    if site is None or weights is None:
        return ""
    if isinstance(code.parent.get(statement), ast.If):
        if not isinstance(statement, ast.Assign | ast.AugAssign):
            return ""
        target = code.text_of(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target)
        keep = "axis=-1, keepdims=True" if numpy else "dim=-1, keepdim=True"
        end = code.span(statement)[1]
        return code.diff((end, end, f"\n{' ' * statement.col_offset}{target} = {target} / {target}.sum({keep})"))
    alone = isinstance(statement, ast.AugAssign) or (
        isinstance(statement, ast.Assign) and same(statement.targets[0], weights) and statement.value is node
    )
    rest = removed(code, statement) if alone else code.put(node, code.text_of(weights))
    return code.diff(code.put(site.scores, masked(code, site.scores, hide, numpy)), rest)


def x8(code: Code, root: ast.AST, facts: Facts) -> Found:
    for site in code.softmaxes(root):
        for node in code.sources(site.scores):
            if (
                isinstance(node, ast.Call)
                and "drop" in called(node).lower()
                and node.args
                and code.score_product(node.args[0])
            ):
                diff = ""
                if node is site.scores:  # softmax(dropout(s)) becomes dropout(softmax(s))
                    begin, end = code.span(site.call)
                    inner, outer = code.text_of(node.args[0]), code.text_of(node)
                    at = code.span(node.args[0])[0] - code.span(node)[0]
                    middle = code.text[begin : code.span(node)[0]] + inner + code.text[code.span(node)[1] : end]
                    diff = code.diff((begin, end, outer[:at] + middle + outer[at + len(inner) :]))
                statement = code.statement(node)
                if (
                    isinstance(statement, ast.Assign)
                    and statement.value is node
                    and same(statement.targets[0], node.args[0])
                ):
                    outer, dropped = code.text_of(node), node.args[0]
                    at = code.span(dropped)[0] - code.span(node)[0]
                    begin, end = code.span(site.call)
                    behind = outer[at + len(code.text_of(dropped)) :]
                    diff = code.diff(removed(code, statement), (begin, begin, outer[:at]), (end, end, behind))
                yield 0, node, diff
    for node in code.walk(root):
        if (
            isinstance(node, ast.Call)
            and "drop" in called(node).lower()
            and node.args
            and weights_site(code, node.args[0])
        ):
            yield 1, node, ""


SCORES = {
    name.upper(): rule
    for name, rule in globals().copy().items()
    if name[0] in "sx" and name[1:].isdigit() and callable(rule)
}
