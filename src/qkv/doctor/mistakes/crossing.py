"""Attention to another text."""

import ast
import re
from collections.abc import Iterator

from ...i18n import _
from ..source.nodes import HEAD_WIDTH, called, first_of, last, masky, names, number, path, role
from ..source.says import unused_arguments
from ..source.trees import Code
from .heads import heads_like, reshapes
from .mistake import Mistake, Places
from .projections import projections

MEMORY = re.compile(r"^(mem|memory|enc|encoder|context|ctx|src|source|encoded)(_|$)|enc_|encoder_|_memory$|_enc$", re.I)
TARGET = re.compile(r"tgt|trg|target|dec|look_ahead|causal|subsequent", re.I)
SOURCE = re.compile(r"src|source|enc|mem|padding|cross", re.I)
CROSS = re.compile(r"cross|enc|src|mem|context|inter|attn_?2|attention_?2|mha_?2|multihead_attn", re.I)


class DeafToMemory(Mistake):
    """Cross-attention that attends to itself."""

    id = "C1"
    name = _("cross-attention does not look at the encoder")
    does = _(
        "The decoder is a plain language model: it trains, and its translations have nothing to do with the source."
    )
    fix = _(
        "Queries from the decoder, keys and values from the encoder: `self.cross_attn(x, memory, memory, memory_mask)`"
    )
    shows = _("Changing the encoder's output changes nothing.")
    evidence = {"": _("changing `{parameter}` changes nothing in the output: the encoder is never looked at")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call in cross_calls(code, root):
            memory = memory_name(code, call)
            given = [a for a in call.args[:3] if not isinstance(a, ast.Starred)]
            if memory and memory not in {n for a in given for n in names(a)}:
                edits = [code.put(a, memory) for a in given[1:3]] if len(given) == 3 else []
                edits += [code.put(used, right) for used, right in target_masks(code, call) if right and edits]
                yield 0, call, code.diff(*edits)
            else:
                yield 1, call, ""
        wrong = []
        for _unused, call, given_to in projections(code, root):
            memory = memory_name(code, call)
            memory = memory or first_of(unused_arguments(code, root)) or ""
            into = role(last(call.func)) in ("k", "v") or re.search("^(to_?)?kv", last(call.func), re.I)
            if memory and into and path(given_to) and memory not in names(given_to):
                wrong.append((given_to, code.put(given_to, memory)))
                for whole, sizes, _heads in reshapes(code, code.statement(call)):
                    length = sizes[1] if len(sizes) == 4 and not any(number(size) == -1 for size in sizes) else None
                    if length is not None and any(call is n for n in ast.walk(whole)) and not heads_like(code, length):
                        wrong.append((given_to, code.put(length, "-1")))  # the memory's length, not the queries'
        for place, _edit in wrong:
            yield 0, place, code.diff(*(edit for _place, edit in wrong))
        for node in code.walk(root):
            if isinstance(node, ast.FunctionDef) and any(MEMORY.search(p) for p in code.parameters(node)):
                yield 2, node, ""


class TargetsMask(Mistake):
    """The target's mask on the source's keys."""

    id = "C2"
    name = _("the target's mask is used on the source")
    does = _(
        "Padding of the source is attended to, or source words are hidden by a causal mask meant for the target; if lengths differ, it crashes."
    )
    fix = _(
        "Cross-attention's keys are the source, so its mask is the source's padding: `self.cross_attn(x, memory, memory, src_mask)`"
    )
    shows = _(
        "Source and target of different lengths, the source padded: changing its padding changes the output, or the call raises."
    )
    evidence = {
        "": _(
            "`{parameter}` does nothing; `{other}`, the target's own mask, hides the memory in its place, so padded memory changes the output (by {change:.1%})"
        )
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call in cross_calls(code, root):
            for used, right in target_masks(code, call):
                yield 0, used, code.diff(code.put(used, right)) if right else ""
            yield 1, call, ""


class QueriesLength(Mistake):
    """Keys reshaped with the number of queries."""

    id = "C3"
    name = _("keys and values are reshaped with the queries' length")
    does = _(
        "Self-attention works; cross-attention crashes as soon as the two texts have different lengths, and with a cache at the second token."
    )
    fix = _("Take each length from its own tensor: `k = k.view(B, k.size(1), H, d)`, or let −1 find it")
    shows = _("Called with 5 queries and 7 keys it raises; with equal lengths it doesn't.")
    evidence = {"": _("{n} queries with {n} keys run, {n} queries with {m} keys don't: {error}")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        places: list[tuple[int, ast.Call, list[tuple[int, int, str]]]] = []
        for call, sizes, whole in reshapes(code, root):
            start = [*code.chain(whole)][-1]
            projected = first_of(p for p in code.chain(whole) if isinstance(p, ast.Call) and role(last(p.func)))
            who = role(last(projected.func)) if isinstance(projected, ast.Call) else role(path(start))
            if who not in ("k", "v"):
                continue
            for size in sizes[1:3]:
                value = code.resolve(size)
                inner = names(value) if value is not size else set()
                named = bool(re.match(r"(q|query|tgt|target|n_q|t_q|len_q)", last(size), re.I))
                if (
                    path(size)
                    and not heads_like(code, size)
                    and not HEAD_WIDTH.match(last(size))
                    and number(value) is None
                ):
                    edits = [code.put(size, "-1")] if all(number(s) != -1 for s in sizes) else []
                    places.append((0 if named or any(role(n) == "q" for n in inner) else 1, call, edits))
                    break
        for rank, call, _unused in places:
            mates = [
                edit
                for r, c, edits in places
                if r == rank and code.function(c) is code.function(call)
                for edit in edits
            ]
            yield rank, call, code.diff(*mates)


class SourcesPadding(Mistake):
    """The source's padding id looked for in the target."""

    id = "C4"
    name = _("the source's padding id is used for the target")
    does = _(
        "If the two vocabularies number padding differently, target padding is attended to and a real word is hidden instead. If the numbers are equal, nothing shows until the tokenizer changes."
    )
    fix = _("Each its own: `trg_mask = (trg != self.trg_pad_idx)`")
    shows = _("A whole model with two different padding ids: tokens of the target that are padding change the output.")
    evidence = {
        "": _(
            "both texts are compared with id {used}; the other padding id that the file names, {unused}, is never used"
        ),
        "attribute": _("both texts are compared with the same padding id; {name} is never used"),
    }

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        sides = r"trg|tgt|target|dec", r"src|source|enc"
        for node in code.walk(root):
            if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
                text, pad = node.left, node.comparators[0]
            elif isinstance(node, ast.Call) and len(node.args) == 2:  # pad_mask(tgt, SRC_PAD)
                text, pad = node.args
            elif isinstance(node, ast.Call) and called(node) in ("eq", "ne") and isinstance(node.func, ast.Attribute):
                text, pad = node.func.value, node.args[0]
            else:
                continue
            left, wrong = path(text), path(pad)
            for mine, other in (sides, sides[::-1]):
                word = re.search(mine, left, re.I)
                if word and re.search("pad", wrong, re.I) and re.search(other, wrong, re.I):
                    known = {*code.assignments, *(f"self.{n}" for n in names(code.tree))}
                    meant = word[0].upper() if wrong.isupper() else word[0]
                    right = re.sub(other, meant, wrong, flags=re.I)
                    yield 0, node, code.diff(code.put(pad, right)) if right in known else ""


class RolesSwapped(Mistake):
    """The memory asks, the target answers."""

    id = "C5"
    name = _("queries and keys/values change places in cross-attention")
    does = _(
        "The encoder asks and the decoder answers: the output has the source's length and is made of the target's own values. With equal lengths nothing complains."
    )
    fix = _("The one that wants to know asks: `self.cross_attn(query=x, key=memory, value=memory)`")
    shows = _(
        "With 5 target and 7 source tokens the output has 7 rows; or output i depends on all target tokens and on one source token only."
    )
    evidence = {"": _("the output follows the memory's length ({m}), not the query's ({n}): the roles are swapped")}

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        for call in cross_calls(code, root):
            given = call.args[:3]
            if (
                len(given) >= 2
                and path(given[0])
                and MEMORY.search(path(given[0]))
                and not MEMORY.search(path(given[1]))
            ):
                edits = [code.put(given[0], code.text_of(given[1])), *(code.put(a, path(given[0])) for a in given[1:])]
                yield 0, call, code.diff(*edits)


def cross_calls(code: Code, root: ast.AST) -> Iterator[ast.Call]:
    """Calls of attention in a decoder that should look at the encoder: by name, else the second of two."""
    for function in code.walk(root):
        if not isinstance(function, ast.FunctionDef):
            continue
        calls = [
            n
            for n in code.walk(function)
            if isinstance(n, ast.Call) and path(n.func).startswith("self.") and re.search("att|mha", last(n.func), re.I)
        ]
        named = [n for n in calls if CROSS.search(last(n.func))]
        yield from named or calls[1:2]


def memory_name(code: Code, at: ast.AST) -> str:
    """The argument that brings the encoder's output."""
    function = code.function(at)
    given = code.parameters(function) if function is not None else []
    return first_of(p for p in given if MEMORY.search(p) and not masky(ast.Name(p))) or ""


def target_masks(code: Code, call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """Masks of the target among a call's arguments, each with the source's mask that should stand there ("" = none)."""
    function = code.function(call)
    given = code.parameters(function) if function is not None else []
    right = first_of(p for p in given if masky(ast.Name(p)) and SOURCE.search(p) and not TARGET.search(p))
    for used in [*call.args, *(k.value for k in call.keywords)]:
        if path(used) and masky(used) and TARGET.search(path(used)):
            yield used, right or ""
