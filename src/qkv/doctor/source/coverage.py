"""Which blocks of a file ran. A block that never ran was not checked, so with one the verdict is not a plain "right".

A definition is compiled with a call of `__qkv_ran__` at the head of every function and block, and after every statement that
may have left a block early. The file's own tree and line numbers stay as they are.

>>> tree = ast.parse('''
... def attend(x, mask=None):
...     if mask is not None:
...         x = x.masked_fill(mask, 0)
...     return x
... ''')
>>> ran = Ran()
>>> space = {RAN: ran.begun.add}
>>> exec(compile(ast.Module([marked(tree.body[0])], []), "", "exec"), space)
>>> _ = space["attend"](1)
>>> settle(True)
>>> [(block.first, block.last, block.condition) for block in unrun(tree.body, ran.ended)]
[(4, 4, 'if mask is not None')]
"""

import ast
import copy
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

RAN = "__qkv_ran__"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Key = tuple[int, int]

# Calls that compute no part of attention: messages, sizes, types and places.
TRIVIAL = frozenset(
    "print warn warning warn_once info debug error log format join append_message isinstance hasattr getattr setattr len int float bool "
    "str range min max abs list tuple dict set type id next iter size dim numel item to cuda cpu half type_as float double "
    "bfloat16 contiguous detach clone device is_available is_cuda manual_seed register_buffer register_parameter".split()
)


class Ran:
    """The blocks of one file that ran: those of calls that came to their end, and those of the call that runs now."""

    def __init__(self) -> None:
        self.ended: set[Key] = set()
        self.begun: set[Key] = set()
        _every.add(self)

    def forget(self) -> None:
        self.ended.clear()
        self.begun.clear()


_every: weakref.WeakSet[Ran] = weakref.WeakSet()  # a call may run blocks of several files


def settle(ended: bool) -> None:
    """A call is over: its blocks count, unless it stopped with an error in one of them."""
    for ran in _every:
        if ended:
            ran.ended |= ran.begun
        ran.begun.clear()


@dataclass(frozen=True)
class CodeBlock:
    """Statements that run together or not at all."""

    key: Key
    function: str
    first: int  # lines
    last: int
    condition: str  # what stands above it, such as `if mask is not None`
    names: frozenset[str]  # in the condition
    builds: frozenset[str]  # names that it calls
    computes: bool


def marked(node: ast.stmt) -> ast.stmt:
    """A copy of a definition in which every function and block reports that it runs."""
    node = copy.deepcopy(node)
    for function in ast.walk(node):
        if isinstance(function, Function):
            for block in reversed(list(_blocks(function, ""))):
                block.insert_mark()
    return ast.fix_missing_locations(node)


def unrun(nodes: Iterable[ast.AST], ran: set[Key]) -> list[CodeBlock]:
    """The blocks that never ran and compute something, in functions that did run; of nested ones the outermost."""
    found: list[CodeBlock] = []
    for node in nodes:
        for function in ast.walk(node):
            if isinstance(function, Function):
                whole, *blocks = _blocks(function, function.name)
                if whole.key in ran:
                    found += [b.block for b in blocks if b.key not in ran]
    outer = [b for b in found if not any(o.first <= b.first and b.last <= o.last and o.key < b.key for o in found)]
    return [block for block in outer if block.computes]


class _Spot:
    """Where a mark goes: a place in a list of statements, or an arm of `a if c else b`."""

    def __init__(self, function: str, held: Any, place: Any, condition: str, names: Iterable[str]) -> None:
        self.held, self.place = held, place
        self.nodes: list[Any] = held[place:] if isinstance(place, int) else [getattr(held, place)]
        first, last = self.nodes[0], self.nodes[-1]
        self.key: Key = (first.lineno, first.col_offset)
        self.block = CodeBlock(
            self.key,
            function,
            first.lineno,
            last.end_lineno or last.lineno,
            condition,
            frozenset(names),
            frozenset(n for node in self.nodes for n in _called(node)),
            any(map(_computes, self.nodes)),
        )

    def insert_mark(self) -> None:
        """Change the tree."""
        at = self.nodes[0]
        call = ast.Call(
            ast.Name(RAN, ast.Load()),
            [ast.Tuple([ast.Constant(self.key[0]), ast.Constant(self.key[1])], ast.Load())],
            [],
        )
        if isinstance(self.place, int):
            self.held.insert(self.place, ast.copy_location(ast.Expr(call), at))
        else:
            both = ast.Tuple([call, at], ast.Load())
            setattr(self.held, self.place, ast.copy_location(ast.Subscript(both, ast.Constant(1), ast.Load()), at))


def _blocks(function: Function, name: str) -> Iterator[_Spot]:
    """The function's own body first, then the blocks in it, outer ones before inner ones."""
    body = function.body
    begins = 1 if ast.get_docstring(function, clean=False) is not None and len(body) > 1 else 0
    yield _Spot(name, body, begins, "", ())
    yield from _within(name, body[begins:], body, begins)


def _within(name: str, statements: list[ast.stmt], held: list[ast.stmt], begins: int) -> Iterator[_Spot]:
    for place, statement in enumerate(statements):
        if isinstance(statement, Function | ast.ClassDef):
            continue
        yield from _arms(name, statement)
        for field, word in (("body", ""), ("orelse", "else of ")):
            inner = getattr(statement, field, None)
            if not isinstance(inner, list) or not inner:
                continue
            if isinstance(statement, ast.If | ast.While | ast.For):
                about = statement.iter if isinstance(statement, ast.For) else statement.test
                kind = {ast.If: "if", ast.While: "while", ast.For: "for … in"}[type(statement)]
                chained = field == "orelse" and isinstance(inner[0], ast.If) and len(inner) == 1
                if not chained:
                    yield _Spot(name, inner, 0, f"{word}{kind} {ast.unparse(about)}", _names(about))
            yield from _within(name, list(inner), inner, 0)
        for handler in getattr(statement, "handlers", ()):
            yield from _within(name, list(handler.body), handler.body, 0)
        for case in getattr(statement, "cases", ()):
            yield _Spot(name, case.body, 0, f"case {ast.unparse(case.pattern)}", _names(case.pattern))
            yield from _within(name, list(case.body), case.body, 0)
        if isinstance(statement, ast.If) and _leaves(statement) and place + 1 < len(statements):
            yield _Spot(
                name, held, begins + place + 1, f"after if {ast.unparse(statement.test)}", _names(statement.test)
            )


def _arms(name: str, statement: ast.stmt) -> Iterator[_Spot]:
    """The arms of `a if c else b` in the expressions of one statement."""
    for field, value in ast.iter_fields(statement):
        if field in ("body", "orelse", "handlers", "finalbody", "cases"):
            continue
        for one in value if isinstance(value, list) else [value]:
            for node in ast.walk(one) if isinstance(one, ast.AST) else ():
                if isinstance(node, ast.IfExp):
                    about = ast.unparse(node.test)
                    yield _Spot(name, node, "body", f"if {about}", _names(node.test))
                    yield _Spot(name, node, "orelse", f"else of if {about}", _names(node.test))


def _leaves(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return | ast.Continue | ast.Break) for node in ast.walk(statement))


def _names(node: ast.AST) -> set[str]:
    return {
        n.attr if isinstance(n, ast.Attribute) else n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name | ast.Attribute)
    }


def _called(node: ast.AST) -> Iterator[str]:
    return (n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))


def _computes(node: ast.AST) -> bool:
    """Whether it does more than to raise, to print, or to choose sizes, types and places."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Pass | ast.Import | ast.ImportFrom | Function | ast.ClassDef):
        return False
    if isinstance(node, ast.Call):
        word = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if word not in TRIVIAL:
            return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return True
    return any(map(_computes, ast.iter_child_nodes(node)))
