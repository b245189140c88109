"""Whole models of mixers: built from a pattern, generated from with a state, looked into, saved."""

import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv import Config, Transformer, masks
from qkv.cli import main
from qkv.draw.page import LIMIT
from qkv.draw.page_data import build_page_data
from qkv.generation import prefill
from qkv.generation.prefill import Reading
from qkv.i18n import Problem
from qkv.mixers import mix
from qkv.model.config_checks import MIXERS, layer_pattern, layer_words
from qkv.model.describe import parts, state_bytes
from qkv.tracing.study.edits import edit, find
from qkv.tracing.views.traces import Trace

PATTERNS = ["retention", "mamba2", "delta", "mamba2×2 attention", "attention (delta retention)×1"]
# What the published hybrids have: heads of other sizes than attention's, gates, parts of heads turned, no feed-forward.
SIZED: dict[str, Any] = dict(n_state_head=6, state_head_width=3, state_width=4)
NEXT: dict[str, Any] = dict(qk_norm="rms-centred", norm="rms-centred", attention_gate=True, rotary_fraction=0.5)
TEXT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def model_of(mixer, **more):
    torch.manual_seed(1)
    model = (
        Transformer(Config(vocab=20, width=16, n_layer=3, n_head=2, context=64, mixer=mixer, **more)).double().eval()
    )
    with torch.no_grad():  # weights of 0.02 say nothing
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    return model


@given(st.lists(st.tuples(st.sampled_from(MIXERS), st.integers(1, 4)), min_size=1, max_size=5), st.integers(1, 3))
def test_a_pattern_names_every_layer(parts, times):
    words = [word for word, count in parts for _ in range(count)] * times
    for sign in "×*":
        text = " ".join(f"{word}{sign}{count}" if count > 1 else word for word, count in parts)
        assert layer_words(f"({text}){sign} {times}", MIXERS, most=1000) == tuple(words)


@pytest.mark.parametrize(
    "wrong",
    ["mamba2×", "(mamba2", "mamba2)", "×3", "", "()", "mamba2×0", "mamba2**3", "mamba2×3×2", 5, "delta×" + "9" * 5000],
)
def test_a_pattern_that_is_none_is_refused(wrong):
    with pytest.raises(Problem, match="mixer"):
        Config(n_layer=3, mixer=wrong)


@pytest.mark.parametrize(
    "settings_, message",
    [
        (dict(mixer="mamba"), "did you mean 'mamba2'?"),
        (dict(mixer="mamba2×3 attention", n_layer=6), "names 4 layers, but n_layer is 6"),
        (dict(mixer="delta", window=3), "mixer 'delta' has no window"),
        (dict(mixer="delta", kind="encoder"), "reads from left to right"),
        (dict(mixer="mamba2", kind="encoder-decoder"), "reads from left to right"),
        (dict(mixer="delta", taps=0), "taps is 0"),
        (dict(mixer="delta", state_width=-1), "state_width is -1"),
        (dict(mixer="delta", n_state_head=0), "n_state_head is 0"),
        (dict(mixer="delta", attention_gate=True), "mixer 'delta' has no attention_gate"),
        (dict(mixer="attention", n_state_head=3), "mixer 'attention' keeps no state, so it has no n_state_head"),
        (dict(mixer="latent", state_head_width=3), "mixer 'latent' keeps no state, so it has no state_head_width"),
        (dict(mixer="retention", n_state_group=2), "the heads of retention share nothing"),
        (dict(mixer="mamba2", rotary_fraction=0.5), "rotary_fraction=0.5 is the share"),
        (dict(position="learned", rotary_fraction=0.5), "rotary_fraction=0.5 is the share"),
        (dict(rotary_fraction=1.5), "rotary_fraction is 1.5: give a share"),
        (dict(rotary_fraction=0.5, width=24, n_head=4), "rotary turns pairs: 6 × 0.5 is 3 numbers"),
        (dict(rotary_fraction="half"), "rotary_fraction is 'half': give a share"),
        (dict(attention_gate="yes"), "attention_gate is 'yes': give true or false"),
        (dict(feed_forward="none", hidden=8), "leave hidden=8 out"),
        (dict(kind="encoder", feed_forward="none", head="mlm"), "head 'mlm' has the activation"),
    ],
)
def test_what_does_not_fit_is_refused(settings_, message):
    with pytest.raises(Problem) as caught:
        Config(**settings_)
    assert message in str(caught.value)


@pytest.mark.parametrize("mixer", PATTERNS)
def test_what_is_generated_with_a_state_is_what_is_generated_without(mixer):
    model = model_of(mixer)
    prompts = [TEXT, TEXT[:2], TEXT[3:9]]
    options = dict(most=12, temperature=1.0, seed=5)
    assert model.generate(prompts, **options) == model.generate(prompts, **options, cache=False)
    alone = [model.generate([row], most=12, temperature=1.0, seed=5 + i)[0] for i, row in enumerate(prompts)]
    assert model.generate(prompts, **options) == alone


@pytest.mark.parametrize("mixer", PATTERNS)
@settings(deadline=None, max_examples=15)
@given(cut=st.integers(1, len(TEXT) - 1))
def test_prefix_plus_rest_equals_a_single_pass_and_later_tokens_change_nothing(mixer, cut):
    model, ids = model_of(mixer), torch.tensor([TEXT])
    with torch.no_grad():
        whole = model(ids)
        cache = model.new_cache(1, len(TEXT))
        parts = [model(ids[:, :cut], cache=cache), model(ids[:, cut:], cache=cache)]
        assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-10)
        changed = ids.clone()
        changed[0, cut:] = 7
        assert torch.allclose(model(changed)[:, :cut], whole[:, :cut], atol=1e-10)


@pytest.mark.parametrize("mixer", [*PATTERNS, "latent delta×2"])
@pytest.mark.parametrize("piece", [1, 4, 11])
def test_prompts_read_in_pieces_are_prompts_read_at_once(mixer, piece, monkeypatch):
    """Rows of different lengths: one ends inside the first piece, one at a piece's end, one goes on to the last."""
    model = model_of(mixer, **(dict(rank=6, rope_width=4) if "latent" in mixer else {}))
    prompts, new = [TEXT[:2], TEXT[:8], TEXT, TEXT[:3]], [torch.tensor([7, 7, 8, 1]), torch.tensor([2, 0, 3, 3])]
    monkeypatch.setattr(prefill, "PIECE", piece)
    pieces, whole = Reading(model, prompts, most=4), Reading(model, prompts, most=4, cache=False)
    for tokens in [None, *new]:
        for each in (pieces, whole) if tokens is not None else ():
            each.feed(tokens)
        assert torch.allclose(pieces.logits, whole.logits, atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    "mixer, more",
    [
        ("mamba2", SIZED | dict(n_state_group=3, feed_forward="none")),
        ("delta attention×2", SIZED | NEXT | dict(n_state_group=2, n_kv_head=1)),
        ("retention attention mamba2", SIZED | dict(rotary_fraction=0.25, feed_forward="none")),
    ],
)
def test_sizes_of_their_own(mixer, more):
    """Cached as uncached, padded as alone, and the state is as large as was asked for."""
    model, ids = model_of(mixer, **more), torch.tensor([TEXT])
    assert model.generate([TEXT, TEXT[:3]], most=9) == model.generate([TEXT, TEXT[:3]], most=9, cache=False)
    keep, at = torch.tensor([[False] * 2 + [True] * len(TEXT)]), torch.tensor([[0, 0, *range(len(TEXT))]])
    with torch.no_grad():
        close = torch.allclose(model(torch.tensor([[7, 7, *TEXT]]), mask=keep, at=at)[:, 2:], model(ids), atol=1e-10)
    assert close
    states = [cache.state.shape[1:] for cache in model.new_cache(1, 5).layers if hasattr(cache, "state")]
    assert states and set(states) == {(6, 4, 3)}
    assert model.count() == sum(part.parameters for part in parts(model)) == sum(p.numel() for p in model.parameters())
    numbers = sum(c.numbers for c in model.new_cache(1, 5).layers if hasattr(c, "state"))
    assert state_bytes(model) == 4 * numbers


@given(st.lists(st.sampled_from(MIXERS), min_size=1, max_size=12))
def test_a_pattern_is_read_back(words):
    pattern = layer_pattern(tuple(words))
    assert (
        layer_words(pattern, MIXERS, most=99) in (tuple(words), tuple(words[:1]))
        and len(pattern) <= len(" ".join(words)) + 4
    )
    assert Config(n_layer=len(words), mixer=pattern, width=64).mixers == tuple(words)


@pytest.mark.parametrize("mixer", PATTERNS)
def test_padding_changes_nothing(mixer):
    model = model_of(mixer)
    with torch.no_grad():
        alone = model(torch.tensor([TEXT]))
        after = model(torch.tensor([[*TEXT, 0, 0]]), mask=masks.padding([len(TEXT)]))
        real = torch.tensor([[False, False] + [True] * len(TEXT)])
        positions = torch.tensor([[0, 0, *range(len(TEXT))]])
        before = model(torch.tensor([[0, 0, *TEXT]]), mask=real, at=positions)
    assert torch.allclose(after[:, : len(TEXT)], alone, atol=1e-10)
    assert torch.allclose(before[:, 2:], alone, atol=1e-10)


@pytest.mark.parametrize("mixer", PATTERNS)
def test_a_map_s_row_times_v_is_what_mix_gives(mixer, tmp_path):
    model = model_of(mixer)
    trace = qkv.trace(model, TEXT)
    words = model.config.mixers
    assert trace.layers("mixers") == tuple(i for i, word in enumerate(words) if word != "attention")
    assert trace.parts == (["decoder"] if "attention" in words else []) + ["mixers"]
    trace.save(tmp_path / "trace.safetensors")
    again = Trace.load(tmp_path / "trace.safetensors")
    for layer in trace.layers("mixers"):
        call = trace.call(layer, "mixers")
        output, _ = mix(call.q, call.k, call.v, call.decay, write=call.write, scale=call.scale)
        for head in range(trace.n_head("mixers", layer)):
            table = trace.map(layer, head, part="mixers")
            assert np.allclose(table @ call.v[0, head].numpy(), output[0, head].detach().numpy(), atol=1e-5)
            assert np.allclose(trace.row(layer, head, 6, part="mixers"), table[6], atol=1e-6)
            assert np.allclose(trace.column(layer, head, 2, part="mixers"), table[:, 2], atol=1e-6)
            assert np.allclose(again.map(layer, head, part="mixers"), table, atol=1e-5)
            assert trace.difference(layer, head, part="mixers") < 1e-5
            steps = trace.steps(layer, head, part="mixers")
            assert np.allclose(steps.weights, table, atol=1e-6) and steps.difference < 1e-10
    weight = max(trace.find(8, 2, part="mixers", most=None), key=lambda row: abs(row[2]))
    assert weight == trace.find(8, 2, part="mixers")[0]


def test_a_long_text_is_traced_in_chunks_as_at_once(monkeypatch):
    model = model_of("mamba2 delta attention")
    whole = qkv.trace(model, TEXT)
    monkeypatch.setattr("qkv.tracing.record.chunking.CHUNK", 4)
    cut = qkv.trace(model, TEXT)
    for layer in (0, 1):
        assert np.allclose(whole.map(layer, 1, part="mixers"), cut.map(layer, 1, part="mixers"), atol=1e-6)
    assert np.allclose(whole.map(2, 1, part="decoder"), cut.map(2, 1, part="decoder"), atol=1e-6)


def test_a_head_is_switched_off():
    model = model_of("mamba2 attention delta")
    ids = torch.tensor([TEXT])
    with torch.no_grad(), edit(model, "mixers.2.1", "zero"):
        trace = qkv.trace(model, TEXT)
        off = model(ids)
    with torch.no_grad():
        assert not torch.allclose(off, model(ids), atol=1e-3)
    assert trace.layers("mixers") == (0, 2)


def test_a_head_s_contribution_needs_an_output_that_is_only_projected():
    """A norm and a gate follow a mixer, and a gate some attention: W_o's slice times Σ w·v is then nothing the model adds."""
    trace = qkv.trace(model_of("mamba2 attention delta"), TEXT)
    assert trace.contribution(1, 0, 3, part="decoder").shape == (16,) and list(trace.outputs) == ["decoder.1"]
    gated = qkv.trace(model_of("attention", attention_gate=True), TEXT)
    for traced, layer, part in ((trace, 0, "mixers"), (trace, 2, "mixers"), (gated, 1, "decoder")):
        for look in (traced.contribution, traced.norms):
            with pytest.raises(Problem, match="a gate or a norm stands between"):
                look(layer, 0, **({"query": 3} if look == traced.contribution else {}), part=part)


def test_signed_maps_are_refused_where_weights_must_sum_to_1():
    trace = qkv.trace(model_of("mamba2"), TEXT)
    for look in (trace.patterns, trace.rollout):
        with pytest.raises(Problem):
            look()


def test_a_layer_of_the_other_kind_is_refused_as_what_it_is():
    model = model_of("mamba2 attention delta")
    trace = qkv.trace(model, TEXT)
    for look in (lambda: trace.map(1, 0, part="mixers"), lambda: find(model, "mixers.1.0")):
        with pytest.raises(Problem, match="layer 1 is no mixer in this trace; these are: 0, 2"):
            look()
    with pytest.raises(Problem, match="layer 2 has no attention in this trace; these have: 1"):
        trace.map(2, 0)
    with pytest.raises(Problem, match="layer 2 has no attention in this trace; these have: 0"):  # not: it has 0 … 0
        qkv.trace(model_of("attention delta×2"), TEXT).map(2, 0)
    with pytest.raises(Problem, match="there is no layer 3: this model has 0 … 2"):
        qkv.trace(model_of("delta"), TEXT).map(3, 0)


@pytest.mark.parametrize("mixer", ["mamba2", "delta attention×2"])
def test_a_notebook_shows_them_on_the_page(mixer):
    trace = qkv.trace(model_of(mixer), TEXT)
    assert trace._repr_html_().startswith("<iframe")
    parts = build_page_data(trace, LIMIT).header["parts"]
    assert [part["name"] for part in parts] == trace.parts and parts[-1]["signed"]


def test_the_description_has_the_size_of_the_state():
    text = model_of("mamba2×2 attention").describe("en")
    assert "mixers" in text and "State of the mixers" in text and "KV cache" in text
    assert "KV cache" not in model_of("delta").describe("en")
    for mixer, heads in (("mamba2", "4"), ("delta", "2"), ("mamba2×2 delta", "4/2"), ("mamba2×2 attention", "2")):
        assert f"width 16, {heads} heads" in model_of(mixer).describe("en")


@pytest.mark.parametrize("mixer", ["retention", "mamba2 delta"])
def test_a_run_is_looked_into(mixer, tmp_path, capsys):
    text, run, picture = tmp_path / "book.txt", tmp_path / "run", tmp_path / "map.png"
    text.write_text("the cat sat on the mat. the dog sat on the log. " * 40, encoding="utf-8")
    own = ["width=16", "n_head=2", "n_layer=2", f"mixer={mixer}", "context=16", "batch=2"]
    set_ = [word for each in own for word in ("--set", each)]
    assert main(["train", "lm", "--text", str(text), "--out", str(run), "--steps", "2", *set_, "--lang", "en"]) == 0
    assert "qk_norm" in capsys.readouterr().out  # what the preset had and a mixer has not gave way, and that is said
    look = ["see", "the cat sat", "--model", str(run), "--part", "mixers", "--from", "s", "--to", "c", "--lang", "en"]
    assert main([*look, "--png", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "rows don't add up to 1" in printed and picture.stat().st_size > 5000
    assert ("β" in printed) == ("delta" in mixer and "mixers layer 1" in printed)
    assert main([*look, "-o", str(tmp_path / "page.html")]) == 0
    match = re.search(r"mixers layer (\d), head (\d)", capsys.readouterr().out)
    header = json.loads(re.search(r'id="qkv-header">(.*?)</script>', (tmp_path / "page.html").read_text()).group(1))
    first, focus, (part,) = header["first"], header["focus"], header["parts"]
    assert [part["layers"][first["layer"]]["number"], first["head"]] == [int(number) for number in match.groups()]
    assert (focus["part"], first["query"], first["key"]) == ("mixers", focus["query"], focus["key"])
