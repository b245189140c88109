"""Hiding the sink: rows without the first and special keys, renormalised, with a note."""

import numpy as np

from tests.draw.pages import CLOSE, CONFIGS, ROUGH, assert_rounds_to, make_trace, small_model, trace_rows, until

ROWS = "(() => { const v = document.querySelector('qkv-map').seen; return v.queries.map((_, u) => [...v.row(u).weights]) })()"
HIDDEN = "document.querySelector('qkv-map').seen?.without"


def hide_keys(table, keys):
    """Return the rows renormalised without these keys; 0 if nothing remains."""
    remaining = table.astype(np.float64)
    remaining[:, keys] = 0
    total = remaining.sum(1, keepdims=True)
    return np.divide(remaining, total, out=np.zeros_like(remaining), where=total > 0)


def test_rows_are_renormalised_and_have_a_note(open_page):
    trace = make_trace(special=(3,))
    tab = open_page(trace, lang="en", first=("decoder", 0, 1))
    before = tab.evaluate(ROWS)
    tab.evaluate("qkv.state.set({ query: 6, key: 2 })")
    tab.click("qkv-map .toggle")
    until(tab, HIDDEN)
    true = hide_keys(trace.map(0, 1), [0, 3])
    assert np.abs(np.array(tab.evaluate(ROWS)) - true).max() < CLOSE
    assert true[0].max() == 0  # it could look at nothing else
    assert_rounds_to(tab.inner_text("output.cell b"), true[6, 2])
    assert "The sink is hidden" in tab.inner_text("qkv-map .note")
    until(tab, "document.querySelector('qkv-lines .help')?.textContent.includes('The sink is hidden')")
    shares = tab.locator("qkv-lines .far i").all_inner_texts()
    for text, weight in zip(shares, true[6], strict=True):
        assert text in ("hidden", "taken out") if weight == 0 else abs(float(text.lstrip("<")) - weight) < ROUGH
    assert [i for i, text in enumerate(shares) if text == "taken out"] == [0, 3]
    tab.evaluate("qkv.state.set({ key: 3 })")
    assert tab.inner_text("output.cell b") == "taken out" and "taken out" in tab.inner_text("#qkv-live")
    # The steps are as they are, and the overview is.
    steps = tab.inner_text("qkv-steps")
    assert "These are the true numbers, with the sink" in steps and tab.inner_text("qkv-steps tfoot .sum td") == "1.000"
    weights = tab.evaluate(
        "Object.fromEntries([...document.querySelectorAll('qkv-steps tbody tr')].map((r) => [r.dataset.key, Number(r.querySelector('.weight').dataset.weight)]))"
    )
    assert all(abs(weight - trace.map(0, 1)[6, int(key)]) < CLOSE for key, weight in weights.items())
    assert "with the sink" in tab.inner_text("qkv-overview .note")
    # The link keeps it; and off again it is as if nothing had been.
    until(tab, "location.hash.includes('sink=hidden')")
    tab.click("qkv-map .toggle")
    until(tab, f"!{HIDDEN}")
    assert tab.evaluate(ROWS) == before and tab.inner_text("qkv-map .note") == ""
    tab.evaluate("location.hash = 'sink=hidden'")
    until(tab, HIDDEN)


def test_words_without_the_sink(open_page):
    """Tokens are removed before they are joined to words."""
    trace = make_trace(pieces=["The", " c", "at", " s", "at", "tle", ".", " 我", "们"])
    tab = open_page(trace, by="words", first=("decoder", 0, 2))
    tab.evaluate("qkv.state.set({ sink: 'hidden' })")
    until(tab, HIDDEN)
    words = trace.tokens().words
    table = hide_keys(trace.map(0, 2), [0])
    joined = np.array([[table[a:b, c:d].sum(1).mean() for _, c, d in words] for _, a, b in words])
    assert np.abs(np.array(tab.evaluate(ROWS)) - joined).max() < CLOSE


def test_another_texts_first_token_is_no_sink(open_page):
    trace = trace_rows(small_model(**CONFIGS["translator"]))
    tab = open_page(trace, lang="en", first=("cross", 1, 3))
    tab.evaluate("qkv.state.set({ sink: 'hidden' })")
    until(tab, HIDDEN)
    special = [j for j, is_special in enumerate(trace.tokens("cross", keys=True).special) if is_special]
    assert np.abs(np.array(tab.evaluate(ROWS)) - hide_keys(trace.map(1, 3, part="cross"), special)).max() < CLOSE


def test_no_digit_beyond_the_remaining_precision(open_page):
    """Renormalising a small remainder enlarges its error."""
    trace = make_trace(n=6)
    call = trace.calls["decoder"][0]
    call.k[0, :, 0] = 1.2 * call.q[0, 1, 5]  # nearly everything goes to the first key
    tab = open_page(trace, first=("decoder", 0, 1))
    tab.evaluate("qkv.state.set({ query: 5, key: 3, sink: 'hidden' })")
    until(tab, HIDDEN)
    remaining = 1 - float(trace.map(0, 1)[5, 0])
    error = tab.evaluate("document.querySelector('qkv-map').seen.row(5).error")
    assert remaining < 0.01 and abs(error - min(1, 2e-6 / remaining)) < 0.1 * error


def test_tiles_without_the_sink(elements):
    tab = elements(
        """window.source = random({ n: 1100, heads: 1, layers: 1, tiled: true, special: [5] }); show(source); state.set({ sink: "hidden" });
        document.querySelector('main').append(h('qkv-map', { class: 'card' }))"""
    )
    until(tab, "document.querySelector('qkv-map').seen?.compute && source.asked.length")
    assert (
        tab.evaluate("source.asked.every(({ sink }) => sink)")
        and tab.evaluate("document.querySelector('qkv-map').seen.picture") is None
    )
    row = "(async () => { const { seen } = document.querySelector('qkv-map'); return [[...seen.row(700).weights], source.weights(0, 0)[700]] })()"
    actual, full = tab.evaluate(row)
    assert np.abs(np.array(actual) - hide_keys(np.array([full]), [0, 5])[0]).max() < CLOSE
