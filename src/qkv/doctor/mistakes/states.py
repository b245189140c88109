"""Layers that keep a state: retention, linear attention, the delta rule."""

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...i18n import Message, _
from ..numbers.states import Array, StateMixing, each, faded, held, stepped, table, told, written
from ..source.nodes import argument, called, names, number, path
from ..source.trees import Code
from .mistake import Mistake, Places

Tables = Iterator[tuple[Array, dict[str, Any]]]  # A with the mistake in it (or the output itself), and what to tell


class StateMistake(Mistake):
    """One that a layer with a state can have."""

    @staticmethod
    def tables(m: StateMixing) -> Tables:
        """The right layer in, its table with this mistake out; nothing where it can't be made there."""
        return iter(())


class DecayAxis(StateMistake):
    """The decay runs along another axis than the distance between two tokens."""

    id = "L1"
    name = _("the decay runs along the wrong axis")
    does = _(
        "What a token wrote should fade with every token that follows it. Along another axis it fades by place, by head or not at all: late tokens are drowned or early ones never leave, and a longer text makes it worse."
    )
    fix = _(
        "It is the distance that counts: γ^(i−j) for the token i that reads and j ≤ i that wrote; with a decay per token, sum the logarithms over the tokens (`log_decay.cumsum(-1)` of (B, H, N)) and take differences"
    )
    shows = _(
        "The layer with this decay gives your numbers, number for number; or the decay that its numbers hold goes by place."
    )
    evidence = {
        "": _(
            "what token {j} wrote counts {got:.3g} when token {i} reads it, and should count {want:.3g}: your numbers are those of a decay {axis}, to {error:.0e}"
        ),
        "place": _(
            "how much a token counts goes by where it stands ({first:.3g} for the first, {last:.3g} for the last), whatever the text: a decay {axis}"
        ),
        "grows": _(
            "the state grows by a factor of {factor:.3g} from one token to the next: a decay should be at most 1"
        ),
    }

    @staticmethod
    def tables(m: StateMixing) -> Tables:
        if m.rule != "add" or m.shares:
            return
        right, n = table(m), m.q.shape[2]
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        if m.steady and np.abs(m.gamma - 1).max() > 1e-6:
            g = m.gamma[..., :1, None]
            for exponent, axis in (
                (i + 0 * j, ROW),
                (i + 1 + 0 * j, ROW),
                (j + 0 * i, COLUMN),
                (j + 1 + 0 * i, COLUMN),
                (n - 1 - j + 0 * i, COLUMN),
                (j - i, GROWS),
            ):
                wrong = faded(m, np.tril(g ** exponent.astype(float)))
                yield wrong, told(wrong, right, axis=Message(axis))
            wrong = faded(m, np.triu(g ** (j - i).astype(float)))
            yield wrong, told(wrong, right, axis=Message(LATER))
            if m.q.shape[-1] == n:  # else it would not run
                wrong = np.tril((m.q * g ** np.arange(n)) @ m.k.swapaxes(-1, -2)) * m.beta[..., None, :]
                yield wrong, told(wrong, right, axis=Message(CHANNELS))
        else:
            log = np.log(m.gamma)
            for total, axis in ((log.cumsum(1), HEADS), (log.cumsum(0), TEXTS), (log, NOWHERE)):
                wrong = faded(m, np.tril(np.exp(total[..., :, None] - total[..., None, :])))
                yield wrong, told(wrong, right, axis=Message(axis))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            exponent = _exponent(node)
            for inner in ast.walk(exponent) if exponent is not None else ():
                if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
                    swapped = f"{code.wrapped(inner.right)} - {code.wrapped(inner.left)}"
                    yield 0, node, code.diff(code.put(inner, swapped))
            if exponent is not None and isinstance(node, ast.BinOp) and (arange := _arange(code, exponent)):
                kind = argument(arange, 9, "dtype")
                steps = f"{code.text_of(arange.func)}({code.text_of(arange.args[0])}"
                steps += f", dtype={code.text_of(kind)})" if kind is not None else ")"
                distance = f"{code.text_of(node.left)} ** ({steps}[:, None] - {steps}[None, :])"
                yield 1, node, code.diff(code.put(_indexed(code, node), distance))
            elif called(node) == "cumsum" and isinstance(node, ast.Call):
                axis = node.args[-1] if node.args else argument(node, 9, "dim", "axis")
                if axis is not None and number(axis) != -1:
                    yield 0, node, code.diff(code.put(axis, "-1"))
                yield 1, node, ""
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _decays(node):
                yield 1, node, ""


ROW = _("by the place of the token that reads, γ^i")
COLUMN = _("by the place of the token that wrote, γ^j")
GROWS = _("the other way round, γ^(j−i), which grows with the distance")
LATER = _("of what comes later, on the other side of the diagonal")
CHANNELS = _("along the channels of a head")
HEADS = _("summed over the heads instead of the tokens")
TEXTS = _("summed over the texts of a batch instead of the tokens")
NOWHERE = _("that isn't summed over the tokens at all")


class StateKept(StateMistake):
    """What one text left is read by the next."""

    id = "L2"
    name = _("the state isn't emptied")
    does = _(
        "A text reads what another one left behind: results depend on what was computed before or stands beside it, training batches leak into each other, and no result can be had twice."
    )
    fix = _(
        "Begin each text (each call, each text of a batch, each head) with a state of zeros, made inside the loop over them: `S = torch.zeros(d, e)`"
    )
    shows = _("The same call twice, a text alone and in its batch, a head alone and beside others must give the same.")
    evidence = {
        "calls": _("the same call a second time differs by {change:.1%}: the state of the first is still there"),
        "texts": _(
            "texts of a batch read what the one before them left: your numbers are those of one text after the other, to {error:.0e}"
        ),
        "heads": _(
            "heads read what the one before them left: your numbers are those of one head after the other, to {error:.0e}"
        ),
    }

    @staticmethod
    def tables(m: StateMixing) -> Tables:
        b, h = m.q.shape[:2]
        for how, size, order in (("texts", b, (1, 0, 2)), ("heads", h, (0, 1, 2)), ("texts", b * h, (0, 1, 2))):
            if size > 1 and not (size == b * h and min(b, h) == 1 and how == "texts" and order == (0, 1, 2)):
                yield _one_after_another(m, size, order), {"how": how}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for loop in code.walk(root):
            if not isinstance(loop, ast.For) or any(isinstance(one, ast.For) for one in code.up(loop)):
                continue
            function = code.function(loop)
            for statement in getattr(function, "body", []):
                made = statement.value if isinstance(statement, ast.Assign) else None
                if statement.lineno < loop.lineno and made is not None and _zeros(made) and _carried(loop, statement):
                    first, indent = loop.body[0], " " * loop.body[0].col_offset
                    begin = code.span(first)[0]
                    yield 0, statement, code.diff((begin, begin, f"{code.text_of(statement)}\n{indent}"))
        for node in code.walk(root):
            if isinstance(node, ast.Assign | ast.AugAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if path(target).startswith("self.") and getattr(code.function(node), "name", "") == "forward":
                    yield 0, node, ""
                elif _zeros(node.value):
                    yield 1, node, ""
        for node in ast.walk(root):
            for default in node.args.defaults if isinstance(node, ast.FunctionDef) else ():
                if isinstance(default, ast.Dict | ast.List | ast.Call):
                    yield 0, default, ""


class ChunkBorder(StateMistake):
    """One decay too many or too few where chunks meet."""

    id = "L3"
    name = _("the border between two chunks is off by one")
    does = _(
        "Within a chunk all is right; what comes from chunks before counts too much or too little. Results depend on the chunk's size, so training in chunks and generating token by token are two different models."
    )
    fix = _(
        "Read the state before the chunk with γ^(i+1) at its token i (from 0), `gamma ** torch.arange(1, c + 1)`; afterwards keep γ^C·S and add what token j wrote with γ^(C−1−j), C the tokens of this chunk"
    )
    shows = _("Chunks of two tokens, compared with the layer without chunks, number for number.")
    evidence = {
        "": _(
            "in chunks of {chunk}, what token {j} wrote counts {got:.3g} when token {i} reads it, and {want:.3g} without chunks: {what} (your numbers are those of this mistake, to {error:.0e})"
        ),
        "rest": _(
            "{n} tokens in chunks of {chunk} differ by {change:.1%} from the layer without chunks; {whole} tokens don't: the last chunk, which is shorter, is wrong"
        ),
    }

    @staticmethod
    def tables(m: StateMixing) -> Tables:
        if not m.chunk or m.chunk >= m.q.shape[2] or m.rule != "add" or not m.steady or m.shares:
            return
        right = table(m)
        ways = sorted(itertools.product(KEEPS, WRITES, READS), key=lambda way: sum(1 for part in way if part))
        for keep, write, read in ways[1:]:
            wrong = _chunked(m, read, write, keep)
            yield wrong, told(wrong, right, chunk=m.chunk, what=Message(BORDERS[read or write or keep]))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        sizes = sorted(one for one in names(root) if re.search("chunk|size|len|^[cmnl]$", one, re.I))
        for node in code.walk(root):
            exponent = _exponent(node)
            if exponent is None:
                continue
            text = code.text_of(exponent)
            fine = re.search(r"arange\(\s*1\s*,|\+ ?1\b|- ?1 ?-|::-1|flip", text) or _difference(
                exponent
            )  # as it should be
            begin, end = code.span(exponent)
            bare = code.text[begin - 1] == "(" and code.text[end : end + 1] == ")"
            for new in (f"{text} + 1", f"{text} - 1"):
                yield 2 if fine else 1, node, code.diff(code.put(exponent, new if bare else f"({new})"))
            for size in sizes:
                yield 2, node, code.diff(code.put(exponent, f"({size} - 1 - {text})"))
        for node in code.walk(root):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _decays(node.left):
                for size in sizes:
                    yield 2, node, code.diff(code.put(node.left, f"{code.wrapped(node.left)}**{size}"))


READS = ("", "early", "late", "unfaded", "whole", "nothing")
WRITES = ("", "turned round", "unfaded writes")
KEEPS = ("", "once more", "once", "kept", "dropped")
BORDERS = {
    "early": _(
        "there is one γ too few where chunks meet: either the state before the chunk is read with γ^i instead of γ^(i+1), or what a chunk writes fades once too little"
    ),
    "late": _(
        "there is one γ too many where chunks meet: either the state before the chunk is read with γ^(i+2) instead of γ^(i+1), or what a chunk writes fades by γ^(C−j) instead of γ^(C−1−j)"
    ),
    "unfaded": _("the state before the chunk is read as if nothing had faded since"),
    "whole": _("every token reads the state before the chunk with γ^C, as if it were the last"),
    "nothing": _("the state before the chunk isn't read"),
    "turned round": _("what a chunk writes fades the wrong way round, γ^j instead of γ^(C−1−j)"),
    "unfaded writes": _("what a chunk writes doesn't fade until its end"),
    "once more": _("the old state fades once too often over a chunk"),
    "once": _("the old state doesn't fade by γ^C over a chunk of C tokens, but once too little"),
    "kept": _("the old state doesn't fade over a chunk"),
    "dropped": _("the old state is dropped after each chunk"),
}


class DecayTime(StateMistake):
    """The decay comes too late, twice or never."""

    id = "L4"
    name = _("the decay comes at the wrong time")
    does = _(
        "What was just written fades before it is read, or fades by another token's decay: recent tokens count too little, and a layer trained so is another one than its parallel form."
    )
    fix = _(
        "For each token in this order: fade the state, look up (delta rule), write, read: `S = gamma * S + k[:, None] * v`, then `y = q @ S`"
    )
    shows = _("The layer with the decay at that time gives your numbers, number for number.")
    evidence = {
        "": _(
            "what token {j} wrote counts {got:.3g} when token {i} reads it, and should count {want:.3g}: {when} (your numbers are those of this mistake, to {error:.0e})"
        ),
        "unused": _("changing `{parameter}` changes nothing: nothing fades"),
    }

    @staticmethod
    def tables(m: StateMixing) -> Tables:
        if m.shares or np.abs(m.gamma - 1).max() < 1e-6:
            return
        right, n = table(m), m.q.shape[2]
        take = 1.0 if m.rule == "delta" else 0.0

        def write(state: Array, t: int, found: Array | None = None) -> Array:
            seen = state if found is None else found
            return np.asarray(state + each(m.beta, t) * (written(m, t) - take * held(m, seen, t)))

        def after(state: Array, t: int) -> tuple[Array, Array]:
            return (new := each(m.gamma, t) * write(state, t)), new

        def late(state: Array, t: int) -> tuple[Array, Array]:
            return each(m.gamma, t) * (new := write(state, t)), new

        def early(state: Array, t: int) -> tuple[Array, Array]:
            return (new := write(each(m.gamma, min(t + 1, n - 1)) * state, t)), new

        def twice(state: Array, t: int) -> tuple[Array, Array]:
            return (new := write(each(m.gamma, t) ** 2 * state, t)), new

        def looked_up_first(state: Array, t: int) -> tuple[Array, Array]:
            return (new := write(each(m.gamma, t) * state, t, state)), new

        def faded_reading(state: Array, t: int) -> tuple[Array, Array]:
            return (new := write(each(m.gamma, t) * state, t)), each(m.gamma, t) * new

        def read_first(state: Array, t: int) -> tuple[Array, Array]:
            return write(each(m.gamma, t) * state, t), state

        steps = {AFTER: after, TWICE: twice, FADED: faded_reading, FIRST: read_first}
        if not m.steady:
            steps |= {LATE: late, EARLY: early}
        if m.rule == "delta":
            steps |= {UNFADED: looked_up_first}
        for when, step in steps.items():
            wrong = stepped(m, step)
            yield wrong, told(wrong, right, when=Message(when))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
                continue
            for factor, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(other, ast.BinOp) and isinstance(other.op, ast.Add):  # γ · (S + k vᵀ)
                    for state, new in ((other.left, other.right), (other.right, other.left)):
                        if isinstance(state, ast.Name | ast.Attribute):
                            text = f"{code.wrapped(factor)} * {code.text_of(state)} + {code.text_of(new)}"
                            yield 0, node, code.diff(code.put(node, text))
        for node in code.walk(root):
            loop = code.around(node, ast.For) if isinstance(node, ast.Assign | ast.AugAssign) else None
            if loop is None or node not in loop.body:
                continue
            grown = node.value if isinstance(node, ast.Assign) else node
            fades = isinstance(getattr(grown, "op", None), ast.Mult)
            first = loop.body[0]
            if fades:
                begin, end = code.span(node)
                at = code.span(first)[0]
                indent = " " * node.col_offset
                out = (code.text.rfind("\n", 0, begin), end, "")
                moved = code.diff((at, at, f"{code.text_of(node)}\n{indent}"), out) if node is not first else ""
                yield (0 if moved else 1), node, moved
                if len(loop.body) > 1:
                    last = code.text.find("\n", end) + 1
                    yield 1, node, code.diff((begin, last + len(indent), ""))
        for node in code.walk(root):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _decays(node):
                yield 2, node, ""


AFTER = _("the state fades after the write, so what was just written has faded when it is read")
TWICE = _("the state fades twice at every token")
FADED = _("the state fades once more where it is read")
FIRST = _("the state is read before the token has written into it")
LATE = _("the decay comes one token late, after the state is read")
EARLY = _("each token uses the decay of the next one")
LITTLE = _("everything counts as if it had faded once too little, even what was just written")
UNFADED = _("what the key holds is looked up before the state fades, so more is taken out than is left")


class DeltaShare(StateMistake):
    """The delta rule without what makes it one."""

    id = "L5"
    name = _("the delta rule doesn't take out what it overwrites")
    does = _(
        "A key that is written twice holds a mixture of both values, or values that grow with every write: the layer can't forget, and recall gets worse the longer the text."
    )
    fix = _(
        "Write the difference, and the share β of all of it: `held = k @ S`, then `S = S + beta * outer(k, v - held)`"
    )
    shows = _("The delta rule with this part left out gives your numbers, number for number.")
    evidence = {
        "": _(
            "what token {j} wrote counts {got:.3g} when token {i} reads it, and should count {want:.3g}: {what} (your numbers are those of this mistake, to {error:.0e})"
        ),
        "unused": _("changing `{parameter}` changes nothing: every token overwrites whole"),
    }

    @staticmethod
    def tables(m: StateMixing) -> Tables:
        if m.rule != "delta":
            return
        right = table(m)
        ways = {ADDED: (1.0, 0.0, True), WHOLE: (1.0, 1.0, False), REMOVED: (1.0, 1.0, None), WRITTEN: (1.0, 1.0, True)}
        for what in ways:

            def step(state: Array, t: int, what: str = what) -> tuple[Array, Array]:
                state, share = each(m.gamma, t) * state, each(m.beta, t)
                new, old = written(m, t), held(m, state, t)
                change = {ADDED: share * new, WHOLE: new - old, REMOVED: share * new - old, WRITTEN: new - share * old}
                return (after := state + change[what]), after

            wrong = stepped(m, step)
            yield wrong, told(wrong, right, what=Message(what))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            subtracted = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
            if subtracted and isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mult):
                for share, new in ((node.left.left, node.left.right), (node.left.right, node.left.left)):
                    text = f"{code.wrapped(share)} * ({code.text_of(new)} - {code.text_of(node.right)})"
                    yield 0, node, code.diff(code.put(node, text))
            if subtracted and isinstance(node.right, ast.BinOp) and isinstance(node.right.op, ast.Mult):
                for share, old in ((node.right.left, node.right.right), (node.right.right, node.right.left)):
                    text = f"{code.wrapped(share)} * ({code.text_of(node.left)} - {code.text_of(old)})"
                    yield 0, node, code.diff(code.put(node, text))
        for node in code.walk(root):
            function = code.function(node)
            if function is not None and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                for given in (one for one in code.parameters(function) if re.search("beta|^b$|lr|share|write", one)):
                    loop = code.around(node, ast.For)
                    for t in names(loop.target) if loop is not None else ():
                        for index in (t, f":, {t}, None", f":, :, {t}, None"):
                            text = f"{given}[{index}] * ({code.text_of(node)})"
                            yield 1, node, code.diff(code.put(node, text))
        for node in code.walk(root):
            grows = isinstance(node, ast.AugAssign) or (
                isinstance(node, ast.Assign) and names(node.value) & {path(target) for target in node.targets}
            )
            if grows and code.around(node, ast.For) is not None:
                yield 1, node, ""


ADDED = _("values are added to what the key held, which isn't taken out")
WHOLE = _("β isn't used, everything is overwritten whole")
REMOVED = _("all that the key held is taken out, but only the share β of the value is written")
WRITTEN = _("the whole value is written, but only the share β of what the key held is taken out")


def _one_after_another(m: StateMixing, size: int, order: tuple[int, int, int]) -> Array:
    """The output where the state is carried from one text (or head) to the next; order (1, 0, 2) puts heads outside."""
    b, h, n, _d = m.q.shape

    def joined(x: Array) -> Array:
        x = x.transpose(*order, *range(3, x.ndim))
        return x.reshape(1, b * h // size, size * n, *x.shape[3:])

    whole = StateMixing(joined(m.q), joined(m.k), joined(m.v), joined(m.gamma), joined(m.beta), m.rule)
    output = table(whole) @ whole.v
    outer = (b, h) if order == (0, 1, 2) else (h, b)
    return output.reshape(*outer, n, -1).transpose(*np.argsort(order), 3)


def _chunked(m: StateMixing, read: str, write: str, keep: str) -> Array:
    """A in chunks, with another number of decays where chunks meet."""
    n, g = m.q.shape[2], m.gamma[..., :1, None]
    values = np.eye(n)
    state, rows = np.zeros((*m.q.shape[:2], m.q.shape[-1], n)), []
    for start in range(0, n, m.chunk):
        q, k, beta = (x[:, :, start : start + m.chunk] for x in (m.q, m.k, m.beta))
        v, c = beta[..., None] * values[start : start + m.chunk], q.shape[2]
        i = np.arange(c)[:, None].astype(float)
        reads = {"early": i, "late": i + 2, "unfaded": 0 * i, "whole": 0 * i + c}.get(read, i + 1)
        writes = {"turned round": i, "unfaded writes": 0 * i}.get(write, c - 1 - i)
        keeps = {"once more": c + 1, "once": c - 1, "kept": 0}.get(keep, c)
        inner = (np.tril(g ** (i - i.T)) * (q @ k.swapaxes(-1, -2))) @ v
        rows.append(inner + (g**reads * (q @ state) if read != "nothing" else 0))
        state = (0 if keep == "dropped" else g**keeps * state) + (g**writes * k).swapaxes(-1, -2) @ v
    return np.concatenate(rows, 2)


def _exponent(node: ast.AST) -> Any:
    """What a decay is raised to."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and number(node.left) is None:
        return node.right
    if called(node) in ("pow", "power") and isinstance(node, ast.Call) and node.args:
        return node.args[-1]
    inner = node.args[0] if called(node) == "exp" and isinstance(node, ast.Call) and node.args else None
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):  # e^(log γ · i)
        return inner.right if _decays(inner.left) or not _decays(inner.right) else inner.left
    return None


def _difference(exponent: ast.AST) -> bool:
    """Whether it is how far two tokens are apart: one row of places taken from another."""
    return any(
        isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and names(one.left) == names(one.right)
        for one in ast.walk(exponent)
    )


def _arange(code: Code, node: ast.expr) -> Any:
    """The arange that an exponent comes from."""
    return next((one for one in code.sources(node, 2) if called(one) == "arange" and one.args), None)  # type: ignore[attr-defined]


def _indexed(code: Code, node: ast.AST) -> ast.AST:
    """The node with the [:, None] behind it."""
    above = code.parent.get(node)
    return above if isinstance(above, ast.Subscript) and above.value is node else node


def _decays(node: ast.AST) -> bool:
    return any(re.search(r"gamma|decay|alpha|lam|forget|^l?g$|^a$", name) for name in names(node))


def _zeros(node: ast.AST) -> bool:
    return called(node) in ("zeros", "new_zeros", "zeros_like")


def _carried(loop: ast.For, statement: ast.Assign) -> bool:
    """Whether the loop sets what the statement made, and so hands it from one round to the next."""
    made = {path(target) for target in statement.targets}
    return any(
        path(target) in made
        for node in ast.walk(loop)
        if isinstance(node, ast.Assign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
