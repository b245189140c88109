"""Phi-3 and Phi-4-mini: a LLaMA with q, k and v in one matrix, gate and up in another, and LongRoPE."""

from dataclasses import replace

from ...i18n import Message
from ...model.config import Config
from . import llama
from .family import TensorRow, linear, need, supports, width_obstacles
from .rotary_settings import RotaryEntry, rotary_table
from .setting_table import WINDOW, HfConfig, Setting, read_only, with_defaults, write_only

SUPPORTED = supports("window", "rotary_fraction", feed_forward=tuple(llama.ACTIVATIONS), bias=(False,))


def obstacles(config: Config) -> list[Message]:
    """Requires heads that divide the width, one window for all layers, and no scaling but LongRoPE."""
    needed = width_obstacles(config)
    if config.window is not None and None in config.windows:
        needed.append(need("window_layers='window'", repr(config.window_layers)))
    scaling = config.rotary.scaling
    if scaling is not None and scaling["kind"] not in ("longrope", "ntk"):
        needed.append(need("rotary_scaling=None | longrope", scaling["kind"]))
    return needed


def rename_longrope(hf_config: HfConfig) -> HfConfig:
    """Return the config.json with the old names of LongRoPE replaced."""
    rope = rotary_table(hf_config)
    if rope.get("rope_type", rope.get("type")) not in ("su", "yarn"):
        return hf_config
    renamed_rope = {name: value for name, value in rope.items() if name != "type"}
    return hf_config | {"rope_scaling": renamed_rope | {"rope_type": "longrope"}}


SETTINGS = (
    write_only("architectures", ["Phi3ForCausalLM"]),
    *read_only(with_defaults(llama.SIZES, rms_norm_eps=1e-5), "head_dim"),
    llama.ACTIVATION,
    write_only("resid_pdrop", lambda config: config.dropout),
    write_only("embd_pdrop", lambda config: config.dropout),
    Setting("sliding_window", "window", None, WINDOW),
    RotaryEntry({"original_max_position_embeddings": 4096}, share=1.0, normalise=rename_longrope),
    write_only(
        "original_max_position_embeddings",
        lambda config: (config.rotary.scaling or {}).get("original", config.context),
    ),
)


def attention_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    width = config.head_width or config.width // config.n_head
    keys = width * (config.n_kv_head or config.n_head)
    fused = linear((f"{prefix}.q", f"{prefix}.k", f"{prefix}.v"), f"{hf_prefix}.qkv_proj", bias=False)
    table = [replace(row, sizes=(width * config.n_head, keys, keys)) for row in fused]
    return table + linear(f"{prefix}.out", f"{hf_prefix}.o_proj", bias=False)


def feed_forward_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    table = linear((f"{prefix}.gate", f"{prefix}.up"), f"{hf_prefix}.gate_up_proj", bias=False)
    return table + linear(f"{prefix}.down", f"{hf_prefix}.down_proj", bias=False)


def rows(config: Config) -> list[TensorRow]:
    return llama.decoder_rows(config, {"attention": ("self_attn", attention_rows)}, dense_rows=feed_forward_rows)


PHI3 = llama.llama_family("Phi-3", ("phi3",), SUPPORTED, obstacles, SETTINGS, rows)
