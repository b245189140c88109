"""Every model type of transformers: our maps are its own eager maps, or it is refused with a sentence; never a wrong map.

The fast run takes some of each kind; the slow one all that can be built small (`make test-all`), and holds docs/huggingface.md
to what it finds.
"""

import re
import warnings

import numpy as np
import pytest
import torch
import transformers

from qkv.i18n import Problem
from qkv.tracing.record import hf_attention, recorder
from qkv.tracing.record.hf_attention import Untraceable
from tests.tracing.record import zoo
from tools.make_huggingface_docs import FILES, page, read_outcomes

ENCODER_DECODERS = (
    "bart blenderbot encoder-decoder m2m_100 marian mbart mt5 nllb-moe pegasus plbart seamless_m4t seamless_m4t_v2 t5gemma"
).split()
SAMPLE = {
    "traced": [
        *ENCODER_DECODERS,
        *"bamba jamba kimi_linear minimax qwen3_next zamba2".split(),  # layers of several kinds
        *"afmoe doge deepseek_v32 hy_v4 gpt_oss".split(),  # masks, sinks and names of their own
        *"albert clip modernbert paligemma vit whisper".split(),  # shared layers, two towers, pictures, sound
    ],
    "eager": "bloom falcon mpt gptj gpt_neo deberta mpnet roformer xlnet big_bird diffllama reformer".split(),
    "refused": "longformer funnel squeezebert mamba t5gemma2".split(),
    "unreadable": ["blip"],
}


def trace(model, batch, **more):
    """qkv.trace, with the dice that `zoo.own` has."""
    torch.manual_seed(3)
    return recorder.trace(model, batch, **more)


def state(model):
    """All that tracing could leave behind."""
    return (
        [(id(c), c._attn_implementation) for c in hf_attention.configs_of(model)],
        [module.training for module in model.modules()],
        [(len(m._forward_hooks), len(m._forward_pre_hooks), sorted(vars(m))) for m in model.modules()],
        dict(hf_attention._replaced),
        transformers.AttentionInterface.get_interface,
        list(hf_attention.listeners),
    )


def same(recorded, tables, tolerance=1e-5):
    """Are the maps of a trace the model's own, part by part and layer by layer?"""
    first, apart = None, 0.0
    parts = [
        part for part in recorded.parts if part != "mixers"
    ]  # whose weights no model hands out: tests/mixers/test_theirs.py
    for part in parts:
        theirs = tables.get(f"{part}_attentions", tables.get("attentions", []))
        n, m = (len(recorded.tokens(part, keys=keys)) for keys in (False, True))
        theirs = [table for table in theirs if table.shape[2:] == (n, m)]  # MiniMax lists its states among them
        assert len(theirs) == recorded.n_layer(part), part
        for layer, table in zip(recorded.layers(part), theirs, strict=True):
            assert table.shape[1] == recorded.call(layer, part).q.shape[1]
            for head in range(table.shape[1]):
                ours, own = recorded.map(layer, head, part=part), table[0, head].float().numpy()
                if recorded.call(layer, part).sinks is not None and np.allclose(own.sum(-1), 1, atol=1e-4):
                    ours = ours / ours.sum(-1, keepdims=True)  # Granite leaves the sink's share out of what it tells
                np.testing.assert_allclose(ours, own, atol=tolerance, rtol=0, err_msg=f"{part} {layer}.{head}")
                first = ours if first is None or first.shape != ours.shape else first
                apart = max(apart, float(np.abs(ours - first).max()))
    assert apart > 100 * tolerance or not parts, "heads must look at different places for this to mean anything"
    assert {part for part in ("encoder", "cross") if tables.get(f"{part}_attentions")} <= set(recorded.parts)


def attention_layers(config):
    """The layers that have weights, by the model's own word."""
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        return None
    return tuple(i for i, kind in enumerate(kinds) if not zoo.WITHOUT.search(kind))


def outcome(kind):
    """How a type fares: traced, eager, refused (and why) or unreadable. Everything that is said is checked on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = zoo.build(kind)
        batch = zoo.readable(model)
        if batch is None:  # it wants more than we can make up: a sentence, not a traceback
            for tried in zoo.inputs(model):
                with pytest.raises(Problem) as caught:
                    trace(model, tried)
                assert isinstance(caught.value, Untraceable) or "give trace() a dict" in str(caught.value)
            return "unreadable"
        before, plain = state(model), zoo.own(model, batch)
        plain = plain.logits if getattr(plain, "logits", None) is not None else plain[0]
        try:
            recorded = trace(model, batch, logits=True)
        except Untraceable as problem:
            assert problem.say("zh") != problem.say("en"), problem
            assert state(model) == before
            assert "--eager" in str(problem) or "nothing to see" in str(problem)
            return _eager(kind, model, batch)
        assert state(model) == before
        assert torch.equal(recorded.more["logits"].nan_to_num(), plain.float().nan_to_num()), "tracing changes nothing"
        expected = attention_layers(model.config.get_text_config())
        parts = [part for part in recorded.parts if part != "mixers"]
        assert expected is None or len(parts) != 1 or recorded.layers(parts[0]) == expected
        sizes = {part: {(call.q.shape[2], call.k.shape[2]) for call in recorded.calls[part]} for part in recorded.parts}
        if {"input_ids", "decoder_input_ids"} <= set(batch):
            assert sizes == {"encoder": {(11, 11)}, "decoder": {(7, 7)}, "cross": {(7, 11)}}
        eager = zoo.build(kind, "eager")
        tables = zoo.maps(eager, batch)
        logits = zoo.own(eager, batch)
        logits = logits.logits if getattr(logits, "logits", None) is not None else logits[0]
        if logits.isnan().any():  # Nemotron's streaming encoder: rows that see nothing are NaN in its eager way
            return "traced"
        same(trace(eager, batch), tables)
        if torch.allclose(logits, plain, atol=1e-3 * float(plain.abs().max()), rtol=0):  # PaliGemma masks by kernel
            same(recorded, tables, 1e-4)  # another kernel's rounding, carried on from layer to layer
        return "traced"


def _eager(kind, model, batch):
    """The eager road gives what the model hands out, or it is no map of its tokens."""
    before = state(model)
    reference = zoo.build(kind, "eager")
    zoo.own(reference, batch)  # BigBird takes another attention on its first short text
    tables = zoo.maps(reference, batch)
    try:
        recorded = trace(model, batch, eager=True)
    except Untraceable as problem:
        assert state(model) == before
        if "gives no attention weights" in str(problem) and tables:  # BEiT chooses its attention when it is made
            return _eager(kind, reference, batch) if model.config._attn_implementation != "eager" else "refused"
        everything = [table for each in tables.values() for table in each]
        if all(isinstance(table, torch.Tensor) for table in everything):  # PEGASUS-X gives pairs
            shares = all(torch.allclose(table.sum(-1), torch.ones(()), atol=1e-3) for table in everything)
            sizes = {tuple(table.shape[2:]) for table in everything}
            assert not (everything and shares and sizes <= {(11, 11), (7, 7), (7, 11)}), "these were maps"
        return "refused"
    assert state(model) == before and recorded.bare
    same(recorded, tables, 1e-6)
    with pytest.raises(Problem, match="the weights alone"):
        recorded.steps(recorded.layers()[0], 0)
    return "eager"


@pytest.mark.parametrize(("verdict", "kind"), [(verdict, kind) for verdict, kinds in SAMPLE.items() for kind in kinds])
def test_maps_are_the_models_own_or_it_is_refused(verdict, kind):
    assert outcome(kind) == verdict
    assert read_outcomes()[kind] == verdict


def test_the_pages_agree():
    verdicts = read_outcomes()
    assert verdicts == read_outcomes("zh") and list(verdicts) and set(verdicts) == set(zoo.types())
    for lang, file in FILES.items():
        assert file.read_text(encoding="utf-8") == page(lang, verdicts, transformers.__version__)
    counts = [list(verdicts.values()).count(verdict) for verdict in ("traced", "eager", "refused")]
    for guide in ("guide.md", "guide.zh-CN.md"):
        text = (FILES["en"].parent / guide).read_text(encoding="utf-8")
        match = re.search(rf"{sum(counts)}\b.{{0,200}}\]\(huggingface", text, re.DOTALL)
        assert match and [int(n) for n in re.findall(r"\d+", match[0])] == [sum(counts), *counts], guide


@pytest.mark.slow
@pytest.mark.parametrize("kind", zoo.types())
def test_every_type_matches_the_page(kind):
    try:
        verdict = outcome(kind)
    except zoo.Unbuildable:
        verdict = "unbuilt"
    assert read_outcomes()[kind] == verdict
