"""Sentences are read as they are written, words find their tokens, and heads made by hand find the words they look for."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from qkv import Config, Transformer, masks
from qkv.attention.dispatch import Call
from qkv.i18n import Problem
from qkv.text import Bytes, Characters
from qkv.tracing.record.recorder import trace
from qkv.tracing.record.tokenizer_protocol import reader_of
from qkv.tracing.study import conllu
from qkv.tracing.study.conllu import Sentence, parse, shipped
from qkv.tracing.study.syntax import _attended_words, align, syntax
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace
from tests.tracing.record.elsewhere import Elsewhere


def row(i, form, head=0, relation="root", misc="_"):
    return "\t".join([str(i), form, "_", "_", "_", "_", str(head), relation, "_", misc])


def lines(*rows):
    return "\n".join(rows) + "\n\n"


# Reading


def test_our_own_sentences_hold_together():
    sentences = shipped()
    assert Counter(s.language for s in sentences) == {"en": 21, "zh": 21}
    assert len({s.text for s in sentences}) == len(sentences)
    relations = Counter((s.language, w.relation) for s in sentences for w in s.words)
    for lang in ("en", "zh"):
        assert relations[lang, "nsubj"] >= 20 and relations[lang, "obj"] >= 20 and relations[lang, "amod"] >= 10
        assert relations[lang, "advmod"] >= 10
        assert sum(w.coref >= 0 for s in sentences for w in s.words if s.language == lang) >= 15
    pronouns = set("it she he they them her their its that who 它 她 他 他们".split())
    for s in sentences:
        assert sum(w.head < 0 for w in s.words) == 1
        for i, w in enumerate(s.words):
            assert s.text[w.start : w.end] == w.form
            if w.coref >= 0:
                assert w.form in pronouns and w.coref < i and s.words[w.coref].form not in pronouns
            at, steps = i, 0
            while s.words[at].head >= 0:  # every word hangs on the root in the end
                at, steps = s.words[at].head, steps + 1
                assert steps < len(s.words), s.text
    animal = sentences[0]
    assert animal.text == "The animal didn't cross the street because it was too tired."
    it = next(w for w in animal.words if w.form == "it")
    assert animal.words[it.coref].form == "animal" and sentences[1].words[it.coref + 5].form == "street"


def test_spaces_ranges_and_empty_words():
    (first,) = parse(
        lines(
            "# lang = fr",
            row("1-2", "du", "_", "_"),
            row(1, "de", 3, "case"),
            row(2, "le", 3, "det"),
            row(3, "pain", misc="SpaceAfter=No"),
            row("3.1", "mangé", "_", "_"),
            row("4-5", "don't", "_", "_"),
            row(4, "do", 3, "aux:tense"),
            row(5, "n't", 3, "advmod"),
        )
    )
    assert first.text == "du paindon't" and first.language == "fr"
    assert [(w.form, first.text[w.start : w.end]) for w in first.words] == [
        ("de", "du"),
        ("le", "du"),
        ("pain", "pain"),
        ("do", "do"),
        ("n't", "n't"),
    ]
    assert [w.head for w in first.words] == [2, 2, -1, 2, 2] and first.words[3].relation == "aux"


def test_windows_line_ends_a_mark_at_the_start_and_no_empty_line_at_the_end(tmp_path):
    file = tmp_path / "a.conllu"
    text = (
        "# text = a  b\n"
        + row(1, "a")
        + "\n"
        + row(2, "b", 1, "obj")
        + "\n\n"
        + lines(row(1, "c", misc="SpaceAfter=No"), row(2, "d", 1, "obj")).rstrip("\n")
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    first, two = conllu.read(file)
    assert first.text == "a  b" and first.words[1].start == 3 and two.text == "cd" and len(two.words) == 2


WRONG = {
    "columns": (lines(row(1, "a"), "2\tb\tc"), "line 2: 3 columns where CoNLL-U has 10", "3 列"),
    "spaces for tabs": (lines(row(1, "a").replace("\t", " ")), "line 1: 1 columns", "1 列"),
    "head too far": (lines(row(1, "a", 3, "obj"), row(2, "b")), "line 1: head is 3, .* from 0 to 2", "0 到 2"),
    "head below": (lines(row(1, "a", -1)), "line 1: head is -1", "head 是 -1"),
    "no head": (lines(row(1, "a", "_")), "line 1: head is _", "head 是 _"),
    "a huge head": (lines(row(1, "a", "9" * 5000)), "line 1: head is 9", "head 是 9"),
    "a strange digit": (lines(row(1, "a", "１")), "line 1: head is １", "head 是 １"),
    "coref": (lines(row(1, "a", misc="Coref=2")), "line 1: Coref is 2, .* from 1 to 1", "Coref 是 2"),
    "own head": (lines(row(1, "a", 1)), "line 1: a can't be its own head", "自己的支配词"),
    "numbers": (lines(row(1, "a"), row(3, "b", 1)), "line 2: the word is numbered 3, but 2 comes next", "应是 2"),
    "not a number": (lines(row("x", "a")), "line 1: the word is numbered x", "编号是 x"),
    "range": (lines(row("1-9", "ab"), row(1, "a")), "line 1: 1-9 is no range", "1-9 不是"),
    "text": (lines("# text = a c", row(1, "a"), row(2, "b", 1)), "line 3: b was to come .* goes on with: c", "应为 b"),
    "nothing": ("# only a comment\n\n", "has no sentence", "没有句子"),
    "only a range": (lines(row("1-2", "ab", "_", "_")), "has no sentence", "没有句子"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_line_is_named_in_both_languages(what):
    text, english, chinese = WRONG[what]
    with pytest.raises(Problem, match=english) as caught:
        parse(text, "my.conllu")
    assert chinese in caught.value.say("zh") and "my.conllu" in caught.value.say("zh")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(Problem, match=r"none\.conllu can't be read"):
        conllu.read(tmp_path / "none.conllu")
    (tmp_path / "b.conllu").write_bytes(b"1\t\xff")
    with pytest.raises(Problem, match="not UTF-8 text: byte 2"):
        conllu.read(tmp_path / "b.conllu")


# Words and tokens


def make_sentence(*forms, text=None):
    parsed = parse(lines(*(row(i, form, i - 1, "obj") for i, form in enumerate(forms, 1))))[0]
    if text is None:
        return parsed
    return parse(lines(f"# text = {text}", *(row(i, form, i - 1, "obj") for i, form in enumerate(forms, 1))))[0]


def joined(tokens, groups):
    return ["".join(tokens.pieces[i] for i in group).strip() for group in groups]


@pytest.mark.parametrize("sentence", shipped(), ids=str)
def test_every_word_gets_its_own_bytes_and_its_own_characters(sentence):
    ids = Bytes.make().encode(sentence.text)
    tokens = reader_of(Bytes.make()).tokens(ids)
    raw = sentence.text.encode()
    for word, group in zip(sentence.words, align(tokens, sentence), strict=True):
        # a space goes with the token it is in, and a byte's space is a token of its own, which is nobody's
        assert bytes(raw[i] for i in group).decode() == word.form
    letters = Characters.make([sentence.text])
    tokens = reader_of(letters).tokens(letters.encode(sentence.text))
    assert joined(tokens, align(tokens, sentence)) == [word.form for word in sentence.words]


def test_awkward_tokens_find_their_words():
    sentence = make_sentence("我", "爱", "人工智能", "。", text="我爱人工智能。")
    tokens = Tokens(("[CLS]", "我爱", "人", "工智", "能。", "[SEP]"), (True, *[False] * 4, True))
    assert align(tokens, sentence) == [[1], [], [2, 3, 4], []]  # 我爱 is a tie, and the first word's; 能。 likewise
    lowered = Tokens(("[CLS]", "cafe", " de", "ja", "[SEP]"), (True, False, False, False, True))
    assert align(lowered, make_sentence("Café", "Déjà")) == [[1], [2, 3]]
    wide = Tokens(("a", ",", " b"))
    assert align(wide, make_sentence("ａ", "，", "b")) == [[0], [1], [2]]
    contracted = parse(
        lines(row("1-2", "au", "_", "_"), row(1, "à", 3, "case"), row(2, "le", 3, "det"), row(3, "lac"))
    )[0]
    assert align(Tokens(("a", "u", " lac")), contracted) == [[0, 1], [], [2]]
    nothing = Tokens(("x", "y"))
    assert align(nothing, make_sentence("a", "b", "c")) == [[], [], []]


def test_unknown_tokens_are_the_words_between():
    tokens = Tokens(("[CLS]", "[UNK]", " cat", "[UNK]", "."), (True, True, False, True, False), (1, 0, 5, 0, 7))
    assert align(tokens, make_sentence("Zyx", "cat", "qqq", "."), unk=0) == [[1], [2], [3], [4]]
    assert align(tokens, make_sentence("Zyx", "cat", "qqq", ".")) == [[], [2], [], [4]]
    fused = Tokens(("[UNK]", "cat"), (True, False), (0, 5))  # one token for two words: nobody's
    assert align(fused, make_sentence("Zyx", "qqq", "cat"), unk=0) == [[], [], [1]]


# Heads


class Spaced:
    """A tokenizer of words, cut at spaces, each word two tokens where it has several letters."""

    unk = None


def fake(monkeypatch, make, *, mask=None, special=False, heads=3):
    """`trace` answers with heads made by hand: make(sentence) → (heads, words, words), over two tokens per word."""
    by_text = {sentence.text: sentence for sentence in shipped()}

    def answer(request):
        text = request.source
        sentence = by_text[text.lstrip("\n")]
        table = torch.as_tensor(np.stack(make(sentence)))  # (H, W, W)
        pieces, of, marks = [], [], []
        if text.startswith("\n") or special:
            pieces, of, marks = ["[CLS]" if special else "\n"], [-1], [special]
        for i, word in enumerate(sentence.words):
            cut = max(len(word.form) // 2, 1)
            for part in (word.form[:cut], word.form[cut:]):
                if part:
                    pieces.append(part), of.append(i), marks.append(False)
        n = len(pieces)
        sizes = Counter(of)
        shares = torch.full((len(table), n, n), 1e-9).double()
        for a in range(n):
            for b in range(n):
                if of[a] < 0 or of[b] < 0:
                    shares[:, a, b] = 5.0 if of[b] < 0 else 1e-9  # most of it rests before the text
                else:
                    shares[:, a, b] = table[:, of[a], of[b]] / sizes[of[b]] + 1e-9
        h = len(table)
        q = torch.zeros(1, h, n, 2).double()
        tokens = [Tokens(tuple(pieces), tuple(marks), tuple(range(n)))]
        part = "decoder" if repr(mask) == "causal()" else "encoder"
        call = Call(q, q, q, mask or masks.full(), 1.0, shares.log()[None], name=f"{part}.0")
        return Trace({part: [call]}, {part: tokens}, {part: tokens}, "made by hand")

    model = SimpleNamespace(kind="encoder", trace=answer)
    monkeypatch.setattr("qkv.tracing.study.syntax.model_of", lambda _: model)


def follows(relation, direction):
    """A head that looks from every word with this relation to its head (or back), and elsewhere from others."""

    def make(sentence):
        w = len(sentence.words)
        table = np.eye(w) * 3 + 0.01  # mostly at itself, which never counts
        for i, word in enumerate(sentence.words):
            other = word.coref if relation == "coref" else word.head
            if other >= 0 and (relation == "coref" or word.relation == relation):
                a, b = (i, other) if direction == "head" else (other, i)
                table[a, b] = 1
        return table

    return make


def before(sentence):
    w = len(sentence.words)
    table = np.eye(w, k=-1) + 0.01
    table[0, -1] = 1  # nothing is before the first word; the full stop is nobody's head
    return table


def test_a_head_that_follows_a_relation_is_listed_with_its_direction(monkeypatch):
    subject, coref = follows("nsubj", "head"), follows("coref", "dependent")
    fake(monkeypatch, lambda sentence: [before(sentence), subject(sentence), coref(sentence)], special=True)
    measured = syntax(None, Spaced())
    for lang, count in (("en", 38), ("zh", 35)):
        relation = measured.get("nsubj", "head", lang)
        assert relation.count == count and relation.accuracy[0, 1] == 1.0
        (best, *_) = relation.above()
        assert best[:3] == (0, 1, 1.0) and best[3] < 0.01
        wins = round(count * (1 - relation.baseline))  # never wrong, so it wins wherever the rule is
        assert relation.chance[0, 1] == pytest.approx(3 * 0.5**wins)
        back = measured.get("coref", "dependent", lang)
        assert back.above()[0][:2] == (0, 2)
        assert measured.get("nsubj", "dependent", lang).accuracy[0, 1] < 0.5
    assert measured.unaligned == 0 and measured.sentences == 42
    assert {r["relation"] for r in measured.table if r["head"] == 1 and r["accuracy"] == 1} == {"nsubj"}


def test_the_baseline_is_the_best_fixed_rule_and_a_fixed_head_is_never_above_it(monkeypatch):
    fake(monkeypatch, lambda sentence: [before(sentence)], special=True)
    measured = syntax(None, Spaced(), least=1)
    assert {(r.name, r.direction) for r in measured.relations} >= {("det", "head"), ("coref", "dependent")}
    for relation in measured.relations:
        offsets = []
        for sentence in shipped([relation.language]):
            for i, word in enumerate(sentence.words):
                other = word.coref if relation.name == "coref" else word.head
                if other >= 0 and (relation.name == "coref" or word.relation == relation.name):
                    offsets.append((other - i) * (1 if relation.direction == "head" else -1))
        true = max(sum(o == offset for o in offsets) for offset in range(-5, 6)) / len(offsets)
        assert relation.count == len(offsets) and relation.baseline >= true
        assert relation.rules["-1"].mean() == pytest.approx(np.mean([o == -1 for o in offsets]))
        np.testing.assert_allclose(relation.accuracy[0, 0], relation.rules["-1"].mean())
        assert relation.above() == []
    assert measured.get("det", "head", "en").rule == "1" and measured.table == []
    assert "no head above it" in measured.show("en") and "没有头胜过它" in measured.show("zh")


def test_the_first_word_is_a_rule_too(monkeypatch):
    first = lambda sentence: np.eye(len(sentence.words))[[0] * len(sentence.words)] + 0.001  # noqa: E731
    fake(monkeypatch, lambda sentence: [first(sentence)], special=True)
    measured = syntax(None, Spaced(), "zh", relations=["coref"])
    relation = measured.get("coref")
    assert relation.rule == "first" and relation.above() == [] and relation.accuracy[0, 0] == relation.baseline > 0.4


def test_a_decoder_is_tested_only_on_visible_pairs(monkeypatch):
    subject = follows("nsubj", "head")
    back = follows("nsubj", "dependent")
    fake(monkeypatch, lambda sentence: [subject(sentence), back(sentence)], mask=masks.causal())
    measured = syntax(None, Spaced(), "en", relations=["nsubj", "coref"], least=1)
    # In all but relative clauses the subject comes before the verb: the verb can look back, the subject can't look ahead.
    assert [(r.name, r.direction) for r in measured.relations] == [("nsubj", "dependent"), ("coref", "head")]
    relation = measured.get("nsubj", "dependent")
    pairs = [(i, w.head) for s in shipped(["en"]) for i, w in enumerate(s.words) if w.relation == "nsubj"]
    assert relation.count == sum(i < verb and verb >= 2 for i, verb in pairs) and relation.accuracy[0, 1] == 1


def test_a_lead_on_three_words_may_be_luck(monkeypatch):
    noun = follows("iobj", "head")
    fake(monkeypatch, lambda sentence: [noun(sentence)] * 3, special=True)
    assert not [r for r in syntax(None, Spaced(), "en").relations if r.name == "iobj"]
    relation = syntax(None, Spaced(), "en", least=1, relations=["iobj"]).get("iobj")
    assert relation.count == 2 and relation.accuracy[0, 0] == 1 and relation.chance[0, 0] > 0.3


def test_relations_and_languages_can_be_selected_and_misspelled(monkeypatch, tmp_path):
    fake(monkeypatch, lambda sentence: [before(sentence)], special=True)
    reports = []
    measured = syntax(None, Spaced(), "en", relations=["amod"], progress=lambda *at: reports.append(at))
    assert {r.name for r in measured.relations} == {"amod"} and reports[-1] == (21, 21)
    with pytest.raises(ValueError, match="did you mean 'nsubj'"):
        syntax(None, Spaced(), relations=["nsubbj"])
    with pytest.raises(ValueError, match="direction 'up' is not one of"):
        measured.get("amod", "up")
    with pytest.raises(ValueError, match="relation 'obj' is not one of amod"):
        measured.get("obj")
    with pytest.raises(ValueError, match="needs a tokenizer"):
        syntax(None, None)
    with pytest.raises(ValueError, match="can't be read"):
        syntax(None, Spaced(), tmp_path / "none.conllu")


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder"])
def test_real_models_of_every_kind_are_measured(kind, tmp_path):
    """Against the words' own map: what the table says is what `trace.map` says."""
    torch.manual_seed(0)
    tokenizer = Bytes.make(["bos", "eos"])
    model = Transformer(Config(vocab=tokenizer.vocab, width=24, n_layer=2, n_head=4, kind=kind, position="sinusoidal"))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)
    file = tmp_path / "own.conllu"
    file.write_text(
        lines(row(1, "我", 2, "nsubj"), row(2, "爱", 0), row(3, "你", 2, "obj"), row(4, "们", 2, "obj"))
        + lines(row(1, "she", 2, "nsubj"), row(2, "saw", 0), row(3, "us", 2, "obj"), row(4, "all", 3, "det")),
        encoding="utf-8",
    )
    measured = syntax(model, tokenizer, file, least=1)
    assert measured.sentences == 2 and measured.unaligned == 0
    relation = measured.get("obj", "head")
    hits = []
    for text, cuts, words in (
        ("我 爱 你 们", [(0, 3), (4, 7), (8, 11), (12, 15)], [2, 3]),
        ("she saw us all", [(0, 3), (4, 7), (8, 10), (11, 14)], [2]),
    ):
        before = "\n" if kind == "decoder" else ""
        recorded = trace(model, before + text, tokenizer, **({"target": [text]} if kind == "encoder-decoder" else {}))
        for i in words:
            a = slice(cuts[i][0] + len(before), cuts[i][1] + len(before))
            shares = np.array(
                [
                    [
                        [recorded.map(layer, head)[a, b + len(before) : e + len(before)].sum(1).mean() for b, e in cuts]
                        for head in range(4)
                    ]
                    for layer in range(2)
                ]
            )
            shares[..., i] = -1
            hits.append(shares.argmax(-1) == 1)
    np.testing.assert_array_equal(relation.hits, np.stack(hits))
    assert relation.hits.any() and not relation.hits.all()
    if kind == "decoder":
        with pytest.raises(ValueError, match="relation"):
            measured.get("nsubj", "head")


def test_sentences_may_be_passed_as_objects():
    sentence = make_sentence("the", "cat", "sat")
    assert isinstance(sentence, Sentence) and str(sentence) == "the cat sat"
    model = Transformer(Config(vocab=256, width=24, n_layer=1, n_head=2))
    assert syntax(model, Bytes.make(), [sentence], least=1).sentences == 1
    with pytest.raises(ValueError):
        syntax(model, Bytes.make(), [])


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_all_is_computed_where_the_model_is(kind):
    torch.manual_seed(0)
    model = Transformer(Config(kind=kind, vocab=30, width=32, n_layer=2, n_head=4))
    recorded, groups = trace(model, [3, 1, 4, 1, 5, 9, 2, 6]), [[0, 1], [2], [], [4, 5, 6]]
    with Elsewhere():
        attended = _attended_words(recorded, groups)
    for mine, true in zip(attended, _attended_words(recorded, groups), strict=True):
        np.testing.assert_array_equal(mine, true)
