"""Alternatives to attention compared: attention, a window, retention, Mamba-2, the delta rule, a hybrid.

Six models of equal size, each with its best learning rate and several seeds, answer three questions: how fast does it learn
a text, how many key-value pairs can it recall, and what does a new token cost after a long text? A state has a fixed size,
so every token costs the same, but it can hold only a limited number of pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..attention import masks
from ..attention.cache import KVCache
from ..attention.shapes import check_even_heads
from ..draw import figure_canvas
from ..i18n import Notice, Problem, _, say
from ..library import store
from ..model.transformer import ModelCache, Transformer
from ..train.machine import threads, threads_for
from . import Course, Progress, Results, Row, report, small_step
from .mixer_contest import BATCH_TOKENS, HEADS, KINDS, ContestShape, ContestTask, NextCharacter, Recall, TrainingRun
from .mixer_summary import LABELS, by_kind, final_losses, mean_and_range, memory, recall_shares, shows, timed_losses
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEFAULT_DATA = "shakespeare"  # default text
CONTEXT = 128  # tokens of a row of text
RATES = (0.01, 0.02, 0.04, 0.08, 0.16)  # learning rates of a sweep
SWEEP_SEED = 1000  # added to the seed in a sweep, so that rates are not chosen on the measured rows and initial weights
SEED_LIMIT = 2**31  # seeds are below it
CHUNK = 1024  # tokens read at once by a state or a window

# The sweep that the rates were chosen by: the loss (text) and the mean accuracy over the numbers of pairs (recall), after a
# run of the default sizes with seed 1000 at each rate. `qkv lab mixers --tune` repeats it with any sizes.
SWEEP: dict[str, dict[str, tuple[float, ...]]] = {
    "text": {
        "attention": (2.1976, 2.0572, 1.9950, 1.9675, 2.0501),
        "window": (2.1313, 2.0174, 1.9597, 1.9532, 1.9817),
        "retention": (2.2624, 2.2081, 2.1744, 2.1934, 2.2285),
        "mamba2": (1.9243, 1.8805, 1.8963, 1.9268, 1.9394),
        "delta": (2.0160, 1.9809, 2.0318, 2.0269, 2.0502),
        "hybrid": (1.9628, 1.9012, 1.8979, 1.9164, 1.9658),
    },
    "recall": {
        "attention": (0.9998, 0.9994, 1.0000, 1.0000, 1.0000),
        "window": (0.8088, 0.8223, 0.9246, 0.9381, 0.9428),
        "retention": (0.2578, 0.2539, 0.2588, 0.2596, 0.2611),
        "mamba2": (0.4262, 0.4967, 0.6049, 0.6061, 0.5377),
        "delta": (0.9389, 0.9318, 0.7883, 0.7254, 0.2498),
        "hybrid": (1.0000, 0.9998, 1.0000, 0.9998, 1.0000),
    },
}

__all__ = ["draw", "measure", "shows", "tables"]
PanelSpec = tuple[str, Callable[[Row], float], Callable[[float], str]]  # title, values and number format of a panel
COLORS = dict(zip(KINDS, (*report.INK[:4], report.INK[4], "#000000"), strict=True))
MARKERS = dict(zip(KINDS, "os^vDX", strict=True))


def measure(
    *,
    text: str,
    steps: int,
    pairs: tuple[int, ...],
    recall_steps: int,
    lengths: tuple[int, ...],
    width: int,
    layers: int,
    window: int,
    state: int,
    seeds: int,
    tune: int,
    seed: int,
    progress: Progress,
) -> Results:
    """Train all six on both tasks with every seed; then one more token after contexts of these lengths."""
    check_even_heads(width, [HEADS])
    shape, load = ContestShape(width, layers, window, state), report.load_per_core()
    tasks: dict[str, ContestTask] = {"recall": Recall(pairs, recall_steps)}
    if (source := _find_text(text)) is not None:
        tasks = {"text": NextCharacter(source, CONTEXT), **tasks}
    step_counts = {"text": steps, "recall": recall_steps}
    configs = {name: {kind: shape.config(kind, t.vocab, t.context) for kind in KINDS} for name, t in tasks.items()}
    models = {name: {kind: Transformer(config) for kind, config in of.items()} for name, of in configs.items()}
    counts = {name: {kind: model.count() for kind, model in of.items()} for name, of in models.items()}
    with threads(threads_for(max(counts["recall"].values()), BATCH_TOKENS)):
        sweeps = [((seed + SWEEP_SEED) % SEED_LIMIT, rate) for rate in RATES if tune]
        # Without a rate, the best one is used.
        runs = [*sweeps, *(((seed + i) % SEED_LIMIT, None) for i in range(seeds))]
        plan = [(name, kind, run_seed, rate) for name in tasks for run_seed, rate in runs for kind in KINDS]

        def new_run(name: str, kind: str, run_seed: int, rate: float) -> TrainingRun:
            return TrainingRun(configs[name][kind], tasks[name], rate, step_counts[name], run_seed)

        step_seconds = {
            (name, kind): small_step(new_run(name, kind, seed, RATES[0]).step) for name in tasks for kind in KINDS
        }
        expected = [step_seconds[name, kind] * step_counts[name] for name, kind, *_rest in plan]
        course = Course(progress, [*expected, *(_expected_seconds(n, layers) for n in lengths)])
        sweep = {name: dict(rows) for name, rows in SWEEP.items()}
        tried: dict[tuple[str, str], list[float]] = {}
        rows: dict[str, list[Row]] = {name: [] for name in tasks}
        for part, (name, kind, run_seed, rate) in enumerate(plan):
            if rate is None and (name, kind) in tried:
                sweep[name][kind] = tuple(tried[name, kind])
            model = new_run(name, kind, run_seed, best_rate(name, sweep[name][kind]) if rate is None else rate)
            evaluations = model.run(partial(course, part))
            if rate is None:
                rows[name].append({"kind": kind, "seed": run_seed, "looks": evaluations})
            else:
                tried.setdefault((name, kind), []).append(fmean(evaluations[-1]["score"]))
        cost = list(_measure_cost(models["recall"], lengths, seed, lambda done: course(len(plan) + done)))
        thread_count = torch.get_num_threads()
    models_json = [
        {
            "kind": kind,
            "layers": list(models["recall"][kind].config.mixers),
            "parameters": {name: of[kind] for name, of in counts.items()},
            "rates": {name: best_rate(name, sweep[name][kind]) for name in tasks},
        }
        for kind in KINDS
    ]
    return {
        "models": models_json,
        "sweep": {name: {kind: list(sweep[name][kind]) for kind in KINDS} for name in tasks},
        "tried": list(RATES),
        "tuned": bool(tune),
        "text": {"source": Path(text).name or DEFAULT_DATA, "rows": rows.get("text", [])},
        "recall": {"rows": rows["recall"]},
        "cost": cost,
        "threads": thread_count,
        "busy": load,
    }


def _find_text(requested: str) -> str | None:
    """Return the path of a text or data set; None if none was requested and the default is not installed."""
    name = requested or DEFAULT_DATA
    if Path(name).exists() or all(item.name != name for item in store.listing("data")):
        return name
    path = store.path(name)
    if path is None and requested:
        raise Problem("the data set {name} is not here: get it with  qkv data get {name}", name=name)
    if path is None:
        warnings.warn(
            Notice(
                "{name} is not here, so no text is learned: get it with  qkv data get {name}, or give --text FILE",
                name=name,
            ),
            stacklevel=2,
        )
    return None if path is None else str(path)


def best_rate(task: str, scores: tuple[float, ...]) -> float:
    """Return the rate with the lowest loss (text) or the highest accuracy (recall).

    >>> best_rate("text", (2.5, 2.1, 2.2, 2.3, 2.4)), best_rate("recall", (0.1, 0.4, 0.9, 0.9, 0.2))
    (0.02, 0.04)
    """
    at = scores.index((min if task == "text" else max)(scores))
    return RATES[at]


@torch.no_grad()
def _measure_cost(
    models: dict[str, Transformer], lengths: tuple[int, ...], seed: int, on_length: Callable[[int], None]
) -> Iterator[Row]:
    """Measure time and memory of one new token after each length: bytes of the cache, and of temporary tensors."""
    torch.manual_seed(seed)
    for index, n in enumerate(lengths):
        steps = {kind: make_step(model.eval(), n) for kind, model in models.items()}
        times = report.race({kind: step for kind, (step, _cache) in steps.items()})
        for kind, (step, cache) in steps.items():
            # References keep all tensors alive: the profiler warns if a tensor is freed whose allocation it didn't see.
            attributes = [vars(layer).copy() for layer in cache.layers]
            cache_bytes = sum(index.nbytes for index in cached_tensors(cache))
            yield {"kind": kind, "n": n, "seconds": times[kind], "kept": cache_bytes, "worked": report.peak_bytes(step)}
            del attributes
        on_length(index)


def _expected_seconds(n: int, layers: int) -> float:
    """Return a rough estimate of the seconds for one length: timing six models and filling their caches."""
    return 6 * report.race_seconds(0.002 * layers) + 1e-5 * n * layers


def make_step(model: Transformer, n: int) -> tuple[Callable[[], None], ModelCache]:
    """Return (a function that generates one token after n others, its cache).

    States and windows really read n random vectors. Keys and values of full attention are drawn at random: only their
    number matters for the cost, and reading them would take n² steps.
    """
    cache = model.new_cache(1, n + 1)
    full = [layer for layer in cache.layers if isinstance(layer, KVCache)]
    assert model.decoder is not None
    for block, layer in zip(model.decoder, cache.layers, strict=True):
        if layer in full:
            layer.k.normal_()
            layer.v.normal_()
        else:
            for start in range(0, n, CHUNK):
                x = torch.randn(1, min(CHUNK, n - start), model.config.width)
                block.get_submodule("attention")(x, mask=masks.causal(), cache=layer)
    token = torch.zeros(1, 1, dtype=torch.long)

    def step() -> None:
        for layer in cache.layers:  # reset to n tokens
            layer.lengths.fill_(n)
            layer.longest = n
        model(token, cache=cache)

    return step, cache


def cached_tensors(cache: ModelCache) -> list[Tensor]:
    """Return the tensors of a cache: keys and values, states, and the last inputs of convolutions."""
    return [
        getattr(layer, name) for layer in cache.layers for name in ("k", "v", "state", "tail") if hasattr(layer, name)
    ]


KIND_COLUMN = Column(lambda row: say(LABELS[row["kind"]]))
TEXT_COLUMNS = (
    KIND_COLUMN,
    Column(lambda row: mean_and_range(row["losses"])),
    Column("in_time", ".3f"),
    Column("took", report.duration),
    Column(lambda row: row["tokens"] / row["took"], ",.0f"),
)
SWEEP_TITLES = {
    "text": _("The sweep that chose the rates, with a seed that is measured nowhere else: loss of the text"),
    "recall": _("The sweep that chose the rates, with a seed that is measured nowhere else: share recalled"),
}


def tables(results: Results) -> list[report.Table]:
    """Return the tables of the models, text, recall, cost of a token, and the sweep if there was one."""
    return [
        _models_table(results),
        *([_text_table(results)] if results["text"]["rows"] else []),
        _recall_table(results),
        _cost_table(results),
        *(_sweep_table(results, task) for task in (results["sweep"] if results["tuned"] else ())),
    ]


def _models_table(results: Results) -> report.Table:
    sizes, tasks = results["sizes"], list(results["sweep"])
    names = {"text": say("text"), "recall": say("recall of pairs")}
    return report.table(
        say("Six models: {layers} layers, width {width}, {heads} heads; window {window}", heads=HEADS, **sizes),
        [
            say("model"),
            *(say("weights ({task})", task=names[task]) for task in tasks),
            *(say("rate ({task})", task=names[task]) for task in tasks),
            say("in its layers"),
        ],
        [
            KIND_COLUMN,
            *(Column(f"parameters.{task}", ",") for task in tasks),
            *(Column(f"rates.{task}", "g") for task in tasks),
            Column(lambda row: describe_layers(row["layers"], row["kind"])),
        ],
        results["models"],
        words=(0, 1 + 2 * len(tasks)),
    )


def _text_table(results: Results) -> report.Table:
    sizes, losses, (seconds, losses_in_time) = results["sizes"], final_losses(results), timed_losses(results)
    rows = []
    for kind, runs in by_kind(results["text"]["rows"]).items():
        took, tokens = fmean(row["looks"][-1]["seconds"] for row in runs), runs[0]["looks"][-1]["tokens"]
        row = {"kind": kind, "losses": losses[kind], "in_time": losses_in_time[kind]}
        rows.append(row | {"took": took, "tokens": tokens})
    own = dict(text=results["text"]["source"], tokens=rows[-1]["tokens"] // sizes["steps"], seeds=_seed_note(sizes))
    title = say("Learning {text}: loss of held-out text after {steps} steps of {tokens:,} tokens{seeds}", **sizes | own)
    header = sentence(_("model|loss|after {seconds:duration}|time|tokens/s"), seconds=seconds)
    return report.table(title, header.split("|"), TEXT_COLUMNS, rows)


def _recall_table(results: Results) -> report.Table:
    sizes = results["sizes"]
    title = _("Recall: right answers by the number of pairs, after {recall_steps} steps{seeds}")
    title = say(title, **sizes | {"seeds": _seed_note(sizes)})
    rows = [
        [mean_and_range([100 * share for share in seeds], 1) + " %" for seeds in row]
        for row in recall_shares(results).values()
    ]
    return _by_kind_table(title, [f"{count}" for count in sizes["pairs"]], rows)


def _cost_table(results: Results) -> report.Table:
    cost, lengths = {(row["kind"], row["n"]): row for row in results["cost"]}, results["sizes"]["lengths"]
    rows = [
        [
            *(report.duration(cost[kind, n]["seconds"]) for n in lengths),
            *(report.amount(memory(cost[kind, n])) for n in lengths),
        ]
        for kind in KINDS
    ]
    title = say("One new token after so many: time, and memory beside the weights")
    return _by_kind_table(title, 2 * [f"{n:,}" for n in lengths], rows)


def _sweep_table(results: Results, task: str) -> report.Table:
    rows = [[f"{score:.3f}" for score in results["sweep"][task][kind]] for kind in KINDS]
    return _by_kind_table(say(SWEEP_TITLES[task]), [f"{rate:g}" for rate in results["tried"]], rows)


def _by_kind_table(title: str, header: list[str], rows: list[list[str]]) -> report.Table:
    """Return a table with a row per kind of model."""
    named = [[say(LABELS[kind]), *row] for kind, row in zip(KINDS, rows, strict=True)]
    return report.Table(title, [say("model"), *header], named)


def describe_layers(layers: list[str], kind: str) -> str:
    """Return the mixers of the layers in the notation of a config.

    >>> describe_layers(["mamba2", "mamba2", "attention"], "hybrid"), describe_layers(["attention"], "window")
    ('mamba2×2 attention', 'attention×1, window')
    """
    runs = [(word, len(list(same))) for word, same in groupby(layers)]
    joined = " ".join(word if count == 1 and len(runs) > 1 else f"{word}×{count}" for word, count in runs)
    return f"{joined}, window" if kind == "window" else joined


def _seed_note(sizes: Row) -> str:
    return "" if sizes["seeds"] == 1 else say(" (mean of {seeds} seeds ± half their range)", **sizes)


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Plot loss against tokens and seconds, recall against pairs, and time and memory against context."""
    figure = report.canvas(2, 3, each=(4.1, 3.3))
    sizes = results["sizes"]
    names = {kind: say(LABELS[kind]) for kind in KINDS}
    if results["text"]["rows"]:
        by_tokens = ("tokens", 1e-3, say("text: loss by tokens"), say("thousand tokens"))
        by_seconds = ("seconds", 1, say("text: loss by seconds"), say("seconds"))
        for index, (quantity, scale, title, label) in enumerate((by_tokens, by_seconds)):
            axes = report.panel(figure, 2, 3, index + 1, title=title, x=label, y=say("loss of held-out text (nats)"))
            for kind, rows in by_kind(results["text"]["rows"]).items():
                evaluations = list(zip(*(row["looks"] for row in rows), strict=True))
                x = [fmean(row[quantity] * scale for row in seeds) for seeds in evaluations]
                losses = [[row["score"][0] for row in seeds] for seeds in evaluations]
                _plot_seeds(axes, kind, names[kind], x, losses)
            axes.set_xlim(left=0)
    axes = report.panel(figure, 2, 3, 3, title=say("recall of pairs"), x=say("number of pairs"), y=say("right answers"))
    for kind, shares in recall_shares(results).items():
        _plot_seeds(axes, kind, names[kind], sizes["pairs"], shares)
    chance = [1 / n for n in sizes["pairs"]]
    axes.plot(sizes["pairs"], chance, ":", color=figure_canvas.GREY, linewidth=1.2, label=say("any value told"))
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes["pairs"], [f"{count}" for count in sizes["pairs"]])
    axes.set_ylim(0, 1.05)
    legend = axes
    cost = {(row["kind"], row["n"]): row for row in results["cost"]}
    time_panel: PanelSpec = (say("one new token: time"), lambda row: row["seconds"], report.duration)
    memory_panel: PanelSpec = (say("one new token: memory beside the weights"), memory, report.amount)
    for index, (title, value, format_value) in enumerate((time_panel, memory_panel)):
        axes = report.panel(figure, 2, 3, index + 4, title=title, x=say("tokens of context"))
        for kind in KINDS:
            _plot_seeds(axes, kind, names[kind], sizes["lengths"], [[value(cost[kind, n])] for n in sizes["lengths"]])
        axes.set(xscale="log", yscale="log")
        report.format_ticks(axes.yaxis, format_value)
        axes.yaxis.set_minor_formatter("")
    lines, labels = legend.get_legend_handles_labels()
    axes = figure.add_subplot(2, 3, 6)
    axes.axis("off")
    axes.legend(lines, labels, fontsize=10, frameon=False, loc="center left", title_fontsize=10)
    return report.finish(figure, path)


def _plot_seeds(axes: Axes, kind: str, label: str, x: Sequence[float], seeds: list[list[float]]) -> None:
    """Plot the mean of the seeds, and a band from the lowest to the highest."""
    axes.fill_between(x, list(map(min, seeds)), list(map(max, seeds)), color=COLORS[kind], alpha=0.15, linewidth=0)
    # Attention and the hybrid often coincide: a wide line under a dashed one shows both.
    line_width, line_style = 3 if kind == "attention" else 1.3, "--" if kind == "hybrid" else "-"
    style: Row = dict(color=COLORS[kind], marker=MARKERS[kind], markersize=4, label=label)
    axes.plot(x, list(map(fmean, seeds)), linewidth=line_width, linestyle=line_style, **style)
