"""Where mistakes of heads, projections and cross-attention sit: H, P and C of the catalogue."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from .hints import never_read
from .readings import Facts, Found, score_expressions, size_kind, tiled, weights_site
from .trees import (
    FUSED,
    HEAD_WIDTH,
    HEADS,
    MOVES,
    Code,
    argument,
    called,
    first_of,
    is_library,
    last,
    masky,
    names,
    number,
    path,
    role,
    same,
)

MEMORY = re.compile(r"^(mem|memory|enc|encoder|context|ctx|src|source|encoded)(_|$)|enc_|encoder_|_memory$|_enc$", re.I)
TARGET = re.compile(r"tgt|trg|target|dec|look_ahead|causal|subsequent", re.I)
SOURCE = re.compile(r"src|source|enc|mem|padding|cross", re.I)
CROSS = re.compile(r"cross|enc|src|mem|context|inter|attn_?2|attention_?2|mha_?2|multihead_attn", re.I)


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


def h1(code: Code, root: ast.AST, facts: Facts) -> Found:
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
    for call in code.walk(root):
        if called(call) == "rearrange":
            yield 2, call, ""


def h2(code: Code, root: ast.AST, facts: Facts) -> Found:
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
    for node in code.walk(root):
        if called(node) in ("flatten", "rearrange", "concatenate", "cat") and comes_from_attention(
            code, code.receiver(node)
        ):
            yield 1, node, ""
    for call, sizes, _ in reshapes(code, root):
        if len(sizes) <= 3:
            yield 2, call, ""


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


def h3(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call, sizes, _ in reshapes(code, root):
        if sizes and heads_like(code, sizes[0]):
            yield 0, call, ""
        elif sizes and any(heads_like(code, n) for n in ast.walk(sizes[0]) if isinstance(n, ast.expr)):
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


def h4(code: Code, root: ast.AST, facts: Facts) -> Found:
    for scores in score_expressions(code, root):
        if (product := code.score_product(scores)) is not None:
            yield 0, product, ""
    for call in code.walk(root):
        if called(call) in FUSED:
            yield 0, call, ""


def h6(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call in code.walk(root):
        if called(call) == "Linear" and len(call.args) >= 2:
            a, b = call.args[:2]
            small = [HEAD_WIDTH.match(last(x)) or isinstance(code.resolve(x, 1), ast.BinOp) for x in (a, b)]
            if all(small) and same(a, b):
                yield 0, call, ""  # what is projected must change too: no small patch
        elif called(call) == "Linear" and call.keywords:
            yield 2, call, ""


def h7(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        whole = code.receiver(node)
        if called(node) in ("chunk", "split", "tensor_split", "unbind", "array_split") and whole is not None:
            yield (0 if called(node) == "chunk" else 1), node, ""
        elif called(node) in ("view", "reshape") and any(number(s) == 3 for s in shape_arguments(code, node)):
            yield 1, node, ""
        elif isinstance(node, ast.Subscript) and any("qkv" in name.lower() for name in names(node.value)):
            yield 2, node, ""


def h8(code: Code, root: ast.AST, facts: Facts) -> Found:
    def shared(node: ast.AST) -> bool:
        return any(
            role(name) in ("k", "v") or name in ("x", "t", "hidden_states", "states") for name in names(node)
        ) and not masky(node)

    yield from tiled(code, root, shared, 0)
    for node in code.walk(root):
        if called(node) == "repeat_interleave":
            yield 1, node, ""


def h9(code: Code, root: ast.AST, facts: Facts) -> Found:
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
        elif called(node) == "permute" and [number(a) for a in node.args[:2]] == [1, 0]:
            yield 1, node, ""
    for rank, node, _ in h4(code, root, facts):
        yield rank + 2, node, ""


def h10(code: Code, root: ast.AST, facts: Facts) -> Found:
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


def anew(code: Code, one: ast.expr) -> str:
    """How to make another such module: its constructor where it can be seen, else a deep copy."""
    if isinstance(one, ast.Call):
        return code.text_of(one)
    found = code.setting(one)
    if found is not None and isinstance(found[1], ast.Call) and called(found[1])[:1].isupper():
        return code.text_of(found[1])
    short = "deepcopy" in names(code.tree) and "copy" not in names(code.tree)
    return f"deepcopy({code.text_of(one)})" if short else f"copy.deepcopy({code.text_of(one)})"


def h11(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if called(node) not in ("mean", "sum", "average"):
            continue
        whole = code.receiver(node)
        if whole is None:
            continue
        stacked = code.resolve(whole)
        axis = argument(node, 1 if is_library(node.func) else 0, "dim", "axis")
        if called(stacked) == "stack" and isinstance(stacked, ast.Call) and stacked.args:
            word = "np.concatenate({}, axis=-1)" if code.numpy(node) else "torch.cat({}, dim=-1)"
            new = word.format(code.text_of(stacked.args[0]))
            yield 0, node, code.diff(code.put(node, new)) if whole is stacked else ""
        elif comes_from_attention(code, whole) and number(axis) in (0, 1, -2, 2, -3):
            yield 0, node, ""
        elif path(whole) and re.search("head|out", path(whole)) and isinstance(node.func, ast.Name):
            word = "np.concatenate({}, axis=-1)" if code.numpy(node) else "torch.cat({}, dim=-1)"
            outer = code.parent.get(node)
            at = outer if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Div) else node
            yield 0, node, code.diff(code.put(at, word.format(path(whole))))
    for node in code.walk(root):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and code.around(node, ast.For):
            yield 1, node, ""


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


def p1(code: Code, root: ast.AST, facts: Facts) -> Found:
    unused = [str(name).removesuffix(".weight").removesuffix(".bias") for name in facts.get("unused", ())]
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
            right = first_of(p for p in code.parameters(function) if role(p) == wants) if function is not None else None
            wrong = [n for n in ast.walk(code.statement(call)) if isinstance(n, ast.Name) and n.id == path(given)]
            yield 0, given, code.diff(*(code.put(n, right) for n in wrong)) if right and path(given) else ""
    yield from listed_projections(code, root)
    for name in unused:  # made, and never called: where it is made
        for statement, _ in code.assignments.get(f"self.{name}", []):
            if any(root is n for n in (statement, *code.up(statement))):
                yield 1, statement, ""
    for _, call, _ in projections(code, root):
        yield 2, call, ""


def listed_projections(code: Code, root: ast.AST) -> Found:
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


def p2(code: Code, root: ast.AST, facts: Facts) -> Found:
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
    for start, _ in places:
        mates = [(s, right) for s, right in places if code.function(s) is code.function(start) and right]
        yield 0, start, code.diff(*(code.put(s, right) for s, right in mates))
    yield from ((rank + 1, node, diff) for rank, node, diff in p1(code, root, facts))


def same_job(code: Code, at: ast.stmt, wanted: str, target: str) -> str:
    """The name for q (or k, v) that was set before: the target itself, else the first of them."""
    function = code.function(at)
    if function is None:
        return ""
    known = [
        n
        for n, s in code.assignments.items()
        for one, _ in s
        if code.function(one) is function and one.lineno < at.lineno
    ]
    known += code.parameters(function)
    fits = [n for n in known if role(n) == wanted]
    return target if target in fits else fits[0] if fits else ""


def p3(code: Code, root: ast.AST, facts: Facts) -> Found:
    yield from h4(code, root, facts)


def p4(code: Code, root: ast.AST, facts: Facts) -> Found:
    unused = [str(name).removesuffix(".weight").removesuffix(".bias") for name in facts.get("unused", ())]
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


def c1(code: Code, root: ast.AST, facts: Facts) -> Found:
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
    for _, call, given_to in projections(code, root):
        memory = memory_name(code, call)
        if memory and role(last(call.func)) in ("k", "v") and path(given_to) and memory not in names(given_to):
            wrong.append((given_to, code.put(given_to, memory)))
            for whole, sizes, _ in reshapes(code, code.statement(call)):
                length = sizes[1] if len(sizes) == 4 and not any(number(size) == -1 for size in sizes) else None
                if length is not None and any(call is n for n in ast.walk(whole)) and not heads_like(code, length):
                    wrong.append((given_to, code.put(length, "-1")))  # the memory's length, not the queries'
    for place, _ in wrong:
        yield 0, place, code.diff(*(edit for _, edit in wrong))
    for node in code.walk(root):
        if isinstance(node, ast.FunctionDef) and any(MEMORY.search(p) for p in code.parameters(node)):
            yield 2, node, ""


def target_masks(code: Code, call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """Masks of the target among a call's arguments, each with the source's mask that should stand there ("" = none)."""
    function = code.function(call)
    given = code.parameters(function) if function is not None else []
    right = first_of(p for p in given if masky(ast.Name(p)) and SOURCE.search(p) and not TARGET.search(p))
    for used in [*call.args, *(k.value for k in call.keywords)]:
        if path(used) and masky(used) and TARGET.search(path(used)):
            yield used, right or ""


def c2(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call in cross_calls(code, root):
        for used, right in target_masks(code, call):
            yield 0, used, code.diff(code.put(used, right)) if right else ""
        yield 1, call, ""


def c3(code: Code, root: ast.AST, facts: Facts) -> Found:
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
            if path(size) and not heads_like(code, size) and not HEAD_WIDTH.match(last(size)) and number(value) is None:
                edits = [code.put(size, "-1")] if all(number(s) != -1 for s in sizes) else []
                places.append((0 if named or any(role(n) == "q" for n in inner) else 1, call, edits))
                break
    for rank, call, _ in places:
        mates = [
            edit for r, c, edits in places if r == rank and code.function(c) is code.function(call) for edit in edits
        ]
        yield rank, call, code.diff(*mates)


def c4(code: Code, root: ast.AST, facts: Facts) -> Found:
    for node in code.walk(root):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            left, right = path(node.left), node.comparators[0]
            wrong, pad = path(right), re.compile("pad", re.I)
            if not pad.search(wrong):
                continue
            for mine, other in ((r"trg|tgt|target|dec", r"src|source|enc"), (r"src|source|enc", r"trg|tgt|target|dec")):
                if re.search(mine, left, re.I) and re.search(other, wrong, re.I):
                    known = {*code.assignments, *(f"self.{n}" for n in names(code.tree))}
                    word = re.search(mine, left, re.I)
                    right_name = re.sub(other, word.group(0) if word else "", wrong, flags=re.I)
                    yield 0, node, code.diff(code.put(right, right_name)) if right_name in known else ""


def c5(code: Code, root: ast.AST, facts: Facts) -> Found:
    for call in cross_calls(code, root):
        given = call.args[:3]
        if len(given) >= 2 and path(given[0]) and MEMORY.search(path(given[0])) and not MEMORY.search(path(given[1])):
            edits = [code.put(given[0], code.text_of(given[1])), *(code.put(a, path(given[0])) for a in given[1:])]
            yield 0, call, code.diff(*edits)
        else:
            yield 1, call, ""
    for target, call, given_to in projections(code, root):
        wants = role(last(target)) or role(last(call.func))
        if (wants == "q") == bool(MEMORY.search(path(given_to) or "-")):
            yield 0, call, ""


HEADS_AND_PROJECTIONS = {
    name.upper(): rule
    for name, rule in globals().copy().items()
    if name[0] in "hpc" and name[1:].isdigit() and callable(rule)
}
