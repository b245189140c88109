"""BART: an encoder-decoder with learned positions and a norm over its embeddings on each side, norms after each part.

mBART is a BART with its norms before each part and one more at the end; Marian, which translates, is a BART with sines for
positions, all before their cosines, and no norm over its embeddings. All add a number per word to the logits.
"""

import math
import warnings

import torch
from torch import Tensor

from ...attention.positions import Sinusoidal
from ...i18n import Message, Notice, all_of
from ...model.config import Config
from .family import PLAIN, Family, State, TensorRow, linear, need, plain_heads, zero_biases
from .setting_table import (
    SIDES,
    ConfigReading,
    Foreign,
    Form,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    always,
    words,
    written,
)

ACTIVATIONS = {"gelu": "gelu", "silu": "silu", "relu": "relu", "gelu-tanh": "gelu_new", "relu2": "relu2"}
CLASSES = {
    "bart": "BartForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "marian": "MarianMTModel",
}
HOLDS: Holds = dict(
    kind=("encoder-decoder",),
    position=("learned", "sinusoidal"),
    norm=("layer",),
    norm_eps=(1e-5,),
    feed_forward=tuple(ACTIVATIONS),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    head=("linear",),
) | (PLAIN | dict(head_bias=(True, False)))
del HOLDS["source_vocab"]
UNUSED = 2  # lines before the first position
PLACES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def member(config: Config) -> str:
    """Which of them the model is, as transformers names it."""
    return "marian" if config.position == "sinusoidal" else "bart" if config.norm_place == "post" else "mbart"


def obstacles(config: Config) -> list[Message]:
    """What Marian has otherwise than BART, and the embedding's scale."""
    found, marian = plain_heads(config), member(config) == "marian"
    if config.embedding.norm == marian:
        found.append(need(f"embedding_norm={not marian}", config.embedding.norm))
    if marian and config.sinusoid != "halves":
        found.append(need("sinusoid='halves'", repr(config.sinusoid)))
    if marian and config.norm_place != "post":
        found.append(need("norm_place='post'", repr(config.norm_place)))
    if config.embedding.scale not in (1.0, math.sqrt(config.width)):
        found.append(need("embedding_scale = 1 | √width", config.embedding.scale))
    if config.source_vocab is None and not config.embedding.tied:
        found.append(need("tied=True, or source_vocab", config.embedding.tied))
    if (
        config.source_vocab is not None
        and not marian
        and (config.embedding.tied or config.source_vocab != config.vocab)
    ):
        found.append(need("source_vocab=None", config.source_vocab))
    return found


def both_sides(what: str, ours: str) -> Table:
    """Return the entries of a number that each side has, and which must be one."""
    first, second = f"encoder_{what}", f"decoder_{what}"

    def compare(reading: ConfigReading) -> None:
        a, b = reading.theirs[first], reading.theirs[second]
        if a != b:
            raise Foreign(
                "{first} and {second} differ in this config.json ({a} and {b}): qkv reads models in which they are "
                "one number",
                first=first,
                second=second,
                a=a,
                b=b,
            )

    return Setting(first, ours, also=(second,)), Rule(compare)


def read_words(reading: ConfigReading) -> dict[str, Value]:
    """Return the two vocabularies; untied, transformers 5 keeps all three matrices apart."""
    theirs, vocab = reading.theirs, reading.theirs["vocab_size"]
    tied = theirs.get("tie_word_embeddings", True)
    shared = reading.member != "marian" or theirs.get("share_encoder_decoder_embeddings", True)
    both = vocab if shared else theirs.get("decoder_vocab_size") or vocab
    return dict(vocab=both, source_vocab=None if tied and shared else vocab, tied=tied)


def write_words(config: Config) -> HfConfig:
    """Return them, the decoder's where the member has a word for it."""
    theirs = dict(vocab_size=config.read_vocab, tie_word_embeddings=config.embedding.tied)
    if member(config) != "marian":
        return theirs
    shared = config.source_vocab is None
    return theirs | dict(decoder_vocab_size=config.vocab, share_encoder_decoder_embeddings=shared)


def read_positions(reading: ConfigReading) -> dict[str, Value]:
    """Return the positions: learned, but for a Marian's sines, which its file may hold too."""
    if reading.member != "marian":
        return dict(position="learned", sides="own")
    if all(_are_sines(reading.tensors[name]) for name in PLACES if name in reading.tensors):
        return dict(position="sinusoidal", sides="shared", sinusoid="halves")
    warnings.warn(
        Notice("{names} are not the sines that a Marian computes: the file's own are used", names=all_of(PLACES)),
        stacklevel=7,
    )
    return dict(position="learned", sides="own", sinusoid="halves")


SCALED = Form(
    lambda value, reading: math.sqrt(reading.ours["width"]) if value else 1.0, lambda value, config: value != 1.0
)
SETTINGS: Table = (
    SIDES,
    written("architectures", lambda config: [CLASSES[member(config)]]),
    written("is_encoder_decoder", True),
    always(
        bias=True,
        norm_place=lambda reading: "pre" if reading.member == "mbart" else "post",
        embedding_norm=lambda reading: reading.member != "marian",
        head_bias=lambda reading: "final_logits_bias" in reading.tensors,
    ),
    Rule(read_words, write_words, dict(vocab="vocab_size", tied="tie_word_embeddings")),
    Setting("d_model", "width"),
    Setting("encoder_layers", "n_layer", also=("num_hidden_layers",)),
    Setting("decoder_layers", "n_decoder_layer"),
    *both_sides("attention_heads", "n_head"),
    *both_sides("ffn_dim", "hidden"),
    Setting("max_position_embeddings", "context"),
    Rule(read_positions),
    Setting("activation_function", "feed_forward", "gelu", words(ACTIVATIONS)),
    Setting("scale_embedding", "embedding_scale", False, SCALED),
    Setting("dropout", "dropout", 0.1, also=("attention_dropout",)),
    written("forced_eos_token_id", None),
)


def _are_sines(table: Tensor) -> bool:
    """Is this what Marian computes, as exactly as the numbers were kept?"""
    made = Sinusoidal(table.shape[1], halves=True)(torch.zeros(table.shape, dtype=torch.float64))
    kept = (torch.bfloat16, torch.float16, torch.float32)
    coarsest = next((dtype for dtype in kept if torch.equal(table.to(dtype).to(table.dtype), table)), torch.float32)
    return torch.allclose(table.double(), made, rtol=0, atol=max(torch.finfo(coarsest).eps, 1e-4))


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    table = [TensorRow("embedding.weight", "model.shared.weight")] * (
        config.source_vocab is None or member(config) != "marian"
    )
    if config.source_vocab is not None:  # of `shared` nothing is used
        table += [TensorRow("source_embedding.weight", "model.encoder.embed_tokens.weight")]
        table += [TensorRow("embedding.weight", "model.decoder.embed_tokens.weight")]
    for side, layers in zip(("encoder", "decoder"), config.layers, strict=True):
        before = "decoder_" if side == "decoder" else ""
        if config.position == "learned":
            theirs = f"model.{side}.embed_positions.weight"
            table += [TensorRow(f"{before}position.table", theirs, unused=UNUSED if config.embedding.norm else 0)]
        if config.embedding.norm:
            table += linear(f"{before}embedding_norm", f"model.{side}.layernorm_embedding", bias=True)
        if config.norm_place == "pre":
            table += linear(f"{side}_norm", f"model.{side}.layer_norm", bias=True)
        parts = [("attention", "self_attn"), ("cross", "encoder_attn")][: 1 + (side == "decoder")]
        for i in range(layers):
            ours, theirs = f"{side}.{i}", f"model.{side}.layers.{i}"
            for part, word in parts:
                for name in ("q", "k", "v", "out"):
                    table += linear(f"{ours}.{part}.{name}", f"{theirs}.{word}.{name}_proj", bias=True)
                table += linear(f"{ours}.{part}_norm", f"{theirs}.{word}_layer_norm", bias=True)
            table += linear(f"{ours}.feed_forward.up", f"{theirs}.fc1", bias=True)
            table += linear(f"{ours}.feed_forward.down", f"{theirs}.fc2", bias=True)
            table += linear(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm", bias=True)
    table += [TensorRow("head.bias", "final_logits_bias", lifted=0)] * config.output.bias
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


def fill(config: Config, state: State) -> State:
    """BART always has biases, and positions and norms for each side, though both may be the same."""
    twice = {}
    if config.embedding.sides == "shared":
        twice = {f"decoder_{name}": state[name] for name in state if name.startswith(("position.", "embedding_norm."))}
    return twice | zero_biases(state)


# The embedding may stand there once for each side and once more as the head; so may Marian's sines.
REPEATS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
IGNORED = (
    r"^model\.shared\.weight$|^model\.(encoder|decoder)\.(embed_tokens|embed_positions)\.weight$|^lm_head\.weight$"
)
HEAD = r"^lm_head\.|^final_logits_bias$"
BART = Family(
    "BART",
    tuple(CLASSES),
    HOLDS,
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
