"""Shared helpers of the page tests: traces, waiting, and checks of displayed numbers."""

import time
from pathlib import Path

import numpy as np
import torch

import qkv
from qkv import Config, Transformer, masks
from qkv.attention.dispatch import Call
from qkv.draw.page import MODULES
from qkv.tracing.record.recorder import trace
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace

WEB = Path(qkv.__file__).parent / "web"
PAGE = ["page/page_header", *MODULES.values(), "map/map_export", "page/page"]  # the modules of a whole page
ROWS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8]]


FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"


FLAGS += " --disable-component-update --disable-sync"


CLOSE = 2e-5  # float32 here and there


ROUGH = 5e-3  # where q and k are float16


CONFIGS = {
    "shared keys, padded": dict(n_kv_head=2),
    "window": dict(window=3),
    "alibi": dict(position="alibi"),
    "relative": dict(position="relative"),
    "encoder": dict(kind="encoder", position="learned"),
    "translator": dict(kind="encoder-decoder", position="sinusoidal"),
    "latent": dict(mixer="latent", rank=12, rope_width=4),
}


def small_model(**settings):
    """Return a model of two layers and six heads with large weights, so that attention isn't uniform."""
    torch.manual_seed(0)
    model = Transformer(Config(vocab=11, width=36, n_layer=2, n_head=6, context=40, **settings))
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.mul_(8)
    return model.eval()


def trace_rows(model, rows=ROWS):
    target = [[1, 2, 3, 4, 5], [6, 7, 8]] if model.config.kind == "encoder-decoder" else None
    return trace(model, rows, target=target, name="small")


def make_trace(*, n=9, m=None, heads=4, groups=2, width=8, layers=1, batch=1, pieces=None, special=(), seed=0, **call):
    """Return a trace of random q, k and v."""
    rng = torch.Generator().manual_seed(seed)
    m = n if m is None else m
    mask = call.pop("mask", masks.causal())

    def random(*shape):
        return torch.randn(*shape, generator=rng) * 1.5

    calls = [
        Call(
            random(batch, heads, n, width),
            random(batch, groups, m, width),
            random(batch, groups, m, width),
            mask,
            call.get("scale", width**-0.5),
            call.get("bias"),
            call.get("softcap"),
            call.get("sinks"),
            f"decoder.{i}",
        )
        for i in range(layers)
    ]

    def tokens(count):
        words = tuple(pieces or [f" w{i}" for i in range(count)])
        return [Tokens(words, tuple(i in special for i in range(count)))] * batch

    return Trace({"decoder": calls}, {"decoder": tokens(n)}, {"decoder": tokens(m)}, "made", "")


def until(tab, expression, seconds=60):
    """Wait until the expression is true. (Playwright's wait_for_function evaluates strings, which the page's policy forbids.)"""
    end = time.monotonic() + seconds
    while not tab.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        tab.wait_for_timeout(15)


def weights(tab, part, layer, head, item=0):
    address = [part, layer, head, item]
    return np.array(
        tab.evaluate("async (at) => (await qkv.weights(...at)).map((row) => Array.from(row))", address), np.float64
    )


def assert_rounds_to(text, true):
    """Assert that a displayed number is exact to one unit of its last digit; "<" is an upper limit."""
    text = text.replace("−", "-").removeprefix("≈")
    if text.startswith("<"):
        assert 0 < true < float(text[1:]), (text, true)
        return
    unit = 10.0 ** -len(text.partition(".")[2])
    assert abs(float(text) - true) <= unit, (text, true)


TARGETS = """() => [...document.querySelectorAll("button, select, input, summary, textarea, a[href], [role=option], [role=slider]")].flatMap((e) => {
    const { width, height } = e.getBoundingClientRect(), style = getComputedStyle(e);
    const seen = width > 0 && height > 0 && style.visibility !== "hidden" && !e.closest(".unseen");
    return seen && (width < 23.9 || height < 23.9) ? [`${Math.round(width)}×${Math.round(height)} ${e.outerHTML.slice(0, 90)}`] : [] })"""


def small_targets(tab):
    """Return the click targets smaller than 24 × 24 pixels (WCAG 2.5.8)."""
    return tab.evaluate(TARGETS)


def contrast(tab, selector):
    """Return the contrast ratios of these elements' texts; 4.5 is readable."""

    def light(colour):
        r, g, b = (x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in np.array(colour[:3]) / 255)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    read = """(selector) => [...document.querySelectorAll(selector)].map((e) => { const { color, backgroundColor } = getComputedStyle(e);
        return [color, backgroundColor].map((text) => text.match(/[\\d.]+/g).map(Number)) })"""
    pairs = [sorted((light(ink), light(ground))) for ink, ground in tab.evaluate(read, selector)]
    assert pairs
    return [(bright + 0.05) / (dark + 0.05) for dark, bright in pairs]
