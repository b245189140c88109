"""The √d figure in a browser draws and computes the same as Python."""

import itertools
import re

import numpy as np
import pytest

from qkv.draw.dot_product_figure import WIDTHS, Draw, html, normals, table_html, uniforms
from qkv.i18n import Problem
from tests.draw.pages import assert_rounds_to, contrast
from tests.selection import slow_except


@pytest.fixture
def open_figure(open_page, tmp_path):
    def open_draw(draw, *, lang="en", **options):
        path = tmp_path / "distribution.html"
        path.write_text(html(draw, lang), encoding="utf-8")
        tab = open_page(path, ready=False, **options)
        tab.wait_for_selector("html[data-ready]")
        return tab

    return open_draw


def test_the_numbers_are_random():
    u, x = uniforms(3, 100_000), normals(3, 99_999)
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.005
    assert len(x) == 99_999 and abs(x.mean()) < 0.01 and abs(x.var() - 1) < 0.02
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01
    assert (normals(3, 5) == x[:5]).all() and (normals(4, 5) != x[:5]).all()


def test_wider_vectors_spread_by_the_root_of_their_width():
    draw = Draw(rows=256)
    for d in WIDTHS:
        assert abs(draw.products(d).std() / np.sqrt(d) - 1) < 0.12, d
    raw, scaled = ([draw.weights(d, by).max(1).mean() for d in WIDTHS] for by in (False, True))
    assert raw[0] < 0.5 and raw[-1] > 0.95 and max(scaled) < 0.5


@pytest.mark.parametrize(
    "draw", [Draw(), Draw(d=1, seed=2**32 - 1, rows=5, keys=3, digits=3), Draw(d=1024, seed=0, rows=1, keys=2)], ids=str
)
def test_every_number_is_pythons(open_figure, draw):
    tab = open_figure(draw)
    for d in (draw.d, 1, 32, 1024):
        tab.fill("input", str(WIDTHS.index(d)))
        numbers = tab.evaluate("qkv.numbers")
        assert numbers["d"] == d and tab.get_attribute("input", "aria-valuetext") == str(d)
        for side, scaled in (("raw", False), ("scaled", True)):
            ours, theirs = numbers[side], draw.products(d, scaled)
            np.testing.assert_allclose(ours["products"], theirs, atol=1e-9)
            np.testing.assert_allclose(ours["weights"], draw.weights(d, scaled)[0], atol=1e-9)
            reach = 4 if scaled else 100
            counts, _ = np.histogram(theirs.clip(-reach, reach - 1e-9), 40, (-reach, reach))
            assert ours["bars"] == counts.tolist()
            tall = tab.evaluate(
                f"[...document.querySelectorAll('[data-side={side}] rect')].map((r) => Number(r.getAttribute('height')))"
            )
            np.testing.assert_allclose(tall, counts[counts > 0] / counts.max() * 58, atol=1e-6)
            texts = tab.locator(f"[data-side={side}] .row span").all_inner_texts()
            for text, true in zip(texts, draw.weights(d, scaled)[0], strict=True):
                assert_rounds_to(text, true)
            for name, true in (("spread", theirs.std()), ("sharp", draw.weights(d, scaled).max(1).mean())):
                assert_rounds_to(tab.inner_text(f"[data-side={side}] .{name}").split(": ")[1], true)


def test_the_static_tables_have_the_same_numbers():
    draw = Draw(d=16, digits=3)
    for lang in ("en", "zh"):
        plain = table_html(draw, lang)
        true = []
        for d in WIDTHS:
            true += [draw.products(d, scaled).std() for scaled in (False, True)]
            true += [draw.weights(d, scaled).max(1).mean() for scaled in (False, True)]
        true += [x for scaled in (False, True) for x in draw.weights(16, scaled)[0]]
        cells = re.findall("<td>(.*?)</td>", plain)
        assert "<script" not in plain and len(cells) == len(true)
        for text, x in zip(cells, true, strict=True):
            assert_rounds_to(text, x)


def test_keyboard_alone(open_figure):
    tab = open_figure(Draw(d=64))
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("qkv.d") == 128 and tab.inner_text(".slider output") == "128"
    tab.keyboard.press("Home")
    assert tab.evaluate("qkv.d") == 1


@pytest.mark.parametrize(
    ("width", "lang", "scheme"),
    slow_except([(390, "zh", "dark")], itertools.product([1280, 390], ["en", "zh"], ["light", "dark"])),
)
def test_it_fits_and_is_translated(open_figure, width, lang, scheme):
    tab = open_figure(Draw(), lang=lang, size=(width, 800), scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.get_attribute("html", "data-theme") == scheme
    assert min(contrast(tab, ".row span")) >= 4.5
    labels = tab.evaluate("[...document.querySelectorAll('[aria-label]')].map((e) => e.getAttribute('aria-label'))")
    text = tab.inner_text("main") + " ".join(labels)
    assert not re.search("[A-Za-z]{2}" if lang == "zh" else "[\u4e00-\u9fff]", text), text


@pytest.mark.parametrize(
    "settings", [dict(d=3), dict(d=2048), dict(rows=0), dict(keys=1), dict(seed=-1), dict(digits=7)], ids=str
)
def test_invalid_settings_are_refused(settings):
    with pytest.raises(Problem):
        Draw(**settings)
