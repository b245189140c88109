"""GPT-2: a decoder with learned positions, norms before each part, q, k and v in one matrix."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...model.config import Config
from .family import PLAIN, Family, Row, State, insist, linear, plain_heads, word_of, zero_biases

ACTIVATIONS = {"gelu-tanh": "gelu_new", "gelu": "gelu", "relu": "relu", "silu": "silu", "relu2": "relu2"}
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("decoder",),
    position=("learned",),
    norm=("layer",),
    norm_place=("pre",),
    feed_forward=tuple(ACTIVATIONS),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
    **PLAIN | dict(attention_scale=(None, 1.0), depth_scale=(False, True)),
)


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    return dict(
        model_type="gpt2",
        architectures=["GPT2LMHeadModel"],
        vocab_size=config.vocab,
        n_positions=config.context,
        n_embd=config.width,
        n_layer=config.n_layer,
        n_head=config.n_head,
        n_inner=config.hidden_width,
        activation_function=ACTIVATIONS[config.feed_forward],
        layer_norm_epsilon=config.norm_eps,
        embd_pdrop=config.dropout,
        attn_pdrop=config.dropout,
        resid_pdrop=config.dropout,
        tie_word_embeddings=config.tied,
        scale_attn_weights=config.attention_scale is None,
        scale_attn_by_inverse_layer_idx=config.depth_scale,
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    insist(theirs, dict(add_cross_attention=False))
    return Config(
        kind="decoder",
        vocab=theirs["vocab_size"],
        width=theirs["n_embd"],
        n_layer=theirs["n_layer"],
        n_head=theirs["n_head"],
        hidden=theirs.get("n_inner") or 4 * theirs["n_embd"],
        context=theirs["n_positions"],
        attention_scale=None if theirs.get("scale_attn_weights", True) else 1.0,
        depth_scale=theirs.get("scale_attn_by_inverse_layer_idx", False),
        position="learned",
        norm="layer",
        norm_eps=theirs.get("layer_norm_epsilon", 1e-5),
        feed_forward=word_of(theirs.get("activation_function", "gelu_new"), ACTIVATIONS),
        bias=True,
        tied=theirs.get("tie_word_embeddings", True),
        dropout=theirs.get("resid_pdrop", 0.1),
    )


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    table = [
        Row("embedding.weight", "transformer.wte.weight"),
        Row("position.table", "transformer.wpe.weight"),
        *linear("decoder_norm", "transformer.ln_f", bias=True),
    ]
    for i in range(config.n_layer):
        ours, theirs = f"decoder.{i}", f"transformer.h.{i}"
        qkv = (f"{ours}.attention.q", f"{ours}.attention.k", f"{ours}.attention.v")
        table += linear(f"{ours}.attention_norm", f"{theirs}.ln_1", bias=True)
        table += linear(qkv, f"{theirs}.attn.c_attn", bias=True, transposed=True)
        table += linear(f"{ours}.attention.out", f"{theirs}.attn.c_proj", bias=True, transposed=True)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.ln_2", bias=True)
        table += linear(f"{ours}.feed_forward.up", f"{theirs}.mlp.c_fc", bias=True, transposed=True)
        table += linear(f"{ours}.feed_forward.down", f"{theirs}.mlp.c_proj", bias=True, transposed=True)
    return table + [Row("head.weight", "lm_head.weight")] * (not config.tied)


def fill(config: Config, state: State) -> State:
    """GPT-2 always has biases."""
    return zero_biases(state)


# Published files also hold each layer's causal mask, and may repeat the embedding as the head.
IGNORED = r"\.attn\.(masked_)?bias$|^lm_head\.weight$"
GPT2 = Family(
    "GPT-2",
    ("gpt2",),
    HOLDS,
    plain_heads,
    write,
    read,
    rows,
    fill,
    IGNORED,
    "transformer.",
    r"^lm_head\.",
    {"lm_head.weight": "transformer.wte.weight"},
)
