"""Snapshots: compare descriptions with the JSON files of `snapshots/`, list differences, write the files."""

import difflib
import json
import os
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("snapshots")
WRITE = "QKV_WRITE_SNAPSHOTS"  # set by `python -m tests.laws.test_snapshots --write`


def load_snapshot(name):
    file = FOLDER / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def check(name, description):
    """Compare a description with its snapshot, or write it; fail with one line per difference."""
    description = json.loads(json.dumps(description))
    if os.environ.get(WRITE):
        (FOLDER / f"{name}.json").write_text(format_json(description) + "\n", encoding="utf-8")
        return
    if lines := differences(load_snapshot(name), description):
        listing = "\n".join(lines[:80] + [f"… {len(lines) - 80} more"] * (len(lines) > 80))
        hint = f"If this is intended: python -m tests.laws.test_snapshots --write, and read the diff of {name}.json"
        pytest.fail(f"{name} has changed (- snapshot, + now):\n{listing}\n{hint}", pytrace=False)


def format_json(value, indent=0, width=120):
    """Return JSON in which everything that fits on a line is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or indent + len(line) <= width:
        return line
    inner = indent + 1
    if isinstance(value, dict):
        items = [(f"{json.dumps(key, ensure_ascii=False)}: ", each) for key, each in value.items()]
    else:
        items = [("", each) for each in value]
    lines = [f"{' ' * inner}{name}{format_json(each, inner, width - len(name))}" for name, each in items]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([first, ",\n".join(lines), f"{' ' * indent}{last}"])


def differences(before, now, path=""):
    """Return a line for each key or text line that differs: "- " for what is gone, "+ " for what is new."""
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict):
        lines = []
        for key in dict.fromkeys([*before, *now]):
            inner = f"{path} › {key}" if path else key
            if key not in now:
                lines.append(f"- {inner}: {shorten(before[key])}")
            elif key not in before:
                lines.append(f"+ {inner}: {shorten(now[key])}")
            else:
                lines += differences(before[key], now[key], inner)
        return lines
    if isinstance(before, list) and isinstance(now, list):
        if len(before) == len(now) == 1 and isinstance(before[0], dict):  # the shape of a list of tables
            return differences(before[0], now[0], f"{path}[]")
        old_lines, new_lines = ([x if isinstance(x, str) else json.dumps(x) for x in side] for side in (before, now))
        changed = [
            line
            for line in difflib.unified_diff(old_lines, new_lines, n=0, lineterm="")
            if line[:2] not in ("--", "++", "@@")
        ]
        return [f"{line[0]} {path}: {shorten(line[1:])}" for line in changed] or [f"+ {path}: another order"]
    same = 0
    if isinstance(before, str) and isinstance(now, str):
        same = next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), 0)
    return [f"- {path}: {shorten(before, same)}", f"+ {path}: {shorten(now, same)}"]


def shorten(value, same=0):
    """Return at most about 200 characters of a value; of a long text, those around where it begins to differ."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    start = same - 60 if len(text) > 200 and same > 80 else 0
    return "… " * (start > 0) + text[start : start + 200] + " …" * (len(text) > start + 200)


SCALARS = {str: "text", int: "int", float: "float", bool: "bool", type(None): "null"}


def shape(*values):
    """Return the keys and types of values, merged.

    A key that only some of them have ends in "?". Numbered keys ("3", "13.8") are one key, "<number>".

    >>> shape({"loss": 1, "rows": [[1, 2.5], []]}, {"loss": None})
    {'loss': 'int|null', 'rows?': '(float|int)[][]'}
    """
    plain = sorted({SCALARS[type(value)] for value in values if not isinstance(value, dict | list | tuple)})
    kinds = ["|".join(plain)] if plain else []
    if tables := [values_by_key(value) for value in values if isinstance(value, dict)]:
        keys = dict.fromkeys(key for table in tables for key in table)
        kinds.append(
            {
                key + "?" * any(key not in table for table in tables): shape(
                    *(value for table in tables for value in table.get(key, ()))
                )
                for key in keys
            }
        )
    if lists := [value for value in values if isinstance(value, list | tuple)]:
        kinds.append(list_shape([element for each in lists for element in each]))
    return kinds[0] if len(kinds) == 1 else {"one of": kinds}


def values_by_key(table):
    """Return the values of each key; numbered keys count as one."""
    values = {}
    for key, value in table.items():
        values.setdefault("<number>" if re.fullmatch(r"[\d.]+", key) else key, []).append(value)
    return values


def list_shape(elements):
    """Return the shape of a list of these elements: "float[]", or [{…}]."""
    if not elements:
        return "nothing[]"
    kind = shape(*elements)
    if isinstance(kind, str):
        return f"({kind})[]" if re.search(r"\|(?![^(]*\))", kind) else f"{kind}[]"
    return [kind]


def group_tensors(shapes):
    """Join names that differ only in their first number and have the same description: "decoder.{0-3}.norm.weight".

    >>> group_tensors({"a.0.b": "[2]", "a.1.b": "[2]", "a.2.b": "[3]", "c": "[4]"})
    {'a.{0-1}.b': '[2]', 'a.2.b': '[3]', 'c': '[4]'}
    """
    numbers = {}
    for name, text in shapes.items():
        start, number, rest = re.fullmatch(r"(\D*)(\d*)(.*)", name).groups()
        numbers.setdefault((start, rest, text), []).append(number)
    joined = {}
    for (start, rest, text), each in numbers.items():
        joined[f"{start}{each[0] if len(each) == 1 else spans(sorted(map(int, each)))}{rest}"] = text
    return joined


def spans(numbers):
    """
    >>> spans([0, 1, 2, 5])
    '{0-2,5}'
    """
    ends = []
    for number in numbers:
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return "{" + ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ends) + "}"
