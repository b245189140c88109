"""The page as a figure: only the requested pieces, small, with an address, and working in a frame."""

import json
import re
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from qkv.draw.page import PIECES, html, notebook_html
from qkv.i18n import Problem
from qkv.tracing import Trace
from tests.draw.pages import CLOSE, CONFIGS, make_trace, small_model, trace_rows, until, weights
from tests.selection import slow_except


def header(text):
    return json.loads(re.search(r'id="qkv-header">(.*?)</script>', text).group(1))


PIECE_SETS = [
    ("map",),
    ("lines",),
    ("steps",),
    ("lines", "map"),
    ("map", "lines", "steps"),
    ("overview",),
    ("map", "overview"),
]


@pytest.mark.parametrize("show", PIECE_SETS, ids=" ".join)
def test_any_pieces_in_reading_order(open_page, show):
    tab = open_page(make_trace(layers=2), show=show, ready=False, lang="en")
    tab.wait_for_selector("html[data-ready]")
    until(tab, "[...document.querySelectorAll('main .card')].every((card) => card.textContent)")
    there = tab.evaluate("[...document.querySelectorAll('main .card')].map((card) => card.localName)")
    assert there == [f"qkv-{piece}" for piece in PIECES if piece in show]
    assert tab.locator("qkv-top").count() == ("overview" in show)
    assert tab.evaluate("document.body.classList.contains('figure')") == ("overview" not in show)


def test_an_unknown_piece_is_refused():
    with pytest.raises(Problem, match="did you mean 'lines'"):
        html(make_trace(), show=("line",))
    with pytest.raises(Problem, match="overview, map, lines, steps"):
        html(make_trace(), show=())


def test_a_figure_contains_the_named_or_the_opened_layer():
    trace = replace(make_trace(layers=4), numbers={"decoder": (3, 5, 7, 9)})
    layers = lambda **options: [layer["number"] for layer in header(html(trace, **options))["parts"][0]["layers"]]  # noqa: E731
    assert layers(show=("map",), layers=[5, 9]) == [5, 9]
    assert layers(show=("map",), first=("decoder", 7, 1)) == [7]
    assert layers(show=("map",), first=("decoder", 7, 1), layers=[3]) == [3, 7]
    assert layers(show=("map",)) == layers(show=PIECES, layers=[5]) == [3, 5, 7, 9]
    with pytest.raises(Problem, match="layer 4 has no attention in this trace; these have: 3, 5, 7, 9"):
        html(trace, show=("map",), layers=[4])
    both = trace_rows(small_model(**CONFIGS["translator"]))
    figure_header = header(html(both, show=("map",), first=("cross", 1, 2)))
    assert [(part["name"], len(part["layers"])) for part in figure_header["parts"]] == [("cross", 1)]


@pytest.mark.parametrize("show", [("map",), ("map", "lines")], ids=" ".join)
def test_a_single_head_figure_is_small_and_exact(open_page, tmp_path, show):
    cat = Trace.load(str(files("qkv") / "demo" / "traces" / "cat-smollm2.safetensors"))
    text = html(cat, show=show, first=("decoder", 13, 8), lang="en")
    assert len(text.encode()) <= 200_000
    (tmp_path / "cat.html").write_text(text, encoding="utf-8")
    tab = open_page(tmp_path / "cat.html", ready=False)
    tab.wait_for_selector("html[data-ready]")
    assert np.abs(weights(tab, "decoder", 13, 8) - cat.map(13, 8)).max() < CLOSE
    assert tab.locator("qkv-map option").count() == 9  # heads; its layer is no choice
    assert tab.locator(".zoom").count() == 0


@pytest.mark.parametrize("size", [(1100, 800), (720, 500), (390, 800)], ids=str)
def test_no_figure_overflows(open_page, size):
    tab = open_page(make_trace(n=12, pieces=["supercalifragilistic"] * 12), show=("map", "lines", "steps"), size=size)
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
    cards = tab.evaluate(
        "[...document.querySelectorAll('.card')].map((c) => { const b = c.getBoundingClientRect(); return [b.left, b.right] })"
    )
    assert all(start >= 0 and end <= size[0] for start, end in cards)


VIEW = "(({ shown, ...chosen }) => chosen)(qkv.state.now)"


def address_of(path, address):
    return f"{path.as_uri()}#{address}"


@pytest.fixture
def translator_page(tmp_path):
    """Write a page with three parts and two texts, whose layers have the numbers 2 and 5."""
    trace = trace_rows(small_model(**CONFIGS["translator"]))
    trace = replace(trace, numbers={part: (2, 5) for part in trace.parts})
    path = tmp_path / "two.html"
    path.write_text(html(trace), encoding="utf-8")
    return path


def test_a_link_restores_the_view(open_page, translator_page):
    """The address stores the view, and opening it restores the view."""
    tab = open_page(translator_page)
    tab.click("qkv-overview [data-value=cross]")
    tab.select_option("qkv-overview select", "1")
    tab.click("[data-head='1.4']")
    until(tab, "document.querySelector('qkv-map').base.dataset.drawn")
    tab.focus(".stage")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    tab.click("qkv-map [data-value=words]")
    tab.focus(".stage")
    tab.keyboard.press("+")
    tab.evaluate("qkv.state.set({ scale: 'linear', way: 'to', pool: 'mean' })")
    tab.click("[data-value=zh]")
    tab.click("[data-value=dark]")
    until(tab, "location.hash.includes('theme=dark')")
    view, link = tab.evaluate(VIEW), tab.evaluate("location.hash.slice(1)")
    assert (view["part"], view["item"], view["layer"], view["head"]) == ("cross", 1, 1, 4)
    assert (view["unit"], view["lang"], view["theme"]) == ("words", "zh", "dark")
    assert "layer=5" in link  # the model's number
    again = open_page(translator_page, ready=False)
    again.goto("about:blank")
    open_page.errors.clear()
    again.goto(address_of(translator_page, link))
    again.wait_for_selector("html[data-ready]")
    there = again.evaluate(VIEW)
    assert [round(x, 2) for x in there.pop("zoom")] == [round(x, 2) for x in view.pop("zoom")]
    assert there == view
    until(again, "document.querySelector('qkv-map').base.dataset.drawn")
    assert again.get_attribute("html", "data-theme") == "dark" and again.get_attribute("html", "lang") == "zh-CN"
    assert again.inner_text("output.cell") == tab.inner_text("output.cell")


def test_a_changed_address_is_followed(open_page, translator_page):
    tab = open_page(translator_page)
    tab.evaluate("location.hash = 'part=cross&layer=2&head=3&query=4&key=7'")
    until(tab, "qkv.state.now.part === 'cross'")
    view = tab.evaluate(VIEW)
    assert [view[name] for name in ("layer", "head", "query", "key")] == [0, 3, 4, 7]
    tab.evaluate("location.hash = 'layer=5&head=1'")  # another head opens at what it does most
    until(tab, "qkv.state.now.head === 1")
    link = tab.evaluate("qkv.header.parts.find((part) => part.name === 'cross').links[0][1][1]")
    assert link is None or tab.evaluate("[qkv.state.now.query, qkv.state.now.key]") == link[:2]


INVALID = [
    "part=nowhere&layer=3&head=99&query=-1&key=1e1&unit=letters&lang=de&theme=pink",
    "layer=__proto__&head=&query=NaN&key=0x1&item=7",
    "%E0%A4%A&layer=%&=&&&head",
    "layer=2.0&head=1.5&query=9999999999999999999999&key=%00",
    "<script>alert(1)</script>",
    "x" * 100_000,
]


@pytest.mark.parametrize("address", slow_except(INVALID[:2], INVALID), ids=[f"odd {i}" for i in range(len(INVALID))])
def test_invalid_addresses_are_ignored(open_page, translator_page, address):
    tab = open_page(translator_page)
    before = tab.evaluate(VIEW)
    tab.evaluate(
        "(address) => { window.said = 0; addEventListener('hashchange', () => window.said++); location.hash = address }",
        address,
    )
    until(tab, "window.said === 1")
    assert tab.evaluate(VIEW) == before
    tab.evaluate("location.hash = 'head=1&theme=pink'")  # the rest of it counts
    until(tab, "qkv.state.now.head === 1")


def framed(tmp_path, text, address=""):
    """Write a page with the figure in a frame, which records the figure's messages."""
    (tmp_path / "figure.html").write_text(text, encoding="utf-8")
    parent = tmp_path / "parent.html"
    parent.write_text(
        "<!doctype html><link rel=icon href=data:,><script>window.told = []; addEventListener('message', (e) => told.push(e.data))</script>"
        f'<body><iframe src="figure.html{address}" style="width: 700px; height: 150px; border: 0"></iframe></body>',
        encoding="utf-8",
    )
    return parent


def test_in_a_frame_it_posts_its_height_and_follows_the_parents_theme(open_page, tmp_path):
    path = framed(tmp_path, html(make_trace(), show=("map", "lines"), lang="en"), "#lang=zh&theme=light")
    tab = open_page(path, ready=False)
    open_page.errors.clear()  # the frame's own file
    inside = tab.frames[1]
    inside.wait_for_selector("html[data-ready]")
    until(inside, "document.querySelector('qkv-map').base.dataset.drawn")
    height = "document.documentElement.offsetHeight"
    until(tab, "told.length")
    until(tab, f"told.at(-1).height === {inside.evaluate(height)}")
    assert tab.evaluate("told.every((one) => one.qkv === 'height' && Object.keys(one).length === 2)")
    before = inside.evaluate(height)
    tab.evaluate("""() => {
        const frame = document.querySelector("iframe");
        addEventListener("message", (event) => { frame.style.height = `${event.data.height}px` });
        frame.style.width = "390px";  // stacked, and taller
    }""")
    until(tab, f"told.at(-1).height > {before} + 100")
    # The frame has the height that was sent, and nothing scrolls.
    until(inside, "innerHeight === Math.ceil(document.documentElement.getBoundingClientRect().height)")
    assert inside.evaluate("document.documentElement.scrollHeight") == tab.evaluate("told.at(-1).height")

    theme = "document.documentElement.dataset.theme"
    assert inside.evaluate(theme) == "light" and inside.evaluate("document.documentElement.lang") == "zh-CN"
    send = "(said) => frames[0].postMessage(said, '*')"
    tab.evaluate(send, {"qkv": "theme", "theme": "dark"})
    until(inside, f"{theme} === 'dark'")
    for odd in (
        None,
        3,
        "theme",
        {"qkv": "theme"},
        {"qkv": "theme", "theme": "pink"},
        {"qkv": "head", "head": 1},
        {"theme": "light"},
    ):
        tab.evaluate(send, odd)
    inside.evaluate("postMessage({ qkv: 'theme', theme: 'light' }, '*')")  # not from its parent
    tab.wait_for_timeout(200)
    assert inside.evaluate(theme) == "dark" and inside.evaluate("qkv.state.now.head") == inside.evaluate(
        "qkv.header.first.head"
    )
    assert open_page.errors == []


def test_it_works_without_an_address_of_its_own(open_page, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><link rel=icon href=data:,><body>{notebook_html(make_trace())}</body>", encoding="utf-8"
    )
    tab = open_page(path, ready=False)
    tab.frame_locator("iframe").locator("html[data-ready]").wait_for()
    tab.frames[1].evaluate("qkv.state.set({ head: (qkv.state.now.head + 1) % 4 })")
    tab.wait_for_timeout(600)
