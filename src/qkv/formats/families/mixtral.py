"""Mixtral and Qwen3-MoE: a LLaMA, or a Qwen3, with a mixture of experts in the place of its feed-forward.

In Mixtral every layer has one; in Qwen3-MoE some may have a feed-forward as before, of another width than an expert's.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from ...model.mixture import Experts
from . import llama
from .family import PLAIN, Family, Row, insist, linear, need, one_number, word_of

CLASSES = {"mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
HOLDS: dict[str, tuple[Any, ...]] = llama.HOLDS | PLAIN | dict(bias=(False,))
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
    wanted: dict[str, Any] = dict(shared=None, score="softmax", scale=1.0, groups=1, balance=False)
    if member(config) == "mixtral":
        wanted |= dict(normed=True, layers="experts")
    return [
        need(f"experts.{name}={value!r}", repr(getattr(how, name)))
        for name, value in wanted.items()
        if getattr(how, name) != value
    ]


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    kind, how = member(config), config.experts
    assert how is not None
    window = None if config.window is None else config.window + 1
    theirs = dict(model_type=kind, architectures=[CLASSES[kind]]) | llama.write_sizes(config)
    theirs |= llama.write_rotary(config) | dict(sliding_window=window, num_experts_per_tok=how.per_token)
    hidden = how.hidden or config.hidden_width
    if kind == "mixtral":
        return theirs | dict(num_local_experts=how.count, intermediate_size=hidden)
    return theirs | dict(
        use_sliding_window=window is not None,
        attention_bias=False,
        num_experts=how.count,
        num_local_experts=how.count,
        moe_intermediate_size=hidden,
        norm_topk_prob=how.normed,
        decoder_sparse_step=1,
        mlp_only_layers=[i for i, word in enumerate(config.thinkers) if word == "dense"],
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    kind = theirs["model_type"]
    insist(theirs, dict(partial_rotary_factor=1.0, attention_bias=False))
    window = theirs.get("sliding_window")
    count = one_number(theirs, "num_local_experts", "num_experts", 8 if kind == "mixtral" else 128)
    usual: dict[str, Any] = dict(rope_theta=1e6, rms_norm_eps=1e-5) if kind == "mixtral" else {}
    if kind == "mixtral":
        how = Experts(count, theirs.get("num_experts_per_tok", 2))
    else:
        window = window if theirs.get("use_sliding_window") else None
        how = Experts(
            count,
            theirs.get("num_experts_per_tok", 8),
            hidden=theirs["moe_intermediate_size"],
            layers=layer_pattern(tuple(read_layers(theirs))),
            normed=theirs.get("norm_topk_prob", False),
        )
    return Config(
        feed_forward=word_of(theirs.get("hidden_act", "silu"), llama.ACTIVATIONS),
        qk_norm=None if kind == "mixtral" else "rms",
        window=None if window is None else window - 1,
        experts=how,
        **llama.read_sizes(usual | theirs),
    )


def read_layers(theirs: dict[str, Any]) -> list[str]:
    """What stands in each layer of a Qwen3-MoE; the rule is transformers' own."""
    dense, every = theirs.get("mlp_only_layers") or (), theirs.get("decoder_sparse_step", 1)
    layers = range(theirs["num_hidden_layers"])
    return ["dense" if i in dense or (i + 1) % every else "experts" for i in layers]


def experts(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one mixture."""
    assert config.experts is not None
    return mixture(config.experts.count, WORDS[member(config)], ours, theirs)


def mixture(count: int, words: dict[str, str], ours: str, theirs: str) -> list[Row]:
    """The rows of a router and its experts; `words` are theirs for an expert's matrices."""
    table = linear(f"{ours}.router", f"{theirs}.gate", bias=False)
    for i in range(count):
        for part, word in words.items():
            table += linear(f"{ours}.experts.{i}.{part}", f"{theirs}.experts.{i}.{word}", bias=False)
    return table


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    think = "block_sparse_moe" if member(config) == "mixtral" else "mlp"
    return llama.stack(config, {"attention": ("self_attn", llama.looks)}, think=think, experts=experts)


MIXTRAL = Family(
    "Mixtral",
    tuple(CLASSES),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=llama.IGNORED,
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
    example=dict(experts=Experts(8)),
)
