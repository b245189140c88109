"""MLA: the same numbers as DeepSeek-V3's layer; absorbed = plain; cached = uncached."""

import pytest
import torch
from torch import nn
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding

from qkv import masks
from qkv.attention import LatentAttention

SIZES = dict(rank=10, head_width=6, rope_width=4)


def mla(**more):
    module = LatentAttention(20, 3, **{**SIZES, **more}).double().eval()
    for p in module.parameters():
        nn.init.normal_(p, std=0.3)
    return module


@pytest.mark.parametrize("q_rank", [None, 8])
@pytest.mark.parametrize("value_width", [6, 5])
def test_equals_deepseek_v3(q_rank, value_width):
    config = DeepseekV3Config(
        hidden_size=20,
        num_attention_heads=3,
        num_key_value_heads=3,
        q_lora_rank=q_rank,
        kv_lora_rank=10,
        qk_rope_head_dim=4,
        qk_nope_head_dim=6,
        v_head_dim=value_width,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        attn_implementation="eager",
    )
    theirs = DeepseekV3Attention(config, 0).double().eval()
    for p in theirs.parameters():
        nn.init.normal_(p, std=0.3)
    ours = LatentAttention(20, 3, **SIZES, value_width=value_width, q_rank=q_rank).double().eval()
    names = {"kv_a_proj_with_mqa": "compress", "kv_a_layernorm": "norm", "kv_b_proj": "expand", "o_proj": "out"}
    names |= {"q_proj": "q", "q_a_proj": "q.0", "q_a_layernorm": "q.1", "q_b_proj": "q.2"}
    ours.load_state_dict({names[n.rsplit(".", 1)[0]] + ".weight": t for n, t in theirs.state_dict().items()})
    x = torch.randn(2, 7, 20, dtype=torch.float64, requires_grad=True)
    rule = masks.causal() & masks.padding([7, 4])
    tables = DeepseekV3RotaryEmbedding(config)(x, torch.arange(7)[None].expand(2, -1))
    expected, shares = theirs(x, tables, rule.additive(7, batch=2, dtype=torch.float64))
    for absorbed in (False, True):
        output, weights = ours(x, rule, weights=True, absorbed=absorbed)
        torch.testing.assert_close(output, expected, atol=2e-6, rtol=2e-6)
        torch.testing.assert_close(weights, shares, atol=2e-6, rtol=2e-6)
        actual_grad, expected_grad = (
            torch.autograd.grad(t.square().sum(), x, retain_graph=True)[0] for t in (output, expected)
        )
        torch.testing.assert_close(actual_grad, expected_grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("value_width", [6, 5, 10])
def test_absorbed_equals_plain_output_and_gradient(value_width):
    ours = mla(value_width=value_width, q_rank=7)
    x = torch.randn(2, 9, 20, dtype=torch.float64, requires_grad=True)
    plain, absorbed = (ours(x, masks.causal(), absorbed=absorb) for absorb in (False, True))
    torch.testing.assert_close(absorbed, plain, atol=1e-12, rtol=1e-12)
    leaves = [x, *ours.parameters()]
    for a, b in zip(*(torch.autograd.grad(t.square().sum(), leaves) for t in (plain, absorbed)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("absorbed", [None, True, False])
@pytest.mark.parametrize("chunk", [1, 3, 11])
def test_cached_equals_uncached_and_keeps_only_the_latent(chunk, absorbed):
    ours = mla()
    x = torch.randn(2, 11, 20, dtype=torch.float64)
    whole = ours(x, masks.causal())
    cache = ours.new_cache(2, 11, dtype=torch.float64)
    parts = [ours(part, masks.causal(), cache=cache, absorbed=absorbed) for part in x.split(chunk, 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-12, rtol=1e-12)
    assert cache.k[0, :, 0].numel() + cache.v[0, :, 0].numel() == 14


@torch.no_grad()
def test_items_of_different_lengths():
    ours = mla()
    x = torch.randn(2, 8, 20, dtype=torch.float64)
    cache = ours.new_cache(2, 8, dtype=torch.float64)
    cache.expect([5, 2])
    ours(x[:, :5], masks.causal(), cache=cache)
    later = ours(x[:, 5:], masks.causal(), cache=cache)
    alone = ours(torch.cat([x[1:, :2], x[1:, 5:]], 1), masks.causal())
    torch.testing.assert_close(later[1:], alone[:, 2:], atol=1e-12, rtol=1e-12)


def test_dropout_scale_name_and_the_wrong_cache():
    from qkv import record
    from qkv.attention import WindowCache

    ours = LatentAttention(20, 3, **SIZES, dropout=0.5, scale=0.7, name="decoder.0")
    x = torch.randn(2, 9, 20)
    assert not torch.equal(ours(x), ours(x))
    ours.eval()
    assert torch.equal(ours(x), ours(x))
    with record() as calls:
        ours(x)
    assert calls[0].scale == 0.7 and calls[0].name == "decoder.0"
    with pytest.raises(ValueError, match="new_cache"):
        ours(x, cache=WindowCache(2, 1, 4, 14))
