"""GPT-NeoX and Pythia: attention and feed-forward side by side, heads turned in part, q, k and v woven head by head."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from ...model.config import Config
from . import llama
from .family import PLAIN, Family, Row, State, heads_divide_width, linear, plain_heads, word_of, zero_biases

ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu2": "relu2"}
HOLDS: dict[str, tuple[Any, ...]] = PLAIN | dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("layer",),
    norm_place=("pre",),
    parallel=(True, False),
    feed_forward=tuple(ACTIVATIONS),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
)
del HOLDS["rotary_fraction"]


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    return dict(
        model_type="gpt_neox",
        architectures=["GPTNeoXForCausalLM"],
        vocab_size=config.vocab,
        hidden_size=config.width,
        intermediate_size=config.hidden_width,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        max_position_embeddings=config.context,
        hidden_act=ACTIVATIONS[config.feed_forward],
        layer_norm_eps=config.norm_eps,
        attention_dropout=config.dropout,
        hidden_dropout=config.dropout,
        tie_word_embeddings=config.tied,
        use_parallel_residual=config.parallel,
        attention_bias=biased(config),
        rotary_pct=config.rotary_fraction,
        rotary_emb_base=config.rotary_base,
        **llama.write_rotary(config, said=True),
    )


def biased(config: Config) -> bool:
    """Does attention have biases, be they 0? The feed-forward always has."""
    return bool({"qkv", "out"} & config.biased)


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    heads_divide_width(theirs)
    told = llama.rotary_table(theirs)
    share = told.get("partial_rotary_factor", theirs.get("rotary_pct", 0.25))
    base, scaling = llama.read_rotary({"rope_theta": theirs.get("rotary_emb_base", 10000.0)} | theirs, share)
    return Config(
        kind="decoder",
        vocab=theirs["vocab_size"],
        width=theirs["hidden_size"],
        n_layer=theirs["num_hidden_layers"],
        n_head=theirs["num_attention_heads"],
        hidden=theirs["intermediate_size"],
        context=theirs["max_position_embeddings"],
        norm="layer",
        norm_eps=theirs.get("layer_norm_eps", 1e-5),
        parallel=theirs.get("use_parallel_residual", True),
        feed_forward=word_of(theirs.get("hidden_act", "gelu"), ACTIVATIONS),
        bias=True if theirs.get("attention_bias", True) else "forward",
        rotary_base=base,
        rotary_scaling=scaling,
        rotary_fraction=share,
        tied=theirs.get("tie_word_embeddings", False),
        dropout=theirs.get("hidden_dropout") or 0.0,
    )


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    table = [
        Row("embedding.weight", "gpt_neox.embed_in.weight"),
        *linear("decoder_norm", "gpt_neox.final_layer_norm", bias=True),
    ]
    width, attention = config.width // config.n_head, biased(config)
    for i in range(config.n_layer):
        ours, theirs = f"decoder.{i}", f"gpt_neox.layers.{i}"
        fused = linear(
            [f"{ours}.attention.{part}" for part in "qkv"], f"{theirs}.attention.query_key_value", bias=attention
        )
        table += [replace(row, groups=config.n_head, sizes=(width, width, width)) for row in fused]
        table += linear(f"{ours}.attention.out", f"{theirs}.attention.dense", bias=attention)
        table += linear(f"{ours}.feed_forward.up", f"{theirs}.mlp.dense_h_to_4h", bias=True)
        table += linear(f"{ours}.feed_forward.down", f"{theirs}.mlp.dense_4h_to_h", bias=True)
        table += linear(f"{ours}.attention_norm", f"{theirs}.input_layernorm", bias=True)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.post_attention_layernorm", bias=True)
    return table + [Row("head.weight", "embed_out.weight")] * (not config.tied)


def fill(config: Config, state: State) -> State:
    """The feed-forward always has biases, and all of attention if any of it has."""
    whole = zero_biases(state)
    return {
        name: tensor for name, tensor in whole.items() if name in state or biased(config) or re.search("forward", name)
    }


# Published files also hold each layer's causal mask and its angles, and may repeat the embedding as the head.
IGNORED = r"\.attention\.(masked_)?bias$|rotary_emb\.inv_freq$|^embed_out\.weight$"
GPT_NEOX = Family(
    "GPT-NeoX",
    ("gpt_neox",),
    HOLDS,
    plain_heads,
    write,
    read,
    rows,
    fill,
    IGNORED,
    "gpt_neox.",
    r"^embed_out\.",
    {"embed_out.weight": "gpt_neox.embed_in.weight"},
)
