"""Qwen3-Next: layers of the gated delta rule with every fourth an attention, whose heads are gated, normed and turned in part.

Its norms keep what is added to 1. Its large models have a mixture of experts for a feed-forward, which is not read here.
"""

from ...i18n import Message, _, all_of
from ...mixers.delta import NAMES
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from .family import PLAIN, Family, TensorRow, need
from .gemma import head_dim
from .llama import HEAD, IGNORED, REPEATS, SILU_GATE, SIZES, looks, stack
from .rotary_settings import RotaryEntry
from .setting_table import (
    ConfigReading,
    Foreign,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    but,
    required,
    when,
    written,
)

WORDS = {"delta": "linear_attention", "attention": "full_attention"}  # ours -> theirs
HOLDS: Holds = dict(
    kind=("decoder",),
    norm=("rms-centred",),
    norm_place=("pre",),
    feed_forward=("swiglu",),  # whose activation is the convolution's too
    bias=(False,),
    window=(None,),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
    **PLAIN | dict(attention_gate=(True,)),
    position=("rotary",),
    qk_norm=("rms-centred",),
)
del HOLDS["rotary_fraction"]


def obstacles(config: Config) -> list[Message]:
    """Mixers of both kinds: without attention transformers' own can't run."""
    fits = set(config.mixers) == {"delta", "attention"}
    return [] if fits else [need("mixer='delta×… attention'", repr(config.mixer))]


def refuse_experts(reading: ConfigReading) -> None:
    """Refuse a mixture of experts, by the layers that have one; the rule is transformers' own."""
    theirs, layers = reading.theirs, reading.ours["n_layer"]
    count, every = theirs.get("num_experts", 512), theirs.get("decoder_sparse_step", 1)
    dense = theirs.get("mlp_only_layers") or ()
    mixed = [i for i in range(layers) if count and i not in dense and (i + 1) % every == 0]
    if mixed:
        sentence = _(
            "{some} of {all} layers of this Qwen3-Next have a mixture of {count} experts for a feed-forward: qkv reads "
            "those with one feed-forward per layer (num_experts=0)"
        )
        if "num_experts" not in theirs:
            sentence = _(
                "this config.json says nothing of num_experts, which is {count} by default in transformers: {some} of "
                "{all} layers of this Qwen3-Next have a mixture of experts for a feed-forward, and qkv reads those with "
                "one feed-forward per layer (num_experts=0)"
            )
        raise Foreign(sentence, some=len(mixed), all=layers, count=count)


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return what stands in each layer; where a file doesn't say, every fourth attends."""
    theirs, layers = reading.theirs, reading.ours["n_layer"]
    every = theirs.get("full_attention_interval") or 4
    usual = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    told = theirs.get("layer_types") or usual
    known = {word: ours for ours, word in WORDS.items()}
    if strange := next((word for word in told if word not in known), None):
        raise Foreign(
            "layer_types names {word!r} in this config.json, which qkv doesn't know: it reads {known}",
            word=strange,
            known=all_of(known),
        )
    if len(told) != layers:
        raise Foreign(
            "layer_types has length {count} in this config.json, but num_hidden_layers is {layers}: give one word for "
            "each layer",
            count=len(told),
            layers=layers,
        )
    if "full_attention" not in told:
        raise Foreign("no layer of this {family} attends, and qkv reads those in which some do", family="Qwen3-Next")
    return dict(mixer=layer_pattern(tuple(known[word] for word in told)))


def write_layers(config: Config) -> HfConfig:
    """Return transformers' word for each."""
    return dict(layer_types=[WORDS[word] for word in config.mixers])


SETTINGS: Table = (
    written("architectures", ["Qwen3NextForCausalLM"]),
    required("attention_bias", False, written=True),
    required("attn_output_gate", True),
    *but(SIZES, head_dim=head_dim),
    SILU_GATE,
    Rule(refuse_experts, lambda config: dict(num_experts=0, num_experts_per_tok=0, mlp_only_layers=[])),
    Rule(read_layers, write_layers, dict(mixer="layer_types")),
    *when(
        lambda reading: "delta" in reading.ours["mixer"],
        Setting("linear_key_head_dim", "state_width"),
        Setting("linear_num_value_heads", "n_state_head"),
        Setting("linear_value_head_dim", "state_head_width"),
        Setting("linear_num_key_heads", "n_state_group"),
        Setting("linear_conv_kernel_dim", "taps"),
    ),
    RotaryEntry(share=0.25),
)


def overwrites(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one layer of the delta rule: q, k, v and gate are woven key head by key head, and so are the rates."""
    heads, values, groups, keys = config.state_sizes("delta")
    each, qkv, rates = heads // groups, f"{ours}.qkv.weight", f"{ours}.rates.weight"
    inputs = (qkv, qkv, qkv, f"{ours}.gate.weight")
    lifted = {"convolution.weight": 1}
    return [
        TensorRow(
            inputs, f"{theirs}.in_proj_qkvz.weight", groups=groups, sizes=(keys, keys, each * values, each * values)
        ),
        TensorRow((rates, rates), f"{theirs}.in_proj_ba.weight", groups=groups, sizes=(each, each)),
        *(TensorRow(f"{ours}.{name}", f"{theirs}.{word}", lifted=lifted.get(name)) for name, word in NAMES.items()),
    ]


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    return stack(config, {"attention": ("self_attn", looks), "delta": ("linear_attn", overwrites)})


QWEN3_NEXT = Family(
    "Qwen3-Next",
    ("qwen3_next",),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    ignored=IGNORED + r"|^mtp\.",  # a further head that guesses several tokens at once
    prefix="model.",
    head=HEAD + r"|^mtp\.",
    repeats=REPEATS,
)
