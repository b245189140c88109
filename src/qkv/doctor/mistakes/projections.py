"""Which weight makes q, k, v and the output."""

import ast
from collections.abc import Iterator
from typing import Any

from ...i18n import _
from ..source.nodes import FUSED, called, first_of, last, number, path, role
from ..source.says import never_read
from ..source.trees import Code
from .heads import NeverSplit
from .mistake import Mistake, Places


class OneDoesTwoJobs(Mistake):
    """A projection is used for another's job."""

    id = "P1"
    name = _("a projection is used for another's job")
    does = _("One projection does two jobs and another none: it gets no gradient and stays as random as it was made.")
    fix = _("Each its own: `q = self.w_q(query)`, `k = self.w_k(key)`, `v = self.w_v(value)`")
    shows = _(
        "After a backward pass a projection has no gradient, and the output equals attention with another in its place."
    )
    evidence = {
        "": _("`{unused}` gets no gradient: it is never used; the projections that ran are {used}"),
        "handed": _("`{unused}`, which the file hands over among the weights, changes nothing: it is never used"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        unused = [name.removesuffix(".weight").removesuffix(".bias") for name in code.unused]
        for target, call, given in projections(code, root):
            wants, has, from_ = role(last(target)), role(last(call.func)), role(last(given))
            if not wants:
                wants = from_
            if wants in ("q", "k", "v") and has != wants:
                right = first_of(u for u in unused if role(u.split(".")[-1]) == wants)
                right = right or own_projection(code, call, wants)
                yield 0, call, code.diff(code.put(call.func, f"self.{right}")) if right else ""
            elif wants and from_ and from_ != wants:
                function = code.function(call)
                right = (
                    first_of(p for p in code.parameters(function) if role(p) == wants) if function is not None else None
                )
                wrong = [n for n in ast.walk(code.statement(call)) if isinstance(n, ast.Name) and n.id == path(given)]
                yield 0, given, code.diff(*(code.put(n, right) for n in wrong)) if right and path(given) else ""
        yield from listed_projections(code, root)
        for name in unused:  # made, and never called: where it is made
            for statement, _unused in code.assignments.get(f"self.{name}", []):
                if any(root is n for n in (statement, *code.up(statement))):
                    yield 1, statement, ""
        for _target, call, _given in projections(code, root):
            yield 2, call, ""


class FromTheKey(Mistake):
    """q or v made from what k is made from."""

    id = "P2"
    name = _("q or v is made from the key")
    does = _(
        "What was projected for q (or v) is thrown away. In self-attention nothing complains, but with q = k the scores are symmetric and every token looks mostly at itself."
    )
    fix = _("Reshape each from itself: `q = q.view(...)`, `k = k.view(...)`, `v = v.view(...)`")
    shows = _(
        "With different inputs for query, key and value, one of them has gradient 0 and so have its projection's weights."
    )
    evidence = {
        "": _("changing `{parameter}` changes nothing in the output: it is computed from another input"),
        "thrown away": _("what `{unused}` makes is thrown away: it gets no gradient, and {used} do its work"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        places: list[tuple[ast.expr, str]] = []
        for node in code.walk(root):
            if not isinstance(node, ast.Assign):
                continue
            targets, values = [node.targets[0]], [node.value]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                targets, values = list(node.targets[0].elts), list(node.value.elts)
            for target, value in zip(targets, values, strict=False):
                parts = list(code.chain(value))
                wants, has = role(path(target)), role(path(parts[-1])) if isinstance(parts[-1], ast.Name) else ""
                projects = any(
                    isinstance(p, ast.Call) and path(p.func).startswith("self.") and role(last(p.func)) for p in parts
                )
                if wants and has and wants != has and not projects:
                    places.append((parts[-1], same_job(code, node, wants, path(target))))
        for start, _unused in places:
            mates = [(s, right) for s, right in places if code.function(s) is code.function(start) and right]
            yield 0, start, code.diff(*(code.put(s, right) for s, right in mates))
        yield from ((rank + 1, node, diff) for rank, node, diff in OneDoesTwoJobs.places(code, root))


class NoProjections(Mistake):
    """q = k = v = x."""

    id = "P3"
    name = _("no projections for q, k, v")
    does = _(
        "Scores are how alike two tokens are, symmetric and mostly highest with itself: there is nothing to learn about what should look at what."
    )
    fix = _("`self.w_q = nn.Linear(d_model, d_model)` and the same for k and v; `q = self.w_q(x)`")
    shows = _("The module has no such weights, and its output equals attention with q = k = v = x.")
    evidence = {"": _("{missing} missing: the inputs themselves take their place, number for number")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from NeverSplit.places(code, root)


class NoOutputProjection(Mistake):
    """Heads are put side by side, and that is all."""

    id = "P4"
    name = _("no output projection")
    does = _(
        "What a head found stays in its own slice of the channels: heads are never mixed inside the layer, and one matrix of the layer is missing."
    )
    fix = _("`self.w_o = nn.Linear(H * d, d_model)` and `return self.w_o(out)`")
    shows = _("There are several heads and no weight after them, or one that gets no gradient.")
    evidence = {
        "": _("the {heads} heads' outputs are put side by side and handed back: no weight comes after them"),
        "layer": _(
            "the {heads} heads' outputs are put side by side and added to the input: no weight comes in between"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        unused = [name.removesuffix(".weight").removesuffix(".bias") for name in code.unused]
        for function in code.walk(root):
            if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
                continue
            about = any(True for _ in code.softmaxes(function)) or any(called(n) in FUSED for n in code.walk(function))
            returns = [n for n in code.walk(function) if isinstance(n, ast.Return) and n.value is not None]
            about = about or function.name in ("forward", "__call__")
            if not about or not returns:
                continue
            spare = first_of(
                u
                for u in (*unused, *never_read(code, code.around(function, ast.ClassDef)))
                if role(u) == "o" or "proj" in u
            )
            value = returns[-1].value
            what: Any = value.elts[0] if isinstance(value, ast.Tuple) else value
            diff = code.diff(code.put(what, f"self.{spare}({code.text_of(what)})")) if spare else ""
            yield (0 if spare else 1), returns[-1], diff


def projections(code: Code, root: ast.AST) -> Iterator[tuple[ast.expr, ast.Call, ast.expr]]:
    """Calls self.w_q(x), with the name that gets the result and what is projected."""
    for node in code.walk(root):
        if not isinstance(node, ast.Assign):
            continue
        targets, values = [node.targets[0]], [node.value]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            targets, values = list(node.targets[0].elts), list(node.value.elts)
        for target, value in zip(targets, values, strict=False):
            for part in code.chain(value):
                if (
                    isinstance(part, ast.Call)
                    and path(part.func).startswith("self.")
                    and part.args
                    and role(last(part.func))
                ):
                    yield target, part, part.args[0]
                    break


def listed_projections(code: Code, root: ast.AST) -> Places:
    """self.linears[0](x) used for two jobs: the second use, with the number of its own."""
    jobs: dict[tuple[str, float], str] = {}
    uses: list[tuple[ast.Subscript, str, tuple[str, float]]] = []
    for node in code.walk(root):
        if isinstance(node, ast.Assign) and (job := role(last(node.targets[0]))):
            for part in code.chain(node.value):
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Subscript):
                    place = number(part.func.slice)
                    if place is not None:
                        uses.append((part.func, job, (path(part.func.value), place)))
                        break
    taken = {key for _, _, key in uses}
    for used, job, key in uses:
        if jobs.setdefault(key, job) != job:
            own = {"q": 0, "k": 1, "v": 2, "o": 3}[job]
            yield 0, used, code.diff(code.put(used.slice, str(own))) if (key[0], own) not in taken else ""


def own_projection(code: Code, at: ast.AST, wanted: str) -> str:
    """The class's projection for this job by its name, or ""."""
    owner = code.around(at, ast.ClassDef)
    for name, settings in code.assignments.items():
        if name.startswith("self.") and role(name[5:]) == wanted and called(settings[0][1])[:1].isupper():
            if code.around(settings[0][0], ast.ClassDef) is owner:
                return name[5:]
    return ""


def same_job(code: Code, at: ast.stmt, wanted: str, target: str) -> str:
    """The name for q (or k, v) that was set before: the target itself, else the first of them."""
    function = code.function(at)
    if function is None:
        return ""
    known = [
        n
        for n, s in code.assignments.items()
        for one, _unused in s
        if code.function(one) is function and one.lineno < at.lineno
    ]
    known += code.parameters(function)
    fits = [n for n in known if role(n) == wanted]
    return target if target in fits else fits[0] if fits else ""
