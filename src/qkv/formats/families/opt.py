"""OPT: a decoder with learned positions and ReLU; the one of 350 M has norms after each part and narrow word vectors."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...model.config import Config
from .family import PLAIN, Family, Row, State, insist, linear, plain_heads, word_of, zero_biases

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu2": "relu2"}
HOLDS: dict[str, tuple[Any, ...]] = PLAIN | dict(
    kind=("decoder",),
    position=("learned",),
    norm=("layer",),
    norm_place=("pre", "post"),
    norm_eps=(1e-5,),
    feed_forward=tuple(ACTIVATIONS),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
)
del HOLDS["embedding_width"]
UNUSED = 2  # lines before the first position


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    return dict(
        model_type="opt",
        architectures=["OPTForCausalLM"],
        vocab_size=config.vocab,
        hidden_size=config.width,
        word_embed_proj_dim=config.embedding_width or config.width,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        ffn_dim=config.hidden_width,
        max_position_embeddings=config.context,
        activation_function=ACTIVATIONS[config.feed_forward],
        do_layer_norm_before=config.norm_place == "pre",
        enable_bias=bool(config.bias),
        dropout=config.dropout,
        attention_dropout=config.dropout,
        tie_word_embeddings=config.tied,
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    insist(theirs, dict(_remove_final_layer_norm=False, layer_norm_elementwise_affine=True))
    width = theirs["hidden_size"]
    narrow = theirs.get("word_embed_proj_dim") or width
    return Config(
        kind="decoder",
        vocab=theirs["vocab_size"],
        width=width,
        n_layer=theirs["num_hidden_layers"],
        n_head=theirs["num_attention_heads"],
        hidden=theirs["ffn_dim"],
        context=theirs["max_position_embeddings"],
        position="learned",
        norm="layer",
        norm_place="pre" if theirs.get("do_layer_norm_before", True) else "post",
        norm_eps=1e-5,
        feed_forward=word_of(theirs.get("activation_function", "relu"), ACTIVATIONS),
        bias=theirs.get("enable_bias", True),
        embedding_width=None if narrow == width else narrow,
        tied=theirs.get("tie_word_embeddings", True),
        dropout=theirs.get("dropout", 0.1),
    )


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    bias, table = (
        bool(config.bias),
        [
            Row("embedding.weight", "model.decoder.embed_tokens.weight"),
            Row("position.table", "model.decoder.embed_positions.weight", unused=UNUSED),
        ],
    )
    if config.embedding_width is not None:
        table += linear("widen", "model.decoder.project_in", bias=False)
        table += linear("head.narrow", "model.decoder.project_out", bias=False)
    if config.norm_place == "pre":
        table += linear("decoder_norm", "model.decoder.final_layer_norm", bias=True)
    for i in range(config.n_layer):
        ours, theirs = f"decoder.{i}", f"model.decoder.layers.{i}"
        for name in ("q", "k", "v", "out"):
            table += linear(f"{ours}.attention.{name}", f"{theirs}.self_attn.{name}_proj", bias=bias)
        table += linear(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm", bias=True)
        table += linear(f"{ours}.feed_forward.up", f"{theirs}.fc1", bias=bias)
        table += linear(f"{ours}.feed_forward.down", f"{theirs}.fc2", bias=bias)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm", bias=True)
    return table + [Row("head.weight", "lm_head.weight")] * (not config.tied)


def fill(config: Config, state: State) -> State:
    """All of OPT's matrices have biases, or none."""
    return zero_biases(state) if config.bias else state


OPT = Family(
    "OPT",
    ("opt",),
    HOLDS,
    plain_heads,
    write,
    read,
    rows,
    fill,
    r"^lm_head\.weight$",
    "model.",
    r"^lm_head\.",
    {"lm_head.weight": "model.decoder.embed_tokens.weight"},
)
