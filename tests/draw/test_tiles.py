"""Long maps from tiles: pooled slices of the whole map, coarse first; panning copies, and only visible tiles are requested."""

import numpy as np
import pytest

from tests.draw.pages import CLOSE, make_trace, until
from tests.selection import slow_except

MAP = "document.querySelector('qkv-map')"
N = 1300
SHARP = f"{MAP}.seen && {MAP}.base.dataset.drawn === String({MAP}.drawing)"


@pytest.fixture(scope="module")
def trace():
    return make_trace(n=N, heads=1, groups=1, width=8)


@pytest.fixture
def open_long_map(elements, trace):
    """Open a map of 1,300 tokens with the q and k of `trace`."""

    def open_map(more="", **options):
        tab = elements("", **options)
        call = trace.calls["decoder"][0]
        tab.evaluate(
            f"""([n, q, k]) => {{ window.source = random({{ n, heads: 1, layers: 1, width: 8, tiled: true, q: Float32Array.from(q), k: Float32Array.from(k), {more} }});
            show(source); document.querySelector('main').append(h('qkv-map', {{ class: 'card' }})) }}""",
            [N, call.q.flatten().tolist(), call.k.flatten().tolist()],
        )
        return tab

    return open_map


def pooled(table, size, pool):
    """Return pooled cells of `size` tokens; −1 if fully masked."""
    count = -(-len(table) // size)
    cells = np.full((count, count), -1.0)
    for r in range(count):
        for c in range(r + 1):
            cell = table[r * size : (r + 1) * size, c * size : (c + 1) * size]
            cells[r, c] = cell.max() if pool == "max" else cell.mean()
    return cells


# The colours of cells, where they are drawn on the screen: [row, column] → red, green, blue.
COLOURS = """([size, cells]) => { const { base, plot, frame } = document.querySelector('qkv-map'), dots = devicePixelRatio;
    const at = (cell, from, begin) => Math.floor((begin + ((cell + 0.5) * size - from) * frame.size) * dots);
    const all = base.getContext('2d').getImageData(0, 0, base.width, base.height);
    return cells.map(([r, c]) => { const p = 4 * (at(r, frame.y, plot.top) * base.width + at(c, frame.x, plot.left)); return [...all.data.slice(p, p + 3)] }) }"""
SHADES = """async (weights) => { const { level, palette } = await import('./core/colour.js'); const { full } = palette('light');
    return weights.map((w) => { const word = full[level(Math.min(w, 1), 'root')]; return [word & 255, (word >> 8) & 255, (word >> 16) & 255] }) }"""


def assert_painted(tab, table, size, cells):
    """Assert that these cells on the screen have the colours of the table."""
    actual = np.array(tab.evaluate(COLOURS, [size, cells]))
    true = np.array(tab.evaluate(SHADES, [float(table[r, c]) for r, c in cells]))
    assert np.abs(actual - true).max() <= 3, (actual, true)


@pytest.mark.parametrize("pool", slow_except(["mean"], ["max", "mean"]))
def test_tiles_are_poolings_and_slices_of_the_whole(open_long_map, trace, pool):
    tab = open_long_map()
    tab.evaluate(f"state.set({{ pool: '{pool}' }})")
    until(tab, SHARP)
    whole = trace.map(0, 0)
    size = 2 ** tab.evaluate(f"{MAP}.tiles.levelAt({MAP}.frame.size)")
    assert size == 4  # about 500 pixels for 1,300 tokens
    table = pooled(whole, size, pool) * (size if pool == "mean" else 1)
    rng = np.random.default_rng(0)
    cells = [[int(r), int(rng.integers(0, r + 1))] for r in rng.integers(0, N // size - 1, 40)]
    assert_painted(tab, table, size, cells)
    note = tab.inner_text(".pooling")
    assert f"{size} × {size} tokens" in note and ("largest" if pool == "max" else "mean") in note
    # What is hidden is hatched: not white, and the same on the other side of the diagonal.
    hidden = tab.evaluate(COLOURS, [size, [[r, c + r + 3] for r, c in [[0, 100], [5, 200]]]])
    assert all(colour in ([244, 244, 241], [206, 206, 200]) for colour in hidden)

    # Down to single tokens.
    tab.evaluate(f"state.set({{ query: 900, key: 400 }}); while ({MAP}.frame.size < 30) {MAP}.zoom(1.6)")
    until(tab, SHARP)
    assert tab.evaluate(f"{MAP}.tiles.levelAt({MAP}.frame.size)") == 0 and tab.inner_text(".pooling") == ""
    near = [[900 + i, 400 + j] for i in range(-3, 4) for j in range(-3, 4)]
    assert_painted(tab, whole, 1, near)
    assert tab.inner_text("output.cell b") == f"{whole[900, 400]:.6f}"


def test_the_crosshair_has_the_exact_weight_everywhere(open_long_map, trace):
    tab = open_long_map()
    until(tab, f"{MAP}.seen?.compute")
    tab.evaluate("state.set({ query: 1234, key: 567 })")
    assert abs(float(tab.inner_text("output.cell b")) - trace.map(0, 0)[1234, 567]) < CLOSE
    assert "query w1234 → key w567" in tab.inner_text("#qkv-live")
    tab.focus(".stage")
    tab.keyboard.press("PageUp")
    page = 1234 - tab.evaluate("state.now.query")
    assert page > 100  # half of what is in view


def test_while_the_head_is_awaited_the_map_is_there_already(open_long_map):
    tab = open_long_map("head: () => new Promise((resolve) => (window.give = resolve)), late: true")
    until(tab, SHARP)
    assert tab.inner_text("output.cell b") == "…" and tab.locator("#qkv-live").count() == 0


def test_the_small_picture_precedes_coarse_and_sharp_tiles(open_long_map):
    tab = open_long_map("gate: new Promise((open) => (window.open_gate = open))")
    centre = f"""(() => {{ const {{ base, plot }} = {MAP}; return [...base.getContext('2d').getImageData(plot.left + 30, plot.top + plot.height - 30, 1, 1).data] }})()"""
    until(tab, f"{MAP}.tiles?.small && {centre}[3] === 255")
    assert tab.evaluate(centre)[:3] == tab.evaluate(SHADES, [1.0])[0]  # the fake's pictures are all ones
    requests = tab.evaluate("source.asked.map(({ rows, tall }) => [rows, tall])")
    assert requests[0] == [[0, N], 8]  # the whole in one tile, before all others
    assert len(requests) == 4  # at once
    tab.evaluate("source.gate = null; open_gate()")
    until(tab, SHARP)
    assert tab.evaluate(centre)[:3] != tab.evaluate(SHADES, [1.0])[0]


def test_no_tile_is_requested_or_coloured_twice(open_long_map):
    """Panning only copies until new tiles are in view."""
    tab = open_long_map()
    until(tab, SHARP)
    tab.evaluate(f"state.set({{ query: 700, key: 300 }}); while ({MAP}.frame.size < 2) {MAP}.zoom(1.6)")
    until(tab, SHARP)
    counts = f"[source.asked.length, {MAP}.tiles.coloured]"
    before = tab.evaluate(counts)
    tab.evaluate(f"""(async () => {{ const map = {MAP};
        for (let step = 0; step < 20; step++) {{ map.frame.x += step % 2 ? 1 : -1; map.draw(); await new Promise(requestAnimationFrame) }} }})()""")
    until(tab, SHARP)
    assert tab.evaluate(counts) == before
    tab.evaluate(f"{MAP}.whole()")  # what was there before is still there
    until(tab, SHARP)
    assert tab.evaluate(counts) == before
    requests = tab.evaluate("source.asked.map(({ rows, cols, tall }) => [rows, cols, tall].join())")
    assert len(requests) == len(set(requests))


def test_tiles_out_of_view_are_cancelled(open_long_map):
    tab = open_long_map("gate: new Promise((open) => (window.open_gate = open)), heads: 2, q: null, k: null")
    until(tab, "source.asked.length === 4")
    tab.evaluate(f"state.set({{ query: 1200, key: 1100 }}); while ({MAP}.frame.size < 30) {MAP}.zoom(1.6)")
    until(tab, "source.asked.length > 4")
    aborted = tab.evaluate("source.asked.map(({ signal }) => signal.aborted)")
    assert aborted[:4] == [False, True, True, True]  # the whole is wanted at any zoom
    until(
        tab, "source.asked.at(-1).rows[1] - source.asked.at(-1).rows[0] <= 256 && !source.asked.at(-1).signal.aborted"
    )
    tab.evaluate("state.set({ head: 1 })")
    assert tab.evaluate("source.asked.filter(({ head }) => head === 0).every(({ signal }) => signal.aborted)")
    tab.evaluate("source.gate = null; open_gate()")
    until(tab, SHARP)
    assert not tab.evaluate("source.asked.some(({ head, given }) => head === 0 && given)")


def test_unused_tiles_are_evicted(elements):
    tab = elements(
        """window.source = random({ n: 40000, heads: 1, layers: 1, width: 4, tiled: true, late: true, head: () => new Promise(() => {}),
        tile: async (_, __, ___, ____, { rows, cols, tall, wide }) => new Float32Array(Math.ceil((rows[1] - rows[0]) / tall) * Math.ceil((cols[1] - cols[0]) / wide)) });
        show(source); document.querySelector('main').append(h('qkv-map', { class: 'card' }))"""
    )
    until(tab, SHARP)
    tab.evaluate(
        f"""(async () => {{ const map = {MAP}; const {{ tilesKept }} = await import('./map/tiles.js'); window.most = 0; map.zoom(40);
        for (let row = 0; row < 40; row++) {{ map.centre(20000, row * 1000); await new Promise((done) => setTimeout(done, 30)); most = Math.max(most, tilesKept()) }} }})()"""
    )
    assert 150 < tab.evaluate("most") <= 192


def test_the_small_map_shows_the_frame_and_moves_it(open_long_map):
    tab = open_long_map()
    until(tab, SHARP)
    assert tab.locator(".minimap").is_hidden()
    tab.evaluate(f"{MAP}.zoom(6)")
    until(tab, SHARP)
    box = tab.locator(".minimap").bounding_box()
    stage = tab.locator(".stage").bounding_box()
    assert box["x"] + box["width"] <= stage["x"] + stage["width"] and box["width"] <= 112
    middle = f"(() => {{ const {{ frame, plot }} = {MAP}; return [frame.x + plot.width / frame.size / 2, frame.y + plot.height / frame.size / 2] }})()"
    selection = tab.evaluate("[state.now.query, state.now.key]")
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    assert np.allclose(tab.evaluate(middle), [N / 2, N / 2], atol=20)
    tab.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.7, steps=3)
    tab.mouse.up()
    assert np.allclose(tab.evaluate(middle), [0.3 * N, 0.7 * N], atol=20)
    assert tab.evaluate("[state.now.query, state.now.key]") == selection
    tab.keyboard.press("Tab")
    tab.evaluate(f"{MAP}.whole()")
    until(tab, SHARP)
    assert tab.locator(".minimap").is_hidden()


def test_a_failed_tile_has_a_message(open_long_map):
    tab = open_long_map("tile: async () => { throw { say: { en: 'No tile today.' } } }")
    until(tab, "document.querySelector('.computing').textContent === 'No tile today.'")


def test_a_column_of_a_long_text_is_a_single_tile(open_long_map, trace):
    tab = open_long_map()
    until(tab, f"{MAP}.seen?.compute")
    column = tab.evaluate(f"(async () => [...(await {MAP}.seen.column(400, () => true)).weights])()")
    assert np.abs(np.array(column) - trace.column(0, 0, 400)).max() < CLOSE
    assert tab.evaluate("source.asked.at(-1).cols") == [400, 401]
