"""Maps joined to characters and words: rows still add up to 1, and nothing is lost or moved."""

import numpy as np
import pytest
import torch

from qkv import Config, Transformer
from qkv.text import Bytes
from qkv.tracing.record.recorder import trace
from qkv.tracing.views.head_ranking import head_to_show, links
from qkv.tracing.views.token_labels import BY, Tokens
from qkv.tracing.views.word_map import locate_word, view

TEXT = "我 like 🙂 cats。"


@pytest.fixture(scope="module")
def recorded():
    torch.manual_seed(0)
    tokenizer = Bytes.make(["bos"])
    model = Transformer(Config(vocab=tokenizer.vocab, width=36, n_layer=2, n_head=6, n_kv_head=2))
    return trace(model, [[tokenizer.bos, *tokenizer.encode(TEXT)]], tokenizer)


@pytest.mark.parametrize("by", BY)
def test_rows_of_a_joined_map_add_up_to_1(recorded, by):
    joined = view(recorded, 1, 4, by)
    assert joined.weights.shape == (len(joined.queries), len(joined.keys)) == joined.allowed.shape
    np.testing.assert_allclose(joined.weights.sum(1), 1, atol=1e-6)
    assert (joined.weights[~joined.allowed] == 0).all() and joined.allowed.any(1).all()


def test_joined_weights_are_sums_over_keys_and_means_over_queries(recorded):
    joined, plain = view(recorded, 0, 2), recorded.map(0, 2)
    for i, (_, a, b) in enumerate(joined.queries):
        for j, (_, c, d) in enumerate(joined.keys):
            assert joined.weights[i, j] == pytest.approx(plain[a:b, c:d].sum(1).mean(), abs=1e-6)


def test_characters_are_whole_and_special_tokens_marked(recorded):
    names, keys = view(recorded, 0, 0).names
    assert names == keys == ["[BOS]", "我", *(c if c != " " else "␣" for c in TEXT[1:])]
    assert view(recorded, 0, 0).special[0] == [True] + [False] * len(TEXT)
    names, _ = view(recorded, 0, 0, "words").names
    assert names == ["[BOS]", "我", "like", "🙂", "cats", "。"]
    names, _ = view(recorded, 0, 0, "tokens").names
    assert names[:5] == ["[BOS]", "我₁", "我₂", "我₃", "␣"] and len(names) == len(recorded.tokens())


def test_a_word_stands_where_its_group_does():
    tokens = Tokens(("<E6><88>", "<91>", " cat", "s"), whole=(("我", 0, 2), (" cat", 2, 3), ("s", 3, 4)))
    assert locate_word(tokens, "我") == locate_word(tokens, "0") == (0, ("我", 0, 2))
    assert locate_word(tokens, "cats") == (2, ("s", 3, 4)) and locate_word(tokens, "cats", "words") == (
        1,
        ("cats", 2, 4),
    )
    assert locate_word(tokens, "我", "tokens") == (1, ("我₂", 1, 2))
    with pytest.raises(ValueError, match="by 'word' is not one of"):
        tokens.groups("word")


@pytest.mark.parametrize("by", BY)
def test_links_are_the_cells_of_the_maps(recorded, by):
    ranked = links(recorded, "。", "我", by)
    assert len(ranked) == 12 and [w for _, _, w in ranked] == sorted((w for _, _, w in ranked), reverse=True)
    row, column = locate_word(recorded.tokens(), "。", by)[0], locate_word(recorded.tokens(), "我", by)[0]
    for layer, head, weight in ranked:
        assert weight == pytest.approx(view(recorded, layer, head, by).weights[row, column], abs=1e-6)


def test_the_first_head_is_the_best_of_the_requested(recorded):
    ranked = links(recorded, 3, 1, "tokens")
    assert ranked == recorded.find(3, 1, most=None) == sorted(ranked, key=lambda row: (-row[2], row[:2]))
    for layer in (None, *recorded.layers()):
        for head in (None, *range(recorded.n_head())):
            among = [row for row in ranked if layer in (None, row[0]) and head in (None, row[1])]
            assert head_to_show(recorded, recorded.parts[0], layer, head, linked=ranked) == among[0][:2]
            first_head = head_to_show(recorded, recorded.parts[0], layer, head)
            looks = recorded.survey().heads[0]
            assert looks[first_head[0]][first_head[1]].telling == max(looks[at][h].telling for at, h, _ in among)
