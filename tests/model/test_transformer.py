"""The model is what it says: torch's own layers with the same weights, causal, blind to padding, cached = uncached."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from qkv import Config, Transformer, masks, record
from qkv.attention import MultiHeadAttention
from qkv.model.presets import PRESETS
from tests.formats.cases import SHAPES, make, words

NAMES = list(SHAPES)
SHIFTABLE = [name for name in NAMES if not name.startswith(("learned", "sinusoidal")) and "learned" not in name]


def copy_attention(theirs, ours):
    converted = MultiHeadAttention.from_torch(theirs)
    ours.load_state_dict(converted.state_dict())


def copy_layer(theirs, block):
    """The weights of nn.TransformerEncoderLayer or nn.TransformerDecoderLayer into one of our blocks."""
    copy_attention(theirs.self_attn, block.attention)
    norms = [block.attention_norm, block.feed_forward_norm]
    if block.cross is not None:
        copy_attention(theirs.multihead_attn, block.cross)
        norms.insert(1, block.cross_norm)
    for i, norm in enumerate(norms):
        norm.load_state_dict(getattr(theirs, f"norm{i + 1}").state_dict())
    block.feed_forward.up.load_state_dict(theirs.linear1.state_dict())
    block.feed_forward.down.load_state_dict(theirs.linear2.state_dict())


def unsettle(module):
    """Norms and biases start at 1 and 0, where mistakes don't show."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


@pytest.mark.parametrize(
    ("norm_place", "activation"), [("post", "relu"), ("pre", "relu"), ("post", "gelu"), ("pre", "gelu")]
)
def test_the_classic_encoder_layer_is_torchs(norm_place, activation):
    config = PRESETS["classic"].replace(
        width=24, n_head=3, hidden=40, n_layer=1, vocab=11, dropout=0.0, norm_place=norm_place, feed_forward=activation
    )
    theirs = nn.TransformerEncoderLayer(
        24,
        3,
        40,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm_place == "pre",
        dtype=torch.float64,
    )
    unsettle(theirs)
    ours = Transformer(config).double().encoder[0]
    copy_layer(theirs, ours)
    x, y = (torch.randn(3, 7, 24, dtype=torch.float64).requires_grad_() for _ in range(2))
    y.data.copy_(x.data)
    lengths = torch.tensor([7, 4, 1])
    hidden = torch.arange(7) >= lengths[:, None]
    real = ~hidden[..., None]
    a = ours(x, masks.padding(lengths)) * real
    b = theirs(y, src_key_padding_mask=hidden) * real
    assert_close(a, b)
    grow = torch.randn_like(a)
    (a * grow).sum().backward()
    (b * grow).sum().backward()
    assert_close(x.grad, y.grad)
    assert_close(ours.feed_forward.up.weight.grad, theirs.linear1.weight.grad)
    assert_close(
        torch.cat([ours.attention.q.weight.grad, ours.attention.k.weight.grad, ours.attention.v.weight.grad]),
        theirs.self_attn.in_proj_weight.grad,
    )
    assert_close(ours.attention_norm.weight.grad, theirs.norm1.weight.grad)


@pytest.mark.parametrize("norm_place", ["post", "pre"])
def test_the_decoder_layer_is_torchs(norm_place):
    config = PRESETS["classic"].replace(
        kind="encoder-decoder", width=24, n_head=3, hidden=40, n_layer=1, vocab=11, dropout=0.0, norm_place=norm_place
    )
    theirs = nn.TransformerDecoderLayer(
        24, 3, 40, dropout=0.0, batch_first=True, norm_first=norm_place == "pre", dtype=torch.float64
    )
    unsettle(theirs)
    ours = Transformer(config).double().decoder[0]
    copy_layer(theirs, ours)
    x, memory = torch.randn(2, 5, 24, dtype=torch.float64), torch.randn(2, 9, 24, dtype=torch.float64)
    lengths = torch.tensor([9, 4])
    first, second = memory.clone().requires_grad_(), memory.clone().requires_grad_()
    a = ours(x, masks.causal(), first, masks.padding(lengths))
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    b = theirs(x, second, tgt_mask=future, memory_key_padding_mask=torch.arange(9) >= lengths[:, None])
    assert_close(a, b)
    (a * x).sum().backward()
    (b * x).sum().backward()
    assert_close(first.grad, second.grad)
    assert_close(ours.cross.out.weight.grad, theirs.multihead_attn.out_proj.weight.grad)


@pytest.mark.parametrize("norm_place", ["post", "pre"])
def test_the_classic_encoder_is_torchs_stack(norm_place):
    """Six layers of it, embeddings and positions in front, torch's final norm where norms come first."""
    config = PRESETS["classic"].replace(width=16, n_head=2, hidden=24, n_layer=3, vocab=11, norm_place=norm_place)
    model = Transformer(config).double().eval()
    layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, norm_first=norm_place == "pre", dtype=torch.float64)
    theirs = nn.TransformerEncoder(
        layer,
        3,
        norm=nn.LayerNorm(16, dtype=torch.float64) if norm_place == "pre" else None,
        enable_nested_tensor=False,
    ).eval()
    unsettle(theirs)
    for block, copy in zip(model.encoder, theirs.layers, strict=True):
        copy_layer(copy, block)
    if norm_place == "pre":
        model.encoder_norm.load_state_dict(theirs.norm.state_dict())
    ids = words(2, 5, vocab=11)
    from qkv.attention.oracle import sinusoid

    x = model.embedding(ids) * 512**0.5 + torch.from_numpy(sinusoid(5, 16))
    assert_close(model(ids), theirs(x) @ model.embedding.weight.T)


@pytest.mark.parametrize("name", NAMES)
def test_a_later_token_changes_no_earlier_logit(name):
    model = make(name)
    ids = words(2, 11)
    before = model(ids)
    for start in (1, 6, 10):
        changed = ids.clone()
        changed[:, start:] = (changed[:, start:] + 5) % 37
        after = model(changed)
        assert_close(after[:, :start], before[:, :start])
        assert not torch.allclose(after[:, start], before[:, start])


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder"])
def test_an_encoder_attends_in_both_directions(kind):
    model = make("rotary", kind)
    ids = words(1, 7)
    changed = ids.clone()
    changed[0, 6] = (changed[0, 6] + 1) % 37
    assert not torch.allclose(model.encode(ids)[0, 0], model.encode(changed)[0, 0])


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", NAMES)
def test_padding_on_the_right_changes_nothing(name, kind):
    model = make(name, kind)
    lengths = [9, 1, 5]
    rows = [words(1, n, seed=n) for n in lengths]
    padded = torch.cat([torch.cat([row, words(1, 12 - row.shape[1], seed=99)], 1) for row in rows])
    logits = model(padded, mask=masks.padding(torch.tensor(lengths)))
    for item, row in enumerate(rows):
        assert_close(logits[item, : lengths[item]], model(row)[0])


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", SHIFTABLE)
def test_left_padding_changes_nothing_with_relative_positions(name, kind):
    model = make(name, kind)
    lengths = [9, 1, 5]
    rows = [words(1, n, seed=n) for n in lengths]
    padded = torch.cat([torch.cat([words(1, 12 - row.shape[1], seed=99), row], 1) for row in rows])
    real = torch.arange(12) >= 12 - torch.tensor(lengths)[:, None]
    logits = model(padded, mask=real)
    for item, row in enumerate(rows):
        assert_close(logits[item, 12 - lengths[item] :], model(row)[0])


def test_padding_of_the_source_changes_nothing():
    model = make("rotary", "encoder-decoder")
    sources, target = [words(1, n, seed=n) for n in (6, 2)], words(2, 4)
    padded = torch.cat([torch.cat([row, words(1, 8 - row.shape[1], seed=7)], 1) for row in sources])
    logits = model(target, padded, source_mask=masks.padding(torch.tensor([6, 2])))
    for item, row in enumerate(sources):
        assert_close(logits[item], model(target[item : item + 1], row)[0])


@pytest.mark.parametrize("chunk", [1, 3, 13])
@pytest.mark.parametrize("name", NAMES)
def test_cached_is_uncached(name, chunk):
    model = make(name)
    ids = words(2, 13)
    cache = model.new_cache(2, 13)
    states = [model.decode(part, cache=cache) for part in ids.split(chunk, 1)]
    assert_close(torch.cat(states, 1), model.decode(ids))
    cache.reset()
    assert_close(model.decode(ids[:, :4], cache=cache), model.decode(ids[:, :4]))


@pytest.mark.parametrize("name", NAMES)
def test_cached_is_uncached_for_items_of_different_length(name):
    model = make(name)
    rows = [words(1, n, seed=n) for n in (9, 6, 7)]
    cache = model.new_cache(3, 12)
    first = torch.cat(
        [torch.cat([row[:, :n], words(1, 5 - n, seed=50)], 1) for row, n in zip(rows, (5, 2, 3), strict=True)]
    )
    cache.expect([5, 2, 3])
    first_states = model.decode(first, cache=cache)
    for item, n in enumerate((5, 2, 3)):
        assert_close(first_states[item, :n], model.decode(rows[item])[0, :n])
    for step in range(4):
        now = torch.cat([row[:, n + step : n + step + 1] for row, n in zip(rows, (5, 2, 3), strict=True)])
        states = model.decode(now, cache=cache)
        for item, n in enumerate((5, 2, 3)):
            assert_close(states[item, 0], model.decode(rows[item])[0, n + step])


@pytest.mark.parametrize("name", [name for name in NAMES if "window" not in name or "GQA" in name])
def test_an_encoder_decoder_cached_is_uncached(name):
    model = make(name, "encoder-decoder")
    source, target, lengths = words(2, 6), words(2, 7, seed=1), torch.tensor([6, 3])
    rule = masks.padding(lengths)
    whole = model(target, source, source_mask=rule)
    memory = model.encode(source, rule)
    cache = model.new_cache(2, 7, memory=6)
    parts = [model.head(model.decode(part, memory, memory_mask=rule, cache=cache)) for part in target.split(2, 1)]
    assert_close(torch.cat(parts, 1), whole)


@given(st.permutations(range(3)), st.integers(1, 6))
def test_a_reordered_cache_continues_the_other_text(order, split):
    model = make("rotary, GQA")
    ids, index = words(3, 7), torch.tensor(order)
    cache = model.new_cache(3, 7)
    model.decode(ids[:, :split], cache=cache)
    cache.reorder(index)
    assert_close(model.decode(ids[index, split:], cache=cache), model.decode(ids[index])[:, split:])


def test_tied_weights_are_a_single_parameter():
    tied, loose = (Transformer(Config(vocab=50, width=16, n_head=2, tied=tied)) for tied in (True, False))
    assert tied.head.weight is tied.embedding.weight
    assert loose.count() - tied.count() == 50 * 16
    tied(torch.tensor([[1, 2]])).sum().backward()
    assert tied.embedding.weight.grad is tied.head.weight.grad


@pytest.mark.parametrize(
    ("kind", "sides"),
    [("decoder", ["decoder"]), ("encoder", ["encoder"]), ("encoder-decoder", ["encoder", "decoder", "cross"])],
)
@pytest.mark.parametrize("name", ["rotary", "latent"])
def test_every_attention_has_a_name(kind, sides, name):
    model = make(name, kind, n_layer=3)
    with record() as calls:
        model(words(1, 4), words(1, 5)) if kind == "encoder-decoder" else model(words(1, 4))
    assert sorted(call.name for call in calls) == sorted(f"{side}.{i}" for side in sides for i in range(3))


@pytest.mark.parametrize("init", ["normal", "zero-out", "torch"])
def test_a_new_model_guesses_about_evenly(init):
    model = Transformer(Config(vocab=64, width=48, n_head=4, init=init, tied=init != "zero-out"))
    loss = nn.functional.cross_entropy(model(words(4, 16, vocab=64)).flatten(0, 1), words(64, seed=3, vocab=64))
    assert 3.5 < loss.item() < 6.0  # ln 64 = 4.16


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="give the source tokens too"):
        make("rotary", "encoder-decoder")(words(1, 3))
    with pytest.raises(ValueError, match=r"give \(batch, tokens\)"):
        make("rotary")(words(3))
    with pytest.raises(ValueError, match="only 40 were learned"):
        make("learned")(words(1, 41))


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", NAMES)
def test_left_padding_with_positions_changes_nothing(name, kind):
    model, ids = make(name, kind), words(2, 9)
    padded = torch.cat([words(2, 4, seed=1), ids], 1)
    is_real = torch.arange(13) >= 4
    at = (torch.arange(13) - 4).clamp(min=0).expand(2, -1)
    assert_close(model(padded, mask=is_real.expand(2, -1), at=at)[:, 4:], model(ids))
    assert_close(model(ids, at=torch.arange(9).expand(2, -1)), model(ids))


@pytest.mark.parametrize("name", NAMES)
def test_left_padding_changes_nothing_with_a_cache(name):
    model, ids = make(name), words(2, 9)
    padded, is_real = torch.cat([words(2, 4, seed=1), ids], 1), (torch.arange(13) >= 4).expand(2, -1)
    at, cache = (torch.arange(13) - 4).clamp(min=0).expand(2, -1), model.new_cache(2, 13)

    def read(a, b):
        return model.decode(padded[:, a:b], mask=is_real[:, :b], at=at[:, a:b], cache=cache)

    if name.startswith(("alibi", "relative")):  # which are told distances, and take them from the order of the keys
        with pytest.raises(ValueError, match="leave `at` out"):
            read(0, 6)
        return
    states = torch.cat([read(a, b) for a, b in ((0, 6), (6, 8), (8, 9), (9, 10), (10, 13))], 1)
    assert_close(states[:, 4:], model.decode(ids))


def test_positions_with_gaps_equal_a_masked_text():
    """Tokens taken out of a longer text keep their places: what is far stays far."""
    for name in ("rotary", "alibi", "relative", "latent"):
        model, ids, positions = make(name), words(1, 12), torch.tensor([[0, 1, 7, 8, 11]])
        visible = torch.zeros(1, 12, dtype=torch.bool).index_fill(1, positions[0], True)
        whole = model(ids, mask=visible)[:, positions[0]]
        assert_close(model(ids[:, positions[0]], at=positions), whole)
        assert not torch.allclose(model(ids[:, positions[0]]), whole, atol=1e-4)


def test_each_side_may_have_its_own_positions_and_norm():
    model = make("learned", "encoder-decoder", sides="own", embedding_norm=True, n_decoder_layer=3)
    assert len(model.encoder) == 2 and len(model.decoder) == 3
    source, target = words(1, 5), words(1, 6, seed=1)
    memory, before = model.encode(source), model(target, source)
    for parameter in (model.decoder_position.table, model.decoder_embedding_norm.weight):
        is_real = parameter.data
        parameter.data = is_real.flip(-1)
        assert torch.equal(model.encode(source), memory)
        assert not torch.allclose(model(target, source), before)
        parameter.data = is_real
    assert make("learned", "encoder-decoder").decoder_position is None


def test_a_scale_of_its_own_and_a_bias_of_the_logits():
    plain = make("rotary")
    for changes, change in (
        (dict(attention_scale=6**-0.5), lambda logits: logits),
        (dict(output_scale=0.25), lambda logits: logits / 4),
        (dict(head_bias=True), lambda logits: logits + torch.arange(37)),
    ):
        other = Transformer(plain.config.replace(**changes)).double().eval()
        missing = other.load_state_dict(plain.state_dict(), strict=False).missing_keys
        assert missing == (["head.bias"] if "head_bias" in changes else [])
        if missing:
            other.head.bias.data = torch.arange(37).double()
        assert_close(other(words(1, 7)), change(plain(words(1, 7))))


def test_an_encoder_without_a_head_gives_states_and_a_summary():
    model = make("learned", "encoder", head="none", pooler=True)
    states = model(words(2, 5))
    assert torch.equal(states, model.encode(words(2, 5)))
    assert_close(model.pool(states), (states[:, 0] @ model.pooler.weight.T + model.pooler.bias).tanh())
    with pytest.raises(ValueError, match="has no pooler"):
        make("learned", "encoder").pool(states)
