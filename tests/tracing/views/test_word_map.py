"""Maps joined to characters and words: rows still add up to 1, and nothing is lost or moved."""

import numpy as np
import pytest
import torch

from qkv import Config, Transformer
from qkv.text import Bytes
from qkv.tracing.record.recorder import trace
from qkv.tracing.views.head_ranking import first_shown, links
from qkv.tracing.views.token_labels import BY, Tokens
from qkv.tracing.views.word_map import stand, view

TEXT = "我 like 🙂 cats。"


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(0)
    tokenizer = Bytes.make(["bos"])
    model = Transformer(Config(vocab=tokenizer.vocab, width=36, n_layer=2, n_head=6, n_kv_head=2))
    return trace(model, [[tokenizer.bos, *tokenizer.encode(TEXT)]], tokenizer)


@pytest.mark.parametrize("by", BY)
def test_rows_of_a_joined_map_add_up_to_1(found, by):
    seen = view(found, 1, 4, by)
    assert seen.weights.shape == (len(seen.queries), len(seen.keys)) == seen.allowed.shape
    np.testing.assert_allclose(seen.weights.sum(1), 1, atol=1e-6)
    assert (seen.weights[~seen.allowed] == 0).all() and seen.allowed.any(1).all()


def test_joined_weights_are_sums_over_keys_and_means_over_queries(found):
    seen, plain = view(found, 0, 2), found.map(0, 2)
    for i, (_, a, b) in enumerate(seen.queries):
        for j, (_, c, d) in enumerate(seen.keys):
            assert seen.weights[i, j] == pytest.approx(plain[a:b, c:d].sum(1).mean(), abs=1e-6)


def test_characters_are_whole_and_special_tokens_known(found):
    names, keys = view(found, 0, 0).names
    assert names == keys == ["[BOS]", "我", *(c if c != " " else "␣" for c in TEXT[1:])]
    assert view(found, 0, 0).special[0] == [True] + [False] * len(TEXT)
    names, _ = view(found, 0, 0, "words").names
    assert names == ["[BOS]", "我", "like", "🙂", "cats", "。"]
    names, _ = view(found, 0, 0, "tokens").names
    assert names[:5] == ["[BOS]", "我₁", "我₂", "我₃", "␣"] and len(names) == len(found.tokens())


def test_a_word_stands_where_its_group_does():
    tokens = Tokens(("<E6><88>", "<91>", " cat", "s"), whole=(("我", 0, 2), (" cat", 2, 3), ("s", 3, 4)))
    assert stand(tokens, "我") == stand(tokens, "0") == (0, ("我", 0, 2))
    assert stand(tokens, "cats") == (2, ("s", 3, 4)) and stand(tokens, "cats", "words") == (1, ("cats", 2, 4))
    assert stand(tokens, "我", "tokens") == (1, ("我₂", 1, 2))
    with pytest.raises(ValueError, match="by 'word' is not one of"):
        tokens.groups("word")


@pytest.mark.parametrize("by", BY)
def test_links_are_the_cells_of_the_maps(found, by):
    ranked = links(found, "。", "我", by)
    assert len(ranked) == 12 and [w for _, _, w in ranked] == sorted((w for _, _, w in ranked), reverse=True)
    row, column = stand(found.tokens(), "。", by)[0], stand(found.tokens(), "我", by)[0]
    for layer, head, weight in ranked:
        assert weight == pytest.approx(view(found, layer, head, by).weights[row, column], abs=1e-6)


def test_the_head_shown_first_is_the_best_of_those_asked_for(found):
    ranked = links(found, 3, 1, "tokens")
    assert ranked == found.find(3, 1, most=None) == sorted(ranked, key=lambda row: (-row[2], row[:2]))
    for layer in (None, *found.layers()):
        for head in (None, *range(found.n_head())):
            among = [row for row in ranked if layer in (None, row[0]) and head in (None, row[1])]
            assert first_shown(found, found.parts[0], layer, head, linked=ranked) == among[0][:2]
            shown = first_shown(found, found.parts[0], layer, head)
            looks = found.survey().heads[0]
            assert looks[shown[0]][shown[1]].telling == max(looks[at][h].telling for at, h, _ in among)
