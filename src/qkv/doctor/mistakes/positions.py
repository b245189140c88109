"""Sines, rotations, slopes."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from ...i18n import Message, _
from ..numbers.oracle import AttentionForm, changed
from ..source.nodes import argument, called, first_of, last, names, number, path, same
from ..source.trees import Code
from .heads import reshapes
from .mistake import At, Mistake, Places, Wrong

ROTARY = re.compile(r"rope|rotary|rotate|freqs?_cis|apply_rot|pos_emb|rotator", re.I)


SLOPES = {
    "late": Message("exponents begin at 0 instead of 1"),
    "early": Message("exponents begin at 2 instead of 1"),
    "grows": Message("far keys are favoured, not near ones"),
}


class WrongFrequencies(Mistake):
    """Of the table of sines and cosines."""

    id = "R1"
    name = _("the sine and cosine table has the wrong frequencies")
    does = _(
        "Pairs whose sine and cosine run at different speeds no longer turn with the position, so a shift is not a rotation; frequencies that fall too fast leave most channels constant."
    )
    fix = _(
        "Channels 2i and 2i+1 share one frequency: `freq = 10000 ** (-torch.arange(0, d_model, 2) / d_model)`; `pe[:, 0::2] = torch.sin(pos * freq)`; `pe[:, 1::2] = torch.cos(pos * freq)`"
    )
    shows = _("The table is compared with the formula, and in each pair sin² + cos² must be 1.")
    evidence = {
        "": _("the table differs from sin and cos of position / 10000^(2i/d) by up to {change:.2g}; {why}"),
        "alike": _(
            "all pairs of channels turn by the same angle, {angle:.3g} at position 1: there is one frequency alone"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


class AlongTheBatch(Mistake):
    """Positions counted along the batch."""

    id = "R3"
    name = _("positions are counted along the batch")
    does = _(
        "All tokens of a text get the same position code, that of their sample's place in the batch: word order is invisible, and it depends on the batch."
    )
    fix = _("Batch first means length is axis 1: `x + self.pe[:, :x.size(1)]`")
    shows = _(
        "Two equal tokens at different places get the same code, or the same sample another code at another place in the batch."
    )
    evidence = {
        "": _(
            "all tokens of a text get the same code, and texts different ones: the table is read by the batch's index"
        ),
        "place": _("one and the same text gives other outputs (by {change:.1%}) at another place in the batch"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
                or (called(n) == "len" and isinstance(n, ast.Call) and len(n.args) == 1)
            )
            if cut is None:
                continue
            if called(cut) == "len":
                yield 0, node, ""
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


class MixedPairing(Mistake):
    """Angles laid out for one pairing of channels, turned by the other."""

    id = "R4"
    name = _("rotary table and rotation pair channels differently")
    does = _(
        "The two numbers of a pair are turned by different angles, which is no rotation: lengths change, and q·k depends on where the two tokens stand, not only on how far apart they are."
    )
    fix = _(
        "Halves go with halves: `emb = torch.cat((freqs, freqs), dim=-1)` with rotate_half; neighbours with neighbours: `freqs.repeat_interleave(2, dim=-1)` with `x[..., ::2]`, `x[..., 1::2]`"
    )
    shows = _("For the same distance, q·k differs between places, and the length of a turned vector isn't kept.")
    evidence = {
        "": _(
            "turned queries and keys should depend on the distance alone, but differ by {change:.1%} at the same distance: the angles are laid out for another pairing of channels than the turn uses"
        ),
        "numbers": _(
            "the rotary angles are laid out for another pairing of channels than the turn uses: your numbers equal attention computed so to {error:.0e}"
        ),
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.rotary in ("half", "pairs"):
            yield changed(form, rotary="mixed half"), {}
            yield changed(form, rotary="mixed pairs"), {}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


class AlongTheHeads(Mistake):
    """Rotary positions counted along the heads."""

    id = "R5"
    name = _("rotary positions are counted along the heads")
    does = _("Within a head all tokens are turned by the same angle, which cancels in q·k: word order is invisible.")
    fix = _("Turn along the sequence axis: for (B, H, n, d) positions belong to axis 2, for (B, n, H, d) to axis 1")
    shows = _("Tokens at different places of a head are turned alike, and heads differently.")
    evidence = {
        "": _(
            "the numbers are those of attention without positions: q and k are turned alike at every place, by another axis than the tokens'"
        ),
        "same": _("every token of a text is turned alike: the turn follows another axis than the tokens'"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


class RotatedBeforeSplit(Mistake):
    """One rotation over the whole width."""

    id = "R6"
    name = _("rotary positions are applied before the heads are split")
    does = _(
        "The frequencies are spread over the whole width, so the first heads get only the fast ones and the last only the slow ones; with half-and-half pairs the two numbers of a pair even land in different heads."
    )
    fix = _(
        "Split first, then turn each head with a table of its own width: `q = rope(q.view(B, n, H, d).transpose(1, 2))`"
    )
    shows = _(
        "The output equals attention with the rotation over the whole width; within single heads q·k does not depend on distance as it should."
    )
    evidence = {
        "": _(
            "q and k are turned over the whole width, before the heads are cut: your numbers equal attention computed so to {error:.0e}"
        )
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.rotary in ("half", "pairs") and at.heads > 1:
            yield changed(form, rotary=f"width {form.rotary}"), {}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call in rotary_calls(code, root):
            function = code.function(call)
            later = [
                c for c, sizes, _ in reshapes(code, function or root) if c.lineno >= call.lineno and len(sizes) == 4
            ]
            yield (0 if later else 1), call, ""


class SlopesOff(Mistake):
    """ALiBi's exponent off by one."""

    id = "R7"
    name = _("ALiBi's slopes are off by one")
    does = _(
        "Slopes should begin at 2^(−8/H); begun at 1, every head forgets distance faster than the models whose weights you may load."
    )
    fix = _("`slopes = 2 ** (-8 * (torch.arange(H) + 1) / H)`")
    shows = _("Regressing the bias on the distance, per head, gives 2^(−8h/H) with h counted from 0.")
    evidence = {
        "": _("the slopes are {found}, and should be {right}"),
        "numbers": _(
            "the slopes of ALiBi are off ({how}); head h of {heads} has 2^(−8(h+1)/{heads}): your numbers equal attention computed so to {error:.0e}"
        ),
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.slopes == "right":
            for how, words in SLOPES.items():
                yield changed(form, slopes=how), {"how": words}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


def rotary_calls(code: Code, root: ast.AST) -> Iterator[ast.Call]:
    for node in code.walk(root):
        if isinstance(node, ast.Call) and ROTARY.search(called(node)) and not called(node)[:1].isupper():
            function = code.function(node)
            if (function is None or function.name != "__init__") and not re.match(
                "pre|get|make|build|init", called(node)
            ):
                yield node


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
