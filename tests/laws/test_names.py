"""Names in plain English: the discouraged words become fewer, never more.

A name says what a thing is (`findings`), what a function does (`load_weights`) or asks a question (`is_causal`).
Words such as `found` and `told` say only what happened to it. CONTRIBUTING.md has the rules.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Path(__file__).with_name("names.json")

DISCOURAGED = set(
    """
    found given made told seen kept asked said held heard meant shown wanted chosen taken begun gone got came known left
    done one ones some few thing things place places way ways road roads
    tell tells ask asks asking say says saying hear hears goes comes going sees wants lets whom anew plainly
    """.split()
)
# Terms of the field, of Python or of qkv's documented interface.
ALLOWED = {
    "parse_known_args",  # argparse
    "connection_made",  # asyncio
    "one_hot",
    "in_place",
    "held_out",
    "left_padded",
    "left_padding",
    "pad_left",
    "upper_left",
    "say",  # i18n.say
    "done",  # progress bars and futures
    "norm_place",  # a setting in files
}


def names(source: str) -> Iterator[str]:
    """Yield every name that a module binds: functions, classes, parameters, variables and attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def is_discouraged(name: str) -> bool:
    """True if one of the words of a name is discouraged.

    >>> is_discouraged("found"), is_discouraged("WasTold"), is_discouraged("one_hot"), is_discouraged("founder")
    (True, True, False, False)
    """
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    return not any(term in snake for term in ALLOWED if "_" in term) and (
        snake not in ALLOWED and not DISCOURAGED.isdisjoint(snake.split("_"))
    )


def package_of(file: Path) -> str:
    """Return the folder below src/qkv or tests that a file belongs to, or "top" for files outside of one."""
    parts = file.relative_to(ROOT).parts
    start = 2 if parts[0] == "src" else 1
    return f"{parts[0]}/{parts[start] if len(parts) > start + 1 else 'top'}"


def counts() -> dict[str, int]:
    """Return how many discouraged names each package binds, file names included; tests/doctor/corpora is left out."""
    total: Counter[str] = Counter()
    for folder in ("src/qkv", "tests"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "corpora" not in file.parts and "fixtures" not in file.parts:
                bound = [file.stem, *names(file.read_text(encoding="utf-8"))]
                total[package_of(file)] += sum(map(is_discouraged, bound))
    return dict(sorted(total.items()))


def test_discouraged_names_do_not_increase():
    limits = json.loads(LIMITS.read_text())
    more = {package: count for package, count in counts().items() if count > limits.get(package, 0)}
    assert not more, f"more discouraged names than {LIMITS.name} allows: {more}"


@pytest.mark.parametrize("name", ["found", "told_", "_Asked", "was_given", "OnlyOneMask", "PLACES"])
def test_a_discouraged_name_is_counted(name):
    assert is_discouraged(name)
    assert list(names(f"def f({name}): ...\n")) == ["f", name]


if __name__ == "__main__":  # python -m tests.laws.test_names: write today's counts as the limits
    LIMITS.write_text(json.dumps(counts(), indent=1) + "\n")
    sys.stdout.write(LIMITS.read_text())
