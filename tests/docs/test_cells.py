"""A chapter's script: run once, in order, and what took long is kept by the code that made it."""

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


def test_cells_see_what_those_before_them_made(script):
    chapter = cells.run(script, slow=True)
    assert chapter.printed == {"first": "three 3", "long": "slow", "last": ""}
    assert chapter.values["z"] == 7


def test_what_a_slow_cell_made_is_kept_and_only_plain_values_are(script):
    cells.run(script, slow=True)
    kept = json.loads(script.with_suffix(".kept.json").read_text(encoding="utf-8"))
    assert kept["long"]["values"] == {"y": [6, "six"]} and kept["long"]["printed"] == "slow"
    again = cells.run(script)
    assert not {"thing", "folder"} & again.values.keys(), "it was not run, and the folder is gone"
    assert (again.values["z"], again.printed["long"]) == (7, "slow")


@pytest.mark.parametrize("change", [("x * 2", "x * 3"), ("x = 3", "x = 4")], ids=["the cell", "a cell before it"])
def test_what_other_code_made_is_refused(script, change):
    cells.run(script, slow=True)
    script.write_text(SCRIPT.replace(*change), encoding="utf-8")
    with pytest.raises(cells.Stale, match=r"long changed since .*make docs-all"):
        cells.run(script)


def test_what_other_versions_made_is_refused(script, monkeypatch):
    cells.run(script, slow=True)
    monkeypatch.setattr(cells, "_versions", lambda: {"torch": "99"})
    with pytest.raises(cells.Stale, match="code or versions"):
        cells.run(script)


def test_what_comes_after_a_slow_cell_does_not_make_it_stale(script):
    cells.run(script, slow=True)
    script.write_text(SCRIPT.replace("y[0] + 1", "y[0] + 2"), encoding="utf-8")
    assert cells.run(script).values["z"] == 8


def test_a_slow_cell_that_was_never_run_is_refused(script):
    with pytest.raises(cells.Stale, match="never run"):
        cells.run(script)


def test_two_cells_of_one_name_are_refused(script):
    script.write_text(SCRIPT.replace("%% last", "%% first"), encoding="utf-8")
    with pytest.raises(ValueError, match="two cells are called first"):
        cells.cells(script)
