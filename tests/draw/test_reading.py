"""Labels on the page never touch, displayed digits are exact, and progress is shown."""

import itertools
import re

import numpy as np
import pytest

from qkv.attention.dispatch import Call
from qkv.draw import page_data
from qkv.draw.page import LIMIT, html
from qkv.draw.page_data import build_page_data
from qkv.draw.precision import ERRORS, measure_errors
from qkv.i18n import Problem
from qkv.tracing.study.survey import plain
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace, join
from tests.draw.pages import CLOSE, assert_rounds_to, make_trace, until
from tests.selection import slow_except


def test_a_page_is_float32_where_that_fits_else_float16_where_that_is_exact_enough(monkeypatch):
    fine, rough = make_trace(), make_trace()
    for call in rough.calls["decoder"]:  # far from 0 and close together: what float16 can't tell apart
        call.q.add_(30), call.k.div_(30).add_(30)
    headers = build_page_data(fine, LIMIT).header
    assert {headers["parts"][0]["layers"][0][what]["dtype"] for what in "qkv"} == {"f4"}
    assert headers["parts"][0]["precision"] == dict(dtype="float32", error="0.000001")
    monkeypatch.setattr(page_data, "MIN_PACKED_SHARE", 1e9)
    headers = [build_page_data(trace, LIMIT).header for trace in (fine, rough)]
    assert [header["parts"][0]["layers"][0]["q"]["dtype"] for header in headers] == ["f2", "f4"]
    precision = headers[0]["parts"][0]["precision"]
    assert precision["dtype"] == "float16" and float(precision["error"]) >= 1e-6
    halved = plain(fine.calls["decoder"][0])
    off = (
        (
            halved.weights()
            - Call(halved.q.half().float(), halved.k.half().float(), halved.v, halved.mask, halved.scale).weights()
        )
        .abs()
        .max()
    )
    assert off <= float(precision["error"])


@pytest.mark.parametrize("room", [LIMIT, 200_000], ids=["whole", "overview only"])
def test_captions_of_a_float16_trace_have_only_true_digits(open_page, tmp_path, room):
    """The exact weight rounds to the displayed one; "≈" marks an uncertain last digit."""
    exact = make_trace(n=24, layers=8, heads=6)
    exact.save(tmp_path / "half.safetensors", half=True)
    path = tmp_path / "half.html"
    path.write_text(html(Trace.load(tmp_path / "half.safetensors"), lang="en", limit=room), encoding="utf-8")
    tab = open_page(path)
    read = (
        "[...document.querySelectorAll('qkv-overview [data-head]')].map((cell) => [cell.dataset.head, cell.ariaLabel])"
    )
    captions = re.compile(r"· most: w(\d+) → w(\d+) (≈?)(\d\.\d+)$")
    certain = 0
    for address, label in tab.evaluate(read):
        layer, head = map(int, address.split("."))
        i, j, mark, digits = captions.search(label).groups()
        true = exact.map(layer, head)[int(i), int(j)]
        unit = 10.0 ** -len(digits.partition(".")[2])
        assert abs(float(digits) - true) <= unit / (1 if mark else 2) + 1e-9, (label, true)
        certain += not mark
    assert certain > 40  # of 48


def test_a_float16_trace_shows_only_exact_digits(open_page, tmp_path):
    exact = make_trace(n=14, layers=3)
    exact.save(tmp_path / "half.safetensors", half=True)
    exact.save(tmp_path / "full.safetensors")
    half, full = (Trace.load(tmp_path / f"{name}.safetensors") for name in ("half", "full"))
    half.save(tmp_path / "again.safetensors")  # float32 now, of numbers that were rounded before
    again = Trace.load(tmp_path / "again.safetensors")
    for layer in range(3):
        true, call = exact.calls["decoder"][layer], half.calls["decoder"][layer]
        errors = measure_errors(half, call)
        assert measure_errors(full, full.calls["decoder"][layer]) == ERRORS
        assert measure_errors(again, again.calls["decoder"][layer]) == errors
        assert 0 < float((plain(call).weights() - plain(true).weights()).abs().max()) <= errors["weight"] < 5e-3
        assert 0 < float((call.q[0, 0] @ call.k[0, 0].T - true.q[0, 0] @ true.k[0, 0].T).abs().max()) <= errors["dot"]
        assert 0 < float((call.v - true.v).abs().max()) <= errors["value"]
    header = build_page_data(half, LIMIT).header["parts"][0]
    assert header["precision"]["dtype"] == "float16" and float(header["precision"]["error"]) > 1e-5
    cells = []
    for trace in (half, full):
        tab = open_page(trace, lang="en", first=("decoder", 0, 1))
        tab.evaluate("qkv.state.set({ query: 13, key: 3 })")
        until(tab, "document.querySelector('qkv-steps h3').textContent.includes('query 13')")
        rows = tab.evaluate(
            "[...document.querySelectorAll('qkv-steps tbody tr')].map((r) => [r.dataset.key, ...[...r.cells].slice(1).map((c) => c.textContent)])"
        )
        cells.append({int(j): (dot, weight) for j, dot, _, _, weight, _ in rows})
    true = exact.row(0, 1, 13)
    dots = (exact.calls["decoder"][0].q[0, 1, 13] @ exact.calls["decoder"][0].k[0, 0].T).tolist()
    for j in cells[0].keys() & cells[1].keys():
        for by_key in cells:
            assert_rounds_to(by_key[j][1], true[j])
            text = by_key[j][0].replace("−", "-")
            assert abs(float(text) - dots[j]) <= 10.0 ** -len(text.partition(".")[2])
    assert (
        max(len(weight) for _, weight in cells[0].values()) <= 5 < max(len(weight) for _, weight in cells[1].values())
    )


def test_float16_is_used_only_if_float32_does_not_fit():
    """With less room: all in float32, then all in float16, then some layers; never more than the room."""
    trace = make_trace(n=200, layers=4, heads=2, groups=1, width=16)
    sizes = []
    for room in range(400_000, 20_000, -20_000):
        data = build_page_data(trace, room)
        layers = data.header["parts"][0]["layers"]
        assert sum(map(len, data.blocks.values())) <= room or not any(layer["q"] for layer in layers)
        kinds = {layer[what]["dtype"] for layer in layers for what in "qkv" if layer[what]}
        sizes.append(
            (len(kinds) == 1 and kinds == {"f4"}, sum(bool(layer[what]) for layer in layers for what in "qkv"))
        )
        assert not sizes[-1][0] or sizes[-1][1] == 12
    assert (
        sizes == sorted(sizes, reverse=True) and sizes[0] == (True, 12) and (False, 12) in sizes and sizes[-1][1] < 12
    )


@pytest.mark.parametrize(("room", "decimals"), [(LIMIT, 5), (None, 3)], ids=["float32", "float16"])
def test_every_displayed_digit_is_correct(open_page, monkeypatch, room, decimals):
    if room is None:
        monkeypatch.setattr(page_data, "MIN_PACKED_SHARE", 1e9)
    trace = make_trace(n=14, width=16, heads=2, groups=1, softcap=6.0)
    call = trace.calls["decoder"][0]
    call.v.mul_(40)
    tab = open_page(trace, lang="en")
    longest = 0
    for query in (3, 8, 13):
        tab.evaluate(f"qkv.state.set({{ layer: 0, head: 1, query: {query}, key: 2, way: 'from' }})")
        until(tab, f"document.querySelector('qkv-steps h3').textContent.includes('query {query})')")
        steps = trace.steps(0, 1, query)
        assert_rounds_to(tab.inner_text("output.cell b"), steps.weights[0, 2])
        longest = max(longest, len(tab.inner_text("output.cell b").partition(".")[2]))
        rows = tab.evaluate(
            "[...document.querySelectorAll('qkv-steps tbody tr')].map((r) => [r.dataset.key, ...[...r.cells].map((c) => c.textContent)])"
        )
        for key, _, dot, scaled, capped, masked, weight, value in rows:
            j = int(key)
            assert_rounds_to(dot, float(call.q[0, 1, query].double() @ call.k[0, 0, j].double()))
            assert_rounds_to(scaled, steps.scores[0, j] * call.scale)
            assert_rounds_to(weight, steps.weights[0, j])
            if j <= query:
                assert_rounds_to(capped, steps.masked[0, j]), assert_rounds_to(masked, steps.masked[0, j])
            for text, true in zip(value.split(), call.v[0, 0, j].tolist(), strict=False):
                assert_rounds_to(text, true)
        code = tab.inner_text("qkv-steps .output code").strip("[]…").split(",")
        for text, true in zip(code, steps.output[0], strict=False):
            if text.strip():
                assert_rounds_to(text.strip(), true)
        near = tab.evaluate("[...document.querySelectorAll('qkv-lines .far button i')].map((i) => i.textContent)")
        for j, text in enumerate(near[: query + 1]):
            assert_rounds_to(text, steps.weights[0, j])
    assert longest == decimals


# Whatever is written on the map's upper canvas since it was last cleared, as boxes of ink on the canvas.
INK = """
const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
window.ink = [];
CanvasRenderingContext2D.prototype.clearRect = function (...at) {
  if (this.canvas.className === "cross") window.ink = [];
  return clearRect.apply(this, at);
};
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const m = this.measureText(text), t = this.getTransform();
  const corners = [[x - m.actualBoundingBoxLeft, y - m.actualBoundingBoxAscent], [x + m.actualBoundingBoxRight, y + m.actualBoundingBoxDescent]]
    .map(([a, b]) => [t.a * a + t.c * b + t.e, t.b * a + t.d * b + t.f]);
  const sides = [0, 1].map((d) => corners.map((corner) => corner[d]).sort((a, b) => a - b));
  if (this.canvas.className === "cross") window.ink.push([text, ...sides[0], ...sides[1]]);
  return fillText.call(this, text, x, y);
};
"""


def make_labelled_trace(kind, n):
    """Return a trace of n tokens: English words, Chinese characters, or bytes of characters."""
    if kind == "english":
        pieces = [
            (" " + word,) for word in "The quick gypsies (jumping) vexed Åke, whose incomprehensibility fled".split()
        ]
    elif kind == "chinese":
        pieces = [(character,) for character in "今天天气很好，我们一起去公园散步吧。"]
    else:
        pieces = [
            (character, *["<8A>"] * parts)
            for character, parts in zip("今天天气很好我们一起去", [1, 1, 1, 2, 1, 2] * 2, strict=False)
        ]
        pieces += [("，",), (" ok",), ("👩‍👧", "<8A>", "<8A>", "<8A>")]
    flat, whole = [], []
    while len(flat) < n:
        group = pieces[len(whole) % len(pieces)]
        whole.append((group[0], len(flat), min(len(flat) + len(group), n)))
        flat += group
    trace = make_trace(n=n, heads=1, groups=1, width=4)
    tokens = [Tokens(tuple(flat[:n]), whole=tuple(whole))]
    return Trace(trace.calls, {"decoder": tokens}, {"decoder": tokens}, "made", "")


def overlaps(boxes):
    """Return the pairs of boxes that overlap by more than half a pixel in both directions."""
    text, lefts, rights, tops, bottoms = (np.array([box[i] for box in boxes]) for i in range(5))
    widths = np.minimum(rights[:, None], rights) - np.maximum(lefts[:, None], lefts)
    heights = np.minimum(bottoms[:, None], bottoms) - np.maximum(tops[:, None], tops)
    both = np.triu((widths > 0.5) & (heights > 0.5), 1)
    return [(text[i], text[j]) for i, j in zip(*both.nonzero(), strict=True)]


@pytest.mark.parametrize(
    ("kind", "n"),
    slow_except([("english", 47), ("bytes", 26)], itertools.product(["english", "chinese", "bytes"], [26, 47, 130])),
)
def test_labels_never_touch(open_page, kind, n):
    """By tokens, characters and words, at several widths and zooms, selected and hovered."""
    trace = make_labelled_trace(kind, n)
    tab = open_page(trace, script=INK)
    units = ["tokens", "characters", "words"] if kind == "bytes" else ["tokens", "words"]
    assert tab.evaluate("qkv.state.now.unit") == ("characters" if kind == "bytes" else "tokens")
    assert (
        tab.evaluate("[...document.querySelectorAll('qkv-map .title [role=radio]')].map((b) => b.dataset.value)")
        == units
    )
    for unit in units:
        tab.evaluate(f"qkv.state.set({{ unit: '{unit}', query: {n - 1}, key: {n // 2} }})")
        steps = len(trace.tokens().groups(unit))
        until(tab, f"document.querySelector('qkv-map').seen.keys.length === {steps}")
        for width in (1440, 800, 380):
            tab.set_viewport_size(dict(width=width, height=900))
            until(tab, "(() => { const m = document.querySelector('qkv-map'); return m.wide === m.clientWidth })()")
            tab.evaluate("document.querySelector('qkv-map').whole()")
            for zoom in range(3):
                case = unit, width, zoom
                boxes = tab.evaluate("window.ink")
                assert overlaps(boxes) == [], case
                assert len(boxes) >= min(steps, 6), case
                hovered = "(() => { const m = document.querySelector('qkv-map'); m.hover = { u: 0, c: 1 % m.seen.keys.length }; m.crosshair(); return window.ink })()"
                assert overlaps(tab.evaluate(hovered)) == [], case
                tab.evaluate("document.querySelector('qkv-map').zoom(1.7)")
    if kind == "bytes" and n == 47:  # the narrow columns of a character's tokens share its label
        tab.set_viewport_size(dict(width=1440, height=900))
        tab.evaluate("qkv.state.set({ unit: 'tokens', query: 0, key: 0 }); document.querySelector('qkv-map').whole()")
        until(tab, "document.querySelector('qkv-map').seen.keys.length === 47")
        labels = [text for text, *_ in tab.evaluate("document.querySelector('qkv-map').crosshair(), window.ink")]
        assert labels.count("今") >= 2 and "今₂" not in labels


def test_characters_are_joined_as_in_python(open_page):
    trace = make_labelled_trace("bytes", 47)
    tab = open_page(trace)
    groups = trace.tokens().groups()
    read = tab.evaluate(
        "(() => { const v = document.querySelector('qkv-map').seen; return v.queries.map((_, u) => [...v.row(u).weights]) })()"
    )
    assert np.abs(np.array(read) - join(trace.map(0, 0), groups, groups)).max() < CLOSE
    assert open_page(trace, by="words").evaluate("qkv.state.now.unit") == "words"
    assert open_page(trace, by="tokens").evaluate("qkv.state.now.unit") == "tokens"
    with pytest.raises(Problem):
        html(trace, by="letters")


@pytest.mark.parametrize(("lang", "word"), slow_except([("zh", "计算中")], [("en", "computing"), ("zh", "计算中")]))
def test_a_page_shows_its_progress(open_page, long, tmp_path, lang, word):
    """A progress text is shown from the first paint to the last row of the picture."""
    path = tmp_path / "long.html"
    path.write_text(html(long, layers=[4], lang=lang, first=("decoder", 4, 1)), encoding="utf-8")
    # Each change of what is told, as it happens; the page is done long before a test could look twice.
    watch = """
window.said = [];
new MutationObserver(() => {
  const told = document.querySelector(".computing:not([hidden])")?.textContent ?? "";
  if (told !== window.said.at(-1)) window.said.push(told);
}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
"""
    tab = open_page(path, script=watch)
    messages = tab.evaluate("window.said")
    shares = [int(percentages[0]) for text in messages if (percentages := re.findall(r"(\d+) ?%", text))]
    assert any(word in text for text in messages) and len(shares) > 2 and shares == sorted(shares), messages
    assert messages[-1] == "" and tab.locator(".computing:visible").count() == 0
    # Before any script has run there is a sentence too.
    static_html = path.read_text("utf-8").split('<script type="module"')[0]
    assert "opening…" in static_html if lang == "en" else "正在打开" in static_html
    assert tab.locator("#qkv-opening").count() == 0


@pytest.mark.parametrize("n", [1, 2, 30])
def test_a_map_is_not_stretched(open_page, n):
    tab = open_page(make_trace(n=n, heads=1, groups=1))
    drawn, displayed = tab.evaluate("""(() => { const { base } = document.querySelector('qkv-map');
        return [[base.width, base.height], [base.clientWidth, base.clientHeight]] })()""")
    assert np.abs(np.array(drawn) - displayed).max() <= 1
