"""What `describe` says is true: parameters counted, FLOPs counted by torch on a real pass, cache bytes measured."""

from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from qkv import Transformer, attend
from qkv.attention import heads, latent
from qkv.model.config_checks import STATES
from qkv.model.describe import cache_bytes, describe, parts
from qkv.model.presets import PRESETS
from tests.formats.cases import SHAPES, make, words

OPEN = [name for name in SHAPES if "window" not in name]


@pytest.fixture
def counted(monkeypatch):
    """torch's counter doesn't know the fused CPU kernel; the plain road is matrix products, which it counts."""
    for module in (heads, latent):
        monkeypatch.setattr(module, "attend", partial(attend, kernel="plain"))

    def count(run):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run()
        return counter.get_total_flops()

    return count


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("name", SHAPES)
def test_parameters_are_counted(name, kind):
    model = make(name, kind)
    sizes = parts(model)
    assert sum(part.parameters for part in sizes) == model.count()
    assert sizes == parts(model.config)
    table = {part.name: part.parameters for part in sizes}
    assert table["embedding"] == 37 * model.config.width
    assert ("cross" in table) == (kind == "encoder-decoder")
    assert ("positions" in table) == (model.config.position in ("learned", "relative"))
    norms = [p for path, p in model.named_parameters() if "norm" in path]
    assert table["norms"] == sum(p.numel() for p in norms)


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", OPEN)
def test_flops_are_those_of_a_real_pass(name, kind, counted):
    model = make(name, kind)
    whole = counted(lambda: model(words(2, 40)))  # the context is 40: every row meets 40 keys, hidden or not
    assert sum(part.flops for part in parts(model)) == whole / (2 * 40)


@pytest.mark.parametrize("name", ["rotary", "rotary, GQA", "learned", "rotary, head width of its own", "latent"])
def test_flops_of_an_encoder_decoder(name, counted):
    model = make(name, "encoder-decoder")
    whole = counted(lambda: model(words(1, 40), words(1, 40)))
    assert sum(part.flops for part in parts(model)) == whole / 40


def test_flops_of_another_token_with_a_full_cache(counted):
    model = make("rotary, GQA")
    cache = model.new_cache(1, 40)
    model.decode(words(1, 39), cache=cache)
    step = counted(lambda: model.head(model.decode(words(1, 1), cache=cache)))
    assert sum(part.flops for part in parts(model)) == step


@pytest.mark.parametrize(("kind", "keys"), [("decoder", 4), ("encoder", 7)])
def test_a_window_is_counted_by_the_keys_it_shows(kind, keys):
    wide, narrow = (make("rotary", kind, window=window) for window in (None, 3))
    with_scores, less = (sum(part.flops for part in parts(model)) for model in (wide, narrow))
    assert with_scores - less == 2 * 4 * (40 - keys) * 18  # layers, 2 products of 2, keys not seen, width
    assert sum(part.flops for part in parts(make("rotary", kind, window=99))) == with_scores


def test_berts_head_is_counted(counted):
    with torch.device("meta"):
        model = Transformer(PRESETS["bert"].replace(n_layer=1))
    assert sum(part.parameters for part in parts(model)) == model.count()


@pytest.mark.parametrize("name", [*OPEN, "rotary, window"])
def test_cache_bytes_are_those_of_a_real_cache(name):
    model = make(name, dtype=torch.float32)
    capacity = 4 if name == "rotary, window" else 10  # a window of 3 keeps 4 tokens, however many come
    cache = model.new_cache(1, 10).layers
    numbers = sum(t.numel() * t.element_size() for layer in cache for t in (layer.k, layer.v))
    assert numbers == capacity * cache_bytes(model)
    assert cache_bytes(make(name, "encoder")) == 0


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", PRESETS)
def test_the_table_names_parts_and_caches(name, lang):
    with torch.device("meta"):
        model = Transformer(PRESETS[name])
    text = model.describe(lang)
    assert text == describe(PRESETS[name], lang)
    assert f"{model.count():,}" in text and "100.0 %" in text
    states = [word in STATES for word in PRESETS[name].mixers]
    assert ("KV" in text) == (PRESETS[name].kind != "encoder" and not all(states))
    assert (("State of the mixers" if lang == "en" else "状态") in text) == any(states)
    assert ("解码器" in text or "编码器" in text) == (lang == "zh")


def test_a_window_and_grouped_heads_are_described():
    text = describe(PRESETS["gpt2"].replace(window=127, n_kv_head=4), "en")
    assert "12:4 heads" in text and "never more than 128 tokens" in text


SIDES = dict(position="learned", sides="own", embedding_norm=True, head_bias=True, n_decoder_layer=3)
FEWER_BUCKETS = dict(position="relative", relative_buckets=6, attention_scale=1.0, output_scale=0.5, n_decoder_layer=1)


@pytest.mark.parametrize("more", [SIDES, FEWER_BUCKETS], ids=["own sides", "few buckets"])
def test_sides_of_different_depth_are_counted(more, counted):
    model = make("rotary", "encoder-decoder", **more)
    sizes = {part.name: part for part in parts(model)}
    assert sum(part.parameters for part in sizes.values()) == model.count()
    assert [*sizes.values()] == parts(model.config)
    whole = counted(lambda: model(words(1, 40), words(1, 40)))
    assert sum(part.flops for part in sizes.values()) == whole / 40
    assert f"encoder-decoder, 2 + {more['n_decoder_layer']} layers" in describe(model, "en")
    if more is SIDES:
        assert sizes["positions"].parameters == 2 * 40 * 18 and sizes["head"].parameters == 37 * 18 + 37
        norms = [p.numel() for path, p in model.named_parameters() if "norm" in path]
        assert sizes["norms"].parameters == sum(norms)
    else:
        assert sizes["positions"].parameters == 2 * 6 * 3
    numbers = [t for cache in model.new_cache(1, 10).layers for t in (cache.k, cache.v)]
    assert sum(t.numel() for t in numbers) * 4 == 10 * cache_bytes(model)


def test_a_pooler_is_counted_and_no_head_is_no_row(counted):
    model = make("learned", "encoder", head="none", pooler=True)
    sizes = {part.name: part for part in parts(model)}
    assert "head" not in sizes and sizes["pooler"].parameters == 18 * 18 + 18
    assert sum(part.parameters for part in sizes.values()) == model.count()
    whole = counted(lambda: model(words(2, 40)))  # without the pooler, which is asked for by itself
    assert sum(part.flops for part in sizes.values()) == whole / (2 * 40)
    assert "pooler" in describe(model, "en") and "head " not in describe(model, "en")
    assert "池化" in describe(model, "zh")
