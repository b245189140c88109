"""Accessibility of the page by axe: light and dark, wide and narrow, with all menus open."""

from importlib.resources import files

import pytest

from tests.draw.pages import make_trace, small_targets, until

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_serious(open_page, scheme, width):
    tab = open_page(make_trace(n=30, layers=2, special=(0, 3)), scheme=scheme, size=(width, 900), lang="en")
    tab.click("qkv-map .toggle")
    until(tab, "document.querySelector('qkv-map').seen?.without")
    tab.click(".takeaway summary")
    assert serious(tab) == []
    assert small_targets(tab) == []


def test_axe_finds_nothing_serious_about_a_long_map(elements):
    tab = elements(
        """window.source = random({ n: 1100, heads: 2, layers: 2, tiled: true }); show(source); document.title = "long"; state.set({ theme: "dark" }); document.documentElement.dataset.theme = "dark";
        document.querySelector('main').append(h('h1', {}, 'long'), h('qkv-map', { class: 'card' }))""",
        scheme="dark",
    )
    until(tab, "document.querySelector('qkv-map').seen")
    tab.evaluate("document.querySelector('qkv-map').zoom(6)")
    until(tab, "!document.querySelector('.minimap').hidden")
    assert serious(tab) == []


def serious(tab):
    """Return axe's serious violations. The page's policy forbids other scripts, so axe is evaluated."""
    tab.evaluate(AXE)
    violations = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        (each["id"], each["help"], [node["html"][:160] for node in each["nodes"][:3]])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]
