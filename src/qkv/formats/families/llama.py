"""LLaMA and those that share its layout: Mistral (a window), Qwen2 (biases on q, k and v), Qwen3 (a norm on q and k)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...i18n import Message
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from .family import PLAIN, Family, TensorRow, linear, need
from .rotary_settings import RotaryEntry
from .setting_table import (
    WINDOW,
    ConfigReading,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    always,
    only,
    words,
    written,
)

Rows = Callable[[Config, str, str], list[TensorRow]]  # of one part of a block: our name of it, and theirs
ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "geglu-tanh": "gelu_new"}
CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
HOLDS: Holds = dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=tuple(ACTIVATIONS),
    qk_norm=(None, "rms"),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
    **PLAIN,
)


def member(config: Config) -> str:
    """Which of them the model is, as transformers names it."""
    if config.qk_norm is not None:
        return "qwen3"
    if config.bias == "qkv":
        return "qwen2"
    # transformers' LLaMA refuses a width that its heads don't divide, even with a head_width; Mistral takes it.
    return "mistral" if config.window is not None or config.width % config.n_head else "llama"


def obstacles(config: Config) -> list[Message]:
    """Biases stand on q, k and v alone (Qwen2), on all of attention, or in LLaMA on the feed-forward; Mistral has none."""
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
    """Return our word for biases on all of attention, and on the feed-forward, which LLaMA alone may have."""
    attention = reading.theirs.get("attention_bias", False)
    forward = reading.member == "llama" and reading.theirs.get("mlp_bias", False)
    if attention:
        return dict(bias=True if forward else "qkv out")
    return dict(bias="forward" if forward else False)


def write_bias(config: Config) -> HfConfig:
    """Return whether all of attention has biases."""
    return dict(attention_bias="qkv" in config.biased)


def read_windows(window: int | None, slides: list[bool]) -> dict[str, Value]:
    """Return a window in our count, and which layers have it."""
    if window is None or not any(slides):
        return {}
    words = tuple("window" if slide else "full" for slide in slides)
    return dict(window=window - 1, window_layers=layer_pattern(words))


def write_windows(config: Config) -> list[str]:
    """Return what transformers calls each layer."""
    return ["full_attention" if window is None else "sliding_attention" for window in config.windows]


def read_qwens_windows(reading: ConfigReading) -> dict[str, Value]:
    """Return the window, which a file must switch on, and the layers that have it."""
    theirs = reading.theirs
    if not theirs.get("use_sliding_window"):
        return {}
    first = theirs.get("max_window_layers", 28)  # those from here on have the window
    slides = [i >= first for i in range(reading.ours["n_layer"])]
    if theirs.get("layer_types"):
        slides = [layer == "sliding_attention" for layer in theirs["layer_types"]]
    return read_windows(theirs.get("sliding_window", 4096), slides)


def write_qwens_windows(config: Config) -> HfConfig:
    """Return them as Qwen2 and Qwen3 have them."""
    window = None if config.window is None else config.window + 1
    return dict(
        use_sliding_window=window is not None,
        sliding_window=window,
        max_window_layers=0,
        layer_types=write_windows(config),
    )


def divided(reading: ConfigReading) -> int:
    """Return the width of heads that divide the model's."""
    width: int = reading.ours["width"] // reading.ours["n_head"]
    return width


WINDOWS = {"window": "sliding_window", "window_layers": "layer_types"}  # as messages name them
# What all that grew out of LLaMA say in the same words.
SIZES: Table = (
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("intermediate_size", "hidden"),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head"),
    Setting("num_key_value_heads", "n_kv_head", None, empty=True),
    Setting("head_dim", "head_width", divided, empty=True),
    Setting("max_position_embeddings", "context"),
    Setting("rms_norm_eps", "norm_eps", 1e-6),
    Setting("attention_dropout", "dropout", 0.0, empty=True),
    Setting("tie_word_embeddings", "tied", False),
)
# Where mixers with a convolution stand beside attention, its activation is the feed-forward's too.
SILU_GATE = Setting("hidden_act", "feed_forward", "silu", words({"swiglu": "silu"}))
GATE = Setting("hidden_act", "feed_forward", "silu", words(ACTIVATIONS))
SETTINGS: Table = (
    written("architectures", lambda config: [CLASSES[member(config)]]),
    *SIZES,
    GATE,
    RotaryEntry(),
    *only("qwen3", always(qk_norm="rms")),
    *only("qwen2", always(bias="qkv")),
    *only("mistral", always(bias=False), Setting("sliding_window", "window", 4096, WINDOW)),
    *only("llama", "qwen3", Rule(read_bias, write_bias)),
    *only("llama", written("mlp_bias", lambda config: "forward" in config.biased)),
    *only("qwen2", "qwen3", Rule(read_qwens_windows, write_qwens_windows, WINDOWS)),
)


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    return stack(config, {"attention": ("self_attn", looks)})


def stack(
    config: Config,
    mixers: Mapping[str, tuple[str, Rows]],
    *,
    think: str = "mlp",
    think_norm: str = "post_attention_layernorm",
    last: str = "norm",
    experts: Rows | None = None,
    thinks: Rows | None = None,
) -> list[TensorRow]:
    """The rows of all layers; `mixers` are what may stand in one: our word -> theirs, and its own rows.

    `experts` are the rows of a layer that has many feed-forwards, `thinks` those of one that has one.
    """
    dense = gated if thinks is None else thinks
    table = [
        TensorRow("embedding.weight", "model.embed_tokens.weight"),
        TensorRow("decoder_norm.weight", f"model.{last}.weight"),
    ]
    for i, word in enumerate(config.mixers):
        ours, theirs = f"decoder.{i}", f"model.layers.{i}"
        name, mixer = mixers[word]
        table += mixer(config, f"{ours}.attention", f"{theirs}.{name}")
        rows = dense if experts is None or config.thinkers[i] == "dense" else experts
        table += rows(config, f"{ours}.feed_forward", f"{theirs}.{think}")
        table += linear(f"{ours}.attention_norm", f"{theirs}.input_layernorm", bias=False)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.{think_norm}", bias=False)
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


def looks(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one attention; queries and gates are woven head by head, as Qwen3-Next has them."""
    qkv, table = "qkv" in config.biased, []
    if config.attention_gate:
        width = config.head_width or config.width // config.n_head
        both = linear((f"{ours}.q", f"{ours}.gate"), f"{theirs}.q_proj", bias=qkv)
        table += [replace(row, groups=config.n_head, sizes=(width, width)) for row in both]
    for part in "kv" if config.attention_gate else "qkv":
        table += linear(f"{ours}.{part}", f"{theirs}.{part}_proj", bias=qkv)
    table += linear(f"{ours}.out", f"{theirs}.o_proj", bias="out" in config.biased)
    for part in "" if config.qk_norm is None else "qk":
        table += linear(f"{ours}.{part}_norm", f"{theirs}.{part}_norm", bias=False)
    return table


def gated(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one gated feed-forward."""
    parts = ("gate", "up", "down")
    return [
        row
        for part in parts
        for row in linear(f"{ours}.{part}", f"{theirs}.{part}_proj", bias="forward" in config.biased)
    ]


# Old files hold the rotary angles, and a tied head may be repeated.
IGNORED = r"rotary_emb\.inv_freq$|^lm_head\.weight$"
REPEATS = {"lm_head.weight": "model.embed_tokens.weight"}
HEAD = r"^lm_head\."
LLAMA = Family(
    "LLaMA",
    tuple(CLASSES),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    ignored=IGNORED,
    prefix="model.",
    head=HEAD,
    repeats=REPEATS,
    member=member,
)
