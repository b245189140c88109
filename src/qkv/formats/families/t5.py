"""T5: an encoder-decoder (or its encoder alone) that knows positions by distance alone, with RMS norms, no biases and no scale before softmax.

Version 1.0 has a ReLU and a head that is the embedding's matrix, on states made smaller by √width; version 1.1 (and mT5)
has a gate and a head of its own.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...model.config import Config
from .family import Family, Row, insist_on_sides, linear, need, unshared_heads, word_of

SINGLE = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu2": "relu2"}
GATED = {"geglu-tanh": "gelu_new", "swiglu": "silu", "geglu": "gelu"}
ACTIVATIONS = SINGLE | {"geglu-tanh": "gated-gelu", "swiglu": "gated-silu"}  # in one word
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("encoder-decoder", "encoder"),
    position=("relative",),
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False,),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    pooler=(False,),
    experts=(None,),
    parallel=(False,),
    softcap=(None,),
    output_softcap=(None,),
    embedding_width=(None,),
    source_vocab=(None,),
    depth_scale=(False,),
    attention_scale=(1.0,),
    attention_gate=(False,),
    head_bias=(False,),
)


def obstacles(config: Config) -> list[Message]:
    """Whether states are made smaller before the head hangs on whether that is the embedding's matrix."""
    both = config.kind == "encoder-decoder"
    wanted = config.width**-0.5 if config.tied and both else 1.0
    found = unshared_heads(config)
    if config.head != ("linear" if both else "none"):
        found.append(need(f"head={'linear' if both else 'none'!r}", repr(config.head)))
    if config.token_types:
        found.append(need("token_types=0", config.token_types))
    if config.output_scale != wanted:
        found.append(need(f"output_scale={wanted!r}", repr(config.output_scale)))
    return found


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    encoder, decoder = config.layers
    both = config.kind == "encoder-decoder"
    return dict(
        model_type="t5",
        architectures=["T5ForConditionalGeneration" if both else "T5EncoderModel"],
        is_encoder_decoder=both,
        vocab_size=config.vocab,
        d_model=config.width,
        d_kv=config.head_width or config.width // config.n_head,
        d_ff=config.hidden_width,
        num_layers=encoder,
        num_decoder_layers=decoder or encoder,
        num_heads=config.n_head,
        n_positions=config.context,
        relative_attention_num_buckets=config.relative_buckets,
        relative_attention_max_distance=config.relative_distance,
        feed_forward_proj=ACTIVATIONS[config.feed_forward],
        layer_norm_epsilon=config.norm_eps,
        dropout_rate=config.dropout,
        tie_word_embeddings=config.tied,  # transformers scales by this word,
        scale_decoder_outputs=config.tied,  # and since version 5 by this one
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way. What a config.json says of the head is not to be trusted: transformers 5 calls every one tied."""
    alone = not theirs.get("is_encoder_decoder", True) and not any(name.startswith("decoder.") for name in tensors)
    if not alone:
        insist_on_sides(theirs)
    width, n_head, layers = theirs["d_model"], theirs["num_heads"], theirs["num_layers"]
    decoder = theirs.get("num_decoder_layers") or layers
    scaled = bool(theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings") is not False))
    first = theirs["model_type"] == "t5"
    return Config(
        kind="encoder" if alone else "encoder-decoder",
        head="none" if alone else "linear",
        vocab=theirs["vocab_size"],
        width=width,
        n_layer=layers,
        n_decoder_layer=None if decoder == layers or alone else decoder,
        n_head=n_head,
        head_width=None if theirs["d_kv"] * n_head == width else theirs["d_kv"],
        attention_scale=1.0,
        hidden=theirs["d_ff"],
        context=theirs.get("n_positions") or 512,
        position="relative",
        relative_buckets=theirs.get("relative_attention_num_buckets", 32),
        relative_distance=theirs.get("relative_attention_max_distance", 128),
        norm_eps=theirs.get("layer_norm_epsilon", 1e-6),
        feed_forward=read_activation(theirs, "relu" if first else "gated-gelu"),
        tied="lm_head.weight" not in tensors or (scaled and first),  # "tied" is what transformers 5 calls every one
        output_scale=width**-0.5 if scaled and first and not alone else 1.0,
        dropout=theirs.get("dropout_rate", 0.1),
    )


def read_activation(theirs: dict[str, Any], usual: str) -> str:
    """Our word for the feed-forward: transformers obeys what it says in detail, if a file says that too."""
    word = theirs.get("feed_forward_proj", usual)
    gated, name = word.startswith("gated-"), word.split("-")[-1]
    if word == "gated-gelu":
        name = "gelu_new"
    gated, name = theirs.get("is_gated_act", gated), theirs.get("dense_act_fn", name)
    return word_of(name, GATED if gated else SINGLE)


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    table = [Row("embedding.weight", "shared.weight")]
    for side, layers in zip(("encoder", "decoder"), config.layers, strict=True):
        if not layers:  # an encoder alone
            continue
        table += [
            Row(
                f"{side}.0.attention.position.table",
                f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            ),
            Row(f"{side}_norm.weight", f"{side}.final_layer_norm.weight"),
        ]
        parts = [("attention", "SelfAttention"), ("cross", "EncDecAttention")][: 1 + (side == "decoder")]
        for i in range(layers):
            for number, (part, word) in enumerate(parts):
                ours, theirs = f"{side}.{i}.{part}", f"{side}.block.{i}.layer.{number}"
                for letter, name in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "out")):
                    table += linear(f"{ours}.{name}", f"{theirs}.{word}.{letter}", bias=False)
                table += linear(f"{ours}_norm", f"{theirs}.layer_norm", bias=False)
            ours, theirs = f"{side}.{i}.feed_forward", f"{side}.block.{i}.layer.{len(parts)}"
            words = dict(gate="wi_0", up="wi_1", down="wo") if config.gated else dict(up="wi", down="wo")
            for part, word in words.items():
                table += linear(f"{ours}.{part}", f"{theirs}.DenseReluDense.{word}", bias=False)
            table += linear(f"{ours}_norm", f"{theirs}.layer_norm", bias=False)
    return table + [Row("head.weight", "lm_head.weight")] * (not config.tied and config.head == "linear")


# The embedding may stand there once for each side and once more as the head; an old file has a bias that is never used.
REPEATS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
IGNORED = r"^(encoder|decoder)\.embed_tokens\.weight$|^lm_head\.weight$|EncDecAttention\.relative_attention_bias"
T5 = Family(
    "T5",
    ("t5", "mt5"),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=IGNORED,
    repeats=dict.fromkeys(REPEATS, "shared.weight"),
)
