"""Self, causal and cross-attention: one formula that differs only in where Q, K and V come from, and in the mask.

A translator has all three: self-attention in its encoder, causal attention in its decoder, and cross-attention from the
decoder to the source. The numbers come from a trace of such a model (included in qkv), or from your own words with random
projections. To show what a mask does, the last key is changed and the output rows that change are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..attention import masks
from ..attention.dispatch import Call, attend
from ..draw import figure_canvas
from ..i18n import Problem, _, say
from ..text.seeded_rng import dice
from . import Progress, Results, Row, report
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRACE = Path(__file__).parent.parent / "demo" / "traces" / "weather-opus-zh-en.safetensors"
KINDS = ("self", "causal", "cross")
PARTS = {"self": ("encoder", 2, 5), "causal": ("decoder", 2, 4), "cross": ("cross", 3, 4)}  # part, layer, head
MAX_WORDS = 40  # words


LABELS = {"self": _("self-attention"), "causal": _("causal"), "cross": _("cross-attention")}
# where Q comes from, where K and V come from, and which models use it
ORIGINS = {
    "self": (_("source"), _("the same source"), _("encoders: BERT, a translator's reader")),
    "causal": (_("target so far"), _("the same, up to itself"), _("decoders: GPT, a translator's writer")),
    "cross": (_("target"), _("source"), _("encoder-decoders: translators, T5, BART")),
}


def measure(*, text: str, source: str, width: int, seed: int, progress: Progress) -> Results:
    """Return for each kind its tokens, mask and weights, and how many rows the last key affects."""
    if bool(text.strip()) != bool(source.strip()):
        raise Problem(
            "give both --words (the words that are written) and --source (the words that are read), or neither"
        )
    inputs = _from_words(text.split(), source.split(), width, seed) if text.strip() else _from_trace()
    rows = []
    for kind in KINDS:
        call, queries, keys = inputs["calls"][kind]
        row = {"kind": kind, "queries": queries, "keys": keys}
        rows.append(row | _probe_mask(call) | inputs["names"].get(kind, {}))
    return {"rows": rows, "model": inputs["model"]}


def _from_trace() -> Row:
    """Return the calls of a pretrained translator, from the trace included in qkv."""
    from ..tracing.views.traces import Trace

    trace = Trace.load(TRACE)
    calls, names = {}, {}
    for kind, (part, layer, head) in PARTS.items():
        call = trace.call(layer, part).only([head])
        calls[kind] = (call, trace.tokens(part).numbered, trace.tokens(part, keys=True).numbered)
        names[kind] = {"head": f"{layer}.{head}"}
    return {"calls": calls, "names": names, "model": trace.model}


def _from_words(text: list[str], source: list[str], width: int, seed: int) -> Row:
    """Return calls on the user's words, with a random vector per distinct word and random projections."""
    for words in (text, source):
        if len(words) > MAX_WORDS:
            raise Problem(
                "{n} words are too many to draw: give at most {most}, separated by blanks", n=len(words), most=MAX_WORDS
            )
    vocabulary = sorted({*text, *source})
    rng = dice(seed, 0, stream=10)
    table = rng.standard_normal((len(vocabulary), width))
    matrices = rng.standard_normal((3, width, width)) / np.sqrt(width)

    def call(query_words: list[str], key_words: list[str], mask: masks.Mask) -> Call:
        x, memory = (table[[vocabulary.index(word) for word in words]] for words in (query_words, key_words))
        q, k, v = (
            torch.from_numpy(part @ matrix)[None, None]
            for part, matrix in zip((x, memory, memory), matrices, strict=True)
        )
        return Call(q, k, v, mask, width**-0.5)

    calls = {
        "self": (call(source, source, masks.full()), source, source),
        "causal": (call(text, text, masks.causal()), text, text),
        "cross": (call(text, source, masks.full()), text, source),
    }
    return {"calls": calls, "names": {}, "model": None}


@torch.no_grad()
def _probe_mask(call: Call) -> Row:
    q, k, v = (part[:1].double() for part in (call.q, call.k, call.v))
    output, weights = attend(q, k, v, call.mask, scale=call.scale, weights=True)
    allowed = call.allowed()[0, 0].expand(q.shape[2], k.shape[2])
    # Change the last key and value, and compare the output rows.
    changed_k, changed_v = k.clone(), v.clone()
    changed_k[:, :, -1] = changed_k[:, :, -1].flip(-1) + 1
    changed_v[:, :, -1] = changed_v[:, :, -1].flip(-1) + 1
    # with the same kernel, since two kernels differ by rounding
    output_after, _ = attend(q, changed_k, changed_v, call.mask, scale=call.scale, weights=True)
    moved = (output_after - output).abs().amax(-1)[0, 0]
    table = weights[0, 0]
    # in self-attention, prefer pairs of two different tokens
    candidates = table.clone()
    if len(q[0, 0]) == len(k[0, 0]) and len(table) > 1:
        candidates.fill_diagonal_(0)
    strongest = int(candidates.argmax())
    return {
        "allowed": allowed.tolist(),
        "weights": table.numpy().round(6).tolist(),
        "pairs": int(allowed.sum()),
        "row_sums": [float(table.sum(-1).min()), float(table.sum(-1).max())],
        "hidden_weight": float(table[~allowed].abs().sum()),
        "moved": int((moved > 0).sum()),
        "strongest": [strongest // table.shape[1], strongest % table.shape[1], float(candidates.max())],
    }


ORIGIN_COLUMNS = (
    Column(lambda row: say(LABELS[row["kind"]])),
    *(Column(partial(lambda at, row: say(ORIGINS[row["kind"]][at]), at)) for at in range(3)),
)
NUMBER_COLUMNS = (
    Column(lambda row: say(LABELS[row["kind"]])),
    Column(lambda row: f"{len(row['queries'])} × {len(row['keys'])}"),
    Column(lambda row: f"{row['pairs']} / {len(row['queries']) * len(row['keys'])}"),
    Column(lambda row: f"{row['row_sums'][0]:.6g} … {row['row_sums'][1]:.6g}"),
    Column("hidden_weight", "g"),
    Column(lambda row: f"{row['moved']} / {len(row['queries'])}"),
    Column(lambda row: _strongest_pair(row)),
)


def tables(results: Results) -> list[report.Table]:
    """Return the table of origins and uses, and the table of the numbers."""
    title = say("Where Q and K, V come from, and who uses it")
    header = say("kind|queries × keys|may look|sums of rows|hidden weight|rows that the last key moves|strongest")
    rows = results["rows"]
    return [
        report.table(title, say("kind|Q from|K, V from|used by").split("|"), ORIGIN_COLUMNS, rows, words=(0, 1, 2, 3)),
        report.table(_title(results), header.split("|"), NUMBER_COLUMNS, rows, words=(0, 6)),
    ]


def _title(results: Results) -> str:
    if results["model"] is None:
        return say("Your own words, random vectors of width {width}, seed {seed}", **results["sizes"])
    heads = say(", ").join(f"{say(LABELS[row['kind']])} {row['head']}" for row in results["rows"])
    return say("Measured in {model} (layer.head: {heads})", model=results["model"], heads=heads)


def _strongest_pair(row: Row) -> str:
    i, j, weight = row["strongest"]
    return f"{row['queries'][i]} → {row['keys'][j]} {weight:.2f}"


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize what the three kinds share and what the masks do."""
    own, causal, cross = results["rows"]
    yield say("All three are softmax(QKᵀ/√d)V: only where Q and K, V come from and who may look at whom differ.")
    hidden = sum(row["hidden_weight"] for row in results["rows"])
    sums = _("What a mask hides has a weight of exactly 0, and the rest of each row still adds up to 1.")
    if hidden != 0:
        sums = _("What the masks hide still has a weight of {hidden:g} in all: that should be 0.")
    yield sentence(sums, hidden=hidden)
    yield say(
        "Changing the last key and value moved {own} of {own_n} rows of self-attention, {causal} of "
        "{causal_n} of causal attention and {cross} of {cross_n} of cross-attention.",
        own=own["moved"],
        own_n=len(own["queries"]),
        causal=causal["moved"],
        causal_n=len(causal["queries"]),
        cross=cross["moved"],
        cross_n=len(cross["queries"]),
    )
    if causal["moved"] == 1:
        yield say(
            "No earlier row depends on a later token: that is why a decoder can be trained on all positions of a "
            "text at once."
        )
    yield say("The strongest weight of cross-attention here: {pair}.", pair=_strongest_pair(cross))
    if results["model"] is not None:  # for the user's words both names are equal
        yield say(
            "The rows of the translation have two names: in the causal table the token that is read there "
            "({first} starts it), in the table of cross-attention the token that is written from there, one "
            "further on ({first} → {second}). {end} is the end of the text.",
            first=causal["queries"][0],
            second=causal["queries"][1],
            end=cross["queries"][-1],
        )


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Draw the masks, and below them the attention weights."""
    rows = results["rows"]
    words = [word for row in rows for word in (*row["queries"], *row["keys"])]
    longest = max(max(len(row["queries"]), len(row["keys"])) for row in rows)
    side = min(max(0.24 * longest + 1.0, 3.1), 7)
    figure = report.canvas(2, 3, each=(side, side * 0.95), words=words)
    for column, row in enumerate(rows):
        allowed = np.array(row["allowed"])
        name = say(LABELS[row["kind"]])
        shape = f"{len(row['queries'])} × {len(row['keys'])}"
        for panel_row, (table, title) in enumerate(
            (
                (allowed.astype(float) * 0.35, f"{name} · {shape}"),
                (np.array(row["weights"]), name + (f" · {row['head']}" if row.get("head") else "")),
            )
        ):
            axes = figure.add_subplot(2, 3, 3 * panel_row + column + 1)
            figure_canvas.paint(axes, table, allowed)
            if panel_row == 0:  # cells that can be counted
                axes.set_xticks(np.arange(0.5, table.shape[1] - 1), minor=True)
                axes.set_yticks(np.arange(0.5, table.shape[0] - 1), minor=True)
                axes.grid(which="minor", color="white", linewidth=0.8)
                axes.tick_params(which="minor", length=0)
            figure_canvas.label(axes, row["queries"], row["keys"])
            q_origin, k_origin, _user = ORIGINS[row["kind"]]
            report.label_axes(axes, title, say(k_origin) + " (K, V)", say(q_origin) + " (Q)")
    return report.finish(figure, path)
