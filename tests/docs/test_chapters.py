"""Every chapter: its code runs, what its pages quote is there, and nothing that they tell is loose."""

import pytest

from tests.selection import slow_except
from tools.book import checks, site
from tools.book.cells import cells, run
from tools.book.figures import Shelf

SCRIPTS = [script.relative_to(site.DOCS).with_suffix("").as_posix() for script in site.scripts()]


def test_the_sources_are_whole():
    assert checks.book() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", slow_except(["mechanism/softmax", "doing/looking"], SCRIPTS))  # all by `make docs`
def test_a_chapter_runs_and_its_pages_are_filled(name):
    shelf = Shelf()
    for source in site.sources():
        if source.name == name:
            made = site.filled(source, _run(name), shelf)
            assert made.startswith("# ") and "{{ " not in made.split("```")[0]
    touched = sum(name.endswith(".html") for name in shelf.files)
    assert touched >= 2 or not name.startswith("mechanism/"), "numbers to change, and a real head"


_made = {}


def _run(name):
    """Once for both languages."""
    if name not in _made:
        _made.clear()
        _made[name] = run(site.DOCS / f"{name}.py")
    return _made[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in SCRIPTS if any(c.slow for c in cells(site.DOCS / f"{name}.py").values())]
)
def test_slow_cells_run_too(name, tmp_path, monkeypatch):
    """On this machine and these versions; what is kept was perhaps made on others, so numbers are not compared."""
    for folder in ("docs", "benchmarks"):  # scripts look for these above themselves
        (tmp_path / folder).symlink_to(site.ROOT / folder)
    script = tmp_path / "chapter.py"
    script.write_text((site.DOCS / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(site.ROOT)
    assert run(script, slow=True).printed
