"""BERT: an encoder with learned positions and token types, norms after each part, and a head for masked words.

RoBERTa is the same model under other names, with one token type and two lines before the first position that are never
used; XLM-RoBERTa and CamemBERT are RoBERTas. A file may hold the encoder alone, as sentence encoders are published: then
the model has head="none", and a pooler where the file has one. One that tells texts apart has head="classes": a pooler, which
RoBERTa keeps within its head, and a matrix with a line for each label.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...model.config import Config
from .family import PLAIN, Family, Row, State, insist, linear, need, plain_heads, word_of, zero_biases

ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu2": "relu2"}
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("encoder",),
    position=("learned",),
    norm=("layer",),
    norm_place=("post",),
    feed_forward=tuple(ACTIVATIONS),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(True,),
    head=("mlm", "none", "classes"),
) | (PLAIN | dict(pooler=(False, True)))
# Of the heads for masked words and for labels: our name -> theirs.
BERTS_HEAD = {
    "dense": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "bias": "cls.predictions.bias",
    "matrix": "cls.predictions.decoder",
    "pooler": "bert.pooler.dense",
    "classes": "classifier",
}
ROBERTAS_HEAD = {
    "dense": "lm_head.dense",
    "norm": "lm_head.layer_norm",
    "bias": "lm_head.bias",
    "matrix": "lm_head.decoder",
    "pooler": "classifier.dense",
    "classes": "classifier.out_proj",
}
CLASSES = {"none": "Model", "mlm": "ForMaskedLM", "classes": "ForSequenceClassification"}  # of transformers
UNUSED = 2  # lines of RoBERTa's positions, which begin after that of the padding token, 1


def obstacles(config: Config) -> list[Message]:
    """A model with a head for words is published without its pooler."""
    both = config.pooler and config.says_words
    words = Message("pooler=False, or head='none'")
    return plain_heads(config) + [need(words, True, repr(config.head))] * both


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    labels = {str(i): label for i, label in enumerate(config.labels)}
    named = dict(id2label=labels, label2id={label: int(i) for i, label in labels.items()}) if labels else {}
    return named | dict(
        model_type="bert",
        architectures=[f"Bert{CLASSES[config.head]}"],
        vocab_size=config.vocab,
        max_position_embeddings=config.context,
        type_vocab_size=max(config.token_types, 1),
        hidden_size=config.width,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        intermediate_size=config.hidden_width,
        hidden_act=ACTIVATIONS[config.feed_forward],
        layer_norm_eps=config.norm_eps,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        position_embedding_type="absolute",
        tie_word_embeddings=config.tied,
    )


def write_roberta(config: Config) -> dict[str, Any]:
    """config.json; RoBERTa finds its first position by the padding token, which is 1."""
    return write(config) | dict(
        model_type="roberta",
        architectures=[f"Roberta{CLASSES[config.head]}"],
        max_position_embeddings=config.context + UNUSED,
        pad_token_id=UNUSED - 1,
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor], begins: str = "cls.predictions.") -> Config:
    """The other way; `begins` is how the names of the head for masked words begin."""
    insist(theirs, dict(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False))
    head = "mlm" if any(name.startswith(begins) for name in tensors) else "none"
    head = "classes" if any(name.startswith("classifier.") for name in tensors) else head
    return Config(
        kind="encoder",
        vocab=theirs["vocab_size"],
        width=theirs["hidden_size"],
        n_layer=theirs["num_hidden_layers"],
        n_head=theirs["num_attention_heads"],
        hidden=theirs["intermediate_size"],
        context=theirs["max_position_embeddings"],
        position="learned",
        norm="layer",
        norm_place="post",
        norm_eps=theirs.get("layer_norm_eps", 1e-12),
        feed_forward=word_of(theirs.get("hidden_act", "gelu"), ACTIVATIONS),
        bias=True,
        tied=theirs.get("tie_word_embeddings", True),
        embedding_norm=True,
        token_types=theirs.get("type_vocab_size", 2),
        head=head,
        labels=labels_of(theirs) if head == "classes" else (),
        pooler=head == "classes" or (head == "none" and any("pooler.dense." in name for name in tensors)),
        dropout=theirs.get("hidden_dropout_prob", 0.1),
    )


def labels_of(theirs: dict[str, Any]) -> tuple[str, ...]:
    """The names of the classes, in order; what transformers calls two where nothing is said."""
    insist(theirs, dict(problem_type=theirs.get("problem_type") and "single_label_classification"))
    named = theirs.get("id2label") or {str(i): f"LABEL_{i}" for i in range(2)}
    return tuple(named[i] for i in sorted(named, key=int))


def read_roberta(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The same; its head has a GELU whatever its blocks have."""
    insist(theirs, dict(pad_token_id=UNUSED - 1))
    config = read(theirs, tensors, "lm_head.")
    if config.head == "mlm":
        insist(theirs, dict(hidden_act="gelu"))
    return config.replace(context=config.context - UNUSED)


def rows(config: Config, base: str = "bert", unused: int = 0, head: dict[str, str] = BERTS_HEAD) -> list[Row]:
    """Where each tensor lies."""
    table = [
        Row("embedding.weight", f"{base}.embeddings.word_embeddings.weight"),
        Row("position.table", f"{base}.embeddings.position_embeddings.weight", unused=unused),
        Row("types.weight", f"{base}.embeddings.token_type_embeddings.weight"),
        *linear("embedding_norm", f"{base}.embeddings.LayerNorm", bias=True),
    ]
    for i in range(config.n_layer):
        ours, theirs = f"encoder.{i}", f"{base}.encoder.layer.{i}"
        for part, word in (("q", "query"), ("k", "key"), ("v", "value")):
            table += linear(f"{ours}.attention.{part}", f"{theirs}.attention.self.{word}", bias=True)
        table += linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense", bias=True)
        table += linear(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", bias=True)
        table += linear(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense", bias=True)
        table += linear(f"{ours}.feed_forward.down", f"{theirs}.output.dense", bias=True)
        table += linear(f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm", bias=True)
    if config.head == "classes":
        return table + linear("pooler", head["pooler"], bias=True) + linear("head", head["classes"], bias=True)
    if config.head == "none":
        return table + linear("pooler", f"{base}.pooler.dense", bias=True) * config.pooler
    table += linear("head.dense", head["dense"], bias=True)
    table += linear("head.norm", head["norm"], bias=True)
    table += [Row("head.bias", head["bias"])]
    # An untied head has its bias twice in their file, and theirs computes with the second.
    return table + linear("head", head["matrix"], bias=True) * (not config.tied)


def fill(config: Config, state: State) -> State:
    """BERT always has biases, and one token type at least."""
    embedding = state["embedding.weight"]
    return {"types.weight": embedding.new_zeros(1, embedding.shape[1])} | zero_biases(state)


# Beside the masked words a pooler and a next-sentence head were trained, which take no part in their logits.
IGNORED = (
    r"position_ids$|\.pooler\.dense\.|^cls\.seq_relationship\.|^(cls\.predictions|lm_head)\.decoder\.(weight|bias)$"
)


def repeats(base: str, head: dict[str, str]) -> dict[str, str]:
    """The matrix and the bias of the head stand in old files once more."""
    matrix = head["matrix"]
    return {
        f"{matrix}.weight": f"{base}.embeddings.word_embeddings.weight",
        f"{matrix}.bias": head["bias"],
    }


BERT = Family(
    "BERT",
    ("bert",),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    fill,
    IGNORED,
    "bert.",
    r"^(cls|classifier)\.",
    repeats("bert", BERTS_HEAD),
)
ROBERTA = Family(
    "RoBERTa",
    ("roberta", "xlm-roberta", "camembert"),
    HOLDS | dict(feed_forward=("gelu",)),
    obstacles,
    write_roberta,
    read_roberta,
    partial(rows, base="roberta", unused=UNUSED, head=ROBERTAS_HEAD),
    fill,
    IGNORED,
    "roberta.",
    r"^(lm_head|classifier)\.",
    repeats("roberta", ROBERTAS_HEAD),
)
