"""Every chapter: its code runs, its pages can be filled, and every number on them is computed."""

import pytest

from tests.selection import slow_except
from tools.book import checks, site
from tools.book.cells import cells, run
from tools.book.figures import SiteFiles

SCRIPTS = [script.relative_to(site.DOCS).with_suffix("").as_posix() for script in site.scripts()]


def test_sources_are_complete():
    assert checks.book() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", slow_except(["mechanism/softmax", "doing/looking"], SCRIPTS))  # all by `make docs`
def test_a_chapter_runs_and_its_pages_are_filled(name):
    site_files = SiteFiles()
    for source in site.sources():
        if source.name == name:
            page = site.render(source, _run(name), site_files)
            assert page.startswith("# ") and "{{ " not in page.split("```")[0]
    live_figures = sum(name.endswith(".html") for name in site_files.files)
    assert live_figures >= 2 or not name.startswith("mechanism/"), "numbers to change, and a real head"


_chapters = {}


def _run(name):
    """Run a chapter once for both languages."""
    if name not in _chapters:
        _chapters.clear()
        _chapters[name] = run(site.DOCS / f"{name}.py")
    return _chapters[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in SCRIPTS if any(c.slow for c in cells(site.DOCS / f"{name}.py").values())]
)
def test_slow_cells_run_too(name, tmp_path, monkeypatch):
    """Numbers are not compared: the stored ones may come from other machines and versions."""
    for folder in ("docs", "benchmarks"):  # scripts look for these above themselves
        (tmp_path / folder).symlink_to(site.ROOT / folder)
    script = tmp_path / "chapter.py"
    script.write_text((site.DOCS / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(site.ROOT)
    assert run(script, slow=True).printed
