"""Classifiers are transformers' own, both ways; padding and order change nothing; the numbers are the usual ones."""

import json

import numpy as np
import pytest
import torch
import transformers as hf
from torch.testing import assert_close

from qkv import Config, Transformer, masks
from qkv.evaluation.classification import classify, probabilities, score_labels
from qkv.formats.hf_export import export
from qkv.formats.model_files import load
from qkv.i18n import Problem
from qkv.text import Bytes

PAD = 1
BERT = dict(
    vocab_size=37,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=30,
    pad_token_id=PAD,
    id2label={0: "bad", 1: "so-so", 2: "good"},
    label2id={"bad": 0, "so-so": 1, "good": 2},
)
FAMILIES = {
    "bert": (hf.BertForSequenceClassification, hf.BertConfig),
    "roberta": (hf.RobertaForSequenceClassification, hf.RobertaConfig),
    "xlm-roberta": (hf.XLMRobertaForSequenceClassification, hf.XLMRobertaConfig),
}


def theirs_of(name, **more):
    make, config = FAMILIES[name]
    torch.manual_seed(0)
    model = make(config(**BERT | more)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases begin at 1 and 0, where mistakes don't show
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (parameter.ndim == 1) * 0.5)
    return model


def rows():
    """Texts of three lengths; 1 pads."""
    ids = torch.randint(5, 37, (3, 11), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([11, 4, 1])
    return ids.where(torch.arange(11) < lengths[:, None], PAD), lengths


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_logits_as_transformers_there_and_back(name, tmp_path):
    theirs = theirs_of(name)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = load(tmp_path / "theirs", dtype=torch.float64)
    assert ours.config.labels == ("bad", "so-so", "good") and ours.config.head == "classes"
    ids, lengths = rows()
    real = torch.arange(11) < lengths[:, None]
    expected = theirs(input_ids=ids, attention_mask=real.long()).logits
    assert_close(ours(ids, mask=masks.padding(lengths)), expected, atol=1e-10, rtol=0)
    export(ours, None, tmp_path / "back")
    again = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "back").eval()
    assert again.config.id2label == theirs.config.id2label and again.dtype == torch.float64
    assert_close(again(input_ids=ids, attention_mask=real.long()).logits, expected, atol=1e-10, rtol=0)


def test_two_labels_without_names_are_those_of_transformers(tmp_path):
    theirs = theirs_of("bert", id2label=None, label2id=None, num_labels=2)
    theirs.save_pretrained(tmp_path)
    assert load(tmp_path)[0].config.labels == ("LABEL_0", "LABEL_1")


WRONG = {
    "several labels at once": (hf.BertForSequenceClassification, dict(problem_type="multi_label_classification"), "problem_type"),
    "a number instead of labels": (hf.BertForSequenceClassification, dict(id2label={0: "much"}, label2id={"much": 0}), "two or more"),
    "a label for each token": (hf.BertForTokenClassification, {}, "missing"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_other_heads_are_refused(wrong, tmp_path):
    make, more, message = WRONG[wrong]
    make(hf.BertConfig(**BERT | more)).save_pretrained(tmp_path)
    with pytest.raises(Problem, match=message):
        load(tmp_path)


def classifier(labels=("a", "b", "c"), **more):
    torch.manual_seed(3)
    settings = dict(vocab=256, width=18, n_layer=2, n_head=3, context=40, pooler=True) | more
    model = Transformer(Config(kind="encoder", head="classes", labels=labels, **settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    return model


@pytest.mark.parametrize("position", ["learned", "rotary", "alibi"])
def test_a_text_has_the_same_label_alone_and_among_others(position):
    model = classifier(position=position)
    texts = ["a", "quite a long text of thirty", "我爱北京", "b" * 40]
    together = classify(model, Bytes.make(), texts)
    for text, shares in zip(texts, together, strict=True):
        (alone,) = classify(model, Bytes.make(), [text])
        assert alone.keys() == shares.keys() == {"a", "b", "c"}
        assert_close(list(alone.values()), list(shares.values()), atol=1e-6, rtol=0)
        assert list(shares.values()) == sorted(shares.values(), reverse=True) and abs(sum(shares.values()) - 1) < 1e-9


def test_the_numbers_are_those_of_their_definitions():
    model = classifier()
    texts = [(line, chr(97 + line % 26) * (1 + line % 7), "abc"[line % 3]) for line in range(1, 61)]
    score = score_labels(model, Bytes.make(), texts)
    predicted = np.array([score.predicted(line) for line in score.lines])
    actual = np.array([label for _, _, label in texts])
    assert [line.line for line in score.lines] == list(range(1, 61)), "the order of the file"
    assert score.accuracy == (predicted == actual).mean()
    for i, label in enumerate("abc"):
        is_predicted, is_actual, is_hit = predicted == label, actual == label, (predicted == label) & (actual == label)
        numbers = score.classes[i]
        assert numbers.texts == is_actual.sum() and score.confusion[i].sum() == is_actual.sum()
        assert (
            numbers.precision == is_hit.sum() / max(is_predicted.sum(), 1)
            and numbers.recall == is_hit.sum() / is_actual.sum()
        )
        total = numbers.precision + numbers.recall
        assert_close(numbers.f1, 2 * numbers.precision * numbers.recall / total if total else 0.0)
    logs = [-np.log(line.shares["abc".index(line.label)]) for line in score.lines]
    assert_close(score.loss, float(np.mean(logs)))


def test_unreadable_lines_are_reported_and_the_others_scored():
    lines = [(1, "good", "a"), (2, "x" * 41, "b"), (3, "fine", "d"), (4, "bad", "c"), (5, " ", "a")]
    score = score_labels(classifier(position="learned"), Bytes.make(), lines)
    assert [line.line for line in score.lines] == [1, 4]
    messages = {line: str(problem) for line, problem in score.problems}
    assert "41 tokens" in messages[2] and "'d' was not seen in training: the model knows a, b, c" in messages[3]
    assert "is empty" in messages[5]
    with pytest.raises(Problem, match="not seen in training"):
        score_labels(classifier(), Bytes.make(), [(1, "good", "z")])
    with pytest.raises(Problem, match="is not a classifier"):
        classify(Transformer(Config(kind="encoder")), Bytes.make(), ["a"])


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(head="classes", labels=("a",), pooler=True), "two or more"),
        (dict(head="classes", labels=("a", "a"), pooler=True), "each once"),
        (dict(head="classes", labels="ab", pooler=True), "list of names"),
        (dict(head="classes", labels=("a", "b")), "pooler=true"),
        (dict(labels=("a", "b")), "belong to head 'classes'"),
        (dict(kind="decoder", head="classes", labels=("a", "b"), pooler=True), "belongs to an encoder"),
    ],
)
def test_a_config_that_can_not_be_is_refused(settings, message):
    with pytest.raises(Problem, match=message):
        Config(**{"kind": "encoder", **settings})


def test_a_config_with_labels_survives_json():
    config = classifier().config
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_probabilities_of_equal_lengths_need_no_mask():
    model = classifier()
    assert_close(probabilities(model, [[1, 2], [3, 4]])[0], probabilities(model, [[1, 2], [3]])[0], atol=1e-6, rtol=0)
