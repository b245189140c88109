"""The machine in a browser: after any edit its numbers equal the oracle's; explanations, highlights, keyboard."""

import itertools
import math
import random
import re
from itertools import pairwise

import numpy as np
import pytest

from qkv.draw.head_machine import STAGES, TABLES, Machine, html, table_html
from qkv.i18n import Problem
from tests.draw.pages import contrast, until
from tests.selection import slow_except

RNG = np.random.default_rng(7)


def tenths(*shape):
    return RNG.integers(-20, 21, shape) / 10


WORDS = ["我", "爱", "你"]
MACHINES = {
    "3 × 2 from x, causal": dict(
        words=WORDS, x=tenths(3, 2), w_q=tenths(2, 2), w_k=tenths(2, 2), w_v=tenths(2, 2), mask="causal", query="你"
    ),
    "3 × 2, W left out": dict(words=WORDS, x=tenths(3, 2), w_k=tenths(2, 2), scale=0.3),
    "5 × 3 from q, k, v": dict(words="abcde", q=tenths(5, 3), k=tenths(5, 3), v=tenths(5, 3), scale="none"),
    "5 × 3, values of width 1": dict(words="abcde", q=tenths(5, 3), k=tenths(5, 3), v=tenths(5, 1), mask=np.eye(5)),
    "1 × 1": dict(words=["x"], x=[[2]], w_q=[[1]], w_k=[[-1]], w_v=[[0.5]], mask=[[True]]),
    "cross 2 × 4": dict(
        words=["I", "am"],
        x=tenths(2, 3),
        memory=tenths(4, 3),
        key_words="wxyz",
        w_q=tenths(3, 2),
        w_k=tenths(3, 2),
        mask="causal",
    ),
    "q and k alone": dict(words=WORDS, q=tenths(3, 2), k=tenths(4, 2), key_words="abcd", mask=RNG.random((3, 4)) > 0.4),
    "scores alone": dict(
        words=["I", "am"], scores=tenths(2, 4), key_words="abcd", show=("scores", "masked", "weights")
    ),
    "scores and values": dict(words=["I"], scores=tenths(1, 3), v=tenths(3, 2), key_words="abc", scale=2.0),
}


def machine(name, **more):
    return Machine(**{**MACHINES[name], **more})


@pytest.fixture
def open_machine(open_page, tmp_path):
    """Open a machine; `open_page` fails if anything is requested, logged or raised."""

    def open_tab(machine, *, lang="en", **options):
        path = tmp_path / "machine.html"
        path.write_text(html(machine, lang), encoding="utf-8")
        tab = open_page(path, ready=False, **options)
        tab.wait_for_selector("html[data-ready]")
        return tab

    return open_tab


def cell(name, i, j):
    return f"[data-cell='{name}.{i}.{j}']"


def texts(tab):
    """Return the displayed numbers: table → rows of texts."""
    read = tab.evaluate(
        """[...document.querySelectorAll('[data-table]')].map((one) => [one.dataset.table,
        [...one.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('[data-cell]')].map((c) => c.value || c.textContent))])"""
    )
    return dict(read)


def number(text):
    special = {"−∞": -math.inf, "■": 1.0, "·": 0.0}
    return special[text] if text in special else float(text.replace("−", "-"))


def assert_oracles(tab, machine):
    """Assert that displayed numbers are exact to their digits and computed ones to 1e-12."""
    true = machine.tables()
    assert list(texts(tab)) == [name for stage in machine.stages for name in TABLES[stage] if name in true]
    for name, rows in texts(tab).items():
        read = np.array([[number(text) for text in row] for row in rows])
        assert read.shape == true[name].shape, name
        digits = 4 if getattr(machine, name, None) is not None else machine.digits
        finite = np.isfinite(true[name])
        assert (np.isfinite(read) == finite).all(), name
        assert np.abs(read[finite] - true[name][finite]).max(initial=0) <= 0.5 * 10**-digits + 1e-9, name
    stages = tab.evaluate("Object.fromEntries(Object.entries(qkv.stages).filter(([, table]) => table))")
    for name in ("q", "k", "v", "scores", "scaled", "masked", "weights", "output"):
        assert (name in stages) == (name in true), name
        if name in stages:
            ours, theirs = np.array(stages[name], float), true[name]
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12, err_msg=name)


TYPE = """([cell, text]) => { const field = document.querySelector(cell);
    field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })) }"""


def edit_screen(tab, machine, rng):
    """Make one edit on the screen and return the resulting machine."""
    fields = [
        name
        for name in ("x", "memory", "w_q", "w_k", "w_v", "q", "k", "v", "scores")
        if getattr(machine, name) is not None
    ]
    fields = [name for name in fields if tab.locator(f"[data-table={name}]").count()]
    edits = ["number"] * 6 + ["mask"] * 3 * tab.locator("[data-table=mask]").count()
    edits += ["scale"] * 2 * tab.locator(".scaling").count()
    edit = rng.choice(edits)
    fields_now = {name: getattr(machine, name) for name in Machine.__dataclass_fields__ if name != "_"} | {
        "show": machine.stages
    }
    if edit == "number":
        name = rng.choice(fields)
        table = np.array(fields_now[name], float)
        i, j = rng.randrange(table.shape[0]), rng.randrange(table.shape[1])
        x = rng.choice([0, 1, -1, round(rng.uniform(-3, 3), 1), round(rng.uniform(-30, 30), 3)])
        tab.evaluate(TYPE, [cell(name, i, j), rng.choice([str(x), str(x).replace("-", "−"), f" {x} "])])
        table[i, j] = x
        return Machine(**fields_now | {name: table})
    if edit == "mask":
        allowed = machine.tables()["mask"].astype(bool)
        i, j = rng.randrange(allowed.shape[0]), rng.randrange(allowed.shape[1])
        tab.evaluate("(cell) => document.querySelector(cell).click()", cell("mask", i, j))
        allowed[i, j] = not allowed[i, j]
        return Machine(**fields_now | {"mask": allowed})
    buttons = tab.locator(".scaling [data-value]")
    index = rng.randrange(buttons.count())
    value = buttons.nth(index).get_attribute("data-value")
    buttons.nth(index).evaluate("(button) => button.click()")
    scale = {"sqrt": "sqrt", "none": "none", "width": 1 / machine.steps().q.shape[-1]}.get(value)
    return Machine(**fields_now | {"scale": float(value) if scale is None else scale})


@pytest.mark.parametrize("name", slow_except(["3 × 2, W left out", "q and k alone"], MACHINES))
def test_every_number_is_the_oracles_whatever_is_changed(open_machine, name):
    initial = machine(name)
    tab = open_machine(initial)
    assert_oracles(tab, initial)
    rng = random.Random(name)
    current = initial
    for step in range(50):
        current = edit_screen(tab, current, rng)
        if step % 5 == 4 or step < 5:
            assert_oracles(tab, current)
    assert tab.inner_text(".changed") == "changed"
    tab.click(".reset")
    assert_oracles(tab, initial)
    assert tab.inner_text(".changed") == "" and tab.is_disabled(".reset")


@pytest.mark.parametrize(
    ("name", "lang"),
    slow_except([("3 × 2 from x, causal", "zh"), ("cross 2 × 4", "en")], itertools.product(MACHINES, ["en", "zh"])),
)
def test_the_static_tables_have_the_same_numbers(open_machine, name, lang):
    figure = machine(name)
    plain = table_html(figure, lang)
    assert "<script" not in plain and "style" not in plain
    rows = [re.findall("<td>(.*?)</td>", row) for row in re.findall('<tr><th scope="row">.*', plain)]
    tab = open_machine(figure, lang=lang)
    assert rows == [row for table in texts(tab).values() for row in table]
    captions = re.findall("<caption>(.*?)</caption>", plain)
    headings = tab.evaluate(
        "[...document.querySelectorAll('[role=grid]')].map((grid) => grid.getAttribute('aria-label'))"
    )
    assert all(caption.startswith(heading) for caption, heading in zip(captions, headings, strict=True))


def value(sum_):
    """Evaluate the left side of an equation."""
    text = sum_.replace("−", "-").replace("·", "*").replace("÷", "/").replace("×", "*")
    text = re.sub(r"√(\d+)", r"math.sqrt(\1)", text)
    text = re.sub(r"e\^(-?[\d.]+)", r"math.exp(\1)", text)
    return eval(text)  # arithmetic alone is left


SPELL = """() => [...document.querySelectorAll('[data-cell]')].map((cell) => { cell.focus();
    return [cell.dataset.cell, cell.textContent, document.querySelector('.sum').textContent, document.querySelector('#qkv-live').textContent] })"""


@pytest.mark.parametrize("name", slow_except(["3 × 2 from x, causal", "scores and values"], MACHINES))
def test_a_line_explains_each_number(open_machine, name):
    figure = machine(name, digits=6)
    tab = open_machine(figure)
    true = figure.tables()
    for cell_id, text, line, spoken in tab.evaluate(SPELL):
        table, i, j = cell_id.split(".")
        i, j = int(i), int(j)
        if table != "mask" and getattr(figure, table, None) is not None:
            assert line.endswith("given: change it, and everything after it follows")
            continue
        explanation = spoken.split("]  ")[1]
        assert line.split("]  ")[1] == explanation.replace("^", "")  # where it is read, it is raised
        if table in ("mask", "masked"):
            assert explanation.startswith("hidden" if not true["mask"][i, j] else str(figure.words[i]))
        elif table == "weights" and not true["mask"][i, j]:
            assert ("may look at nothing" if not true["mask"][i].any() else "hidden by the mask") in explanation
        elif table in "qkv" and getattr(figure, f"w_{table}") is None:
            assert explanation == ("= Y" if figure.memory is not None and table != "q" else "= X")
        else:
            *terms, result = re.split(" [=≈] ", explanation.split(" (after")[0])
            assert result == text
            for side in terms:
                assert abs(value(side) - true[table][i, j]) < 2e-4, explanation
            if " = " in explanation:  # exactly
                assert abs(value(terms[0]) - number(result)) < 1e-12, explanation


SPELL_ALL = """async ({ digits, given, mask, scale }) => {
    const [{ spelled }, { stagesOf }] = [await import("./steps/arithmetic_text.js"), await import("./core/arithmetic.js")];
    const stages = stagesOf(given, mask, scale), words = mask.map((_, i) => `w${i}`), keys = mask[0].map((_, j) => `k${j}`), lines = [];
    for (const name of ["q", "k", "v", "scores", "scaled", "weights", "output"]) stages[name].forEach((row, i) => row.forEach((true_, j) => {
        const line = spelled({ lang: "en", digits, words, keys, given, stages, mask, scale }, name, i, j);
        if (/[=≈] \\S+$/.test(line) && !line.startsWith("=")) lines.push([line, true_]) }));
    return lines }"""


def test_each_explanation_evaluates_to_its_result(elements):
    """The printed numbers give the printed result, to its last digit."""
    tab = elements("0")
    rng = np.random.default_rng(3)
    lines = []
    for digits in [0, 1, 2, 3, 4] * 6:
        n, width = rng.integers(1, 6, 2)
        size = 10.0 ** rng.integers(-1, 2)
        inputs = {
            name: (rng.standard_normal(shape) * size).tolist()
            for name, shape in (
                ("x", (n, width)),
                ("w_q", (width, width)),
                ("w_k", (width, width)),
                ("w_v", (width, width)),
            )
        }
        scale = [0.3137, "sqrt", "none", "width"][rng.integers(4)]
        inputs = dict(digits=digits, given=inputs, mask=np.tril(np.ones((n, n), bool)).tolist(), scale=scale)
        lines += [(digits, *line) for line in tab.evaluate(SPELL_ALL, inputs)]
    assert len(lines) > 500
    for digits, line, true in lines:
        *terms, result = re.split(" [=≈] ", re.sub(r"\^{([^}]*)}", r"^\1", line))
        assert abs(number(result) - true) <= 0.5001 * 10.0**-digits, line
        for term in terms:
            assert abs(value(term) - number(result)) <= 0.5001 * 10.0**-digits, line


def test_large_scores_are_explained_after_subtracting_the_maximum(open_machine):
    figure = Machine(["a"], scores=[[900, 899, 0]], key_words="xyz")
    tab = open_machine(figure)
    assert_oracles(tab, figure)
    tab.focus(cell("weights", 0, 0))
    assert (
        "e^0.00 ÷ (e^0.00 + e^−1.00 + e^−900.00) ≈ 1.00 ÷ (1.00 + 0.37 + 0.00) ≈ 0.73 (after 900.00"
        in tab.inner_text("#qkv-live")
    )


def highlighted(tab):
    return set(
        tab.evaluate(
            "[...document.querySelectorAll('td.lit')].map((td) => (td.dataset.cell ?? td.firstElementChild.dataset.cell))"
        )
    )


def row_of(name, i, m):
    return {f"{name}.{i}.{c}" for c in range(m)}


def test_pointing_at_a_number_highlights_its_sources(open_machine):
    tab = open_machine(machine("3 × 2 from x, causal"))
    sources_of = {
        "q.1.0": row_of("x", 1, 2) | {"w_q.0.0", "w_q.1.0"},
        "v.2.1": row_of("x", 2, 2) | {"w_v.0.1", "w_v.1.1"},
        "scores.2.1": row_of("q", 2, 2) | row_of("k", 1, 2),
        "scaled.0.2": {"scores.0.2"},
        "masked.0.2": {"scaled.0.2", "mask.0.2"},
        "weights.1.0": row_of("masked", 1, 3),
        "output.2.1": row_of("weights", 2, 3) | {f"v.{r}.1" for r in range(3)},
        "x.0.0": set(),
    }
    for id_, sources in sources_of.items():
        tab.hover(f"[data-cell='{id_}']")
        assert highlighted(tab) == sources, id_
        assert tab.locator("td.here").count() == 1
        line = tab.inner_text(".sum")
        tab.mouse.move(5, 2)
        assert highlighted(tab) == set()
        assert "Point at" not in tab.inner_text(".sum")  # the row that was asked for
        tab.focus(f"[data-cell='{id_}']")  # the same by keyboard
        assert highlighted(tab) == sources and tab.inner_text(".sum") == line
        tab.evaluate("document.activeElement.blur()")


def test_the_formula_and_the_stages_highlight_each_other(open_machine):
    tab = open_machine(machine("3 × 2 from x, causal"))
    assert tab.inner_text(".equation").split() == "softmax ( Q · Kᵀ √d + M ) · V".split()
    tables = "[...document.querySelectorAll('.table.lit')].map((one) => one.dataset.table)"
    parts = "[...document.querySelectorAll('.equation .lit')].map((one) => one.dataset.part)"
    for part in ("weights", "q", "scores", "k", "scaled", "masked", "output", "v"):
        expected = ["mask", "masked"] if part == "masked" else [part]
        tab.hover(f"[data-part={part}]")
        assert tab.evaluate(tables) == expected
        tab.mouse.move(2, 2)
        tab.focus(f"[data-part={part}]")
        assert tab.evaluate(tables) == expected
        tab.hover(f"[data-table={part}] h2")
        assert tab.evaluate(parts) == [part]
    tab.hover("[data-table=x] h2")
    assert tab.evaluate(parts) == ["q", "k", "v"]
    tab.click(".scaling [data-value=none]")
    assert tab.inner_text("[data-part=scaled]") == "1"
    assert open_machine(machine("q and k alone")).inner_text(".equation").split() == "softmax ( Q · Kᵀ √d + M )".split()
    assert open_machine(machine("scores alone")).inner_text(".equation").split() == "softmax ( Scores + M )".split()


def test_a_smaller_divisor_sharpens(open_machine):
    tab = open_machine(machine("5 × 3 from q, k, v", scale="sqrt"))
    sharp = []
    for scale in ("width", "sqrt", "none"):
        tab.click(f".scaling [data-value={scale}]")
        sharp.append(np.array(tab.evaluate("qkv.stages.weights")).max(1).mean())
    assert sharp[0] < sharp[1] < sharp[2]


BAD = ["", " ", "-", "abc", "1.2.3", "1/2", "1e9", "1e400", "Infinity", "NaN", "0x10", "--1", "1 2", "<b>", "9999999"]
GOOD = {"-0.5": -0.5, "−2": -2, ".5": 0.5, "5.": 5, "+3": 3, "1e-3": 0.001, "0,25": 0.25, "１．５": 1.5, "-0": 0}


def test_invalid_numbers_are_marked_and_the_last_valid_number_stays(open_machine):
    figure = machine("3 × 2 from x, causal")
    tab = open_machine(figure)
    field = cell("w_q", 0, 1)
    before = texts(tab)["w_q"][0][1]
    for bad in BAD:
        tab.fill(field, bad)
        assert tab.get_attribute(field, "aria-invalid") == "true", bad
        assert f"not a number: {before} stays in force" in tab.inner_text(".sum")
        assert "stays in force" in tab.inner_text("#qkv-live")
        assert tab.inner_text(".changed") == ""
    tab.focus(cell("x", 0, 0))  # who leaves it sees what is in force
    assert tab.input_value(field) == before and tab.get_attribute(field, "aria-invalid") == "false"
    assert_oracles(tab, figure)
    for good, x in GOOD.items():
        tab.fill(field, good)
        assert tab.get_attribute(field, "aria-invalid") == "false", good
        assert tab.evaluate("qkv.now.given.w_q[0][1]") == x
        assert tab.locator(f"{field}.edited").count() == 1
    tab.fill(field, "nonsense")
    tab.press(field, "Escape")
    assert tab.input_value(field) == "0" and tab.get_attribute(field, "aria-invalid") == "false"


def test_a_fully_masked_row_is_0_and_has_a_note(open_machine):
    tab = open_machine(machine("3 × 2 from x, causal"))
    assert not tab.is_visible(".nothing")
    tab.click(cell("mask", 0, 0))
    assert tab.inner_text(".nothing") == "我 may look at nothing: its weights and its output are 0"
    assert texts(tab)["weights"][0] == ["0.00"] * 3 and texts(tab)["output"][0] == ["0.00"] * 2
    tab.hover(cell("output", 0, 1))
    assert "may look at nothing" in tab.inner_text(".sum")


def test_keyboard_alone(open_machine):
    figure = machine("3 × 2 from x, causal")
    tab = open_machine(figure)
    focused = "document.activeElement.dataset.cell ?? document.activeElement.dataset.part ?? document.activeElement.dataset.value ?? document.activeElement.className"
    stops = []
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement === document.body"):
            break
        stops.append(tab.evaluate(focused))
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", stops[-1]
    tables = [name for stage in STAGES for name in TABLES[stage] if name != "memory"]
    expected = [f"{name}.0.0" for name in tables]
    expected.insert(expected.index("scaled.0.0"), "sqrt")  # the choice stands in its heading
    assert stops == ["weights", *expected]  # one stop for the formula, one for each table; nothing to reset
    tab.focus("[data-part=weights]")
    for part in ("q", "scores", "k", "scaled", "masked", "output", "v"):
        tab.keyboard.press("ArrowRight")
        assert tab.evaluate(focused) == part
    tab.keyboard.press("Tab")
    for key, at in (
        ("ArrowRight", "x.0.1"),
        ("ArrowDown", "x.1.1"),
        ("ArrowDown", "x.2.1"),
        ("ArrowDown", "x.2.1"),
        ("ArrowLeft", "x.2.0"),
    ):
        tab.keyboard.press(key)
        assert tab.evaluate(focused) == at
    tab.keyboard.type("-12.5")  # replaces what was there
    tab.keyboard.press("ArrowLeft")  # within the number
    assert tab.evaluate(focused) == "x.2.0"
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate(focused) == "x.1.0" and tab.evaluate("qkv.now.given.x[2][0]") == -12.5
    tab.keyboard.press("Shift+Tab")
    assert tab.evaluate(focused) == "reset ask" or "reset" in tab.evaluate(focused)
    tab.focus(cell("mask", 0, 0))
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Space")
    assert tab.evaluate("qkv.now.mask[0][1]") is True and tab.evaluate(focused) == "mask.0.1"
    tab.focus(".scaling [aria-checked=true]")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(focused) == "none" and tab.evaluate("qkv.now.scale") == "none"
    tab.focus(".reset")
    tab.keyboard.press("Enter")
    assert tab.evaluate(focused) != "" and tab.inner_text(".changed") == ""
    assert_oracles(tab, figure)


def test_screen_readers_get_labels(open_machine):
    tab = open_machine(machine("3 × 2 from x, causal"))
    assert tab.get_attribute(cell("q", 0, 1), "aria-label").startswith("Queries Q, row 我, column 2: ")
    assert tab.get_attribute(cell("w_v", 1, 0), "aria-label") == "W_V, row 2, column 1"
    assert tab.get_attribute(cell("masked", 0, 1), "aria-label") == "Masked, row 我, column 爱: −∞ (hidden)"
    assert tab.get_attribute(cell("mask", 0, 1), "aria-pressed") == "false"
    named = tab.evaluate(
        """[...document.querySelectorAll('[tabindex], button, input, [role=grid], [role=group], [role=radiogroup], main')]
        .filter((e) => !(e.getAttribute('aria-label') ?? e.textContent).trim()).length"""
    )
    assert named == 0
    assert tab.evaluate(
        "[...document.querySelectorAll('[role=gridcell]')].every((e) => e.closest('tr') && e.closest('[role=grid]'))"
    )
    labels = tab.evaluate(
        "[...document.querySelectorAll('[data-cell]')].map((e) => e.getAttribute('aria-label') ?? '')"
    )
    assert all(re.search(", row .+, column .+", label) for label in labels)
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    assert tab.evaluate(
        "[...document.querySelectorAll('[role=grid]')].every((e) => e.querySelectorAll('[tabindex=\"0\"]').length === 1)"
    )
    tab.fill(cell("x", 0, 0), "9")
    assert tab.inner_text(".changed") == "changed" and tab.get_attribute(".changed", "aria-live") == "polite"


@pytest.mark.parametrize(
    ("size", "lang", "scheme"),
    slow_except(
        [((1280, 800), "en", "dark"), ((390, 800), "zh", "light")],
        itertools.product([(1280, 800), (700, 800), (390, 800)], ["en", "zh"], ["light", "dark"]),
    ),
)
def test_it_fits_and_follows_language_and_theme(open_machine, size, lang, scheme):
    figure = Machine(
        ["supercalifragilistic"] * 7,
        x=tenths(7, 4),
        w_q=tenths(4, 4),
        w_k=tenths(4, 4),
        w_v=tenths(4, 4),
        mask="causal",
    )
    tab = open_machine(figure, lang=lang, size=size, scheme=scheme)
    tab.fill(cell("x", 0, 0), "123456.5")
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
    for table in ("weights", "scores"):
        tab.hover(cell(table, 0, 0))
    text = tab.inner_text("main")
    labels = " ".join(
        tab.evaluate("[...document.querySelectorAll('[aria-label]')].map((e) => e.getAttribute('aria-label'))")
    )
    text = re.sub("supercalifragilistic|softmax|W_?[QKV]", "", text + labels)
    if lang == "zh":
        assert not re.search("[A-Za-z]{2}", text)
        assert all(name in text for name in ("查询 Q", "键 K", "值 V", "分数", "缩放后", "掩码", "权重", "输出"))
    else:
        assert not re.search("[\u4e00-\u9fff]", text)
    brightness = """[...document.querySelectorAll('[data-table=weights] td[data-cell]:not(.hidden)')].map((td) =>
        [Number(td.textContent), td.style.backgroundColor.match(/\\d+/g).reduce((sum, x) => sum + Number(x), 0)])"""
    pairs = sorted(tab.evaluate(brightness))
    assert (
        min(contrast(tab, "[data-table=weights] td[data-cell]:not(.hidden), [data-table=scores] td[data-cell]")) >= 4.5
    )
    shades = [shade for _, shade in pairs]
    assert shades[0] != shades[-1]
    assert all((a >= b) if scheme == "light" else (a <= b) for (x, a), (y, b) in pairwise(pairs) if y - x > 0.02)


def test_changing_language_or_theme_keeps_edits(open_machine):
    figure = machine("3 × 2 from x, causal")
    tab = open_machine(figure)
    tab.fill(cell("x", 0, 0), "7")
    tab.evaluate("location.hash = 'lang=zh&theme=dark'")
    until(tab, "document.documentElement.lang === 'zh-CN'")
    assert tab.get_attribute("html", "data-theme") == "dark"
    assert tab.input_value(cell("x", 0, 0)) == "7" and tab.inner_text(".changed") == "已修改"


WRONG = {
    "nothing": (dict(words="ab"), "got nothing"),
    "too much": (dict(words="ab", x=[[1], [2]], q=[[1], [2]], k=[[1], [2]]), "got k, q, x"),
    "q alone": (dict(words="ab", q=[[1], [2]]), "got q"),
    "words": (dict(words="a", x=[[1], [2]]), "1 names were given for 2 tokens"),
    "widths": (dict(words="a", q=[[1, 2]], k=[[1]]), "a dot product needs equal widths"),
    "mask": (dict(words="a", x=[[1]], mask="casual"), "did you mean 'causal'"),
    "mask's size": (dict(words="ab", x=[[1], [2]], mask=[[True]]), "mask is"),
    "scale": (dict(words="a", x=[[1]], scale="sqr"), "did you mean 'sqrt'"),
    "scale 0": (dict(words="a", x=[[1]], scale=0), "positive"),
    "stage": (dict(words="a", x=[[1]], show=["wieghts"]), "did you mean 'weights'"),
    "no such stage": (dict(words="a", q=[[1]], k=[[1]], show=["output"]), "there is no stage output"),
    "query": (dict(words="ab", x=[[1], [2]], query="c"), "there is no word c; there are: a, b"),
    "digits": (dict(words="a", x=[[1]], digits=9), "0 to 6"),
    "key words": (dict(words="a", x=[[1]], key_words="b"), "give memory too"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_machines_are_refused(name):
    settings, message = WRONG[name]
    with pytest.raises(Problem, match=message):
        Machine(**settings)
