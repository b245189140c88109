"""Mixtral and Qwen3-MoE: a LLaMA, or a Qwen3, with a mixture of experts in the place of its feed-forward.

In Mixtral every layer has one; in Qwen3-MoE some may have a feed-forward as before, of another width than an expert's.
"""

from ...i18n import Message
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from ...model.mixture import Experts
from . import llama
from .family import PLAIN, Family, TensorRow, linear, need
from .rotary_settings import RotaryEntry
from .setting_table import (
    WINDOW,
    ConfigReading,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    always,
    but,
    only,
    required,
    value_of,
    written,
)

CLASSES = {"mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
HOLDS: Holds = llama.HOLDS | PLAIN | dict(bias=(False,))
del HOLDS["experts"]
PARTS = dict(gate="gate_proj", up="up_proj", down="down_proj")
WORDS = {"mixtral": dict(gate="w1", up="w3", down="w2"), "qwen3_moe": PARTS}  # the matrices of an expert


def member(config: Config) -> str:
    """Which of the two the model is, as transformers names it."""
    return "mixtral" if config.qk_norm is None else "qwen3_moe"


def obstacles(config: Config) -> list[Message]:
    """Experts, and those that Mixtral can't tell apart."""
    how = config.experts
    if how is None:
        return [need("experts={…}", None)]
    wanted: dict[str, Value] = dict(shared=None, score="softmax", scale=1.0, groups=1, balance=False)
    if member(config) == "mixtral":
        wanted |= dict(normed=True, layers="experts")
    return [
        need(f"experts.{name}={value!r}", repr(getattr(how, name)))
        for name, value in wanted.items()
        if getattr(how, name) != value
    ]


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return what stands in each layer of a Qwen3-MoE; the rule is transformers' own."""
    dense, every = reading.theirs.get("mlp_only_layers") or (), reading.theirs.get("decoder_sparse_step", 1)
    layers = range(reading.ours["n_layer"])
    words = tuple("dense" if i in dense or (i + 1) % every else "experts" for i in layers)
    return {"experts.layers": layer_pattern(words)}


def write_layers(config: Config) -> HfConfig:
    """Return the layers that have one feed-forward."""
    dense = [i for i, word in enumerate(config.thinkers) if word == "dense"]
    return dict(decoder_sparse_step=1, mlp_only_layers=dense)


def read_window(reading: ConfigReading) -> dict[str, Value]:
    """Return Qwen3-MoE's window, which a file must switch on."""
    window = reading.theirs.get("sliding_window") if reading.theirs.get("use_sliding_window") else None
    return dict(window=None if window is None else window - 1)


def write_window(config: Config) -> HfConfig:
    """Return it."""
    window = None if config.window is None else config.window + 1
    return dict(use_sliding_window=window is not None, sliding_window=window)


def expert_width(config: Config) -> int:
    """Return the hidden width of an expert."""
    return int(value_of(config, "experts.hidden"))


SETTINGS: Table = (
    written("architectures", lambda config: [CLASSES[member(config)]]),
    required("attention_bias", False),
    *only(
        "mixtral",
        *but(llama.SIZES, rms_norm_eps=1e-5),
        RotaryEntry({"rope_theta": 1e6}),
        Setting("sliding_window", "window", None, WINDOW),
        Setting("num_local_experts", "experts.count", 8, second="num_experts"),
        Setting("num_experts_per_tok", "experts.per_token", 2),
        written("intermediate_size", expert_width),
    ),
    *only(
        "qwen3_moe",
        *llama.SIZES,
        RotaryEntry(),
        always(qk_norm="rms"),
        Rule(read_window, write_window, dict(window="sliding_window")),
        written("attention_bias", False),
        Setting("num_local_experts", "experts.count", 128, second="num_experts", also=("num_experts",)),
        Setting("num_experts_per_tok", "experts.per_token", 8),
        Setting("moe_intermediate_size", "experts.hidden"),
        Setting("norm_topk_prob", "experts.normed", False),
        Rule(read_layers, write_layers),
    ),
    llama.GATE,
)


def experts(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one mixture."""
    assert config.experts is not None
    return mixture(config.experts.count, WORDS[member(config)], ours, theirs)


def mixture(count: int, words: dict[str, str], ours: str, theirs: str) -> list[TensorRow]:
    """The rows of a router and its experts; `words` are theirs for an expert's matrices."""
    table = linear(f"{ours}.router", f"{theirs}.gate", bias=False)
    for i in range(count):
        for part, word in words.items():
            table += linear(f"{ours}.experts.{i}.{part}", f"{theirs}.experts.{i}.{word}", bias=False)
    return table


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    think = "block_sparse_moe" if member(config) == "mixtral" else "mlp"
    return llama.stack(config, {"attention": ("self_attn", llama.looks)}, think=think, experts=experts)


MIXTRAL = Family(
    "Mixtral",
    tuple(CLASSES),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    ignored=llama.IGNORED,
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
    example=dict(experts=Experts(8)),
    member=member,
)
