"""T5: an encoder-decoder (or its encoder alone) that knows positions by distance alone, with RMS norms, no biases and no scale before softmax.

Version 1.0 has a ReLU and a head that is the embedding's matrix, on states made smaller by √width; version 1.1 (and mT5)
has a gate and a head of its own.
"""

from ...i18n import Message
from ...model.config import Config
from .family import Family, TensorRow, linear, need, unshared_heads
from .setting_table import SIDES, ConfigReading, Form, HfConfig, Holds, Rule, Setting, Table, Value, when, word_of

SINGLE = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu2": "relu2"}
GATED = {"geglu-tanh": "gelu_new", "swiglu": "silu", "geglu": "gelu"}
ACTIVATIONS = SINGLE | {"geglu-tanh": "gated-gelu", "swiglu": "gated-silu"}  # in one word
HOLDS: Holds = dict(
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
    wanted = config.width**-0.5 if config.embedding.tied and both else 1.0
    found = unshared_heads(config)
    if config.output.head != ("linear" if both else "none"):
        found.append(need(f"head={'linear' if both else 'none'!r}", repr(config.output.head)))
    if config.embedding.token_types:
        found.append(need("token_types=0", config.embedding.token_types))
    if config.output.scale != wanted:
        found.append(need(f"output_scale={wanted!r}", repr(config.output.scale)))
    return found


def alone(reading: ConfigReading) -> bool:
    """Is it an encoder alone? Then no tensor is of a decoder."""
    both = reading.theirs.get("is_encoder_decoder", True)
    return not both and not any(name.startswith("decoder.") for name in reading.tensors)


def read_sides(reading: ConfigReading) -> dict[str, Value]:
    """Return what it is, and its head."""
    return dict(kind="encoder", head="none") if alone(reading) else dict(kind="encoder-decoder", head="linear")


def write_sides(config: Config) -> HfConfig:
    """Return transformers' class for it."""
    both = config.kind == "encoder-decoder"
    return dict(architectures=["T5ForConditionalGeneration" if both else "T5EncoderModel"], is_encoder_decoder=both)


def read_activation(reading: ConfigReading) -> dict[str, Value]:
    """Return the feed-forward: transformers obeys what a file says in detail, if it says that too."""
    theirs = reading.theirs
    word = theirs.get("feed_forward_proj", "relu" if reading.member == "t5" else "gated-gelu")
    gated, name = word.startswith("gated-"), word.split("-")[-1]
    if word == "gated-gelu":
        name = "gelu_new"
    gated, name = theirs.get("is_gated_act", gated), theirs.get("dense_act_fn", name)
    return dict(feed_forward=word_of(name, GATED if gated else SINGLE))


def read_head(reading: ConfigReading) -> dict[str, Value]:
    """Return whether the head is tied and scaled, which is not to be trusted: transformers 5 calls every one tied."""
    theirs, first = reading.theirs, reading.member == "t5"
    scaled = bool(theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings") is not False)) and first
    scale = reading.ours["width"] ** -0.5 if scaled and not alone(reading) else 1.0
    return dict(tied="lm_head.weight" not in reading.tensors or scaled, output_scale=scale)


def write_head(config: Config) -> HfConfig:
    """Return both words by which transformers scales: the second since version 5."""
    return dict(tie_word_embeddings=config.embedding.tied, scale_decoder_outputs=config.embedding.tied)


OF_A_DECODER = Form(lambda value, reading: None if alone(reading) else value, lambda value, config: value)
SETTINGS: Table = (
    *when(lambda reading: not alone(reading), SIDES),
    Rule(read_sides, write_sides),
    Setting("vocab_size", "vocab"),
    Setting("d_model", "width"),
    Setting("d_kv", "head_width"),
    Setting("d_ff", "hidden"),
    Setting("num_layers", "n_layer"),
    Setting("num_decoder_layers", "n_decoder_layer", None, OF_A_DECODER, empty=True),
    Setting("num_heads", "n_head"),
    Setting("n_positions", "context", 512, empty=True),
    Setting("relative_attention_num_buckets", "relative_buckets", 32),
    Setting("relative_attention_max_distance", "relative_distance", 128),
    Rule(read_activation, lambda config: dict(feed_forward_proj=ACTIVATIONS[config.feed_forward])),
    Setting("layer_norm_epsilon", "norm_eps", 1e-6),
    Setting("dropout_rate", "dropout", 0.1),
    Rule(read_head, write_head, dict(tied="tie_word_embeddings")),
)


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    table = [TensorRow("embedding.weight", "shared.weight")]
    for side, layers in zip(("encoder", "decoder"), config.layers, strict=True):
        if not layers:  # an encoder alone
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
    return table + [TensorRow("head.weight", "lm_head.weight")] * (
        not config.embedding.tied and config.output.head == "linear"
    )


# The embedding may stand there once for each side and once more as the head; an old file has a bias that is never used.
REPEATS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
IGNORED = r"^(encoder|decoder)\.embed_tokens\.weight$|^lm_head\.weight$|EncDecAttention\.relative_attention_bias"
T5 = Family(
    "T5",
    ("t5", "mt5"),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    ignored=IGNORED,
    repeats=dict.fromkeys(REPEATS, "shared.weight"),
)
