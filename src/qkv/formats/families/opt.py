"""OPT: a decoder with learned positions and ReLU; the one of 350 M has norms after each part and narrow word vectors."""

from ...model.config import Config
from .family import PLAIN, Family, State, TensorRow, linear, plain_heads, zero_biases
from .setting_table import TRUTH, Holds, Setting, Table, choice, required, words, written

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu2": "relu2"}
HOLDS: Holds = PLAIN | dict(
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


SETTINGS: Table = (
    written("architectures", ["OPTForCausalLM"]),
    required("_remove_final_layer_norm", False),
    required("layer_norm_elementwise_affine", True),
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("word_embed_proj_dim", "embedding_width", None, empty=True),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head"),
    Setting("ffn_dim", "hidden"),
    Setting("max_position_embeddings", "context"),
    Setting("activation_function", "feed_forward", "relu", words(ACTIVATIONS)),
    Setting("do_layer_norm_before", "norm_place", True, choice("pre", "post")),
    Setting("enable_bias", "bias", True, TRUTH),
    Setting("dropout", "dropout", 0.1, also=("attention_dropout",)),
    Setting("tie_word_embeddings", "tied", True),
)


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    bias, table = (
        bool(config.bias),
        [
            TensorRow("embedding.weight", "model.decoder.embed_tokens.weight"),
            TensorRow("position.table", "model.decoder.embed_positions.weight", unused=UNUSED),
        ],
    )
    if config.embedding.width is not None:
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
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


def fill(config: Config, state: State) -> State:
    """All of OPT's matrices have biases, or none."""
    return zero_biases(state) if config.bias else state


OPT = Family(
    "OPT",
    ("opt",),
    HOLDS,
    plain_heads,
    SETTINGS,
    rows,
    fill,
    r"^lm_head\.weight$",
    "model.",
    r"^lm_head\.",
    {"lm_head.weight": "model.decoder.embed_tokens.weight"},
)
