"""Bamba: a LLaMA in which most layers have a Mamba-2 mixer instead of attention, with rotary on half of each head."""

from ...i18n import Message
from ...model.config import Config
from ...model.config_checks import layer_pattern
from .family import TensorRow, need, supports
from .llama import SILU, SIZES, attention_rows, decoder_rows, llama_family
from .mamba2 import check_steps, expansion, mixer_rows, state_width_obstacles
from .rotary_settings import RotaryEntry
from .setting_table import (
    BOOL,
    ConfigReading,
    HfConfig,
    Rule,
    Setting,
    Unsupported,
    Value,
    required,
    when,
    with_defaults,
    write_only,
)

SUPPORTED = supports("mixer", "rotary_fraction", bias=(False, True))


def obstacles(config: Config) -> list[Message]:
    """Requires mixers of both kinds: without attention transformers' implementation fails."""
    mixers = set(config.mixers)
    obstacles = [] if mixers == {"mamba2", "attention"} else [need("mixer='mamba2×… attention'", repr(config.mixer))]
    return obstacles + state_width_obstacles(config)


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return the mixer of each layer. As in transformers, indices beyond the last layer have no effect."""
    count, attention_layers = reading.settings["n_layer"], reading.hf_config.get("attn_layer_indices")
    if not attention_layers:
        raise Unsupported("no layer of this {family} attends, and qkv reads those in which some do", family="Bamba")
    layers = tuple("attention" if i in attention_layers else "mamba2" for i in range(count))
    if layers and "attention" not in layers:
        raise Unsupported(
            "attn_layer_indices is {value} in this config.json, but its layers are numbered from 0 to {last}: no layer of "
            "this {family} attends, and qkv reads those in which some do",
            value=repr(attention_layers),
            last=count - 1,
            family="Bamba",
        )
    return dict(mixer=layer_pattern(layers))


def write_layers(config: Config) -> HfConfig:
    """Return the indices of the attention layers."""
    return dict(attn_layer_indices=[i for i, word in enumerate(config.mixers) if word == "attention"])


def read_head_width(reading: ConfigReading) -> dict[str, Value]:
    """Return the width of a mixer's heads, which may follow from the expansion."""
    hf_config, head_width = reading.hf_config, reading.hf_config.get("mamba_d_head", "auto")
    if head_width == "auto":
        head_width = hf_config["mamba_expand"] * hf_config["hidden_size"] // hf_config["mamba_n_heads"]
    return dict(state_head_width=head_width)


def write_head_width(config: Config) -> HfConfig:
    """Return the width of a mixer's heads and the expansion."""
    return dict(mamba_d_head=config.state_sizes("mamba2").values, mamba_expand=expansion(config))


def attention_bias(reading: ConfigReading) -> Value:
    """Return whether attention has biases: the other parts must agree."""
    return reading.hf_config.get("attention_bias", False)


SETTINGS = (
    write_only("architectures", ["BambaForCausalLM"]),
    required("mlp_bias", attention_bias),
    required("mamba_proj_bias", attention_bias),
    required("mamba_conv_bias", True, is_written=True),
    Rule(check_steps),
    *with_defaults(SIZES, rms_norm_eps=1e-5),
    SILU,
    Setting("attention_bias", "bias", False, BOOL, extra_names=("mlp_bias", "mamba_proj_bias")),
    Rule(read_layers, write_layers, dict(mixer="attn_layer_indices")),
    *when(
        lambda reading: "mamba2" in reading.settings["mixer"],
        Setting("mamba_d_state", "state_width"),
        Setting("mamba_n_heads", "n_state_head"),
        Rule(read_head_width, write_head_width, dict(state_head_width="mamba_d_head")),
        Setting("mamba_n_groups", "n_state_group"),
        Setting("mamba_d_conv", "taps"),
    ),
    RotaryEntry(share=0.5, share_name=""),  # transformers reads it only from the table
)


def rows(config: Config) -> list[TensorRow]:
    mixers = {"attention": ("self_attn", attention_rows), "mamba2": ("mamba", mixer_rows)}
    return decoder_rows(
        config, mixers, feed_forward="feed_forward", feed_forward_norm="pre_ff_layernorm", final_norm="final_layernorm"
    )


BAMBA = llama_family("Bamba", ("bamba",), SUPPORTED, obstacles, SETTINGS, rows)
