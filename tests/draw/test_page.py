"""The page in a browser: numbers equal Python's; no requests; layout, languages, keyboard."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from qkv import masks
from qkv.attention.dispatch import Call
from qkv.draw.layer_json import token_lists
from qkv.draw.page import LIMIT, html, notebook_html
from qkv.draw.page_data import build_page_data, pack
from qkv.draw.page_shell import in_order, script
from qkv.i18n import Notice, Problem, translated
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace, join
from tests.draw.pages import (
    CLOSE,
    CONFIGS,
    PAGE,
    ROUGH,
    WEB,
    assert_rounds_to,
    contrast,
    make_trace,
    small_model,
    trace_rows,
    until,
    weights,
)
from tests.selection import slow_except
from tools import words


@pytest.mark.parametrize("name", slow_except(["shared keys, padded", "translator"], CONFIGS))
def test_every_map_is_pythons(open_page, name):
    trace = trace_rows(small_model(**CONFIGS[name]))
    tab = open_page(trace)
    for part in trace.parts:
        for layer in range(2):
            for head in range(6):
                for item in range(2):
                    ours = trace.map(layer, head, part=part, batch=item)
                    assert np.abs(weights(tab, part, layer, head, item) - ours).max() < CLOSE, (part, layer, head, item)


CALLS = {
    "softcap": dict(softcap=2.0),
    "sinks": dict(sinks=torch.tensor([0.5, -1.0, 3.0, 0.0])),
    "dense bias": dict(bias=torch.randn(1, 4, 9, 9, generator=torch.Generator().manual_seed(1))),
    "bias of keys": dict(bias=torch.randn(1, 4, 1, 9, generator=torch.Generator().manual_seed(1))),
    "bias that hides": dict(
        bias=torch.zeros(9, 9).index_put((torch.tensor([5]), torch.tensor([2])), torch.tensor(-np.inf))
    ),
    "scale": dict(scale=0.7),
    "marks": dict(mask=masks.padding([[False, False] + [True] * 7]) & masks.causal()),
    "documents": dict(mask=masks.documents([0, 0, 0, 1, 1, 1, 1, 2, 2]) & masks.causal()),
    "heads apart": dict(mask=masks.dense(torch.rand(1, 4, 9, 9, generator=torch.Generator().manual_seed(1)) > 0.5)),
    "cached": dict(n=5, m=9),
    "large": dict(width=64, scale=2.0),
}


@pytest.mark.parametrize("name", slow_except(["softcap", "documents", "cached"], CALLS))
def test_everything_that_affects_the_weights_is_included(open_page, name):
    trace = make_trace(**CALLS[name])
    tab = open_page(trace)
    for head in range(4):
        assert np.abs(weights(tab, "decoder", 0, head) - trace.map(0, head)).max() < CLOSE
    steps = trace.steps(0, 3, 4)
    row = tab.evaluate("async () => { const s = await qkv.steps('decoder', 0, 3, 4); return [...s.output] }")
    assert np.abs(np.array(row) - steps.output[0]).max() < 2e-2
    hidden = tab.evaluate("async () => [...(await qkv.steps('decoder', 0, 3, 4)).masked].map((x) => x === -Infinity)")
    bias = trace.calls["decoder"][0].bias
    allowed = trace.head(0, 3).allowed([4])[0].numpy()
    assert bias is not None or hidden == (~allowed).tolist()


def test_a_fully_masked_row_is_0_and_has_a_note(open_page):
    trace = make_trace(n=4, mask=masks.padding([[False] * 4]))
    tab = open_page(trace)
    assert np.abs(weights(tab, "decoder", 0, 0)).max() == 0
    assert "may look at nothing" in tab.inner_text("qkv-steps")


def test_the_steps_panel_shows_the_numbers_of_the_row(open_page):
    trace = make_trace(softcap=5.0)
    tab = open_page(trace, lang="en")
    tab.evaluate("qkv.state.set({ layer: 0, head: 2, query: 6, key: 1 })")
    until(tab, "document.querySelector('qkv-steps h3').textContent.includes('query 6')")
    steps = trace.steps(0, 2, 6)
    rows = tab.evaluate(
        "[...document.querySelectorAll('qkv-steps tbody tr')].map((r) => [r.dataset.key, ...[...r.cells].map((c) => c.textContent)])"
    )
    assert [int(row[0]) for row in rows[:7]] == np.argsort(-steps.weights[0], kind="stable")[:7].tolist()
    for key, name, dot, scaled, capped, masked, weight, _ in rows[:7]:
        j = int(key)
        assert name == f"w{j} {j}"
        read = [float(text.replace("−", "-")) for text in (dot, scaled, capped, masked, weight)]
        true = [float(trace.calls["decoder"][0].q[0, 2, 6] @ trace.calls["decoder"][0].k[0, 1, j])]
        true += [true[0] * 8**-0.5, 5 * np.tanh(true[0] * 8**-0.5 / 5), 5 * np.tanh(true[0] * 8**-0.5 / 5)]
        assert np.abs(np.array(read) - [*true, steps.weights[0, j]]).max() < 2e-2
        assert abs(read[-1] - steps.weights[0, j]) < CLOSE
    hidden = [row for row in rows if row[-3] == "−∞"]
    assert {int(row[0]) for row in hidden} <= {7, 8} and hidden[0][-2] == "0"
    assert tab.inner_text("qkv-steps tfoot .sum td") == "1.000"
    output = [float(x) for x in re.findall(r"-?\d+\.\d+", tab.inner_text("qkv-steps .output code").replace("−", "-"))]
    assert np.abs(np.array(output) - steps.output[0][:6]).max() < ROUGH
    tab.click("qkv-steps > .ask")
    assert tab.locator("qkv-steps tbody tr").count() == 9


def test_words_are_summed_over_keys_and_averaged_over_queries(open_page):
    pieces = ["The", " c", "at", " s", "at", "tle", ".", " 我", "们"]
    trace = make_trace(pieces=pieces)
    tab = open_page(trace)
    tab.click("qkv-map [data-value=words]")
    until(tab, "document.querySelector('qkv-map').seen.joined")
    read = np.array(
        tab.evaluate(
            "(() => { const v = document.querySelector('qkv-map').seen; return v.queries.map((_, u) => [...v.row(u).weights]) })()"
        )
    )
    words = trace.tokens().words
    assert tab.evaluate("document.querySelector('qkv-map').seen.keys.map((k) => k.label)") == [
        word for word, _, _ in words
    ]
    selection = tab.evaluate("[qkv.state.now.layer, qkv.state.now.head]")
    assert np.abs(read - join(trace.map(*selection), words, words)).max() < CLOSE
    assert np.abs(read.sum(1) - 1).max() < 1e-5


@pytest.mark.parametrize("n", [9, 150])
def test_the_largest_link_excludes_the_first_special_and_same_tokens(n, monkeypatch):
    trace = make_trace(n=n, special=(3,))
    data = build_page_data(trace, LIMIT)
    for head in range(4):
        table = trace.map(0, head).copy()
        table[:, [0, 3]] = table[3] = 0
        np.fill_diagonal(table, 0)
        i, j, share = data.header["parts"][0]["links"][0][0][head]
        assert (i, j) == np.unravel_index(table.argmax(), table.shape) and abs(share - table.max()) < 1e-5


def test_the_heads_of_a_focus_come_first(open_page):
    trace = make_trace(layers=3, n=12)
    top = trace.find("w9", "w4", most=12)
    tab = open_page(trace, focus=("w9", "w4"), lang="en")
    items = tab.locator("qkv-overview .links li").all_inner_texts()
    for item, (layer, head, share) in zip(items, top[:10], strict=True):
        name, number = item.split()
        assert name == f"{layer}.{head}" and abs(float(number) - share) < ROUGH
    assert "w9 → w4" in tab.inner_text("qkv-overview .links h3")
    assert tab.evaluate("[qkv.state.now.layer, qkv.state.now.head, qkv.state.now.query, qkv.state.now.key]") == [
        *top[0][:2],
        9,
        4,
    ]
    # The page finds the same by itself, for any two tokens.
    tab.evaluate("qkv.state.set({ query: 7, key: 2 })")
    tab.click("qkv-overview .links .ask")
    until(tab, "document.querySelector('qkv-overview .links h3').textContent.includes('w7 → w2')")
    names = [item.split()[0] for item in tab.locator("qkv-overview .links li").all_inner_texts()]
    assert names[:3] == [f"{layer}.{head}" for layer, head, _ in trace.find(7, 2, most=3)]


def test_layers_have_the_models_own_numbers(open_page):
    trace = replace(make_trace(layers=2), numbers={"decoder": (3, 7)})
    tab = open_page(trace, focus=("w8", "w4"), lang="en", layers=[7], first=("decoder", 7, 2))
    np.testing.assert_allclose(weights(tab, "decoder", 7, 2), trace.map(7, 2), atol=CLOSE)
    assert tab.locator("qkv-overview [role=rowheader]").all_inner_texts() == ["3", "7"]
    assert [text.split()[0] for text in tab.locator("qkv-overview .links li").all_inner_texts()][:2] == [
        f"{layer}.{head}" for layer, head, _ in trace.find("w8", "w4", most=2)
    ]
    assert "Layer 7 · Head 2" in tab.inner_text("qkv-steps")
    assert tab.locator("qkv-map .picks option").all_inner_texts()[:2] == ["Layer 3", "Layer 7"]
    with pytest.raises(ValueError, match="layer 1 has no attention in this trace; these have: 3, 7"):
        html(trace, layers=[1])


def test_weights_without_q_k_and_v_are_displayed_unchanged(open_page):
    trace = make_trace(layers=1, groups=4)
    call = trace.calls["decoder"][0]
    q, k = call.q[..., :0], call.k[..., :0]
    bare = Call(q, k, k, masks.causal(), 1.0, call.weights().log(), name="decoder.0")
    tab = open_page(replace(trace, calls={"decoder": [bare]}), lang="en")
    for head in range(4):
        np.testing.assert_allclose(weights(tab, "decoder", 0, head), trace.map(0, head), atol=1e-5)
    steps_text = tab.inner_text("qkv-steps")
    assert (
        "Only the weights were kept" in steps_text and "q·k" not in steps_text.split("there are no steps to show.")[1]
    )


NASTY = [
    "</script>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "&lt;b&gt;",
    "'\"`",
    "\n\n",
    "\u2028",
    "שלום",
    "👩‍👩‍👧",
]


def test_tokens_are_never_interpreted_as_html(open_page):
    trace = make_trace(pieces=NASTY)
    trace = Trace(trace.calls, trace.queries, trace.keys, "<b>model</b></title>", "</script><script>alert(2)</script>")
    tab = open_page(trace, focus=(1, 0))
    labels = tab.evaluate("document.querySelector('qkv-map').seen.keys.map((k) => k.label)")
    expected = [label.replace("\u2028", "U+2028") for label in trace.tokens().shown]
    assert labels == expected and labels[5] == "⏎⏎"
    assert tab.locator("img").count() == 0 and tab.locator("h1 b").count() == 0
    assert tab.inner_text("h1") == "<b>model</b></title>" and tab.inner_text("blockquote").startswith("</script>")
    assert tab.locator("qkv-lines .far bdi").all_inner_texts() == expected
    assert (
        tab.evaluate("getComputedStyle(document.querySelector('qkv-lines .far button:nth-child(8) bdi')).direction")
        == "rtl"
    )


def test_parts_of_a_character_show_that_character():
    whole = (("我", 0, 2), ("a", 2, 3))
    tokens = Tokens(("<E6><88>", "<91>", "a"), whole=whole)
    trace = make_trace(n=3)
    trace = Trace(trace.calls, {"decoder": [tokens]}, {"decoder": [tokens]})
    assert token_lists(trace.queries, trace.keys)[1][0]["labels"] == ["我₁", "我₂", "a"]


def test_it_makes_no_request_and_the_policy_forbids_any(open_page):
    """`open_page` fails on requests; here the page's own policy blocks one."""
    tab = open_page(make_trace(n=70))
    assert tab.evaluate("fetch('http://127.0.0.1:9/').then(() => 'fetched', () => 'refused')") == "refused"
    assert open_page.errors and all(
        "Content Security Policy" in message for message in open_page.errors
    )  # and no request
    open_page.errors.clear()
    assert not re.search(r"""(?:src|href|url\()=?["']?(?:https?:)?//""", html(make_trace()))


def test_every_page_contains_its_translations():
    all_sentences = set()
    for modules in (
        PAGE,
        ["map/map", "page/page"],
        ["steps/machine", "page/figure"],
        ["steps/rotary"],
        ["steps/distribution"],
    ):
        page = script(*modules)
        sentences = {
            sentence for name in in_order(*modules) for sentence in words.javascript_sentences(WEB / f"{name}.js")
        }
        all_sentences |= sentences
        for sentence in sentences:
            chinese = translated(sentence, "zh")
            entry = f"{json.dumps(sentence)}: {json.dumps(chinese, ensure_ascii=False)}"
            assert chinese == sentence or entry in page.replace(
                json.dumps(sentence, ensure_ascii=False), json.dumps(sentence)
            ), sentence
    assert len(all_sentences) > 100


def test_the_language_is_the_browsers_or_an_option_and_can_be_switched(open_page):
    trace = make_trace()
    assert "全部注意力头" in open_page(trace, locale="zh-CN").inner_text("qkv-overview")
    assert "全部注意力头" in open_page(trace, lang="zh").inner_text("qkv-overview")
    tab = open_page(trace, locale="zh-CN", lang="en")
    assert "All heads" in tab.inner_text("qkv-overview")
    for target in ("qkv-top", "qkv-overview", "qkv-map", "qkv-lines", "qkv-steps"):
        assert not re.search("[\u4e00-\u9fff]", tab.inner_text(target).replace("中文", "")), target
    tab.click("[data-value=zh]")
    assert tab.get_attribute("html", "lang") == "zh-CN"
    until(tab, "document.querySelector('qkv-steps h2').textContent.includes('权重')")
    until(tab, "document.querySelector('qkv-lines h2').textContent.includes('词元')")
    for target in ("qkv-top", "qkv-overview", "qkv-map", "qkv-lines", "qkv-steps", "#qkv-live"):
        remaining = re.sub(
            r"\bw\d+\b|English|made|float32|softmax|Ctrl|\bq\b|\bk\b|\bv\b|zh", "", tab.inner_text(target)
        )
        assert not re.search("[A-Za-z]{2}", remaining), (target, remaining)
    with pytest.raises(Problem):
        html(trace, lang="de")


def test_light_and_dark(open_page):
    trace = make_trace()
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light, dark = open_page(trace), open_page(trace, scheme="dark")
    assert light.evaluate(ground) == "rgb(246, 246, 243)" and dark.evaluate(ground) == "rgb(14, 16, 20)"
    corner = "document.querySelector('.grid canvas').getContext('2d').getImageData(0, 0, 1, 1).data[2]"
    before = light.evaluate(corner)
    light.click("[data-value=dark]")
    assert light.evaluate(ground) == dark.evaluate(ground)
    until(light, f"{corner} !== {before}")


def test_keys_move_the_crosshair_and_it_is_announced(open_page):
    trace = make_trace()
    tab = open_page(trace, lang="en")
    tab.evaluate("qkv.state.set({ layer: 0, head: 1, query: 5, key: 2 })")
    until(tab, "document.querySelector('qkv-map').seen.head.head === 1")
    tab.focus(".stage")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowDown")
    announced = tab.inner_text("#qkv-live")
    share = float(trace.map(0, 1)[6, 1])
    assert announced.startswith("query w6 → key w1: ") and abs(float(announced.split()[-1]) - share) < CLOSE
    assert abs(float(tab.inner_text("output.cell b")) - share) < CLOSE
    tab.keyboard.press("End")
    assert tab.inner_text("#qkv-live") == "query w6 → key w8: hidden by the mask"
    size = tab.evaluate("document.querySelector('qkv-map').frame.size")
    tab.keyboard.press("+")
    assert tab.evaluate("document.querySelector('qkv-map').frame.size") > size
    tab.keyboard.press("0")
    assert tab.evaluate("document.querySelector('qkv-map').frame.size") == size


def test_keys_choose_heads_and_every_control_is_reached(open_page):
    tab = open_page(make_trace(layers=2), lang="en")
    tab.evaluate("qkv.state.set({ layer: 0, head: 0 })")
    reached = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        focused = tab.evaluate("""(() => { const e = document.activeElement; return [e.tagName, e.getAttribute('role') ?? '', e.getAttribute('aria-label') ?? e.textContent,
            getComputedStyle(e).outlineStyle] })()""")
        if focused[0] == "BODY":
            break
        reached.append(focused)
    assert all(outline != "none" for *_, outline in reached), reached
    assert all(name.strip() for _, _, name, _ in reached), reached
    assert sum(role == "gridcell" for _, role, _, _ in reached) == 1
    assert any(role == "application" for _, role, _, _ in reached)
    tab.focus("[data-head='0.0']")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    assert tab.evaluate("[qkv.state.now.layer, qkv.state.now.head]") == [1, 1]
    assert tab.get_attribute("[data-head='1.1']", "aria-selected") == "true"
    assert tab.get_attribute("[data-head='1.1']", "aria-label").startswith("layer 1, head 1")


def test_the_focus_stays_on_what_was_used(open_page):
    tab = open_page(trace_rows(small_model(**CONFIGS["translator"])), lang="en")
    focused = "document.activeElement.dataset.value"
    for group in range(tab.locator("[role=radiogroup]").count()):
        values = tab.evaluate(
            f"[...document.querySelectorAll('[role=radiogroup]')[{group}].children].map((b) => b.dataset.value)"
        )
        tab.locator("[role=radiogroup]").nth(group).locator("[aria-checked=true]").focus()
        start = values.index(tab.evaluate(focused))
        for step in range(1, len(values) + 1):
            tab.keyboard.press("ArrowRight")
            until(tab, f"{focused} === '{values[(start + step) % len(values)]}'")
            tab.wait_for_timeout(80)  # what is computed first is drawn anew a little later
            assert tab.evaluate(focused) == values[(start + step) % len(values)]
            assert tab.evaluate("document.activeElement.getAttribute('aria-checked')") == "true"
    tab.focus("qkv-map select")
    tab.keyboard.press("ArrowDown")
    tab.wait_for_timeout(80)
    assert tab.evaluate("document.activeElement.value") == str(tab.evaluate("qkv.state.now.layer"))
    tab.focus("qkv-steps > .ask")
    tab.keyboard.press("Enter")
    tab.wait_for_timeout(80)
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"


def test_a_click_chooses_the_cell_under_it(open_page):
    tab = open_page(make_trace())
    point = tab.evaluate("""(() => { const m = document.querySelector('qkv-map'), b = m.stage.getBoundingClientRect(), { plot, frame } = m;
        return [b.x + plot.left + 2.5 * frame.size, b.y + plot.top + 6.5 * frame.size] })()""")
    tab.mouse.click(*point)
    assert tab.evaluate("[qkv.state.now.query, qkv.state.now.key]") == [6, 2]


def test_buttons_wheel_and_drag_zoom_and_pan(open_page):
    tab = open_page(make_trace(n=60), lang="en")
    frame = "(() => { const { size, x, y } = document.querySelector('qkv-map').frame; return [size, x, y] })()"
    box = tab.locator(".stage").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    size, x, y = tab.evaluate(frame)
    assert (x, y) == (0, 0)
    tab.mouse.move(*middle)
    tab.keyboard.down("Control")
    for _ in range(4):
        tab.mouse.wheel(0, -60)
    tab.keyboard.up("Control")
    until(tab, f"{frame}[0] > {size * 2}")
    size, x, y = tab.evaluate(frame)
    assert x > 0 and y > 0
    tab.mouse.down()
    tab.mouse.move(middle[0] + 50, middle[1] + 30, steps=5)
    selection = tab.evaluate("[qkv.state.now.query, qkv.state.now.key]")
    tab.mouse.up()
    _, *panned = tab.evaluate(frame)
    assert np.allclose([x - panned[0], y - panned[1]], [50 / size, 30 / size], atol=0.01)
    assert tab.evaluate("[qkv.state.now.query, qkv.state.now.key]") == selection  # a drag chooses nothing
    tab.click("[aria-label='Show all']")
    assert tab.evaluate(frame)[1:] == [0, 0]
    tab.click("[aria-label='Zoom in']")
    assert tab.evaluate(frame)[0] > tab.evaluate("document.querySelector('qkv-map').plot.fit")


def test_hovering_describes_a_cell_and_a_head(open_page):
    trace = make_trace(layers=2)
    tab = open_page(trace, lang="en")
    tab.hover("[data-head='1.3']")
    i, j, share = build_page_data(trace, LIMIT).header["parts"][0]["links"][0][1][3]
    assert tab.inner_text("qkv-overview .told") == f"layer 1, head 3 · most: w{i} → w{j} {share:.2f}"
    before = tab.inner_text("#qkv-live")
    point = tab.evaluate("""(() => { const m = document.querySelector('qkv-map'), b = m.stage.getBoundingClientRect();
        return [b.x + m.plot.left + 3.5 * m.frame.size, b.y + m.plot.top + 7.5 * m.frame.size] })()""")
    tab.mouse.move(*point)
    selection = tab.evaluate("[qkv.state.now.layer, qkv.state.now.head]")
    assert "w7 → w3" in tab.inner_text("output.cell")
    assert_rounds_to(tab.inner_text("output.cell b"), trace.map(*selection)[7, 3])
    assert tab.inner_text("#qkv-live") == before  # only what is chosen is said


def test_a_single_token(open_page):
    tab = open_page(make_trace(n=1))
    assert weights(tab, "decoder", 0, 0).tolist() == [[1.0]]


def test_layers_may_differ_in_heads(open_page):
    two_heads, six_heads = make_trace(heads=2, groups=1, seed=1), make_trace(heads=6, groups=3, seed=2)
    trace = Trace(
        {"decoder": two_heads.calls["decoder"] + six_heads.calls["decoder"]}, two_heads.queries, two_heads.keys
    )
    tab = open_page(trace)
    for layer, head in ((0, 1), (1, 0), (1, 5)):
        assert np.abs(weights(tab, "decoder", layer, head) - trace.map(layer, head)).max() < CLOSE
        tab.wait_for_selector(f"[data-head='{layer}.{head}'] canvas[data-drawn]")
        drawn = f"document.querySelector('[data-head=\"{layer}.{head}\"] canvas').getContext('2d').getImageData(0, 0, 9, 9).data"
        blue = np.array(tab.evaluate(f"[...{drawn}]")).reshape(9, 9, 4)[..., 0]  # the darker, the more
        assert np.corrcoef(blue.ravel(), -np.sqrt(trace.map(layer, head)).ravel())[0, 1] > 0.98


COLOURS = """(() => { const { base, plot } = document.querySelector('qkv-map');
    const { data } = base.getContext('2d').getImageData(plot.left, plot.top, plot.width, plot.height);
    return new TextDecoder('latin1').decode(data) })()"""  # a text: a list of a million numbers takes seconds to send


def test_special_tokens_have_the_colours_of_their_weights_and_labels_that_can_be_read(open_page):
    for scheme in ("light", "dark"):
        tabs = [
            open_page(make_trace(special=special), scheme=scheme, first=("decoder", 0, 1)) for special in ((), (1, 3))
        ]
        plain, marked = (tab.evaluate(COLOURS) for tab in tabs)
        assert plain == marked
        tabs[1].evaluate("qkv.state.set({ query: 6, key: 5 })")
        until(tabs[1], "document.querySelector('qkv-lines .near .chosen').textContent === 'w6'")
        read = """(selector) => [...document.querySelectorAll(selector)].map((e) => { const { color, fontStyle } = getComputedStyle(e);
            const ground = getComputedStyle(document.querySelector('.card')).backgroundColor; e.style.backgroundColor = ground; return [color, fontStyle] })"""
        special, others = (
            tabs[1].evaluate(read, ".special"),
            tabs[1].evaluate(read, ".near button:not(.special, .chosen)"),
        )
        assert len(special) > 2 and {style for _, style in special} == {"italic"} != {style for _, style in others}
        assert min(contrast(tabs[1], ".special")) >= 4.5


def test_hidden_cells_are_hatched(open_page):
    trace = make_trace(special=(1,))
    tab = open_page(trace)
    until(tab, "document.querySelector('qkv-map').base.dataset.drawn")
    colours = """([i, j]) => { const { base, plot, frame } = document.querySelector('qkv-map');
        const [x, y] = [plot.left + (j + 0.2) * frame.size, plot.top + (i + 0.2) * frame.size].map(Math.round);
        const size = Math.round(frame.size * 0.6), d = base.getContext('2d').getImageData(x, y, size, size).data;
        const all = []; for (let p = 0; p < d.length; p += 4) all.push(d.slice(p, p + 3).join()); return [...new Set(all)]; }"""
    assert len(tab.evaluate(colours, [2, 6])) == 2  # paper and lines
    assert len(tab.evaluate(colours, [6, 2])) == 1
    assert tab.locator("qkv-lines .special").count() == 2


def test_unlisted_masked_keys_are_labelled_hidden(open_page):
    """Their weight is 0, not a number too small to write."""
    trace = make_trace(n=20)
    tab = open_page(trace, first=("decoder", 0, 1), lang="en")
    for query, key, name in ((3, 1, "hidden by the mask"), (14, 14, "5 of them hidden by the mask"), (19, 19, "")):
        tab.evaluate(f"qkv.state.set({{ query: {query}, key: {key} }})")
        until(tab, f"document.querySelector('qkv-steps h3').textContent.includes('query {query})')")
        title, weight = tab.locator("qkv-steps tfoot .rest").inner_text().split("\t")[:2]
        listed = {
            int(j)
            for j in tab.evaluate("[...document.querySelectorAll('qkv-steps tbody tr')].map((row) => row.dataset.key)")
        }
        others = sorted(set(range(20)) - listed)
        assert title == f"other keys: {len(others)}" + (f", {name}" if name else "")
        if query == 3:
            assert weight == "0"
        else:
            assert_rounds_to(weight, trace.row(0, 1, query)[others].sum())


def test_lines_are_as_wide_as_the_weights(open_page):
    trace = make_trace()
    tab = open_page(trace)
    tab.evaluate("qkv.state.set({ layer: 0, head: 1, query: 6, key: 3 })")
    until(tab, "document.querySelector('qkv-lines .near .chosen').textContent === 'w6'")
    widths = [
        float(w)
        for w in tab.evaluate(
            "[...document.querySelectorAll('qkv-lines path')].map((p) => p.getAttribute('stroke-width'))"
        )
    ]
    row = trace.row(0, 1, 6)
    assert np.abs(np.array(widths) - (0.6 + 11 * row[row >= 0.002])).max() < 11 * CLOSE
    tab.click("qkv-lines [data-value=to]")
    until(tab, "document.querySelector('qkv-lines .near .chosen').textContent === 'w3'")
    shares = tab.locator("qkv-lines .far button i").all_inner_texts()
    column = trace.column(0, 1, 3)
    assert shares[:3] == ["hidden"] * 3
    assert np.abs(np.array([float(t.replace("<", "")) for t in shares[3:]]) - column[3:]).max() < ROUGH


def test_parts_and_items_are_switched(open_page):
    trace = trace_rows(small_model(**CONFIGS["translator"]))
    tab = open_page(trace, lang="en")
    tab.click("qkv-overview [data-value=cross]")
    until(
        tab,
        "document.querySelector('qkv-map').seen.keys.length === 11 && document.querySelector('qkv-map').seen.queries.length === 5",
    )
    assert "5 tokens look at 11" in tab.inner_text("qkv-top")
    tab.select_option("qkv-overview select", "1")
    assert tab.evaluate("qkv.state.now.item") == 1
    until(tab, "document.querySelector('qkv-map').seen.keys[10].label === '[PAD]'")


@pytest.mark.parametrize(
    ("size", "lang"), slow_except([((400, 800), "zh")], itertools.product([(1280, 800), (400, 800)], ["en", "zh"]))
)
def test_nothing_overflows(open_page, size, lang):
    tab = open_page(make_trace(n=40, layers=3, heads=16, groups=2), size=size, lang=lang)
    until(tab, "document.querySelector('qkv-map').base.dataset.drawn")
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
    cards = tab.evaluate(
        "[...document.querySelectorAll('.card, qkv-top')].map((c) => { const b = c.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] })"
    )
    for i, a in enumerate(cards):
        assert a[0] >= 0 and a[2] <= size[0]
        for b in cards[i + 1 :]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_scrolling_areas_can_be_scrolled_by_keys(open_page):
    tab = open_page(make_trace(n=40, layers=3, heads=16, groups=2), size=(390, 800), lang="en")
    scrolling = """[...document.querySelectorAll('body *')].filter((one) => ['auto', 'scroll'].includes(getComputedStyle(one).overflowX)
        && (one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight))"""
    assert tab.evaluate(f"{scrolling}.length") == 3  # the text, the overview and the steps
    until(tab, f"{scrolling}.every((one) => one.tabIndex === 0 || one.querySelector('[tabindex=\"0\"]'))")


def test_an_old_browser_gets_a_message(open_page):
    tab = open_page(make_trace(), script="delete window.DecompressionStream", ready=False)
    tab.wait_for_selector("#qkv-old:visible")
    assert "too old" in tab.inner_text("#qkv-old") and "太旧" in tab.inner_text("#qkv-old")


def test_a_short_text_is_complete():
    header = build_page_data(make_trace(layers=3), LIMIT).header
    assert all(layer[what] for layer in header["parts"][0]["layers"] for what in "qkv")


def test_512_tokens_of_30_layers_fit():
    """30 layers × 9 heads, 3 key/value heads, width 64: random numbers, which compress worse than real ones."""
    kinds = {"q": (1, 9, 512, 64), "k": (1, 3, 512, 64), "v": (1, 3, 512, 64)}
    rng = np.random.default_rng(0)
    tensors = sum(len(pack(rng.normal(size=shape).astype(np.float16))[0]) for shape in kinds.values())
    pictures = len(pack(rng.integers(0, 256, (270, 64, 64)).astype(np.uint8))[0])
    assert 30 * (tensors + 400) + pictures + len(html(make_trace()).encode()) <= LIMIT


def test_a_long_text_stays_within_its_limit(long):
    limit = 900_000
    progress_calls = []
    text = html(long, limit=limit, layers=[4], progress=lambda *at: progress_calls.append(at))
    assert progress_calls == [(i, 12) for i in range(2, 13, 2)]
    assert len(text.encode()) <= limit
    header = json.loads(re.search(r'id="qkv-header">(.*?)</script>', text).group(1))
    whole = [i for i, layer in enumerate(header["parts"][0]["layers"]) if layer["q"]]
    assert 4 in whole and 1 <= len(whole) < 6
    # One number per token and head width, none per pair: a layer's share is what its tensors are.
    blocks = re.findall(r'id="qkv-([\w.]+)">([^<]*)</script>', text)
    assert max(len(block) for name, block in blocks if name not in ("header",)) < 4000 * 2 * 16 * 2 * 4 / 3 + 100


def test_layers_of_a_long_text_are_selected_by_focus_or_kind(long):
    room = 700_000
    whole = lambda header: [i for i, layer in enumerate(header["parts"][0]["layers"]) if layer["q"]]  # noqa: E731
    top = long.find(3990, 17, most=1)[0][0]
    assert top in whole(build_page_data(long, room, focus=(3990, 17)).header)
    assert whole(build_page_data(long, room, layers=[0]).header)[0] == 0
    with pytest.raises(Problem):
        build_page_data(long, room, layers=[6])


def test_a_long_page_opens_whole_and_pooled_layers(open_page, long, tmp_path):
    path = tmp_path / "long.html"
    path.write_text(html(long, limit=900_000, layers=[4], lang="en"), encoding="utf-8")
    tab = open_page(path)
    row = tab.evaluate("async () => [...(await qkv.row('decoder', 4, 1, 3456))]")
    assert np.abs(np.array(row) - long.row(4, 1, 3456)).max() < ROUGH
    assert "Whole layers:" in tab.inner_text("qkv-top")
    pooled = tab.evaluate("qkv.header.parts[0].layers.findIndex((layer) => !layer.q)")
    tab.evaluate(f"qkv.state.set({{ layer: {pooled}, head: 0 }})")
    until(tab, "document.querySelector('qkv-map .note').textContent")
    assert f"layers=[{pooled}]" in tab.inner_text("qkv-map .note")
    cell = tab.evaluate("[...document.querySelector('qkv-map').seen.row(40).weights]")
    assert np.abs(np.array(cell) - long.map(pooled, 0, bins=64, pool="max")[40]).max() < ROUGH
    assert "no numbers" in tab.inner_text("qkv-steps")


def test_a_notebook_gets_an_iframe(open_page, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body>{notebook_html(make_trace())}</body>", encoding="utf-8")
    tab = open_page(path, ready=False)
    frame = tab.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for()
    assert frame.locator("qkv-map").count() == 1 and tab.locator("iframe").bounding_box()["height"] == 760
    assert tab.locator("qkv-map").count() == 0


def test_the_bundle_has_every_module_and_unique_names():
    every = [*PAGE, "map/tiled_map", "steps/machine", "steps/rotary", "steps/distribution", "page/figure"]
    files = (file.relative_to(WEB).with_suffix("").as_posix() for file in WEB.glob("*/*.js"))
    assert sorted(in_order(*every)) == sorted(name for name in files if not name.startswith("studio/"))
    bundle = script(*every)
    assert not re.search(r"^(import|export) ", bundle, re.MULTILINE) and "</script" not in bundle.lower()
    names = re.findall(r"^(?:const|let|class|function|async function) (\w+)", bundle, re.MULTILINE)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("locale", "note"), [("en-US", "longer than the model's context of 40"), ("zh-CN", "超出模型 40")]
)
def test_a_text_beyond_the_context_has_a_note(open_page, locale, note):
    with pytest.warns(Notice):
        long = trace_rows(small_model(), [[1, 2, 3] * 14])
    assert note in open_page(long, locale=locale).inner_text("qkv-top")
    assert note not in open_page(trace_rows(small_model()), locale=locale).inner_text("qkv-top")


@pytest.mark.parametrize("title", [None, "my\u202egnp.exe"])
def test_a_name_cannot_turn_the_title_of_a_page(open_page, title):
    trace = make_trace()
    trace = Trace(trace.calls, trace.queries, trace.keys, "run\u202egnp.exe", "a \u202e text")
    assert "\u202e" not in html(trace, title=title).partition('id="qkv-header"')[0]
    tab = open_page(trace, title=title)
    assert tab.title() == (title or "run\u202egnp.exe").replace("\u202e", "\\u202e")
    assert tab.inner_text("h1 bdi") == tab.title() and (tab.locator("h1 small").count() == 1) == (title is not None)
