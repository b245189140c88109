"""The machine in a real browser: whatever is changed, every number is the oracle's; it explains, lights up, and obeys keys."""

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
def shown(opened, tmp_path):
    """Open a machine; `opened` sees to it that nothing is requested, logged or raised."""

    def go(made, *, lang="en", **options):
        path = tmp_path / "machine.html"
        path.write_text(html(made, lang), encoding="utf-8")
        tab = opened(path, ready=False, **options)
        tab.wait_for_selector("html[data-ready]")
        return tab

    return go


def cell(name, i, j):
    return f"[data-cell='{name}.{i}.{j}']"


def texts(tab):
    """Every number on the screen: table → rows of texts."""
    read = tab.evaluate(
        """[...document.querySelectorAll('[data-table]')].map((one) => [one.dataset.table,
        [...one.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('[data-cell]')].map((c) => c.value || c.textContent))])"""
    )
    return dict(read)


def number(text):
    known = {"−∞": -math.inf, "■": 1.0, "·": 0.0}
    return known[text] if text in known else float(text.replace("−", "-"))


def assert_oracles(tab, made):
    """Everything shown, to its digits; everything computed, to 1e-12."""
    true = made.tables()
    assert list(texts(tab)) == [name for stage in made.stages for name in TABLES[stage] if name in true]
    for name, rows in texts(tab).items():
        read = np.array([[number(text) for text in row] for row in rows])
        assert read.shape == true[name].shape, name
        digits = 4 if getattr(made, name, None) is not None else made.digits
        seen = np.isfinite(true[name])
        assert (np.isfinite(read) == seen).all(), name
        assert np.abs(read[seen] - true[name][seen]).max(initial=0) <= 0.5 * 10**-digits + 1e-9, name
    stages = tab.evaluate("Object.fromEntries(Object.entries(qkv.stages).filter(([, table]) => table))")
    for name in ("q", "k", "v", "scores", "scaled", "masked", "weights", "output"):
        assert (name in stages) == (name in true), name
        if name in stages:
            ours, theirs = np.array(stages[name], float), true[name]
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12, err_msg=name)


TYPE = """([cell, text]) => { const field = document.querySelector(cell);
    field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })) }"""


def edited(tab, made, rng):
    """Change one thing on the screen, as a person does; gives the machine that it is now."""
    fields = [
        name
        for name in ("x", "memory", "w_q", "w_k", "w_v", "q", "k", "v", "scores")
        if getattr(made, name) is not None
    ]
    fields = [name for name in fields if tab.locator(f"[data-table={name}]").count()]
    ways = ["number"] * 6 + ["mask"] * 3 * tab.locator("[data-table=mask]").count()
    ways += ["scale"] * 2 * tab.locator(".scaling").count()
    way = rng.choice(ways)
    now = {name: getattr(made, name) for name in Machine.__dataclass_fields__ if name != "_"} | {"show": made.stages}
    if way == "number":
        name = rng.choice(fields)
        table = np.array(now[name], float)
        i, j = rng.randrange(table.shape[0]), rng.randrange(table.shape[1])
        x = rng.choice([0, 1, -1, round(rng.uniform(-3, 3), 1), round(rng.uniform(-30, 30), 3)])
        tab.evaluate(TYPE, [cell(name, i, j), rng.choice([str(x), str(x).replace("-", "−"), f" {x} "])])
        table[i, j] = x
        return Machine(**now | {name: table})
    if way == "mask":
        allowed = made.tables()["mask"].astype(bool)
        i, j = rng.randrange(allowed.shape[0]), rng.randrange(allowed.shape[1])
        tab.evaluate("(cell) => document.querySelector(cell).click()", cell("mask", i, j))
        allowed[i, j] = not allowed[i, j]
        return Machine(**now | {"mask": allowed})
    buttons = tab.locator(".scaling [data-value]")
    at = rng.randrange(buttons.count())
    value = buttons.nth(at).get_attribute("data-value")
    buttons.nth(at).evaluate("(button) => button.click()")
    scale = {"sqrt": "sqrt", "none": "none", "width": 1 / made.steps().q.shape[-1]}.get(value)
    return Machine(**now | {"scale": float(value) if scale is None else scale})


@pytest.mark.parametrize("name", slow_except(["3 × 2, W left out", "q and k alone"], MACHINES))
def test_every_number_is_the_oracles_whatever_is_changed(shown, name):
    made = machine(name)
    tab = shown(made)
    assert_oracles(tab, made)
    rng = random.Random(name)
    now = made
    for step in range(50):
        now = edited(tab, now, rng)
        if step % 5 == 4 or step < 5:
            assert_oracles(tab, now)
    assert tab.inner_text(".changed") == "changed"
    tab.click(".reset")
    assert_oracles(tab, made)
    assert tab.inner_text(".changed") == "" and tab.is_disabled(".reset")


@pytest.mark.parametrize(
    ("name", "lang"),
    slow_except([("3 × 2 from x, causal", "zh"), ("cross 2 × 4", "en")], itertools.product(MACHINES, ["en", "zh"])),
)
def test_without_scripts_there_are_the_same_numbers(shown, name, lang):
    made = machine(name)
    plain = table_html(made, lang)
    assert "<script" not in plain and "style" not in plain
    rows = [re.findall("<td>(.*?)</td>", row) for row in re.findall('<tr><th scope="row">.*', plain)]
    tab = shown(made, lang=lang)
    assert rows == [row for table in texts(tab).values() for row in table]
    captions = re.findall("<caption>(.*?)</caption>", plain)
    headings = tab.evaluate(
        "[...document.querySelectorAll('[role=grid]')].map((grid) => grid.getAttribute('aria-label'))"
    )
    assert all(caption.startswith(heading) for caption, heading in zip(captions, headings, strict=True))


def value(sum_):
    """What the left side of a sum comes to."""
    text = sum_.replace("−", "-").replace("·", "*").replace("÷", "/").replace("×", "*")
    text = re.sub(r"√(\d+)", r"math.sqrt(\1)", text)
    text = re.sub(r"e\^(-?[\d.]+)", r"math.exp(\1)", text)
    return eval(text)  # arithmetic alone is left


SPELL = """() => [...document.querySelectorAll('[data-cell]')].map((cell) => { cell.focus();
    return [cell.dataset.cell, cell.textContent, document.querySelector('.sum').textContent, document.querySelector('#qkv-live').textContent] })"""


@pytest.mark.parametrize("name", slow_except(["3 × 2 from x, causal", "scores and values"], MACHINES))
def test_a_line_spells_out_how_a_number_comes_about(shown, name):
    made = machine(name, digits=6)
    tab = shown(made)
    true = made.tables()
    for id_, text, line, spoken in tab.evaluate(SPELL):
        table, i, j = id_.split(".")
        i, j = int(i), int(j)
        if table != "mask" and getattr(made, table, None) is not None:
            assert line.endswith("given: change it, and everything after it follows")
            continue
        said = spoken.split("]  ")[1]
        assert line.split("]  ")[1] == said.replace("^", "")  # where it is read, it is raised
        if table in ("mask", "masked"):
            assert said.startswith("hidden" if not true["mask"][i, j] else str(made.words[i]))
        elif table == "weights" and not true["mask"][i, j]:
            assert ("may look at nothing" if not true["mask"][i].any() else "hidden by the mask") in said
        elif table in "qkv" and getattr(made, f"w_{table}") is None:
            assert said == ("= Y" if made.memory is not None and table != "q" else "= X")
        else:
            *sides, result = re.split(" [=≈] ", said.split(" (after")[0])
            assert result == text
            for side in sides:
                assert abs(value(side) - true[table][i, j]) < 2e-4, said
            if " = " in said:  # exactly
                assert abs(value(sides[0]) - number(result)) < 1e-12, said


SPELL_ALL = """async ({ digits, given, mask, scale }) => {
    const [{ spelled }, { stagesOf }] = [await import("./steps/arithmetic_text.js"), await import("./core/arithmetic.js")];
    const stages = stagesOf(given, mask, scale), words = mask.map((_, i) => `w${i}`), keys = mask[0].map((_, j) => `k${j}`), lines = [];
    for (const name of ["q", "k", "v", "scores", "scaled", "weights", "output"]) stages[name].forEach((row, i) => row.forEach((true_, j) => {
        const line = spelled({ lang: "en", digits, words, keys, given, stages, mask, scale }, name, i, j);
        if (/[=≈] \\S+$/.test(line) && !line.startsWith("=")) lines.push([line, true_]) }));
    return lines }"""


def test_what_a_line_spells_out_comes_to_what_it_says(elements):
    """Whoever works out the printed numbers gets the printed result, to its last digit."""
    tab = elements("0")
    rng = np.random.default_rng(3)
    lines = []
    for digits in [0, 1, 2, 3, 4] * 6:
        n, width = rng.integers(1, 6, 2)
        size = 10.0 ** rng.integers(-1, 2)
        given = {
            name: (rng.standard_normal(shape) * size).tolist()
            for name, shape in (
                ("x", (n, width)),
                ("w_q", (width, width)),
                ("w_k", (width, width)),
                ("w_v", (width, width)),
            )
        }
        scale = [0.3137, "sqrt", "none", "width"][rng.integers(4)]
        given = dict(digits=digits, given=given, mask=np.tril(np.ones((n, n), bool)).tolist(), scale=scale)
        lines += [(digits, *line) for line in tab.evaluate(SPELL_ALL, given)]
    assert len(lines) > 500
    for digits, line, true in lines:
        *sides, result = re.split(" [=≈] ", re.sub(r"\^{([^}]*)}", r"^\1", line))
        assert abs(number(result) - true) <= 0.5001 * 10.0**-digits, line
        for side in sides:
            assert abs(value(side) - number(result)) <= 0.5001 * 10.0**-digits, line


def test_scores_too_large_to_raise_are_spelled_after_the_largest_is_taken_off(shown):
    made = Machine(["a"], scores=[[900, 899, 0]], key_words="xyz")
    tab = shown(made)
    assert_oracles(tab, made)
    tab.focus(cell("weights", 0, 0))
    assert (
        "e^0.00 ÷ (e^0.00 + e^−1.00 + e^−900.00) ≈ 1.00 ÷ (1.00 + 0.37 + 0.00) ≈ 0.73 (after 900.00"
        in tab.inner_text("#qkv-live")
    )


def lit(tab):
    return set(
        tab.evaluate(
            "[...document.querySelectorAll('td.lit')].map((td) => (td.dataset.cell ?? td.firstElementChild.dataset.cell))"
        )
    )


def across(name, i, m):
    return {f"{name}.{i}.{c}" for c in range(m)}


def test_pointing_at_a_number_lights_up_what_it_came_from(shown):
    tab = shown(machine("3 × 2 from x, causal"))
    came = {
        "q.1.0": across("x", 1, 2) | {"w_q.0.0", "w_q.1.0"},
        "v.2.1": across("x", 2, 2) | {"w_v.0.1", "w_v.1.1"},
        "scores.2.1": across("q", 2, 2) | across("k", 1, 2),
        "scaled.0.2": {"scores.0.2"},
        "masked.0.2": {"scaled.0.2", "mask.0.2"},
        "weights.1.0": across("masked", 1, 3),
        "output.2.1": across("weights", 2, 3) | {f"v.{r}.1" for r in range(3)},
        "x.0.0": set(),
    }
    for id_, sources in came.items():
        tab.hover(f"[data-cell='{id_}']")
        assert lit(tab) == sources, id_
        assert tab.locator("td.here").count() == 1
        line = tab.inner_text(".sum")
        tab.mouse.move(5, 2)
        assert lit(tab) == set()
        assert "Point at" not in tab.inner_text(".sum")  # the row that was asked for
        tab.focus(f"[data-cell='{id_}']")  # the same by keyboard
        assert lit(tab) == sources and tab.inner_text(".sum") == line
        tab.evaluate("document.activeElement.blur()")


def test_the_formula_and_the_stages_light_each_other_up(shown):
    tab = shown(machine("3 × 2 from x, causal"))
    assert tab.inner_text(".equation").split() == "softmax ( Q · Kᵀ √d + M ) · V".split()
    tables = "[...document.querySelectorAll('.table.lit')].map((one) => one.dataset.table)"
    parts = "[...document.querySelectorAll('.equation .lit')].map((one) => one.dataset.part)"
    for part in ("weights", "q", "scores", "k", "scaled", "masked", "output", "v"):
        wanted = ["mask", "masked"] if part == "masked" else [part]
        tab.hover(f"[data-part={part}]")
        assert tab.evaluate(tables) == wanted
        tab.mouse.move(2, 2)
        tab.focus(f"[data-part={part}]")
        assert tab.evaluate(tables) == wanted
        tab.hover(f"[data-table={part}] h2")
        assert tab.evaluate(parts) == [part]
    tab.hover("[data-table=x] h2")
    assert tab.evaluate(parts) == ["q", "k", "v"]
    tab.click(".scaling [data-value=none]")
    assert tab.inner_text("[data-part=scaled]") == "1"
    assert shown(machine("q and k alone")).inner_text(".equation").split() == "softmax ( Q · Kᵀ √d + M )".split()
    assert shown(machine("scores alone")).inner_text(".equation").split() == "softmax ( Scores + M )".split()


def test_dividing_by_less_sharpens(shown):
    tab = shown(machine("5 × 3 from q, k, v", scale="sqrt"))
    sharp = []
    for way in ("width", "sqrt", "none"):
        tab.click(f".scaling [data-value={way}]")
        sharp.append(np.array(tab.evaluate("qkv.stages.weights")).max(1).mean())
    assert sharp[0] < sharp[1] < sharp[2]


BAD = ["", " ", "-", "abc", "1.2.3", "1/2", "1e9", "1e400", "Infinity", "NaN", "0x10", "--1", "1 2", "<b>", "9999999"]
GOOD = {"-0.5": -0.5, "−2": -2, ".5": 0.5, "5.": 5, "+3": 3, "1e-3": 0.001, "0,25": 0.25, "１．５": 1.5, "-0": 0}


def test_what_is_no_number_is_marked_and_the_last_good_one_stays(shown):
    made = machine("3 × 2 from x, causal")
    tab = shown(made)
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
    assert_oracles(tab, made)
    for good, x in GOOD.items():
        tab.fill(field, good)
        assert tab.get_attribute(field, "aria-invalid") == "false", good
        assert tab.evaluate("qkv.now.given.w_q[0][1]") == x
        assert tab.locator(f"{field}.edited").count() == 1
    tab.fill(field, "nonsense")
    tab.press(field, "Escape")
    assert tab.input_value(field) == "0" and tab.get_attribute(field, "aria-invalid") == "false"


def test_a_row_that_may_see_nothing_is_0_and_says_so(shown):
    tab = shown(machine("3 × 2 from x, causal"))
    assert not tab.is_visible(".nothing")
    tab.click(cell("mask", 0, 0))
    assert tab.inner_text(".nothing") == "我 may look at nothing: its weights and its output are 0"
    assert texts(tab)["weights"][0] == ["0.00"] * 3 and texts(tab)["output"][0] == ["0.00"] * 2
    tab.hover(cell("output", 0, 1))
    assert "may look at nothing" in tab.inner_text(".sum")


def test_by_keys_alone(shown):
    made = machine("3 × 2 from x, causal")
    tab = shown(made)
    held = "document.activeElement.dataset.cell ?? document.activeElement.dataset.part ?? document.activeElement.dataset.value ?? document.activeElement.className"
    stops = []
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement === document.body"):
            break
        stops.append(tab.evaluate(held))
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", stops[-1]
    tables = [name for stage in STAGES for name in TABLES[stage] if name != "memory"]
    wanted = [f"{name}.0.0" for name in tables]
    wanted.insert(wanted.index("scaled.0.0"), "sqrt")  # the choice stands in its heading
    assert stops == ["weights", *wanted]  # one stop for the formula, one for each table; nothing to reset
    tab.focus("[data-part=weights]")
    for part in ("q", "scores", "k", "scaled", "masked", "output", "v"):
        tab.keyboard.press("ArrowRight")
        assert tab.evaluate(held) == part
    tab.keyboard.press("Tab")
    for key, at in (
        ("ArrowRight", "x.0.1"),
        ("ArrowDown", "x.1.1"),
        ("ArrowDown", "x.2.1"),
        ("ArrowDown", "x.2.1"),
        ("ArrowLeft", "x.2.0"),
    ):
        tab.keyboard.press(key)
        assert tab.evaluate(held) == at
    tab.keyboard.type("-12.5")  # replaces what was there
    tab.keyboard.press("ArrowLeft")  # within the number
    assert tab.evaluate(held) == "x.2.0"
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate(held) == "x.1.0" and tab.evaluate("qkv.now.given.x[2][0]") == -12.5
    tab.keyboard.press("Shift+Tab")
    assert tab.evaluate(held) == "reset ask" or "reset" in tab.evaluate(held)
    tab.focus(cell("mask", 0, 0))
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Space")
    assert tab.evaluate("qkv.now.mask[0][1]") is True and tab.evaluate(held) == "mask.0.1"
    tab.focus(".scaling [aria-checked=true]")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(held) == "none" and tab.evaluate("qkv.now.scale") == "none"
    tab.focus(".reset")
    tab.keyboard.press("Enter")
    assert tab.evaluate(held) != "" and tab.inner_text(".changed") == ""
    assert_oracles(tab, made)


def test_whoever_cant_see_it_is_told(shown):
    tab = shown(machine("3 × 2 from x, causal"))
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
def test_it_fits_and_speaks_and_has_its_light(shown, size, lang, scheme):
    made = Machine(
        ["supercalifragilistic"] * 7,
        x=tenths(7, 4),
        w_q=tenths(4, 4),
        w_k=tenths(4, 4),
        w_v=tenths(4, 4),
        mask="causal",
    )
    tab = shown(made, lang=lang, size=size, scheme=scheme)
    tab.fill(cell("x", 0, 0), "123456.5")
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
    for one in ("weights", "scores"):
        tab.hover(cell(one, 0, 0))
    said = tab.inner_text("main")
    labels = " ".join(
        tab.evaluate("[...document.querySelectorAll('[aria-label]')].map((e) => e.getAttribute('aria-label'))")
    )
    said = re.sub("supercalifragilistic|softmax|W_?[QKV]", "", said + labels)
    if lang == "zh":
        assert not re.search("[A-Za-z]{2}", said)
        assert all(name in said for name in ("查询 Q", "键 K", "值 V", "分数", "缩放后", "掩码", "权重", "输出"))
    else:
        assert not re.search("[\u4e00-\u9fff]", said)
    brightness = """[...document.querySelectorAll('[data-table=weights] td[data-cell]:not(.hidden)')].map((td) =>
        [Number(td.textContent), td.style.backgroundColor.match(/\\d+/g).reduce((sum, x) => sum + Number(x), 0)])"""
    pairs = sorted(tab.evaluate(brightness))
    assert (
        min(contrast(tab, "[data-table=weights] td[data-cell]:not(.hidden), [data-table=scores] td[data-cell]")) >= 4.5
    )
    shades = [shade for _, shade in pairs]
    assert shades[0] != shades[-1]
    assert all((a >= b) if scheme == "light" else (a <= b) for (x, a), (y, b) in pairwise(pairs) if y - x > 0.02)


def test_a_language_or_light_that_changes_keeps_what_was_changed(shown):
    made = machine("3 × 2 from x, causal")
    tab = shown(made)
    tab.fill(cell("x", 0, 0), "7")
    tab.evaluate("location.hash = 'lang=zh&theme=dark'")
    until(tab, "document.documentElement.lang === 'zh-CN'")
    assert tab.get_attribute("html", "data-theme") == "dark"
    assert tab.input_value(cell("x", 0, 0)) == "7" and tab.inner_text(".changed") == "已修改"


WRONG = {
    "nothing": (dict(words="ab"), "here came nothing"),
    "too much": (dict(words="ab", x=[[1], [2]], q=[[1], [2]], k=[[1], [2]]), "here came k, q, x"),
    "q alone": (dict(words="ab", q=[[1], [2]]), "here came q"),
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
def test_what_makes_no_machine_is_refused(name):
    given, says = WRONG[name]
    with pytest.raises(Problem, match=says):
        Machine(**given)
