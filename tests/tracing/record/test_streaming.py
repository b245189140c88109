"""A followed trace is the same trace; what is told comes before it, layers come in their order, and it can be stopped."""

import pytest
import torch

from qkv import Config, Transformer
from qkv.attention import dispatch
from qkv.i18n import Problem
from qkv.tracing.record import chunking, hf_attention
from qkv.tracing.record.recorder import trace
from qkv.tracing.record.streaming import StreamStopped, follow, normed, says
from tests.tracing.record.families import TRANSLATORS, made

CONFIGS = {
    "decoder": dict(n_kv_head=2),
    "window": dict(window=3),
    "alibi": dict(position="alibi"),
    "after-norm": dict(norm_place="post"),
    "encoder": dict(kind="encoder", position="learned"),
    "translator": dict(kind="encoder-decoder", position="sinusoidal"),
    "latent": dict(mixer="latent", rank=12, rope_width=4),
    "hybrid": dict(mixer="delta attention retention"),
}
ROWS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8]]
SAID = [[1, 2, 3, 4, 5], [6, 7, 8]]
THEIRS = ("llama", "bert", "marian")


def ours(name):
    torch.manual_seed(0)
    sizes = dict(vocab=11, width=36, n_layer=3, n_head=6, context=40)
    return Transformer(Config(**sizes | CONFIGS[name])).eval()


def target(name, rows):
    return SAID[: len(rows)] if name == "translator" or name in TRANSLATORS else None


class Ear:
    """Writes down what happens, in order."""

    def __init__(self, most=99):
        self.events, self.calls, self.most = [], {}, most

    def told(self, heads, queries, keys):
        self.heads = {part: dict(layers) for part, layers in heads.items()}
        self.sides = {part: (list(queries[part]), list(keys[part])) for part in heads}
        self.events.append("told")

    def heard(self, part, layer, call):
        self.events.append((part, layer))
        self.calls[part, layer] = call

    def stop(self):
        return len(self.events) > self.most

    def follow(self, *given, **options):
        return follow(*given, told=self.told, heard=self.heard, stop=self.stop, **options)


def same(call, other):
    for name in ("q", "k", "v", "bias", "decay", "write"):
        if (value := getattr(call, name, None)) is not None:
            torch.testing.assert_close(value, getattr(other, name), atol=1e-5, rtol=1e-5)


def expect(ear, found, plain):
    """What was told and heard is what the plain trace is, and so is the trace that came of it."""
    assert ear.events[0] == "told"
    assert set(ear.events[1:]) == {(part, layer) for part in plain.parts for layer in plain.layers(part)}
    assert len(ear.events) == len(set(ear.events))
    for part in plain.parts:
        assert ear.heads[part] == {layer: plain.n_head(part, layer) for layer in plain.layers(part)}
        assert ear.sides[part] == (plain.queries[part], plain.keys[part])
        assert found.layers(part) == plain.layers(part)
        assert (found.queries[part], found.keys[part]) == (plain.queries[part], plain.keys[part])
        for layer in plain.layers(part):
            assert ear.calls[part, layer].name == found.call(layer, part).name
            same(ear.calls[part, layer], plain.call(layer, part))
            same(found.call(layer, part), plain.call(layer, part))


@pytest.mark.parametrize("batch", [1, 2], ids=["one text", "two texts"])
@pytest.mark.parametrize("name", [*CONFIGS, *THEIRS])
def test_a_followed_trace_is_the_same_trace(name, batch):
    model, rows = made(name) if name in THEIRS else ours(name), ROWS[:batch]
    ear, plain = Ear(), trace(model, rows, target=target(name, rows))
    expect(ear, ear.follow(model, rows, target=target(name, rows)), plain)
    if batch == 1 and len(plain.parts) == 1:
        assert ear.events[1:] == [(plain.parts[0], layer) for layer in plain.layers()]


@pytest.mark.parametrize("name", ["decoder", "llama"])
def test_layers_are_heard_while_the_model_runs(name):
    """Not after it: when the first layer is heard, the last block has not begun."""
    model = made(name) if name in THEIRS else ours(name)
    begun, seen = [], []
    last = model.model.layers[-1] if name in THEIRS else model.decoder[-1]
    hook = last.register_forward_pre_hook(lambda *_: begun.append(True))
    follow(model, ROWS[0], heard=lambda part, layer, call: seen.append((layer, bool(begun))))
    hook.remove()
    assert seen == [(0, False), (1, False), (2, True)]


@pytest.mark.parametrize("name", ["decoder", "window", "alibi", "latent", "hybrid", "llama"])
def test_a_long_text_is_heard_in_its_last_chunk(name, monkeypatch):
    model = made(name) if name in THEIRS else ours(name)
    at_once = Ear()
    whole = at_once.follow(model, ROWS[0], residuals=None if name in THEIRS else 4)
    monkeypatch.setattr(chunking, "CHUNK", 4)
    monkeypatch.setattr(chunking, "FOLLOWED", 4)
    ear = Ear()
    found = ear.follow(model, ROWS[0], residuals=None if name in THEIRS else 4)
    expect(ear, found, whole)
    for kept in ("states", *(() if name in THEIRS else ("residuals",))):
        torch.testing.assert_close(found.more[kept], whole.more[kept], atol=1e-5, rtol=1e-5)


def test_texts_up_to_what_is_followed_are_not_cut(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK", 4)
    model, lengths = ours("decoder"), []
    hook = model.decoder[0].register_forward_pre_hook(lambda block, given: lengths.append(given[0].shape[1]))
    follow(model, ROWS[0])
    trace(model, ROWS[0])
    hook.remove()
    assert lengths == [11, 3, 4, 4]


@pytest.mark.parametrize("name", ["decoder", "hybrid", "translator", "llama", "marian"])
def test_whoever_follows_can_stop(name):
    model = made(name) if name in THEIRS else ours(name)
    ear = Ear(most=2)
    with pytest.raises(StreamStopped):
        ear.follow(model, ROWS[0], target=target(name, ROWS[:1]))
    assert len(ear.events) == 3
    assert dispatch._recorders == [] and hf_attention.listeners == [] and hf_attention._replaced == {}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    expect(
        again := Ear(),
        again.follow(model, ROWS[0], target=target(name, ROWS[:1])),
        trace(model, ROWS[0], target=target(name, ROWS[:1])),
    )


def test_a_stop_holds_between_chunks_too(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK", 4)
    monkeypatch.setattr(chunking, "FOLLOWED", 4)
    asked = iter([False] * 4 + [True])
    with pytest.raises(StreamStopped):
        follow(ours("decoder"), ROWS[0], stop=lambda: next(asked))


@pytest.mark.parametrize("name", ["decoder", "hybrid", "translator", "llama", "marian", "bert"])
def test_ids_that_come_after_the_text(name):
    model = made(name) if name in THEIRS else ours(name)
    said = target(name, ROWS[:1])
    ear = Ear()
    found = ear.follow(model, ROWS[0], target=said, more=[7, 2])
    plain = trace(model, ROWS[0] if said else [*ROWS[0], 7, 2], target=[[*said[0], 7, 2]] if said else None)
    expect(ear, found, plain)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "translator"])
def test_words_come_from_states_and_the_lens_ends_in_them(name):
    model, ids = ours(name), torch.tensor(ROWS[:1])
    found = follow(model, ROWS[0], residuals=3)
    with torch.no_grad():
        logits = model(ids)[0]
    torch.testing.assert_close(says(model, found.more["states"][0]), logits, atol=1e-5, rtol=1e-5)
    lens = says(model, normed(model, found.more["residuals"]))
    assert lens.shape == (3, 11)
    torch.testing.assert_close(lens[-1], logits[3], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(lens[0], lens[-1], atol=1e-3)


def test_a_stream_is_followed_where_there_is_a_token():
    with pytest.raises(Problem, match="no token 11: they count from 0 to 10"):
        follow(ours("decoder"), ROWS[0], residuals=11)


def test_a_model_without_words_says_so():
    model = Transformer(Config(kind="encoder", vocab=11, width=12, n_layer=1, n_head=2, head="none")).eval()
    with pytest.raises(Problem, match="states, not words"):
        says(model, follow(model, [1, 2, 3]).more["states"])


def test_the_states_of_theirs_are_what_their_head_reads():
    model = made("llama")
    found = follow(model, ROWS[0], more=[4])
    with torch.no_grad():
        logits = model(torch.tensor([[*ROWS[0], 4]])).logits
        torch.testing.assert_close(model.lm_head(found.more["states"]), logits, atol=1e-5, rtol=1e-5)
