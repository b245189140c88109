"""A followed trace is the same trace; what is told comes before it, layers come in their order, and it can be stopped."""

import pytest
import torch

from qkv import Config, Transformer
from qkv.attention import dispatch
from qkv.i18n import Problem
from qkv.tracing.record import chunking, hf_attention
from qkv.tracing.record.recorder import trace
from qkv.tracing.record.streaming import StreamStopped, apply_final_norm, logits_of_states, stream_trace
from tests.tracing.record.families import TRANSLATORS, build_family

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
TARGETS = [[1, 2, 3, 4, 5], [6, 7, 8]]
THEIRS = ("llama", "bert", "marian")


def ours(name):
    torch.manual_seed(0)
    sizes = dict(vocab=11, width=36, n_layer=3, n_head=6, context=40)
    return Transformer(Config(**sizes | CONFIGS[name])).eval()


def target(name, rows):
    return TARGETS[: len(rows)] if name == "translator" or name in TRANSLATORS else None


class EventLog:
    """Writes down what happens, in order."""

    def __init__(self, limit=99):
        self.events, self.calls, self.limit = [], {}, limit

    def on_start(self, heads, queries, keys):
        self.heads = {part: dict(layers) for part, layers in heads.items()}
        self.sides = {part: (list(queries[part]), list(keys[part])) for part in heads}
        self.events.append("start")

    def on_layer(self, part, layer, call):
        self.events.append((part, layer))
        self.calls[part, layer] = call

    def stop(self):
        return len(self.events) > self.limit

    def stream(self, *args, **options):
        return stream_trace(*args, on_start=self.on_start, on_layer=self.on_layer, stop=self.stop, **options)


def same(call, other):
    for name in ("q", "k", "v", "bias", "decay", "write"):
        if (value := getattr(call, name, None)) is not None:
            torch.testing.assert_close(value, getattr(other, name), atol=1e-5, rtol=1e-5)


def expect(log, recorded, plain):
    """What was told and heard is what the plain trace is, and so is the trace that came of it."""
    assert log.events[0] == "start"
    assert set(log.events[1:]) == {(part, layer) for part in plain.parts for layer in plain.layers(part)}
    assert len(log.events) == len(set(log.events))
    for part in plain.parts:
        assert log.heads[part] == {layer: plain.n_head(part, layer) for layer in plain.layers(part)}
        assert log.sides[part] == (plain.queries[part], plain.keys[part])
        assert recorded.layers(part) == plain.layers(part)
        assert (recorded.queries[part], recorded.keys[part]) == (plain.queries[part], plain.keys[part])
        for layer in plain.layers(part):
            assert log.calls[part, layer].name == recorded.call(layer, part).name
            same(log.calls[part, layer], plain.call(layer, part))
            same(recorded.call(layer, part), plain.call(layer, part))


@pytest.mark.parametrize("batch", [1, 2], ids=["one text", "two texts"])
@pytest.mark.parametrize("name", [*CONFIGS, *THEIRS])
def test_a_streamed_trace_is_the_same_trace(name, batch):
    model, rows = build_family(name) if name in THEIRS else ours(name), ROWS[:batch]
    log, plain = EventLog(), trace(model, rows, target=target(name, rows))
    expect(log, log.stream(model, rows, target=target(name, rows)), plain)
    if batch == 1 and len(plain.parts) == 1:
        assert log.events[1:] == [(plain.parts[0], layer) for layer in plain.layers()]


@pytest.mark.parametrize("name", ["decoder", "llama"])
def test_layers_arrive_while_the_model_runs(name):
    """Not after it: when the first layer is heard, the last block has not begun."""
    model = build_family(name) if name in THEIRS else ours(name)
    started, events = [], []
    last = model.model.layers[-1] if name in THEIRS else model.decoder[-1]
    hook = last.register_forward_pre_hook(lambda *_: started.append(True))
    stream_trace(model, ROWS[0], on_layer=lambda part, layer, call: events.append((layer, bool(started))))
    hook.remove()
    assert events == [(0, False), (1, False), (2, True)]


@pytest.mark.parametrize("name", ["decoder", "window", "alibi", "latent", "hybrid", "llama"])
def test_layers_of_a_long_text_arrive_in_its_last_chunk(name, monkeypatch):
    model = build_family(name) if name in THEIRS else ours(name)
    at_once = EventLog()
    whole = at_once.stream(model, ROWS[0], residuals=None if name in THEIRS else 4)
    monkeypatch.setattr(chunking, "CHUNK", 4)
    monkeypatch.setattr(chunking, "STREAMED", 4)
    log = EventLog()
    recorded = log.stream(model, ROWS[0], residuals=None if name in THEIRS else 4)
    expect(log, recorded, whole)
    for key in ("states", *(() if name in THEIRS else ("residuals",))):
        torch.testing.assert_close(recorded.more[key], whole.more[key], atol=1e-5, rtol=1e-5)


def test_texts_up_to_the_streaming_limit_are_not_cut(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK", 4)
    model, lengths = ours("decoder"), []
    hook = model.decoder[0].register_forward_pre_hook(lambda block, args: lengths.append(args[0].shape[1]))
    stream_trace(model, ROWS[0])
    trace(model, ROWS[0])
    hook.remove()
    assert lengths == [11, 3, 4, 4]


@pytest.mark.parametrize("name", ["decoder", "hybrid", "translator", "llama", "marian"])
def test_a_listener_can_stop(name):
    model = build_family(name) if name in THEIRS else ours(name)
    log = EventLog(limit=2)
    with pytest.raises(StreamStopped):
        log.stream(model, ROWS[0], target=target(name, ROWS[:1]))
    assert len(log.events) == 3
    assert dispatch._listeners == [] and hf_attention.listeners == [] and hf_attention._replaced == {}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    expect(
        again := EventLog(),
        again.stream(model, ROWS[0], target=target(name, ROWS[:1])),
        trace(model, ROWS[0], target=target(name, ROWS[:1])),
    )


def test_a_stop_holds_between_chunks_too(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK", 4)
    monkeypatch.setattr(chunking, "STREAMED", 4)
    answers = iter([False] * 4 + [True])
    with pytest.raises(StreamStopped):
        stream_trace(ours("decoder"), ROWS[0], stop=lambda: next(answers))


@pytest.mark.parametrize("name", ["decoder", "hybrid", "translator", "llama", "marian", "bert"])
def test_ids_that_come_after_the_text(name):
    model = build_family(name) if name in THEIRS else ours(name)
    targets = target(name, ROWS[:1])
    log = EventLog()
    recorded = log.stream(model, ROWS[0], target=targets, continuation=[7, 2])
    plain = trace(model, ROWS[0] if targets else [*ROWS[0], 7, 2], target=[[*targets[0], 7, 2]] if targets else None)
    expect(log, recorded, plain)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "translator"])
def test_words_come_from_states_and_the_lens_ends_in_them(name):
    model, ids = ours(name), torch.tensor(ROWS[:1])
    recorded = stream_trace(model, ROWS[0], residuals=3)
    with torch.no_grad():
        logits = model(ids)[0]
    torch.testing.assert_close(logits_of_states(model, recorded.more["states"][0]), logits, atol=1e-5, rtol=1e-5)
    lens = logits_of_states(model, apply_final_norm(model, recorded.more["residuals"]))
    assert lens.shape == (3, 11)
    torch.testing.assert_close(lens[-1], logits[3], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(lens[0], lens[-1], atol=1e-3)


def test_residuals_need_an_existing_token():
    with pytest.raises(Problem, match="no token 11: they count from 0 to 10"):
        stream_trace(ours("decoder"), ROWS[0], residuals=11)


def test_a_model_without_words_is_refused():
    model = Transformer(Config(kind="encoder", vocab=11, width=12, n_layer=1, n_head=2, head="none")).eval()
    with pytest.raises(Problem, match="states, not words"):
        logits_of_states(model, stream_trace(model, [1, 2, 3]).more["states"])


def test_the_states_of_theirs_are_what_their_head_reads():
    model = build_family("llama")
    recorded = stream_trace(model, ROWS[0], continuation=[4])
    with torch.no_grad():
        logits = model(torch.tensor([[*ROWS[0], 4]])).logits
        torch.testing.assert_close(model.lm_head(recorded.more["states"]), logits, atol=1e-5, rtol=1e-5)
