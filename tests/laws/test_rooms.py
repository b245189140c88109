"""Rooms of the house: a module's private names are its own, and ours and theirs are told apart in one place."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2] / "src" / "qkv"


@cache
def trees() -> dict[str, ast.Module]:
    """Every file of the house, read by the one process that looks at them and not by all that collect tests."""
    files = sorted(HOUSE.rglob("*.py"))
    return {file.relative_to(HOUSE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def private(name: str) -> bool:
    """`_` alone marks a sentence to translate, and is everybody's."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def defined(tree: ast.Module) -> set[str]:
    """Private names that a file makes: functions, classes, variables, fields, attributes of self."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return set(filter(private, found))


def reaches(tree: ast.Module, elsewhere: set[str]) -> list[str]:
    """Private names of other modules of qkv that this one uses; what other libraries keep private is their affair."""
    own, modules, found = defined(tree), set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("qkv")):
            modules |= {alias.asname or alias.name for alias in node.names}
            found += [f"line {node.lineno}: import {alias.name}" for alias in node.names if private(alias.name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr):
            imported = isinstance(node.value, ast.Name) and node.value.id in modules
            if imported or (node.attr in elsewhere and node.attr not in own):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_private_names_stay_in_their_module():
    made = {name: defined(tree) for name, tree in trees().items()}
    found = {}
    for name, tree in trees().items():
        elsewhere = set().union(*(names for other, names in made.items() if other != name))
        if told := reaches(tree, elsewhere):
            found[name] = told
    assert not found


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
def test_a_reach_is_found(code):
    assert len(reaches(ast.parse(code), {"_embed"})) == 1


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
def test_what_is_ones_own_or_a_library_s_is_no_reach(code):
    assert not reaches(ast.parse(code), {"_embed"})


SIDES = {"Transformer", "Tokenizer", "PreTrainedModel"}
LOOKING = ("tracing/", "commands/", "draw/")
ROOMS = {
    f"tracing/record/{name}.py"
    for name in ("native_model", "hf_model", "hf_inputs", "hf_attention", "hf_trace", "hf_eager")
}  # of one side


def tellings(name: str, tree: ast.Module) -> set[str]:
    """Functions that find out whose a model or a tokenizer is: by its class, or by what it happens to have."""
    found = set()
    for function in ast.walk(tree):
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
                of, what = map(ast.unparse, node.args[:2])
                by_class = node.func.id == "isinstance" and SIDES & {*what.replace(".", " ").split()}
                asked = {"tokenizer"} if name in ROOMS else {"tokenizer", "model", "model.config", "config"}
                if by_class or (node.func.id in ("hasattr", "getattr") and of in asked):
                    found.add(function.name)
    return found


def test_models_and_tokenizers_of_ours_and_theirs_are_told_apart_in_one_place():
    """In `model_of` and `reader_of`; `unwrap_model` refuses what is nobody's, and `TheirReader` asks what one of theirs has."""
    found = {name: tellings(name, tree) for name, tree in trees().items() if name.startswith(LOOKING)}
    assert {name: functions for name, functions in found.items() if functions} == {
        "tracing/record/model_protocol.py": {"model_of"},
        "tracing/record/hf_attention.py": {"unwrap_model"},
        "tracing/record/tokenizer_protocol.py": {"reader_of", "__init__", "_native_view"},
    }


def test_what_lies_where_in_a_run_is_known_to_one_file():
    """Names that only the folder of a run has; docstrings may speak of them."""
    only = {"state.json", "checkpoints", "metrics.jsonl", "samples.txt", "optimizer.safetensors", "pairs.tsv", "shards"}
    found = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in only
    }
    assert found == {
        "disk/run_folder.py",
        "text/shards.py",
        "text/dataset.py",
    }  # tokens on the disk have shards of their own


def test_opening_a_run_loads_no_training():
    code = "import sys, qkv.disk.run_folder; assert 'torch' not in sys.modules; import qkv.formats.model_files, qkv.generation.decoding"
    code += "; print([name for name in sys.modules if name.startswith('qkv.train')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


CHANGES = ("append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear")


def state(tree: ast.Module) -> dict[str, int]:
    """Names of a module that its functions change, and the line of each: what a process remembers behind one's back."""
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
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                owner = node.func.value
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                owner = node.value
            else:
                continue
            if isinstance(owner, ast.Name) and owner.id not in own - shared:
                changed.add(owner.id)
    return {name: lines[name] for name in changed & lines.keys()}


def test_module_state_says_why():
    """By a comment: in its own line, or above it and its neighbours."""
    silent = []
    for name, tree in trees().items():
        lines = (HOUSE / name).read_text(encoding="utf-8").splitlines()
        for what, line in state(tree).items():
            above = line - 2
            while lines[above].strip() and not lines[above].startswith("#"):
                above -= 1
            if "#" not in lines[line - 1] and not lines[above].startswith("#"):
                silent.append(f"{name}:{line} {what}")
    assert not silent


def test_module_state_is_found():
    code = (
        "a, b, c, d, e = [], {}, 0, [], []\ndef f(d):\n    global c\n    a.append(1)\n    b[1] = 2\n    d.append(1)\n"
    )
    assert state(ast.parse(code + "    e = []\n    e.append(1)\n")).keys() == {"a", "b", "c"}
