"""BERT: an encoder with learned positions and token types, norms after each part, and a head for masked words."""

from typing import Any

from ..config import Config
from .family import Family, Row, State, insist, linear, plain_heads, word_of, zero_biases

ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "relu2": "relu2"}
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("encoder",),
    position=("learned",),
    norm=("layer",),
    norm_place=("post",),
    feed_forward=tuple(ACTIVATIONS),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(True,),
    head=("mlm",),
)


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    return dict(
        model_type="bert",
        architectures=["BertForMaskedLM"],
        vocab_size=config.vocab,
        max_position_embeddings=config.context,
        type_vocab_size=max(config.token_types, 1),
        hidden_size=config.width,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        intermediate_size=config.hidden_width,
        hidden_act=ACTIVATIONS[config.feed_forward],
        layer_norm_eps=config.norm_eps,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        position_embedding_type="absolute",
        tie_word_embeddings=config.tied,
    )


def read(theirs: dict[str, Any]) -> Config:
    """The other way."""
    insist(theirs, dict(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False))
    return Config(
        kind="encoder",
        vocab=theirs["vocab_size"],
        width=theirs["hidden_size"],
        n_layer=theirs["num_hidden_layers"],
        n_head=theirs["num_attention_heads"],
        hidden=theirs["intermediate_size"],
        context=theirs["max_position_embeddings"],
        position="learned",
        norm="layer",
        norm_place="post",
        norm_eps=theirs.get("layer_norm_eps", 1e-12),
        feed_forward=word_of(theirs.get("hidden_act", "gelu"), ACTIVATIONS),
        bias=True,
        tied=theirs.get("tie_word_embeddings", True),
        embedding_norm=True,
        token_types=theirs.get("type_vocab_size", 2),
        head="mlm",
        dropout=theirs.get("hidden_dropout_prob", 0.1),
    )


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    table = [
        Row("embedding.weight", "bert.embeddings.word_embeddings.weight"),
        Row("position.table", "bert.embeddings.position_embeddings.weight"),
        Row("types.weight", "bert.embeddings.token_type_embeddings.weight"),
        *linear("embedding_norm", "bert.embeddings.LayerNorm", bias=True),
    ]
    for i in range(config.n_layer):
        ours, theirs = f"encoder.{i}", f"bert.encoder.layer.{i}"
        for part, word in (("q", "query"), ("k", "key"), ("v", "value")):
            table += linear(f"{ours}.attention.{part}", f"{theirs}.attention.self.{word}", bias=True)
        table += linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense", bias=True)
        table += linear(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", bias=True)
        table += linear(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense", bias=True)
        table += linear(f"{ours}.feed_forward.down", f"{theirs}.output.dense", bias=True)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm", bias=True)
    table += linear("head.dense", "cls.predictions.transform.dense", bias=True)
    table += linear("head.norm", "cls.predictions.transform.LayerNorm", bias=True)
    table += [Row("head.bias", "cls.predictions.bias")]
    # An untied head has its bias twice in their file, and theirs computes with the second.
    return table + linear("head", "cls.predictions.decoder", bias=True) * (not config.tied)


def fill(config: Config, state: State) -> State:
    """BERT always has biases, and one token type at least."""
    embedding = state["embedding.weight"]
    return {"types.weight": embedding.new_zeros(1, embedding.shape[1])} | zero_biases(state)


# The pooler and the next-sentence head were trained beside the masked words and take no part in their logits.
IGNORED = r"position_ids$|^bert\.pooler\.|^cls\.seq_relationship\.|^cls\.predictions\.decoder\."
BERT = Family("BERT", ("bert",), HOLDS, plain_heads, write, read, rows, fill, IGNORED)
