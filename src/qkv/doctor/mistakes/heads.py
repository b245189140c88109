"""Splitting, sharing and merging heads."""

import ast
from collections.abc import Iterator
from typing import Any

from ...i18n import Message, _
from ..numbers.oracle import AttentionForm, changed
from ..source.nodes import (
    FUSED,
    HEAD_WIDTH,
    HEADS,
    argument,
    called,
    is_library,
    last,
    masky,
    names,
    number,
    path,
    role,
    same,
)
from ..source.readings import score_expressions, size_kind, tiled, weights_site
from ..source.trees import Code
from .mistake import At, Mistake, Op, Places, Wrong
from .triangles import moved

RESHAPES = {"view", "reshape", "flatten", "contiguous", "unflatten"}


class SplitWithoutTranspose(Mistake):
    """(B, N, C) taken as (B, H, N, D)."""

    id = "H1"
    name = _("heads are cut across tokens instead of channels")
    does = _(
        "In memory a token's channels lie together, so `view(B, H, n, d)` gives each head all the channels of a few neighbouring tokens instead of some channels of all. Far tokens never meet, and a causal mask no longer hides the future. It trains."
    )
    fix = _("Split the last axis, then move the heads: `x.view(B, n, H, d).transpose(1, 2)`")
    shows = _(
        "Shuffling the tokens does not just shuffle the output, and a text of one repeated token gives other outputs than that token alone."
    )
    evidence = {
        "": _(
            "heads are cut by view/reshape alone, so a head holds parts of several tokens: your numbers equal attention computed so to {error:.0e}"
        )
    }
    explains = 0

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.heads > 1 and form.split in ("hd", "dh"):
            yield changed(form, split="view", merge="view"), {}
            yield changed(form, split="view", merge="hd"), {}
            yield changed(form, split="view, keys turned", merge="hd"), {}
            yield changed(form, split="view, keys turned", merge="view"), {}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        if op.name in RESHAPES and op.args[0].dim() == 3 and op.result.dim() in (3, 4):
            batch, length, _width = op.args[0].shape
            yield op.args[0].reshape(batch, length, -1, op.result.shape[-1]).transpose(1, 2).reshape(op.result.shape)

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        edits: dict[Any, list[tuple[int, int, str]]] = {}
        places: list[tuple[int, ast.Call]] = []
        for call, sizes, whole in reshapes(code, root):
            function, end = code.function(call), code.span(call)[1]
            if moved(code, whole) or comes_from_attention(code, whole) or weights_site(code, whole):
                continue
            inside = [n for size in sizes[:1] for n in ast.walk(size) if isinstance(n, ast.expr)]
            if len(sizes) == 4 and heads_like(code, sizes[1]) and not heads_like(code, sizes[2]):
                a, h, n, d = (code.text_of(s) for s in sizes)
                order = "0, 2, 1, 3"
                if size_kind(code, sizes[2]) == "head" and size_kind(code, sizes[3]) != "head":  # keys already turned
                    n, d, order = d, n, "0, 2, 3, 1"
                swap = f".transpose({order})" if code.numpy(call) else f".permute({order})"
                if order == "0, 2, 1, 3" and not code.numpy(call):
                    swap = ".transpose(1, 2)"
                edits.setdefault(function, [])
                edits[function].append((code.span(sizes[0])[0], code.span(sizes[3])[1], f"{a}, {n}, {h}, {d}"))
                edits[function].append((end, end, swap))
                places.append((0, call))
            elif len(sizes) == 3 and isinstance(sizes[0], ast.BinOp) and any(heads_like(code, n) for n in inside):
                places.append((0, call))
            elif len(sizes) == 4 and any(heads_like(code, s) for s in sizes):
                places.append((2, call))
        for rank, call in places:
            yield rank, call, code.diff(*edits.get(code.function(call), [])) if rank == 0 else ""


class MergedWithoutTranspose(Mistake):
    """(B, H, N, D) laid out as (B, N, C)."""

    id = "H2"
    name = _("heads are merged without moving their axis back")
    does = _(
        "Each output row is stitched together from one head's results for several tokens, later ones included, so even a causal model sees the future."
    )
    fix = _("Swap first: `out.transpose(1, 2).reshape(B, n, H * d)`")
    shows = _(
        "Shuffling the tokens does not just shuffle the output; the output equals heads merged in memory order to rounding."
    )
    evidence = {
        "": _(
            "heads are put together without transposing first, so a token's output holds parts of other tokens: your numbers equal attention computed so to {error:.0e}"
        )
    }
    explains = 1

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.heads > 1 and form.merge in ("hd", "dh") and form.split != "view":
            yield changed(form, merge="view"), {}
            yield changed(form, merge="view, tokens first"), {}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        if op.name in RESHAPES and op.args[0].dim() == 4:
            yield op.args[0].transpose(1, 2).reshape(op.result.shape)

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call, sizes, whole in reshapes(code, root):
            swap = ".transpose(0, 2, 1, 3)" if code.numpy(call) else ".transpose(1, 2)"
            after = comes_from_attention(code, whole)
            if not after or moved(code, whole) or len(sizes) > 3:
                continue
            inner = whole
            while called(inner) == "contiguous":
                inner = code.receiver(inner) or inner
            end = code.span(inner)[1]
            text, begin = code.text_of(inner), code.span(inner)[0]
            shown = (
                f"{text}{swap}"
                if inner is code.receiver(inner) or path(inner) or isinstance(inner, ast.Call)
                else f"({text}){swap}"
            )
            if code.text[:begin].endswith("(") and code.text[end:].startswith(")") and isinstance(inner, ast.BinOp):
                shown, begin, end = f"({text}){swap}", begin - 1, end + 1
            changes = [(begin, end, shown)]
            if called(call) == "view" and inner is whole and isinstance(call.func, ast.Attribute):
                at = code.span(call.func)[1]
                changes.append((at - 4, at, "reshape"))
            yield 0, call, code.diff(*changes)
        for call, sizes, _unused in reshapes(code, root):
            if len(sizes) <= 3:
                yield 2, call, ""


class BatchAndHeadsMixed(Mistake):
    """Heads of one sample computed with another's."""

    id = "H3"
    name = _("batch and heads are mixed up")
    does = _(
        "Samples exchange information: an answer depends on its neighbours in the batch, and other batch sizes give other answers or a crash."
    )
    fix = _("Keep the batch axis first and untouched: `x.view(B, n, H, d).transpose(1, 2)` gives (B, H, n, d)")
    shows = _("The first sample alone gives another output than the first sample in a batch.")
    evidence = {
        "": _(
            "batch and heads are mixed up: your numbers equal attention computed so to {error:.0e}; a text's output depends on the texts beside it"
        )
    }
    explains = 2

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.heads > 1 and form.split in ("hd", "dh"):
            yield changed(form, split="across"), {}
            yield changed(form, merge="across"), {}
            yield changed(form, split="across", merge="across"), {}
            yield changed(form, split="queries across"), {}
            yield changed(form, split="keys across"), {}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call, sizes, _unused in reshapes(code, root):
            if sizes and any(heads_like(code, n) for n in ast.walk(sizes[0]) if isinstance(n, ast.expr)):
                yield 1, call, ""
            elif any(heads_like(code, s) for s in sizes):
                yield 2, call, ""
        for node in code.walk(root):
            if (
                called(node) in ("transpose", "swapaxes", "permute")
                and node.args
                and number(node.args[-2 if len(node.args) > 1 else 0]) in (0, 1)
            ):
                given = [number(a) for a in node.args if number(a) is not None]
                if 0 in given[:2] and given != [0, 2, 1, 3] and len(given) < 5:
                    yield 1, node, ""


class NeverSplit(Mistake):
    """One head as wide as the model."""

    id = "H4"
    name = _("heads are never split")
    does = _(
        "It is one head as wide as the model, whatever the number of heads says: a token can look at one pattern of places per layer, not H."
    )
    fix = _("Split q, k and v before the product: `q = q.view(B, n, H, d).transpose(1, 2)`, and merge after")
    shows = _("The output equals attention with one head to rounding, though more heads were asked for.")
    evidence = {
        "": _(
            "asked for {heads} heads, computed as one head of width {width}: your numbers equal attention computed so to {error:.0e}"
        )
    }
    explains = 3

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.heads > 1 and form.scale is None and form.kv_heads in (0, form.heads):
            yield changed(form, heads=1, kv_heads=0), {}
            yield changed(form, heads=1, kv_heads=0, scale=at.head**-0.5), {}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for scores in score_expressions(code, root):
            if (product := code.score_product(scores)) is not None:
                yield 0, product, ""
        for call in code.walk(root):
            if called(call) in FUSED:
                yield 0, call, ""


class SharedProjection(Mistake):
    """One small weight for all heads."""

    id = "H6"
    name = _("heads share one small projection")
    does = _(
        "Split before projecting, each head sees only its own slice of the channels through one d_k × d_k matrix that all share: H² times fewer weights for q, k and v, and heads that can't specialise."
    )
    fix = _(
        "Project the whole width, then split: `nn.Linear(d_model, d_model)` for each of q, k, v, then `view(B, n, H, d)`"
    )
    shows = _(
        "The projections have the shape d_k × d_k, and the output equals attention with one such matrix for every head."
    )
    evidence = {"": _("all {heads} heads share one {head}×{head} matrix: {shared} weights where {right} belong")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call in code.walk(root):
            if called(call) == "Linear" and len(call.args) >= 2:
                a, b = call.args[:2]
                small = [HEAD_WIDTH.match(last(x)) or isinstance(code.resolve(x, 1), ast.BinOp) for x in (a, b)]
                if all(small) and same(a, b):
                    yield 0, call, ""  # what is projected must change too: no small patch


class Miscut(Mistake):
    """The fused projection is cut at other places than where q, k and v begin."""

    id = "H7"
    name = _("the fused q, k, v projection is cut in the wrong places")
    does = _(
        "Parts of one serve as another: with fewer KV heads three equal pieces are not q, k and v. From scratch it may train; with weights from elsewhere it computes nonsense."
    )
    fix = _(
        "Cut by width: `q, k, v = qkv.split([H * d, G * d, G * d], dim=-1)`, and reshape in the order the weights were made in"
    )
    shows = _("The output matches attention with the rows of that weight in another order than the class says.")
    evidence = {
        "": _(
            "the fused projection is {cut} (in heads), and q, k, v begin at {right}: your numbers equal attention computed so to {error:.0e}"
        ),
        "laid": _(
            "the fused projection is laid over other axes than it has ({cut}), so q, k and v are made of tokens, not of channels: your numbers equal attention computed so to {error:.0e}"
        ),
        "crash": _("with fewer key heads than query heads it stops: {error}"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            whole = code.receiver(node)
            if called(node) in ("chunk", "split", "tensor_split", "unbind", "array_split") and whole is not None:
                yield (0 if called(node) == "chunk" else 1), node, ""
            elif called(node) in ("view", "reshape") and any(number(s) == 3 for s in shape_arguments(code, node)):
                yield 1, node, ""
            elif isinstance(node, ast.Subscript) and any("qkv" in name.lower() for name in names(node.value)):
                yield 2, node, ""


class TiledGroups(Mistake):
    """Query heads share the wrong key heads."""

    id = "H8"
    name = _("shared key/value heads are repeated in the wrong order")
    does = _(
        "Query head h reads KV head h mod G instead of h // (H/G). Trained from scratch that is only another numbering; weights of LLaMA, Qwen or Mistral, or a second path that repeats the usual way, give nonsense."
    )
    fix = _(
        "Repeat each head in place: `k.repeat_interleave(H // G, dim=1)`, or `enable_gqa=True` in scaled_dot_product_attention"
    )
    shows = _(
        "Each KV head's values are set to a constant of their own; which constants a query head returns shows which one it reads."
    )
    evidence = {
        "": _(
            "query heads look at the wrong shared key heads (tiled 0,1,0,1 instead of 0,0,1,1): your numbers equal attention computed so to {error:.0e}"
        )
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if form.kv_heads not in (0, 1, form.heads):
            yield changed(form, groups="tile"), {}

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        shared = op.args[0][0] if isinstance(op.args[0], (tuple, list)) else op.args[0]
        if op.name in ("repeat", "tile", "cat", "concat") and shared.dim() == op.result.dim():
            axis = next(
                (a for a, (few, all_) in enumerate(zip(shared.shape, op.result.shape, strict=True)) if few < all_), 0
            )
            yield shared.repeat_interleave(op.result.shape[axis] // shared.shape[axis], axis)
        elif op.name in RESHAPES and shared.dim() == 5 and op.result.dim() == 4:
            yield from (shared.transpose(axis, axis + 1).reshape(op.result.shape) for axis in (1, 2))

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        def shared(node: ast.AST) -> bool:
            return any(
                role(name) in ("k", "v") or name in ("x", "t", "hidden_states", "states") for name in names(node)
            ) and not masky(node)

        yield from tiled(code, root, shared, 0)


class AcrossTheBatch(Mistake):
    """Tokens attend to those of other texts."""

    id = "H9"
    name = _("attention runs across the batch instead of the sequence")
    does = _(
        "Tokens at the same place of different texts attend to each other, and tokens of one text never meet. Shapes fit, so nothing complains."
    )
    fix = _(
        "Say which axis is the batch: `nn.MultiheadAttention(d, h, batch_first=True)`, or transpose to (n, B, d) before and back after"
    )
    shows = _("Changing another sample changes this one's output; changing another token of the same sample does not.")
    evidence = {
        "": _(
            "a token sees the same place of other texts and nothing of its own: attention runs over the first axis, the batch"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if called(node) in ("MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"):
                told = argument(node, 99, "batch_first")
                if told is None:
                    end = code.span(node)[1]
                    yield 0, node, code.diff((end - 1, end - 1, ", batch_first=True"))
                elif isinstance(told, ast.Constant) and told.value is False:
                    yield 0, told, code.diff(code.put(told, "True"))
            elif called(node) in ("transpose", "swapaxes") and [number(a) for a in node.args[-2:]] in ([0, 1], [1, 0]):
                yield 1, node, ""
        for rank, node, _unused in NeverSplit.places(code, root):
            yield rank + 2, node, ""


class OneLayerManyTimes(Mistake):
    """[layer] * n."""

    id = "H10"
    name = _("the same layer is used N times")
    does = _(
        "`[layer] * N` repeats a reference: N layers with one set of weights, so the model is N times smaller than it looks."
    )
    fix = _("Make each anew: `nn.ModuleList([Layer(d) for _ in range(N)])`, or `copy.deepcopy(layer)` for each")
    shows = _("Counting parameters: entries of the list are one and the same object.")
    evidence = {"": _("`{name}` holds one and the same layer {times} times: all of them share their weights")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                pair = (node.left, node.right) if isinstance(node.left, ast.List) else (node.right, node.left)
                many, times = pair
                if not isinstance(many, ast.List) or len(many.elts) != 1 or isinstance(many.elts[0], ast.Constant):
                    continue
                one = many.elts[0]
                yield 0, node, code.diff(code.put(node, f"[{anew(code, one)} for _ in range({code.text_of(times)})]"))
            elif (
                isinstance(node, ast.ListComp | ast.GeneratorExp)
                and path(node.elt)
                and "range" in names(node.generators[0].iter)
            ):
                if path(node.elt) not in names(node.generators[0].target):
                    yield 0, node, code.diff(code.put(node.elt, anew(code, node.elt)))


class AveragedHeads(Mistake):
    """Heads added up instead of put side by side."""

    id = "H11"
    name = _("heads are averaged or added instead of concatenated")
    does = _(
        "The output projection can't tell heads apart: it treats all alike, and what one head found is blurred with the others."
    )
    fix = _("Put them side by side: `torch.cat(heads, dim=-1)`, or `out.transpose(1, 2).reshape(B, n, H * d)`")
    shows = _("The output equals the mean (or sum) of the heads put through the output projection, to rounding.")
    evidence = {
        "": _(
            "the heads are combined by their {how} instead of side by side: your numbers equal attention computed so to {error:.0e}"
        )
    }

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        if at.heads > 1:
            yield changed(form, merge="mean"), {"how": Message("mean")}
            yield changed(form, merge="sum"), {"how": Message("sum")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for node in code.walk(root):
            if called(node) not in ("mean", "sum", "average"):
                continue
            whole = code.receiver(node)
            if whole is None:
                continue
            stacked = code.resolve(whole)
            if called(stacked) == "stack" and isinstance(stacked, ast.Call) and stacked.args:
                word = "np.concatenate({}, axis=-1)" if code.numpy(node) else "torch.cat({}, dim=-1)"
                new = word.format(code.text_of(stacked.args[0]))
                yield 0, node, code.diff(code.put(node, new)) if whole is stacked else ""


def shape_arguments(code: Code, call: ast.Call) -> list[ast.expr]:
    """The sizes that a view or reshape is given."""
    given = list(call.args[1 if is_library(call.func) else 0 :])
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = list(given[0].elts)
    return given


def heads_like(code: Code, node: ast.expr) -> bool:
    return bool(HEADS.match(last(node))) or (bool(path(node)) and bool(HEADS.match(last(code.resolve(node)))))


def reshapes(code: Code, root: ast.AST) -> Iterator[tuple[ast.Call, list[ast.expr], ast.expr]]:
    for node in code.walk(root):
        if isinstance(node, ast.Call) and called(node) in ("view", "reshape", "_reshape"):
            whole = code.receiver(node)
            if whole is not None:
                yield node, shape_arguments(code, node), whole


def comes_from_attention(code: Code, node: ast.expr | None) -> bool:
    """Whether it is what the weights gave: a product with a softmax in it, or a fused kernel's output."""
    if node is None:
        return False
    for one in code.sources(node, 4):
        if called(one) in FUSED:
            return True
        if (
            isinstance(one, ast.expr)
            and code.is_product(one)
            and any(weights_site(code, o) for o in code.operands(one))
        ):
            return True
    return False


def anew(code: Code, one: ast.expr) -> str:
    """How to make another such module: its constructor where it can be seen, else a deep copy."""
    if isinstance(one, ast.Call):
        return code.text_of(one)
    found = code.setting(one)
    if found is not None and isinstance(found[1], ast.Call) and called(found[1])[:1].isupper():
        return code.text_of(found[1])
    short = "deepcopy" in names(code.tree) and "copy" not in names(code.tree)
    return f"deepcopy({code.text_of(one)})" if short else f"copy.deepcopy({code.text_of(one)})"
