"""BERT: an encoder with learned positions, token types, norms after each part, and a masked-language-model head.

RoBERTa, XLM-RoBERTa and CamemBERT differ in names, one token type and two unused rows before the first position. A file
may contain the encoder alone, as sentence encoders do: then the model has head="none", and a pooler if the file has
one. A classifier has head="classes": a pooler (part of RoBERTa's head) and a matrix with a row per label.
"""

from functools import partial

from ...i18n import Message
from ...model.config import Config
from .family import Family, State, TensorRow, head_obstacles, linear, need, supports, zero_biases
from .setting_table import (
    ConfigReading,
    Form,
    HfConfig,
    Rule,
    Setting,
    Table,
    Value,
    activation_form,
    implied,
    require,
    required,
)

ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "silu": "silu", "relu2": "relu2"}
SUPPORTED = supports(
    kind=("encoder",),
    position=("learned",),
    norm=("layer",),
    norm_place=("post",),
    feed_forward=tuple(ACTIVATIONS),
    embedding_norm=(True,),
    head=("mlm", "none", "classes"),
    pooler=(False, True),
)
# The heads for masked tokens and for classes: our name -> theirs.
BERT_HEAD = {
    "dense": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "bias": "cls.predictions.bias",
    "matrix": "cls.predictions.decoder",
    "pooler": "bert.pooler.dense",
    "classes": "classifier",
}
ROBERTA_HEAD = {
    "dense": "lm_head.dense",
    "norm": "lm_head.layer_norm",
    "bias": "lm_head.bias",
    "matrix": "lm_head.decoder",
    "pooler": "classifier.dense",
    "classes": "classifier.out_proj",
}
CLASSES = {"none": "Model", "mlm": "ForMaskedLM", "classes": "ForSequenceClassification"}  # of transformers
UNUSED = 2  # rows before RoBERTa's first position, which follows the padding token, 1


def obstacles(config: Config) -> list[Message]:
    """Models with a language-model head are published without a pooler."""
    conflict = config.output.pooler and config.predicts_words
    needed = Message("pooler=False, or head='none'")
    return head_obstacles(config) + [need(needed, True, repr(config.output.head))] * conflict


def read_head(reading: ConfigReading, mlm_prefix: str) -> dict[str, Value]:
    """Return the head, by the names of the tensors; `mlm_prefix` begins those of the masked-language-model head."""
    names = list(reading.tensors)
    head = "mlm" if any(name.startswith(mlm_prefix) for name in names) else "none"
    head = "classes" if any(name.startswith("classifier.") for name in names) else head
    pooler = head == "classes" or (head == "none" and any("pooler.dense." in name for name in names))
    return dict(head=head, labels=labels_of(reading.hf_config) if head == "classes" else (), pooler=pooler)


def labels_of(hf_config: HfConfig) -> tuple[str, ...]:
    """Return the class names in order, by default transformers' two."""
    require(hf_config, dict(problem_type=hf_config.get("problem_type") and "single_label_classification"))
    names = hf_config.get("id2label") or {str(i): f"LABEL_{i}" for i in range(2)}
    return tuple(names[i] for i in sorted(names, key=int))


def write_head(config: Config, name: str) -> HfConfig:
    """Return transformers' class and the class names, if there are any."""
    labels = {str(i): label for i, label in enumerate(config.output.labels)}
    names = dict(id2label=labels, label2id={label: int(i) for i, label in labels.items()}) if labels else {}
    return names | dict(architectures=[f"{name}{CLASSES[config.output.head]}"])


def settings(name: str, mlm_prefix: str, unused: int = 0) -> Table:
    """Return the settings of BERT or RoBERTa; RoBERTa counts unused rows as positions."""
    positions = Form(
        lambda value, reading: value - unused if type(value) is int and value > 0 else value,
        lambda value, config: value + unused,
    )
    types = Form(lambda value, reading: value, lambda value, config: max(value, 1))
    return (
        required("position_embedding_type", "absolute", is_written=True),
        required("is_decoder", False),
        required("add_cross_attention", False),
        implied(bias=True),
        Setting("vocab_size", "vocab"),
        Setting("max_position_embeddings", "context", form=positions),
        Setting("type_vocab_size", "token_types", 2, types),
        Setting("hidden_size", "width"),
        Setting("num_hidden_layers", "n_layer"),
        Setting("num_attention_heads", "n_head"),
        Setting("intermediate_size", "hidden"),
        Setting("hidden_act", "feed_forward", "gelu", activation_form(ACTIVATIONS)),
        Setting("layer_norm_eps", "norm_eps", 1e-12),
        Setting("hidden_dropout_prob", "dropout", 0.1, extra_names=("attention_probs_dropout_prob",)),
        Setting("tie_word_embeddings", "tied", True),
        Rule(partial(read_head, mlm_prefix=mlm_prefix), partial(write_head, name=name)),
    )


def required_activation(reading: ConfigReading) -> Value:
    """Return the only supported activation: RoBERTa's masked-language-model head always has GELU."""
    return "gelu" if reading.settings["head"] == "mlm" else reading.hf_config.get("hidden_act")


SETTINGS = settings("Bert", "cls.predictions.")
ROBERTA_SETTINGS: Table = (
    required("pad_token_id", UNUSED - 1, is_written=True),  # RoBERTa counts positions from it
    *settings("Roberta", "lm_head.", UNUSED),
    required("hidden_act", required_activation),
)


def rows(config: Config, base: str = "bert", unused: int = 0, head: dict[str, str] = BERT_HEAD) -> list[TensorRow]:
    table = [
        TensorRow("embedding.weight", f"{base}.embeddings.word_embeddings.weight"),
        TensorRow("position.table", f"{base}.embeddings.position_embeddings.weight", unused=unused),
        TensorRow("types.weight", f"{base}.embeddings.token_type_embeddings.weight"),
        *linear("embedding_norm", f"{base}.embeddings.LayerNorm", bias=True),
    ]
    for i in range(config.n_layer):
        prefix, hf_prefix = f"encoder.{i}", f"{base}.encoder.layer.{i}"
        for part, hf_part in (("q", "query"), ("k", "key"), ("v", "value")):
            table += linear(f"{prefix}.attention.{part}", f"{hf_prefix}.attention.self.{hf_part}", bias=True)
        table += linear(f"{prefix}.attention.out", f"{hf_prefix}.attention.output.dense", bias=True)
        table += linear(f"{prefix}.attention_norm", f"{hf_prefix}.attention.output.LayerNorm", bias=True)
        table += linear(f"{prefix}.feed_forward.up", f"{hf_prefix}.intermediate.dense", bias=True)
        table += linear(f"{prefix}.feed_forward.down", f"{hf_prefix}.output.dense", bias=True)
        table += linear(f"{prefix}.feed_forward_norm", f"{hf_prefix}.output.LayerNorm", bias=True)
    if config.output.head == "classes":
        return table + linear("pooler", head["pooler"], bias=True) + linear("head", head["classes"], bias=True)
    if config.output.head == "none":
        return table + linear("pooler", f"{base}.pooler.dense", bias=True) * config.output.pooler
    table += linear("head.dense", head["dense"], bias=True)
    table += linear("head.norm", head["norm"], bias=True)
    table += [TensorRow("head.bias", head["bias"])]
    # The file of an untied head has its bias twice, and transformers uses the second.
    return table + linear("head", head["matrix"], bias=True) * (not config.embedding.tied)


def fill(config: Config, state: State) -> State:
    """Add zero biases and a zero token type: BERT always has both."""
    embedding = state["embedding.weight"]
    return {"types.weight": embedding.new_zeros(1, embedding.shape[1])} | zero_biases(config, state)


# The pooler and the next-sentence head of pretraining do not affect the logits.
IGNORED = (
    r"position_ids$|\.pooler\.dense\.|^cls\.seq_relationship\.|^(cls\.predictions|lm_head)\.decoder\.(weight|bias)$"
)


def repeats(base: str, head: dict[str, str]) -> dict[str, str]:
    """Return the copies of the head's matrix and bias in old files."""
    matrix = head["matrix"]
    return {
        f"{matrix}.weight": f"{base}.embeddings.word_embeddings.weight",
        f"{matrix}.bias": head["bias"],
    }


BERT = Family(
    "BERT",
    ("bert",),
    SUPPORTED,
    obstacles,
    SETTINGS,
    rows,
    fill,
    IGNORED,
    "bert.",
    r"^(cls|classifier)\.",
    repeats("bert", BERT_HEAD),
)
ROBERTA = Family(
    "RoBERTa",
    ("roberta", "xlm-roberta", "camembert"),
    SUPPORTED | dict(feed_forward=("gelu",)),
    obstacles,
    ROBERTA_SETTINGS,
    partial(rows, base="roberta", unused=UNUSED, head=ROBERTA_HEAD),
    fill,
    IGNORED,
    "roberta.",
    r"^(lm_head|classifier)\.",
    repeats("roberta", ROBERTA_HEAD),
)
