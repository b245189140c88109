"""Module boundaries: private names, checks of model types, the layout of run folders, module state."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "qkv"


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every file in src/qkv. Cached, and not computed at collection."""
    files = sorted(SOURCE.rglob("*.py"))
    return {file.relative_to(SOURCE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def is_private(name: str) -> bool:
    """True if a name is private; `_` alone is the translation marker."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_names_of(tree: ast.Module) -> set[str]:
    """Return the private names that a file defines: functions, classes, variables, fields and attributes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return set(filter(is_private, names))


def private_uses(tree: ast.Module, elsewhere: set[str]) -> list[str]:
    """Return the uses of private names of other qkv modules, `elsewhere`; names of other libraries don't count."""
    own, modules, uses = private_names_of(tree), set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("qkv")):
            modules |= {alias.asname or alias.name for alias in node.names}
            uses += [f"line {node.lineno}: import {alias.name}" for alias in node.names if is_private(alias.name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            imported = isinstance(node.value, ast.Name) and node.value.id in modules
            if imported or (node.attr in elsewhere and node.attr not in own):
                uses.append(f"line {node.lineno}: {ast.unparse(node)}")
    return uses


def test_private_names_stay_in_their_module():
    private_names = {name: private_names_of(tree) for name, tree in trees().items()}
    violations = {}
    for name, tree in trees().items():
        elsewhere = set().union(*(names for other, names in private_names.items() if other != name))
        if uses := private_uses(tree, elsewhere):
            violations[name] = uses
    assert not violations


@pytest.mark.parametrize(
    "code",
    [
        "from .heads import _check",
        "from qkv.attention.heads import _check",
        "from . import plots\nplots._paint(1)",
        "from .draw import plots as drawn\ndef _paint(): pass\ndrawn._paint(1)",
        "model.part._embed(1)",
        "def f():\n    from .heads import (\n        fine,\n        _check,\n    )",
    ],
)
def test_uses_of_private_names_are_reported(code):
    assert len(private_uses(ast.parse(code), {"_embed"})) == 1


@pytest.mark.parametrize(
    "code",
    [
        "from .words import _",
        "self._own = other._own",
        "import os\nos._exit(0)",
        "shape._replace(width=1)",
        "from . import plots\nplots.__name__",
    ],
)
def test_own_and_library_names_are_not_reported(code):
    assert not private_uses(ast.parse(code), {"_embed"})


MODEL_CLASSES = {"Transformer", "Tokenizer", "PreTrainedModel"}
TRACING_PACKAGES = ("tracing/", "commands/", "draw/")
SINGLE_KIND_FILES = {
    f"tracing/record/{name}.py"
    for name in ("native_model", "hf_model", "hf_inputs", "hf_attention", "hf_trace", "hf_eager")
}  # files that handle one kind of model


def type_checks(name: str, tree: ast.Module) -> set[str]:
    """Return the functions that check the type of a model or tokenizer, by its class or its attributes."""
    functions = set()
    for function in ast.walk(tree):
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
                owner, classes = map(ast.unparse, node.args[:2])
                by_class = node.func.id == "isinstance" and MODEL_CLASSES & {*classes.replace(".", " ").split()}
                owners = (
                    {"tokenizer"} if name in SINGLE_KIND_FILES else {"tokenizer", "model", "model.config", "config"}
                )
                if by_class or (node.func.id in ("hasattr", "getattr") and owner in owners):
                    functions.add(function.name)
    return functions


def test_model_types_are_checked_in_a_single_module():
    """In `model_of` and `reader_of`. `unwrap_model` rejects other objects, and `HFReader` checks the tokenizer's attributes."""
    checks = {name: type_checks(name, tree) for name, tree in trees().items() if name.startswith(TRACING_PACKAGES)}
    assert {name: functions for name, functions in checks.items() if functions} == {
        "tracing/record/model_protocol.py": {"model_of"},
        "tracing/record/hf_attention.py": {"unwrap_model"},
        "tracing/record/tokenizer_protocol.py": {"reader_of", "__init__", "_native_view"},
    }


def test_a_single_module_defines_the_layout_of_runs():
    """File names that only run folders contain; docstrings may mention them."""
    run_files = set("state.json checkpoints metrics.jsonl samples.txt optimizer.safetensors pairs.tsv shards".split())
    modules = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in run_files
    }
    assert modules == {
        "disk/run_folder.py",
        "text/shards.py",
        "text/dataset.py",
    }  # prepared tokens have shards too


def test_opening_a_run_loads_no_training():
    code = "import sys, qkv.disk.run_folder; assert 'torch' not in sys.modules; import qkv.formats.model_files, qkv.generation.decoding"
    code += "; print([name for name in sys.modules if name.startswith('qkv.train')])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.stdout.strip(), process.returncode) == ("[]", 0), process.stderr


MUTATORS = ("append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear")


def changed_globals(tree: ast.Module) -> dict[str, int]:
    """Return the module variables that functions change, with the line of each definition."""
    lines = {
        name.id: node.lineno
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    changed = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        inside = [*ast.walk(function)]
        own = {argument.arg for argument in inside if isinstance(argument, ast.arg)}
        own |= {name.id for name in inside if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        shared = {name for node in inside if isinstance(node, ast.Global) for name in node.names}
        changed |= shared
        for node in inside:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                owner = node.func.value
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                owner = node.value
            else:
                continue
            if isinstance(owner, ast.Name) and owner.id not in own - shared:
                changed.add(owner.id)
    return {name: lines[name] for name in changed & lines.keys()}


def test_module_state_has_a_comment():
    """The comment is on the same line, or above the block of lines."""
    uncommented = []
    for name, tree in trees().items():
        lines = (SOURCE / name).read_text(encoding="utf-8").splitlines()
        for variable, line in changed_globals(tree).items():
            above = line - 2
            while lines[above].strip() and not lines[above].startswith("#"):
                above -= 1
            if "#" not in lines[line - 1] and not lines[above].startswith("#"):
                uncommented.append(f"{name}:{line} {variable}")
    assert not uncommented


def test_module_state_is_detected():
    code = (
        "a, b, c, d, e = [], {}, 0, [], []\ndef f(d):\n    global c\n    a.append(1)\n    b[1] = 2\n    d.append(1)\n"
    )
    assert changed_globals(ast.parse(code + "    e = []\n    e.append(1)\n")).keys() == {"a", "b", "c"}
