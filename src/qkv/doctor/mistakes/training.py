"""Modules, gradients, layers around attention."""

import ast
import re

from ...i18n import _
from ..source.nodes import FUSED, argument, called, first_of, is_library, last, masky, names, number, path, same
from ..source.readings import removed
from ..source.says import built_in_forward, head_loop, never_read
from ..source.trees import Code
from .mistake import Mistake, Places

CACHE = re.compile(r"cache|past|kv_|_kv|history|prev_", re.I)
LAYERS = re.compile(
    r"^(Linear|LayerNorm|RMSNorm|Embedding|Conv\dd|BatchNorm\dd|GroupNorm|MultiheadAttention|Parameter|LSTM|GRU)$"
)


class EditedInPlace(Mistake):
    """What autograd needs is gone."""

    id = "N2"
    name = _("scores are edited in place where autograd needs them")
    does = _("The forward pass works and `backward()` raises, or the values of a view change under another name.")
    fix = _(
        "Make a new tensor: `scores = scores.masked_fill(mask == 0, float('-inf'))` instead of `masked_fill_` or `scores[...] = `"
    )
    shows = _("A backward pass raises autograd's in-place error.")
    evidence = {"": _("with gradients on it stops: {error}")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for function in code.walk(root):
            if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
                continue
            for node in code.walk(function):
                word = called(node)
                if word.endswith("_") and not word.startswith("_") and isinstance(node.func, ast.Attribute):
                    end = code.span(node.func)[1]
                    statement = code.statement(node)
                    edits = [(end - len(word), end, word.rstrip("_"))]
                    whole = path(node.func.value)
                    if isinstance(statement, ast.Expr) and statement.value is node and whole:
                        edits.append((code.span(node)[0],) * 2 + (f"{whole} = ",))
                    yield 0, node, code.diff(*edits) if whole or not isinstance(statement, ast.Expr) else ""
                elif (
                    isinstance(node, ast.Assign)
                    and isinstance(node.targets[0], ast.Subscript)
                    and not path(node.targets[0].value).startswith("self.")
                ):
                    yield 0, node, filled(code, node)
                elif isinstance(node, ast.AugAssign):
                    yield 1, node, augmented(code, node)


class ChangesItsInput(Mistake):
    """What the caller handed over is other afterwards."""

    id = "N3"
    name = _("it changes what it was given")
    does = _(
        "The caller's tensor is different after the call: a residual added afterwards uses the wrong x, and the second call gives another answer than the first."
    )
    fix = _("Write `x = x + y` instead of `x += y`, and methods without the underscore: `masked_fill`, `mul`, `add`")
    shows = _("The inputs, compared before and after the call, differ.")
    evidence = {"": _("`{parameter}` is another tensor after the call than before: it is changed in place")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from ((rank + 1, node, diff) for rank, node, diff in EditedInPlace.places(code, root))


class MadeAnew(Mistake):
    """A layer in forward: its weights are never trained."""

    id = "T1"
    name = _("a layer is made anew in every call")
    does = _(
        "The optimizer never sees its weights, so it is never trained and isn't saved. A Linear is random again at each call; a LayerNorm looks fine, because gain 1 and bias 0 are what it starts from, and just never learns."
    )
    fix = _("Make it once in `__init__`: `self.norm = nn.LayerNorm(d_model)`, and call `self.norm(x)`")
    shows = _("A module with weights runs that is not among the model's modules; with a Linear two equal calls differ.")
    evidence = {
        "": _("a {kind} with weights is made anew inside the call: no optimizer ever sees it"),
        "random": _(
            "a {kind} with random weights is made anew inside the call: two calls in eval mode give different numbers"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if not isinstance(node, ast.Call) or not LAYERS.match(called(node)):
                continue
            function, owner = code.function(node), code.around(node, ast.ClassDef)
            if (
                function is None
                or function.name.startswith(("__init__", "_init", "init", "build", "make", "reset"))
                or owner is None
            ):
                continue
            yield 0, node, hoisted(code, node, owner)


class Unregistered(Mistake):
    """Layers in a plain list, tensors that are no parameters."""

    id = "T2"
    name = _("weights that the module does not know of")
    does = _(
        "Plain tensors and modules in a Python list are not parameters: they are not trained, saved, or moved to the GPU."
    )
    fix = _("`self.w = nn.Parameter(torch.randn(d, d) * d ** -0.5)`, `self.heads = nn.ModuleList([...])`")
    shows = _("Modules run that are not in `modules()`, or there are fewer parameters than the computation uses.")
    evidence = {
        "": _("{count} layers stand in a plain list: their {missed} weights are not among parameters() ({known} are)"),
        "tensor": _(
            "{names}: plain tensors, not nn.Parameter; parameters() has {known} numbers and these are not among them"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        places: list[tuple[int, ast.stmt, tuple[int, int, str]]] = []
        for name, settings in code.assignments.items():
            for statement, value in settings:
                if not name.startswith("self.") or not any(root is n for n in code.up(statement)):
                    continue
                if (
                    isinstance(statement, ast.Assign)
                    and hasattr(value, "lineno")
                    and (new := registered(code, name, value))
                ):
                    idle = {"tril", "triu"} & names(value) or masky(ast.Name(name)) or CACHE.search(name)
                    places.append((2 if idle else 0, statement, code.put(value, new)))
        for rank, statement, _unused in places:
            owner = code.around(statement, ast.ClassDef)
            mates = [edit for r, s, edit in places if r == 0 and code.around(s, ast.ClassDef) is owner]
            yield rank, statement, code.diff(*mates) if rank == 0 else ""


class AwakeInEval(Mistake):
    """Dropout that never sleeps."""

    id = "T3"
    name = _("dropout is active in eval mode")
    does = _(
        "Answers are noisy: the same input gives another output each time, and evaluation is worse than the model. `F.dropout` and scaled_dot_product_attention's `dropout_p` don't know of `eval()`."
    )
    fix = _(
        "`F.dropout(x, p, training=self.training)`, `dropout_p=self.p if self.training else 0.0`, or `nn.Dropout(p)`"
    )
    shows = _("After `eval()`, two equal calls differ.")
    evidence = {
        "": _("in eval mode two equal calls differ by {change:.1%}: dropout with p = {p} is still at work"),
        "random": _("in eval mode two equal calls differ by {change:.1%}: something random is still at work"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if not isinstance(node, ast.Call):
                continue
            inside = code.around(node, ast.ClassDef) is not None
            if called(node) in ("dropout", "dropout1d", "dropout2d", "alpha_dropout") and is_library(node.func):
                told = argument(node, 2, "training", "train")
                if told is None:
                    end = code.span(node)[1]
                    yield 0, node, code.diff((end - 1, end - 1, ", training=self.training")) if inside else ""
                elif isinstance(told, ast.Constant) and told.value is True:
                    yield 0, told, code.diff(code.put(told, "self.training")) if inside else ""
            elif called(node) in FUSED:
                p = argument(node, 4, "dropout_p")
                if p is not None and number(p) != 0 and not isinstance(p, ast.IfExp):
                    yield 0, p, code.diff(code.put(p, f"{code.text_of(p)} if self.training else 0.0")) if inside else ""
            elif (
                called(node) == "Dropout"
                and (function := code.function(node)) is not None
                and function.name != "__init__"
            ):
                yield 0, node, ""


class ResidualOfTheNormed(Mistake):
    """x + f(x) with x = norm(x)."""

    id = "T5"
    name = _("the residual starts from the normalised x")
    does = _(
        "The straight path through the network, which pre-norm exists for, is gone: each block passes on a normalised copy, and deep stacks train worse."
    )
    fix = _("Normalise only what the sublayer reads: `x = x + self.attn(self.norm1(x))`")
    shows = _(
        "Adding a constant to all channels of a token must add it to a pre-norm block's output; here it vanishes."
    )
    evidence = {
        "": _("the residual adds the normed input instead of the input: the output is norm(x) + …, number for number")
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        places: list[tuple[ast.Assign, list[tuple[int, int, str]]]] = []
        for node in code.walk(root):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or not node.value.args:
                continue
            name = path(node.targets[0])
            if not name or path(node.value.args[0]) != name or not re.search("norm|^ln", called(node.value), re.I):
                continue
            body = getattr(code.parent.get(node), "body", [])
            after = body[body.index(node) + 1] if node in body and body.index(node) + 1 < len(body) else None
            total, edits = getattr(after, "value", None), []
            if isinstance(after, ast.Assign) and isinstance(total, ast.BinOp) and isinstance(total.op, ast.Add):
                kept, read = (total.left, total.right) if path(total.left) == name else (total.right, total.left)
                inner = [n for n in ast.walk(read) if isinstance(n, ast.Name) and n.id == name]
                if path(kept) == name and inner:
                    edits = [code.put(node.targets[0], "normed"), *(code.put(n, "normed") for n in inner)]
            places.append((node, edits))
        for node, edits in places:
            mates = [edit for n, more in places if code.function(n) is code.function(node) for edit in more]
            yield (0 if edits else 1), node, code.diff(*mates) if edits else ""


class Miswired(Mistake):
    """Residuals and norms in another order than any that is known."""

    id = "T6"
    name = _("residuals or norms are wired wrongly")
    does = _(
        "A sublayer is skipped, counted twice or left without its residual, or a norm never gets a gradient: the block trains, as a weaker one than it was written to be."
    )
    fix = _(
        "Pre-norm: `x = x + self.attn(self.norm1(x))`, then `x = x + self.ff(self.norm2(x))`; post-norm: `x = self.norm1(x + self.attn(x))`, then `x = self.norm2(x + self.ff(x))`"
    )
    shows = _("A sublayer or norm gets no gradient, or the block's output equals that of another wiring to rounding.")
    evidence = {
        "": _("the output is {found}, and should be {right}"),
        "unused": _("`{unused}` gets no gradient: that norm is never used"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and same(node.left, node.right):
                function = code.function(node)
                read = {
                    n.id for n in ast.walk(function or root) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
                }
                made = [
                    n
                    for n, s in code.assignments.items()
                    for one, _unused in s
                    if code.function(one) is function and one.lineno < node.lineno
                ]
                lost = [n for n in made if n not in read and "." not in n and n != "_"]
                edits = [code.put(node.right, lost[-1])] if lost else []
                before = code.setting(node.right)
                if (
                    not lost
                    and before is not None
                    and isinstance(before[1], ast.Call)
                    and before[0].lineno + 3 > node.lineno
                ):
                    if any(same(a, node.right) for a in before[1].args):  # x = f(x); x + x: the old x is gone
                        edits = [removed(code, before[0]), code.put(node.right, code.text_of(before[1]))]
                yield 0, node, code.diff(*edits)
        for node in code.walk(root):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Name):
                inner = first_of(
                    n
                    for n in code.sources(node.right, 3)
                    if isinstance(n, ast.Call)
                    and re.search("ff|mlp|feed", last(n.func), re.I)
                    and n.args
                    and isinstance(n.args[0], ast.Name)
                )
                if inner is not None and path(inner.args[0]) != path(node.left):
                    yield 0, node, code.diff(code.put(node.left, path(inner.args[0])))
        norms: dict[str, list[ast.Call]] = {}
        unused = [n for owner in code.walk(root) if isinstance(owner, ast.ClassDef) for n in never_read(code, owner)]
        unused += [n.removesuffix(".weight").removesuffix(".bias") for n in code.unused]
        for node in code.walk(root):
            if (
                isinstance(node, ast.Call)
                and path(node.func).startswith("self.")
                and re.search("norm|ln", last(node.func), re.I)
            ):
                norms.setdefault(path(node.func), []).append(node)
        spare = first_of(n for n in unused if re.search("norm|ln", n, re.I))
        for calls in norms.values():
            for again in calls[1:]:
                yield 0, again, code.diff(code.put(again.func, f"self.{spare}")) if spare else ""
        for node in code.walk(root):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and path(node.value.func).startswith("self.")
            ):
                word = last(node.value.func)
                x = path(node.targets[0])
                given = node.value.args[0] if node.value.args else None
                if isinstance(given, ast.Call) and given.args and re.search("norm|ln", called(given), re.I):
                    given = given.args[0]
                if re.search("ff|mlp|feed|att|mha", word, re.I) and given is not None and path(given) == x:
                    after = [
                        n
                        for n in code.walk(code.function(node) or root)
                        if n.lineno > node.lineno and isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add)
                    ]
                    yield (
                        (1 if after else 0),
                        node,
                        code.diff(code.put(node.value, f"{x} + {code.text_of(node.value)}")) if not after else "",
                    )
        for node in code.walk(root):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Add)
                and (code.function(node) or ast.Pass())
                and any(path(n).startswith("self.") for n in ast.walk(node))
            ):
                yield 2, node, ""


class OnlyQueriesNormed(Mistake):
    """norm(q), k, v in a pre-norm layer."""

    id = "T8"
    name = _("only the queries are normalised")
    does = _("Keys and values come from the raw residual stream, which grows from layer to layer: scores grow with it.")
    fix = _("Normalise once, use it three times: `h = self.norm(x)`; `x = x + self.attn(h, h, h)`")
    shows = _("The block's output equals one whose q alone comes from the normalised x, to rounding.")
    evidence = {"": _("attention gets norm(x) as its query but x itself as key and value")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if (
                not isinstance(node, ast.Call)
                or not re.search("att|mha|self_attn", last(node.func), re.I)
                or len(node.args) < 2
            ):
                continue
            first, others = node.args[0], node.args[1:3]
            value = code.resolve(first, 1)
            if isinstance(value, ast.Call) and re.search("norm|ln", called(value), re.I) and value.args:
                raw = [o for o in others if path(o) and path(o) == path(value.args[0]) and not same(o, first)]
                yield (0 if raw else 1), node, code.diff(*(code.put(o, code.text_of(first)) for o in raw))


class Slow(Mistake):
    """A loop over heads, a mask made anew in each call."""

    id = "E1"
    name = _("right, and slower than it needs to be")
    does = _(
        "A causal mask built in every call costs n² numbers each time; a Python loop over heads runs H small products one after another where one large one would do."
    )
    fix = _(
        "`self.register_buffer('mask', torch.tril(torch.ones(n, n)).bool(), persistent=False)` in `__init__`; heads as an axis: `view(B, n, H, d).transpose(1, 2)`"
    )
    shows = _("Found in the source. This is a remark, not a fault.")

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        if (line := built_in_forward(code, root)) is not None:
            yield 0, line, ""
        if (line := head_loop(code, root)) is not None:
            yield 0, line, ""


class Crashes(Mistake):
    """An error of its own lines."""

    id = "W1"
    name = _("crashes")
    does = _("With these inputs it raises instead of answering.")
    fix = _(
        'See the last line of the traceback; if your class needs other arguments, pass them: `qkv check file.py:Name --args "dim=64"`'
    )
    shows = _("The call raised; the error's own words are quoted.")
    evidence = {"": _("it stops: {error}")}


def filled(code: Code, node: ast.Assign) -> str:
    """w[mask] = 0 written as w = w.masked_fill(mask, 0)."""
    place = node.targets[0]
    if not isinstance(place, ast.Subscript) or not masky(place.slice) or not path(place.value) or code.numpy(node):
        return ""
    if isinstance(place.slice, ast.Tuple | ast.Slice) or number(node.value) is None:
        return ""
    name, mask, value = path(place.value), code.text_of(place.slice), code.text_of(node.value)
    return code.diff(code.put(node, f"{name} = {name}.masked_fill({mask}, {value})"))


def augmented(code: Code, node: ast.AugAssign) -> str:
    """x += y written as x = x + y."""
    signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@"}
    sign = signs.get(type(node.op), "")
    target = code.text_of(node.target)
    return code.diff(code.put(node, f"{target} = {target} {sign} {code.wrapped(node.value)}")) if sign else ""


def hoisted(code: Code, node: ast.Call, owner: ast.ClassDef) -> str:
    """The patch that makes a layer once, at the end of `__init__`, where its sizes are known there."""
    start = first_of(m for m in owner.body if isinstance(m, ast.FunctionDef) and m.name == "__init__")
    if start is None or start.body[-1].lineno == start.lineno:
        return ""
    known = {
        *code.parameters(start),
        "self",
        "nn",
        "torch",
        *(n for n, s in code.assignments.items() if code.function(s[0][0]) is None),
    }
    roots = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if not roots <= known:
        return ""
    statement = code.statement(node)
    attribute = {"LayerNorm": "norm", "Linear": "linear"}.get(called(node), called(node).lower())
    if isinstance(statement, ast.Assign) and statement.value is node and isinstance(statement.targets[0], ast.Name):
        attribute = statement.targets[0].id
    while f"self.{attribute}" in code.assignments:
        attribute += "_"
    end = code.span(start.body[-1])[1]
    return code.diff(
        (end, end, f"\n{' ' * start.body[-1].col_offset}self.{attribute} = {code.text_of(node)}"),
        code.put(node, f"self.{attribute}"),
    )


def registered(code: Code, name: str, value: ast.expr) -> str:
    """How a list, dict or tensor of weights is written so that the module knows of it; "" where it holds none."""
    made = {"randn", "rand", "zeros", "ones", "empty", "normal", "tensor", "randn_like", "Tensor", "xavier_uniform_"}
    modules = any(isinstance(n, ast.Call) and called(n)[:1].isupper() for n in ast.walk(value))
    text = code.text_of(value)
    if isinstance(value, ast.List | ast.ListComp):
        grows = any(
            called(n) in ("append", "extend") and path(n.func).startswith(name + ".")
            for n in ast.walk(code.tree)
            if isinstance(n, ast.Call)
        )
        if modules:
            return f"nn.ModuleList({text})"
        return "nn.ModuleList()" if grows and isinstance(value, ast.List) and not value.elts else ""
    if isinstance(value, ast.Dict | ast.DictComp):
        return f"nn.ModuleDict({text})" if modules else ""
    first = first_of(p for p in [*code.chain(value)][::-1] if isinstance(p, ast.Call))
    return f"nn.Parameter({text})" if called(first or value) in made or drawn(value, made) else ""


def drawn(value: ast.expr, made: set[str]) -> bool:
    """Whether an expression makes random numbers: torch.randn(d, d) / d ** 0.5."""
    return (
        any(called(n) in made and is_library(n.func) for n in ast.walk(value) if isinstance(n, ast.Call))
        and isinstance(value, ast.BinOp | ast.Call)
        and called(value) not in ("Parameter", "register_buffer")
    )
