"""LLaMA and those that share its layout: Mistral (a window), Qwen2 (biases on q, k and v), Qwen3 (a norm on q and k)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from ...i18n import Message, all_of
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from .family import PLAIN, Family, Foreign, Row, Unread, insist, linear, need, word_of

Rows = Callable[[Config, str, str], list[Row]]  # of one part of a block: our name of it, and theirs
ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "geglu-tanh": "gelu_new"}
CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
HOLDS: dict[str, tuple[Any, ...]] = dict(
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
# Rotary scaling: our word for the kind -> our name of each number -> theirs.
SCALING = {
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
        "original": "original_max_position_embeddings",
    },
    "dynamic": {"factor": "factor"},  # its original length is the model's own
    "longrope": {
        "short": "short_factor",
        "long": "long_factor",
        "original": "original_max_position_embeddings",
        "stretch": "attention_factor",
    },
    "yarn": {
        "factor": "factor",
        "original": "original_max_position_embeddings",
        "fast": "beta_fast",
        "slow": "beta_slow",
        "stretch": "attention_factor",
    },
}

NEUTRAL = {"partial_rotary_factor": 1.0, "truncate": True}  # what is said of the angles and must be so


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


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    kind = member(config)
    theirs = dict(model_type=kind, architectures=[CLASSES[kind]]) | write_sizes(config) | write_rotary(config)
    if kind == "llama":
        return theirs | dict(attention_bias="qkv" in config.biased, mlp_bias="forward" in config.biased)
    # Ours counts the tokens before; theirs counts the token itself too.
    window = None if config.window is None else config.window + 1
    if kind == "mistral":
        return theirs | dict(sliding_window=window)
    return theirs | dict(
        use_sliding_window=window is not None,
        sliding_window=window,
        max_window_layers=0,
        layer_types=write_windows(config),
        **(dict(attention_bias="qkv" in config.biased) if kind == "qwen3" else {}),
    )


def write_sizes(config: Config) -> dict[str, Any]:
    """What all that grew out of LLaMA say in the same words."""
    return dict(
        vocab_size=config.vocab,
        hidden_size=config.width,
        intermediate_size=config.hidden_width,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        num_key_value_heads=config.n_kv_head or config.n_head,
        head_dim=config.head_width or config.width // config.n_head,
        max_position_embeddings=config.context,
        hidden_act=ACTIVATIONS[config.feed_forward],
        rms_norm_eps=config.norm_eps,
        attention_dropout=config.dropout,
        tie_word_embeddings=config.tied,
    )


def write_rotary(config: Config, said: bool = False) -> dict[str, Any]:
    """The angles, under transformers 5's name (rope_parameters) and under 4's (rope_theta and rope_scaling).

    `said`: with the share of a head that is turned, for a layout that turns a part if nothing is said.
    """
    base, scaling = config.rotary_base, config.rotary_scaling
    if scaling is not None and scaling["kind"] == "ntk":  # by definition another base, and published as one
        width = int((config.head_width or config.width // config.n_head) * config.rotary_fraction)
        base, scaling = base * scaling["factor"] ** (width / (width - 2)), None
    if scaling is None:
        theirs = None
    else:
        names = SCALING[scaling["kind"]]
        theirs = {"rope_type": scaling["kind"]} | {names[name]: scaling[name] for name in names if name in scaling}
    told: dict[str, Any] = dict(
        rope_theta=base,
        rope_scaling=theirs,
        rope_parameters={"rope_theta": base, **(theirs or {"rope_type": "default"})},
    )
    if said:
        share = {"partial_rotary_factor": config.rotary_fraction}
        told = told | share | {"rope_parameters": told["rope_parameters"] | share}
        told["rope_scaling"] = None if theirs is None else theirs | share  # of two tables transformers takes this one
    return told


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    kind = theirs["model_type"]
    insist(theirs, dict(partial_rotary_factor=1.0))
    bias: bool | str = "qkv" if kind == "qwen2" else False
    if kind in ("llama", "qwen3"):
        bias = read_bias(theirs.get("attention_bias", False), kind == "llama" and theirs.get("mlp_bias", False))
    return Config(
        feed_forward=word_of(theirs.get("hidden_act", "silu"), ACTIVATIONS),
        bias=bias,
        qk_norm="rms" if kind == "qwen3" else None,
        **read_window(theirs),
        **read_sizes(theirs),
    )


def read_bias(attention: Any, forward: Any) -> bool | str:
    """Our word for biases on all of attention, and on the feed-forward."""
    if attention:
        return True if forward else "qkv out"
    return "forward" if forward else False


def read_sizes(theirs: dict[str, Any], fraction: float = 1.0) -> dict[str, Any]:
    """What all that grew out of LLaMA say in the same words; `fraction` is the share of a head that is turned."""
    width, n_head = theirs["hidden_size"], theirs["num_attention_heads"]
    head_width, n_kv_head = theirs.get("head_dim") or width // n_head, theirs.get("num_key_value_heads") or n_head
    base, scaling = read_rotary(theirs, fraction)
    return dict(
        kind="decoder",
        vocab=theirs["vocab_size"],
        width=width,
        n_layer=theirs["num_hidden_layers"],
        n_head=n_head,
        n_kv_head=None if n_kv_head == n_head else n_kv_head,
        head_width=None if head_width * n_head == width else head_width,
        hidden=theirs["intermediate_size"],
        context=theirs["max_position_embeddings"],
        norm_eps=theirs.get("rms_norm_eps", 1e-6),
        rotary_base=base,
        rotary_scaling=scaling,
        rotary_fraction=fraction,
        tied=theirs.get("tie_word_embeddings", False),
        dropout=theirs.get("attention_dropout") or 0.0,
    )


def read_window(theirs: dict[str, Any]) -> dict[str, Any]:
    """The window in our count, and the layers that have it."""
    kind, n_layer = theirs["model_type"], theirs["num_hidden_layers"]
    if kind == "llama" or (kind != "mistral" and not theirs.get("use_sliding_window")):
        return {}
    window = theirs.get("sliding_window", 4096)
    if kind == "mistral":
        return read_windows(window, [True] * n_layer)
    first = theirs.get("max_window_layers", 28)  # those from here on have the window
    slides = [i >= first for i in range(n_layer)]
    if theirs.get("layer_types"):
        slides = [layer == "sliding_attention" for layer in theirs["layer_types"]]
    return read_windows(window, slides)


def read_windows(window: int | None, slides: list[bool]) -> dict[str, Any]:
    """A window in our count, and which layers have it."""
    if window is None or not any(slides):
        return {}
    words = tuple("window" if slide else "full" for slide in slides)
    return dict(window=window - 1, window_layers=layer_pattern(words))


def write_windows(config: Config) -> list[str]:
    """What transformers calls each layer."""
    return ["full_attention" if window is None else "sliding_attention" for window in config.windows]


def rotary_table(theirs: dict[str, Any]) -> dict[str, Any]:
    """What is said of the angles: of two tables transformers takes rope_scaling, and nothing of the other."""
    told = theirs.get("rope_scaling") or theirs.get("rope_parameters") or {}
    return {name: value for name, value in told.items() if value is not None}


def read_rotary(theirs: dict[str, Any], fraction: float = 1.0) -> tuple[float, dict[str, Any] | None]:
    """The base of the angles, and how they are scaled; numbers that are not in the table are looked for beside it.

    `fraction` is the share of a head that is turned, for a layout which turns a part.
    """
    told = rotary_table(theirs)
    base = float(told.pop("rope_theta", theirs.get("rope_theta", 10000.0)))
    old_name = told.pop("type", "default")
    kind = told.pop("rope_type", old_name)
    insist(told, NEUTRAL | {"partial_rotary_factor": fraction})
    told = {name: value for name, value in told.items() if name not in NEUTRAL}
    if kind == "default":
        return base, None
    if kind not in SCALING:
        problem = Unread(
            "rotary scaling {kind!r} has no word in qkv: it knows {known}", kind=kind, known=all_of(SCALING)
        )
        problem.cure = lambda told: told | {"rope_scaling": None, "rope_parameters": None}
        raise problem
    if "original" in SCALING[kind]:
        name, longest = "original_max_position_embeddings", theirs["max_position_embeddings"]
        told[name] = theirs.get(name) or told.get(name) or longest
    factor = told.pop("factor", None) if kind == "longrope" else None
    ours = {name: told.pop(word) for name, word in SCALING[kind].items() if word in told}
    if kind == "dynamic":
        ours["original"] = theirs["max_position_embeddings"]
    if kind == "longrope":
        ours.setdefault(
            "stretch", long_stretch(factor or theirs["max_position_embeddings"] / ours["original"], ours["original"])
        )
    if told:
        raise Foreign(
            "rotary scaling {kind!r} with {names} is more than qkv knows", kind=kind, names=all_of(sorted(told))
        )
    return base, {"kind": kind, **ours}


def long_stretch(factor: float, original: int) -> float:
    """What LongRoPE multiplies cos and sin with, where a file doesn't say."""
    return 1.0 if factor <= 1.0 else math.sqrt(1 + math.log(factor) / math.log(original))


def rows(config: Config) -> list[Row]:
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
) -> list[Row]:
    """The rows of all layers; `mixers` are what may stand in one: our word -> theirs, and its own rows.

    `experts` are the rows of a layer that has many feed-forwards, `thinks` those of one that has one.
    """
    dense = gated if thinks is None else thinks
    table = [Row("embedding.weight", "model.embed_tokens.weight"), Row("decoder_norm.weight", f"model.{last}.weight")]
    for i, word in enumerate(config.mixers):
        ours, theirs = f"decoder.{i}", f"model.layers.{i}"
        name, mixer = mixers[word]
        table += mixer(config, f"{ours}.attention", f"{theirs}.{name}")
        rows = dense if experts is None or config.thinkers[i] == "dense" else experts
        table += rows(config, f"{ours}.feed_forward", f"{theirs}.{think}")
        table += linear(f"{ours}.attention_norm", f"{theirs}.input_layernorm", bias=False)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.{think_norm}", bias=False)
    return table + [Row("head.weight", "lm_head.weight")] * (not config.tied)


def looks(config: Config, ours: str, theirs: str) -> list[Row]:
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


def gated(config: Config, ours: str, theirs: str) -> list[Row]:
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
    write,
    read,
    rows,
    ignored=IGNORED,
    prefix="model.",
    head=HEAD,
    repeats=REPEATS,
)
