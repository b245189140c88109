"""Heads made by hand are called what they are, mixtures are not, and every score is its slow definition."""

import math

import numpy as np
import pytest
import torch

from qkv import Config, Transformer, masks
from qkv.attention.dispatch import Call
from qkv.attention.oracle import from_qkv
from qkv.i18n import say
from qkv.terminal import text_grid
from qkv.tracing.record.recorder import trace
from qkv.tracing.study.patterns import (
    BAND,
    CALLED,
    CLEAR,
    COLUMNS,
    EVEN,
    KINDS,
    LOCAL,
    MIN_QUERIES,
    OF_CROSS,
    OF_SELF,
    patterns,
)
from qkv.tracing.views import attention_maps
from qkv.tracing.views.attention_maps import weights
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace
from tests.tracing.record.elsewhere import Elsewhere

WORDS = "the cat sat , and the dog ran . then a bird saw the cat and sang , so the dog sat".split()


def tokens_of(words, special=()):
    ids = {word: i for i, word in enumerate(dict.fromkeys(words))}
    return Tokens(
        tuple(" " + word for word in words), tuple(word in special for word in words), tuple(ids[w] for w in words)
    )


def trace_of(heads, mask, *, keys=None, queries=None, part="decoder", real=None):
    """A trace of one layer whose heads have exactly these weights (rows are scaled to what the mask leaves)."""
    shares = torch.as_tensor(np.stack(heads))  # (H, N, M)
    h, n, m = shares.shape
    q, k = torch.zeros(1, h, n, 2).double(), torch.zeros(1, h, m, 2).double()
    call = Call(q, k, k, mask, 1.0, shares.clamp(min=1e-12).log()[None], name=f"{part}.0")
    keys = keys or tokens_of(WORDS[:m])
    return Trace({part: [call]}, {part: [queries or keys]}, {part: [keys]})


def only(n, where, m=None):
    """Every query looks at the keys that `where` names for it, evenly; at everything evenly where there are none."""
    m = n if m is None else m
    table = np.full((n, m), 1.0 / m)
    for i in range(n):
        counting = [j for j in where(i) if 0 <= j < m]
        if counting:
            table[i] = 0
            table[i, counting] = 1 / len(counting)
    return table


def earlier(i, step=0):
    return [j + step for j in range(i) if WORDS[j] == WORDS[i] and j + step < i]


N = len(WORDS)
PUNCTUATION = [i for i, word in enumerate(WORDS) if word in ",."]
HEADS = {
    "previous": only(N, lambda i: [i - 1]),
    "next": only(N, lambda i: [i + 1]),
    "self": only(N, lambda i: [i]),
    "first": only(N, lambda i: [0]),
    "punctuation": only(N, lambda i: [j for j in PUNCTUATION if j <= i] or PUNCTUATION),
    "local": only(N, lambda i: range(i - 2, i + 1)),
    "columns": only(N, lambda i: [j for j in (2, 6, 7) if j <= i]),
    "duplicate": only(N, lambda i: earlier(i) or [0]),
    "induction": only(N, lambda i: earlier(i, 1) or [0]),
    "uniform": np.full((N, N), 1 / N),
}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("mask", [masks.causal(), masks.full()], ids=["causal", "full"])
def test_constructed_heads_are_named_rightly(kind, mask):
    row = patterns(trace_of([HEADS[kind]], mask)).table[0]
    if kind == "next" and repr(mask) == "causal()":
        assert math.isnan(row.scores["next"].value) and row.scores["next"].count == 0
        return
    assert row.name == kind and row.mixture == ()
    assert row.scores[kind].value > (0.9 if kind == "columns" else 0.95)


MIXTURES = {
    "previous and first": ("previous", "first"),
    "self and first": ("self", "first"),
    "punctuation and previous": ("punctuation", "previous"),
}


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("share", [0.4, 0.5, 0.6])
def test_mixtures_are_not_over_claimed(mixture, share):
    a, b = (HEADS[kind] for kind in mixture)
    for mask in (masks.causal(), masks.full()):
        row = patterns(trace_of([share * a + (1 - share) * b], mask)).table[0]
        assert row.name == "mixed" and set(row.mixture) == set(mixture)


def test_a_blend_with_evenness_is_named_once_it_is_clear():
    for share, name in ((0.3, "none"), (0.55, "none"), (0.7, "previous"), (1.0, "previous")):
        row = patterns(trace_of([share * HEADS["previous"] + (1 - share) * HEADS["uniform"]], masks.full())).table[0]
        assert row.name == name
        assert row.scores["previous"].lift == pytest.approx(share, abs=1e-6)


def test_neighbours_together_are_local_and_two_columns_are_columns():
    half = 0.5 * HEADS["previous"] + 0.5 * HEADS["self"]
    row = patterns(trace_of([half], masks.causal())).table[0]
    assert row.name == "local" and row.distance == pytest.approx(0.5)
    ends = 0.5 * HEADS["first"] + 0.5 * only(N, lambda i: [5])
    row = patterns(trace_of([ends], masks.full())).table[0]
    assert row.name == "columns" and set(row.keys) >= {0, 5}


def test_a_head_at_the_first_token_is_no_duplicate_head_although_that_token_repeats():
    words = "a b a c a d a e a".split()
    head = only(9, lambda i: [0])
    row = patterns(trace_of([head], masks.causal(), keys=tokens_of(words))).table[0]
    assert row.scores["duplicate"].value == pytest.approx(0.25 * (1 + 1 + 1 + 1)) and row.name == "first"


def test_a_head_that_looks_at_commas_is_no_duplicate_head_although_commas_repeat():
    words = "a , b , c , d , e".split()
    head = only(9, lambda i: [j for j in (1, 3, 5, 7) if j < i] or [0])
    row = patterns(trace_of([head], masks.causal(), keys=tokens_of(words))).table[0]
    assert row.scores["duplicate"].value == pytest.approx(1) and row.name == "punctuation"


def test_two_queries_name_nothing():
    keys = tokens_of("a b c".split())
    row = patterns(trace_of([only(3, lambda i: [i - 1])], masks.causal(), keys=keys)).table[0]
    assert row.scores["previous"].value == pytest.approx(1) and row.scores["previous"].count == 2
    assert row.name == "none"


def test_kinds_that_a_text_cannot_show_have_no_score():
    keys = tokens_of("one two three four five".split())
    scored = patterns(trace_of([np.full((5, 5), 0.2)], masks.causal(), keys=keys))
    for kind in ("next", "duplicate", "induction", "punctuation"):
        assert math.isnan(scored.table[0].scores[kind].value) and scored.best(kind) == []
    assert "this text can't show it" in scored.show("en") and "这段文本看不出来" in scored.show("zh")


CROSS = {
    "diagonal": only(14, lambda i: [round(i * 19 / 13)], 20),
    "monotone": only(14, lambda i: [max(0, i - 11) * 4 + i // 3], 20),
    "first": only(14, lambda i: [0], 20),
    "punctuation": only(14, lambda i: [3, 8], 20),
    "columns": only(14, lambda i: [1 if i % 3 else 11], 20),
    "uniform": np.full((14, 20), 1 / 20),
    "none": only(14, lambda i: [(i * 13 + 5) % 20], 20),
}


@pytest.mark.parametrize("kind", CROSS)
def test_constructed_cross_attention_is_named_rightly(kind):
    queries = tokens_of(list("abcdefghijklmn"))
    keys = tokens_of(WORDS[:20])
    scored = patterns(trace_of([CROSS[kind]], masks.full(), part="cross", keys=keys, queries=queries))
    assert scored.kinds == OF_CROSS and scored.table[0].name == kind
    assert math.isnan(scored.table[0].distance)


def slowly(table, allowed, tokens_q, tokens_k, real_q, real_k, cross):
    """Every score by loops over queries and keys, as docs/patterns.md says it."""
    n, m = table.shape
    first = next(j for j in range(m) if real_k[j])
    nq, mk = sum(real_q), sum(real_k)

    def counts(kind, i, j):
        at = i + m - n
        ids = tokens_k.ids
        if kind == "diagonal":
            along = sum(real_q[:i]) * (mk - 1) / max(nq - 1, 1)
            return nq > 1 and bool(real_k[j]) and abs(along - sum(real_k[:j])) <= max(1, BAND * mk) + 1e-9
        return {
            "previous": j == at - 1,
            "next": j == at + 1,
            "self": j == at,
            "first": j == first,
            "punctuation": j != first and real_k[j] and (tokens_k.pieces[j].strip() in ",." or tokens_k.special[j]),
            "local": abs(at - j) <= LOCAL,
            "duplicate": j < at and ids[j] == ids[at] if at < len(ids) and j < len(ids) else False,
            "induction": 0 < j < at and ids[j - 1] == ids[at] if at < len(ids) and j < len(ids) else False,
        }[kind]

    expected = {}
    counted = [i for i in range(n) if real_q[i] and allowed[i].sum() >= 2]
    for kind in OF_CROSS if cross else OF_SELF:
        if kind in ("columns", "uniform", "monotone"):
            continue
        values, evens = [], []
        for i in counted:
            visible = [j for j in range(m) if allowed[i, j]]
            right = [j for j in visible if counts(kind, i, j)]
            if 0 < len(right) < len(visible):
                values.append(sum(table[i, j] for j in right))
                evens.append(len(right) / len(visible))
        expected[kind] = (np.mean(values), np.mean(evens), len(values)) if values else (np.nan, np.nan, 0)
    even = allowed / np.maximum(allowed.sum(-1, keepdims=True), 1)
    tops = [np.sort(t[counted].sum(0))[::-1][:COLUMNS].sum() / len(counted) for t in (table, even)]
    expected["columns"] = (*tops, len(counted))
    ratios = []
    for i in counted:
        w = table[i][table[i] > 0]
        mass = w.sum()
        ratios.append(mass * -(w / mass * np.log(w / mass)).sum() / np.log(allowed[i].sum()))
    expected["uniform"] = (np.mean(ratios), 1.0, len(counted))
    if cross:

        def best(t):
            so_far = np.zeros(m)
            for i in counted:
                so_far = np.array([t[i, j] + so_far[: j + 1].max() for j in range(m)])
            return so_far.max() / len(counted)

        expected["monotone"] = (best(table), best(even), len(counted))
    return expected


SETTINGS = {
    "causal": (masks.causal(), 11, 11, [11, 6], False),
    "full": (masks.full(), 11, 11, [11, 6], False),
    "window": (masks.window(4), 11, 11, [11, 7], False),
    "with a cache": (masks.causal(), 5, 11, None, False),
    "cross": (masks.full(), 7, 25, [25, 14], True),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("more", ["plain", "sinks, softcap and bias", "a mask per head"])
@pytest.mark.parametrize("block", [6 * 11, 6 * 11 * 3], ids=["one row", "three rows"])
def test_scores_are_their_slow_definition(setting, more, block, monkeypatch):
    monkeypatch.setattr(attention_maps, "BLOCK", block)  # several blocks even here
    mask, n, m, lengths, cross = SETTINGS[setting]
    if lengths is not None:
        mask = mask & masks.padding(torch.tensor(lengths))
    if more == "a mask per head":
        hidden = torch.rand(2, 6, n, m) < 0.2
        hidden[..., 0] = False
        mask = mask & masks.dense(~hidden)
    torch.manual_seed(1)
    q, k = 2 * torch.randn(2, 6, n, 8).double(), torch.randn(2, 3, m, 8).double()
    extra = {}
    if more.startswith("sinks"):
        bias = torch.randn(1, 6, n, m).double()
        bias[0, 2, n - 1, 3] = float("-inf")  # hidden from one head, in one block of rows
        extra = dict(bias=bias, softcap=3.0, sinks=torch.randn(6).double())
    part = "cross" if cross else "decoder"
    call = Call(q, k, k, mask, 0.4, name=f"{part}.0", **extra)
    keys, queries = [], []
    for item in range(2):
        length = m if lengths is None else lengths[item]
        words = ["[CLS]", *("the the , cat . the cat , a the".split() * 3)][:length]
        sentence = tokens_of(words, special=("[CLS]",))
        fill = ("[PAD]",) * (m - length)
        tokens = Tokens(sentence.pieces + fill, sentence.special + (True,) * len(fill), sentence.ids)
        keys.append(tokens)
        queries.append(tokens_of(list("abcdefg")) if cross else Tokens(tokens.pieces[m - n :], tokens.special[m - n :]))
    if not cross and n == m:
        queries = keys
    recorded = Trace({part: [call]}, {part: queries}, {part: keys})
    done = from_qkv(
        *(t.numpy() for t in (q, k, k)),
        mask=call.allowed().numpy(),
        scale=0.4,
        bias=None if call.bias is None else call.bias.numpy(),
        softcap=call.softcap,
        sinks=None if call.sinks is None else call.sinks.numpy(),
    )
    for item in range(2):
        table = patterns(recorded, batch=item)
        assert len(table.table) == 6
        length = m if lengths is None else lengths[item]
        real_k = np.arange(m) < length
        real_q = np.ones(n, bool) if cross or n < m else real_k
        for row in table.table:
            allowed = call.allowed().expand(2, 6, n, m)[item, row.head].numpy().copy()
            if call.bias is not None:
                allowed &= call.bias[0, row.head].numpy() > -np.inf
            true = slowly(done.weights[item, row.head], allowed, queries[item], keys[item], real_q, real_k, cross)
            assert set(row.scores) == set(true)
            for kind, (value, baseline, count) in true.items():
                score = row.scores[kind]
                assert score.count == count, kind
                np.testing.assert_allclose((score.value, score.baseline), (value, baseline), atol=1e-9, err_msg=kind)
            if not cross:
                where = [i for i in range(n) if real_q[i] and allowed[i].sum() >= 2]
                w = done.weights[item, row.head][where]
                far = np.abs(np.array(where)[:, None] + m - n - np.arange(m))
                assert row.distance == pytest.approx(((w * far).sum(-1) / w.sum(-1)).mean())


@pytest.mark.parametrize("rule", [masks.causal(), masks.full()], ids=["causal", "full"])
def test_padding_on_either_side_changes_nothing(rule):
    """The same text alone, filled up on the right, and on the left."""
    torch.manual_seed(2)
    q, k = torch.randn(1, 4, 9, 8).double(), torch.randn(1, 2, 9, 8).double()
    tokens = tokens_of("the cat , the dog . the cat ,".split())
    alone = Trace({"decoder": [Call(q, k, k, rule, 1.0)]}, {"decoder": [tokens]}, {"decoder": [tokens]})
    true = patterns(alone)
    junk = 5 * torch.randn(1, 4, 3, 8).double()
    for pads_first in (False, True):
        wide_q, wide_k = ((junk[:, : t.shape[1]], t) if pads_first else (t, junk[:, : t.shape[1]]) for t in (q, k))
        real = torch.arange(12)[None] >= 3 if pads_first else torch.arange(12)[None] < 9
        mask = rule & masks.padding(real)
        call = Call(torch.cat(wide_q, 2), torch.cat(wide_k, 2), torch.cat(wide_k, 2), mask, 1.0)
        fill = ("<pad>",) * 3
        if pads_first:
            padded = Tokens(fill + tokens.pieces, (True,) * 3 + tokens.special, (9, 9, 9, *tokens.ids))
        else:
            padded = Tokens(tokens.pieces + fill, tokens.special + (True,) * 3, tokens.ids)
        scored = patterns(Trace({"decoder": [call]}, {"decoder": [padded]}, {"decoder": [padded]}))
        assert scored.show("en").splitlines()[0] == true.show("en").splitlines()[0]  # 9 tokens, not 12
        for row, other in zip(true.table, scored.table, strict=True):
            assert row.name == other.name and row.distance == pytest.approx(other.distance)
            for kind in OF_SELF:
                a, b = row.scores[kind], other.scores[kind]
                assert a.count == b.count, (pads_first, kind)
                np.testing.assert_allclose((a.value, a.baseline), (b.value, b.baseline), atol=1e-12)


def test_the_padding_that_a_decoder_starts_from_is_a_token_like_others():
    keys = Tokens(("<pad>", " a", " b", " c", " d"), (True, *[False] * 4), (9, 1, 2, 3, 4))
    row = patterns(trace_of([only(5, lambda i: [0])], masks.causal(), keys=keys)).table[0]
    assert row.name == "first" and row.scores["first"].count == 4


def test_weights_of_a_layer_are_those_of_its_heads():
    torch.manual_seed(0)
    model = Transformer(Config(vocab=11, width=36, n_layer=2, n_head=6, n_kv_head=2, position="alibi", window=5))
    recorded = trace(model, [[3, 1, 4, 1, 5, 9, 2, 6, 5], [2, 7, 1]])
    for item in (0, 1):
        shares, _, entropy = weights(recorded.calls["decoder"][1], item, slice(2, 7))
        for head in range(6):
            true = recorded.map(1, head, batch=item)[2:7]
            np.testing.assert_allclose(shares[head], true, atol=1e-6)
            logs = np.log(np.where(true > 0, true, 1))
            np.testing.assert_allclose(entropy[head], -(true * logs).sum(-1), atol=1e-5)


def test_a_query_that_may_see_nothing_gives_nothing_and_counts_nowhere():
    allowed = torch.ones(9, 9, dtype=torch.bool).tril()
    allowed[4] = False
    q = torch.randn(1, 2, 9, 4)
    tokens = tokens_of("a b c d e f g h i".split())
    call = Call(q, q, q, masks.dense(allowed), 1.0)
    assert not weights(call, 0, slice(3, 6))[0][:, 1].any()
    scored = patterns(Trace({"decoder": [call]}, {"decoder": [tokens]}, {"decoder": [tokens]}))
    assert [row.scores["previous"].count for row in scored.table] == [7, 7]
    assert [row.scores["columns"].count for row in scored.table] == [7, 7]


def test_layers_may_have_masks_of_their_own():
    torch.manual_seed(3)
    q = torch.randn(1, 2, 9, 4).double()
    tokens = {"decoder": [tokens_of("a b a , c b a . c".split())]}
    calls = [Call(q, q, q, mask, 1.0) for mask in (masks.causal(), masks.window(2), masks.causal())]
    together = patterns(Trace({"decoder": calls}, tokens, tokens)).table
    for layer, call in enumerate(calls):
        alone = patterns(Trace({"decoder": [call]}, tokens, tokens)).table
        for row, other in zip(together[2 * layer : 2 * layer + 2], alone, strict=True):
            assert repr(row.scores) == repr(other.scores) and row.layer == layer


def test_table_best_named_and_array():
    scored = patterns(trace_of([HEADS["previous"], HEADS["first"], HEADS["induction"]], masks.causal()))
    assert [row.place for row in scored.best("induction", 1)] == ["0.2"]
    assert [row.head for row in scored.named("first")] == [1]
    assert scored.array("previous").shape == (1, 3) and scored.array("previous", "lift")[0, 0] == pytest.approx(1)
    with pytest.raises(ValueError, match=r"kind 'inducton' is not one of .* did you mean 'induction'"):
        scored.best("inducton")
    english, chinese = scored.show("en"), scored.show("zh")
    assert "0.0 1.00 (" in english and "previous token" in english and "前一个词元" in chinese
    assert str(scored) in (english, chinese)
    assert {row.name for row in scored.table} <= {*KINDS, "mixed", "none"}


def test_bytes_of_a_comma_are_punctuation():
    from qkv.text import Bytes
    from qkv.tracing.record.tokenizer_protocol import reader_of

    tokens = reader_of(Bytes.make()).tokens(Bytes.make().encode("你，b.c"))  # 3 + 3 + 1 + 1 + 1 bytes
    head = only(9, lambda i: [j for j in (3, 4, 5, 7) if j <= i])
    row = patterns(trace_of([head], masks.causal(), keys=tokens)).table[0]
    assert row.name == "punctuation" and row.scores["punctuation"].count == 6


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_all_is_computed_where_the_model_is(kind):
    torch.manual_seed(0)
    model = Transformer(Config(kind=kind, vocab=30, width=32, n_layer=2, n_head=4, position="alibi"))
    rows = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5]]
    recorded = trace(model, rows, target=[[7, 1, 8], [2, 8]] if kind == "encoder-decoder" else None)
    for part in recorded.parts:
        true = patterns(recorded, part=part, batch=1)
        with Elsewhere():
            same = patterns(recorded, part=part, batch=1)
        assert same.show("en") == true.show("en")


def shipped(name="cat-smollm2", part=None):
    """The heads of a trace that ships with the package."""
    from importlib.resources import files

    return Trace.load(str(files("qkv") / "demo" / "traces" / f"{name}.safetensors")).patterns(part=part)


def test_a_notebook_shows_a_short_table_and_everything_is_still_there():
    scored = shipped()
    assert len(repr(scored)) < 300 and "\n" not in repr(scored) and "270 heads" in repr(scored)
    assert max(len(repr(row)) for row in scored.table) < 120
    html = scored._repr_html_()
    assert html.count("<tr>") == 1 + len(scored.kinds) + 2 and len(html) < 6000
    assert len(scored.table) == 270 and all(set(row.scores) == set(scored.kinds) for row in scored.table)


def test_a_table_of_tokens_that_look_like_tags_is_safe():
    words = ("<b>", "</table>", "&amp;", *"abcdefgh")
    tokens = Tokens(words)
    scored = patterns(trace_of([only(11, lambda i: [1, 2])], masks.full(), keys=tokens))
    assert "<b>" not in scored._repr_html_() and "</table>" not in scored._repr_html_()[:-200].replace(
        "</table><p>", ""
    )


def both_wide(n=20):
    """A head that looks near, and near keys are the same few for all that can see others: two wide kinds, none clear."""
    return only(n, lambda i: [j for j in range(max(0, i - 2), i + 1)] if i < 6 else [0, 1, 2, i, i - 1, i - 2])


NEAREST = {
    "a real decoder": lambda: shipped(),
    "a real translator": lambda: shipped("weather-opus-zh-en", "cross"),
    "narrower": lambda: patterns(trace_of([HEADS["previous"], HEADS["self"]], masks.causal())),
    "two wide kinds": lambda: patterns(trace_of([both_wide()], masks.causal(), keys=tokens_of(WORDS[:20]))),
    "even": lambda: patterns(trace_of([np.full((N, N), 1 / N)], masks.full())),
    "short": lambda: patterns(trace_of([only(3, lambda i: [i - 1])], masks.causal(), keys=tokens_of(WORDS[:3]))),
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", NEAREST)
def test_where_no_head_is_named_the_nearest_is_explained(name, lang):
    """Whoever reads a score of 1.00 and no head beside it must find out why: counted elsewhere, or not enough, or unsure."""
    scored = NEAREST[name]()
    lines = dict(zip((*scored.kinds, "mixed", "none"), scored.show(lang, columns=200).splitlines()[1:-1], strict=True))
    for kind in scored.kinds:
        if scored.named(kind) or not scored.best(kind):
            continue
        row = scored.best(kind, 1)[0]
        score, value = row.scores[kind], f"{row.place} {row.scores[kind].value:.2f}"
        enough = score.value >= EVEN if kind == "uniform" else score.lift >= CLEAR
        if score.count < MIN_QUERIES:
            why = "highest: {head}, on {count} tokens only"
        elif not enough:
            why = (
                "highest: {head}, not even enough" if kind == "uniform" else "highest: {head}, too near to an even head"
            )
        else:
            why = (
                "highest: {head}, but another kind comes close"
                if row.name == "none"
                else "highest: {head}, counted as “{kind}”"
            )
            assert row.name == "none" or say(CALLED[row.name], lang) in lines[kind]
        sentence = say(why, lang, head="|", kind="|", count=score.count)
        assert value in lines[kind] and all(piece in lines[kind] for piece in sentence.split("|"))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("columns", [60, 100, 200])
def test_lines_fit_unless_a_single_head_is_wider(lang, columns):
    scored = shipped()
    lines = scored.show(lang, columns=columns).splitlines()[1:-1]
    alone = scored.show(lang, most=1, columns=columns).splitlines()[1:-1]
    for line, head in zip(lines, alone, strict=True):
        assert text_grid.width(line) <= columns or line == head
    assert sum(map(len, scored.show(lang, columns=400).splitlines())) > sum(map(len, alone))
