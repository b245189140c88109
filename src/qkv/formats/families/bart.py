"""BART: an encoder-decoder with learned positions, a norm after the embeddings of each side, and norms after each part.

mBART has its norms before each part and one more at the end. Marian, for translation, has sinusoidal positions (all
sines before all cosines) and no norm after the embeddings. All have a bias for the logits.
"""

import math
import warnings

import torch
from torch import Tensor

from ...attention.positions import Sinusoidal
from ...i18n import Message, Notice, all_of
from ...model.config import Config
from .family import Family, State, TensorRow, head_obstacles, linear, need, supports, zero_biases
from .setting_table import (
    ENCODER_DECODER,
    ConfigReading,
    Form,
    HfConfig,
    Rule,
    Setting,
    Table,
    Value,
    activation_form,
    agreed_value,
    implied,
    write_only,
)

ACTIVATIONS = {"gelu": "gelu", "silu": "silu", "relu": "relu", "gelu-tanh": "gelu_new", "relu2": "relu2"}
CLASSES = {
    "bart": "BartForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "marian": "MarianMTModel",
}
SUPPORTED = supports(
    *("norm_place", "embedding_scale", "embedding_norm", "source_vocab"),
    kind=("encoder-decoder",),
    position=("learned", "sinusoidal"),
    norm=("layer",),
    norm_eps=(1e-5,),
    feed_forward=tuple(ACTIVATIONS),
    head_bias=(True, False),
)
UNUSED = 2  # rows before the first position
POSITION_TABLES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def member(config: Config) -> str:
    """Return transformers' model_type."""
    return "marian" if config.position == "sinusoidal" else "bart" if config.norm_place == "post" else "mbart"


def obstacles(config: Config) -> list[Message]:
    """Requirements that involve several settings: what Marian has and BART lacks, and the embedding's scale."""
    needed, is_marian = head_obstacles(config), member(config) == "marian"
    if config.embedding.norm == is_marian:
        needed.append(need(f"embedding_norm={not is_marian}", config.embedding.norm))
    if is_marian and config.sinusoid != "halves":
        needed.append(need("sinusoid='halves'", repr(config.sinusoid)))
    if is_marian and config.norm_place != "post":
        needed.append(need("norm_place='post'", repr(config.norm_place)))
    if config.embedding.scale not in (1.0, math.sqrt(config.width)):
        needed.append(need("embedding_scale = 1 | √width", config.embedding.scale))
    if config.source_vocab is None and not config.embedding.tied:
        needed.append(need("tied=True, or source_vocab", config.embedding.tied))
    if (
        config.source_vocab is not None
        and not is_marian
        and (config.embedding.tied or config.source_vocab != config.vocab)
    ):
        needed.append(need("source_vocab=None", config.source_vocab))
    return needed


def equal_on_both_sides(suffix: str, name: str) -> Table:
    """Return the entries of a number that each side has and that must be equal."""
    first, second = f"encoder_{suffix}", f"decoder_{suffix}"

    def compare(reading: ConfigReading) -> None:
        agreed_value({key: reading.hf_config[key] for key in (first, second)}, first, second)

    return Setting(first, name, extra_names=(second,)), Rule(compare)


def read_vocabularies(reading: ConfigReading) -> dict[str, Value]:
    """Return the two vocabularies. Untied, transformers 5 has three separate matrices."""
    hf_config, vocab = reading.hf_config, reading.hf_config["vocab_size"]
    tied = hf_config.get("tie_word_embeddings", True)
    shared = reading.member != "marian" or hf_config.get("share_encoder_decoder_embeddings", True)
    target_vocab = vocab if shared else hf_config.get("decoder_vocab_size") or vocab
    return dict(vocab=target_vocab, source_vocab=None if tied and shared else vocab, tied=tied)


def write_vocabularies(config: Config) -> HfConfig:
    """Return the vocabularies, the decoder's under its own name for Marian."""
    hf_config = dict(vocab_size=config.read_vocab, tie_word_embeddings=config.embedding.tied)
    if member(config) != "marian":
        return hf_config
    shared = config.source_vocab is None
    return hf_config | dict(decoder_vocab_size=config.vocab, share_encoder_decoder_embeddings=shared)


def read_positions(reading: ConfigReading) -> dict[str, Value]:
    """Return the kind of positions: learned, except for Marian's sinusoids."""
    if reading.member != "marian":
        return dict(position="learned", sides="own")
    if all(_are_sines(reading.tensors[name]) for name in POSITION_TABLES if name in reading.tensors):
        return dict(position="sinusoidal", sides="shared", sinusoid="halves")
    warnings.warn(
        Notice(
            "{names} are not the sines that a Marian computes: the file's own are used", names=all_of(POSITION_TABLES)
        ),
        stacklevel=7,
    )
    return dict(position="learned", sides="own", sinusoid="halves")


SQRT_WIDTH = Form(
    lambda value, reading: math.sqrt(reading.settings["width"]) if value else 1.0, lambda value, config: value != 1.0
)
SETTINGS = (
    ENCODER_DECODER,
    write_only("architectures", lambda config: [CLASSES[member(config)]]),
    write_only("is_encoder_decoder", True),
    implied(
        bias=True,
        norm_place=lambda reading: "pre" if reading.member == "mbart" else "post",
        embedding_norm=lambda reading: reading.member != "marian",
        head_bias=lambda reading: "final_logits_bias" in reading.tensors,
    ),
    Rule(read_vocabularies, write_vocabularies, dict(vocab="vocab_size", tied="tie_word_embeddings")),
    Setting("d_model", "width"),
    Setting("encoder_layers", "n_layer", extra_names=("num_hidden_layers",)),
    Setting("decoder_layers", "n_decoder_layer"),
    *equal_on_both_sides("attention_heads", "n_head"),
    *equal_on_both_sides("ffn_dim", "hidden"),
    Setting("max_position_embeddings", "context"),
    Rule(read_positions),
    Setting("activation_function", "feed_forward", "gelu", activation_form(ACTIVATIONS)),
    Setting("scale_embedding", "embedding_scale", False, SQRT_WIDTH),
    Setting("dropout", "dropout", 0.1, extra_names=("attention_dropout",)),
    write_only("forced_eos_token_id", None),
)


def _are_sines(table: Tensor) -> bool:
    """True if this is Marian's table, up to the precision of its dtype."""
    sines = Sinusoidal(table.shape[1], halves=True)(torch.zeros(table.shape, dtype=torch.float64))
    dtypes = (torch.bfloat16, torch.float16, torch.float32)
    coarsest = next((dtype for dtype in dtypes if torch.equal(table.to(dtype).to(table.dtype), table)), torch.float32)
    return torch.allclose(table.double(), sines, rtol=0, atol=max(torch.finfo(coarsest).eps, 1e-4))


def rows(config: Config) -> list[TensorRow]:
    table = [TensorRow("embedding.weight", "model.shared.weight")] * (
        config.source_vocab is None or member(config) != "marian"
    )
    if config.source_vocab is not None:  # `shared` is unused
        table += [TensorRow("source_embedding.weight", "model.encoder.embed_tokens.weight")]
        table += [TensorRow("embedding.weight", "model.decoder.embed_tokens.weight")]
    for side, layers in zip(("encoder", "decoder"), config.layers, strict=True):
        side_prefix = "decoder_" if side == "decoder" else ""
        if config.position == "learned":
            hf_name = f"model.{side}.embed_positions.weight"
            table += [TensorRow(f"{side_prefix}position.table", hf_name, unused=UNUSED if config.embedding.norm else 0)]
        if config.embedding.norm:
            table += linear(f"{side_prefix}embedding_norm", f"model.{side}.layernorm_embedding", bias=True)
        if config.norm_place == "pre":
            table += linear(f"{side}_norm", f"model.{side}.layer_norm", bias=True)
        parts = [("attention", "self_attn"), ("cross", "encoder_attn")][: 1 + (side == "decoder")]
        for i in range(layers):
            prefix, hf_prefix = f"{side}.{i}", f"model.{side}.layers.{i}"
            for part, hf_part in parts:
                for name in ("q", "k", "v", "out"):
                    table += linear(f"{prefix}.{part}.{name}", f"{hf_prefix}.{hf_part}.{name}_proj", bias=True)
                table += linear(f"{prefix}.{part}_norm", f"{hf_prefix}.{hf_part}_layer_norm", bias=True)
            table += linear(f"{prefix}.feed_forward.up", f"{hf_prefix}.fc1", bias=True)
            table += linear(f"{prefix}.feed_forward.down", f"{hf_prefix}.fc2", bias=True)
            table += linear(f"{prefix}.feed_forward_norm", f"{hf_prefix}.final_layer_norm", bias=True)
    table += [TensorRow("head.bias", "final_logits_bias", unit_axis=0)] * config.output.bias
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


def fill(config: Config, state: State) -> State:
    """Add zero biases, and copies of shared positions and norms for the decoder: BART always has both."""
    decoder_copies = {}
    if config.embedding.sides == "shared":
        decoder_copies = {
            f"decoder_{name}": state[name] for name in state if name.startswith(("position.", "embedding_norm."))
        }
    return decoder_copies | zero_biases(config, state)


# Copies of the embedding for each side and the head, and Marian's sines.
REPEATS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
IGNORED = (
    r"^model\.shared\.weight$|^model\.(encoder|decoder)\.(embed_tokens|embed_positions)\.weight$|^lm_head\.weight$"
)
HEAD = r"^lm_head\.|^final_logits_bias$"
BART = Family(
    "BART",
    tuple(CLASSES),
    SUPPORTED,
    obstacles,
    SETTINGS,
    rows,
    fill,
    IGNORED,
    "model.",
    HEAD,
    dict.fromkeys(REPEATS, "model.shared.weight"),
    member=member,
)
