"""BERT: an encoder with learned positions and token types, norms after each part, and a head for masked words.

RoBERTa is the same model under other names, with one token type and two lines before the first position that are never
used; XLM-RoBERTa and CamemBERT are RoBERTas. A file may hold the encoder alone, as sentence encoders are published: then
the model has head="none", and a pooler where the file has one. One that tells texts apart has head="classes": a pooler, which
RoBERTa keeps within its head, and a matrix with a line for each label.
"""

from functools import partial

from ...i18n import Message
from ...model.config import Config
from .family import PLAIN, Family, State, TensorRow, linear, need, plain_heads, zero_biases
from .setting_table import (
    ConfigReading,
    Form,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    always,
    insist,
    required,
    words,
)

ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu2": "relu2"}
HOLDS: Holds = dict(
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
    both = config.output.pooler and config.says_words
    words = Message("pooler=False, or head='none'")
    return plain_heads(config) + [need(words, True, repr(config.output.head))] * both


def read_head(reading: ConfigReading, begins: str) -> dict[str, Value]:
    """Return the head, by the names of the tensors; `begins` is how those of the head for masked words begin."""
    names = list(reading.tensors)
    head = "mlm" if any(name.startswith(begins) for name in names) else "none"
    head = "classes" if any(name.startswith("classifier.") for name in names) else head
    pooler = head == "classes" or (head == "none" and any("pooler.dense." in name for name in names))
    return dict(head=head, labels=labels_of(reading.theirs) if head == "classes" else (), pooler=pooler)


def labels_of(theirs: HfConfig) -> tuple[str, ...]:
    """Return the names of the classes, in order; what transformers calls two where nothing is said."""
    insist(theirs, dict(problem_type=theirs.get("problem_type") and "single_label_classification"))
    named = theirs.get("id2label") or {str(i): f"LABEL_{i}" for i in range(2)}
    return tuple(named[i] for i in sorted(named, key=int))


def write_head(config: Config, name: str) -> HfConfig:
    """Return the class of transformers, and the names of the classes where there are any."""
    labels = {str(i): label for i, label in enumerate(config.output.labels)}
    named = dict(id2label=labels, label2id={label: int(i) for i, label in labels.items()}) if labels else {}
    return named | dict(architectures=[f"{name}{CLASSES[config.output.head]}"])


def settings(name: str, begins: str, unused: int = 0) -> Table:
    """Return the table of BERT or RoBERTa, which counts the lines before the first position too."""
    lines = Form(
        lambda value, reading: value - unused if type(value) is int and value > 0 else value,
        lambda value, config: value + unused,
    )
    types = Form(lambda value, reading: value, lambda value, config: max(value, 1))
    return (
        required("position_embedding_type", "absolute", written=True),
        required("is_decoder", False),
        required("add_cross_attention", False),
        always(bias=True),
        Setting("vocab_size", "vocab"),
        Setting("max_position_embeddings", "context", form=lines),
        Setting("type_vocab_size", "token_types", 2, types),
        Setting("hidden_size", "width"),
        Setting("num_hidden_layers", "n_layer"),
        Setting("num_attention_heads", "n_head"),
        Setting("intermediate_size", "hidden"),
        Setting("hidden_act", "feed_forward", "gelu", words(ACTIVATIONS)),
        Setting("layer_norm_eps", "norm_eps", 1e-12),
        Setting("hidden_dropout_prob", "dropout", 0.1, also=("attention_probs_dropout_prob",)),
        Setting("tie_word_embeddings", "tied", True),
        Rule(partial(read_head, begins=begins), partial(write_head, name=name)),
    )


def written_gelu(reading: ConfigReading) -> Value:
    """Return the only activation that is read: the head for masked words has a GELU whatever the blocks have."""
    return "gelu" if reading.ours["head"] == "mlm" else reading.theirs.get("hidden_act")


SETTINGS = settings("Bert", "cls.predictions.")
ROBERTAS_SETTINGS: Table = (
    required("pad_token_id", UNUSED - 1, written=True),  # by which RoBERTa finds its first position
    *settings("Roberta", "lm_head.", UNUSED),
    required("hidden_act", written_gelu),
)


def rows(config: Config, base: str = "bert", unused: int = 0, head: dict[str, str] = BERTS_HEAD) -> list[TensorRow]:
    """Where each tensor lies."""
    table = [
        TensorRow("embedding.weight", f"{base}.embeddings.word_embeddings.weight"),
        TensorRow("position.table", f"{base}.embeddings.position_embeddings.weight", unused=unused),
        TensorRow("types.weight", f"{base}.embeddings.token_type_embeddings.weight"),
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
    if config.output.head == "classes":
        return table + linear("pooler", head["pooler"], bias=True) + linear("head", head["classes"], bias=True)
    if config.output.head == "none":
        return table + linear("pooler", f"{base}.pooler.dense", bias=True) * config.output.pooler
    table += linear("head.dense", head["dense"], bias=True)
    table += linear("head.norm", head["norm"], bias=True)
    table += [TensorRow("head.bias", head["bias"])]
    # An untied head has its bias twice in their file, and theirs computes with the second.
    return table + linear("head", head["matrix"], bias=True) * (not config.embedding.tied)


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
    SETTINGS,
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
    ROBERTAS_SETTINGS,
    partial(rows, base="roberta", unused=UNUSED, head=ROBERTAS_HEAD),
    fill,
    IGNORED,
    "roberta.",
    r"^(lm_head|classifier)\.",
    repeats("roberta", ROBERTAS_HEAD),
)
