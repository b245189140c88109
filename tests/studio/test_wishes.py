"""Requested and displayed state: without a text, after a refusal, and after a reload."""

import pytest

from tests.draw.pages import until
from tests.studio.test_rooms import HOLD, OLD, TEXT, browser, now, opened, settled  # noqa: F401

LONG = "the cat sat on the mat and " * 400  # too long for a link, and the runs of the shelf don't know the letter d
REFUSAL = "(document.querySelector('qkv-notice p')?.textContent ?? '')"


def link_fields(tab):
    """Return the values in the address."""
    return tab.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def test_without_a_text_another_model_computes_the_last_text(opened, shelf):  # noqa: F811
    tab = opened(script=HOLD, after="chosen", query=3)
    tab.fill("textarea", "")
    until(tab, "!qkv.studio.now.stale")
    assert "no text" in tab.inner_text("qkv-textbox .offer")
    tab.evaluate("window.held = 'the cat'")
    tab.click("qkv-picker .opener")
    tab.select_option("qkv-picker select[data-key$='/lm@']", "3")
    assert now(tab, "stale") and "Still the old result" in tab.inner_text("qkv-facts")
    until(tab, "Number(getComputedStyle(document.querySelector('qkv-overview > *')).opacity) < 0.5")
    until(tab, "qkv.studio.now.model.endsWith('/lm@3')")
    until(tab, "(() => { try { go(1); return true } catch { return false } })()")
    tab.evaluate("go(2)")
    until(tab, "qkv.served().spec.model.endsWith('/lm@3')")
    settled(tab)
    until(tab, f"{OLD}.length === 0")
    assert not now(tab, "stale") and now(tab, "text") == tab.input_value("textarea") == ""
    assert tab.evaluate("[qkv.served().spec.text, qkv.studio.now.outcome.of]") == [
        TEXT,
        tab.evaluate("JSON.stringify(qkv.served().spec)"),
    ]


def test_without_a_text_a_head_that_is_switched_off_counts(opened):  # noqa: F811
    tab = opened(mode="heads", head=0)
    before = now(tab, "outcome.words.words")
    tab.fill("textarea", "")
    tab.click("qkv-switchboard .choice [data-value=zero]")
    until(tab, "qkv.served().spec.edits.length === 1 && document.querySelector('.bars.two') !== null")
    settled(tab)
    assert now(tab, "outcome.words.words") != before and not now(tab, "stale")
    assert tab.evaluate("qkv.served().spec.text") == TEXT


def test_a_refused_text_survives_a_reload(opened):  # noqa: F811
    tab = opened("mlm", "the cat", head=1)
    entries = tab.evaluate("history.length")
    tab.click("textarea")
    tab.keyboard.insert_text(LONG)
    tab.keyboard.press("End")
    until(tab, f"{REFUSAL}.includes('knows the')")
    tab.keyboard.type("t")
    until(tab, f"{REFUSAL}.includes('knows the') && qkv.studio.now.text.length > 5000")
    tab.wait_for_timeout(400)
    assert "kept" in link_fields(tab) and tab.evaluate("history.length") == entries + 1
    text, before, refusal = now(tab, "text"), link_fields(tab), tab.evaluate(REFUSAL)
    for _ in range(2):
        tab.reload()
        until(tab, f"window.qkv && {REFUSAL} !== ''")
        until(tab, "document.querySelector('qkv-overview canvas[data-drawn]') !== null")  # the example
        tab.wait_for_timeout(400)
        assert tab.evaluate(REFUSAL) == refusal
        assert now(tab, "text") == tab.input_value("textarea") == text and now(tab, "model").endswith("/mlm")
        assert link_fields(tab) == before
        assert now(tab, "stale") and "An example instead" in tab.inner_text("qkv-facts")
        badge = "getComputedStyle(document.querySelector('qkv-overview'), '::after').content"
        assert tab.evaluate(badge) == '"example"'
    tab.evaluate("history.back()")
    until(tab, "qkv.served()?.spec.text === 'the cat'")
    settled(tab)
    assert tab.input_value("textarea") == "the cat" and now(tab, "head") == 1 and not now(tab, "stale")
    assert "example" not in tab.inner_text("qkv-facts")


def test_after_a_refusal_a_shorter_text_opens_at_the_linked_cell(opened):  # noqa: F811
    tab = opened("mlm", LONG[:3900], head=1, query=2, key=4, ready=False)
    until(tab, "document.querySelector('qkv-overview canvas[data-drawn]') !== null")
    assert "knows the" in tab.evaluate(REFUSAL)
    tab.fill("textarea", "the cat sat")
    until(tab, "qkv.served().spec.text === 'the cat sat'")
    settled(tab)
    assert [now(tab, name) for name in ("part", "head", "query", "key")] == ["encoder", 1, 2, 4]


@pytest.mark.parametrize("first", [False, True], ids=["later", "at the start"])
def test_what_is_typed_while_a_view_computes_survives_a_reload(opened, first):  # noqa: F811
    restore_script = "sessionStorage.getItem('held') && (window.held = sessionStorage.getItem('held'))"
    tab = opened(script=HOLD + restore_script, head=1)
    tab.evaluate("sessionStorage.setItem('held', window.held = 'the cat')")
    if first:
        tab.reload()  # nothing is shown yet
        until(tab, "window.qkv && document.querySelector('textarea') !== null")
    tab.click("textarea")
    tab.keyboard.press("End")
    tab.keyboard.type(" on a")
    tab.evaluate("sessionStorage.removeItem('held')")
    type_and_leave = """() => { const area = document.querySelector("textarea");
        area.dispatchEvent(new KeyboardEvent("keydown", { key: "t", bubbles: true }));
        area.value += "t";
        area.dispatchEvent(new InputEvent("input", { bubbles: true }));
        qkv.studio.set({ busy: { kind: "computing", name: "", share: 0.5 } });
        location.reload() }"""
    with tab.expect_event("load"):  # a change of the address is a navigation too
        tab.evaluate(type_and_leave)
    text = TEXT + " on at"
    settled(tab)
    assert now(tab, "text") == tab.input_value("textarea") == text == tab.evaluate("qkv.served().spec.text")
    assert now(tab, "head") == 1 and link_fields(tab)["text"] == text


def test_results_alone_do_not_write_the_address(opened):  # noqa: F811
    """Browsers limit changes of the address, and each one delays the next."""
    tab = opened()
    tab.wait_for_timeout(400)
    count = """async () => { let written = 0; const real = history.replaceState;
        history.replaceState = function (...given) { written++; return real.apply(this, given) };
        for (let i = 0; i < 10; i++) { qkv.studio.set({ busy: { kind: 'computing', name: '', share: i / 10 } });
            await new Promise((done) => setTimeout(done, 50)) }
        return written }"""
    assert tab.evaluate(count) == 0
