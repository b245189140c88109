"""Reading orders, docs/architecture.md, and the direction of imports between packages."""

import pytest

from tools import make_architecture as tool

# Each package may import those listed here, and whatever these may import.
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
EXCEPTIONS = {
    ("attention/oracle.py", "draw"),
    ("mixers/stepwise.py", "draw"),
    ("model/transformer.py", "generation"),
    ("tracing/views/traces.py", "draw"),
}


def test_packages_import_downwards():
    violations = {
        (file, there)
        for (here, there), files in tool.imports().items()
        if there not in tool.reachable(MAY_IMPORT, here)
        for file in files
    }
    assert violations - EXCEPTIONS == set(), "against the direction of MAY_IMPORT"
    assert EXCEPTIONS - violations == set(), "fixed: remove it from EXCEPTIONS"


def test_allowed_imports_name_every_package_without_cycles():
    assert sorted(MAY_IMPORT) == tool.packages()
    assert [name for name in MAY_IMPORT if name in tool.reachable(MAY_IMPORT, name)] == []


def test_the_reading_orders_name_every_file_and_no_other():
    assert tool.reading_order_problems() == []


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
def test_wrong_reading_orders_are_reported(tmp_path, monkeypatch, text, problem):
    monkeypatch.setattr(tool, "SOURCE", tmp_path)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "__init__.py").write_text(text)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text('"""It."""')
    (message,) = tool.reading_order_problems()
    assert message.endswith(problem)


def test_untranslated_sentences_stay_english():
    path, english = next((path, sentence) for path, sentence in tool.all_entries() if path.is_file())
    assert f"：{english}\n" in tool.listing({}, "zh")
    assert "：中文\n" in tool.listing({tool.relative(path): [english, "中文"]}, "zh")


def test_reworded_sentences_keep_their_translation_and_are_listed():
    path, english = next((path, sentence) for path, sentence in tool.all_entries() if path.is_file())
    key = tool.relative(path)
    translations, reworded = tool.update_translations({key: ["as it was before", "中文"]})
    assert translations[key] == [english, "中文"] and reworded == [key]
