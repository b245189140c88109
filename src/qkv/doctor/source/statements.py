"""One statement of a user's file: the names it binds, uses and changes, found without running it."""

import __future__

import ast
import dis
import types
from collections.abc import Iterator
from typing import Any

from .coverage import marked
from .file import Definition, Source

# Calls that reach outside: a statement with one of them is never run.
OUTSIDE = frozenset(
    "open input urlopen urlretrieve system popen Popen check_call check_output read_csv read_text read_json read_parquet "
    "load_dataset from_pretrained download wget hf_hub_download snapshot_download fit backward step sleep "
    "init_process_group login loadtxt genfromtxt exec execfile".split()
)
# Methods that fill what a name stands for: parser.add_argument(…), config.update(…).
FILLS = frozenset(
    "add_argument add_argument_group add_mutually_exclusive_group set_defaults update append extend add setdefault "
    "insert add_module register_buffer merge_from_file merge_from_list freeze".split()
)


class Statement:
    """One statement: the names it binds, those it uses, and those whose object it changes."""

    def __init__(self, node: ast.stmt, index: tuple[int, int], source: Source) -> None:
        self.node, self.index = node, index
        self.code: dict[tuple[int, bool], types.CodeType] = {}
        self.binds: set[str] = set()
        self.uses: set[str] = set()
        try:
            _names(self.compiled(source), self.binds, self.uses)
        except SyntaxError:  # `return` or `await` outside a function
            pass
        self.star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        self.changes = {root for inner in run_by(node) for root in _changed(inner)}
        self.outside = next(
            (_word(inner.func) for inner in run_by(node) if isinstance(inner, ast.Call) and reaches_out(inner)), ""
        )

    def compiled(self, source: Source, late_annotations: bool = False, marks: bool = False) -> types.CodeType:
        """The statement as code that keeps its line numbers; with `marks` it reports which of its blocks run."""
        flags = 0
        for line in source.tree.body:
            if isinstance(line, ast.ImportFrom) and line.module == "__future__":
                for alias in line.names:
                    flags |= getattr(__future__, alias.name).compiler_flag if hasattr(__future__, alias.name) else 0
        if late_annotations:
            flags |= __future__.annotations.compiler_flag
        if (flags, marks) not in self.code:
            module = ast.Module([marked(self.node) if marks else self.node], [])
            self.code[flags, marks] = compile(module, str(source.path), "exec", flags, dont_inherit=True)
        return self.code[flags, marks]

    @property
    def defines(self) -> bool:
        """Whether it is a class or function, or a block with one."""
        return any(isinstance(inner, Definition) for inner in run_by(self.node))

    @property
    def soft(self) -> bool:
        """Whether an absent package may be stood in for: not where the file itself is ready for its absence."""
        return not any(isinstance(inner, ast.Try) and inner.handlers for inner in run_by(self.node))

    @property
    def is_none(self) -> bool:
        """Whether it assigns None."""
        value = getattr(self.node, "value", 0)
        return isinstance(value, ast.Constant) and value.value is None


def _names(code: types.CodeType, binds: set[str], uses: set[str], top: bool = True) -> None:
    """The global names that code binds and uses; what functions in it use counts, as they will be called."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_CLASSDEREF"):
            uses.add(step.argval)
        elif step.opname == "STORE_NAME" and top:
            binds.add(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _names(constant, binds, uses, top=False)


def run_by(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a statement runs: all of it but the bodies of functions."""
    yield node
    skipped: list[Any] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        skipped = node.body if isinstance(node.body, list) else [node.body]
    for inner in ast.iter_child_nodes(node):
        if inner not in skipped:
            yield from run_by(inner)


def reaches_out(call: ast.Call) -> bool:
    word = _word(call.func)
    if word == "load":  # torch.load, np.load, json.load
        return True
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id in ("subprocess", "requests", "wandb", "urllib"):
        return True
    return word in OUTSIDE


def _changed(node: ast.AST) -> Iterator[str]:
    """The names whose object a node changes: x.a = …, x[i] = …, x.append(…)."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        if isinstance(target, ast.Attribute | ast.Subscript):
            yield root(target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FILLS:
        yield root(node.func)


def root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _word(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def wraps(node: ast.stmt, name: str) -> bool:
    """f = torch.compile(f): the name goes in as it is, not called."""
    value = getattr(node, "value", None)
    given = [*value.args, *(k.value for k in value.keywords)] if isinstance(value, ast.Call) else []
    return any(isinstance(one, ast.Name) and one.id == name for one in given) and root(value.func) != name  # type: ignore[union-attr]


def is_main(node: ast.stmt) -> bool:
    """if __name__ == "__main__":"""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    return any(isinstance(s, ast.Name) and s.id == "__name__" for s in sides) and any(
        isinstance(s, ast.Constant) and s.value == "__main__" for s in sides
    )


def assignments(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The assignments of a function, in its blocks too."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If | ast.With | ast.Try):
            yield from assignments(node.body)


def globals_set(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """The assignments by which a function sets names that it declared global."""
    declared = {n for inner in ast.walk(function) if isinstance(inner, ast.Global) for n in inner.names}
    for node in assignments(function.body) if declared else ():
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if stored & declared:
            yield node
