"""Bamba: a LLaMA most of whose layers have a Mamba-2 mixer in attention's place, and whose attention turns half of each head."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...words import Message
from ..config import Config, layer_pattern
from .family import PLAIN, Family, Foreign, Row, insist, linear, need, word_of
from .llama import IGNORED, looks, read_rotary, rotary_table, thinks, write_rotary
from .mamba2 import fewest, insist_on_steps, remembers, whole_widths

ACTIVATIONS = {"swiglu": "silu"}  # which is the convolution's too
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False, True),
    qk_norm=(None,),
    window=(None,),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
) | {name: values for name, values in PLAIN.items() if name != "rotary_fraction"}


def obstacles(config: Config) -> list[Message]:
    """Mixers of both kinds: without attention transformers' own can't run."""
    words = set(config.mixers)
    either = [] if words == {"mamba2", "attention"} else [need("mixer='mamba2×… attention'", repr(config.mixer))]
    return either + whole_widths(config)


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    heads, values, groups, keys = config.state_sizes("mamba2")
    biased = config.bias is True
    return dict(
        model_type="bamba",
        architectures=["BambaForCausalLM"],
        vocab_size=config.vocab,
        hidden_size=config.width,
        intermediate_size=config.hidden_width,
        num_hidden_layers=config.n_layer,
        attn_layer_indices=[i for i, word in enumerate(config.mixers) if word == "attention"],
        num_attention_heads=config.n_head,
        num_key_value_heads=config.n_kv_head or config.n_head,
        head_dim=config.head_width or config.width // config.n_head,
        mamba_n_heads=heads,
        mamba_d_head=values,
        mamba_expand=heads * values // config.width,
        mamba_d_state=keys,
        mamba_n_groups=groups,
        mamba_d_conv=config.taps,
        mamba_conv_bias=True,
        mamba_proj_bias=biased,
        attention_bias=biased,
        mlp_bias=biased,
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
    head_width, n_kv_head = theirs.get("head_dim") or width // n_head, theirs.get("num_key_value_heads") or n_head
    bias = theirs.get("attention_bias", False)
    insist(theirs, dict(mlp_bias=bias, mamba_proj_bias=bias, mamba_conv_bias=True))
    insist_on_steps(theirs)
    heads, values = theirs["mamba_n_heads"], theirs.get("mamba_d_head", "auto")
    values = theirs["mamba_expand"] * width // heads if values == "auto" else values
    if not theirs.get("attn_layer_indices"):
        raise Foreign("no layer of this {family} attends, and qkv reads those in which some do", family="Bamba")
    words = ["attention" if i in theirs["attn_layer_indices"] else "mamba2" for i in range(layers)]
    fraction = rotary_table(theirs).get("partial_rotary_factor", 0.5)  # transformers hears it nowhere else
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
            norm_eps=theirs.get("rms_norm_eps", 1e-5),
            feed_forward=word_of(theirs.get("hidden_act", "silu"), ACTIVATIONS),
            bias=bias,
            mixer=layer_pattern(tuple(words)),
            state_width=theirs["mamba_d_state"],
            n_state_head=heads,
            state_head_width=values,
            n_state_group=theirs["mamba_n_groups"],
            taps=theirs["mamba_d_conv"],
            rotary_base=base,
            rotary_scaling=scaling,
            rotary_fraction=fraction,
            tied=theirs.get("tie_word_embeddings", False),
            dropout=theirs.get("attention_dropout") or 0.0,
        ),
        "mamba2",
    )


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    table = [
        Row("embedding.weight", "model.embed_tokens.weight"),
        Row("decoder_norm.weight", "model.final_layernorm.weight"),
    ]
    for i, word in enumerate(config.mixers):
        ours, theirs = f"decoder.{i}", f"model.layers.{i}"
        mixer, name = (looks, "self_attn") if word == "attention" else (remembers, "mamba")
        table += mixer(config, f"{ours}.attention", f"{theirs}.{name}")
        table += thinks(config, f"{ours}.feed_forward", f"{theirs}.feed_forward")
        table += linear(f"{ours}.attention_norm", f"{theirs}.input_layernorm", bias=False)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.pre_ff_layernorm", bias=False)
    return table + [Row("head.weight", "lm_head.weight")] * (not config.tied)


BAMBA = Family(
    "Bamba",
    ("bamba",),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=IGNORED,
    prefix="model.",
    head=r"^lm_head\.",
    repeats={"lm_head.weight": "model.embed_tokens.weight"},
)
