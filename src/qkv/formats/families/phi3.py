"""Phi-3 and Phi-4-mini: a LLaMA with q, k and v in one matrix, gate and up in another, and LongRoPE for long texts."""

from dataclasses import replace

from ...i18n import Message
from ...model.config import Config
from . import llama
from .family import PLAIN, Family, TensorRow, linear, need, plain_width
from .rotary_settings import RotaryEntry, rotary_table
from .setting_table import WINDOW, HfConfig, Holds, Setting, Table, but, unwritten, written

HOLDS: Holds = llama.HOLDS | PLAIN | dict(bias=(False,), qk_norm=(None,))
del HOLDS["rotary_fraction"]


def obstacles(config: Config) -> list[Message]:
    """Heads that divide the width, one window for all layers, and of all scaling LongRoPE alone."""
    found = plain_width(config)
    if config.window is not None and None in config.windows:
        found.append(need("window_layers='window'", repr(config.window_layers)))
    scaling = config.rotary.scaling
    if scaling is not None and scaling["kind"] not in ("longrope", "ntk"):
        found.append(need("rotary_scaling=None | longrope", scaling["kind"]))
    return found


def renamed(theirs: HfConfig) -> HfConfig:
    """Return the same config.json with LongRoPE under its own name, and not as it was called at first."""
    told = rotary_table(theirs)
    if told.get("rope_type", told.get("type")) not in ("su", "yarn"):
        return theirs
    kept = {name: value for name, value in told.items() if name != "type"}
    return theirs | {"rope_scaling": kept | {"rope_type": "longrope"}}


SETTINGS: Table = (
    written("architectures", ["Phi3ForCausalLM"]),
    *unwritten(but(llama.SIZES, rms_norm_eps=1e-5), "head_dim"),
    llama.GATE,
    written("resid_pdrop", lambda config: config.dropout),
    written("embd_pdrop", lambda config: config.dropout),
    Setting("sliding_window", "window", None, WINDOW),
    RotaryEntry({"original_max_position_embeddings": 4096}, share=1.0, respell=renamed),
    written(
        "original_max_position_embeddings",
        lambda config: (config.rotary.scaling or {}).get("original", config.context),
    ),
)


def looks(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one attention."""
    width = config.head_width or config.width // config.n_head
    keys = width * (config.n_kv_head or config.n_head)
    fused = linear((f"{ours}.q", f"{ours}.k", f"{ours}.v"), f"{theirs}.qkv_proj", bias=False)
    table = [replace(row, sizes=(width * config.n_head, keys, keys)) for row in fused]
    return table + linear(f"{ours}.out", f"{theirs}.o_proj", bias=False)


def thinks(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one feed-forward."""
    table = linear((f"{ours}.gate", f"{ours}.up"), f"{theirs}.gate_up_proj", bias=False)
    return table + linear(f"{ours}.down", f"{theirs}.down_proj", bias=False)


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    return llama.stack(config, {"attention": ("self_attn", looks)}, thinks=thinks)


PHI3 = Family(
    "Phi-3",
    ("phi3",),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    ignored=llama.IGNORED,
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
)
