"""The modules: the same numbers as PyTorch's and transformers', with the same weights, output and gradient."""

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from qkv import MultiHeadAttention, SelfAttention, masks, record, steps
from qkv.attention import Rotary, Sinusoidal


def grads(output, leaves):
    return torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)


def same(ours, theirs, atol=1e-12):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=atol)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
def test_equals_nn_multihead_attention(bias, cross, mode):
    theirs = nn.MultiheadAttention(
        12, 3, bias=bias, kdim=10 if cross else None, vdim=10 if cross else None, batch_first=True
    )
    theirs = theirs.double()
    for p in theirs.parameters():
        nn.init.normal_(p)
    theirs.train(mode == "train")
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 7, 10, dtype=torch.float64, requires_grad=True) if cross else x
    blocked = torch.ones(5, memory.shape[1], dtype=torch.bool).triu(memory.shape[1] - 4)
    padded = torch.zeros(2, memory.shape[1], dtype=torch.bool)
    padded[1, -2:] = True
    rule = masks.from_torch_mha(blocked, padded)
    with torch.set_grad_enabled(mode != "no_grad"):
        expected, shares = theirs(
            x, memory, memory, attn_mask=blocked, key_padding_mask=padded, average_attn_weights=False
        )
        output, weights = ours(x, memory if cross else None, rule, weights=True)
        fast = ours(x, memory if cross else None, rule)
    same(output, expected)
    same(fast, expected)
    same(weights, shares)
    if mode != "no_grad":
        leaves = [x, memory] if cross else [x]
        for a, b in zip(grads(fast, leaves), grads(expected, leaves), strict=True):
            same(a, b, 1e-10)


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_to_torch_and_back(cross):
    ours = MultiHeadAttention(12, 3, memory_width=10 if cross else None, dropout=0.1).eval()
    theirs = ours.to_torch()
    x = torch.randn(2, 5, 12)
    memory = torch.randn(2, 7, 10) if cross else x
    same(ours(x, memory if cross else None), theirs(x, memory, memory, need_weights=False)[0], 1e-6)
    back = MultiHeadAttention.from_torch(theirs)
    assert back.dropout == 0.1
    for (name, a), b in zip(ours.state_dict().items(), back.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def carry_over(ours, theirs):
    names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "o_proj", "q_norm": "q_norm", "k_norm": "k_norm"}
    state = {}
    for name, tensor in theirs.state_dict().items():
        part, kind = name.rsplit(".", 1)
        state[{v: k for k, v in names.items()}[part] + "." + kind] = tensor
    ours.load_state_dict(state)


FAMILIES = {
    "llama": (LlamaConfig, LlamaAttention, {"bias": False}),
    "qwen2": (Qwen2Config, Qwen2Attention, {"bias": "qkv"}),
    "qwen3": (Qwen3Config, Qwen3Attention, {"bias": False, "qk_norm": "rms"}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_transformers_layers(family):
    make, layer, options = FAMILIES[family]
    head_width = 10 if family != "qwen2" else 8
    config = make(
        hidden_size=48,
        num_attention_heads=6,
        num_key_value_heads=2,
        **({} if family == "qwen2" else {"head_dim": head_width}),
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        attn_implementation="eager",
    )
    theirs = layer(config, 0).double().eval()
    for p in theirs.parameters():
        nn.init.normal_(p, std=0.3)
    ours = MultiHeadAttention(48, 6, 2, head_width, position="rotary", **options).double().eval()
    carry_over(ours, theirs)
    x = torch.randn(2, 7, 48, dtype=torch.float64, requires_grad=True)
    frequencies = 10000.0 ** -(torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angles = (torch.arange(7)[:, None] * frequencies).repeat(1, 2)[None]  # theirs are float32; test_positions has those
    tables = (angles.cos(), angles.sin())
    rule = masks.causal() & masks.padding([7, 4])
    added = rule.additive(7, batch=2, dtype=torch.float64)
    _, shares = theirs(x, tables, added)  # eager gives the weights, its softmax in float32
    config._attn_implementation = "sdpa"
    expected, _ = theirs(x, tables, added)
    output, weights = ours(x, mask=rule, weights=True)
    same(weights, shares, 2e-6)
    atol = 2e-6 if family == "qwen3" else 1e-12  # their RMS norm computes in float32
    same(output, expected, atol)
    same(ours(x, mask=rule), expected, atol)
    same(grads(ours(x, mask=rule), [x])[0], grads(expected, [x])[0], 50 * atol)


def test_a_single_head_equals_the_oracle():
    attention = SelfAttention(6, d_k=4).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    output, weights = attention(x, masks.causal())
    matrices = [p.weight.detach().numpy().T for p in (attention.q, attention.k, attention.v)]
    done = steps(x.numpy(), *matrices, mask=masks.causal())
    same(output.detach(), torch.from_numpy(done.output))
    same(weights.detach(), torch.from_numpy(done.weights))


def test_many_heads_equal_the_oracle():
    mha = MultiHeadAttention(12, 3, bias=False).double()
    x, memory = torch.randn(2, 5, 12, dtype=torch.float64), torch.randn(2, 7, 12, dtype=torch.float64)
    matrices = [p.weight.detach().numpy().T for p in (mha.q, mha.k, mha.v, mha.out)]
    for source, rule in ((None, masks.causal()), (memory, masks.padding([7, 2]))):
        done = steps(x.numpy(), *matrices, n_head=3, mask=rule, memory=None if source is None else memory.numpy())
        output, weights = mha(x, source, rule, weights=True)
        same(output.detach(), torch.from_numpy(done.output))
        same(weights.detach(), torch.from_numpy(done.weights))


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_grouped_heads_equal_repeated_heads(groups):
    grouped = MultiHeadAttention(24, 6, groups).double()
    full = MultiHeadAttention(24, 6).double()
    state = grouped.state_dict()
    for name in ("k", "v"):
        weight = state[f"{name}.weight"].unflatten(0, (groups, -1)).repeat_interleave(6 // groups, 0)
        state[f"{name}.weight"] = weight.flatten(0, 1)
        bias = state[f"{name}.bias"].unflatten(0, (groups, -1)).repeat_interleave(6 // groups, 0)
        state[f"{name}.bias"] = bias.flatten()
    full.load_state_dict(state)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    same(grouped(x, mask=masks.causal()), full(x, mask=masks.causal()))


def test_window_is_on_top_of_any_mask():
    plain, windowed = MultiHeadAttention(12, 3), MultiHeadAttention(12, 3, window=2)
    both = MultiHeadAttention(12, 3, window=(1, 1))
    windowed.load_state_dict(plain.state_dict())
    both.load_state_dict(plain.state_dict())
    x = torch.randn(2, 9, 12)
    same(windowed(x, mask=masks.padding([9, 5])), plain(x, mask=masks.padding([9, 5]) & masks.window(2, 0)), 1e-6)
    same(both(x), plain(x, mask=masks.window(1, 1)), 1e-6)


def test_scale_softcap_and_qk_norm_reach_the_scores():
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    plain = MultiHeadAttention(12, 3).double()
    for options in ({"scale": 0.1}, {"softcap": 0.5}, {"qk_norm": "layer"}, {"qk_norm": "rms"}):
        other = MultiHeadAttention(12, 3, **options).double()
        other.load_state_dict(plain.state_dict(), strict=False)
        with record() as calls:
            other(x)
        q, k, v = calls[0].q, calls[0].k, calls[0].v
        split = plain.q(x).unflatten(-1, (3, 4)).transpose(1, 2)
        norm = {"layer": nn.LayerNorm(4).double(), "rms": nn.RMSNorm(4, eps=1e-6).double()}.get(
            options.get("qk_norm"), lambda t: t
        )
        same(q, norm(split))
        scores = q @ k.transpose(-1, -2) * options.get("scale", 0.5)
        if "softcap" in options:
            scores = 0.5 * torch.tanh(scores / 0.5)
        same(other(x), plain.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))


def test_gradients_of_parameters_equal_torchs():
    theirs = nn.MultiheadAttention(12, 3, batch_first=True).double()
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    theirs(x, x, x, need_weights=False)[0].square().sum().backward()
    ours(x).square().sum().backward()
    same(torch.cat([p.weight.grad for p in (ours.q, ours.k, ours.v)]), theirs.in_proj_weight.grad, 1e-10)
    same(torch.cat([p.bias.grad for p in (ours.q, ours.k, ours.v)]), theirs.in_proj_bias.grad, 1e-10)
    same(ours.out.weight.grad, theirs.out_proj.weight.grad, 1e-10)


def test_copies_pickles_and_moves():
    import copy
    import io

    mha = MultiHeadAttention(12, 3, position="rotary", window=2)
    x = torch.randn(2, 5, 12)
    expected = mha(x)
    assert torch.equal(copy.deepcopy(mha)(x), expected)
    file = io.BytesIO()
    torch.save(mha, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), expected)
    assert mha.double()(x.double()).dtype == torch.float64
    assert mha.to("meta")(x.to("meta"), weights=True)[1].shape == (2, 3, 5, 5)


def test_dropout_only_while_training():
    mha = MultiHeadAttention(12, 3, dropout=0.5)
    x = torch.randn(2, 9, 12)
    assert not torch.equal(mha(x), mha(x))
    mha.eval()
    assert torch.equal(mha(x), mha(x))


def test_train_eval_no_grad_and_compiled_agree():
    mha = MultiHeadAttention(24, 6, 2, position="rotary", qk_norm="rms")
    x = torch.randn(2, 9, 24)
    expected = mha(x, mask=masks.causal())
    compiled = torch.compile(mha, fullgraph=True, backend="aot_eager")
    same(compiled(x, mask=masks.causal()), expected, 1e-6)
    same(mha.eval()(x, mask=masks.causal()), expected, 1e-6)
    with torch.no_grad():
        same(mha(x, mask=masks.causal()), expected, 1e-6)


def test_recorded_q_is_after_positions_and_k_is_not_repeated():
    mha = MultiHeadAttention(24, 6, 2, position="rotary", name="decoder.0").eval()
    x = torch.randn(1, 5, 24)
    with record() as calls:
        _, weights = mha(x, mask=masks.causal(), weights=True)
    assert calls[0].name == "decoder.0" and calls[0].k.shape == (1, 2, 5, 4)
    same(calls[0].weights(), weights, 1e-6)
    q = mha.q(x).unflatten(-1, (6, 4)).transpose(1, 2)
    same(calls[0].q, Rotary(4)(q), 1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultiHeadAttention(10, 3), "width 10 doesn't divide into 3 heads"),
        (lambda: MultiHeadAttention(12, 4, 3), "4 heads don't divide over 3"),
        (lambda: MultiHeadAttention(12, 3, position="rotery"), "did you mean 'rotary'?"),
        (lambda: MultiHeadAttention(12, 3, qk_norm="batch"), "not one of rms, rms-centred, layer"),
        (lambda: MultiHeadAttention(12, 3, position=Sinusoidal(12)), "added to the word vectors before it"),
        (lambda: MultiHeadAttention(12, 3, bias="k"), "give True, False, 'qkv' (none on the output) or 'out'"),
        (lambda: MultiHeadAttention(12, 3)(torch.zeros(2, 5, 13)), "x is (2, 5, 13): it needs (batch, tokens, 12)"),
        (lambda: MultiHeadAttention(12, 3)(torch.zeros(5, 12)), "it needs (batch, tokens, 12)"),
        (lambda: MultiHeadAttention(12, 3, memory_width=8)(torch.zeros(1, 5, 12)), "pass memory="),
        (lambda: MultiHeadAttention(12, 3)(torch.zeros(1, 5, 12), torch.zeros(1, 5, 8)), "memory is (1, 5, 8)"),
        (lambda: MultiHeadAttention(12, 3)(torch.zeros(1, 5, 12) / 0), "q holds nan"),
        (lambda: MultiHeadAttention(12, 3, 1).to_torch(), "nn.MultiheadAttention has no grouped heads"),
        (lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, add_bias_kv=True)), "add_bias_kv"),
        (lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, kdim=4)), "from one memory"),
        (lambda: SelfAttention(6)(torch.zeros(1, 3, 5)), "it needs (batch, tokens, 6)"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
