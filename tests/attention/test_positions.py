"""Positions: the properties that make them what they are, and the same numbers as transformers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, T5Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from qkv.attention import ALiBi, Learned, Relative, Rotary, Sinusoidal
from qkv.attention.oracle import sinusoid
from qkv.attention.positions import relative_bucket, rotary_frequencies

SCALINGS = {
    "plain": (None, {"rope_type": "default"}),
    "linear": ({"kind": "linear", "factor": 3.0}, {"rope_type": "linear", "factor": 3.0}),
    "yarn": (
        {"kind": "yarn", "factor": 4.0, "original": 64},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    ),
    "llama3": (
        {"kind": "llama3", "factor": 8.0, "low": 1.0, "high": 4.0, "original": 128},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    ),
}


def llama(width=12, theta=10000.0, parameters=None, longest=256):
    return LlamaConfig(
        hidden_size=width * 2,
        num_attention_heads=2,
        head_dim=width,
        max_position_embeddings=longest,
        rope_parameters={"rope_theta": theta, **(parameters or {"rope_type": "default"})},
    )


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("width", [8, 64])
def test_rotary_equals_transformers(name, width):
    ours, theirs = SCALINGS[name]
    rotary = Rotary(width, 5000.0, scaling=ours)
    embedding = LlamaRotaryEmbedding(llama(width, 5000.0, theirs))
    q, k = torch.randn(2, 3, 40, width), torch.randn(2, 3, 40, width)
    at = torch.arange(40)[None] + torch.tensor([[0], [17]])
    cos, sin = embedding(q, at)
    for x, expected in zip((q, k), apply_rotary_pos_emb(q, k, cos, sin), strict=True):
        torch.testing.assert_close(rotary(x, at), expected, atol=2e-5, rtol=2e-5)


def test_ntk_equals_transformers_dynamic_at_its_length():
    config = llama(16, 10000.0, {"rope_type": "dynamic", "factor": 2.0}, longest=100)
    theirs, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, torch.device("cpu"), seq_len=250)
    ours, _ = rotary_frequencies(16, 10000.0, {"kind": "ntk", "factor": 2.0 * 250 / 100 - 1})
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5)


@given(
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.integers(0, 3000),
    st.sampled_from([1.0, 0.5]),
    st.booleans(),
    st.sampled_from(["plain", "linear", "llama3"]),
)
def test_rotary_scores_depend_on_distance_only(m, n, shift, fraction, interleaved, scaling):
    rotary = Rotary(12, scaling=SCALINGS[scaling][0], fraction=fraction, interleaved=interleaved)
    q, k = torch.randn(1, 1, 1, 12, dtype=torch.float64), torch.randn(1, 1, 1, 12, dtype=torch.float64)
    here = (rotary(q, m) * rotary(k, n)).sum()
    there = (rotary(q, m + shift) * rotary(k, n + shift)).sum()
    torch.testing.assert_close(here, there, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(rotary(q, m).norm(), q.norm(), atol=1e-12, rtol=1e-12)
    assert torch.equal(rotary(q, 0), q)
    if m != n:
        assert not torch.equal(rotary(q, m), rotary(q, n))


def test_rotary_layouts_are_a_permutation_of_each_other():
    x = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])  # neighbours → halves
    halves, neighbours = Rotary(8)(x[..., order], 3), Rotary(8, interleaved=True)(x, 3)
    torch.testing.assert_close(neighbours[..., order], halves)


def test_partial_rotary_leaves_the_rest():
    x = torch.randn(1, 1, 4, 12)
    turned = Rotary(12, fraction=0.5)(x, 2)
    assert torch.equal(turned[..., 6:], x[..., 6:])
    torch.testing.assert_close(turned[..., :6], Rotary(6)(x[..., :6], 2))


@pytest.mark.parametrize(
    "make", [lambda: Sinusoidal(6), lambda: Learned(20, 6), lambda: Rotary(6)], ids=["sin", "learned", "rotary"]
)
def test_offsets_are_slices_of_the_whole(make):
    position = make()
    x = torch.randn(2, 1, 9, 6) if isinstance(position, Rotary) else torch.randn(2, 9, 6)
    whole = position(x)
    torch.testing.assert_close(position(x[..., 4:, :], 4), whole[..., 4:, :])
    at = torch.stack([torch.arange(4, 9), torch.arange(4, 9)])
    torch.testing.assert_close(position(x[..., 4:, :], at), whole[..., 4:, :])


def test_rotary_table_survives_inference_mode():
    rotary = Rotary(4)
    x = torch.randn(1, 1, 3, 4, requires_grad=True)
    with torch.inference_mode():
        rotary(x.detach())
    rotary(x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_sinusoidal_by_positions_equals_the_table_and_has_a_base():
    x = torch.zeros(2, 3, 7, dtype=torch.float64)
    at = torch.tensor([[4, 5, 6], [0, 9, 2]])
    table = torch.from_numpy(sinusoid(10, 7, base=500.0))
    torch.testing.assert_close(Sinusoidal(7, base=500.0)(x, at), table[at], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(Sinusoidal(7, base=500.0)(x, 4)[0], table[4:7])
    assert Sinusoidal(7)(x.to("meta")).shape == x.shape


def test_yarn_stretch_multiplies_cos_and_sin():
    x = torch.randn(1, 1, 3, 8, dtype=torch.float64)
    scaling = {"kind": "yarn", "factor": 4.0, "original": 64}
    plain, stretched = (Rotary(8, scaling={**scaling, "stretch": s}) for s in (1.0, 2.0))
    torch.testing.assert_close(stretched(x, 5), 2 * plain(x, 5))


def test_sinusoidal_is_the_papers_table():
    torch.testing.assert_close(
        Sinusoidal(10)(torch.zeros(1, 30, 10).double()), torch.from_numpy(sinusoid(30, 10))[None]
    )


@pytest.mark.parametrize("n_head", [1, 2, 6, 8, 12])
def test_alibi_slopes(n_head):
    slopes = ALiBi(n_head).slopes
    assert len(slopes) == n_head and len(set(slopes)) == n_head
    if n_head in (1, 2, 8):
        assert slopes == tuple(2.0 ** (-8 * (h + 1) / n_head) for h in range(n_head))
    if n_head == 12:  # the paper's list for 12 heads: 8 of their own, then every other of 16
        assert slopes[8:] == tuple(2.0 ** (-0.5 * (2 * h + 1)) for h in range(4))
    bias = ALiBi(n_head).bias(3, 5)
    assert bias.shape == (1, n_head, 3, 5)
    torch.testing.assert_close(bias[0, :, 2], -torch.tensor(slopes)[:, None] * torch.tensor([4.0, 3, 2, 1, 0]))


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_bias_equals_t5(bidirectional):
    config = T5Config(
        d_model=8,
        num_heads=2,
        d_kv=4,
        is_decoder=not bidirectional,
        relative_attention_num_buckets=14,
        relative_attention_max_distance=40,
    )
    theirs = T5Attention(config, has_relative_attention_bias=True, **({} if bidirectional else {"layer_idx": 0}))
    ours = Relative(2, 14, 40, bidirectional)
    ours.table.data = theirs.relative_attention_bias.weight.data
    torch.testing.assert_close(ours.bias(90, 90), theirs.compute_bias(90, 90))
    torch.testing.assert_close(ours.bias(4, 90), theirs.compute_bias(90, 90)[:, :, -4:])
    distance = torch.arange(-200, 200)
    bucket = theirs._relative_position_bucket(distance, bidirectional, 14, 40)
    assert torch.equal(relative_bucket(distance, 14, 40, bidirectional), bucket)


def test_relative_bias_learns():
    ours = Relative(2)
    ours.bias(5, 5).sum().backward()
    assert ours.table.grad.sum() == 50


LLAMA3 = {"kind": "llama3", "factor": 8.0, "low": 1.0, "high": 4.0, "original": 64}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Rotary(7), "must be even"),
        (lambda: Rotary(8, scaling={"kind": "yrn", "factor": 2}), "not one of linear, ntk, dynamic, yarn, llama3"),
        (lambda: Rotary(8, scaling={"kind": "yarn", "factor": 2}), "needs original"),
        (lambda: Rotary(8, scaling={"kind": "linear", "factor": 2, "fast": 1}), "has no fast"),
        (lambda: Rotary(8, scaling={"kind": "linear", "factor": 0.0}), "factor = 0.0: give a number above 0"),
        (lambda: Rotary(8, scaling={"kind": "yarn", "factor": 0.5, "original": 64}), "factor = 0.5: give 1 or more"),
        (lambda: Rotary(8, scaling={"kind": "yarn", "factor": 2, "original": True}), "original = True"),
        (
            lambda: Rotary(8, scaling={"kind": "yarn", "factor": 2, "original": 64, "slow": 40}),
            "slow must be below fast",
        ),
        (lambda: Rotary(8, scaling=LLAMA3 | {"low": 5.0}), "low = 5 and high = 4: low must be below high"),
        (lambda: Rotary(8, scaling=LLAMA3 | {"low": 4.0}), "low must be below high"),
        (lambda: Learned(4, 2)(torch.zeros(1, 5, 2)), "only 4 were learned"),
        (lambda: Rotary(4)(torch.zeros(1, 1, 3, 4), torch.arange(2)), "one per token"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
