"""T5: an encoder-decoder (or its encoder) with relative positions, RMS norms, no biases and unscaled scores.

Version 1.0 has ReLU and a tied head on states scaled by 1/√width; version 1.1 (and mT5) has a gate and a separate head.
"""

from ...i18n import Message
from ...model.config import Config
from .family import Family, TensorRow, linear, need, shared_head_obstacles, supports
from .setting_table import (
    ENCODER_DECODER,
    ConfigReading,
    Form,
    HfConfig,
    Rule,
    Setting,
    Value,
    activation_name,
    when,
)

SINGLE = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu2": "relu2"}
GATED = {"geglu-tanh": "gelu_new", "swiglu": "silu", "geglu": "gelu"}
ACTIVATIONS = SINGLE | {"geglu-tanh": "gated-gelu", "swiglu": "gated-silu"}  # in a single setting
SUPPORTED = supports(
    *("head", "window_base", "rotary_fraction", "output_scale"),
    kind=("encoder-decoder", "encoder"),
    position=("relative",),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False,),
    attention_scale=(1.0,),
)


def obstacles(config: Config) -> list[Message]:
    """Return what T5's layout requires and this config lacks: unshared key heads, its head, no token types, its output scale.

    The output scale is width^-½ in an encoder-decoder with a tied embedding, else 1.
    """
    is_seq2seq = config.kind == "encoder-decoder"
    output_scale = config.width**-0.5 if config.embedding.tied and is_seq2seq else 1.0
    needed = shared_head_obstacles(config)
    if config.output.head != ("linear" if is_seq2seq else "none"):
        needed.append(need(f"head={'linear' if is_seq2seq else 'none'!r}", repr(config.output.head)))
    if config.embedding.token_types:
        needed.append(need("token_types=0", config.embedding.token_types))
    if config.output.scale != output_scale:
        needed.append(need(f"output_scale={output_scale!r}", repr(config.output.scale)))
    return needed


def is_encoder_only(reading: ConfigReading) -> bool:
    """True if there is no decoder."""
    is_seq2seq = reading.hf_config.get("is_encoder_decoder", True)
    return not is_seq2seq and not any(name.startswith("decoder.") for name in reading.tensors)


def read_sides(reading: ConfigReading) -> dict[str, Value]:
    """Return the kind of model and its head."""
    return (
        dict(kind="encoder", head="none") if is_encoder_only(reading) else dict(kind="encoder-decoder", head="linear")
    )


def write_sides(config: Config) -> HfConfig:
    """Return transformers' class."""
    is_seq2seq = config.kind == "encoder-decoder"
    return dict(
        architectures=["T5ForConditionalGeneration" if is_seq2seq else "T5EncoderModel"], is_encoder_decoder=is_seq2seq
    )


def read_activation(reading: ConfigReading) -> dict[str, Value]:
    """Return the feed-forward. Like transformers, prefer the detailed settings."""
    hf_config = reading.hf_config
    activation = hf_config.get("feed_forward_proj", "relu" if reading.member == "t5" else "gated-gelu")
    gated, name = activation.startswith("gated-"), activation.split("-")[-1]
    if activation == "gated-gelu":
        name = "gelu_new"
    gated, name = hf_config.get("is_gated_act", gated), hf_config.get("dense_act_fn", name)
    return dict(feed_forward=activation_name(name, GATED if gated else SINGLE))


def read_head(reading: ConfigReading) -> dict[str, Value]:
    """Return whether the head is tied and scaled. transformers 5 marks every T5 as tied, so the tensors decide."""
    hf_config, first = reading.hf_config, reading.member == "t5"
    scaled = bool(hf_config.get("scale_decoder_outputs", hf_config.get("tie_word_embeddings") is not False)) and first
    scale = reading.settings["width"] ** -0.5 if scaled and not is_encoder_only(reading) else 1.0
    return dict(tied="lm_head.weight" not in reading.tensors or scaled, output_scale=scale)


def write_head(config: Config) -> HfConfig:
    """Return transformers' two settings for the scale: the second since version 5."""
    return dict(tie_word_embeddings=config.embedding.tied, scale_decoder_outputs=config.embedding.tied)


DECODER_ONLY = Form(lambda value, reading: None if is_encoder_only(reading) else value, lambda value, config: value)
SETTINGS = (
    *when(lambda reading: not is_encoder_only(reading), ENCODER_DECODER),
    Rule(read_sides, write_sides),
    Setting("vocab_size", "vocab"),
    Setting("d_model", "width"),
    Setting("d_kv", "head_width"),
    Setting("d_ff", "hidden"),
    Setting("num_layers", "n_layer"),
    Setting("num_decoder_layers", "n_decoder_layer", None, DECODER_ONLY, falsy_is_missing=True),
    Setting("num_heads", "n_head"),
    Setting("n_positions", "context", 512, falsy_is_missing=True),
    Setting("relative_attention_num_buckets", "relative_buckets", 32),
    Setting("relative_attention_max_distance", "relative_distance", 128),
    Rule(read_activation, lambda config: dict(feed_forward_proj=ACTIVATIONS[config.feed_forward])),
    Setting("layer_norm_epsilon", "norm_eps", 1e-6),
    Setting("dropout_rate", "dropout", 0.1),
    Rule(read_head, write_head, dict(tied="tie_word_embeddings")),
)


def rows(config: Config) -> list[TensorRow]:
    table = [TensorRow("embedding.weight", "shared.weight")]
    for side, layers in zip(("encoder", "decoder"), config.layers, strict=True):
        if not layers:  # encoder only
            continue
        table += [
            TensorRow(
                f"{side}.0.attention.position.table",
                f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            ),
            TensorRow(f"{side}_norm.weight", f"{side}.final_layer_norm.weight"),
        ]
        parts = [("attention", "SelfAttention"), ("cross", "EncDecAttention")][: 1 + (side == "decoder")]
        for i in range(layers):
            for number, (part, hf_part) in enumerate(parts):
                prefix, hf_prefix = f"{side}.{i}.{part}", f"{side}.block.{i}.layer.{number}"
                for letter, own_part in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "out")):
                    table += linear(f"{prefix}.{own_part}", f"{hf_prefix}.{hf_part}.{letter}", bias=False)
                table += linear(f"{prefix}_norm", f"{hf_prefix}.layer_norm", bias=False)
            prefix, hf_prefix = f"{side}.{i}.feed_forward", f"{side}.block.{i}.layer.{len(parts)}"
            hf_parts = dict(gate="wi_0", up="wi_1", down="wo") if config.gated else dict(up="wi", down="wo")
            for part, hf_part in hf_parts.items():
                table += linear(f"{prefix}.{part}", f"{hf_prefix}.DenseReluDense.{hf_part}", bias=False)
            table += linear(f"{prefix}_norm", f"{hf_prefix}.layer_norm", bias=False)
    return table + [TensorRow("head.weight", "lm_head.weight")] * (
        not config.embedding.tied and config.output.head == "linear"
    )


# Copies of the embedding for each side and the head; old files have an unused bias.
REPEATS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
IGNORED = r"^(encoder|decoder)\.embed_tokens\.weight$|^lm_head\.weight$|EncDecAttention\.relative_attention_bias"
T5 = Family(
    "T5",
    ("t5", "mt5"),
    SUPPORTED,
    obstacles,
    SETTINGS,
    rows,
    ignored=IGNORED,
    repeats=dict.fromkeys(REPEATS, "shared.weight"),
)
