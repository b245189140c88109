"""OPT: a decoder with learned positions and ReLU; OPT-350M has norms after each part and narrow embeddings."""

from ...model.config import Config
from .family import Family, State, TensorRow, head_obstacles, linear, supports, zero_biases
from .setting_table import BOOL, Setting, activation_form, flag_form, required, write_only

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu2": "relu2"}
SUPPORTED = supports(
    "embedding_width",
    position=("learned",),
    norm=("layer",),
    norm_place=("pre", "post"),
    norm_eps=(1e-5,),
    feed_forward=tuple(ACTIVATIONS),
)
UNUSED = 2  # rows before the first position


SETTINGS = (
    write_only("architectures", ["OPTForCausalLM"]),
    required("_remove_final_layer_norm", False),
    required("layer_norm_elementwise_affine", True),
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("word_embed_proj_dim", "embedding_width", None, falsy_is_missing=True),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head"),
    Setting("ffn_dim", "hidden"),
    Setting("max_position_embeddings", "context"),
    Setting("activation_function", "feed_forward", "relu", activation_form(ACTIVATIONS)),
    Setting("do_layer_norm_before", "norm_place", True, flag_form("pre", "post")),
    Setting("enable_bias", "bias", True, BOOL),
    Setting("dropout", "dropout", 0.1, extra_names=("attention_dropout",)),
    Setting("tie_word_embeddings", "tied", True),
)


def rows(config: Config) -> list[TensorRow]:
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
        prefix, hf_prefix = f"decoder.{i}", f"model.decoder.layers.{i}"
        for name in ("q", "k", "v", "out"):
            table += linear(f"{prefix}.attention.{name}", f"{hf_prefix}.self_attn.{name}_proj", bias=bias)
        table += linear(f"{prefix}.attention_norm", f"{hf_prefix}.self_attn_layer_norm", bias=True)
        table += linear(f"{prefix}.feed_forward.up", f"{hf_prefix}.fc1", bias=bias)
        table += linear(f"{prefix}.feed_forward.down", f"{hf_prefix}.fc2", bias=bias)
        table += linear(f"{prefix}.feed_forward_norm", f"{hf_prefix}.final_layer_norm", bias=True)
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


def fill(config: Config, state: State) -> State:
    """Add zero biases if any matrix has one: OPT has all or none."""
    return zero_biases(config, state) if config.bias else state


OPT = Family(
    "OPT",
    ("opt",),
    SUPPORTED,
    head_obstacles,
    SETTINGS,
    rows,
    fill,
    r"^lm_head\.weight$",
    "model.",
    r"^lm_head\.",
    {"lm_head.weight": "model.decoder.embed_tokens.weight"},
)
