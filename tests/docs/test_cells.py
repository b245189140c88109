"""Scripts of chapters: cells run in order, and results of slow cells are stored with a hash of the code."""

import json

import pytest

from tools.book import cells

SCRIPT = '''"""A chapter."""

# %% first
import tempfile

x = 3
print("three", x)

# %% long slow
y = [x * 2, "six"]
thing = object()
with tempfile.TemporaryDirectory() as folder:
    print("slow")

# %% last
z = y[0] + 1
'''


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "chapter.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_cells_share_variables(script):
    chapter = cells.run(script, slow=True)
    assert chapter.printed == {"first": "three 3", "long": "slow", "last": ""}
    assert chapter.values["z"] == 7


def test_only_plain_values_of_slow_cells_are_stored(script):
    cells.run(script, slow=True)
    stored = json.loads(script.with_suffix(".kept.json").read_text(encoding="utf-8"))
    assert stored["long"]["values"] == {"y": [6, "six"]} and stored["long"]["printed"] == "slow"
    again = cells.run(script)
    assert not {"thing", "folder"} & again.values.keys(), "it was not run, and the folder is gone"
    assert (again.values["z"], again.printed["long"]) == (7, "slow")


@pytest.mark.parametrize("change", [("x * 2", "x * 3"), ("x = 3", "x = 4")], ids=["the cell", "a cell before it"])
def test_values_of_other_code_are_stale(script, change):
    cells.run(script, slow=True)
    script.write_text(SCRIPT.replace(*change), encoding="utf-8")
    with pytest.raises(cells.Stale, match=r"long changed since .*make docs-all"):
        cells.run(script)


def test_values_of_other_versions_are_stale(script, monkeypatch):
    cells.run(script, slow=True)
    monkeypatch.setattr(cells, "_versions", lambda: {"torch": "99"})
    with pytest.raises(cells.Stale, match="code or versions"):
        cells.run(script)


def test_later_code_does_not_make_a_slow_cell_stale(script):
    cells.run(script, slow=True)
    script.write_text(SCRIPT.replace("y[0] + 1", "y[0] + 2"), encoding="utf-8")
    assert cells.run(script).values["z"] == 8


def test_slow_cells_must_have_run(script):
    with pytest.raises(cells.Stale, match="never run"):
        cells.run(script)


def test_duplicate_cell_names_are_errors(script):
    script.write_text(SCRIPT.replace("%% last", "%% first"), encoding="utf-8")
    with pytest.raises(ValueError, match="two cells are called first"):
        cells.cells(script)
