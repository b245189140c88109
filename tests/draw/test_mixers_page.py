"""A mixer's layers on the page: signed rows equal Python's, and a hybrid has both parts."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import qkv
from qkv.draw import page_data
from qkv.draw.page import LIMIT, html
from qkv.draw.page_data import build_page_data
from qkv.draw.page_shell import script
from qkv.mixers.calls import Mixing
from qkv.mixers.dispatch import document_starts
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace
from tests.draw.pages import CLOSE, PAGE, ROUGH, assert_rounds_to, until, weights
from tests.mixers.test_models import TEXT, model_of
from tests.selection import slow_except


def mixing(
    *, n=13, heads=4, groups=2, width=5, value=3, batch=1, delta=False, keep=None, documents=None, seed=0, **options
):
    """Return the random inputs of a mixer: decays from almost 0 to exactly 1, keys of length 1."""
    rng = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=rng)

    k = torch.nn.functional.normalize(random(batch, groups, n, width), dim=-1)
    q, v, decay = random(batch, groups, n, width), random(batch, heads, n, value), -random(batch, heads, n).abs() / 4
    decay[random(batch, heads, n) > 1] = 0.0
    write = random(batch, heads, n).sigmoid() if delta else None
    keep = None if keep is None else torch.tensor(keep).expand(batch, n)
    if keep is not None:
        padded = ~keep[:, None]
        k, v = (t.masked_fill(padded[..., None], 0.0) for t in (k, v))
        decay, write = (None if t is None else t.masked_fill(padded, 0.0) for t in (decay, write))
    resets = None if documents is None else document_starts(torch.tensor(documents).expand(batch, n), keep)
    return Mixing(q, k, v, decay, 0.7, write, keep=keep, resets=resets, **options)


def make_mixer_trace(*calls, numbers=(), pieces=None, special=()):
    n = calls[0].v.shape[2]
    tokens = [Tokens(tuple(pieces or (f" w{i}" for i in range(n))), tuple(i in special for i in range(n)))]
    tokens *= len(calls[0].v)
    sides = {"mixers": tokens}
    return Trace({"mixers": list(calls)}, sides, sides, "made", "", numbers={"mixers": numbers} if numbers else {})


def hybrid():
    return qkv.trace(model_of("mamba2 attention delta").float(), TEXT, name="hybrid")


KINDS = {
    "retention": {},
    "delta": dict(delta=True),
    "documents": dict(documents=[0] * 4 + [1] * 6 + [0] * 3),
    "delta, documents": dict(documents=[0] * 4 + [1] * 6 + [0] * 3, delta=True),
    "padded": dict(keep=[False] * 2 + [True] * 8 + [False] * 3),
    "delta, padded, documents": dict(keep=[False] * 2 + [True] * 11, documents=[0] * 7 + [1] * 6, delta=True),
    "one group, one number": dict(groups=1, width=1, delta=True),
    "every head its own": dict(groups=4),
}


def test_every_row_is_pythons(open_page):
    """One layer of each kind, two texts."""
    trace = make_mixer_trace(*(mixing(batch=2, seed=i, **choices) for i, choices in enumerate(KINDS.values())))
    tab = open_page(trace)
    steps = "async (at) => { const s = await qkv.steps(...at); return [[...s.output], [...s.seen], [...s.left]] }"
    for layer, name in enumerate(KINDS):
        for head, item in itertools.product(range(4), range(2)):
            mixer_head, expected = trace.head(layer, head, batch=item), trace.map(layer, head, batch=item)
            actual = weights(tab, "mixers", layer, head, item)
            assert np.abs(actual - expected).max() < CLOSE * max(np.abs(expected).max(), 1), (name, head, item)
            if head != 3:
                continue
            for i in (0, 6, 12):
                output, visible, decays = tab.evaluate(steps, ["mixers", layer, head, i, item])
                assert np.abs(np.array(output) - expected[i] @ mixer_head.call.v[0, 0].numpy()).max() < 1e-4, name
                assert visible == mixer_head.allowed([i])[0].int().tolist(), name
                between = [float(mixer_head.call.decay[0, 0, j + 1 : i + 1].sum().exp()) for j in range(i + 1)]
                readable = np.array(visible[: i + 1], bool)
                assert np.abs(np.array(decays[: i + 1]) - between)[readable].max(initial=0) < 1e-6, name


def test_a_single_token(open_page):
    trace = make_mixer_trace(mixing(n=1, delta=True))
    assert weights(open_page(trace), "mixers", 0, 3) == pytest.approx(trace.map(0, 3), abs=CLOSE)


def test_a_hybrid_has_both_parts_and_the_models_own_layer_numbers(open_page):
    trace = hybrid()
    tab = open_page(trace, lang="en", first=("mixers", 2, 1))
    assert tab.evaluate("[qkv.state.now.part, qkv.state.now.layer, qkv.state.now.head]") == ["mixers", 1, 1]
    for part, layer in (("mixers", 0), ("mixers", 2), ("decoder", 1)):
        for head in range(trace.n_head(part, layer)):
            ours = trace.map(layer, head, part=part)
            assert np.abs(weights(tab, part, layer, head) - ours).max() < CLOSE * max(np.abs(ours).max(), 1)
    assert tab.locator("qkv-overview [role=rowheader]").all_inner_texts() == ["0", "2"]
    assert tab.locator("qkv-overview [role=radiogroup] button").all_inner_texts() == ["Attention", "Mixers"]
    assert "rows don't sum to 1" in tab.inner_text("qkv-map") and "Layer 2 · Head 1" in tab.inner_text("qkv-steps")
    assert "softmax makes" not in tab.inner_text("qkv-steps")
    tab.evaluate("qkv.state.set({ query: 8, key: 3 })")
    tab.click("qkv-overview [data-value=decoder]")
    until(tab, "document.querySelector('qkv-steps').textContent.includes('softmax makes')")
    assert tab.locator("qkv-overview [role=rowheader]").all_inner_texts() == ["1"]
    assert tab.evaluate("[qkv.state.now.query, qkv.state.now.key]") == [8, 3]  # the same two tokens, in attention
    assert "rows don't sum to 1" not in tab.inner_text("body")
    tab.click("qkv-overview [data-value=mixers]")
    until(tab, "document.querySelector('qkv-steps').textContent.includes('No softmax')")
    assert tab.evaluate("[qkv.state.now.layer, qkv.state.now.query, qkv.state.now.key]") == [1, 8, 3]


def test_the_heads_of_a_focus_are_of_the_part_that_is_opened(open_page):
    trace = hybrid()
    tab = open_page(trace, lang="en", focus=(8, 2), first=("mixers", 0, 0))
    top = trace.find(8, 2, part="mixers")
    items = [item.split() for item in tab.locator("qkv-overview .links li").all_inner_texts()]
    assert [name for name, _ in items] == [f"{layer}.{head}" for layer, head, _ in top]
    for (_, number), (_, _, weight) in zip(items, top, strict=True):
        assert_signed(number, weight)
    tab.evaluate("qkv.state.set({ query: 7, key: 1 })")
    tab.click("qkv-overview .links .ask")
    until(tab, "document.querySelectorAll('qkv-overview .links :is(.ask, .help)').length === 0")  # asked, and answered
    names = tab.locator("qkv-overview .links li b").all_text_contents()
    assert names == [f"{layer}.{head}" for layer, head, _ in trace.find(7, 1, part="mixers")]


def assert_signed(text, true):
    """Like `assert_rounds_to`, for negative numbers too."""
    if text.startswith(">"):
        assert float(text[1:].replace("−", "-")) < true < 0
        return
    assert_rounds_to(text, true)


# The colours of cell (i, j) of the map, and of cell (i, j) of a head's picture.
CELL = """([i, j]) => { const { base, plot, frame } = document.querySelector('qkv-map');
    const [x, y] = [plot.left + (j + 0.5) * frame.size, plot.top + (i + 0.5) * frame.size].map(Math.round);
    return [...base.getContext('2d').getImageData(x, y, 1, 1).data.slice(0, 3)]; }"""
PICTURE = """([head, i, j]) => { const canvas = document.querySelector(`[data-head="0.${head}"] canvas`);
    return [...canvas.getContext('2d').getImageData(j, i, 1, 1).data.slice(0, 3)]; }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_below_0_is_red_above_0_is_blue_and_the_largest_is_the_deepest(open_page, scheme):
    trace = make_mixer_trace(mixing(delta=True))
    tab = open_page(trace, scheme=scheme, first=("mixers", 0, 2), lang="en")
    table = trace.map(0, 2)
    tab.wait_for_selector("[data-head='0.2'] canvas[data-drawn]")
    top = np.abs(table).max()
    for i, j in np.argwhere(np.tri(13, dtype=bool) & (np.abs(table) > 0.02 * top)):
        for red, _, blue in (tab.evaluate(CELL, [int(i), int(j)]), tab.evaluate(PICTURE, [2, int(i), int(j)])):
            assert (red > blue) == (table[i, j] < 0), (i, j, table[i, j])
    i, j = np.unravel_index(np.abs(table).argmax(), table.shape)
    deepest = {"light": ([5, 48, 97], [103, 0, 31]), "dark": ([214, 236, 255], [255, 226, 208])}[scheme]
    assert tab.evaluate(CELL, [int(i), int(j)]) == deepest[int(table[i, j] < 0)]
    ends = tab.locator("qkv-map .ramp").inner_text().split()
    assert ends[0][0] == "−" and ends[-1][0] == "+" and "0" in ends
    assert_signed(ends[-1][1:], top)


def test_joined_tokens_have_a_scale_of_their_own(open_page):
    """Words sum over keys, so their weights can exceed every token's."""
    trace = make_mixer_trace(mixing(), pieces=[" ab", "c", "d", " e", "f", "g", " h", "i", " j", "k", "l", " m", "n"])
    tab = open_page(trace, by="words", first=("mixers", 0, 1))
    words = trace.map(0, 1, words=True)
    read = tab.evaluate(
        "document.querySelector('qkv-map').seen.queries.map((_, u) => [...document.querySelector('qkv-map').seen.row(u).weights])"
    )
    assert np.abs(np.array(read) - words).max() < CLOSE
    assert_signed(tab.locator("qkv-map .ramp b").last.inner_text()[1:], np.abs(words).max())


def test_lines_are_as_wide_as_the_sizes_and_red_below_0(open_page):
    trace = make_mixer_trace(mixing(delta=True))
    tab = open_page(trace, first=("mixers", 0, 1), lang="en")
    tab.evaluate("qkv.state.set({ query: 9, key: 3 })")
    until(tab, "document.querySelector('qkv-lines .near .chosen').textContent === 'w9'")
    lines = tab.evaluate(
        "[...document.querySelectorAll('qkv-lines path')].map((p) => [Number(p.getAttribute('stroke-width')), p.getAttribute('class') === 'below'])"
    )
    row = trace.row(0, 1, 9)
    sizes = np.abs(row) / np.abs(row).max()
    visible = sizes >= 0.002
    assert np.abs(np.array([width for width, _ in lines]) - (0.6 + 11 * sizes[visible])).max() < 1e-3
    assert [below for _, below in lines] == (row[visible] < 0).tolist()
    for text, true in zip(tab.locator("qkv-lines .far button i").all_inner_texts()[:10], row, strict=False):
        assert_signed(text, true)


@pytest.mark.parametrize(
    ("delta", "half"),
    slow_except([(True, False), (False, True)], itertools.product([False, True], repeat=2)),
)
def test_the_steps_have_exact_numbers(open_page, monkeypatch, delta, half):
    """q·k, L, β, their product and the change by later writes are exact to the last digit."""
    if half:
        monkeypatch.setattr(page_data, "MIN_PACKED_SHARE", 1e9)
    call = mixing(delta=delta)
    call.v.mul_(40)
    trace = make_mixer_trace(call)
    call64 = trace.head(0, 3).call.mapped(torch.Tensor.double)
    row = Trace({"mixers": [call64]}, trace.queries, trace.keys).row(0, 0, 10)
    q, k, write = call64.q[0, 0, 10], call64.k[0, 0], None if call64.write is None else call64.write[0, 0]
    dots, decays = k @ q, torch.stack([call64.decay[0, 0, j + 1 : 11].sum().exp() for j in range(13)])
    product = dots * 0.7 * decays * (write if delta else 1)
    columns = [dots, dots * 0.7, decays] + ([write, product, torch.from_numpy(row) - product] if delta else [])
    key = int((torch.from_numpy(row) - product)[:10].abs().argmax()) if delta else 4  # the one that writes changed most

    tab = open_page(trace, first=("mixers", 0, 3), lang="en")
    tab.evaluate(f"qkv.state.set({{ query: 10, key: {key} }})")
    until(tab, "document.querySelector('qkv-steps h3').textContent.includes('query 10')")
    rows = tab.evaluate(
        "[...document.querySelectorAll('qkv-steps tbody tr')].map((r) => [r.dataset.key, ...[...r.cells].slice(1).map((c) => c.textContent)])"
    )
    assert [int(j) for j, *_ in rows[:8]] == np.argsort(-np.abs(row), kind="stable")[:8].tolist()
    for j, *texts, weight, _ in rows:
        for text, column in zip(texts, columns, strict=True):
            assert_signed(text, float(column[int(j)]))
        assert_signed(weight, row[int(j)])
    output = tab.inner_text("qkv-steps .output code").strip("[]").split(",")
    for text, number in zip(output, row @ call64.v[0, 0].numpy(), strict=True):
        assert_signed(text.strip(), number)
    assert_signed(tab.inner_text("qkv-steps tfoot .sum td"), row.sum())

    true = [columns[1][key], decays[key], row[key]]
    if delta:
        # What write t took out of it: A[10, t]·β_key·(what the decays leave between key and t)·k_t·k_key.
        later = torch.arange(key + 1, 11)
        between = torch.stack([call64.decay[0, 0, key + 1 : t + 1].sum().exp() for t in later])
        removed = torch.from_numpy(row)[later] * write[key] * between * (k[later] @ k[key])
        assert float(product[key] - removed.sum()) == pytest.approx(row[key], abs=1e-6)
        largest = int(removed.abs().argmax())
        true = [columns[1][key], decays[key], write[key], product[key], row[key], -removed[largest]]
        assert f"that of w{int(later[largest])} (" in tab.inner_text("qkv-steps .pair")
    numbers = re.findall(r"[<>]?−?\d+\.\d+", tab.inner_text("qkv-steps .pair"))
    for text, number in zip(numbers, true, strict=True):
        assert_signed(text, float(number))
    factors, product = numbers[: 2 + delta], numbers[2 + delta]
    if product[0] not in "<>":
        unit = 10.0 ** -len(product.partition(".")[2])
        worked_out = np.prod([float(text.replace("−", "-")) for text in factors])
        assert abs(worked_out - float(product.replace("−", "-"))) <= 0.5001 * unit, numbers


@pytest.mark.parametrize("error", [0.0, 1e-6, 3e-4])
def test_a_product_equals_its_displayed_factors(elements, error):
    tab = elements("0")
    write = """({ pairs, error }) => pairs.map(([score, left]) => { const factors = [knownText(score, error), factor(left)];
        return [...factors, productText(score * left, error * left, factors)] })"""
    rng = np.random.default_rng(5)
    pairs = np.stack([rng.standard_normal(300) * 10.0 ** rng.integers(-2, 3, 300), rng.random(300) ** 3], 1)
    lines = tab.evaluate(write, dict(pairs=pairs.tolist(), error=error))
    for (score, decay), texts in zip(pairs, lines, strict=True):
        if texts[2][0] in "<>":
            continue
        a, b, product = (float(text.replace("−", "-")) for text in texts)
        unit = 10.0 ** -len(texts[2].partition(".")[2])
        assert abs(a * b - product) <= 0.5001 * unit and abs(score * decay - product) <= 0.5001 * unit, texts
    assert sum(len(product.partition(".")[2]) >= 2 for *_, product in lines) > 200


def test_a_sum_of_inexact_weights_shows_no_unknown_digit(open_page, monkeypatch):
    monkeypatch.setattr(page_data, "MIN_PACKED_SHARE", 1e9)
    call = mixing(n=60, delta=True, seed=3, width=16)
    call.decay.div_(8)
    trace = make_mixer_trace(call)
    call64 = trace.head(0, 0).call.mapped(torch.Tensor.double)
    tab = open_page(trace, first=("mixers", 0, 0), lang="en")
    for query in (20, 41, 59):
        tab.evaluate(f"qkv.state.set({{ query: {query}, key: 5 }})")
        until(tab, f"document.querySelector('qkv-steps h3').textContent.includes('query {query})')")
        row = Trace({"mixers": [call64]}, trace.queries, trace.keys).row(0, 0, query)
        assert_signed(tab.inner_text("qkv-steps tfoot .sum td"), row.sum())
        output = tab.inner_text("qkv-steps .output code").strip("[]").split(",")
        for text, number in zip(output, row @ call64.v[0, 0].numpy(), strict=True):
            assert_signed(text.strip(), number)


def test_an_initial_state_has_a_note(open_page):
    stateless = mixing()
    stateful = replace(stateless, state=torch.ones(1, 4, 5, 3))
    assert "A state came before" in open_page(make_mixer_trace(stateful), lang="en").inner_text("qkv-steps")
    for empty in (
        stateless,
        replace(stateless, state=torch.zeros(1, 4, 5, 3)),
    ):  # as a text that is traced in chunks has
        assert not build_page_data(make_mixer_trace(empty), LIMIT).header["parts"][0]["layers"][0]["state"]


def test_a_long_text_is_carried_by_n_and_pooled_by_size(open_page, tmp_path):
    """Two documents of 600 tokens: no data of size n², and a signed overview of layers that don't fit."""
    n, ids = 1200, [0] * 600 + [1] * 600
    calls = [mixing(n=n, heads=2, groups=1, width=8, delta=i > 0, documents=ids, seed=i) for i in range(3)]
    trace = make_mixer_trace(*calls, numbers=(0, 2, 5))
    limit = 132_000 + len(script(*PAGE).encode())  # one layer fits beside the pictures
    text = html(trace, limit=limit, layers=[2], lang="en")
    assert len(text.encode()) <= limit
    blocks = re.findall(r'id="qkv-([\w.]+)">([^<]*)</script>', text)
    assert max(len(block) for name, block in blocks if name != "header") < n * 8 * 4 * 4 / 3 + 6 * 64 * 64 * 2
    header = json.loads(re.search(r'id="qkv-header">(.*?)</script>', text).group(1))
    whole = [layer["number"] for layer in header["parts"][0]["layers"] if layer["q"]]
    assert {rule[0] for layer in header["parts"][0]["layers"] for rule in layer["mask"]} == {"band", "starts"}
    assert whole == [2]
    path = tmp_path / "long.html"
    path.write_text(text, encoding="utf-8")
    tab = open_page(path)
    for query in (300, 600, 1199):
        row = np.array(tab.evaluate("async (i) => [...(await qkv.row('mixers', 2, 1, i))]", query))
        assert np.abs(row - trace.row(2, 1, query)).max() < ROUGH * np.abs(trace.map(2, 1, bins=64, pool="max")).max()
    pooled = next(i for i, layer in enumerate(header["parts"][0]["layers"]) if not layer["q"])
    tab.evaluate(f"qkv.state.set({{ layer: {pooled}, head: 0 }})")
    until(tab, "document.querySelector('qkv-map .note').textContent")
    cells = trace.map(trace.layers()[pooled], 0, bins=64, pool="max")
    top = np.abs(cells).max()
    for i in (5, 40):
        cell = tab.evaluate(f"[...document.querySelector('qkv-map').seen.row({i}).weights]")
        assert np.abs(np.array(cell) - cells[i]).max() < top / 100


def test_the_largest_link_leaves_out_its_own_and_special_tokens():
    trace = make_mixer_trace(mixing(delta=True), mixing(seed=2), special=(3,))
    links = build_page_data(trace, LIMIT).header["parts"][0]["links"][0]
    for layer in range(2):
        for head in range(4):
            table = trace.map(layer, head).copy()
            table[:, 3] = table[3] = 0
            np.fill_diagonal(table, 0)
            i, j, weight = links[layer][head]
            assert (i, j) == np.unravel_index(np.abs(table).argmax(), table.shape)
            assert weight == pytest.approx(table[i, j], rel=1e-5)


@pytest.mark.parametrize(
    ("size", "lang"), slow_except([((400, 800), "en")], itertools.product([(1280, 800), (400, 800)], ["en", "zh"]))
)
def test_nothing_overflows(open_page, size, lang):
    tab = open_page(make_mixer_trace(mixing(n=40, heads=16, groups=2, delta=True)), size=size, lang=lang)
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
