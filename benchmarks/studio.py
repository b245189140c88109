"""Times of the studio: from the command to the first map, from a key press to new maps and words, from a long text to all
heads, tiles meanwhile, panning at 8,000 tokens, memory, and twenty tabs.

    python -m benchmarks.studio [first typing long frames tabs]         all, or those named; other rows of the table stay

Needs Debian's chromium and `qkv models get smollm2`. The plain forward pass runs in a separate process, in turns with the
studio; the best of several rounds counts, and for tiles the 95th percentile of 100.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from qkv.library import store
from tests.studio.conftest import Client
from tests.studio.unpacking import unpack

from ._measure import Row, publish, published

FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
IMPORTS = [sys.executable, "-c", "import numpy, starlette, uvicorn"]
SENTENCE = "The old man and his dog walked along the river until the sun went down behind the hills and the water grew dark and"
LONG, LONGER = 4000, 8000
# Everything of the newest text is on the screen: the head's map, the small pictures of all heads, the next words.
SETTLED = """() => {
  const { served, studio } = window.qkv, source = served(), map = document.querySelector("qkv-map");
  const typed = document.querySelector("qkv-textbox textarea").value;
  const all = document.querySelectorAll("qkv-overview .grid canvas"), drawn = document.querySelectorAll("qkv-overview .grid canvas[data-drawn]");
  return Boolean(source && source.spec.text === typed && source.words && !map.hasAttribute("aria-busy") && map.base?.dataset.drawn &&
    all.length && all.length === drawn.length && studio.now.outcome.words === source.words);
}"""
TIMED = """(settled) => new Promise((resolve) => {
  const ready = eval(settled);
  addEventListener("keydown", () => { window.pressed = performance.now(); }, { capture: true, once: true });
  const look = () => { if (window.pressed && ready()) { const took = performance.now() - window.pressed; window.pressed = 0; resolve(took); } else requestAnimationFrame(look); };
  requestAnimationFrame(look);
})"""
FORWARD = """
import json, sys, time, torch, qkv
model, tokenizer = qkv.load("smollm2")
for line in sys.stdin:
    text, count = json.loads(line)
    ids = torch.tensor([tokenizer.encode(text)[:count]])
    with torch.no_grad():
        start = time.perf_counter()
        model.head(model.decode(ids)[:, -1:])
        print(json.dumps([time.perf_counter() - start, tokenizer.decode(ids[0].tolist())]), flush=True)
"""


class Forward:
    """The plain forward pass of SmolLM2 with the logits of the last token, in a separate process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORWARD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, text: str, count: int = 10**6) -> tuple[float, str]:
        """Return the seconds, and the text cut to `count` tokens."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([text, count]) + "\n")
        self.process.stdin.flush()
        took, cut_text = json.loads(self.process.stdout.readline())
        return took, cut_text

    def best(self, text: str, rounds: int) -> float:
        return min(self.run(text)[0] for _ in range(rounds))


class Studio:
    """A `qkv studio` process."""

    def __init__(self) -> None:
        self.start_time = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "qkv", "studio", "--no-browser"], stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self.process.stdout
        stdout = ""
        while "token=" not in stdout:
            stdout += self.process.stdout.readline()
        match = re.search(r"http://\S+", stdout)
        assert match
        self.address = match[0]
        self.client = Client(self.address)

    def memory(self) -> dict[str, float]:
        """Return the peak memory of the web process and the worker in MB."""
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        pids = {"web": self.process.pid, "worker": int(children.stdout)}
        sizes = {}
        for name, pid in pids.items():
            with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                sizes[name] = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024  # type: ignore[index]
        return sizes

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def studio() -> Iterator[Studio]:
    server = Studio()
    try:
        yield server
    finally:
        server.end()


def first(browser: Browser) -> list[Row]:
    """From the command to the first map on the screen, in a running browser."""
    ours, peer = [], []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run(IMPORTS, check=True)
        peer.append(time.perf_counter() - start)
        tab = browser.new_context(viewport=dict(width=1280, height=900)).new_page()
        with studio() as server:
            tab.goto(server.address, wait_until="commit")
            tab.wait_for_function("() => Boolean(document.querySelector('qkv-map')?.base?.dataset.drawn)", polling=5)
            ours.append(time.perf_counter() - server.start_time)
        tab.context.close()
    note = "from typing `qkv studio` to the map of a shipped trace on the screen"
    return [
        Row(
            "first map, against importing numpy, starlette and uvicorn",
            min(ours) * 1e3,
            min(peer) * 1e3,
            "≤ 4",
            "ms",
            note,
        )
    ]


def open_tab(browser: Browser, server: Studio, text: str) -> Page:
    """Open a tab with a text in SmolLM2 and wait for all results."""
    tab = browser.new_context(viewport=dict(width=1440, height=1000)).new_page()
    tab.goto(server.address)
    tab.wait_for_selector("html[data-ready]")
    end = time.monotonic() + 120
    while tab.evaluate("window.qkv.studio.now.model") != "smollm2":
        assert time.monotonic() < end
        tab.wait_for_timeout(50)
    tab.locator("qkv-textbox textarea").fill(text)
    tab.wait_for_function(SETTLED, timeout=120_000)
    return tab


def typing(browser: Browser) -> list[Row]:
    """30 tokens: from a key press to all results; from switching a head off to new bars."""
    rows = []
    forward = Forward()
    with studio() as server:
        text = forward.run(SENTENCE + " silent as a stone by", 30)[1]
        tab = open_tab(browser, server, text)
        area = tab.locator("qkv-textbox textarea")
        area.press("End")
        area.press("Control+End")
        ours, peer, switched = [], [], []
        for letter in "abcdefghij":
            peer.append(forward.best(text, 3))
            waiting = tab.evaluate_handle(f"(settled) => {{ window.took = ({TIMED})(settled); }}", SETTLED)
            area.press(letter)
            ours.append(tab.evaluate("window.took") / 1e3)
            waiting.dispose()
            area.press("Backspace")
            tab.wait_for_function(SETTLED)
        rows.append(
            Row(
                "30 tokens: a key pressed, until maps and next words are new, against the bare forward pass",
                min(ours) * 1e3,
                min(peer) * 1e3,
                "≤ 2",
                "ms",
            )
        )
        for layer in range(8):
            peer.append(forward.best(text, 3))
            switched.append(
                tab.evaluate(
                    """(layer) => new Promise((resolve) => {
                      const { studio, look } = window.qkv, before = studio.now.outcome, start = performance.now();
                      studio.set({ edits: [[`${layer}.3`, "zero"]] });
                      look();
                      const seen = () => studio.now.outcome !== before && studio.now.outcome.words ? resolve(performance.now() - start) : requestAnimationFrame(seen);
                      requestAnimationFrame(seen);
                    })""",
                    layer,
                )
                / 1e3
            )
            tab.wait_for_timeout(300)
        rows.append(
            Row(
                "30 tokens: a head off, until the bars are new, against the bare forward pass",
                min(switched) * 1e3,
                min(peer) * 1e3,
                "≤ 2",
                "ms",
            )
        )
    forward.process.kill()
    return rows


def request_frames(server: Studio, body: dict[str, Any]) -> list[tuple[float, dict[str, Any]]]:
    """Send a request and return (seconds, JSON) of each frame of the response."""
    import http.client

    line = http.client.HTTPConnection(server.client.host, server.client.port, timeout=600)
    headers = {"Cookie": server.client.cookie, "Content-Type": "application/json"}
    start = time.perf_counter()
    line.request("POST", "/api/ask", json.dumps(body).encode(), headers)
    answer = line.getresponse()
    times, buffer = [], b""
    while piece := answer.read1(1 << 20):
        buffer += piece
        now = time.perf_counter() - start
        while (whole := _frame_size(buffer)) is not None:
            times.append((now, unpack(buffer[:whole])[0][0]))
            buffer = buffer[whole:]
    line.close()
    return times


def _frame_size(content: bytes) -> int | None:
    """Return the bytes of the first frame if it is complete, else None."""
    if len(content) < 4:
        return None
    size = 4 + int.from_bytes(content[:4], "little")
    if len(content) < size:
        return None
    sizes = {"f4": 4, "i4": 4, "u1": 1}
    for array_header in json.loads(content[4:size])["buffers"]:
        count = sizes[array_header["dtype"]]
        for each in array_header["shape"]:
            count *= each
        size += count
    return size if len(content) >= size else None


def long(browser: Browser) -> list[Row]:
    """4,000 tokens: the overview of all heads, tiles during and after it, memory."""
    book = store.path("shakespeare")
    assert book is not None, "qkv data get shakespeare"
    forward = Forward()
    whole = forward.run(book.read_text(encoding="utf-8")[:60_000], LONG)[1]
    ours, early, peer, busy, alone = [], [], [], [], []
    with studio() as server:
        for turn in range(3):
            text = whole[turn:]  # another text each time: answers are kept
            peer.append(forward.run(text)[0])
            spec = {"model": "smollm2", "text": text}
            stop = threading.Event()

            def look(spec: dict[str, Any] = spec, stop: threading.Event = stop) -> None:
                time.sleep(1.0)
                count = 0
                while not stop.is_set():
                    busy.append(_tile(server, spec, count))
                    count += 1
                    time.sleep(0.05)

            looking = threading.Thread(target=look)
            if turn:  # the first is left alone: it is the one that counts for the overview
                looking.start()
            frames = request_frames(server, {"do": "view", "spec": spec, "tab": "one"})
            stop.set()
            if turn:
                looking.join()
            layers = [when for when, header in frames if header["kind"] == "layer"]
            assert len(layers) == 30, frames[-1]
            if not turn:
                ours.append(layers[-1])
                early.append(layers[0])
        for _ in range(2):
            text = "A" + whole[: len(whole) - len(ours)]
            peer.append(forward.run(text)[0])
            frames = request_frames(server, {"do": "view", "spec": {"model": "smollm2", "text": text}, "tab": "two"})
            layers = [when for when, header in frames if header["kind"] == "layer"]
            ours.append(layers[-1])
            early.append(layers[0])
        alone = [_tile(server, {"model": "smollm2", "text": text}, count + 1000) for count in range(100)]
        memory = server.memory()
    forward.process.kill()
    bare = min(peer)
    return [
        Row("4,000 tokens: text to the pictures of all 270 heads, against the bare forward pass", min(ours), bare, "≤ 1.7", "s"),
        Row("4,000 tokens: the first layer's pictures, against the bare forward pass", min(early), bare, "≤ 0.25", "s"),
        Row("a tile at 4,000 tokens, 95th of 100, against 60 ms", _high(alone) * 1e3, 60, "≤ 1", "ms"),
        Row("a tile while an overview is computed, 95 % of them, against 60 ms", _high(busy) * 1e3, 60, "≤ 1", "ms"),
        Row("memory at 4,000 tokens, worker and web process, against 2.5 GB", sum(memory.values()), 2560, "≤ 1", "MB"),
    ]  # fmt: skip


def _high(times: list[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


def _tile(server: Studio, spec: dict[str, Any], count: int) -> float:
    """Return the seconds for a tile that is not cached: another head, zoom and position for each `count`."""
    wide = 1 << count % 5
    size = 256 * wide
    row, col = ((count * 37 + shift) % max(1, LONG // size + 1) * size for shift in (0, 11))
    row, col = min(row, LONG - 200), min(col, row)
    body = {
        "do": "tile",
        "spec": spec,
        "part": "decoder",
        "layer": count % 4,
        "item": 0,
        "head": count % 9,
        "rows": [row, row + size],
    }
    body |= {
        "cols": [col, col + size],
        "tall": wide,
        "wide": wide,
        "pool": "max" if count % 2 else "mean",
        "sink": bool(count % 3 == 0),
    }
    start = time.perf_counter()
    frames = server.client.respond(**body)
    assert frames[0][0]["kind"] == "tile", frames
    return time.perf_counter() - start


LOOP = """(seconds, move) => new Promise((resolve) => {
  const step = move ? eval(move) : () => {};
  let last = performance.now(), late = 0, count = 0;
  const end = last + seconds * 1000;
  const frame = (now) => {
    const missed = Math.round((now - last) / (1000 / 60)) - 1;
    late += Math.max(0, missed); count += 1 + Math.max(0, missed); last = now; step(now);
    if (now < end) requestAnimationFrame(frame); else resolve([late, count]);
  };
  requestAnimationFrame(frame);
})"""
PAN = """(() => { const map = document.querySelector("qkv-map"); let turn = 0;
  return () => { turn++; const { size, x, y } = map.frame;
    if (turn % 40 < 12) map.zoom(turn % 80 < 40 ? 1.06 : 1 / 1.06); else map.move({ size, x: x + 6 / size, y: y + 6 / size }); }; })()"""


def frames(browser: Browser) -> list[Row]:
    """Panning and zooming a map of 8,000 tokens: dropped frames, minus those of an empty loop."""
    book = store.path("shakespeare")
    assert book is not None
    forward = Forward()
    text = forward.run(book.read_text(encoding="utf-8")[:100_000], LONGER)[1]
    forward.process.kill()
    with studio() as server:
        tab = open_tab(browser, server, "The cat")
        tab.locator("qkv-textbox textarea").fill(text)
        tab.wait_for_function(SETTLED, timeout=300_000)
        tab.wait_for_timeout(3000)
        shares, counts = [], [0, 0, 0, 0]
        for _ in range(3):
            still = tab.evaluate(f"({LOOP})(4, null)")
            moving = tab.evaluate(f"({LOOP})(4, {json.dumps(PAN)})")
            shares.append(max(0.0, moving[0] / moving[1] - still[0] / still[1]))
            counts = [a + b for a, b in zip(counts, [*moving, *still], strict=True)]
        assert tab.evaluate("document.querySelector('qkv-map').tiles.coloured") > 10  # it was drawn, and anew
    note = "dropped: {} of {} frames, {} of {} in an empty loop".format(*counts)
    return [
        Row(
            "pan and zoom at 8,000 tokens: frames dropped beyond an empty loop's, against 5 %",
            min(shares) * 100,
            5,
            "≤ 1",
            "%",
            note,
        )
    ]


def tabs(browser: Browser) -> list[Row]:
    """Twenty tabs in a browser, each with an event stream and a request for a cached view every second; typing in one."""
    forward = Forward()
    with studio() as server:
        text = forward.run(SENTENCE, 30)[1]
        tab = open_tab(browser, server, text)
        area = tab.locator("qkv-textbox textarea")
        area.press("Control+End")

        def typed(letters: str) -> float:
            best = []
            for letter in letters:
                tab.evaluate(f"(settled) => {{ window.took = ({TIMED})(settled); }}", SETTLED)
                area.press(letter)
                best.append(tab.evaluate("window.took"))
                area.press("Backspace")
                tab.wait_for_function(SETTLED)
            return sorted(best)[len(best) // 2]

        typed("ab")  # the first is slower
        alone = typed("abcde")
        others = []
        for _ in range(19):
            other = tab.context.new_page()
            other.goto(server.address)
            other.wait_for_selector("html[data-ready]")
            others.append(other)
        body = json.dumps({"do": "view", "spec": {"model": "trace:cat-smollm2"}, "tab": "x"})
        for other in others:
            other.evaluate(
                """(body) => { window.wrong = 0; window.asked = 0; setInterval(async () => {
                  try { const answer = await fetch("/api/ask", { method: "POST", headers: { "content-type": "application/json" }, body });
                    const bytes = await answer.arrayBuffer(); if (!answer.ok || bytes.byteLength < 1000) window.wrong++; } catch { window.wrong++; }
                  window.asked++; }, 1000); }""",
                body,
            )
        tab.bring_to_front()
        start, beside = time.monotonic(), []
        while time.monotonic() - start < 60:
            beside.append(typed("fgh"))
            tab.wait_for_timeout(2000)
        wrong = sum(other.evaluate("window.wrong") for other in others)
        count = sum(other.evaluate("window.asked") for other in others)
        assert wrong == 0 and count > 500, (wrong, count)
    forward.process.kill()
    note = f"{count} asks of 19 other tabs in a minute, none failed"
    usual = sorted(beside)[len(beside) // 2]
    return [Row("typing beside twenty tabs, against typing alone", usual, alone, "≤ 3", "ms", note)]


PARTS = {"first": first, "typing": typing, "long": long, "frames": frames, "tabs": tabs}


def main() -> None:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS.split())
        rows = [row for name in sys.argv[1:] or PARTS for row in PARTS[name](browser)]
        browser.close()
    published_rows = {row.what: row for row in published("studio")} if len(sys.argv) > 1 else {}
    publish(
        "studio",
        "The studio (SmolLM2, a page in Chromium)",
        [*(published_rows | {row.what: row for row in rows}).values()],
    )
    for row in rows:
        print(f"{row.what}: {row.ours:.4g} {row.unit}, {row.peer:.4g}, ratio {row.ratio:.3g} ({row.bar})")


if __name__ == "__main__":
    main()
