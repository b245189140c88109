"""Bytes of the KV cache with MHA, GQA, MQA and MLA, for one model and one length.

Per token and layer, a cache holds keys and values of each key/value head, 2·G·D numbers (G = H for MHA, 1 for MQA), or,
for MLA, one latent and one rotary key for all heads, R + P numbers. Each size is computed twice: by this formula, and from
the tensors of a real cache of this shape (on the meta device, so that any size is possible).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..i18n import Problem, _, say, unknown
from ..model.config import Config
from ..model.config_checks import STATES
from ..model.presets import PRESETS
from . import Progress, Results, Row, report
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


class CacheShape(NamedTuple):
    """The sizes that determine a cache; `rank` is 0 without latent attention."""

    layers: int
    heads: int
    kv_heads: int
    head_width: int
    rank: int = 0
    rope_width: int = 0


# As published in the models' configurations.
SHAPES: dict[str, CacheShape] = {
    "gpt2": CacheShape(12, 12, 12, 64),
    "smollm2": CacheShape(30, 9, 3, 64),
    "llama-2-7b": CacheShape(32, 32, 32, 128),
    "llama-3-8b": CacheShape(32, 32, 8, 128),
    "llama-3-70b": CacheShape(80, 64, 8, 128),
    "qwen2.5-7b": CacheShape(28, 28, 4, 128),
    "deepseek-v3": CacheShape(61, 128, 128, 128, 512, 64),
}
KINDS = ("MHA", "GQA", "MQA", "MLA")


def measure(
    *, model: str, length: int, batch: int, bytes: int, room: float, progress: Progress, **overrides: int | None
) -> Results:
    """Return the bytes of each kind of cache, for the model's shape with the given sizes replaced."""
    shape = shape_of(model)
    shape = shape._replace(**{name: value for name, value in overrides.items() if value is not None})
    if overrides.get("heads") is not None and overrides.get("kv_heads") is None:
        shape = shape._replace(kv_heads=shape.heads)
    if shape.heads % shape.kv_heads:
        raise Problem(
            "{heads} heads don't divide over n_kv_head={groups}: give a divisor",
            heads=shape.heads,
            groups=shape.kv_heads,
        )
    if bytes not in DTYPES:
        raise Problem("{option} is {value}: give {wanted}", option="--bytes", value=bytes, wanted="1, 2, 4, 8")
    gqa_groups = shape.kv_heads if 1 < shape.kv_heads < shape.heads else _gqa_groups(shape.heads)
    # DeepSeek's proportions if the model has no latent
    rank, rope = shape.rank or 4 * shape.head_width, shape.rope_width or max(shape.head_width // 2, 1)
    model_kind = "MLA" if shape.rank else {shape.heads: "MHA", 1: "MQA"}.get(shape.kv_heads, "GQA")
    if shape.heads == shape.kv_heads == 1 and not shape.rank:
        model_kind = "MHA"
    rows = []
    for kind in KINDS:
        kv_heads = {"MHA": shape.heads, "GQA": gqa_groups, "MQA": 1, "MLA": 1}[kind]
        numbers = rank + rope if kind == "MLA" else 2 * kv_heads * shape.head_width
        bytes_per_token = shape.layers * numbers * bytes
        tensors = tensor_bytes(kind, shape.layers, kv_heads, shape.head_width, rank, rope, length, batch, bytes)
        rows.append(
            {
                "kind": kind,
                "kv_heads": kv_heads if kind != "MLA" else None,
                "numbers": numbers,
                "bytes_per_token": bytes_per_token,
                "bytes": bytes_per_token * length * batch,
                "tensors": tensors,
                "fits": int(room * 1e9 // (bytes_per_token * batch)),
                "own": kind == model_kind,
            }
        )
    shape_json = shape._replace(rank=rank, rope_width=rope)._asdict()
    return {"model": model, "shape": shape_json, "rows": rows, "names": sorted({*SHAPES, *_decoders()})}


def shape_of(name: str) -> CacheShape:
    """Return the cache shape of a model, by name or read from disk."""
    if name in SHAPES:
        return SHAPES[name]
    if name in _decoders():
        return _shape_of_config(PRESETS[name])
    from ..library import store

    if Path(name).exists() or any(item.name == name for item in store.listing("model")):
        from ..formats.model_files import load

        config = load(name)[0].config
    elif name in PRESETS:
        config = PRESETS[name]
    else:
        raise unknown("model", name, [*SHAPES, *_decoders()])
    if config.kind == "encoder":
        raise Problem("{model} is an encoder: it reads a text at once and keeps no cache; name a decoder", model=name)
    if not _attention_layers(config):
        raise Problem("{model} keeps a state of one size and no keys and values: name one with attention", model=name)
    return _shape_of_config(config)


def _decoders() -> list[str]:
    return [name for name, config in PRESETS.items() if _attention_layers(config) and name not in SHAPES]


def _attention_layers(config: Config) -> int:
    """Return the number of layers with keys and values; others have a state of fixed size."""
    return sum(word not in STATES for word in config.mixers[: config.layers[1]])


def _shape_of_config(config: Config) -> CacheShape:
    width = config.head_width or config.width // config.n_head
    shape = CacheShape(_attention_layers(config), config.n_head, config.n_kv_head or config.n_head, width)
    if "latent" in config.mixers:
        shape = shape._replace(rank=config.latent.rank or max(config.width // 4, 8))
        shape = shape._replace(rope_width=config.latent.rope_width or max(width // 2 // 2 * 2, 2))
    return shape


def _gqa_groups(heads: int) -> int:
    """Return the largest divisor of the heads that is at most a quarter of them."""
    return next(groups for groups in range(max(heads // 4, 1), 0, -1) if heads % groups == 0)


DTYPES = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}


def tensor_bytes(
    kind: str, layers: int, groups: int, width: int, rank: int, rope: int, length: int, batch: int, item_bytes: int
) -> int:
    """Return the bytes of the tensors of a qkv cache of this shape, created on the meta device."""
    import torch

    from ..attention.cache import KVCache

    options: Row = {"dtype": getattr(torch, DTYPES[item_bytes]), "device": "meta"}
    if kind == "MLA":  # as in LatentAttention.new_cache
        cache = KVCache(batch, 1, length, rank + rope, value_width=0, **options)
    else:
        cache = KVCache(batch, groups, length, width, **options)
    return layers * sum(part.numel() * part.element_size() for part in (cache.k, cache.v))


COLUMNS = (
    Column(lambda row: row["kind"] + (" ◂" if row["own"] else "")),
    Column("kv_heads"),
    Column("numbers", ","),
    Column("bytes_per_token", report.amount),
    Column("bytes", report.amount),
    Column(lambda row: f"1/{row['mha'] / row['bytes']:.3g}"),
    Column("fits", ","),
)


def tables(results: Results) -> list[report.Table]:
    """Return a table with a row per kind; the model's own is marked."""
    sizes = results["sizes"]
    title = _(
        "KV cache of {model}: {layers} layers, {heads} heads × {head_width} ({kv_heads} of keys and values), "
        "latent {rank} + {rope_width}; {batch:,} × {length:,} tokens, {each} (◂ its own kind)"
    )
    title = say(title, each=DTYPES[sizes["bytes"]], **sizes | results["shape"])
    header = say("kind|kv heads|numbers per token and layer|per token|in all|of MHA|tokens in {room:g} GB", **sizes)
    mha = results["rows"][0]["bytes"]
    return [report.table(title, header.split("|"), COLUMNS, [{**row, "mha": mha} for row in results["rows"]])]


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize the model's own cache, and how the four kinds compare."""
    by_kind = {row["kind"]: row for row in results["rows"]}
    own = next(row for row in results["rows"] if row["own"])
    mha, mla, shape = by_kind["MHA"], by_kind["MLA"], results["shape"]
    yield sentence(
        _(
            "{model} keeps its keys and values as {own[kind]}: {own[bytes_per_token]:amount} per token, {own[bytes]:amount} "
            "for {sizes[length]:,} tokens, where MHA would need {mha:amount} ({ratio:.3g} times as much). {own[fits]:,} "
            "tokens fit into {sizes[room]:g} GB."
        ),
        model=results["model"],
        own=own,
        sizes=results["sizes"],
        mha=mha["bytes"],
        ratio=mha["bytes"] / own["bytes"],
    )
    smallest = min(results["rows"], key=lambda row: row["bytes"])
    yield sentence(_("Of the four, {kind} is the smallest: {bytes:amount}."), **smallest)
    mla_text = _(
        "MLA keeps one latent of {rank} numbers and a rotary key of {rope_width} for all heads, {numbers:,} numbers, as much "
        "as GQA with {groups:.3g} key/value heads, and rebuilds every head's keys and values from them."
    )
    yield sentence(mla_text, numbers=mla["numbers"], groups=mla["numbers"] / (2 * shape["head_width"]), **shape)
    is_equal = all(row["bytes"] == row["tensors"] for row in results["rows"])
    yield say(
        _("Formula and the tensors of a qkv cache of this shape agree to the byte.")
        if is_equal
        else _("The formula and the tensors of a qkv cache of this shape do NOT agree: please report it.")
    )
    yield say("Shapes known by name: {names}.", names=", ".join(results["names"]))


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Draw the bytes as bars, and their growth with the text against the available memory."""
    figure = report.canvas(1, 2, each=(4.6, 3.4), words=[results["model"]])
    sizes, rows = results["sizes"], results["rows"]
    length, room = sizes["length"], sizes["room"] * 1e9
    title = say("{model}, {length:,} tokens", model=results["model"], length=length)
    axes = report.panel(figure, 1, 2, 1, title=title, x=say("bytes of the KV cache"))
    for index, (row, color) in enumerate(zip(rows, report.INK, strict=False)):
        axes.barh(index, row["bytes"], color=color, height=0.62)
        axes.annotate(
            f" {report.amount(row['bytes'])}", (row["bytes"], index), va="center", fontsize=8, annotation_clip=False
        )
    axes.set_yticks(range(len(rows)), [row["kind"] + (" ◂" if row["own"] else "") for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, rows[0]["bytes"] * 1.25)
    _format_byte_axis(axes.xaxis)
    axes = report.panel(figure, 1, 2, 2, title=say("as the text grows"), x=say("tokens"))
    for row, color in zip(rows, report.INK, strict=False):
        axes.plot([0, length], [0, row["bytes"]], color=color, label=row["kind"])
    if room < rows[0]["bytes"] * 1.6:
        axes.axhline(room, color=report.INK[4], linestyle=":", label=f"{sizes['room']:g} GB")
    axes.set(xlim=(0, length), ylim=(0, None))
    _format_byte_axis(axes.yaxis)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend(fontsize=8, frameon=False)
    return report.finish(figure, path)


def _format_byte_axis(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(5))
    report.format_ticks(axis, lambda value: "0" if value == 0 else report.amount(value))
