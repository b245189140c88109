"""Phi-3 and Phi-4-mini: a LLaMA with q, k and v in one matrix, gate and up in another, and LongRoPE for long texts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...model.config import Config
from . import llama
from .family import PLAIN, Family, Row, linear, need, plain_width, word_of

HOLDS: dict[str, tuple[Any, ...]] = llama.HOLDS | PLAIN | dict(bias=(False,), qk_norm=(None,))
del HOLDS["rotary_fraction"]


def obstacles(config: Config) -> list[Message]:
    """Heads that divide the width, one window for all layers, and of all scaling LongRoPE alone."""
    found = plain_width(config)
    if config.window is not None and None in config.windows:
        found.append(need("window_layers='window'", repr(config.window_layers)))
    scaling = config.rotary_scaling
    if scaling is not None and scaling["kind"] not in ("longrope", "ntk"):
        found.append(need("rotary_scaling=None | longrope", scaling["kind"]))
    return found


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    window, scaling = None if config.window is None else config.window + 1, config.rotary_scaling or {}
    theirs = dict(model_type="phi3", architectures=["Phi3ForCausalLM"]) | llama.write_sizes(config)
    del theirs["head_dim"]
    return (
        theirs
        | llama.write_rotary(config, said=True)
        | dict(
            sliding_window=window,
            resid_pdrop=config.dropout,
            embd_pdrop=config.dropout,
            original_max_position_embeddings=scaling.get("original", config.context),
        )
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    told = llama.rotary_table(theirs)
    fraction = told.get("partial_rotary_factor", theirs.get("partial_rotary_factor", 1.0))
    if told.get("rope_type", told.get("type")) in ("su", "yarn"):  # as it was called at first
        told = {name: value for name, value in told.items() if name != "type"} | {"rope_type": "longrope"}
        theirs = theirs | {"rope_scaling": told}
    usual: dict[str, Any] = dict(rms_norm_eps=1e-5, original_max_position_embeddings=4096)
    window = theirs.get("sliding_window")
    return Config(
        feed_forward=word_of(theirs.get("hidden_act", "silu"), llama.ACTIVATIONS),
        **llama.read_windows(window, [True] * theirs["num_hidden_layers"]),
        **llama.read_sizes(usual | theirs, fraction),
    )


def looks(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one attention."""
    width = config.head_width or config.width // config.n_head
    keys = width * (config.n_kv_head or config.n_head)
    fused = linear((f"{ours}.q", f"{ours}.k", f"{ours}.v"), f"{theirs}.qkv_proj", bias=False)
    table = [replace(row, sizes=(width * config.n_head, keys, keys)) for row in fused]
    return table + linear(f"{ours}.out", f"{theirs}.o_proj", bias=False)


def thinks(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one feed-forward."""
    table = linear((f"{ours}.gate", f"{ours}.up"), f"{theirs}.gate_up_proj", bias=False)
    return table + linear(f"{ours}.down", f"{theirs}.down_proj", bias=False)


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    return llama.stack(config, {"attention": ("self_attn", looks)}, thinks=thinks)


PHI3 = Family(
    "Phi-3",
    ("phi3",),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=llama.IGNORED,
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
)
