"""Elements on a source that isn't a file: it can change at any time, and pictures may arrive late."""

import numpy as np

from qkv.terminal.screen import plain
from tests.draw.pages import until

ALL = "document.querySelector('main').append(...['overview', 'map', 'lines', 'steps'].map((name) => h(`qkv-${name}`, { class: 'card' })))"
MAP = "document.querySelector('qkv-map')"
LABEL = "document.querySelector('[data-head=\"{}\"]').getAttribute('aria-label')"


def wait_until_drawn(tab, label):
    """Wait until the map is drawn and its first token has this label."""
    until(tab, f"{MAP}.seen?.keys[0].label === '{label}' && {MAP}.base.dataset.drawn === String({MAP}.drawing)")


def test_the_source_can_change_at_any_time(elements):
    """The selection is kept or clamped, and the elements show the new numbers."""
    tab = elements(f"window.first = random({{ n: 9, layers: 3 }}); show(first); {ALL}")
    wait_until_drawn(tab, "w0")
    tab.evaluate("state.set({ layer: 2, head: 1, query: 8, key: 6 })")
    tab.evaluate("window.second = random({ n: 5, layers: 2, seed: 2, mark: 'x' }); show(second)")
    wait_until_drawn(tab, "x0")
    now = tab.evaluate("state.now")
    assert [now[name] for name in ("shown", "layer", "head", "query", "key")] == [2, 1, 1, 4, 4]
    read, true = tab.evaluate(
        f"[{MAP}.seen.queries.map((_, u) => [...{MAP}.seen.row(u).weights]), second.weights(1, 1)]"
    )
    assert np.array_equal(read, true)
    until(tab, "document.querySelector('qkv-lines .near .chosen')?.textContent === 'x4'")
    until(tab, "document.querySelector('qkv-steps h3')?.textContent.includes('x4')")
    assert tab.locator("qkv-overview [role=gridcell]").count() == 4
    # The same text with other numbers keeps the place that was zoomed to.
    tab.evaluate(f"{MAP}.zoom(1.6)")
    size = tab.evaluate(f"{MAP}.frame.size")
    tab.evaluate("window.third = random({ n: 5, layers: 2, seed: 3, mark: 'y' }); show(third)")
    wait_until_drawn(tab, "y0")
    assert tab.evaluate(f"{MAP}.frame.size") == size


def test_pictures_and_kinds_arrive_layer_by_layer(elements):
    tab = elements(f"window.first = random({{ layers: 3, late: true }}); show(first); {ALL}")
    grey = "document.querySelector('[data-head=\"{}\"] canvas').dataset.drawn === undefined"
    wait_until_drawn(tab, "w0")
    assert tab.evaluate(LABEL.format("1.0")) == "layer 1, head 0" and tab.evaluate(grey.format("1.0"))
    tab.evaluate("first.come(1)")
    until(tab, f"{LABEL.format('1.0')} === 'layer 1, head 0 · most: w5 → w1 0.50'")
    assert not tab.evaluate(grey.format("1.0")) and tab.evaluate(grey.format("0.0"))
    tab.evaluate("first.come(0, null)")
    until(tab, f"{LABEL.format('0.0')}.includes('looks at the first token')")
    assert "looks at the first token" in tab.inner_text("qkv-overview .told")


def test_results_of_a_previous_source_are_ignored(elements):
    """Late pictures, heads and errors of the previous source have no effect."""
    tab = elements(
        f"""window.hold = {{}}; window.first = random({{ late: true, head: () => new Promise((resolve, reject) => (hold.reject = reject)) }});
        show(first); {ALL}"""
    )
    tab.evaluate("window.second = random({ mark: 'x', late: true }); show(second)")
    wait_until_drawn(tab, "x0")
    tab.evaluate("first.come(0); first.fail(1, new Error('gone')); hold.reject(new Error('gone'))")
    tab.wait_for_timeout(60)
    assert tab.evaluate(LABEL.format("0.0")) == "layer 0, head 0"
    assert tab.evaluate("document.querySelector('[data-head=\"0.0\"] canvas').dataset.drawn") is None
    assert "could not" not in tab.inner_text("main")


def test_failures_have_a_message(elements):
    tab = elements(
        f"""window.first = random({{ late: true, head: () => Promise.reject({{ say: {{ en: "No such head." }} }}) }}); show(first); {ALL}
        first.fail(0, new Error("broken"))"""
    )
    until(tab, "document.querySelector('qkv-overview .told').textContent.startsWith('This could not be computed')")
    for name in ("qkv-map .computing", "qkv-lines .help", "qkv-steps .help"):
        until(tab, f"document.querySelector('{name}').textContent === 'No such head.'")
    tab.evaluate("show(random({ mark: 'x' }))")  # and the next is as if nothing had been
    wait_until_drawn(tab, "x0")
    assert tab.locator("qkv-map .computing").is_hidden()


def test_maps_beside_each_other_share_a_crosshair(elements):
    tab = elements(
        """show(random());
        const maps = [0, 1].map((head) => Object.assign(h("qkv-map"), { state: new Beside({ layer: 1, head }) }));
        const [a, b] = maps.map((map) => () => view(map.state.now));
        const difference = Object.assign(h("qkv-map"), { look: async () => {
          const [one, other] = await Promise.all([a(), b()]);
          return new View({ kind: "difference", queries: one.queries, keys: one.keys, width: one.keys.length, compute: (i, weights, seen) => {
            const [x, y] = [one.row(i), other.row(i)];
            x.weights.forEach((w, j) => { weights[j] = y.weights[j] - w; seen[j] = x.seen[j] & y.seen[j] }) } }) } });
        document.querySelector("main").append(...maps, difference)""",
    )
    until(tab, "[...document.querySelectorAll('qkv-map')].every((map) => map.seen)")
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids)) >= 3
    stage = tab.locator("[role=application]").nth(2)
    assert stage.get_attribute("aria-label") == "Difference of two maps, signed"
    tab.locator(".stage").nth(1).focus()
    tab.keyboard.press("ArrowUp")
    cells = [tab.locator("output.cell").nth(i).inner_text() for i in range(3)]
    assert all("w4 → w1" in cell for cell in cells)
    first, second, difference = (float(cell.split("\n")[1].replace("−", "-")) for cell in cells)
    assert first != second and abs(second - first - difference) < 2e-6
    assert tab.inner_text("#qkv-live").endswith(f"{second}")  # of the map that is used
    tab.locator("qkv-map select").nth(3).select_option("0")  # the second map's head, and nobody else's
    assert tab.evaluate("[...document.querySelectorAll('qkv-map')].map((map) => map.state.now.head)") == [0, 0, 0]


def test_removed_elements_stop_listening(elements):
    tab = elements(f"show(random()); {ALL}")
    wait_until_drawn(tab, "w0")
    tab.evaluate("window.old = document.querySelector('qkv-map'); document.querySelector('main').replaceChildren()")
    tab.evaluate("window.before = old.loading; show(random({ mark: 'x' })); state.set({ head: 1 })")
    assert tab.evaluate("old.loading === before")
    tab.evaluate("document.querySelector('main').append(old)")
    wait_until_drawn(tab, "x0")


def test_spoofing_characters_are_escaped(elements):
    """Texts, labels and announcements escape the same characters as the terminal."""
    tab = elements("0")
    text = "".join(chr(i) for i in (*range(0x20), *range(0x7E, 0xA2), *range(0x2028, 0x2030), *range(0x2064, 0x206B)))
    text += "a\r\nb 人 é"
    assert tab.evaluate("(text) => plainText(text)", text) == plain(text)
    name = "run\u202egnp.exe"
    texts = tab.evaluate(
        """(name) => { const made = h("p", { title: name, "aria-label": name }, name, token(name)); announce(name);
        return [made.textContent, made.title, made.ariaLabel, document.getElementById("qkv-live").textContent] }""",
        name,
    )
    assert texts == [2 * plain(name), plain(name), plain(name), plain(name)]
