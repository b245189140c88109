"""GPT-2: a decoder with learned positions, norms before each part, and q, k and v in one matrix."""

from ...model.config import Config
from .family import Family, TensorRow, head_obstacles, linear, supports, zero_biases
from .setting_table import Setting, activation_form, flag_form, implied, required, write_only

ACTIVATIONS = {"gelu-tanh": "gelu_new", "gelu": "gelu", "relu": "relu", "silu": "silu", "relu2": "relu2"}
SUPPORTED = supports(
    position=("learned",),
    norm=("layer",),
    feed_forward=tuple(ACTIVATIONS),
    attention_scale=(None, 1.0),
    depth_scale=(False, True),
)


SETTINGS = (
    write_only("architectures", ["GPT2LMHeadModel"]),
    implied(bias=True),
    required("add_cross_attention", False),
    Setting("vocab_size", "vocab"),
    Setting("n_positions", "context"),
    Setting("n_embd", "width"),
    Setting("n_layer", "n_layer"),
    Setting("n_head", "n_head"),
    Setting("n_inner", "hidden", lambda reading: 4 * reading.settings["width"], falsy_is_missing=True),
    Setting("activation_function", "feed_forward", "gelu_new", activation_form(ACTIVATIONS)),
    Setting("layer_norm_epsilon", "norm_eps", 1e-5),
    Setting("resid_pdrop", "dropout", 0.1, extra_names=("embd_pdrop", "attn_pdrop")),
    Setting("tie_word_embeddings", "tied", True),
    Setting("scale_attn_weights", "attention_scale", True, flag_form(None, 1.0)),
    Setting("scale_attn_by_inverse_layer_idx", "depth_scale", False),
)


def rows(config: Config) -> list[TensorRow]:
    table = [
        TensorRow("embedding.weight", "transformer.wte.weight"),
        TensorRow("position.table", "transformer.wpe.weight"),
        *linear("decoder_norm", "transformer.ln_f", bias=True),
    ]
    for i in range(config.n_layer):
        prefix, hf_prefix = f"decoder.{i}", f"transformer.h.{i}"
        qkv = (f"{prefix}.attention.q", f"{prefix}.attention.k", f"{prefix}.attention.v")
        table += linear(f"{prefix}.attention_norm", f"{hf_prefix}.ln_1", bias=True)
        table += linear(qkv, f"{hf_prefix}.attn.c_attn", bias=True, transposed=True)
        table += linear(f"{prefix}.attention.out", f"{hf_prefix}.attn.c_proj", bias=True, transposed=True)
        table += linear(f"{prefix}.feed_forward_norm", f"{hf_prefix}.ln_2", bias=True)
        table += linear(f"{prefix}.feed_forward.up", f"{hf_prefix}.mlp.c_fc", bias=True, transposed=True)
        table += linear(f"{prefix}.feed_forward.down", f"{hf_prefix}.mlp.c_proj", bias=True, transposed=True)
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


# Published files also have causal masks, and may have the embedding again as the head.
IGNORED = r"\.attn\.(masked_)?bias$|^lm_head\.weight$"
GPT2 = Family(
    "GPT-2",
    ("gpt2",),
    SUPPORTED,
    head_obstacles,
    SETTINGS,
    rows,
    zero_biases,
    IGNORED,
    "transformer.",
    r"^lm_head\.",
    {"lm_head.weight": "transformer.wte.weight"},
)
