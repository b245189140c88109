"""The map of the code is true: reading orders, docs/architecture.md, and the direction in which packages import."""

import pytest

from tools import make_architecture as tool

# Each package may import those it names here, and whatever they may import.
MAY_IMPORT = {
    "disk": set(),
    "process": set(),
    "terminal": set(),
    "web": set(),
    "library": {"disk"},
    "text": {"disk", "process"},
    "sandbox": {"process"},
    "attention": {"terminal"},
    "mixers": {"attention"},
    "model": {"mixers", "process"},
    "generation": {"model", "text"},
    "formats": {"model", "text", "library"},
    "evaluation": {"generation"},
    "tracing": {"generation"},
    "doctor": {"mixers", "sandbox", "disk"},
    "lessons": {"doctor"},
    "draw": {"tracing"},
    "train": {"formats", "evaluation", "tracing"},
    "lab": {"draw", "train"},
    "studio": {"draw", "formats", "evaluation"},
    "commands": {"lab", "lessons", "studio"},
}
# Imports against that direction, all inside functions: to be removed, never added to.
KNOWN = {
    ("attention/oracle.py", "draw"),
    ("mixers/stepwise.py", "draw"),
    ("model/transformer.py", "generation"),
    ("tracing/views/traces.py", "draw"),
}


def test_packages_import_in_one_direction():
    found = {
        (file, there)
        for (here, there), files in tool.imports().items()
        if there not in tool.reachable(MAY_IMPORT, here)
        for file in files
    }
    assert found - KNOWN == set(), "against the direction of MAY_IMPORT"
    assert KNOWN - found == set(), "fixed: remove it from KNOWN"


def test_the_direction_is_one_way_and_of_every_package():
    assert sorted(MAY_IMPORT) == tool.packages()
    assert [name for name in MAY_IMPORT if name in tool.reachable(MAY_IMPORT, name)] == []


def test_the_reading_orders_name_every_file_and_no_other():
    assert tool.misordered() == []


def test_the_pages_are_up_to_date(capsys):
    """If this fails: make words, and translate what it names."""
    assert tool.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"""One.\n\nRead in this order: `a`.\n"""', "lacks `b`"),
        ('"""One.\n\nRead in this order: `a`, `b`, `c`.\n"""', "names `c`, which is not there"),
        ('"""One.\n\nRead in this order: `a`, `b`,\n`a`.\n\n`d`\n"""', "names `a` twice"),
    ],
)
def test_a_wrong_reading_order_is_found(tmp_path, monkeypatch, text, problem):
    monkeypatch.setattr(tool, "SOURCE", tmp_path)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "__init__.py").write_text(text)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text('"""It."""')
    (found,) = tool.misordered()
    assert found.endswith(problem)


def test_what_is_not_translated_stays_english():
    path, english = next((path, sentence) for path, sentence in tool.all_entries() if path.is_file())
    assert f"：{english}\n" in tool.listing({}, "zh")
    assert "：中文\n" in tool.listing({tool.relative(path): [english, "中文"]}, "zh")


def test_a_reworded_sentence_keeps_its_translation_and_is_listed():
    path, english = next((path, sentence) for path, sentence in tool.all_entries() if path.is_file())
    key = tool.relative(path)
    translations, reworded = tool.updated({key: ["as it was before", "中文"]})
    assert translations[key] == [english, "中文"] and reworded == [key]
