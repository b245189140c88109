"""Over which axis, of what, and what happens to the weights."""

import ast
from collections.abc import Iterator
from typing import Any

from ...i18n import Message, _
from ..numbers.oracle import AttentionForm, changed
from ..source.nodes import argument, called, is_library, masky, number, path, same
from ..source.readings import default_of, fill_of, masked, removed, weights_site
from ..source.trees import Code
from .mistake import At, Mistake, Op, Places, Wrong, masked_wrongly


class OverQueries(Mistake):
    """Softmax over the queries."""

    id = "X1"
    name = _("softmax over the queries instead of the keys")
    does = _(
        "Columns add up to 1, rows to anything: each key shares itself out among the queries. Under a causal mask every denominator also sums over later queries, so the future leaks; and with a single query, as when generating, every weight is 1."
    )
    fix = _("Normalise along the last axis, the keys: `torch.softmax(scores, dim=-1)`")
    shows = _(
        "With all value rows equal, the output is not that row. A module's output equals attention with softmax over the query axis to rounding."
    )
    evidence = {
        "": _(
            "the softmax runs over the queries: your numbers equal attention computed so to {error:.0e}; each column of your weights sums to 1, the rows don't"
        )
    }
    explains = 4

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield changed(form, softmax="queries"), {}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        if "softmax" in op.name and hasattr(op.args[0], "softmax"):
            yield from (op.args[0].softmax(axis) for axis in range(-1, -1 - op.result.dim(), -1))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from axis_places(code, root, {-2, 1, 2})


class OverBatch(Mistake):
    """Softmax over the batch."""

    id = "X2"
    name = _("softmax over the batch")
    does = _(
        "A sample's answer depends on which others are in its batch; alone, every weight is 1 and the output is the plain sum of all values. `nn.Softmax()` without `dim` takes axis 0 of a 3-D tensor."
    )
    fix = _("Name the axis: `nn.Softmax(dim=-1)`, `torch.softmax(scores, dim=-1)`")
    shows = _("The first sample alone gives another output than the first sample in a batch.")
    evidence = {
        "": _(
            "the softmax runs over the batch: your numbers equal attention computed so to {error:.0e}; one text's weights depend on the texts beside it"
        )
    }
    explains = 5

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield changed(form, softmax="batch"), {"axis": Message("the batch")}
        if at.heads > 1:
            yield changed(form, softmax="batch and heads"), {"axis": Message("batch and heads together")}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        if "softmax" in op.name and hasattr(op.args[0], "softmax"):
            yield from (op.args[0].softmax(axis) for axis in range(-1, -1 - op.result.dim(), -1))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from axis_places(code, root, {0, None})


class OverHeads(Mistake):
    """Softmax over the heads."""

    id = "X3"
    name = _("softmax over the heads instead of the keys")
    does = _(
        "Heads compete with each other for every pair of tokens and rows no longer add up to 1; with one head every weight is 1. `nn.Softmax()` without `dim` takes axis 1 of a 4-D tensor, which is the heads."
    )
    fix = _("Name the axis: `torch.softmax(scores, dim=-1)`")
    shows = _(
        "With all value rows equal, the output is not that row; it equals attention with softmax over the heads (or heads and keys together) to rounding."
    )
    evidence = {"": _("the softmax runs over {axis}: your numbers equal attention computed so to {error:.0e}")}
    explains = 6

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.heads > 1:
            yield changed(form, softmax="heads"), {"axis": Message("the number of heads")}
            yield changed(form, softmax="heads and keys"), {"axis": Message("heads and keys together")}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        if "softmax" in op.name and hasattr(op.args[0], "softmax"):
            yield from (op.args[0].softmax(axis) for axis in range(-1, -1 - op.result.dim(), -1))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from axis_places(code, root, {1, -3, None})


class NoMaximum(Mistake):
    """exp() of whatever comes."""

    id = "X5"
    name = _("exponential without subtracting the maximum")
    does = _(
        "exp overflows to infinity above 88.7 in float32 and above 11.1 in float16, and infinity / infinity is NaN: the model dies the first time its scores grow."
    )
    fix = _(
        "Subtract each row's maximum, which changes nothing else: `e = torch.exp(scores - scores.amax(dim=-1, keepdim=True))`, or call `torch.softmax`"
    )
    shows = _("Right for small inputs, NaN or infinity for inputs 300 times as large, where attention is finite.")
    evidence = {
        "": _(
            "with inputs 300 times as large, {bad:.0f} % of the output is NaN or infinite: e to a large number overflows"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for exp in code.exponentials(root):
            if not exp.args:
                continue
            inside = exp.args[0]
            tops = [
                n
                for n in code.sources(inside, 3)
                if isinstance(n, ast.Call) and called(n) in ("max", "amax", "logsumexp")
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


class NoSoftmax(Mistake):
    """Raw scores as weights."""

    id = "X6"
    name = _("the softmax is computed and not used")
    does = _(
        "Raw scores weight the values: they can be negative, don't add up to 1, and the output of self-attention grows with the cube of its input."
    )
    fix = _("Use what the softmax returns: `weights = torch.softmax(scores, dim=-1)` and then `weights @ v`")
    shows = _("Inputs twice as large give outputs about 8 times as large; attention can at most about double.")
    evidence = {
        "": _(
            "the raw scores are used as weights: your numbers equal attention computed so to {error:.0e}; the softmax has no effect"
        ),
        "growth": _("twice the input gives {growth:.1f} times the output: weights that sum to 1 give at most twice"),
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield changed(form, softmax="nothing"), {}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
                    n
                    for n in ast.walk(getattr(setter, "value", setter))
                    if scored and path(n) == scored and scored != name
                ]
                yield 0, again[0], code.diff(*(code.put(n, name) for n in raw))


class MaskedAfter(Mistake):
    """Weights set to 0 after the softmax."""

    id = "X7"
    name = _("mask applied after the softmax")
    does = _(
        "Hidden keys are still in the denominator: rows add up to less than 1, and a causal model still learns about the future through what is missing."
    )
    fix = _(
        "Hide before the softmax: `scores = scores.masked_fill(mask == 0, float('-inf'))`, then `torch.softmax(scores, dim=-1)`"
    )
    shows = _(
        "With all value rows equal and some keys hidden, the output is a fraction of that row; changing a hidden key changes the fraction."
    )
    evidence = {
        "": _(
            "the mask given as `{parameter}` is applied after the softmax: your numbers equal attention computed so to {error:.0e}; the rows no longer sum to 1"
        ),
        "causal": _(
            "the causal mask is applied after the softmax: your numbers equal attention computed so to {error:.0e}; the first row sums to less than 1, and later tokens still shift the weights"
        ),
        "shares": _(
            "the mask given as `{parameter}` sets weights to 0 after the softmax: those that stay are the same as without it, so the rows no longer sum to 1"
        ),
    }
    explains = 11

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield from masked_wrongly(form, "after")

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


class DroppedScores(Mistake):
    """Dropout before the softmax, or on the weights handed back."""

    id = "X8"
    name = _("dropout on the scores, or on the weights that are returned")
    does = _(
        "A dropped score becomes 0, which is not a dropped weight but e⁰ before normalising, and −inf × 0 is NaN under a mask. Weights returned after dropout don't add up to 1, so plots of them mislead."
    )
    fix = _(
        "Drop weights, after the softmax, and return them from before: `weights = torch.softmax(scores, dim=-1)`; `output = self.dropout(weights) @ v`"
    )
    shows = _(
        "In training mode the masked output has NaN, or the rows of the returned weights don't add up to 1 though in eval mode they do."
    )
    evidence = {
        "": _("in training mode {part:.0f} % of the output is NaN: dropout before the softmax multiplies −inf by 0"),
        "before": _(
            "in training mode the softmax takes scores that a dropout with p = {p} has been at: dropped scores become 0, and e⁰ = 1 is a weight"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


def axis_places(code: Code, root: ast.AST, wanted: set[float | None]) -> Places:
    for site in code.softmaxes(root):
        at = None if site.axis is None else number(site.axis)
        right = key_axis(code, site.scores)
        inner = code.definitions().get(called(site.call)) if isinstance(site.call.func, ast.Name) else None
        if isinstance(inner, ast.FunctionDef) and inner is not root and site.axis is None:
            continue  # a softmax of their own: its own lines are looked at
        if site.axis is None:
            end = code.span(site.owner)[1]
            more = ", " if site.owner.args else ""
            yield (0 if None in wanted else 1), site.owner, code.diff((end - 1, end - 1, f"{more}{site.word}={right}"))
        elif at != float(right):
            yield (0 if at in wanted else 1), site.axis, code.diff(code.put(site.axis, right))
        else:
            yield 2, site.call, ""
    for exp in code.exponentials(root):
        function = code.function(exp) or root
        tops = [n for n in code.walk(function) if called(n) in ("max", "amax")]  # go along the same axis
        for node in code.walk(function):
            if called(node) != "sum":
                continue
            axis = along(node)
            at = number(code.resolve(axis)) if axis is not None else None
            if axis is not None and at is not None and at != -1:
                written = default_of(code, function, axis) or axis
                alike = [n for n in tops if (other := along(n)) is not None and number(code.resolve(other)) == at]
                yield 0, written, code.diff(*dict.fromkeys(e for n in (node, *alike) for e in _along_keys(code, n)))
            elif isinstance(axis, ast.Name) and (default := default_of(code, function, axis)) is not None:
                at = number(default)
                yield (0 if at != -1 else 2), default, code.diff(code.put(default, "-1")) if at != -1 else ""


def along(node: Any) -> ast.expr | None:
    """The axis that a sum or a largest number is taken along."""
    return argument(node, 1 if is_library(node.func) else 0, "axis", "dim")


def _along_keys(code: Code, node: Any) -> Iterator[tuple[int, int, str]]:
    """The same along the last axis, which stays."""
    axis, function = along(node), code.function(node)
    if axis is not None:
        written = default_of(code, function, axis) if function is not None else None
        yield code.put(written or axis, "-1")
    if argument(node, 99, "keepdims", "keepdim") is None:
        end = code.span(node)[1]
        yield end - 1, end - 1, ", keepdims=True" if code.numpy(node) else ", keepdim=True"


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
