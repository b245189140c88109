"""The rotary figure in a browser: its numbers equal Python's and those of qkv's rotary positions."""

import itertools
import math
import re

import numpy as np
import pytest
import torch

from qkv.attention.positions import rotate_halves
from qkv.draw.rotary_figure import Pair, html, table_html
from qkv.i18n import Problem
from tests.draw.pages import assert_rounds_to, contrast
from tests.selection import slow_except

PAIRS = [
    Pair(),
    Pair(q=(0.8, -0.6), k=(2, 1), m=0, n=3, theta=0.7, most=4),
    Pair(k=(-1, 0.1), m=1, n=1, most=1, digits=2),
]


@pytest.fixture
def open_figure(open_page, tmp_path):
    def open_pair(pair, *, lang="en", **options):
        path = tmp_path / "rotary.html"
        path.write_text(html(pair, lang), encoding="utf-8")
        tab = open_page(path, ready=False, **options)
        tab.wait_for_selector("html[data-ready]")
        return tab

    return open_pair


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_rotation_equals_qkvs(pair):
    for name, position in (("q", pair.m), ("k", pair.n)):
        x = torch.tensor(getattr(pair, name), dtype=torch.float64)
        angle = torch.tensor([position * pair.theta], dtype=torch.float64)
        np.testing.assert_allclose(pair.turned(name), rotate_halves(x, angle.cos(), angle.sin()), atol=1e-12)
    table = pair.products()
    assert abs(table[pair.m, pair.n] - pair.product()) < 1e-12
    for offset in range(-pair.most, pair.most + 1):
        assert np.ptp(np.diagonal(table, offset)) < 1e-12


@pytest.mark.parametrize("pair", slow_except(PAIRS[1:2], PAIRS), ids=str)
def test_every_number_is_pythons(open_figure, pair):
    tab = open_figure(pair)
    for m in (pair.m, 0, pair.most):
        for n in (pair.n, pair.most, 0):
            tab.locator("input").nth(0).fill(str(m))
            tab.locator("input").nth(1).fill(str(n))
            now = Pair(pair.q, pair.k, m, n, pair.theta, pair.most, pair.digits)
            numbers = tab.evaluate("qkv.numbers")
            assert (numbers["m"], numbers["n"]) == (m, n)
            for name in "qk":
                np.testing.assert_allclose(numbers[name], now.turned(name), atol=1e-12)
            np.testing.assert_allclose(numbers["products"], now.products(), atol=1e-12)
            caption = tab.inner_text("p.told")
            assert_rounds_to(re.search(r"q·k = (−?[\d.]+\d)", caption).group(1), now.product())
            assert caption.endswith(f"m − n = {str(m - n).replace('-', '−')}.")
            same = tab.evaluate(
                "[...document.querySelectorAll('td.same')].map((td) => td.dataset.cell.split('.').map(Number))"
            )
            assert {i - j for i, j in same} == {m - n} and len(same) == pair.most + 1 - abs(m - n)
            assert tab.locator("td.here").count() == 1
    cells = tab.evaluate("[...document.querySelectorAll('td[data-cell]')].map((td) => td.textContent)")
    for text, true in zip(cells, pair.products().ravel(), strict=True):
        assert_rounds_to(text, true)


def test_the_static_tables_have_the_same_numbers():
    pair = PAIRS[1]
    for lang in ("en", "zh"):
        plain = table_html(pair, lang)
        cells = re.findall(r"<td>(−?\d+\.\d+)</td>", plain)
        true = [*pair.turned("q"), *pair.turned("k"), *pair.products().ravel()]
        assert "<script" not in plain and len(cells) == len(true)
        for text, x in zip(cells, true, strict=True):
            assert_rounds_to(text, x)


def test_moving_both_changes_nothing_and_the_keyboard_works(open_figure):
    tab = open_figure(Pair(m=5, n=2, most=9))
    product = "qkv.numbers.product"
    before = tab.evaluate(product)
    tab.focus(".on")
    for _ in range(9):
        tab.keyboard.press("Enter")
    assert tab.evaluate("[qkv.m, qkv.n]") == [9, 6] and tab.is_disabled(".on")
    assert abs(tab.evaluate(product) - before) < 1e-12
    assert [tab.locator("input").nth(i).input_value() for i in (0, 1)] == ["9", "6"]
    tab.locator("input").nth(1).focus()
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("[qkv.m, qkv.n]") == [9, 7] and abs(tab.evaluate(product) - before) > 1e-3
    assert tab.locator("input").nth(1).get_attribute("aria-valuetext") == "7"
    assert tab.locator("input").nth(1).get_attribute("aria-label") == "position of the key, n"


@pytest.mark.parametrize(
    ("width", "lang", "scheme"),
    slow_except([(390, "zh", "dark")], itertools.product([1280, 390], ["en", "zh"], ["light", "dark"])),
)
def test_it_fits_and_is_translated(open_figure, width, lang, scheme):
    tab = open_figure(Pair(), lang=lang, size=(width, 800), scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.get_attribute("html", "data-theme") == scheme
    assert min(contrast(tab, "td[data-cell]")) >= 4.5
    labels = tab.evaluate("[...document.querySelectorAll('[aria-label]')].map((e) => e.getAttribute('aria-label'))")
    text = tab.inner_text("main") + " ".join(labels)
    assert not re.search("[A-Za-z]{2}" if lang == "zh" else "[\u4e00-\u9fff]", text), text


@pytest.mark.parametrize(
    "settings",
    [dict(q=(0, 0)), dict(k=(1, 2, 3)), dict(m=10), dict(n=-1), dict(theta=math.nan), dict(most=99)],
    ids=str,
)
def test_invalid_settings_are_refused(settings):
    with pytest.raises(Problem):
        Pair(**settings)
