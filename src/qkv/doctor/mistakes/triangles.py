"""Where a mask lies: its axes, its diagonal, its length."""

import ast
import difflib
import re
from dataclasses import replace

import numpy as np

from ...i18n import _
from ..numbers.oracle import AttentionForm, changed
from ..source.nodes import FUSED, LENGTH, MOVES, argument, called, is_library, last, masky, names, number, path
from ..source.readings import LOWEST, fills, mask_uses, tiled, triangles
from ..source.trees import Code
from .mistake import At, Mistake, Places, Wrong, triangle


class OnQueryRows(Mistake):
    """A padding mask that blocks rows instead of columns."""

    id = "M11"
    name = _("padding mask laid over queries instead of keys")
    does = _(
        "Rows of padding tokens are blanked, which nobody reads anyway, while every real token goes on attending to padding; with −inf the blanked rows are NaN."
    )
    fix = _(
        "Scores are (B, H, queries, keys): put padding on the last axis, `mask[:, None, None, :]` or `mask.unsqueeze(1).unsqueeze(2)`"
    )
    shows = _(
        "Padded on the left and on the right, with other lengths per sample: changing padding changes the real tokens' output."
    )
    evidence = {
        "rows": _(
            "`{parameter}` reaches the softmax and changes nothing: it moves whole rows of scores, those of padded queries, instead of the columns of padded keys"
        ),
        "": _(
            "`{parameter}` blocks the rows of padded queries instead of the columns of padded keys: your numbers equal attention computed so to {error:.0e}"
        ),
    }
    explains = 12

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        for place, piece in enumerate(form.pieces):
            keep = piece.keep
            if (
                piece.how == "fill"
                and at.n == at.m
                and keep.shape[-2:] == (at.n, at.m)
                and (keep == keep[..., :1, :]).all()
            ):
                for how in ("fill", "zero"):
                    turned = replace(piece, keep=np.broadcast_to(keep.swapaxes(-1, -2), keep.shape), how=how)
                    yield changed(form, pieces=(*form.pieces[:place], turned, *form.pieces[place + 1 :])), {}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if called(node) in ("unsqueeze", "expand_dims") and masky(code.receiver(node)):
                axis = argument(node, 1 if is_library(node.func) else 0, "dim", "axis")
                at = number(axis)
                if axis is not None and at in (3, -1):
                    yield 0, node, code.diff(code.put(axis, "2" if at == 3 else "-2"))
            if isinstance(node, ast.Subscript) and masky(node.value) and isinstance(node.slice, ast.Tuple):
                parts = [code.text_of(e) for e in node.slice.elts]
                if len(parts) > 1 and parts[-1] in ("None", "np.newaxis", "newaxis"):
                    moved = [*parts[:-2], parts[-1], parts[-2]] if parts[-2] == ":" else [*parts, ":"]
                    yield 0, node, code.diff(code.put(node.slice, ", ".join(moved)))
        yield from mask_uses(code, root, 2)


class WrongTriangle(Mistake):
    """Off by one, or upside down."""

    id = "M12"
    name = _("the causal triangle is off by one or transposed")
    does = _(
        "One diagonal too many shows each token the very next one it has to predict; one too few hides it from itself and leaves the first row nothing; transposed, tokens see only the future."
    )
    fix = _(
        "Token i sees 0 … i: `keep = torch.tril(torch.ones(n, n)).bool()`, or the opposite, `hide = torch.triu(torch.ones(n, n), diagonal=1).bool()`"
    )
    shows = _(
        "Which outputs have a gradient from which inputs: the triangle of those pairs is shifted, or the upper one."
    )
    evidence = {
        "ahead": _("a token sees the one after itself: the triangle's diagonal is off by one"),
        "nan": _("rows {rows} are NaN: these tokens may look at nothing"),
        "strict": _(
            "a token doesn't see itself: the triangle leaves out the diagonal, and the first token sees nothing"
        ),
        "transposed": _("a token sees itself and what comes after it, and nothing before: the triangle is upside down"),
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        right = triangle(at.n, at.m, "causal")
        for place, piece in enumerate(form.pieces):
            if piece.how == "fill" and piece.keep.shape[:2] == (1, 1) and np.array_equal(piece.keep[0, 0], right):
                for kind in ("strict", "ahead", "transposed", "strictly transposed"):
                    for how in ("fill", "low", "lowered") if kind.startswith("strict") else ("fill",):
                        other = replace(piece, keep=triangle(at.n, at.m, kind)[None, None], how=how)
                        yield (
                            changed(form, pieces=(*form.pieces[:place], other, *form.pieces[place + 1 :])),
                            {"kind": kind},
                        )

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call, axis, _at in triangles(code, root):
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


class NoTriangle(Mistake):
    """Called causal, and sees the future."""

    id = "M14"
    name = _("no causal mask")
    does = _(
        "Every token sees those after it, so the answer is in the input: the training loss collapses, and generation, where there is nothing after, is poor."
    )
    fix = _(
        "Hide what comes after: `scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float('-inf'))`, or `is_causal=True` in scaled_dot_product_attention"
    )
    shows = _("It is meant to be causal, and early outputs have a gradient from later inputs.")
    evidence = {"": _("every token sees all tokens after itself: there is no causal mask")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call in code.walk(root):
            if called(call) in FUSED:
                causal = argument(call, 5, "is_causal")
                if causal is None:
                    end = code.span(call)[1]
                    yield 0, call, code.diff((end - 1, end - 1, ", is_causal=True"))
                elif isinstance(causal, ast.Constant) and causal.value is False:
                    yield 0, causal, code.diff(code.put(causal, "True"))
            elif isinstance(call, ast.Call) and path(call.func).startswith("self."):
                made = code.resolve(call.func)
                if re.fullmatch("MultiheadAttention|Transformer(En|De)coder(Layer)?", called(made)):
                    yield 0, call, ""
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


class TiledMask(Mistake):
    """Repeated over heads in the wrong order: head h of item b gets another item's mask."""

    id = "M15"
    name = _("mask repeated in another order than the heads")
    does = _(
        "Rows of a (B·H) batch run sample 0 with all its heads, then sample 1; `mask.repeat(H, 1, 1)` runs sample 0, 1, …, 0, 1, … So most heads get another sample's mask. A batch of one hides it."
    )
    fix = _(
        "Repeat each sample's mask H times in a row: `mask.repeat_interleave(H, dim=0)`; or keep the heads on an axis of their own and broadcast"
    )
    shows = _(
        "Samples of different lengths: each, cut to its length and alone, gives another output than in the padded batch; a batch of one agrees."
    )
    evidence = {
        "": _(
            "`{parameter}` is repeated over the heads in the wrong order, so texts get each other's masks: your numbers equal attention computed so to {error:.0e}"
        )
    }
    explains = 13

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.heads == 1:
            return
        for place, piece in enumerate(form.pieces):
            if piece.how == "fill" and piece.keep.shape[0] == at.batch and piece.keep.shape[1] == 1:
                tiled = np.tile(piece.keep[:, 0], (at.heads, 1, 1)).reshape(at.batch, at.heads, *piece.keep.shape[-2:])
                yield (
                    changed(form, pieces=(*form.pieces[:place], replace(piece, keep=tiled), *form.pieces[place + 1 :])),
                    {},
                )

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from tiled(code, root, masky, 0)
        yield from mask_uses(code, root, 2)


class WrongAxes(Mistake):
    """The mask is broadcast over axes that only look alike."""

    id = "M16"
    name = _("the mask's axes fall on the wrong axes of the scores")
    does = _(
        "Broadcasting aligns from the right: a mask (B, n, n) against scores (B, H, n, n) puts samples where heads are. It crashes, unless B is 1 or equals H, and then each head gets a sample's mask."
    )
    fix = _("Give the mask an axis for the heads: `mask[:, None]` for (B, n, n), `mask[:, None, None, :]` for (B, n)")
    shows = _("With batch, heads and length all different it crashes or hides other keys than the mask says.")
    evidence = {
        "": _("`{parameter}` lands on the wrong axis: {error}"),
        "across": _(
            "`{parameter}` as the file hands it over, of {batch} texts with {batch} tokens each, lands on the wrong axis: the padding of text i is hidden from token i of every text"
        ),
        "heads": _(
            "`{parameter}` as the file hands it over lands on the heads: there are {batch} of both, so head i of every text hides the padding of text i; with one text more it stops"
        ),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        yield from mask_uses(code, root, 2)


class BrokenBranch(Mistake):
    """With a mask, or without one, it crashes."""

    id = "M17"
    name = _("one branch of the mask code is broken")
    does = _("It runs only with a mask, or only without one, so it breaks on the day the other case comes.")
    fix = _("Ask `if mask is not None:` before touching it, and spell it `masked_fill`")
    shows = _("Called with a mask and with None: one of the two raises.")
    evidence = {
        "": _("every mask given as `{parameter}` stops it: {error}"),
        "without": _("without a mask it stops, with one it runs: {error}"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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
        yield from mask_uses(code, root, 2)


class OneLength(Mistake):
    """The mask has the size of one text."""

    id = "M20"
    name = _("works for one sequence length only")
    does = _(
        "A mask or reshape of fixed size crashes on shorter or longer texts, as in the last batch or when generating."
    )
    fix = _("Cut the mask to the scores, `mask[:n, :n]`, and take lengths from the tensors: `n = x.size(1)`")
    shows = _("Called with lengths 1, 3 and 7: some raise.")
    evidence = {"": _("{worked} tokens run, {n} don't: {error}")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
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


class WindowOff(Mistake):
    """One too many, one too few, or on the wrong side."""

    id = "M21"
    name = _("the sliding window is off by one or on the wrong side")
    does = _(
        "Each layer sees one token too few or too many, or the wrong side: the reach of a stack of layers and the cache's size no longer fit, nor do the weights of another implementation."
    )
    fix = _("A window of W tokens, itself included: `keep = (i - j >= 0) & (i - j < W)` with i the query, j the key")
    shows = _("How many keys each output has a gradient from, and on which side, against the width that was asked for.")
    evidence = {"": _("asked for a window of {asked}, a token sees {seen} tokens")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        def windowed(node: ast.AST) -> bool:
            return any("window" in name.lower() or name in ("W", "w", "ws", "span") for name in names(node))

        for node in code.walk(root):
            if isinstance(node, ast.Compare) and windowed(node):
                wide = (
                    {ast.LtE: ("<=", "<"), ast.GtE: (">=", ">")}.get(type(node.ops[0])) if len(node.ops) == 1 else None
                )
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


def moved(code: Code, node: ast.expr) -> bool:
    """Whether an axis was moved on the way to it, names followed once."""
    for part in code.chain(node):
        if called(part) in MOVES or (isinstance(part, ast.Attribute) and part.attr in MOVES):
            return True
        if path(part) and (found := code.setting(part)):
            inner = found[1]
            if any(called(one) in MOVES for one in code.chain(inner)):
                return True
            if code.is_product(inner) or not path(inner):
                return False
    return False


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
