"""GPT-NeoX and Pythia: attention and feed-forward side by side, heads turned in part, q, k and v woven head by head."""

import re
from dataclasses import replace

from ...model.config import Config
from .family import PLAIN, Family, State, TensorRow, linear, plain_heads, zero_biases
from .rotary_settings import RotaryEntry
from .setting_table import ConfigReading, Form, Holds, Setting, Table, Value, required, words, written

ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu2": "relu2"}
HOLDS: Holds = PLAIN | dict(
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


def biased(config: Config) -> bool:
    """Does attention have biases, be they 0? The feed-forward always has."""
    return bool({"qkv", "out"} & config.biased)


def divided(reading: ConfigReading) -> Value:
    """Return the only head_dim that is read: transformers counts angles by it, and nothing else."""
    told = reading.theirs.get("head_dim")
    return told and reading.ours["width"] // reading.ours["n_head"]


SETTINGS: Table = (
    written("architectures", ["GPTNeoXForCausalLM"]),
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("intermediate_size", "hidden"),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head"),
    required("head_dim", divided),
    Setting("max_position_embeddings", "context"),
    Setting("hidden_act", "feed_forward", "gelu", words(ACTIVATIONS)),
    Setting("layer_norm_eps", "norm_eps", 1e-5),
    Setting("hidden_dropout", "dropout", 0.0, empty=True, also=("attention_dropout",)),
    Setting("tie_word_embeddings", "tied", False),
    Setting("use_parallel_residual", "parallel", True),
    Setting(
        "attention_bias",
        "bias",
        True,
        Form(lambda value, reading: True if value else "forward", lambda value, config: biased(config)),
    ),
    RotaryEntry(share=0.25, share_name="rotary_pct", base_name="rotary_emb_base"),
    written("rotary_pct", lambda config: config.rotary.fraction),
    written("rotary_emb_base", lambda config: config.rotary.base),
)


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    table = [
        TensorRow("embedding.weight", "gpt_neox.embed_in.weight"),
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
    return table + [TensorRow("head.weight", "embed_out.weight")] * (not config.embedding.tied)


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
    SETTINGS,
    rows,
    fill,
    IGNORED,
    "gpt_neox.",
    r"^embed_out\.",
    {"embed_out.weight": "gpt_neox.embed_in.weight"},
)
