"""What attention's code does, read from its tree: how scores are scaled, what hides them, where weights come from."""

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from .nodes import (
    FUSED,
    HEAD_WIDTH,
    HEADS,
    LENGTH,
    MASKY,
    WIDTH,
    argument,
    called,
    first_of,
    is_library,
    last,
    masky,
    names,
    number,
    path,
)
from .trees import Code, Softmax

Found = Iterator[tuple[int, Any, str]]  # (rank, the node or line, patch): see places.py
ROOTS = (0.5, -0.5, 0.25, -0.25)  # fourth roots scale q and k each
LOWEST = 'float("-inf")'


class Scaling(NamedTuple):
    """A factor √d or 1/√d where it is used: the operation, its two sides, and d as it is written."""

    node: Any
    times: bool  # multiplied by, else divided by
    factor: ast.expr
    other: ast.expr | None
    power: int  # +1: the factor is √d, −1: it is 1/√d
    base: ast.expr


def root_of(code: Code, node: ast.expr, depth: int = 6) -> tuple[int, ast.expr] | None:
    """(1, d) where an expression is √d, (−1, d) where it is 1/√d."""
    if not depth:
        return None
    node = code.resolve(node)
    if isinstance(node, ast.Call):
        word, inside = called(node), code.receiver(node)
        if word in ("sqrt", "rsqrt") and inside is not None:
            return (1 if word == "sqrt" else -1), unwrapped(inside)
        if word in ("pow", "power") and inside is not None:
            exponent = number(node.args[-1]) if node.args else None
            return (1 if exponent > 0 else -1, unwrapped(inside)) if exponent in ROOTS and exponent else None
        if word in "float tensor FloatTensor Tensor as_tensor to Parameter float32 item full".split():
            for inner in (*node.args, inside):
                if inner is not None and (found := root_of(code, inner, depth - 1)):
                    return found
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = number(node.right)
        return (1 if exponent > 0 else -1, node.left) if exponent in ROOTS and exponent else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and number(node.left) == 1:
        below = root_of(code, node.right, depth - 1)
        return (-below[0], below[1]) if below else None
    return None


def unwrapped(node: ast.expr) -> ast.expr:
    """d out of torch.tensor(d, dtype=...) or float(d)."""
    while (
        isinstance(node, ast.Call)
        and called(node) in ("tensor float FloatTensor Tensor int as_tensor float32 array").split()
    ):
        if not node.args:
            break
        node = node.args[0].elts[0] if isinstance(node.args[0], ast.List) and node.args[0].elts else node.args[0]
    return node


def scalings(code: Code, root: ast.AST) -> Iterator[Scaling]:
    """Every use of √d or 1/√d as a factor, embeddings scaled on purpose left out."""
    for node in code.walk(root):
        pairs: list[tuple[bool, ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            if number(node.left) == 1 or number(node.right) == 1:
                continue
            pairs = [(isinstance(node.op, ast.Mult), node.right, node.left)]
            if isinstance(node.op, ast.Mult):
                pairs.append((True, node.left, node.right))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Div):
            pairs = [(isinstance(node.op, ast.Mult), node.value, node.target)]
        elif called(node) in ("div", "mul", "div_", "mul_", "divide", "multiply", "true_divide") and node.args:
            pairs = [("mul" in called(node), node.args[-1], code.receiver(node))]
        elif called(node) in FUSED and (scale := argument(node, 99, "scale", "softmax_scale")) is not None:
            pairs = [(True, scale, None)]
        for times, factor, other in pairs:
            if other is not None and any(
                "emb" in last(n.func).lower() for n in ast.walk(other) if isinstance(n, ast.Call)
            ):
                continue
            if found := root_of(code, factor):
                yield Scaling(node, times, factor, other, *found)


def feeds_softmax(code: Code, node: ast.AST) -> bool:
    """Whether it lies on the way into a softmax or an attention kernel."""
    function = code.function(node) or code.tree
    sites: list[ast.expr] = [site.scores for site in code.softmaxes(function)]
    sites += [exp.args[0] for exp in code.exponentials(function) if exp.args]
    return any(node is n for scores in sites for n in code.sources(scores))


def size_kind(code: Code, node: ast.expr) -> str:
    """What a size is by its name or its axis: head, width, heads, length, last, or ""."""
    value = code.resolve(node, 1)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.FloorDiv | ast.Div):
        return "head"
    for one in (node, value):
        axis: ast.expr | None = None
        whose: ast.expr | None = None
        if isinstance(one, ast.Subscript):
            axis, whose = one.slice, one.value
        elif called(one) == "size" and isinstance(one, ast.Call):
            axis, whose = argument(one, 0, "dim"), code.receiver(one)
        if axis is not None and (place := number(axis)) is not None:
            if place in (0, 1, -2):
                return "length"
            inner = last(whose.value if isinstance(whose, ast.Attribute) else whose)
            return "width" if inner.lower() in ("x", "inputs", "input", "hidden_states", "embeddings") else "last"
        if called(one) == "len":
            return "length"
    name = last(node)
    kinds = {"head": HEAD_WIDTH, "heads": HEADS, "width": WIDTH, "length": LENGTH}
    return next((kind for kind, pattern in kinds.items() if pattern.match(name)), "")


def head_width(code: Code, at: ast.AST, product: ast.expr | None = None) -> str:
    """The width of a head in the code's own words, as it can be written at this place; "" where there is none."""
    function, owner, here = code.function(at), code.around(at, ast.ClassDef), code.statement(at)
    found: list[str] = []
    for name, settings in code.assignments.items():
        for statement, value in settings:
            divided = isinstance(value, ast.BinOp) and isinstance(value.op, ast.FloorDiv)
            if not (divided or HEAD_WIDTH.match(name.split(".")[-1])) or statement is here:
                continue
            if divided and not any(HEADS.match(n) for n in names(value)):
                continue
            if name.startswith("self."):
                fits = owner is not None and code.around(statement, ast.ClassDef) is owner
                fits = fits and (code.function(statement) is not function or statement.lineno < here.lineno)
            else:
                fits = function is not None and code.function(statement) is function and statement.lineno < here.lineno
            if fits:
                found.append(name)
    if function is not None:
        found += [name for name in code.parameters(function) if HEAD_WIDTH.match(name)]
    local = [name for name in found if "." not in name]
    if local or found:
        return (local or found)[0]
    if product is not None and code.function(product) is function:
        operands = code.operands(product)
        if operands and path(operands[0]) and summed_last(product):
            made = code.setting(operands[0])
            if made is None or made[0].lineno < here.lineno:
                return f"{path(operands[0])}.shape[-1]"
    return ""


def summed_last(product: ast.expr) -> bool:
    """Whether the product sums over the first factor's last axis (an einsum may not)."""
    if called(product) not in ("einsum", "contract"):
        return True
    assert isinstance(product, ast.Call)
    pattern = product.args[0].value if product.args and isinstance(product.args[0], ast.Constant) else ""
    if not isinstance(pattern, str) or "->" not in pattern or "," not in pattern:
        return False
    first, result = pattern.split(",")[0].strip(), pattern.split("->")[1]
    return bool(first) and first.split()[-1][-1] not in result


def operator_edit(code: Code, node: ast.BinOp, old: str, new: str) -> tuple[int, int, str] | None:
    """The edit that changes a binary operator."""
    begin, end = code.span(node.left)[1], code.span(node.right)[0]
    place = code.text.find(old, begin, end)
    return None if place < 0 else (place, place + len(old), new)


def first_width(code: Code, product: ast.expr) -> str:
    """q.shape[-1] for the first factor of a product, where that is a name."""
    operands = code.operands(product)
    return f"{path(operands[0])}.shape[-1]" if operands and path(operands[0]) and summed_last(product) else ""


def unused_scale(code: Code, at: ast.AST) -> str:
    """A factor that the class or the function made and never reads, ready to be put behind the scores."""
    owner, function = code.around(at, ast.ClassDef), code.function(at)
    for name, settings in code.assignments.items():
        statement, value = settings[-1]
        inside = owner if name.startswith("self.") else function
        if inside is None or not any(inside is n for n in code.up(statement)):
            continue
        if found := root_of(code, value):
            read = [n for n in ast.walk(inside) if path(n) == name and isinstance(getattr(n, "ctx", None), ast.Load)]
            if not read:
                return f" / {name}" if found[0] > 0 else f" * {name}"
    return ""


def score_expressions(code: Code, root: ast.AST) -> Iterator[ast.expr]:
    """What goes into each softmax, written out or called."""
    for site in code.softmaxes(root):
        yield site.scores
    for exp in code.exponentials(root):
        if exp.args:
            yield exp.args[0]


def weights_site(code: Code, node: ast.expr | None, depth: int = 6) -> Softmax | None:
    """The softmax that an expression's weights come from, through names, dropout and masks."""
    if node is None or not depth:
        return None
    if isinstance(node, ast.Call):
        root = code.function(node) or code.tree
        site = first_of(s for s in code.softmaxes(root) if s.call is node)
        if site is not None or code.is_product(node):
            return site
        inner = code.receiver(node)
        if called(node) in ("softmax", "view", "reshape", "cat", "stack") or inner is None:
            return None
        return weights_site(code, inner, depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return weights_site(code, node.left, depth - 1)
    if path(node) and (found := code.setting(node)):
        return weights_site(code, found[1], depth - 1)
    return None


def default_of(code: Code, function: Any, name: ast.expr) -> ast.expr | None:
    """The default value of an argument, where a name is one."""
    if not isinstance(function, ast.FunctionDef) or not isinstance(name, ast.Name):
        return None
    given = function.args.args
    for arg, default in zip(given[len(given) - len(function.args.defaults) :], function.args.defaults, strict=True):
        if arg.arg == name.id:
            return default
    return None


def removed(code: Code, statement: Any) -> tuple[int, int, str]:
    """The edit that takes a statement's lines out."""
    return code.starts[statement.lineno - 1], code.starts[statement.end_lineno], ""


def masked(code: Code, scores: ast.expr, hide: str, numpy: bool) -> str:
    """Scores with −inf where `hide` is true, as text."""
    if numpy:
        return f"np.where({hide}, -np.inf, {code.text_of(scores)})"
    return f"{code.wrapped(scores)}.masked_fill({hide}, {LOWEST})"


class Fill(NamedTuple):
    """Somewhere scores are hidden: the scores, the condition or mask, and what they are replaced with."""

    node: Any
    scores: ast.expr | None
    mask: ast.expr
    value: ast.expr
    number: float | None
    kind: str  # fill, where, add, index


def fill_number(code: Code, node: ast.expr, depth: int = 5) -> float | None:
    """The number that a fill is, finfo and tensors looked through."""
    if not depth:
        return None
    node = code.resolve(node)
    if (plain := number(node)) is not None:
        return plain
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = fill_number(code, node.operand, depth - 1)
        return None if inner is None else -inner
    if isinstance(node, ast.Attribute) and called(node.value) in ("finfo", "iinfo"):
        return {"min": -3e38, "max": 3e38, "eps": 1e-7, "tiny": 1e-38, "smallest_normal": 1e-38}.get(node.attr)
    if isinstance(node, ast.Call) and called(node) in "tensor full_like full array float32 to as_tensor".split():
        for inside in (*reversed(node.args), code.receiver(node)):
            if inside is not None and (found := fill_number(code, inside, depth - 1)) is not None:
                return found
    if called(node) == "zeros_like":
        return 0.0
    return None


def fill_of(code: Code, node: Any) -> Fill | None:
    if isinstance(node, ast.Call) and called(node) in ("masked_fill", "masked_fill_"):
        shift = 1 if is_library(node.func) else 0
        mask, value = argument(node, shift, "mask"), argument(node, shift + 1, "value")
        if mask is not None and value is not None:
            return Fill(node, code.receiver(node), mask, value, fill_number(code, value), "fill")
    if isinstance(node, ast.Call) and called(node) == "where" and is_library(node.func) and len(node.args) == 3:
        mask, a, b = node.args
        for value, scores in ((a, b), (b, a)):
            if (n := fill_number(code, value)) is not None:
                return Fill(node, scores, mask, value, n, "where")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = -1.0 if isinstance(node.op, ast.Sub) else 1.0
        for added, scores in ((node.right, node.left), (node.left, node.right)):
            inner = code.resolve(added)
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult) and masky(inner):
                for value, mask in ((inner.right, inner.left), (inner.left, inner.right)):
                    if (n := fill_number(code, value)) is not None:
                        return Fill(node, scores, mask, value, sign * n, "add")
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and masky(node.targets[0].slice):
        if (n := fill_number(code, node.value)) is not None:
            return Fill(node, node.targets[0].value, node.targets[0].slice, node.value, n, "index")
    return None


def fills(code: Code, root: ast.AST) -> Iterator[Fill]:
    """Every place where scores are hidden."""
    for node in code.walk(root):
        if fill := fill_of(code, node):
            yield fill


def mask_uses(code: Code, root: ast.AST, rank: int) -> Found:
    """Lines where a mask is read outside of conditions and arguments' defaults."""
    for node in code.walk(root):
        if isinstance(node, ast.Name) and MASKY.search(node.id) and isinstance(node.ctx, ast.Load):
            statement = code.statement(node)
            if not isinstance(statement, ast.If | ast.FunctionDef | ast.While | ast.Assert):
                yield rank, statement, ""


def triangles(code: Code, root: ast.AST) -> Iterator[tuple[ast.Call, ast.expr | None, float | None]]:
    """Calls of tril and triu with their diagonal as written, and as a number."""
    for node in code.walk(root):
        if isinstance(node, ast.Call) and called(node) in ("tril", "triu", "tril_", "triu_", "tri"):
            inside = is_library(node.func)
            axis = argument(node, (2 if called(node) == "tri" else 1) if inside else 0, "diagonal", "k")
            yield node, axis, number(code.resolve(axis)) if axis is not None else 0.0


def tiled(code: Code, root: ast.AST, wanted: Any, rank: int) -> Found:
    """`x.repeat(H, 1, 1)` and np.tile of what is wanted, with repeat_interleave as the patch.

    k and v are repeated alike: one patch cures both, on one line or on two.
    """
    found = list(tilings(code, root, wanted))
    for node, way, new in found:
        if not way:
            yield rank + 1, node, ""
            continue
        home = code.function(node)
        alike = [(n, text) for n, other, text in found if other == way and text and code.function(n) is home]
        edits = [code.put(n, text) for n, text in alike]
        yield rank, node, (code.diff(*edits) or code.diff(code.put(node, new))) if new else ""


def tilings(code: Code, root: ast.AST, wanted: Any) -> Iterator[tuple[ast.Call, str, str]]:
    """The calls that repeat what is wanted: how often and along what ("" where it can't be seen), and the right call."""
    for node in code.walk(root):
        if not isinstance(node, ast.Call) or called(node) not in "repeat tile expand cat concatenate concat".split():
            continue
        whole = code.receiver(node)
        if whole is None or not wanted(whole):
            continue
        numpy = path(node.func).startswith(("np.", "numpy."))
        if called(node) in ("cat", "concatenate", "concat"):
            many = node.args[0]
            if isinstance(many, ast.BinOp) and isinstance(many.op, ast.Mult) and isinstance(many.left, ast.List):
                axis = argument(node, 1, "dim", "axis")
                one, times, at = many.left.elts[0], code.text_of(many.right), code.text_of(axis) if axis else "0"
                new = "" if numpy else f"{code.wrapped(one)}.repeat_interleave({times}, dim={at})"
                yield node, f"{times} along {at}", new
            continue
        if called(node) == "expand" or (called(node) == "repeat" and numpy):
            yield node, "", ""
            continue
        given = list(node.args[1 if is_library(node.func) else 0 :])
        if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
            given = list(given[0].elts)
        many_at = [(place, code.text_of(g)) for place, g in enumerate(given) if number(g) != 1]
        new = ""
        if len(many_at) == 1:
            [(place, times)] = many_at
            new = f"{code.wrapped(whole)}.repeat_interleave({times}, dim={place})"
            if numpy:
                new = f"np.repeat({code.text_of(whole)}, {times}, axis={place})"
        yield node, " ".join(f"{times} along {place}" for place, times in many_at) or "once", new
