"""How a mask gets into the scores."""

import ast
from collections.abc import Iterator
from typing import Any

from ...i18n import _
from ..numbers.oracle import AttentionForm, changed
from ..source.nodes import FUSED, MASKY, argument, called, first_of, masky, names, number, path
from ..source.readings import LOWEST, Fill, fill_of, fills, mask_uses, masked, weights_site
from ..source.trees import Code
from .mistake import At, Mistake, Places, Wrong, masked_wrongly
from .scale import opposite


class Inverted(Mistake):
    """True is taken for its opposite."""

    id = "M1"
    name = _("mask used the wrong way round")
    does = _(
        "It attends exactly to what it should ignore: to padding only, or, with a causal mask, to the future only, and the rows left with nothing become NaN or uniform."
    )
    fix = _(
        "Where True or 1 means “may look”, hide the zeros: `scores.masked_fill(mask == 0, float('-inf'))`; where True means “hide”, `scores.masked_fill(mask, float('-inf'))`"
    )
    shows = _("Changing tokens that the mask hides changes the output, changing those it keeps does not.")
    evidence = {
        "": _(
            "`{parameter}` keeps what it should block: your numbers equal attention computed so to {error:.0e} with the mask the other way round"
        ),
        "made": _(
            "`{maker}` (line {at}) gives {shown}: {sign} means {means}. This code takes the {sign} in `{parameter}` for the opposite, and looks at just what should be hidden"
        ),
        "reversed": _(
            "`{maker}` (line {at}) gives {shown}: added to the scores, it hides what may be seen and shows what may not"
        ),
        "said": _("`{parameter}` was said to mark what to {said}, and the code takes it the other way round"),
        "triangle": _("a token sees only tokens after itself: the causal mask is the wrong way round"),
    }
    explains = 10

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield from masked_wrongly(form, "inverted")

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for fill in fills(code, root):
            new = opposite(code, fill.mask)
            if fill.kind == "add":
                brackets = code.wrapped(fill.mask) if path(fill.mask) else f"({code.text_of(fill.mask)})"
                new = (
                    f"(1 - {brackets})"
                    if not (isinstance(fill.mask, ast.BinOp) and number(fill.mask.left) == 1)
                    else new
                )
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


class ThrownAway(Mistake):
    """masked_fill without an assignment."""

    id = "M2"
    name = _("the result of `masked_fill` is thrown away")
    does = _("`masked_fill` returns a new tensor and leaves the old one as it was: nothing is hidden, silently.")
    fix = _("Assign it: `scores = scores.masked_fill(mask == 0, float('-inf'))`")
    shows = _("The output with a mask and without is the same to the last bit.")
    evidence = {
        "": _("`{parameter}` changes nothing: the masked scores are computed and thrown away"),
        "causal": _("every token sees all tokens after itself: the masked scores are computed and thrown away"),
    }
    explains = 17

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield from masked_wrongly(form, "ignored")

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if isinstance(node, ast.Expr) and called(node.value) in "masked_fill where masked_scatter add mul".split():
                whole = code.receiver(node.value)
                if called(node.value) == "where" and (fill := fill_of(code, node.value)):
                    whole = fill.scores
                begin = code.span(node)[0]
                ready = whole is not None and path(whole)
                rank = 0 if called(node.value) in ("masked_fill", "where") else 1
                yield rank, node, code.diff((begin, begin, f"{path(whole)} = ")) if ready else ""


class NeverArrives(Mistake):
    """The mask is taken, and goes nowhere."""

    id = "M3"
    name = _("the mask never reaches the softmax")
    does = _(
        "A mask is accepted and ignored: padding is attended to and a causal model sees the future, with no error."
    )
    fix = _("Pass it on, and give the masked scores to the softmax: `out = self.attention(q, k, v, mask)`")
    shows = _("The output with a mask and without is the same to the last bit.")
    evidence = {
        "": _(
            "`{parameter}` changes nothing, in any of {tried} shapes and types that were tried: it never reaches the softmax"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
                        inner = first_of(
                            m for m in inner.body if getattr(m, "name", "") in ("forward", "__call__", "call")
                        )
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
                    if name != old and old:
                        used = first_of(s.scores for s in code.softmaxes(function) if path(s.scores) == old)
                        if used is not None and used.lineno > statement.lineno:
                            yield 1, used, code.diff(code.put(used, name))
        for site in code.softmaxes(root):
            yield 2, site.call, ""


class OnlyOneMask(Mistake):
    """Of two masks only one is used."""

    id = "M5"
    name = _("the second mask overwrites the first")
    does = _(
        "Each mask works alone; given both, only one counts, so padding or the future leaks just when batches are padded."
    )
    fix = _(
        "Combine them: with True = may look, `mask = causal & padding`; or hide twice, `scores = scores.masked_fill(~causal, float('-inf')).masked_fill(~padding, float('-inf'))`"
    )
    shows = _("Given both masks, changing what one of them hides changes the output; given that one alone it does not.")
    evidence = {
        "": _(
            "given `{parameter}`, masked keys are still seen: the causal mask takes its place, your numbers equal attention computed so to {error:.0e}"
        ),
        "two": _(
            "given with `{other}`, `{parameter}` no longer hides anything: your numbers equal attention computed so to {error:.0e} with `{other}` alone"
        ),
        "seen": _("given with `{other}`, `{parameter}` no longer hides: tokens are seen that it hides by itself"),
    }
    explains = 14

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if len(form.pieces) == 2:
            yield changed(form, pieces=form.pieces[:1]), {"kept": 0}
            yield changed(form, pieces=form.pieces[1:]), {"kept": 1}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
            yield from overwritten(code, function)
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


class CausalLost(Mistake):
    """A padding mask replaces the triangle."""

    id = "M6"
    name = _("causal mask lost when a padding mask is given")
    does = _(
        "Padded batches train with the future in sight: the loss falls too low, and generation, where there is no future to look at, is poor."
    )
    fix = _(
        "Apply the causal mask always and the padding mask as well: `mask = causal if padding is None else causal & padding`"
    )
    shows = _("Causal without a padding mask; with one, an early output has a gradient from later tokens.")
    evidence = {
        "road": _(
            "with {road} a token sees tokens after itself; without it does not: the triangle is lost on that road"
        ),
        "": _(
            "given `{parameter}`, tokens see what comes after them: the causal mask is dropped, your numbers equal attention computed so to {error:.0e}"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


class Added(Mistake):
    """True/False added to the scores."""

    id = "M7"
    name = _("a True/False mask is added to the scores")
    does = _("Adding 1 multiplies a weight by e ≈ 2.7 before normalising, and adding 0 does nothing: no key is hidden.")
    fix = _("Add −inf, not 1, or fill: `scores = scores.masked_fill(mask == 0, float('-inf'))`")
    shows = _(
        "Changing hidden keys still changes the kept rows; the output equals attention with the mask added as 0 and 1."
    )
    evidence = {
        "": _(
            "`{parameter}` is added to the scores as 0 and 1: your numbers equal attention computed so to {error:.0e}; masked keys keep their weight"
        ),
        "causal": _(
            "the causal mask is added to the scores as 0 and 1: your numbers equal attention computed so to {error:.0e}; tokens see what comes after them"
        ),
        "made": _(
            "`{maker}` (line {at}) gives {shown}, and this code adds `{parameter}` to the scores: 1 more or less hides nothing"
        ),
        "said": _("`{parameter}` is made of true and false, and is added to the scores: 1 more or less hides nothing"),
    }
    explains = 16

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield from masked_wrongly(form, "added")

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node, scores, mask in mask_operation(code, root, ast.Add):
            yield (0 if code.score_product(scores) else 1), node, with_mask(code, node, scores, mask)
        yield from mask_uses(code, root, 2)


class ZeroFill(Mistake):
    """Masked scores are 0, which is a score like any other."""

    id = "M8"
    name = _("masked scores are set to 0 instead of −∞")
    does = _(
        "A score of 0 is still a weight of e⁰ = 1 before normalising, more than any key with a negative score gets."
    )
    fix = _("Fill with minus infinity: `scores = scores.masked_fill(mask == 0, float('-inf'))`")
    shows = _(
        "Changing the values at hidden keys still changes the output; it equals attention with their scores set to 0."
    )
    evidence = {
        "": _(
            "masked scores become 0, and e⁰ = 1 is a weight like any other: your numbers equal attention computed so to {error:.0e}"
        ),
        "causal": _(
            "scores of later tokens become 0, and e⁰ = 1 is a weight like any other: your numbers equal attention computed so to {error:.0e}"
        ),
    }
    explains = 15

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        yield from masked_wrongly(form, "multiplied")
        yield from masked_wrongly(form, "zero")
        yield from masked_wrongly(form, "zero inverted")

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for fill in fills(code, root):
            if fill.number == 0 and weights_site(code, fill.scores) is None:
                yield (0, fill.node, code.diff(code.put(fill.value, "-np.inf" if code.numpy(fill.node) else LOWEST)))
        for node, scores, mask in mask_operation(code, root, ast.Mult):
            yield (0 if code.score_product(scores) else 1), node, with_mask(code, node, scores, mask)
        yield from mask_uses(code, root, 2)


class WrongFill(Mistake):
    """Masked scores get a small number, or +∞."""

    id = "M9"
    name = _("masked scores are filled with the wrong number")
    does = _(
        "`-1e-9` and `1e-9` are practically 0, so hidden keys keep a weight of e⁰ before normalising; plus infinity makes the whole row NaN."
    )
    fix = _("Minus infinity, or the lowest number of the type: `float('-inf')` or `torch.finfo(scores.dtype).min`")
    shows = _("Changing hidden keys still changes the kept rows, or masked rows are NaN though keys are left.")
    evidence = {
        "": _(
            "masked scores are filled with a number close to 0, and e⁰ = 1: your numbers equal attention computed so to {error:.0e}"
        ),
        "causal": _(
            "scores of later tokens are filled with a number close to 0, and e⁰ = 1: your numbers equal attention computed so to {error:.0e}"
        ),
        "tiny": _("`{parameter}` moves scores by at most {change:.0e}: hidden keys keep their weight"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from refill(code, root, lambda n: 0 < abs(n) < 1 or n > 100)


class WeakFill(Mistake):
    """Masked scores get a number that real scores can reach."""

    id = "M19"
    name = _("masked scores are filled with a number that is not low enough")
    does = _(
        "A fill of −1000 hides only while the row's other scores stay well above it: once activations grow, hidden keys get weight again, and nothing tells you."
    )
    fix = _("`float('-inf')` or `torch.finfo(scores.dtype).min`")
    shows = _("Right for ordinary inputs; with inputs many times larger, changing hidden keys changes the output.")
    evidence = {
        "": _("with large scores, masked keys change the output by {change:.1%}: the fill value isn't low enough")
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from refill(code, root, lambda n: -1e6 < n <= -1)


class EmptyRow(Mistake):
    """A row that may look at nothing."""

    id = "M18"
    name = _("what a row with no key left gives")
    does = _(
        "Filled with −inf such a row is 0/0 = NaN, and in training that NaN reaches every weight; with −1e9 it is the average of the hidden values; scaled_dot_product_attention gives 0."
    )
    fix = _(
        "Decide it: `weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)` after the softmax gives 0 (for a mask with True = may look); for training, fill with a finite number first"
    )
    shows = _(
        "One row is masked completely; reported is whether it gives NaN, 0 or an average. This is a remark, not a fault."
    )

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for fill in fills(code, root):
            yield (0 if fill.number is not None and fill.number < -1e3 else 1), fill.node, ""


class TooLargeForHalf(Mistake):
    """A fill beyond 65504."""

    id = "N1"
    name = _("the fill is too large for float16")
    does = _(
        "float16 ends at 65504: `masked_fill(mask, -1e9)` raises RuntimeError in half precision, so it works on your CPU and fails on the GPU."
    )
    fix = _("`float('-inf')` or `torch.finfo(scores.dtype).min`")
    shows = _("Called in float16 with a mask: it raises, without one it doesn't.")
    evidence = {"": _("in half precision it stops: {error}")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from refill(code, root, lambda n: float("-inf") < n < -65504 and n != -3e38)


def overwritten(code: Code, function: ast.FunctionDef) -> Places:
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
            join = {"keep": "&", "block": "|"}.get(str(code.mask_words), "")
            text = code.text_of(node.value)
            new = f"{text} if {name} is None else {name} {join} {text}"
            yield 0, node, code.diff(code.put(node.value, new)) if join else ""


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


def with_mask(code: Code, node: Any, scores: ast.expr, mask: ast.expr) -> str:
    """The patch that fills instead of adding or multiplying."""
    numpy = code.numpy(node)
    made = list(code.sources(mask, 3))
    triangle = first_of(called(n) for n in made if called(n) in ("tril", "triu"))
    turned = sum(
        (isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Invert))
        or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and number(n.left) == 1)
        for n in made
    )
    blocks = (triangle == "triu") != turned % 2 if triangle else code.mask_words == "block"
    text = masked(code, scores, f"{code.wrapped(mask)} {'!=' if blocks else '=='} 0", numpy)
    if isinstance(node, ast.AugAssign):
        return code.diff(code.put(node, f"{code.text_of(scores)} = {text}"))
    return code.diff(code.put(node, text))


def refill(code: Code, root: ast.AST, is_wrong: Any) -> Places:
    for fill in fills(code, root):
        if fill.number is not None and is_wrong(fill.number):
            numpy = code.numpy(fill.node)
            best = "-1e9" if fill.kind == "add" else "-np.inf" if numpy else LOWEST
            at = fill.value
            if fill.kind == "add" and isinstance(fill.node, ast.BinOp) and isinstance(fill.node.op, ast.Sub):
                best = "1e9"
            found = code.setting(at) if path(at) else None
            if found is not None:
                at = found[1]
            yield 0, at, code.diff(code.put(at, best))
