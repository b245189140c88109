"""Qwen3-Next: layers of the gated delta rule with every fourth an attention, whose heads are gated, normed and turned in part.

Its norms keep what is added to 1. Its large models have a mixture of experts for a feed-forward, which is not read here.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...mixers.delta import NAMES
from ...words import Message, all_of
from ..config import Config, layer_pattern
from .family import PLAIN, Family, Foreign, Row, insist, linear, need, word_of
from .llama import IGNORED, looks, read_rotary, rotary_table, thinks, write_rotary
from .mamba2 import fewest

ACTIVATIONS = {"swiglu": "silu"}  # which is the convolution's too
WORDS = {"delta": "linear_attention", "attention": "full_attention"}  # ours -> theirs
ATTENTION: dict[str, Any] = dict(position="rotary", qk_norm="rms-centred", attention_gate=True)
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("decoder",),
    norm=("rms-centred",),
    norm_place=("pre",),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False,),
    window=(None,),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
    **{name: values for name, values in PLAIN.items() if name != "rotary_fraction"}
    | {name: (value,) for name, value in ATTENTION.items()},
)


def obstacles(config: Config) -> list[Message]:
    """Mixers of both kinds: without attention transformers' own can't run."""
    fits = set(config.mixers) == {"delta", "attention"}
    return [] if fits else [need("mixer='delta×… attention'", repr(config.mixer))]


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    heads, values, groups, keys = config.state_sizes("delta")
    return dict(
        model_type="qwen3_next",
        architectures=["Qwen3NextForCausalLM"],
        vocab_size=config.vocab,
        hidden_size=config.width,
        intermediate_size=config.hidden_width,
        num_hidden_layers=config.n_layer,
        layer_types=[WORDS[word] for word in config.mixers],
        num_attention_heads=config.n_head,
        num_key_value_heads=config.n_kv_head or config.n_head,
        head_dim=config.head_width or config.width // config.n_head,
        linear_num_value_heads=heads,
        linear_value_head_dim=values,
        linear_num_key_heads=groups,
        linear_key_head_dim=keys,
        linear_conv_kernel_dim=config.taps,
        attention_bias=False,
        num_experts=0,
        num_experts_per_tok=0,
        mlp_only_layers=[],
        max_position_embeddings=config.context,
        hidden_act=ACTIVATIONS[config.feed_forward],
        rms_norm_eps=config.norm_eps,
        attention_dropout=config.dropout,
        tie_word_embeddings=config.tied,
        **write_rotary(config, said=True),
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    width, n_head, layers = theirs["hidden_size"], theirs["num_attention_heads"], theirs["num_hidden_layers"]
    head_width, n_kv_head = theirs.get("head_dim") or 256, theirs.get("num_key_value_heads") or n_head
    insist(theirs, dict(attention_bias=False, attn_output_gate=True, is_causal=True))
    refuse_experts(theirs)
    words = read_layers(theirs)
    fraction = rotary_table(theirs).get("partial_rotary_factor", theirs.get("partial_rotary_factor", 0.25))
    base, scaling = read_rotary(theirs, fraction)
    return fewest(
        Config(
            kind="decoder",
            vocab=theirs["vocab_size"],
            width=width,
            n_layer=layers,
            n_head=n_head,
            n_kv_head=None if n_kv_head == n_head else n_kv_head,
            head_width=None if head_width * n_head == width else head_width,
            hidden=theirs["intermediate_size"],
            context=theirs["max_position_embeddings"],
            norm="rms-centred",
            norm_eps=theirs.get("rms_norm_eps", 1e-6),
            feed_forward=word_of(theirs.get("hidden_act", "silu"), ACTIVATIONS),
            mixer=layer_pattern(tuple(words)),
            state_width=theirs["linear_key_head_dim"],
            n_state_head=theirs["linear_num_value_heads"],
            state_head_width=theirs["linear_value_head_dim"],
            n_state_group=theirs["linear_num_key_heads"],
            taps=theirs["linear_conv_kernel_dim"],
            rotary_base=base,
            rotary_scaling=scaling,
            tied=theirs.get("tie_word_embeddings", False),
            dropout=theirs.get("attention_dropout") or 0.0,
            rotary_fraction=fraction,
            **ATTENTION,
        ),
        "delta",
    )


def refuse_experts(theirs: dict[str, Any]) -> None:
    """Refuse a mixture of experts, by the layers that have one; the rule is transformers' own."""
    count, every = theirs.get("num_experts", 512), theirs.get("decoder_sparse_step", 1)
    dense = theirs.get("mlp_only_layers") or ()
    mixed = [i for i in range(theirs["num_hidden_layers"]) if count and i not in dense and (i + 1) % every == 0]
    if mixed:
        raise Foreign(
            "{some} of {all} layers of this Qwen3-Next have a mixture of {count} experts for a feed-forward: qkv reads "
            "those with one feed-forward per layer (num_experts=0)",
            some=len(mixed),
            all=theirs["num_hidden_layers"],
            count=count,
        )


def read_layers(theirs: dict[str, Any]) -> list[str]:
    """What stands in each layer; where a file doesn't say, every fourth attends."""
    layers, every = theirs["num_hidden_layers"], theirs.get("full_attention_interval") or 4
    usual = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    told = theirs.get("layer_types") or usual
    known = {word: ours for ours, word in WORDS.items()}
    if strange := next((word for word in told if word not in known), None):
        raise Foreign(
            "layer_types names {word!r} in this config.json, which qkv doesn't know: it reads {known}",
            word=strange,
            known=all_of(known),
        )
    if "full_attention" not in told:
        raise Foreign("no layer of this {family} attends, and qkv reads those in which some do", family="Qwen3-Next")
    return [known[word] for word in told]


def overwrites(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one layer of the delta rule: q, k, v and gate are woven key head by key head, and so are the rates."""
    heads, values, groups, keys = config.state_sizes("delta")
    each, qkv, rates = heads // groups, f"{ours}.qkv.weight", f"{ours}.rates.weight"
    inputs = (qkv, qkv, qkv, f"{ours}.gate.weight")
    lifted = {"convolution.weight": 1}
    return [
        Row(inputs, f"{theirs}.in_proj_qkvz.weight", groups=groups, sizes=(keys, keys, each * values, each * values)),
        Row((rates, rates), f"{theirs}.in_proj_ba.weight", groups=groups, sizes=(each, each)),
        *(Row(f"{ours}.{name}", f"{theirs}.{word}", lifted=lifted.get(name)) for name, word in NAMES.items()),
    ]


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    table = [Row("embedding.weight", "model.embed_tokens.weight"), Row("decoder_norm.weight", "model.norm.weight")]
    for i, word in enumerate(config.mixers):
        ours, theirs = f"decoder.{i}", f"model.layers.{i}"
        mixer, name = (looks, "self_attn") if word == "attention" else (overwrites, "linear_attn")
        table += mixer(config, f"{ours}.attention", f"{theirs}.{name}")
        table += thinks(config, f"{ours}.feed_forward", f"{theirs}.mlp")
        table += linear(f"{ours}.attention_norm", f"{theirs}.input_layernorm", bias=False)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.post_attention_layernorm", bias=False)
    return table + [Row("head.weight", "lm_head.weight")] * (not config.tied)


QWEN3_NEXT = Family(
    "Qwen3-Next",
    ("qwen3_next",),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=IGNORED + r"|^mtp\.",  # a further head that guesses several tokens at once
    prefix="model.",
    head=r"^lm_head\.|^mtp\.",
    repeats={"lm_head.weight": "model.embed_tokens.weight"},
)
