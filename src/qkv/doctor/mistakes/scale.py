"""What the scores are multiplied by."""

import ast
from collections.abc import Iterator
from typing import Any

from ...i18n import Message, _
from ..numbers.oracle import AttentionForm, changed
from ..source.nodes import FUSED, argument, called, is_library, masky, names, number, path, same
from ..source.readings import (
    feeds_softmax,
    first_width,
    head_width,
    operator_edit,
    removed,
    root_of,
    scalings,
    score_expressions,
    size_kind,
    unused_scale,
    weights_site,
)
from ..source.trees import Code
from .mistake import SCALINGS, At, Mistake, Op, Places, Wrong, rescaled


class ScaledUp(Mistake):
    """Divided by d^-½."""

    id = "S1"
    name = _("multiplied by √(head width) instead of divided")
    does = _(
        "Scores come out d_k times too large (64 times at d_k = 64), so almost all weight falls on one key from the first step and hardly any gradient passes the softmax. W_q can shrink to undo it, so training limps instead of failing."
    )
    fix = _(
        "`d_k ** -0.5` is already 1/√d_k: multiply by it, or divide by `d_k ** 0.5`. `scores = q @ k.transpose(-2, -1) * d_k ** -0.5`"
    )
    shows = _(
        "Your output equals attention with scores q·k × √d_k to rounding. A bare f(q, k, v) is called with V = I, which reads the weights: their logarithms rise with q·k at slope √d_k instead of 1/√d_k."
    )
    evidence = {
        "": _(
            "your scores are multiplied by {used} = {value} instead of divided by √{head} = {root}: your numbers equal attention computed so to {error:.0e}"
        )
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.scale is None:
            yield changed(form, scale=at.head**0.5), {"used": f"√{at.head}", "value": at.head**0.5}
            if at.width != at.head:
                yield changed(form, scale=at.width**0.5), {"used": f"√{at.width}", "value": at.width**0.5}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        return rescaled(op, at, form)

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
                opposite = (
                    node.func.attr.replace("mul", "div") if use.times else "mul" + "_" * node.func.attr.endswith("_")
                )
                diff = code.diff((end - len(node.func.attr), end, opposite))
            product = use.other is not None and any(code.is_product(n) for n in ast.walk(use.other))
            yield (0 if product or use.other is None or feeds_softmax(code, node) else 1), node, diff


class Unscaled(Mistake):
    """No scale."""

    id = "S2"
    name = _("scores not scaled")
    does = _(
        "With q and k of variance 1 the scores have standard deviation √d_k (8 at d_k = 64): of 64 random keys one takes 79 % of the weight on average, where scaled scores give it 11 %. The softmax saturates and its gradient shrinks, the more the wider the head."
    )
    fix = _("Divide the scores before the softmax: `scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)`")
    shows = _("Your output equals attention with bare q·k to rounding; often a `self.scale` is made and never read.")
    evidence = {
        "": _(
            "your scores are not scaled: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so they should be divided by √{head} = {root}"
        )
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.scale is None:
            yield changed(form, scale=1.0), {"used": "1", "value": 1.0}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        return rescaled(op, at, form)

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
                    and (
                        isinstance(outer.op, ast.Pow) or (outer.right is product and not isinstance(outer.op, ast.Add))
                    )
                )
                begin, end = code.span(product)
                inside = bound and not code.text[:begin].rstrip().endswith("(")
                diff = (
                    code.diff((begin, begin, "("), (end, end, behind + ")"))
                    if inside
                    else code.diff((end, end, behind))
                )
            yield 0, product, diff


class ByModelWidth(Mistake):
    """√width for √d_k."""

    id = "S3"
    name = _("scaled by √(model width) instead of √(head width)")
    does = _(
        "With H heads the scores are √H times too small (2.8 times with 8 heads), so every head looks around more evenly than it should, and W_q and W_k must grow to make up for it. Weights moved to or from a correct implementation give other outputs."
    )
    fix = _(
        "The sum in q·k runs over one head's channels, so scale by their number: `d_k = d_model // n_heads` and `scores / math.sqrt(d_k)`"
    )
    shows = _(
        "Your output equals attention scaled by 1/√(heads × d_k) to rounding, with d_k read from the shapes of the weights."
    )
    evidence = {
        "": _(
            "you divide by √{width} = {wide}: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so it should be √{head} = {root}"
        )
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.width != at.head and form.scale is None:
            yield changed(form, scale=at.width**-0.5), {"used": f"1/√{at.width}", "value": at.width**-0.5}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        return rescaled(op, at, form)

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from wrong_size(code, root, {"width": 0, "head": 2})


class ByAnotherSize(Mistake):
    """The length, the number of heads, the batch."""

    id = "S4"
    name = _("scaled by a size that is not the head width")
    does = _(
        "With the sequence length under the root, the same tokens get a sharper or flatter softmax as soon as the text is longer or shorter; with the number of heads it is a constant wrong factor. Either way the scores no longer have variance near 1."
    )
    fix = _("Take the width of the queries, not another axis: `d_k = q.size(-1)` and `scores / math.sqrt(d_k)`")
    shows = _(
        "V = I reads the weights at two lengths: the factor on q·k changes with the length, or equals 1/√(number of heads)."
    )
    evidence = {
        "": _(
            "your scores are multiplied by {used}: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so it should be 1/√{head} = {right}"
        ),
        "size": _(
            "your scores are multiplied by {used}, which is {size}: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so it should be 1/√{head} = {right}"
        ),
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.scale is not None:
            return
        named = {
            at.n: Message("the number of tokens"),
            at.m: Message("the number of tokens"),
            at.batch: Message("the batch"),
            at.kv_heads: Message("the number of key heads"),
            at.heads: Message("the number of heads"),
        }
        for size in dict.fromkeys([at.n, at.m, at.heads, at.declared, at.batch, *at.extra]):
            if size > 1 and size not in (at.head, at.width):
                yield (
                    changed(form, scale=size**-0.5),
                    {"used": f"1/√{size}", "value": size**-0.5, "size": named.get(size, "")},
                )
        if at.heads > 1:
            yield (
                changed(form, scale=float(at.heads) ** 0.5),
                {"used": f"√{at.heads}", "value": at.heads**0.5, "size": Message("the number of heads")},
            )

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        return rescaled(op, at, form)

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from wrong_size(code, root, {"length": 0, "heads": 0, "head": 2})


class ScaledAfter(Mistake):
    """Softmax first, then divided."""

    id = "S6"
    name = _("scaled after the softmax instead of before")
    does = _(
        "The softmax sees unscaled scores and saturates, and then each row of weights adds up to 1/√d_k instead of 1: the output is √d_k times too small."
    )
    fix = _("Scale inside the softmax: `torch.softmax(scores / math.sqrt(d_k), dim=-1)`")
    shows = _(
        "With all value rows equal, the output must be that row; yours is 1/√d_k of it. A module's output equals softmax(q·k)/√d_k · V to rounding."
    )
    evidence = {
        "": _(
            "the softmax comes first and its result is divided by {used} = {value}: your numbers equal attention computed so to {error:.0e}; the weights of a row sum to {sum}, not 1"
        )
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.scale is None and form.divide == 1:
            for size in dict.fromkeys([at.head, at.width]):
                yield changed(form, scale=1.0, divide=size**0.5), {"used": f"√{size}", "value": size**0.5}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        if op.name in SCALINGS:
            yield op.result * form.divide

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
                    f"({inner})"
                    if isinstance(scores, ast.BinOp) and isinstance(scores.op, ast.Add | ast.Sub)
                    else inner
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
                        isinstance(statement, ast.Assign)
                        and same(statement.targets[0], left)
                        and statement.value is node
                    )
                    rest = removed(code, statement) if idle else code.put(node, code.text_of(left))
                    diff = code.diff(rest, code.put(scores, new_scores))
            yield (0 if root_of(code, right) or "scale" in path(right) else 1), node, diff


class AllAxesReversed(Mistake):
    """`.T` on three axes."""

    id = "S7"
    name = _("`.T` reverses all axes, not just the last two")
    does = _(
        "On (batch, length, width), `k.T` is (width, length, batch). The product crashes, or, where the sizes happen to be equal, silently mixes samples."
    )
    fix = _("Swap the last two axes only: `k.transpose(-2, -1)` in PyTorch, `k.swapaxes(-2, -1)` in NumPy")
    shows = _(
        "Called with batch, length and width all different, it crashes or gives another shape; the same samples one by one work."
    )
    evidence = {"": _("a single text of shape (n, d) runs, a batch (B, n, d) does not: {error}")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            swap = "swapaxes(-2, -1)" if code.numpy(node) else "transpose(-2, -1)"
            inside = any(code.is_product(n) for n in code.up(node))
            if isinstance(node, ast.Attribute) and node.attr == "T":
                yield (0 if inside else 1), node, code.diff(code.put(node, f"{code.wrapped(node.value)}.{swap}"))
            elif called(node) in ("t", "transpose") and not node.keywords:
                whole = code.receiver(node)
                if whole is not None and len(node.args) == (1 if is_library(node.func) else 0):
                    yield (0 if inside else 1), node, code.diff(code.put(node, f"{code.wrapped(whole)}.{swap}"))


class ScaleOfTheFirstCall(Mistake):
    """Kept for later calls, whose heads may be wider."""

    id = "S8"
    name = _("the scale of the first call is kept for all later ones")
    does = _(
        "The first width that comes along fixes √d_k; every later call with another width is scaled wrongly, and the result depends on the order of calls."
    )
    fix = _("Compute it from what was passed, every time: `scale = q.size(-1) ** -0.5`")
    shows = _("Called with one width and then with another, the second answer is right only in a fresh copy.")
    evidence = {
        "": _(
            "called with width {first}, then with {second}, it gives other numbers (by {change:.1%}) than when called with {second} at once: the scale of the first call is kept"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if isinstance(node, ast.If) and (
                "None" in ast.dump(node.test) or "hasattr" in names(node.test) or "Not()" in ast.dump(node.test)
            ):
                for statement in node.body:
                    if isinstance(statement, ast.Assign) and root_of(code, statement.value):
                        kept = isinstance(statement.targets[0], ast.Attribute | ast.Subscript)
                        yield (0 if kept or isinstance(code.parent.get(node), ast.Module) else 1), node, ""


def wrong_size(code: Code, root: ast.AST, wanted: dict[str, int]) -> Places:
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
