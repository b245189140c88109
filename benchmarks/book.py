"""The book: size and first paint of its first page, against an empty page of the same theme; the size of the site; the time
to build it, against the tests.

    python -m benchmarks.book [--tests]         --tests also times `make test` (minutes), for the row that needs it

Needs Debian's chromium. The two pages are opened in turns from the disk, each in a fresh context; the best of several counts.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tools.book import site

from ._measure import Row, publish

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def empty(folder: Path) -> Path:
    """Build a page of one word in the same theme, without our files, and return its path."""
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text("# Empty\n", encoding="utf-8")
    settings = {"site_name": "empty", "use_directory_urls": False, "plugins": ["search", "offline"]}
    settings |= {"theme": {"name": "material", "variant": "modern", "font": False}, "extra": {"generator": False}}
    (folder / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "-f", "mkdocs.yml"], cwd=folder, check=True, capture_output=True
    )
    page = folder / "site" / "index.html"
    shim = site.FETCHED.sub("iframe-worker.js", page.read_text(encoding="utf-8"))
    page.write_text(shim, encoding="utf-8")
    shutil.copy(site.THEME / "iframe-worker.js", folder / "site")
    return page


def opened(browser: Browser, page: Path) -> tuple[float, int]:
    """Return the time of the first paint in ms, and the bytes of all files requested without scrolling."""
    context = browser.new_context(viewport=dict(width=1280, height=900))
    tab = context.new_page()
    requested: list[str] = []
    tab.on("request", lambda request: requested.append(request.url))
    tab.goto(page.as_uri())
    tab.wait_for_function(f"({PAINTED}) !== null")
    painted = tab.evaluate(PAINTED)
    tab.wait_for_timeout(400)
    context.close()
    files = {
        Path(url.removeprefix("file://").split("#")[0].split("?")[0]) for url in requested if url.startswith("file:")
    }
    return painted, sum(path.stat().st_size for path in files if path.exists())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    subprocess.run(["make", "docs"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    built = time.perf_counter() - start
    whole = sum(path.stat().st_size for path in (ROOT / "site").rglob("*") if path.is_file())
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        plain, ours = empty(Path(folder)), ROOT / "site" / "index.html"
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        rounds = [(opened(browser, plain), opened(browser, ours)) for _ in range(12)]
        browser.close()
    paints = [min(painted for painted, _ in page_rounds) for page_rounds in zip(*rounds, strict=True)]
    rows = [
        Row("first paint of the first page, against an empty page of the theme", paints[1], paints[0], "≤ 3"),
        Row("all files of the first page, before anything is touched", rounds[0][1][1] / 1e3, 500, "≤ 1", unit="kB"),
        Row("the whole site, both languages", whole / 1e6, 25, "≤ 1", unit="MB"),
    ]
    if options.tests:
        start = time.perf_counter()
        subprocess.run(["make", "test"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        rows.append(Row("make docs, against make test", built, time.perf_counter() - start, "≤ 0.33", unit="s"))
    publish("book", "The book", rows)


if __name__ == "__main__":
    main()
