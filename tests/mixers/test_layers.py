"""The layers: equal to transformers' where it has them, and the same with a cache, padding, or documents as without."""

import copy
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.bamba.modeling_bamba import BambaConfig, BambaMixer
from transformers.models.mamba2.modeling_mamba2 import Mamba2Config, Mamba2Mixer
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from qkv import masks, record
from qkv.attention import KVCache, LatentAttention, MultiHeadAttention, SelfAttention
from qkv.i18n import Problem
from qkv.mixers import CausalConvolution, GatedDelta, Mamba2, Retention, mix, reference

from .cases import close

WIDTH = 12


def mamba2() -> Mamba2:
    return Mamba2(WIDTH, 6, 4, key_width=5, groups=2, taps=3)


LAYERS = {
    "retention": lambda: Retention(WIDTH, 3),
    "mamba2": mamba2,
    "delta": lambda: GatedDelta(WIDTH, 4, 2, 3, 5, taps=4),
}


def layer_of(kind, seed=0):
    torch.manual_seed(seed)
    return LAYERS[kind]().double()


def x(batch=2, n=9, seed=1):
    torch.manual_seed(seed)
    return torch.randn(batch, n, WIDTH, dtype=torch.float64)


# transformers' own


def their_mamba2(groups=2, bias=False, limit=(0.0, float("inf"))):
    config = Mamba2Config(
        hidden_size=WIDTH,
        num_heads=6,
        head_dim=4,
        state_size=5,
        n_groups=groups,
        conv_kernel=3,
        use_bias=bias,
        chunk_size=4,
        time_step_limit=limit,
    )
    return Mamba2Mixer(config, 0), Mamba2


def their_bamba():
    config = BambaConfig(
        hidden_size=WIDTH,
        mamba_n_heads=6,
        mamba_d_head=4,
        mamba_d_state=5,
        mamba_n_groups=2,
        mamba_d_conv=3,
        mamba_chunk_size=4,
    )
    return BambaMixer(config, 0), Mamba2


def their_delta():
    config = qwen.Qwen3NextConfig(
        hidden_size=WIDTH,
        linear_num_key_heads=2,
        linear_num_value_heads=6,
        linear_key_head_dim=5,
        linear_value_head_dim=4,
        linear_conv_kernel_dim=3,
    )
    return qwen.Qwen3NextGatedDeltaNet(config, 0), GatedDelta


THEIRS = {
    "mamba2": their_mamba2,
    "mamba2, one group": lambda: their_mamba2(groups=1),
    "mamba2, biased": lambda: their_mamba2(bias=True),
    "mamba2, limited steps": lambda: their_mamba2(limit=(0.01, 0.05)),
    "bamba": their_bamba,
    "delta": their_delta,
}


# Where there is no token, their convolution reads the projection's bias if it has one; ours reads nothing.
PAIRS = [pair for pair in product(THEIRS, ["no", "left", "right"]) if pair[1] == "no" or "biased" not in pair[0]]


@pytest.mark.parametrize("n", [1, 7, 70])
@pytest.mark.parametrize("kind, padded", PAIRS)
def test_equals_transformers_in_output_and_gradient(kind, padded, n):
    """To what its float32 inner loops allow."""
    torch.manual_seed(0)
    theirs, ours_class = THEIRS[kind]()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    theirs = theirs.double()
    inputs = torch.randn(2, n, WIDTH, dtype=torch.float64)
    ours = ours_class.from_transformers(theirs)
    keep = torch.ones(2, n, dtype=torch.bool)
    if padded == "left":
        keep[1, : n // 2] = False
    elif padded == "right":
        keep[1, n - n // 2 :] = False
    seed = torch.randn(2, n, WIDTH, dtype=torch.float64) * keep[..., None]
    results = []
    for layer, options in ((theirs, dict(attention_mask=keep)), (ours, dict(mask=keep))):
        leaf = inputs.clone().requires_grad_()
        output = layer(leaf, **({} if padded == "no" else options))
        (output * seed).sum().backward()
        results.append((output * keep[..., None], leaf.grad))
    for mine, other in zip(*reversed(results), strict=True):
        close(mine, other, 2e-5)
    for mine, other in zip(
        sorted(p.grad.abs().sum().item() for p in ours.parameters() if p.ndim == 1),
        sorted(p.grad.abs().sum().item() for p in theirs.parameters() if p.ndim == 1),
        strict=True,
    ):
        assert mine == pytest.approx(other, rel=1e-4, abs=1e-6)


def test_unknown_weights_are_refused():
    theirs, ours_class = their_mamba2()
    theirs.extra = torch.nn.Parameter(torch.ones(1))
    with pytest.raises(Problem, match="no parameters for these weights: extra"):
        ours_class.from_transformers(theirs)


# Retention after the paper


def test_retention_is_the_paper_s():
    """Written out in NumPy's reference from the layer's own projections: turned q and k, one γ per head, norm, gate."""
    layer, inputs = layer_of("retention"), x()
    q, k, v = (part(inputs).unflatten(-1, (3, -1)).transpose(1, 2).detach() for part in (layer.q, layer.k, layer.v))
    turn = torch.outer(torch.arange(9).double(), 10000.0 ** -(torch.arange(2).double() / 2))

    def turned(t):
        a, b = t.chunk(2, -1)
        return torch.cat([a * turn.cos() - b * turn.sin(), b * turn.cos() + a * turn.sin()], -1).numpy()

    gamma = (1 - 2.0 ** (-5 - torch.arange(3).double())).numpy()
    mixed = torch.from_numpy(reference.retention(turned(q), turned(k), v.numpy(), gamma, 4**-0.5).output)
    normed = (mixed - mixed.mean(-1, keepdim=True)) / (mixed.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    expected = layer.out(normed.transpose(1, 2).flatten(2) * F.silu(layer.gate(inputs)))
    close(layer(inputs), expected)


# With a cache as without


@pytest.mark.parametrize("kind", LAYERS)
@given(cuts=st.lists(st.integers(1, 8), max_size=4), seed=st.integers(0, 9))
def test_cached_is_uncached(kind, cuts, seed):
    layer, inputs = layer_of(kind, seed), x(seed=seed)
    cache = layer.new_cache(2, dtype=torch.float64)
    size = cache.numbers
    edges = sorted({0, 9, *cuts})
    parts = [layer(inputs[:, a:b], cache=cache) for a, b in pairwise(edges)]
    close(torch.cat(parts, 1), layer(inputs))
    assert cache.numbers == size and cache.at(1) == 9


@pytest.mark.parametrize("kind", LAYERS)
def test_items_of_different_lengths_go_on_from_their_own(kind):
    """Prompts padded on the right, told by `expect`; then two tokens more; then the items change places."""
    layer, inputs = layer_of(kind), x()
    lengths, cache = [7, 3], layer.new_cache(2, dtype=torch.float64)
    cache.expect(lengths)
    prompt = inputs[:, :7].clone()
    prompt[1, 3:] = 99.0  # padding, which must not matter
    outputs = [layer(prompt, cache=cache)]
    more = torch.stack([inputs[0, 7:9], inputs[1, 3:5]])
    outputs += [layer(more[:, :1], cache=cache)]
    cache.reorder(torch.tensor([1, 0]))
    outputs += [layer(more.flip(0)[:, 1:], cache=cache)]
    for item, length in enumerate(lengths):
        whole = layer(inputs[item : item + 1, : length + 2])[0]
        close(outputs[0][item, :length], whole[:length])
        close(outputs[1][item, 0], whole[length])
        close(outputs[2][1 - item, 0], whole[length + 1])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", LAYERS)
def test_padding_changes_nothing(kind, side):
    layer, inputs = layer_of(kind), x(batch=1)
    alone, junk = layer(inputs), torch.full((1, 4, WIDTH), 7.0, dtype=torch.float64)
    padded = torch.cat([junk, inputs] if side == "left" else [inputs, junk], 1)
    keep = torch.tensor([[False] * 4 + [True] * 9] if side == "left" else [[True] * 9 + [False] * 4])
    close(layer(padded, keep)[keep][None], alone)
    close(layer(padded, masks.causal() & masks.padding(keep))[keep][None], alone)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_mask_over_the_whole_text_is_read_where_the_new_tokens_stand(kind):
    """With a cache as with a KVCache: the mask speaks of all keys, read before or now."""
    layer, inputs = layer_of(kind), x(batch=1)
    keep = torch.tensor([[True] * 7 + [False] * 2])
    for rule, first in ((masks.padding([7]), masks.padding([7])), (masks.padding(keep), masks.padding(keep[:, :4]))):
        cache = layer.new_cache(1, dtype=torch.float64)
        parts = [layer(inputs[:, :4], first, cache=cache), layer(inputs[:, 4:], masks.causal() & rule, cache=cache)]
        close(torch.cat(parts, 1)[:, :7], layer(inputs[:, :7]))
        alone = layer.new_cache(1, dtype=torch.float64)
        layer(inputs[:, :7], cache=alone)
        close(cache.state, alone.state)
        close(cache.tail, alone.tail)
    with pytest.raises(Problem, match="several documents need an empty cache"):
        layer(inputs[:, :1], masks.documents([[0] * 10]), cache=cache)


@pytest.mark.parametrize("kind", LAYERS)
def test_documents_know_nothing_of_each_other(kind):
    layer, inputs = layer_of(kind), x(batch=1)
    rule = masks.causal() & masks.documents([[0] * 4 + [1] * 2 + [2] * 3])
    alone = [layer(inputs[:, a:b]) for a, b in ((0, 4), (4, 6), (6, 9))]
    close(layer(inputs, rule), torch.cat(alone, 1))


@pytest.mark.parametrize("kind", LAYERS)
def test_the_future_changes_nothing(kind):
    layer, inputs = layer_of(kind), x()
    changed = inputs.clone()
    changed[:, 5:] += 1
    close(layer(changed)[:, :5], layer(inputs)[:, :5], 1e-12)


@pytest.mark.parametrize("kind", LAYERS)
def test_it_is_recorded_by_its_name_and_learns_every_weight(kind):
    layer = layer_of(kind)
    layer.name = "decoder.4"
    with record() as calls:
        layer(x()).square().sum().backward()
    assert [call.name for call in calls] == ["decoder.4"]
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in layer.parameters())


@pytest.mark.parametrize("kind", LAYERS)
def test_what_was_recorded_stays_when_the_cache_starts_again(kind):
    """The state a call got, and what backward needs."""
    layer, cache = layer_of(kind), layer_of(kind).new_cache(2, dtype=torch.float64)
    layer(x(), cache=cache)
    with record() as calls:
        output = layer(x(seed=2), cache=cache)
    before = calls[0].state.clone()
    cache.reset()
    assert before.any() and torch.equal(calls[0].state, before)
    output.sum().backward()
    assert layer.out.weight.grad.any()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("rule", [masks.window(3), masks.causal() & masks.prefix(2), masks.window(None, 1)])
def test_masks_that_a_state_cannot_obey_are_refused(kind, rule):
    with pytest.raises(Problem, match="support the masks causal, padding and documents, but not"):
        layer_of(kind)(x(), rule)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Mamba2(12, 6, 4, groups=4),
        lambda: GatedDelta(12, 4, 3),
        lambda: GatedDelta(10, 4),
        lambda: Retention(10, 4),
    ],
)
def test_sizes_that_do_not_fit_are_refused(bad):
    with pytest.raises(Problem, match="divide"):
        bad()


WRONG = [0, -4, 2.5, "8", True]
SIZES = {
    Mamba2: dict(width=12, n_head=6, head_width=4, key_width=3, groups=2, taps=3),
    GatedDelta: dict(width=12, n_head=4, n_key_head=2, head_width=3, key_width=5, taps=3),
    Retention: dict(width=12, n_head=3, key_width=4, value_width=5),
    CausalConvolution: dict(channels=5, taps=3),
    MultiHeadAttention: dict(width=12, n_head=4, n_kv_head=2, head_width=5, memory_width=7),
    LatentAttention: dict(width=12, n_head=3, rank=6, head_width=4, rope_width=2),
    SelfAttention: dict(width=6, d_k=4),
}


@pytest.mark.parametrize("layer, name", [(layer, name) for layer, sizes in SIZES.items() for name in sizes])
def test_a_size_of_0_is_refused_by_its_name(layer, name):
    layer(**SIZES[layer])
    for wrong in WRONG:
        with pytest.raises(Problem, match=f"^{name} is {wrong!r}: give a whole number, 1 or more$"):
            layer(**SIZES[layer] | {name: wrong})


@pytest.mark.parametrize("kind", LAYERS)
def test_caches_that_do_not_fit_are_refused(kind):
    layer = layer_of(kind)
    with pytest.raises(Problem, match="for a batch of 3, but the input has 2"):
        layer(x(), cache=layer.new_cache(3))
    with pytest.raises(Problem, match=r"this layer keeps a state: make its cache with new_cache.*, not KVCache"):
        layer(x(), cache=KVCache(2, 1, 9, 4))
    cache = layer.new_cache(2)
    cache.expect([10, 1])
    with pytest.raises(Problem, match="the cache expects"):
        layer(x(), cache=cache)


def test_the_convolution_is_torch_s_own():
    """In output and gradient, more tokens than are worked on at once."""
    torch.manual_seed(0)
    ours = CausalConvolution(5, taps=4).double()
    torch.nn.init.normal_(ours.bias)
    theirs, inputs = copy.deepcopy(ours), torch.randn(2, 3 + 150, 5, dtype=torch.float64)
    a, b = (inputs.clone().requires_grad_() for _ in range(2))
    mine = ours(a)
    other = F.conv1d(b.transpose(1, 2), theirs.weight[:, None], theirs.bias, groups=5).transpose(1, 2)
    close(mine, other)
    seed = torch.randn_like(mine)
    (mine * seed).sum().backward()
    (other * seed).sum().backward()
    for actual, expected in ((a, b), (ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        close(actual.grad, expected.grad)


def test_half_precision_runs():
    layer = layer_of("delta").bfloat16()
    cache = layer.new_cache(2, dtype=torch.bfloat16)
    output = layer(x().bfloat16(), cache=cache)
    assert output.dtype == torch.bfloat16 and cache.state.dtype == torch.float32


def test_what_is_recorded_replays():
    """A recorded call run again gives the layer's own numbers: q, k, v, β and decays are all there is to it."""
    layer = layer_of("delta")
    with record() as calls:
        layer(x())
    call = calls[0]
    again = mix(call.q, call.k, call.v, call.decay, write=call.write, scale=call.scale)[0]
    close(again, call.run("recurrent", 1)[0])
    close(replace(call, scale=2 * call.scale).run("chunkwise", 4)[0], 2 * again)


@pytest.mark.parametrize("kind", ["retention", "mamba2", "delta"])
def test_a_fresh_layer_remembers(kind):
    """Of what a token wrote, some head still holds a tenth after 20 more: who forgets all at once can't learn to recall."""
    for seed in range(5):
        with torch.no_grad(), record() as calls:
            layer_of(kind, seed)(x(1, 20))
        assert float(calls[0].decay.sum(-1).exp().max()) > 0.1
