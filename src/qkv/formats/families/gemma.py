"""Gemma 1, 2 and 3 (text): a LLaMA whose norms keep what is added to 1, with scaled word vectors and a gate of GELU.

Gemma 2 has a norm before and after each part, a window in every other layer, and caps on scores and logits. Gemma 3 has no
cap on scores but a norm on q and k, a window in five of six layers, and there another rotary base.
"""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...model.config import Config
from . import llama
from .family import PLAIN, Family, Foreign, Row, insist, linear, need, word_of

CLASSES = {"gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}
ACTIVATIONS = {"geglu-tanh": "gelu_new", "geglu": "gelu", "swiglu": "silu"}
HOLDS: dict[str, tuple[Any, ...]] = PLAIN | dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("rms-centred",),
    norm_place=("both", "pre"),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False, "qkv out"),
    qk_norm=(None, "rms-centred"),
    mixer=("attention",),
    embedding_norm=(False,),
    head=("linear",),
)
for free in ("attention_scale", "softcap", "output_softcap", "window_base"):
    del HOLDS[free]
EVERY = {"gemma2": 2, "gemma3_text": 6}  # of so many layers the last has no window


def member(config: Config) -> str:
    """Which of them the model is, as transformers names it."""
    return "gemma3_text" if config.qk_norm else "gemma2" if config.norm_place == "both" else "gemma"


def obstacles(config: Config) -> list[Message]:
    """Scaled embeddings, a scale of scores that is one over the root of a whole number, and what each version has not."""
    kind, found = member(config), []
    if config.embedding_scale != math.sqrt(config.width):
        found.append(need("embedding_scale = √width", config.embedding_scale))
    if config.width % config.n_head:
        found.append(need(Message("heads that divide the width"), f"n_head={config.n_head}"))
    if config.attention_scale is not None and config.attention_scale != round(config.attention_scale**-2) ** -0.5:
        found.append(need("attention_scale = 1 / √n", config.attention_scale))
    absent = {
        "gemma": ("softcap", "output_softcap", "window", "attention_scale"),
        "gemma2": (),
        "gemma3_text": ("softcap",),
    }
    for name in absent[kind]:
        if getattr(config, name) is not None:
            found.append(need(f"{name}=None", getattr(config, name)))
    if kind == "gemma3_text" and config.norm_place != "both":
        found.append(need("norm_place='both'", repr(config.norm_place)))
    if kind == "gemma" and config.feed_forward == "geglu":
        found.append(need("feed_forward='geglu-tanh'", repr(config.feed_forward)))
    if kind != "gemma3_text" and config.window_base is not None:
        found.append(need("window_base=None", config.window_base))
    return found


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    kind = member(config)
    theirs = llama.write_sizes(config.replace(feed_forward="swiglu")) | llama.write_rotary(config)
    activation = ACTIVATIONS[config.feed_forward].replace("gelu_new", "gelu_pytorch_tanh")
    theirs |= dict(model_type=kind, architectures=[CLASSES[kind]], attention_bias=bool(config.bias))
    theirs |= dict(hidden_act=activation, hidden_activation=activation)
    if kind == "gemma":
        return theirs
    scale = config.attention_scale
    theirs |= dict(
        query_pre_attn_scalar=theirs["head_dim"] if scale is None else round(scale**-2),
        final_logit_softcapping=config.output_softcap,
        attn_logit_softcapping=config.softcap,
        sliding_window=config.context if config.window is None else config.window + 1,
        layer_types=llama.write_windows(config),
        use_bidirectional_attention=False,
    )
    if kind == "gemma3_text":
        near = config.rotary_base if config.window_base is None else config.window_base
        if config.window_base is None and config.window is not None and config.rotary_scaling is not None:
            raise Foreign("a {family} scales no angles of layers with a window: give window_base", family="Gemma 3")
        far = theirs["rope_parameters"]
        theirs["rope_parameters"] = dict(
            full_attention=far, sliding_attention={"rope_type": "default", "rope_theta": near}
        )
        theirs["rope_local_base_freq"] = near
    return theirs


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    kind, width, layers = theirs["model_type"], theirs["hidden_size"], theirs["num_hidden_layers"]
    insist(theirs, dict(partial_rotary_factor=1.0))
    if theirs.get("use_bidirectional_attention"):
        insist(theirs, dict(use_bidirectional_attention=False))
    usual: dict[str, Any] = dict(head_dim=256, tie_word_embeddings=True)
    more: dict[str, Any] = {}
    activation = theirs.get("hidden_act", "gelu_pytorch_tanh")
    activation = "gelu_pytorch_tanh" if activation == "gelu" else activation  # which the first Gemma's own files say
    if kind != "gemma":
        activation = theirs.get("hidden_activation", "gelu_pytorch_tanh")
        every = EVERY[kind]
        if kind == "gemma3_text":
            every = theirs.get("sliding_window_pattern") or theirs.get("_sliding_window_pattern") or every
            insist(theirs, dict(attn_logit_softcapping=None))
            near, usual["rope_parameters"] = read_bases(theirs)
            theirs = {name: value for name, value in theirs.items() if name not in ("rope_scaling", "rope_parameters")}
        slides = [bool((i + 1) % every) for i in range(layers)]
        if theirs.get("layer_types"):
            slides = [layer == "sliding_attention" for layer in theirs["layer_types"]]
        scalar, head = theirs.get("query_pre_attn_scalar", 256), theirs.get("head_dim", 256)
        caps = {"gemma2": (50.0, 30.0), "gemma3_text": (None, None)}[kind]
        more = dict(
            attention_scale=None if scalar == head else scalar**-0.5,
            softcap=theirs.get("attn_logit_softcapping", caps[0]),
            output_softcap=theirs.get("final_logit_softcapping", caps[1]),
            **llama.read_windows(theirs.get("sliding_window", 4096), slides),
        )
        if kind == "gemma3_text" and "window" in more:
            more["window_base"] = near
    return Config(
        norm="rms-centred",
        norm_place="pre" if kind == "gemma" else "both",
        feed_forward=word_of(activation, ACTIVATIONS),
        bias=llama.read_bias(theirs.get("attention_bias", False), False),
        qk_norm="rms-centred" if kind == "gemma3_text" else None,
        embedding_scale=math.sqrt(width),
        **llama.read_sizes(usual | theirs),
        **more,
    )


def read_bases(theirs: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """The base of the angles of layers with a window, and what is said of the others', as both versions write it."""
    told = theirs.get("rope_parameters") or {}
    far = dict(told.get("full_attention") or {}) | (theirs.get("rope_scaling") or {})
    far.setdefault("rope_theta", theirs.get("rope_theta", 1e6))
    near = dict(told.get("sliding_attention") or {})
    insist(near, dict(rope_type="default", partial_rotary_factor=1.0))
    return float(near.get("rope_theta", theirs.get("rope_local_base_freq", 1e4))), far


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    both = config.norm_place == "both"
    norm = "pre_feedforward_layernorm" if both else "post_attention_layernorm"
    table = llama.stack(config, {"attention": ("self_attn", llama.looks)}, think_norm=norm)
    for i in range(config.n_layer if both else 0):
        for part, word in (("attention", "post_attention"), ("feed_forward", "post_feedforward")):
            table += linear(f"decoder.{i}.{part}_after_norm", f"model.layers.{i}.{word}_layernorm", bias=False)
    return table


GEMMA = Family(
    "Gemma",
    tuple(CLASSES),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=llama.IGNORED,
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
)
