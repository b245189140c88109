"""Mixtral and Qwen3-MoE: a LLaMA, or a Qwen3, with mixtures of experts as feed-forwards.

In Mixtral every layer has one. In Qwen3-MoE some layers may be dense, with another width.
"""

from ...i18n import Message
from ...model.config import Config
from ...model.config_checks import layer_pattern
from ...model.mixture import Experts
from . import llama
from .family import TensorRow, linear, need, supports
from .rotary_settings import RotaryEntry
from .setting_table import (
    WINDOW,
    ConfigReading,
    HfConfig,
    Rule,
    Setting,
    Value,
    for_members,
    implied,
    required,
    value_of,
    with_defaults,
    write_only,
)

CLASSES = {"mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
SUPPORTED = supports("window", "experts", feed_forward=tuple(llama.ACTIVATIONS), bias=(False,), qk_norm=(None, "rms"))
QWEN_EXPERT = dict(gate="gate_proj", up="up_proj", down="down_proj")
EXPERT_PARTS = {"mixtral": dict(gate="w1", up="w3", down="w2"), "qwen3_moe": QWEN_EXPERT}  # the matrices of an expert


def member(config: Config) -> str:
    """Return transformers' model_type."""
    return "mixtral" if config.qk_norm is None else "qwen3_moe"


def obstacles(config: Config) -> list[Message]:
    """Requires experts, without features that Mixtral lacks."""
    experts = config.experts
    if experts is None:
        return [need("experts={…}", None)]
    expected: dict[str, Value] = dict(shared=None, score="softmax", scale=1.0, groups=1, balance=False)
    if member(config) == "mixtral":
        expected |= dict(normed=True, layers="experts")
    return [
        need(f"experts.{name}={value!r}", repr(getattr(experts, name)))
        for name, value in expected.items()
        if getattr(experts, name) != value
    ]


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return the feed-forward of each layer of a Qwen3-MoE, by transformers' rule."""
    dense, every = reading.hf_config.get("mlp_only_layers") or (), reading.hf_config.get("decoder_sparse_step", 1)
    layers = range(reading.settings["n_layer"])
    layer_types = tuple("dense" if i in dense or (i + 1) % every else "experts" for i in layers)
    return {"experts.layers": layer_pattern(layer_types)}


def write_layers(config: Config) -> HfConfig:
    """Return the dense layers."""
    dense = [i for i, word in enumerate(config.feed_forwards) if word == "dense"]
    return dict(decoder_sparse_step=1, mlp_only_layers=dense)


def read_window(reading: ConfigReading) -> dict[str, Value]:
    """Return Qwen3-MoE's window, if enabled."""
    window = reading.hf_config.get("sliding_window") if reading.hf_config.get("use_sliding_window") else None
    return dict(window=None if window is None else window - 1)


def write_window(config: Config) -> HfConfig:
    """Return the window."""
    window = None if config.window is None else config.window + 1
    return dict(use_sliding_window=window is not None, sliding_window=window)


SETTINGS = (
    write_only("architectures", lambda config: [CLASSES[member(config)]]),
    required("attention_bias", False),
    *for_members(
        "mixtral",
        *with_defaults(llama.SIZES, rms_norm_eps=1e-5),
        RotaryEntry({"rope_theta": 1e6}),
        Setting("sliding_window", "window", None, WINDOW),
        Setting("num_local_experts", "experts.count", 8, alias="num_experts"),
        Setting("num_experts_per_tok", "experts.per_token", 2),
        write_only("intermediate_size", lambda config: value_of(config, "experts.hidden")),
    ),
    *for_members(
        "qwen3_moe",
        *llama.SIZES,
        RotaryEntry(),
        implied(qk_norm="rms"),
        Rule(read_window, write_window, dict(window="sliding_window")),
        write_only("attention_bias", False),
        Setting("num_local_experts", "experts.count", 128, alias="num_experts", extra_names=("num_experts",)),
        Setting("num_experts_per_tok", "experts.per_token", 8),
        Setting("moe_intermediate_size", "experts.hidden"),
        Setting("norm_topk_prob", "experts.normed", False),
        Rule(read_layers, write_layers),
    ),
    llama.ACTIVATION,
)


def expert_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    assert config.experts is not None
    return mixture_rows(config.experts.count, EXPERT_PARTS[member(config)], prefix, hf_prefix)


def mixture_rows(count: int, hf_parts: dict[str, str], prefix: str, hf_prefix: str) -> list[TensorRow]:
    """Return the rows of a router and its experts; `hf_parts` names an expert's matrices."""
    table = linear(f"{prefix}.router", f"{hf_prefix}.gate", bias=False)
    for i in range(count):
        for part, hf_part in hf_parts.items():
            table += linear(f"{prefix}.experts.{i}.{part}", f"{hf_prefix}.experts.{i}.{hf_part}", bias=False)
    return table


def rows(config: Config) -> list[TensorRow]:
    feed_forward = "block_sparse_moe" if member(config) == "mixtral" else "mlp"
    return llama.decoder_rows(
        config, {"attention": ("self_attn", llama.attention_rows)}, feed_forward=feed_forward, expert_rows=expert_rows
    )


MIXTRAL = llama.llama_family(
    "Mixtral", tuple(CLASSES), SUPPORTED, obstacles, SETTINGS, rows, example=dict(experts=Experts(8)), member=member
)
