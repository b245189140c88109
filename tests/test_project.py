"""What the project says of itself in several places is the same in all of them."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import qkv

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Imported where they are there, and asked for by nobody: a plugin of pytest, and what makes .mo files of a checkout.
# certifi has certificates where a system has none.
GUESTS = {"babel", "certifi", "pytest", "pil"}  # PIL is Pillow, by which matplotlib reads pictures


def requirements(lines: Iterable[str]) -> dict[str, Requirement]:
    return {canonicalize_name(need.name): need for need in map(Requirement, lines)}


def group(name: str) -> list[str]:
    """The lines of a dependency group, with those of the groups it includes."""
    entries = PROJECT["dependency-groups"][name]
    return [line for e in entries for line in ([e] if isinstance(e, str) else group(e["include-group"]))]


def lock() -> dict[str, Requirement]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return requirements(line for line in text.splitlines() if line and not line.startswith("#"))


def imported() -> set[str]:
    """What src/qkv imports that is neither Python's nor its own."""
    names = set()
    for file in (ROOT / "src" / "qkv").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(str(node.module).split(".")[0])
    return {canonicalize_name(name) for name in names - sys.stdlib_module_names - {"qkv"}}


def test_versions_agree():
    assert "version" not in PROJECT["project"]
    assert ProjectMetadata(str(ROOT), PluginManager()).version == qkv.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == qkv.__version__
    for name in ("CHANGELOG.md", "CHANGELOG.zh-CN.md"):
        heading = re.search(r"^## (\d[\w.]*)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert heading and heading[1] == qkv.__version__, name


def test_imports_and_requirements_agree():
    needed = set(requirements(PROJECT["project"]["dependencies"]))
    extras = {name for lines in PROJECT["project"]["optional-dependencies"].values() for name in requirements(lines)}
    assert needed <= imported() <= needed | extras | GUESTS


def test_the_lock_satisfies_the_requirements():
    required = PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"] + group("dev")
    pins = lock()
    for name, need in requirements(required).items():
        (pin,) = pins[name].specifier
        assert pin.operator == "==" and need.specifier.contains(pin.version), f"{need} and {pins[name]}"


def closure(lines: Iterable[str], everywhere: bool) -> set[str]:
    """What these need, and what that needs, here or on any system; without what torch needs, as that is by its build."""
    pending, visited = [Requirement(line) for line in lines], set()
    while pending:
        need = pending.pop()
        name = canonicalize_name(need.name)
        if (name, frozenset(need.extras)) in visited:
            continue
        visited.add((name, frozenset(need.extras)))
        try:
            dependencies = importlib.metadata.requires(need.name) or []
        except importlib.metadata.PackageNotFoundError:  # of another system
            continue
        for other in map(Requirement, dependencies if name != "torch" else []):
            always = other.marker is None or (everywhere and "extra" not in str(other.marker))
            if always or any(other.marker.evaluate({"extra": extra}) for extra in ("", *need.extras)):
                pending.append(other)
    return {name for name, _ in visited}


def test_the_lock_is_whole_and_has_nothing_that_nobody_needs():
    required = PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"] + group("dev")
    torch = requirements((ROOT / "requirements.lock").read_text(encoding="utf-8").split("\n\n")[1].splitlines()[1:])
    editable = ["editables"]  # which hatchling wants for that alone
    assert closure(required, everywhere=False) <= set(lock())
    assert set(lock()) <= closure(required + editable, everywhere=True) | set(torch)


def steps() -> dict[str, dict]:
    return {step["name"]: step for step in WORKFLOW["jobs"]["test"]["steps"] if "run" in step}


def recipe(target: str) -> list[str]:
    """What a target runs, as Windows would."""
    body = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    lines = [line.strip().removeprefix("@") for line in body[1].splitlines() if "echo" not in line]
    return [line.replace("$(BIN)", ".venv/Scripts") for line in lines]


def test_the_workflow_runs_what_make_runs():
    run = steps()
    for target in ("lint", "test"):
        assert run[f"make {target}"]["run"].startswith(f"make {target}")
    assert run["what make lint calls"]["run"].splitlines() == recipe("lint")
    line = re.search(r"^TEST := ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1].replace("\\\n", " ")
    variables = dict(re.findall(r"(\w+)=(\S+)", line))
    step = steps()["what make test calls"]
    assert {name: str(value) for name, value in step["env"].items()} == variables
    command = line[line.index("$(BIN)") :].replace("$(BIN)", ".venv/Scripts")
    assert step["run"].split() == command.split()


def test_the_workflow_knows_every_python_that_is_named():
    matrix = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]
    named = re.findall(r"Python :: (3\.\d+)", str(PROJECT["project"]["classifiers"]))
    tried = re.findall(r"python(3\.\d+)", MAKEFILE.split("BIN :=")[0])
    assert set(named) <= set(tried) == set(matrix["python"])
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_readme_names_what_was_never_tried(readme):
    """A Python of the workflow that the classifiers don't promise is untested, and so are systems besides Linux."""
    (untested,) = re.findall(
        r"\*\*(?:Not tested|没有测试过)[:：](.*?)\*\*", (ROOT / readme).read_text("utf-8"), re.DOTALL
    )
    named = re.findall(r"Python :: (3\.\d+)", str(PROJECT["project"]["classifiers"]))
    pythons = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert [p for p in pythons if p not in named] == re.findall(r"3\.\d+", untested)
    assert "macOS" in untested and "Windows" in untested


def test_pre_commit_runs_the_checks_of_make_lint():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    entries = {hook["entry"].replace("/bin/", "/Scripts/").replace(" --force-exclude", "") for hook in repo["hooks"]}
    lint = {re.sub(r" --check \.| \.$", "", line) for line in recipe("lint")}
    assert lint <= entries
    tools = {entry.split()[1] for entry in entries if entry.startswith(".venv/Scripts/python ")}
    assert [tool for tool in tools if not (ROOT / tool).exists()] == []
