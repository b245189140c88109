"""Reading somebody's code: what a name stands for, which products and softmaxes there are, and small patches to it.

>>> code = Code.read("scale = d ** -0.5" + chr(10) + "w = (q @ k.T / scale).softmax(-1)")
>>> [site] = code.softmaxes(code.tree)
>>> code.text_of(site.scores), code.text_of(code.resolve(site.scores.right))
('q @ k.T / scale', 'd ** -0.5')
"""

import ast
import difflib
import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .nodes import PRODUCTS, TORCH, argument, called, first_of, is_library, names, path

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Softmax:
    """One softmax: the call, what it normalises, and the call that holds its axis (a constructor in `__init__`, maybe)."""

    call: ast.Call
    scores: ast.expr
    owner: ast.Call
    axis: ast.expr | None
    word: str  # how the axis is spelled: dim or axis


class Patch(str):
    """Lines that change, as people read them; `edits` are the same for a program: (from, to, new text)."""

    edits: tuple[tuple[int, int, str], ...] = ()


class Code:
    """A parsed file with its parents, its assignments and its text by position."""

    # What running it showed, for the rules that read it.
    unused: Sequence[str] = ()  # weights without a gradient
    mask_words: str | None = None  # "keep", "block" or "additive": what its masks are said to be

    def __init__(self, text: str, tree: ast.Module, lines: list[str]) -> None:
        self.text, self.tree, self.lines = text, tree, lines
        self.parent: dict[ast.AST, ast.AST] = {}
        self._walks: dict[ast.AST, list[Any]] = {}  # rules ask the same of one tree again and again
        self._set: dict[ast.AST, tuple[ast.stmt, ast.expr] | None] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.parent[child] = node
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    @classmethod
    def read(cls, text: str) -> "Code":
        return cls(text, ast.parse(text), text.split("\n"))

    # Where a node stands.

    def up(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around it, nearest first."""
        while node in self.parent:
            node = self.parent[node]
            yield node

    def around(self, node: ast.AST, *kinds: type) -> Any:
        """The nearest node of these kinds around it, or None."""
        return next((n for n in self.up(node) if isinstance(n, kinds)), None)

    def function(self, node: ast.AST) -> Any:
        return self.around(node, ast.FunctionDef, ast.AsyncFunctionDef)

    def statement(self, node: ast.AST) -> Any:
        return node if isinstance(node, ast.stmt) else self.around(node, ast.stmt)

    def walk(self, root: ast.AST) -> list[Any]:
        """All nodes of it that stand somewhere, in the order they are written."""
        if root in self._walks:
            return self._walks[root]
        found: list[Any] = [n for n in ast.walk(root) if hasattr(n, "lineno")]
        found.sort(key=lambda n: (n.lineno, n.col_offset, -(n.end_lineno or 0), -(n.end_col_offset or 0)))
        self._walks[root] = found
        return found

    # Names and what they stand for.

    @cached_property
    def assignments(self) -> dict[str, list[tuple[ast.stmt, ast.expr]]]:
        """Every dotted name with the statements that set it, and to what."""
        found: dict[str, list[tuple[ast.stmt, ast.expr]]] = {}
        for node in self.walk(self.tree):
            if isinstance(node, ast.Assign):
                pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                pairs = [(node.target, node.value)]
            elif isinstance(node, ast.AugAssign):
                pairs = [(node.target, ast.copy_location(ast.BinOp(node.target, node.op, node.value), node))]
            elif called(node) == "register_buffer" and len(node.args) > 1 and isinstance(node.args[0], ast.Constant):
                found.setdefault(f"self.{node.args[0].value!s}", []).append((self.statement(node), node.args[1]))
                continue
            else:
                continue
            for target, value in pairs:
                if name := path(target):
                    found.setdefault(name, []).append((node, value))
        return found

    def setting(self, node: ast.AST) -> tuple[ast.stmt, ast.expr] | None:
        """The statement that most likely set a name as it is read here, and the value."""
        if node not in self._set:
            self._set[node] = self._setting(node)
        return self._set[node]

    def _setting(self, node: ast.AST) -> tuple[ast.stmt, ast.expr] | None:
        name = path(node)
        if name not in self.assignments:
            return None
        own = self.around(node, ast.ClassDef) if name.startswith("self.") else self.function(node)
        here = self.statement(node)
        if own is not None and not name.startswith("self.") and name in self.parameters(own):
            outside = None  # an argument hides what the file calls by its name
        else:
            outside = first_of(
                reversed([pair for pair in self.assignments.get(name, []) if not self.function(pair[0])])
            )
        before = None
        for statement, value in self.assignments.get(name, []):
            home = self.around(statement, ast.ClassDef) if name.startswith("self.") else self.function(statement)
            if home is not own:
                continue
            if statement is here or any(statement is n for n in self.up(node)):
                continue
            late = statement.lineno > here.lineno if here is not None and home is own else False
            if late and not (name.startswith("self.") and self.function(statement) is not self.function(node)):
                continue
            before = (statement, value)
        return before or (None if name.startswith("self.") or (outside and outside[0] is here) else outside)

    def resolve(self, node: ast.expr, depth: int = 4) -> ast.expr:
        """What a name stands for, as far as it can be followed; other expressions are themselves."""
        while depth and path(node) and (found := self.setting(node)):
            node, depth = found[1], depth - 1
        return node

    def sources(self, node: ast.expr, depth: int = 6) -> Iterator[ast.AST]:
        """The nodes of an expression and of what its names were set to, nearest first."""
        seen: set[ast.AST] = set()
        layer: list[ast.expr] = [node]
        while layer and depth:
            following: list[ast.expr] = []
            for expression in layer:
                for inner in ast.walk(expression):
                    if inner in seen:
                        continue
                    seen.add(inner)
                    yield inner
                    if isinstance(inner, ast.Name | ast.Attribute) and (found := self.setting(inner)):
                        following.append(found[1])
            layer, depth = following, depth - 1

    def parameters(self, function: Any) -> list[str]:
        """A function's arguments without self."""
        a = function.args
        given = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        return [x for x in given if x not in ("self", "cls")]

    def definitions(self) -> dict[str, ast.AST]:
        """Classes and functions of the file that are not inside another, by name."""
        kept: dict[str, ast.AST] = {}
        for node in self.walk(self.tree):
            if isinstance(node, DEFINITIONS) and not any(isinstance(n, DEFINITIONS) for n in self.up(node)):
                kept[node.name] = node
        return kept

    def uses(self, name: str | None) -> list[ast.AST]:
        """What a name is made of: its own definition first, then the file's other definitions it reaches, nearest first."""
        known = self.definitions()
        parts = (name or "").split(".")
        first = known.get(parts[0])
        if first is None:
            held = self.assignments.get(parts[0], [])
            first = held[-1][0] if held else None
        if first is None:
            return []
        root: ast.AST = first
        for part in parts[1:]:
            root = next((n for n in ast.walk(root) if isinstance(n, DEFINITIONS) and n.name == part), root)
        found = [root] if root is first else [root, first]
        for node in found:  # grows while it is read: what helpers use follows them
            for inner in self.walk(node):
                more = known.get(inner.id) if isinstance(inner, ast.Name) else None
                if more is not None and more not in found:
                    found.append(more)
        return found

    def numpy(self, at: ast.AST) -> bool:
        """Whether this is NumPy's code rather than PyTorch's, by the function around it, else by the file."""
        for part in (self.function(at), self.tree):
            if part is None:
                continue
            spoken = names(part) | {
                a.name.split(".")[0] for n in ast.walk(part) if isinstance(n, ast.Import) for a in n.names
            }
            if spoken & TORCH:
                return False
            if spoken & {"np", "numpy", "jnp"}:
                return True
        return False

    # Attention.

    def softmaxes(self, root: ast.AST) -> Iterator[Softmax]:
        """Every softmax in it, however it is spelled."""
        for call in self.walk(root):
            if not isinstance(call, ast.Call):
                continue
            word, owner, scores = called(call), call, None
            place = 1
            if word in ("softmax", "softmax_", "_softmax") or re.search(r"softmax$", word, re.I):
                if (
                    isinstance(call.func, ast.Attribute)
                    and not is_library(call.func)
                    and path(call.func.value) != "self"
                ):
                    scores, place = call.func.value, 0  # scores.softmax(-1)
                elif word == "Softmax":
                    continue
                else:
                    scores = call.args[0] if call.args else argument(call, 0, "input", "x", "logits")
            made = (
                call.func if isinstance(call.func, ast.Call) else self.resolve(call.func) if path(call.func) else None
            )
            if isinstance(made, ast.Call) and called(made) == "Softmax" and call.args:
                owner, scores, place = made, call.args[0], 0
            if scores is None:
                continue
            axis = argument(owner, place, "dim", "axis")
            numpy = any(k.arg == "axis" for k in owner.keywords) or path(owner.func).startswith(("np", "scipy"))
            yield Softmax(call, scores, owner, axis, "axis" if numpy else "dim")

    def exponentials(self, root: ast.AST) -> Iterator[ast.Call]:
        """Calls of exp that something is divided by: a softmax written out."""
        for call in self.walk(root):
            if called(call) == "exp":
                function = self.function(call) or root
                text = ast.dump(function)
                if "'sum'" in text and ("Div()" in text or "'div'" in text) and not {"log", "arange"} & names(call):
                    yield call

    def products(self, root: ast.AST) -> Iterator[ast.expr]:
        """Matrix products in it: `@`, matmul, bmm, einsum, dot."""
        for node in self.walk(root):
            if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)) or called(node) in PRODUCTS:
                yield node

    def is_product(self, node: ast.AST) -> bool:
        return (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)) or called(node) in PRODUCTS

    def operands(self, product: ast.expr) -> list[ast.expr]:
        """What is multiplied."""
        if isinstance(product, ast.BinOp):
            return [product.left, product.right]
        assert isinstance(product, ast.Call)
        given = [a for a in product.args if not isinstance(a, ast.Constant)]
        if len(given) == 1 and isinstance(given[0], ast.List | ast.Tuple):  # einsum(pattern, [q, k])
            given = list(given[0].elts)
        if isinstance(product.func, ast.Attribute) and not is_library(product.func):
            given.insert(0, product.func.value)
        return given[:2]

    def score_product(self, scores: ast.expr) -> ast.expr | None:
        """The product that a softmax's scores come from: the nearest one on the way back."""
        return next((n for n in self.sources(scores) if isinstance(n, ast.expr) and self.is_product(n)), None)

    def receiver(self, call: ast.AST) -> ast.expr | None:
        """What a method or a library function works on: x in x.view(...) and in torch.reshape(x, ...)."""
        if not isinstance(call, ast.Call):
            return None
        if isinstance(call.func, ast.Attribute) and not is_library(call.func) and path(call.func.value) != "self":
            return call.func.value
        return call.args[0] if call.args else None

    def chain(self, node: ast.expr | None) -> Iterator[ast.expr]:
        """x.a().b().c() from the end: the whole, then x.a().b(), x.a(), x."""
        while node is not None:
            yield node
            if isinstance(node, ast.Call):
                node = self.receiver(node)
            elif isinstance(node, ast.Attribute | ast.Subscript):
                node = node.value
            else:
                return

    # Patches.

    def offset(self, line: int, column: int) -> int:
        """The place in the text; columns of a tree count bytes, not characters."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: Any) -> tuple[int, int]:
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def text_of(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.text[begin:end]

    def wrapped(self, node: ast.expr) -> str:
        """Its text, in brackets where an operator put behind it would take only a part."""
        text = self.text_of(node)
        return (
            text
            if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
            else f"({text})"
        )

    def put(self, node: ast.AST, text: str) -> tuple[int, int, str]:
        """An edit: this node becomes that text."""
        return (*self.span(node), text)

    def diff(self, *edits: tuple[int, int, str]) -> str:
        """The lines that the edits change, as "- old" and "+ new"; "" where the result would not be Python."""
        if not edits:
            return ""
        edits_in_order = sorted(set(edits))
        new, at = [], 0
        for begin, end, text in edits_in_order:
            if begin < at:
                return ""
            new += [self.text[at:begin], text]
            at = end
        new.append(self.text[at:])
        changed = "".join(new).split("\n")
        first = bisect_right(self.starts, edits_in_order[0][0]) - 1
        behind = len(self.lines) - bisect_right(self.starts, edits_in_order[-1][1])
        old_part, new_part = self.lines[first : len(self.lines) - behind], changed[first : len(changed) - behind]
        if not self._parses(first, behind, changed):
            return ""
        shown: list[str] = []
        before = self.lines[first - 1] if first else ""
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old_part, new_part, autojunk=False).get_opcodes():
            if tag == "insert":  # nothing goes, so say where: behind this line
                above = old_part[a - 1] if a else before
                shown += [" " + above] if above.strip() else []
            if tag != "equal":
                shown += ["-" + line for line in old_part[a:b]] + ["+" + line for line in new_part[c:d]]
        if not 0 < len(shown) <= 16:
            return ""
        bare = textwrap.dedent("\n".join(line[1:] for line in shown)).split("\n")
        patch = Patch("\n".join(f"{line[0]} {text}".rstrip() for line, text in zip(shown, bare, strict=True)))
        patch.edits = tuple(edits_in_order)
        return patch

    def _parses(self, first: int, behind: int, changed: list[str]) -> bool:
        """Whether the statements that hold the edits are still Python; the rest of the file may be broken already."""
        begins, ends = first, len(self.lines) - behind
        for statement in self.tree.body:
            top = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))]) - 1
            if top < len(self.lines) - behind and (statement.end_lineno or 0) > first:
                begins, ends = min(begins, top), max(ends, statement.end_lineno or 0)
        part = changed[begins : len(changed) - (len(self.lines) - ends)]
        try:
            ast.parse(textwrap.dedent("\n".join(part)))
        except (SyntaxError, ValueError):
            return False
        return True


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Which name gets what: `b, n, c = x.shape` gives b = x.shape[0], and so on."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    if any(isinstance(one, ast.Starred) for one in target.elts):
        return
    exact = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
    for place, one in enumerate(target.elts):
        if exact and isinstance(value, ast.Tuple | ast.List):
            yield from _pairs(one, value.elts[place])
        else:
            each = value
            if isinstance(value, ast.GeneratorExp | ast.ListComp):
                each = value.elt  # q, k, v = [split(x) for x in ...]
            part = ast.Subscript(each, ast.copy_location(ast.Constant(place), value), ast.Load())
            yield from _pairs(one, ast.copy_location(part, value))


def open_code(source: Any) -> Code | None:
    """A source with text, tree and lines as Code; what is missing is made from the text."""
    if source is None or not isinstance(text := getattr(source, "text", None), str):
        return None
    tree = getattr(source, "tree", None)
    lines = getattr(source, "lines", None)
    return Code(
        text,
        tree if isinstance(tree, ast.Module) else ast.parse(text),
        lines if lines is not None else text.split("\n"),
    )
