"""Accessibility of the studio: axe checks every room in light and dark, wide and narrow."""

from importlib.resources import files
from urllib.parse import quote, urlsplit

import pytest

from tests.draw.pages import FLAGS, small_targets, until
from tests.selection import slow_except

ROOMS = {
    "look": "mode=look",
    "heads": "mode=heads",
    "generate": "mode=generate",
    "compare": "mode=compare",
    "translate": "model=translate",
    "steps": "room=steps",
}


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser_ = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        yield browser_
        browser_.close()


@pytest.mark.parametrize(
    ("room", "scheme", "width"),
    slow_except(
        [("look", "light", 1280), ("generate", "light", 1280), ("compare", "dark", 390)],
        [(room, *kind) for room in ROOMS for kind in (("light", 1280), ("dark", 390))],
    ),
)
def test_axe_finds_nothing_serious(browser, studio, shelf, room, scheme, width):
    home = urlsplit(studio.address)
    # The content security policy blocks the foreign script axe.
    context = browser.new_context(
        viewport=dict(width=width, height=900), color_scheme=scheme, reduced_motion="reduce", bypass_csp=True
    )
    name, _, key = studio.client.cookie.partition("=")
    context.add_cookies([dict(name=name, value=key, url=f"http://{home.netloc}")])
    tab = context.new_page()
    model, text = ("translate", "cat 7") if room == "translate" else ("lm", "the cat sat")
    link = f"model={quote(f'{shelf.name}/{model}')}&text={quote(text)}&{ROOMS[room].replace('model=translate', 'mode=cross')}"
    tab.goto(f"http://{home.netloc}/#{link}")
    until(tab, "window.qkv?.served() != null", 60)
    tab.evaluate("qkv.settled()")
    tab.wait_for_timeout(400)
    tab.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    violations = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    small = small_targets(tab)
    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    context.close()
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    report = [(each["id"], each["help"], [node["html"][:160] for node in each["nodes"][:3]]) for each in serious]
    assert report == [] and small == []
    assert wide <= 0, "the page is wider than the screen"
