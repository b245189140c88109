"""LLaMA and models of the same layout: Mistral (a window), Qwen2 (biases on q, k and v), Qwen3 (a norm on q and k)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from ...i18n import Message
from ...model.config import Config
from ...model.config_checks import layer_pattern
from .family import Family, TensorRow, linear, need, supports
from .rotary_settings import RotaryEntry
from .setting_table import (
    WINDOW,
    ConfigReading,
    HfConfig,
    Rule,
    Setting,
    Table,
    Value,
    activation_form,
    for_members,
    implied,
    write_only,
)

Rows = Callable[[Config, str, str], list[TensorRow]]  # (config, our prefix, their prefix) -> rows
ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "geglu-tanh": "gelu_new"}
CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
SUPPORTED = supports("window", feed_forward=tuple(ACTIVATIONS), qk_norm=(None, "rms"))


def member(config: Config) -> str:
    """Return transformers' model_type."""
    if config.qk_norm is not None:
        return "qwen3"
    if config.bias == "qkv":
        return "qwen2"
    # transformers' LLaMA requires heads that divide the width, even with a head_width; Mistral does not.
    return "mistral" if config.window is not None or config.width % config.n_head else "llama"


def obstacles(config: Config) -> list[Message]:
    """Biases: on q, k and v (Qwen2), on all of attention or the feed-forward (LLaMA), nowhere (Mistral)."""
    bias, window = config.bias, config.window
    if config.qk_norm is not None:
        fits = bias in (False, "qkv out")
        return [] if fits else [need(Message("bias=False, or qk_norm=None"), repr(bias), repr(config.qk_norm))]
    if bias == "qkv":
        return []
    if bias not in (True, False, "qkv out", "forward"):
        return [need("bias=False | True | 'qkv' | 'qkv out' | 'forward'", repr(bias))]
    if bias and window is not None:
        return [need(Message("bias=False or bias='qkv', or window=None"), bias, window)]
    if bias and config.width % config.n_head:
        either = Message("bias=False or bias='qkv', or heads that divide the width")
        return [need(either, bias, f"n_head={config.n_head}")]
    if window is not None and None in config.windows:
        return [need("window_layers='window', or bias='qkv'", repr(config.window_layers), bias)]
    return []


def read_bias(reading: ConfigReading) -> dict[str, Value]:
    """Return our setting of biases. Only LLaMA may have them on the feed-forward."""
    attention = reading.hf_config.get("attention_bias", False)
    forward = reading.member == "llama" and reading.hf_config.get("mlp_bias", False)
    if attention:
        return dict(bias=True if forward else "qkv out")
    return dict(bias="forward" if forward else False)


def write_bias(config: Config) -> HfConfig:
    """Return whether attention has biases."""
    return dict(attention_bias="qkv" in config.biased)


def read_windows(hf_config: HfConfig, has_window: list[bool]) -> dict[str, Value]:
    """Return the window in our count, and its layers: `has_window`, unless the config.json lists them."""
    window = hf_config.get("sliding_window", 4096)
    if hf_config.get("layer_types"):
        has_window = [layer == "sliding_attention" for layer in hf_config["layer_types"]]
    if window is None or not any(has_window):
        return {}
    layers = tuple("window" if windowed else "full" for windowed in has_window)
    return dict(window=window - 1, window_layers=layer_pattern(layers))


def write_windows(config: Config) -> list[str]:
    """Return transformers' type of each layer."""
    return ["full_attention" if window is None else "sliding_attention" for window in config.windows]


def read_qwen_windows(reading: ConfigReading) -> dict[str, Value]:
    """Return the window, if enabled, and its layers."""
    hf_config = reading.hf_config
    if not hf_config.get("use_sliding_window"):
        return {}
    first = hf_config.get("max_window_layers", 28)  # the first layer with a window
    return read_windows(hf_config, [i >= first for i in range(reading.settings["n_layer"])])


def write_qwen_windows(config: Config) -> HfConfig:
    """Return the windows as Qwen2 and Qwen3 have them."""
    window = None if config.window is None else config.window + 1
    return dict(
        use_sliding_window=window is not None,
        sliding_window=window,
        max_window_layers=0,
        layer_types=write_windows(config),
    )


def default_head_width(reading: ConfigReading) -> int:
    """Return the width of heads that divide the model's."""
    width: int = reading.settings["width"] // reading.settings["n_head"]
    return width


WINDOWS = {"window": "sliding_window", "window_layers": "layer_types"}  # for messages
# Settings that all descendants of LLaMA share.
SIZES: Table = (
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("intermediate_size", "hidden"),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head"),
    Setting("num_key_value_heads", "n_kv_head", None, falsy_is_missing=True),
    Setting("head_dim", "head_width", default_head_width, falsy_is_missing=True),
    Setting("max_position_embeddings", "context"),
    Setting("rms_norm_eps", "norm_eps", 1e-6),
    Setting("attention_dropout", "dropout", 0.0, falsy_is_missing=True),
    Setting("tie_word_embeddings", "tied", False),
)
# Hybrid models use one activation for the convolution and the feed-forward.
SILU = Setting("hidden_act", "feed_forward", "silu", activation_form({"swiglu": "silu"}))
ACTIVATION = Setting("hidden_act", "feed_forward", "silu", activation_form(ACTIVATIONS))
SETTINGS = (
    write_only("architectures", lambda config: [CLASSES[member(config)]]),
    *SIZES,
    ACTIVATION,
    RotaryEntry(),
    *for_members("qwen3", implied(qk_norm="rms")),
    *for_members("qwen2", implied(bias="qkv")),
    *for_members("mistral", implied(bias=False), Setting("sliding_window", "window", 4096, WINDOW)),
    *for_members("llama", "qwen3", Rule(read_bias, write_bias)),
    *for_members("llama", write_only("mlp_bias", lambda config: "forward" in config.biased)),
    *for_members("qwen2", "qwen3", Rule(read_qwen_windows, write_qwen_windows, WINDOWS)),
)


def rows(config: Config) -> list[TensorRow]:
    return decoder_rows(config, {"attention": ("self_attn", attention_rows)})


def decoder_rows(
    config: Config,
    mixers: Mapping[str, tuple[str, Rows]],
    *,
    feed_forward: str = "mlp",
    feed_forward_norm: str = "post_attention_layernorm",
    final_norm: str = "norm",
    expert_rows: Rows | None = None,
    dense_rows: Rows | None = None,
) -> list[TensorRow]:
    """Return the rows of a decoder. `mixers`: our name -> theirs and its rows.

    `expert_rows` are those of a mixture of experts, `dense_rows` those of a single feed-forward (default: gated).
    """
    dense = gated_rows if dense_rows is None else dense_rows
    table = [
        TensorRow("embedding.weight", "model.embed_tokens.weight"),
        TensorRow("decoder_norm.weight", f"model.{final_norm}.weight"),
    ]
    for i, word in enumerate(config.mixers):
        prefix, hf_prefix = f"decoder.{i}", f"model.layers.{i}"
        hf_part, mixer_rows = mixers[word]
        table += mixer_rows(config, f"{prefix}.attention", f"{hf_prefix}.{hf_part}")
        rows = dense if expert_rows is None or config.feed_forwards[i] == "dense" else expert_rows
        table += rows(config, f"{prefix}.feed_forward", f"{hf_prefix}.{feed_forward}")
        table += linear(f"{prefix}.attention_norm", f"{hf_prefix}.input_layernorm", bias=False)
        table += linear(f"{prefix}.feed_forward_norm", f"{hf_prefix}.{feed_forward_norm}", bias=False)
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


def attention_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    """Return the rows of attention. Queries and gates are interleaved by head, as in Qwen3-Next."""
    qkv, table = "qkv" in config.biased, []
    if config.attention_gate:
        width = config.head_width or config.width // config.n_head
        fused = linear((f"{prefix}.q", f"{prefix}.gate"), f"{hf_prefix}.q_proj", bias=qkv)
        table += [replace(row, groups=config.n_head, sizes=(width, width)) for row in fused]
    for part in "kv" if config.attention_gate else "qkv":
        table += linear(f"{prefix}.{part}", f"{hf_prefix}.{part}_proj", bias=qkv)
    table += linear(f"{prefix}.out", f"{hf_prefix}.o_proj", bias="out" in config.biased)
    for part in "" if config.qk_norm is None else "qk":
        table += linear(f"{prefix}.{part}_norm", f"{hf_prefix}.{part}_norm", bias=False)
    return table


def gated_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    parts = ("gate", "up", "down")
    return [
        row
        for part in parts
        for row in linear(f"{prefix}.{part}", f"{hf_prefix}.{part}_proj", bias="forward" in config.biased)
    ]


# Old files have the rotary angles, and may have the tied head again.
IGNORED = r"rotary_emb\.inv_freq$|^lm_head\.weight$"
HEAD = r"^lm_head\."
REPEATS = {"lm_head.weight": "model.embed_tokens.weight"}
# The layouts of models that share these names.
llama_family = partial(Family, ignored=IGNORED, prefix="model.", head=HEAD, repeats=REPEATS)
LLAMA = llama_family("LLaMA", tuple(CLASSES), SUPPORTED, obstacles, SETTINGS, rows, member=member)
