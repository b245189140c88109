"""Exports of a map: pixels of the PNG, colours and texts of the SVG, numbers of the CSV, the link."""

import base64
import csv
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from qkv.draw.page import notebook_html
from qkv.tracing.views.traces import Trace
from tests.draw.pages import CLOSE, make_trace, until
from tests.selection import slow_except

MAP = "document.querySelector('qkv-map')"
SHARP = f"{MAP}.seen && {MAP}.base.dataset.drawn === String({MAP}.drawing)"
ODD_TOKENS = ['say "no"', "a,b", "<b>", "line\nbreak", "=1+1", "我们", "\u0007bell", "&amp;", "שלום"]


def export(tab, kind):
    """Return the file that the menu exports."""
    if not tab.locator(".takeaway[open]").count():
        tab.click(".takeaway summary")
    with tab.expect_download() as download:
        tab.click(f"[data-take={kind}]")
    assert download.value.suggested_filename.endswith("." + kind)
    until(tab, "document.querySelector('qkv-takeaway .help').textContent")
    return download.value.path().read_bytes()


def pixels(tab, script):
    """Return the pixels of a canvas."""
    url = tab.evaluate(f"(async () => (await ({script})).toDataURL())()")
    return np.array(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGBA"))


# Both canvases as they lie over each other on the card.
SCREEN = f"""(() => {{ const {{ base, cross }} = {MAP}, canvas = document.createElement('canvas'); canvas.width = base.width; canvas.height = base.height;
    const pen = canvas.getContext('2d'); pen.fillStyle = getComputedStyle(document.querySelector('.card')).backgroundColor; pen.fillRect(0, 0, 9999, 9999);
    pen.drawImage(base, 0, 0); pen.drawImage(cross, 0, 0); return canvas }})()"""


@pytest.mark.parametrize("scheme", slow_except(["dark"], ["light", "dark"]))
def test_the_picture_is_the_canvas(open_page, scheme):
    tab = open_page(make_trace(special=(2,)), scheme=scheme)
    tab.evaluate("qkv.state.set({ query: 5, key: 2 })")
    picture = np.array(Image.open(io.BytesIO(export(tab, "png"))).convert("RGBA"))
    assert np.array_equal(picture, pixels(tab, SCREEN)) and len(np.unique(picture.reshape(-1, 4), axis=0)) > 20


def test_the_drawing_has_the_same_cells_and_texts(open_page):
    """The browser renders the SVG with the canvas's colours in every cell; its labels are texts."""
    trace = make_trace(special=(2,))
    tab = open_page(trace, first=("decoder", 0, 1))
    tab.evaluate("qkv.state.set({ query: 5, key: 4 })")
    drawing = export(tab, "svg").decode()
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    assert (
        sorted(texts) == sorted(2 * [f"w{i}" for i in range(9)]) and "<title>made, layer 0, head 1</title>" in drawing
    )
    assert "image-rendering: pixelated" in drawing and drawing.count("<image") == 1
    redrawn = pixels(
        tab,
        f"""new Promise((done) => {{ const image = new Image(), canvas = document.createElement('canvas'); canvas.width = {MAP}.base.width; canvas.height = {MAP}.base.height;
        image.onload = () => {{ canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height); done(canvas) }};
        image.src = 'data:image/svg+xml,' + encodeURIComponent({drawing!r}) }})""",
    )
    screen = pixels(tab, SCREEN)
    plot_x, plot_y, size = tab.evaluate(f"[{MAP}.plot.left, {MAP}.plot.top, {MAP}.frame.size]")
    for i in range(9):
        for j in range(i + 1):
            y, x = round(plot_y + (i + 0.4) * size), round(plot_x + (j + 0.4) * size)
            assert np.abs(screen[y, x].astype(int) - redrawn[y, x]).max() <= 1, (i, j)
    hidden = redrawn[
        round(plot_y + 2 * size) + 4 : round(plot_y + 3 * size) - 4,
        round(plot_x + 6 * size) + 4 : round(plot_x + 7 * size) - 4,
    ]
    assert len(np.unique(hidden.reshape(-1, 4), axis=0)) > 1  # hatched


def rows_of(text):
    lines = list(csv.reader(io.StringIO(text.decode("utf-8-sig"), newline="")))
    assert lines[0] == ["query", "query token", "key", "key token", "weight"]
    return lines[1:]


def test_the_numbers_are_pythons(open_page):
    trace = make_trace(pieces=ODD_TOKENS)
    tab = open_page(trace, first=("decoder", 0, 2))
    lines = rows_of(export(tab, "csv"))
    labels = trace.tokens().numbered
    table = trace.map(0, 2)
    assert len(lines) == 45  # what is hidden isn't there
    for i, query, j, key, weight in lines:
        assert query == labels[int(i)] and key == labels[int(j)]
        assert (
            abs(float(weight) - table[int(i), int(j)]) < CLOSE and len(weight.partition(".")[2]) == 5
        )  # as many as are known
    # Of what is in view only.
    tab.evaluate(f"qkv.state.set({{ query: 7, key: 1 }}); {MAP}.zoom(2)")
    until(tab, SHARP)
    assert 4 <= len(rows_of(export(tab, "csv"))) < 45


def test_a_drawing_of_any_token_is_valid_xml(open_page):
    """With any tokens the file is valid XML with the tokens as texts."""
    trace = make_trace(pieces=ODD_TOKENS)
    tab = open_page(Trace(trace.calls, trace.queries, trace.keys, "</title><script>alert(1)</script>", ""))
    drawing = export(tab, "svg").decode()
    read = "(text) => { const read = new DOMParser().parseFromString(text, 'image/svg+xml'); return [read.querySelector('parsererror, script')?.outerHTML, [...read.querySelectorAll('text')].map((one) => one.textContent)] }"
    wrong, texts = tab.evaluate(read, drawing)
    assert wrong is None and "<b>" in texts and "&amp;" in texts


def test_characters_invalid_in_xml_are_replaced(elements):
    tab = elements(
        """show(random({ mark: "\\u0007\\ud800" })); document.querySelector('main').append(h('qkv-map', { class: 'card' }))"""
    )
    until(tab, SHARP)
    drawing = tab.evaluate(f"(async () => (await import('./map/map_export.js')).svgOf({MAP}))()")
    assert ElementTree.fromstring(drawing).findall("{*}text")[0].text.startswith("\ufffd\ufffd")


def test_a_long_map_exports_the_visible_cells(elements):
    tab = elements(
        """window.source = random({ n: 1100, heads: 1, layers: 1, tiled: true }); show(source);
        document.querySelector('main').append(h('qkv-map', { class: 'card' }))"""
    )
    until(tab, SHARP)
    lines = tab.evaluate(f"(async () => (await import('./map/map_export.js')).csvOf({MAP}))()")
    lines = rows_of(lines.encode())
    assert len(lines) == 275 * 276 / 2 and lines[-1][:4] == ["1096–1099", "w1096 … w1099"] * 2
    for i, _, j, _, weight in lines[::2997]:
        starts = [int(label.split("–")[0]) for label in (i, j)]
        cell = "async ([r, c]) => { const one = await source.head(0, 0, 0, 0); return [0, 1, 2, 3].flatMap((i) => [...one.row(r + i).weights.slice(c, c + 4)]) }"
        assert abs(float(weight) - max(tab.evaluate(cell, starts))) < CLOSE
    drawing = tab.evaluate(
        f"(async () => {{ const {{ svgOf }} = await import('./map/map_export.js'); return svgOf({MAP}) }})()"
    )
    assert drawing.count("<image") == 1 and "data:image/png" in drawing


def test_the_link_opens_the_same_view(open_page):
    tab = open_page(make_trace(), lang="en")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.evaluate("qkv.state.set({ head: 3, query: 6, key: 2, sink: 'hidden' })")
    tab.click(".takeaway summary")
    tab.click("[data-take=link]")
    until(tab, "document.querySelector('qkv-takeaway .help').textContent === 'Copied.'")
    link = tab.evaluate("navigator.clipboard.readText()")
    assert link.endswith("#layer=0&head=3&query=6&key=2&sink=hidden")
    for close in (lambda: None, lambda: tab.keyboard.press("Escape"), lambda: tab.mouse.click(5, 5)):
        close()  # by having been used, by Escape wherever the focus is, by a click elsewhere
        assert tab.locator(".takeaway[open]").count() == 0
        assert tab.evaluate("document.activeElement.tagName") in ("SUMMARY", "BODY")
        tab.click(".takeaway summary")
        until(tab, "document.querySelector('qkv-takeaway > .help').innerText === ''")  # "toggle" comes after the click
        tab.evaluate("document.activeElement.blur()")


def test_no_export_menu_where_saving_is_impossible(open_page, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><link rel=icon href=data:,><body>{notebook_html(make_trace())}</body>", encoding="utf-8"
    )
    tab = open_page(path, ready=False)
    tab.frame_locator("iframe").locator("html[data-ready]").wait_for()
    assert tab.frame_locator("iframe").locator(".takeaway").count() == 0
    assert (
        open_page(make_trace(), show=("map",), ready=False).locator(".takeaway").count() == 0
    )  # a figure stands in a text
