"""Tracing on SmolLM2 (135M): traces, exact maps, the page, patterns; against transformers and, if installed, TransformerLens
and BertViz.

    python -m benchmarks.see            all of it
    python -m benchmarks.see peers      only TransformerLens and BertViz, as a separate table

Needs `qkv models get smollm2`. Memory is the peak of a separate process. In rows without a rival the ratio is to a time or a
size. The two peers are not dependencies: `pip install --target FOLDER transformer_lens bertviz` and PYTHONPATH=FOLDER.
"""

import gc
import importlib.metadata
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import qkv
from qkv import masks
from qkv.attention.dispatch import Call
from qkv.draw.page import page
from qkv.library import store
from qkv.tracing.study.patterns import patterns
from qkv.tracing.views.attention_maps import head_of

from ._measure import Row, publish, race
from .busy import beside

TEXT = "The history of the bridge begins in the year when two villages on either side of the river agreed to share a road. "


def seconds(run: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# Not getrusage: on Linux a new process inherits the peak of the one that started it.
HELPER = """
from pathlib import Path
def peak():
    return next(int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")) / 1e6
"""
PEAK = """
import torch, qkv
model, tokenizer = qkv.load("smollm2")
ids = (tokenizer.encode({text!r}) * 300)[:{n}]
before = peak()
with torch.no_grad():
    kept = {what}
print(peak() - before)
"""
THEIRS = """
import torch
from transformers import AutoModelForCausalLM
from qkv.library import store
file = Path(store.path("smollm2"))
model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
"""
EAGER = (
    THEIRS
    + """
model.set_attn_implementation("eager")
ids = torch.randint(1000, (1, {n}))
before = peak()
with torch.no_grad():
    kept = model.model(ids, output_attentions=True, use_cache=False)
print(peak() - before)
"""
)
LENS = (
    THEIRS
    + """
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
bridge = build_bridge_from_module(model, "LlamaForCausalLM", hf_config=model.config)
ids = torch.randint(1000, (1, {n}))
patterns = dict(names_filter=lambda name: name.endswith("hook_pattern"))
with torch.no_grad():
    bridge.run_with_cache(ids[:, :8], **patterns)
    before = peak()
    kept = bridge.run_with_cache(ids, **patterns)
print(peak() - before)
"""
)


def gigabytes(code: str) -> float:
    """Return the peak memory of code in a separate process, without the model."""
    done = subprocess.run([sys.executable, "-c", HELPER + code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


PLAIN = """
import time
begun = time.perf_counter()
import torch, qkv
model, tokenizer = qkv.load("smollm2")
ids = torch.tensor([tokenizer.encode(open({file!r}, encoding="utf-8").read())])
read = time.perf_counter()
with torch.inference_mode():
    model(ids)
print(read - begun, time.perf_counter() - read)
"""


def whole_command(tokenizer: Any, n: int, busy: bool) -> list[Row]:
    """`qkv see --file … -o page.html` from its start to its end, against its start-up and three plain forward passes.

    Waiting threads of the plain passes sleep too, as in the command line.
    """
    text = tokenizer.decode((tokenizer.encode(TEXT) * 300)[:n])
    with tempfile.TemporaryDirectory() as folder:
        file, page_file = Path(folder) / "text.txt", Path(folder) / "page.html"
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "qkv", "see", "--file", str(file), "--model", "smollm2", "-o", str(page_file)]
        plain = [sys.executable, "-c", PLAIN.format(file=str(file))]
        ours, start, forward = float("inf"), float("inf"), float("inf")
        environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
        for _ in range(2):
            with beside(busy):
                ours = min(ours, seconds(lambda: subprocess.run(command, capture_output=True, check=True)))
                times = subprocess.run(
                    plain, env=environment, capture_output=True, text=True, check=True
                ).stdout.split()
            start, forward = min(start, float(times[0])), min(forward, float(times[1]))
        size = page_file.stat().st_size / 1e6
    what = f"`qkv see -o` of {n:,} tokens from start to end{', busy' * busy}, against start-up + 3 plain forward passes"
    note = f"start-up {start:.1f} s, forward {forward:.1f} s; a page of {size:.0f} MB"
    return [Row(what, ours, start + 3 * forward, "≤ 1.0", "s", note)]


def first_paint(file: Path) -> float:
    """Return the seconds until the first paint in Chromium."""
    from playwright.sync_api import sync_playwright

    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=flags.split())
        best = float("inf")
        for _ in range(3):
            tab = browser.new_page()
            tab.goto(file.as_uri())
            paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            while (paint_time := tab.evaluate(paint)) is None:
                time.sleep(0.02)
            best = min(best, paint_time / 1e3)
            tab.close()
        browser.close()
    return best


def installed(package: str) -> str:
    """Return the version of a package, or "" if it is not installed."""
    return importlib.metadata.version(package) if importlib.util.find_spec(package) else ""


def absent(what: str, unit: str, name: str) -> Row:
    return Row(what, math.nan, math.nan, "≤ 1.0", unit, f"{name} is not installed")


def lens(model: Any, ids: list[int], n: int = 512) -> list[Row]:
    """All 270 maps of a text by TransformerLens: its bridge around transformers' model, storing only the patterns."""
    whats = (
        f"a trace of {n:,} tokens and all 270 exact maps of it, against TransformerLens' run_with_cache",
        f"extra memory of tracing {n:,} tokens, against TransformerLens' patterns alone",
    )
    version = installed("transformer_lens")
    if not version:
        return [absent(what, unit, "TransformerLens") for what, unit in zip(whats, ("ms", "GB"), strict=True)]
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
    from transformers import AutoModelForCausalLM

    file = Path(str(store.path("smollm2")))
    theirs = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    bridge = build_bridge_from_module(theirs, "LlamaForCausalLM", hf_config=theirs.config)
    inputs = torch.tensor([ids[:n]])

    def ours() -> Any:
        trace = qkv.trace(model, inputs)
        return [[trace.map(layer, head) for head in range(9)] for layer in range(30)]

    def its() -> Any:
        return bridge.run_with_cache(inputs, names_filter=lambda name: name.endswith("hook_pattern"))[1]

    with torch.no_grad():
        off = abs(ours()[13][8] - its()["blocks.13.attn.hook_pattern"][0, 8].numpy()).max()
        mine, other = race(ours, its, rounds=3, seconds=0.01)
    used = gigabytes(PEAK.format(text=TEXT, n=n, what="qkv.trace(model, ids)")), gigabytes(LENS.format(n=n))
    about = f"TransformerLens {version}; 13.8 differs by {off:.0e}"
    return [
        Row(whats[0], mine, other, "≤ 1.0", note=about),
        Row(whats[1], *used, "≤ 1.0", "GB", f"TransformerLens {version}"),
    ]


def viz(model: Any, ids: list[int], n: int = 128) -> list[Row]:
    """The page of all 270 heads by BertViz's head_view, from computed maps."""
    whats = f"page of {n} tokens, all 270 heads: size, against BertViz' head_view", "… written in"
    version = installed("bertviz")
    if not version:
        return [absent(what, unit, "BertViz") for what, unit in zip(whats, ("MB", "s"), strict=True)]
    from bertviz import head_view

    trace = qkv.trace(model, ids[:n], name="smollm2")
    maps = [torch.stack([torch.from_numpy(trace.map(layer, head)) for head in range(9)])[None] for layer in range(30)]
    tokens = list(trace.tokens().pieces)
    mine = its = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            paths = Path(folder) / "ours.html", Path(folder) / "its.html"
            mine = min(mine, seconds(lambda: page(trace, paths[0])))
            its = min(its, seconds(lambda: paths[1].write_text(head_view(maps, tokens, html_action="return").data)))
        sizes = [path.stat().st_size / 1e6 for path in paths]
    note = f"BertViz {version}; its size grows with n²: 16 times this at 512 tokens"
    return [Row(whats[0], sizes[0], sizes[1], "≤ 1.0", "MB", note), Row(whats[1], mine, its, "≤ 1.0", "s")]


def opened() -> tuple[Any, Any, list[int]]:
    if store.path("smollm2") is None:
        sys.exit("get the model first:  qkv models get smollm2")
    model, tokenizer = qkv.load("smollm2")
    return model, tokenizer, tokenizer.encode(TEXT) * 300


def peers() -> list[Row]:
    model, _, ids = opened()
    return lens(model, ids) + viz(model, ids)


def main() -> list[Row]:
    model, tokenizer, ids = opened()
    rows = []

    short = torch.tensor([ids[:2048]])
    with torch.inference_mode():
        plain, traced = race(lambda: model.decode(short), lambda: qkv.trace(model, short), rounds=5, seconds=0.1)
    rows.append(Row("tracing 2,048 tokens, against the plain forward pass", traced, plain, "≤ 1.10"))

    what = {"traced": "qkv.trace(model, ids)", "plain": "model.decode(torch.tensor([ids]))"}
    used = {name: gigabytes(PEAK.format(text=TEXT, n=4096, what=code)) for name, code in what.items()}
    extra = used["traced"] - used["plain"]
    eager = gigabytes(EAGER.format(n=1024))
    note = f"transformers' eager output_attentions takes {eager:.2f} GB at 1,024 tokens and grows with n²"
    rows.append(Row("extra memory of tracing 4,096 tokens", max(extra, 0.0), 0.8, "≤ 1.0", "GB", note))

    trace = qkv.trace(model, ids[:4096])
    whole, view, row = race(
        lambda: trace.map(13, 8), lambda: trace.map(13, 8, bins=512), lambda: trace.row(13, 8, 4000), seconds=0.3
    )
    rows += [
        Row("any exact head at 4,096 tokens", whole, 250, "≤ 1.0"),
        Row("the whole head pooled to 512×512 cells", view, 200, "≤ 1.0"),
        Row("one row of it", row, 1, "≤ 1.0"),
    ]

    half = qkv.trace(model, ids[:512], name="smollm2")
    rows.append(
        Row("patterns of all 270 heads at 512 tokens", race(lambda: patterns(half), rounds=3)[0], 2000, "≤ 1.0")
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        wrote = min(seconds(lambda: page(half, file)) for _ in range(3))
        rows += [
            Row("page of 512 tokens, all 270 heads: size", file.stat().st_size / 1e6, 36, "≤ 1.0", "MB"),
            Row("… written in", wrote, 4, "≤ 1.0", "s"),
            Row("… first paint in Chromium", first_paint(file), 1.5, "≤ 1.0", "s"),
        ]

    rows += [row for n in (582, 3852) for busy in (False, True) for row in whole_command(tokenizer, n, busy)]

    n = 100_000
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 64) for _ in range(3))
    best, forward = float("inf"), float("inf")
    for _ in range(2):
        forward = min(forward, seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        head = head_of(Call(q, k, v, masks.causal(), 0.125, name="decoder.0"), 0, 0)
        best = min(best, seconds(lambda: head.pooled(512)))
    rows.append(
        Row("one head of 100,000 tokens, pooled exactly, against its SDPA forward", best, forward, "≤ 2.0", "s")
    )
    code = f"""
import torch
from qkv import masks
from qkv.attention.dispatch import Call
from qkv.tracing.views.attention_maps import head_of
q, k, v = (torch.randn(1, 1, {n}, 64) for _ in range(3))
before = peak()
head_of(Call(q, k, v, masks.causal(), 0.125, name="decoder.0"), 0, 0).pooled(512)
print(peak() - before)
"""
    rows.append(Row("… its memory", gigabytes(code), 1.0, "≤ 1.0", "GB"))
    return rows


if __name__ == "__main__":
    if sys.argv[1:] != ["peers"]:
        publish("see", "Seeing (SmolLM2-135M)", main())
    publish("see-peers", "Seeing, against TransformerLens and BertViz (SmolLM2-135M)", peers())
