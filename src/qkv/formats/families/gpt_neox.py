"""GPT-NeoX and Pythia: parallel attention and feed-forward, partial rotary, q, k and v interleaved by head."""

import re
from dataclasses import replace

from ...model.config import Config
from .family import Family, State, TensorRow, head_obstacles, linear, supports, zero_biases
from .rotary_settings import RotaryEntry
from .setting_table import ConfigReading, Form, Setting, Value, activation_form, required, write_only

ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu2": "relu2"}
SUPPORTED = supports("rotary_fraction", norm=("layer",), parallel=(True, False), feed_forward=tuple(ACTIVATIONS))


def attention_has_bias(config: Config) -> bool:
    """True if attention has biases. The feed-forward always has them."""
    return bool({"qkv", "out"} & config.biased)


def expected_head_dim(reading: ConfigReading) -> Value:
    """Return the only supported head_dim: transformers uses it for the angles and nothing else."""
    head_dim = reading.hf_config.get("head_dim")
    return head_dim and reading.settings["width"] // reading.settings["n_head"]


SETTINGS = (
    write_only("architectures", ["GPTNeoXForCausalLM"]),
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("intermediate_size", "hidden"),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head"),
    required("head_dim", expected_head_dim),
    Setting("max_position_embeddings", "context"),
    Setting("hidden_act", "feed_forward", "gelu", activation_form(ACTIVATIONS)),
    Setting("layer_norm_eps", "norm_eps", 1e-5),
    Setting("hidden_dropout", "dropout", 0.0, falsy_is_missing=True, extra_names=("attention_dropout",)),
    Setting("tie_word_embeddings", "tied", False),
    Setting("use_parallel_residual", "parallel", True),
    Setting(
        "attention_bias",
        "bias",
        True,
        Form(lambda value, reading: True if value else "forward", lambda value, config: attention_has_bias(config)),
    ),
    RotaryEntry(share=0.25, share_name="rotary_pct", base_name="rotary_emb_base"),
    write_only("rotary_pct", lambda config: config.rotary.fraction),
    write_only("rotary_emb_base", lambda config: config.rotary.base),
)


def rows(config: Config) -> list[TensorRow]:
    table = [
        TensorRow("embedding.weight", "gpt_neox.embed_in.weight"),
        *linear("decoder_norm", "gpt_neox.final_layer_norm", bias=True),
    ]
    width, attention = config.width // config.n_head, attention_has_bias(config)
    for i in range(config.n_layer):
        prefix, hf_prefix = f"decoder.{i}", f"gpt_neox.layers.{i}"
        fused = linear(
            [f"{prefix}.attention.{part}" for part in "qkv"], f"{hf_prefix}.attention.query_key_value", bias=attention
        )
        table += [replace(row, groups=config.n_head, sizes=(width, width, width)) for row in fused]
        table += linear(f"{prefix}.attention.out", f"{hf_prefix}.attention.dense", bias=attention)
        table += linear(f"{prefix}.feed_forward.up", f"{hf_prefix}.mlp.dense_h_to_4h", bias=True)
        table += linear(f"{prefix}.feed_forward.down", f"{hf_prefix}.mlp.dense_4h_to_h", bias=True)
        table += linear(f"{prefix}.attention_norm", f"{hf_prefix}.input_layernorm", bias=True)
        table += linear(f"{prefix}.feed_forward_norm", f"{hf_prefix}.post_attention_layernorm", bias=True)
    return table + [TensorRow("head.weight", "embed_out.weight")] * (not config.embedding.tied)


def fill(config: Config, state: State) -> State:
    """Add zero biases to the feed-forward, and to attention if part of it has biases."""
    filled = zero_biases(config, state)
    return {
        name: tensor
        for name, tensor in filled.items()
        if name in state or attention_has_bias(config) or re.search("forward", name)
    }


# Published files also have causal masks and angles, and may have the embedding again as the head.
IGNORED = r"\.attention\.(masked_)?bias$|rotary_emb\.inv_freq$|^embed_out\.weight$"
GPT_NEOX = Family(
    "GPT-NeoX",
    ("gpt_neox",),
    SUPPORTED,
    head_obstacles,
    SETTINGS,
    rows,
    fill,
    IGNORED,
    "gpt_neox.",
    r"^embed_out\.",
    {"embed_out.weight": "gpt_neox.embed_in.weight"},
)
