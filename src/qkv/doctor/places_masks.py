"""Where mistakes of masks sit: M of the catalogue, and N1."""

import ast
import difflib
from collections.abc import Iterator
from typing import Any

from .readings import LOWEST, Facts, Fill, Found, fill_of, fills, mask_uses, masked, tiled, triangles, weights_site
from .trees import FUSED, LENGTH, MASKY, Code, argument, called, first_of, is_library, last, masky, names, number, path


def opposite(code: Code, mask: ast.expr) -> str:
    """The condition the other way round, as text."""
    text = code.text_of(mask)
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert | ast.Not):
        return code.text_of(mask.operand)
    if called(mask) == "logical_not" and (inner := code.receiver(mask)) is not None:
        return code.text_of(inner)
    if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.Sub) and number(mask.left) == 1:
        return code.text_of(mask.right)
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1:
        left, right = code.text_of(mask.left), code.text_of(mask.comparators[0])
        if isinstance(mask.ops[0], ast.Eq):
            if right in ("0", "0.0", "False"):
                return f"{left} != {right}"
            return f"{left} == 0" if right in ("1", "1.0", "True") else f"{left} != {right}"
        if isinstance(mask.ops[0], ast.NotEq):
            return f"{left} == {right}"
        swapped = {ast.Gt: "<=", ast.GtE: "<", ast.Lt: ">=", ast.LtE: ">"}.get(type(mask.ops[0]))
        return f"{left} {swapped} {right}" if swapped else ""
    if called(mask) in ("bool", "to", "byte") or path(mask) or isinstance(mask, ast.Subscript | ast.Call):
        return f"{text} == 0"
    return ""


def m1(code: Code, root: ast.AST, facts: Facts) -> Found:
    for fill in fills(code, root):
        new = opposite(code, fill.mask)
        if fill.kind == "add":
            brackets = code.wrapped(fill.mask) if path(fill.mask) else f"({code.text_of(fill.mask)})"
            new = f"(1 - {brackets})" if not (isinstance(fill.mask, ast.BinOp) and number(fill.mask.left) == 1) else new
            begin, end = code.span(fill.mask)
            if not new.startswith("(") and code.text[:begin].endswith("(") and code.text[end:].startswith(")"):
                begin, end = begin - 1, end + 1
            diff = code.diff((begin, end, new)) if new else ""
        else:
            diff = code.diff(code.put(fill.mask, new)) if new else ""
        low = fill.number is not None and fill.number < -100
        yield (0 if masky(fill.mask) or low else 1), fill.node, diff
    for call in code.walk(root):
        if (
            called(call) in FUSED
            and (mask := argument(call, 3, "attn_mask")) is not None
            and (new := opposite(code, mask))
        ):
            text = f"~{new[:-5]}" if new.endswith(" == 0") else new
            yield 0, mask, code.diff(code.put(mask, text))
    yield from mask_uses(code, root, 2)


def m2(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if isinstance(node, ast.Expr) and called(node.value) in (
            "masked_fill",
            "where",
            "masked_scatter",
            "add",
            "mul",
        ):
            whole = code.receiver(node.value)
            if called(node.value) == "where" and (fill := fill_of(code, node.value)):
                whole = fill.scores
            begin = code.span(node)[0]
            ready = whole is not None and path(whole)
            rank = 0 if called(node.value) in ("masked_fill", "where") else 1
            yield rank, node, code.diff((begin, begin, f"{path(whole)} = ")) if ready else ""


def m3(code: Code, root: ast.AST, facts: Facts) -> Found:
    known = code.definitions()
    for function in code.walk(root):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = [p for p in code.parameters(function) if MASKY.search(p)]
        read = {n.id for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        for lost in [p for p in given if p not in read]:
            for call in code.walk(function):
                inner = known.get(called(call))
                owner = code.around(function, ast.ClassDef)
                if owner is not None and isinstance(call, ast.Call) and path(call.func).startswith("self."):
                    inner = inner or first_of(m for m in owner.body if getattr(m, "name", "") == called(call))
                    made = code.resolve(call.func)
                    inner = inner or known.get(called(made))
                if isinstance(inner, ast.ClassDef):
                    inner = first_of(m for m in inner.body if getattr(m, "name", "") in ("forward", "__call__", "call"))
                if isinstance(inner, ast.FunctionDef) and isinstance(call, ast.Call):
                    wants = [(i, p) for i, p in enumerate(code.parameters(inner)) if MASKY.search(p)]
                    missing = [p for i, p in wants if argument(call, i, p) is None]
                    if missing:
                        end = code.span(call)[1]
                        comma = ", " if call.args or call.keywords else ""
                        yield 0, call, code.diff((end - 1, end - 1, f"{comma}{missing[0]}={lost}"))
                if called(call) in FUSED and argument(call, 3, "attn_mask") is None:
                    end = code.span(call)[1]
                    yield 0, call, code.diff((end - 1, end - 1, f", attn_mask={lost}"))
            yield 1, function, ""
        for fill in fills(code, function):
            statement = code.statement(fill.node)
            if isinstance(statement, ast.Assign) and path(statement.targets[0]) and fill.scores is not None:
                name, old = path(statement.targets[0]), path(fill.scores)
                after = [n for n in code.walk(function) if n.lineno > statement.lineno]
                if name != old and old and not [n for n in after if path(n) == name and isinstance(n.ctx, ast.Load)]:
                    used = first_of(s.scores for s in code.softmaxes(function) if path(s.scores) == old)
                    yield 0, used or statement, code.diff(code.put(used, name)) if used else ""
                elif name != old and old:
                    used = first_of(s.scores for s in code.softmaxes(function) if path(s.scores) == old)
                    if used is not None and used.lineno > statement.lineno:
                        yield 1, used, code.diff(code.put(used, name))
    yield from m2(code, root, facts)
    for site in code.softmaxes(root):
        yield 2, site.call, ""


def m5(code: Code, root: ast.AST, facts: Facts) -> Found:
    for function in code.walk(root):
        if not isinstance(function, ast.FunctionDef):
            continue
        made: dict[str, list[Fill]] = {}
        for fill in fills(code, function):
            statement = code.statement(fill.node)
            if isinstance(statement, ast.Assign) and path(statement.targets[0]):
                made.setdefault(path(statement.targets[0]), []).append(fill)
        for name, several in made.items():
            for fill in several[1:]:
                if fill.scores is not None and path(fill.scores) not in ("", name):
                    always = not isinstance(code.parent.get(code.statement(several[0].node)), ast.If)
                    yield 0, fill.node, code.diff(code.put(fill.scores, name)) if always else ""
        yield from overwritten(code, function, facts)
        for node in code.walk(function):
            if (
                isinstance(node, ast.If)
                and masky(node.test)
                and len(node.orelse) == 1
                and isinstance(node.orelse[0], ast.If)
            ):
                other = node.orelse[0]
                begin = code.span(other)[0]
                if masky(other.test) and code.text[begin : begin + 4] == "elif":
                    yield 0, other, code.diff((begin, begin + 4, "if"))
            if isinstance(node, ast.Assign) and MASKY.search(path(node.targets[0])) and masky(node.value):
                name = path(node.targets[0])
                earlier = [
                    s for s, _ in code.assignments[name] if code.function(s) is function and s.lineno < node.lineno
                ]
                given = name in code.parameters(function)
                if (earlier or given) and not any(path(n) == name for n in ast.walk(node.value)):
                    derived = any(MASKY.search(n) for n in names(node.value) if n != name)
                    yield (1 if derived and earlier else 2), node, ""


def overwritten(code: Code, function: ast.FunctionDef, facts: Facts) -> Found:
    """`mask = second` in an `if` of its own, after `mask = first`: the second line."""
    set_in_ifs: dict[str, list[ast.Assign]] = {}
    for node in code.walk(function):
        if (
            isinstance(node, ast.Assign)
            and MASKY.search(path(node.targets[0]))
            and isinstance(code.parent.get(node), ast.If)
        ):
            if masky(node.value) and path(node.targets[0]) not in names(node.value):
                set_in_ifs.setdefault(path(node.targets[0]), []).append(node)
    for name, several in set_in_ifs.items():
        for node in several[1:]:
            join = {"keep": "&", "block": "|"}.get(str(facts.get("mask_convention")), "")
            text = code.text_of(node.value)
            new = f"{text} if {name} is None else {name} {join} {text}"
            yield 0, node, code.diff(code.put(node.value, new)) if join else ""


def m6(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if isinstance(node, ast.keyword) and node.arg == "is_causal" and masky(node.value):
            yield 0, node.value, ""
        if isinstance(node, ast.If) and masky(node.test):
            inside = any(n in ("tril", "triu", "causal", "is_causal", "causal_mask") for n in names(node))
            none = "Is()" in ast.dump(node.test) and "IsNot" not in ast.dump(node.test)
            chained = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
            if inside and (none or node.orelse):
                diff = ""
                if chained:
                    begin = code.span(node.orelse[0])[0]
                    if code.text[begin : begin + 4] == "elif":
                        diff = code.diff((begin, begin + 4, "if"))
                yield 0, node.orelse[0] if diff else node, diff
        if isinstance(node, ast.IfExp) and masky(node.test) and (masky(node.body) or masky(node.orelse)):
            yield 1, node, ""
    yield from m5(code, root, facts)


def mask_operation(code: Code, root: ast.AST, op: type) -> Iterator[tuple[Any, ast.expr, ast.expr]]:
    """Scores and a mask joined by an operator, before the softmax."""
    for node in code.walk(root):
        pairs = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, op):
            pairs = [(node.left, node.right), (node.right, node.left)]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, op):
            pairs = [(node.target, node.value)]
        elif called(node) in ({"add", "add_"} if op is ast.Add else {"mul", "mul_", "multiply"}) and node.args:
            whole = code.receiver(node)
            pairs = [(whole, node.args[-1])] if whole is not None else []
        for scores, mask in pairs:
            plain = not any(isinstance(n, ast.Constant) and abs(number(n) or 0) > 100 for n in code.sources(mask, 3))
            if masky(mask) and plain and not masky(scores) and weights_site(code, scores) is None:
                yield node, scores, mask


def with_mask(code: Code, node: Any, scores: ast.expr, mask: ast.expr, facts: Facts) -> str:
    """The patch that fills instead of adding or multiplying."""
    numpy = code.numpy(node)
    made = list(code.sources(mask, 3))
    triangle = first_of(called(n) for n in made if called(n) in ("tril", "triu"))
    turned = sum(
        (isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Invert))
        or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and number(n.left) == 1)
        for n in made
    )
    blocks = (triangle == "triu") != turned % 2 if triangle else facts.get("mask_convention") == "block"
    text = masked(code, scores, f"{code.wrapped(mask)} {'!=' if blocks else '=='} 0", numpy)
    if isinstance(node, ast.AugAssign):
        return code.diff(code.put(node, f"{code.text_of(scores)} = {text}"))
    return code.diff(code.put(node, text))


def m7(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node, scores, mask in mask_operation(code, root, ast.Add):
        yield (0 if code.score_product(scores) else 1), node, with_mask(code, node, scores, mask, facts)
    for fill in fills(code, root):
        if fill.kind == "add" and fill.number is not None and abs(fill.number) <= 1:
            yield 0, fill.node, ""
    yield from mask_uses(code, root, 2)


def m8(code: Code, root: ast.AST, facts: Facts) -> Found:
    for fill in fills(code, root):
        if fill.number == 0 and weights_site(code, fill.scores) is None:
            yield (
                0,
                fill.node,
                code.diff(code.put(fill.value, "-np.inf" if code.numpy(fill.node) else LOWEST)),
            )
    for node, scores, mask in mask_operation(code, root, ast.Mult):
        yield (0 if code.score_product(scores) else 1), node, with_mask(code, node, scores, mask, facts)
    yield from mask_uses(code, root, 2)


def refill(code: Code, root: ast.AST, is_wrong: Any) -> Found:
    for fill in fills(code, root):
        if fill.number is not None and is_wrong(fill.number):
            numpy = code.numpy(fill.node)
            best = "-1e9" if fill.kind == "add" else "-np.inf" if numpy else LOWEST
            at = fill.value
            if fill.kind == "add" and isinstance(fill.node, ast.BinOp) and isinstance(fill.node.op, ast.Sub):
                best = "1e9"
            found = code.setting(at) if path(at) else None
            if found is not None and number(found[1]) is not None:
                at = found[1]
            yield 0, at, code.diff(code.put(at, best))
    for node in code.walk(root):  # a mask made with the number, and added later
        if isinstance(node, ast.Call) and called(node) in ("full", "full_like", "fill_diagonal", "fill_") and node.args:
            value = number(node.args[-1])
            if value is not None and is_wrong(value):
                yield 1, node, code.diff(code.put(node.args[-1], LOWEST))


def m9(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from refill(code, root, lambda n: 0 < abs(n) < 1 or n > 100)
    for fill in fills(code, root):
        yield 2, fill.node, ""


def m19(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from refill(code, root, lambda n: -1e6 < n <= -1)
    for fill in fills(code, root):
        yield 2, fill.node, ""


def m18(code: Code, root: ast.AST, facts: Facts) -> Found:
    for fill in fills(code, root):
        yield (0 if fill.number is not None and fill.number < -1e3 else 1), fill.node, ""
    yield from mask_uses(code, root, 2)


def n1(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from refill(code, root, lambda n: float("-inf") < n < -65504 and n != -3e38)


def m11(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if called(node) in ("unsqueeze", "expand_dims") and masky(code.receiver(node)):
            axis = argument(node, 1 if is_library(node.func) else 0, "dim", "axis")
            at = number(axis)
            if axis is not None and at in (3, -1):
                yield 0, node, code.diff(code.put(axis, "2" if at == 3 else "-2"))
            elif axis is not None and at == 2 and "unsqueeze" not in names(code.receiver(node) or node):
                yield 1, node, code.diff(code.put(axis, "1"))
        if isinstance(node, ast.Subscript) and masky(node.value) and isinstance(node.slice, ast.Tuple):
            parts = [code.text_of(e) for e in node.slice.elts]
            if len(parts) > 1 and parts[-1] in ("None", "np.newaxis", "newaxis"):
                moved = [*parts[:-2], parts[-1], parts[-2]] if parts[-2] == ":" else [*parts, ":"]
                yield 0, node, code.diff(code.put(node.slice, ", ".join(moved)))
    yield from mask_uses(code, root, 2)


def m12(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call, axis, at in triangles(code, root):
        upper = called(call).startswith("triu")
        hides = hidden_where(code, call)
        end = code.span(call)[1]
        word = "k=1" if path(call.func).startswith(("np", "numpy", "jnp")) else "diagonal=1"
        if hides is not None and hides != upper:  # the wrong half is hidden
            name_end = code.span(call.func)[1]
            edits = [(name_end - len(called(call)), name_end, "tril" if upper else "triu")]
            if axis is not None:
                edits.append(code.put(axis, "0" if upper else "1"))
            elif not upper:
                edits.append((end - 1, end - 1, (", " if call.args else "") + word))
            yield 0, call, code.diff(*edits) if called(call) != "tri" else ""
        elif at == (1 if upper else 0):
            yield 2, call, ""
        elif axis is not None:
            yield 0, call, code.diff(code.put(axis, "1" if upper else "0"))
        else:
            yield 0, call, code.diff((end - 1, end - 1, (", " if call.args else "") + word)) if upper else ""
    for node in code.walk(root):
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ast.Lt | ast.Gt | ast.GtE | ast.LtE)
        ):
            ranges = [
                any(called(n) in ("arange", "range") for n in code.sources(side, 3))
                for side in (node.left, node.comparators[0])
            ]
            if all(ranges):
                yield 1, node, ""


def hidden_where(code: Code, triangle: ast.Call) -> bool | None:
    """Whether keys are hidden where this triangle is 1 (True) or where it is 0; None where no fill shows it."""
    for fill in fills(code, code.tree):
        if fill.kind in ("add", "index") or not any(triangle is n for n in code.sources(fill.mask, 4)):
            continue
        mask, turned = fill.mask, False
        for n in code.sources(mask, 4):
            if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Invert | ast.Not):
                turned = not turned
            if (
                isinstance(n, ast.Compare)
                and isinstance(n.ops[0], ast.Eq)
                and code.text_of(n.comparators[0]) in ("0", "0.0", "False")
            ):
                turned = not turned
            if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and number(n.left) == 1:
                turned = not turned
        if fill.kind == "where" and fill.value is fill.node.args[2]:
            turned = not turned
        return not turned
    return None


def m14(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call in code.walk(root):
        if called(call) in FUSED:
            causal = argument(call, 5, "is_causal")
            if causal is None:
                end = code.span(call)[1]
                yield 0, call, code.diff((end - 1, end - 1, ", is_causal=True"))
            elif isinstance(causal, ast.Constant) and causal.value is False:
                yield 0, causal, code.diff(code.put(causal, "True"))
    for site in code.softmaxes(root):
        if code.score_product(site.scores) is None:
            continue
        statement, name = code.statement(site.call), path(site.scores)
        diff = ""
        if (
            name
            and isinstance(statement, ast.Assign | ast.Return | ast.AnnAssign)
            and statement.lineno == site.call.lineno
        ):
            begin = code.starts[statement.lineno - 1]
            hide = f"{name} = {name}.masked_fill(torch.ones_like({name}, dtype=torch.bool).triu(1), {LOWEST})"
            if code.numpy(statement):
                hide = f"{name} = np.where(np.triu(np.ones({name}.shape[-2:]), 1) == 1, -np.inf, {name})"
            before = code.text[begin : begin + statement.col_offset]
            diff = code.diff((begin, begin, f"{before}{hide}\n")) if not before.strip() else ""
        yield 1, site.call, diff
    for exp in code.exponentials(root):
        yield 1, exp, ""


def m15(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from tiled(code, root, masky, 0)
    yield from mask_uses(code, root, 2)


def m16(code: Code, root: ast.AST, facts: Facts) -> Found:
    for fill in fills(code, root):
        shaped = {"unsqueeze", "expand", "view", "reshape", "None"} & (
            names(fill.mask) | {"None" if "None" in ast.dump(fill.mask) else ""}
        )
        inner = fill.mask.left if isinstance(fill.mask, ast.Compare) else fill.mask
        rank_of_mask, diff = facts.get("mask_rank"), ""
        if path(inner) and rank_of_mask in (2, 3):
            diff = code.diff(
                code.put(inner, f"{path(inner)}[:, None]" if rank_of_mask == 3 else f"{path(inner)}[:, None, None, :]")
            )
        yield (1 if shaped else 0), fill.node, diff
    yield from mask_uses(code, root, 2)


def m17(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        word = called(node)
        if (
            word not in ("masked_fill", "masked_fill_")
            and difflib.SequenceMatcher(None, word, "masked_fill").ratio() > 0.8
        ):
            end = code.span(node.func)[1]
            yield 0, node, code.diff((end - len(word), end, "masked_fill"))
        tests = node.test if isinstance(node, ast.If | ast.IfExp | ast.While) else None
        if tests is None:
            continue
        if isinstance(tests, ast.Compare) and masky(tests.left) and path(tests.left) and len(tests.ops) == 1:
            against = tests.comparators[0]
            if isinstance(against, ast.Constant) and isinstance(tests.ops[0], ast.Eq | ast.NotEq):
                yes = (against.value is None) == isinstance(tests.ops[0], ast.NotEq)
                yield 0, tests, code.diff(code.put(tests, f"{path(tests.left)} is {'not ' if yes else ''}None"))
        elif path(tests) and masky(tests):
            yield 0, tests, code.diff(code.put(tests, f"{path(tests)} is not None"))
        elif called(tests) in ("any", "all") and masky(tests):
            yield 1, tests, ""
    for function in code.walk(root):
        if isinstance(function, ast.FunctionDef):
            given = {p for p in code.parameters(function) if MASKY.search(p)}
            checks = [
                n.lineno for n in ast.walk(function) if isinstance(n, ast.If | ast.IfExp) and names(n.test) & given
            ]
            for node in code.walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in given:
                    guarded = any(isinstance(u, ast.If | ast.IfExp) and names(u.test) & given for u in code.up(node))
                    if not guarded:
                        yield (0 if checks and node.lineno < min(checks) else 1), node, ""
    yield from mask_uses(code, root, 2)


def m20(code: Code, root: ast.AST, facts: Facts) -> Found:
    for fill in fills(code, root):
        inner = fill.mask.left if isinstance(fill.mask, ast.Compare) else fill.mask
        inner = inner.operand if isinstance(inner, ast.UnaryOp) else inner
        if path(inner).startswith("self.") and fill.scores is not None:
            diff = ""
            if scores := path(fill.scores):
                diff = code.diff(code.put(inner, f"{path(inner)}[..., :{scores}.shape[-2], :{scores}.shape[-1]]"))
            yield 0, fill.node, diff
    for node in code.walk(root):
        if called(node) in ("view", "reshape"):
            for one in node.args:
                if (number(one) or 0) > 1 or (LENGTH.match(last(one)) and path(one).startswith("self.")):
                    yield 1, node, ""
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Add)
            and path(node.right).startswith("self.")
            and masky(node.right)
        ):
            yield 0, node, ""
    for call, _, _ in triangles(code, root):
        yield 2, call, ""


def m21(code: Code, root: ast.AST, facts: Facts) -> Found:
    def windowed(node: ast.AST) -> bool:
        return any("window" in name.lower() or name in ("W", "w", "ws", "span") for name in names(node))

    for node in code.walk(root):
        if isinstance(node, ast.Compare) and windowed(node):
            wide = {ast.LtE: ("<=", "<"), ast.GtE: (">=", ">")}.get(type(node.ops[0])) if len(node.ops) == 1 else None
            diff = ""
            if wide:  # "<= window" lets one token too many in
                begin, end = code.span(node.left)[1], code.span(node.comparators[0])[0]
                at = code.text.find(wide[0], begin, end)
                diff = code.diff((at, at + 2, wide[1])) if at >= 0 else ""
            yield 0, node, diff
        elif called(node) in ("tril", "triu") and windowed(node):
            yield 0, node, ""
        elif isinstance(node, ast.Assign | ast.AugAssign) and windowed(node.value):
            yield 1, node, ""
    for call, _, _ in triangles(code, root):
        yield 2, call, ""


MASKS = {
    name.upper(): rule
    for name, rule in globals().copy().items()
    if name[0] in "mn" and name[1:].isdigit() and callable(rule)
}
