"""Details of the studio: menus close, names are escaped, the address has the current selection."""

import pytest

from tests.draw.pages import until
from tests.studio.test_rooms import browser, opened  # noqa: F401

SHUT = "document.querySelector('qkv-exportmenu .sheet').hidden"


@pytest.fixture
def tab(opened):  # noqa: F811
    return opened()


def test_the_menu_closes_when_it_was_used_by_escape_and_by_a_click_elsewhere(tab):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opener = "document.activeElement === document.querySelector('qkv-exportmenu .opener')"
    tab.click("qkv-exportmenu .opener")
    tab.evaluate("document.activeElement.blur()")
    tab.keyboard.press("Escape")
    assert tab.evaluate(SHUT) and tab.evaluate(opener)
    tab.click("qkv-exportmenu .opener")
    tab.mouse.click(5, 400)
    assert tab.evaluate(SHUT)
    tab.click("qkv-exportmenu .opener")
    tab.click("qkv-exportmenu [data-key=link]")
    until(tab, SHUT)
    assert tab.evaluate(opener) and tab.inner_text("qkv-exportmenu .done") == "Copied."
    for kind in ("csv", "page"):
        tab.click("qkv-exportmenu .opener")
        with tab.expect_download():
            tab.click(f"qkv-exportmenu [data-key={kind}]")
        until(tab, SHUT)


@pytest.mark.parametrize("sign", ["\u202e", "\u202a", "\u2066", "\u2069", "\x07", "\x1b", "\x7f", "\x9b"], ids=ascii)
def test_a_name_cannot_turn_the_direction_of_what_is_read(tab, sign):
    name, written = f"runs/cat{sign}gnp.exe", f"cat\\u{ord(sign):04x}gnp.exe"
    tab.evaluate(
        "(name) => qkv.studio.set({ models: { here: [{ name, kind: 'run', checkpoints: [1], watched: [] }], offered: [] } })",
        name,
    )
    tab.click("qkv-picker .opener")
    assert written in tab.inner_text("qkv-picker .sheet")
    tab.evaluate("(name) => qkv.studio.set({ model: name })", name)
    assert written in tab.inner_text("qkv-picker .opener")
    labels = "[...document.querySelectorAll('[aria-label], [title]')].map((e) => `${e.ariaLabel} ${e.title}`).join()"
    assert sign not in tab.evaluate("document.body.textContent") + tab.evaluate(labels)


def test_the_address_holds_the_current_choice(tab):
    """Copying the address or leaving the page at once includes the newest selection."""
    for i, event in enumerate(("pagehide", "blur", "copy")):
        address = tab.evaluate(
            """([query, event]) => { qkv.studio.set({ query: query + 1 }); qkv.studio.set({ query });
            return new Promise((done) => setTimeout(() => { qkv.studio.set({ key: query }); window.dispatchEvent(new Event(event)); done(location.hash) })) }""",
            [i, event],
        )
        assert f"&query={i}&key={i}&" in address
    tab.evaluate("qkv.studio.set({ query: 4 })")
    until(tab, "location.hash.includes('query=4&')")


def test_the_address_does_not_lag(tab):
    """A change after a pause is written at the next turn, the following one within 0.6 s; timers keep their order."""
    first, upcoming = tab.evaluate(
        """async () => { const wait = (time) => new Promise((done) => setTimeout(done, time));
        await wait(700);
        qkv.studio.set({ query: 4 });
        for (let turn = 0; turn < 3; turn++) await wait(0);
        const first = location.hash;
        qkv.studio.set({ query: 5 });
        await wait(600);
        return [first, location.hash] }"""
    )
    assert "&query=4&" in first and "&query=5&" in upcoming


@pytest.mark.parametrize(("heads", "summary"), [(2, "1 layer × 2 heads"), (1, "1 layer × 1 head")])
def test_a_single_layer_is_singular(tab, heads, summary):
    tab.evaluate(
        "(heads) => { qkv.served().header.parts[0].layers[0].heads = heads; qkv.studio.set({ opened: { ...qkv.studio.now.opened } }) }",
        heads,
    )
    assert f"{summary}, counted from 0" in tab.inner_text("qkv-facts")
    tab.evaluate("qkv.served().header.parts[0].layers[0].heads = 2")


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_grid_stays_where_it_is_under_the_pointer(opened, locale):  # noqa: F811
    """A caption of two lines has the height of one line."""
    tab = opened(link="model=trace:cat-smollm2", size=(1280, 900), locale=locale, ready=False)
    until(tab, "document.querySelectorAll('qkv-overview canvas[data-drawn]').length === 270")
    top = "document.querySelector(\"[data-head='0.0']\").getBoundingClientRect().top"
    before, lines = tab.evaluate(top), set()
    for layer in range(8):
        for head in range(9):
            tab.hover(f"[data-head='{layer}.{head}']")
            lines.add(
                tab.evaluate(
                    "(() => { const all = document.createRange(); all.selectNodeContents(document.querySelector('qkv-overview .told')); return all.getBoundingClientRect().height > 22 })()"
                )
            )
            assert tab.evaluate(top) == before, (layer, head)
    assert locale == "zh-CN" or lines == {True, False}
