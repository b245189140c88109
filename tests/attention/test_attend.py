"""`attend` against the NumPy oracle, against PyTorch, and against itself on every road."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from qkv import attend, masks, record
from qkv.attention import explain, formula, replace_weights
from qkv.attention.rules import Band

from .cases import cases, oracle

KERNELS = ["plain", "sdpa", "auto"]


def close(ours, theirs, atol=1e-12):
    torch.testing.assert_close(ours.double(), theirs.double(), atol=atol, rtol=atol, check_dtype=False)


@pytest.mark.parametrize("kernel", KERNELS)
@given(case=cases(), scale=st.sampled_from([None, 1.0, 0.3]))
def test_equals_the_oracle(kernel, case, scale):
    output, weights = oracle(*case.qkv, mask=case.mask, scale=scale)
    close(attend(*case.qkv, case.mask, scale=scale, kernel=kernel), output)
    ours, shares = attend(*case.qkv, case.mask, scale=scale, kernel=kernel, weights=True)
    close(ours, output)
    close(shares, weights)


@given(case=cases(), seed=st.integers(0, 99))
def test_bias_softcap_and_sinks_equal_the_oracle(case, seed):
    rng = np.random.default_rng(seed)
    (batch, heads, n, _), m = case.q.shape, case.k.shape[2]
    shape = [(n, m), (1, heads, n, m), (batch, 1, 1, m)][seed % 3]
    options = {"bias": torch.from_numpy(rng.normal(size=shape))}
    close(attend(*case.qkv, case.mask, **options), oracle(*case.qkv, mask=case.mask, **options)[0])
    options |= {"softcap": 2.5, "sinks": torch.from_numpy(rng.normal(size=heads))}
    output, weights = oracle(*case.qkv, mask=case.mask, **options)
    ours, shares = attend(*case.qkv, case.mask, **options, weights=True)
    close(ours, output)
    close(shares, weights)
    close(attend(*case.qkv, case.mask, **options), output)


@given(case=cases())
def test_gradients_agree_between_kernels_and_with_torch(case):
    allowed = case.mask.tensor(case.q.shape[2], case.k.shape[2], batch=len(case.q), heads=case.q.shape[1])
    per_kv = case.q.shape[1] // case.k.shape[1]

    def by_torch(q, k, v, mask, **_):
        k, v = k.repeat_interleave(per_kv, 1), v.repeat_interleave(per_kv, 1)
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~allowed, -1e300)
        return (scores.softmax(-1) * allowed) @ v

    seed = torch.randn(*case.q.shape[:3], case.v.shape[3], dtype=torch.float64)
    grads = {}
    for name, run in [("torch", by_torch), *((kernel, attend) for kernel in KERNELS)]:
        leaves = case.leaves()
        run(*leaves, case.mask, **({} if name == "torch" else {"kernel": name})).mul(seed).sum().backward()
        grads[name] = [leaf.grad for leaf in leaves]
    for kernel in KERNELS:
        for ours, theirs in zip(grads[kernel], grads["torch"], strict=True):
            close(ours, theirs, 1e-10)


@pytest.mark.parametrize("options", [{}, {"softcap": 1.5}, {"sinks": True}, {"bias": True}], ids=str)
def test_gradcheck_of_the_plain_kernel(options):
    q, k, v = (torch.randn(2, h, n, 3, dtype=torch.float64, requires_grad=True) for h, n in ((4, 3), (2, 5), (2, 5)))
    extra = {"sinks": (4,), "bias": (4, 3, 5)}
    name = next((o for o in options if o in extra), None)
    learned = torch.randn(extra[name] if name else 1, dtype=torch.float64, requires_grad=True)
    mask = masks.causal() & masks.padding([4, 1])

    def run(q, k, v, learned):
        extra = {"softcap": 1.5} if "softcap" in options else {} if name is None else {name: learned}
        return attend(q, k, v, mask, kernel="plain", **extra)

    assert torch.autograd.gradcheck(run, (q, k, v, learned))


@pytest.mark.parametrize("n", [1, 7, 64])
def test_equals_sdpa_in_float32_output_and_gradient(n):
    q, k, v = (torch.randn(2, 4, n, 16, requires_grad=True) for _ in range(3))
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    ours = attend(q, k, v, masks.causal())
    close(ours, theirs, 1e-6)
    for a, b in zip(
        torch.autograd.grad(ours.sum(), (q, k, v)), torch.autograd.grad(theirs.sum(), (q, k, v)), strict=True
    ):
        close(a, b, 1e-5)


@given(case=cases(), seed=st.integers(0, 99))
def test_permuting_keys_changes_nothing(case, seed):
    m = case.k.shape[2]
    order = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
    batch, heads, n, _ = case.q.shape
    allowed = case.mask.tensor(n, m, batch=batch, heads=heads)
    mixed = masks.dense(allowed.expand(batch, heads, n, m)[..., order])
    close(attend(case.q, case.k[:, :, order], case.v[:, :, order], mixed), attend(*case.qkv, case.mask))


@pytest.mark.parametrize("kernel", KERNELS)
@given(case=cases())
def test_changing_a_hidden_key_changes_nothing(kernel, case):
    batch, heads, n, _ = case.q.shape
    m, groups = case.k.shape[2], case.k.shape[1]
    allowed = case.mask.tensor(n, m, batch=batch, heads=heads).expand(batch, heads, n, m)
    visible = allowed.unflatten(1, (groups, -1)).any(2).any(2)[..., None]  # (B, G, M, 1): by any row of any head
    k, v = torch.where(visible, case.k, 1e3), torch.where(visible, case.v, -1e3)
    close(attend(case.q, k, v, case.mask, kernel=kernel), attend(*case.qkv, case.mask, kernel=kernel))


def test_non_contiguous_inputs():
    q, k, v = (torch.randn(2, 5, 3, 4, dtype=torch.float64).transpose(1, 2) for _ in range(3))
    strided = torch.randn(2, 3, 5, 8, dtype=torch.float64)[..., ::2]
    for case in ((q, k, v), (strided, k, v), (q, strided, strided)):
        for kernel in KERNELS:
            close(attend(*case, masks.causal(), kernel=kernel), oracle(*case, mask=masks.causal())[0])


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (0, 0), (1, 1), (1, 9)])
def test_lengths_0_and_1(n, m):
    q, k, v = (torch.randn(2, 4, s, 3, dtype=torch.float64, requires_grad=True) for s in (n, m, m))
    for kernel in KERNELS:
        output = attend(q, k, v, masks.causal(), kernel=kernel)
        close(output, oracle(q, k, v, mask=masks.causal())[0])
        output.sum().backward()
        assert all(torch.isfinite(t.grad).all() for t in (q, k, v))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kernel", KERNELS)
def test_huge_scores_give_no_nan(kernel, dtype):
    q, k, v = (torch.randn(2, 4, 9, 16).to(dtype) for _ in range(3))
    for mask in (None, masks.causal(), masks.padding([0, 5]), masks.window(2) & masks.padding([3, 9])):
        output, weights = attend(q * 300, k * 300, v, mask, kernel=kernel, weights=True)
        assert torch.isfinite(output).all() and torch.isfinite(weights).all()
        assert torch.isfinite(attend(q * 300, k * 300, v, mask, kernel=kernel)).all()
        exact = oracle(q, k, v, mask=mask)[0]
        close(attend(q, k, v, mask, kernel=kernel), exact, {torch.float32: 1e-5}.get(dtype, 3e-2))


def test_dropout_is_applied_and_weights_are_before_it():
    q = torch.randn(1, 2, 20, 4)
    exact = attend(q, q, q, weights=True)[1]
    output, weights = attend(q, q, q, weights=True, dropout=0.5)
    assert torch.equal(weights, exact)
    assert not torch.equal(output, weights @ q)
    many = torch.stack([attend(q, q, q, dropout=0.5) for _ in range(400)]).mean(0)
    close(many, exact @ q, 0.2)
    for kernel in KERNELS:
        assert torch.equal(attend(q, q, q, kernel=kernel), attend(q, q, q, kernel=kernel, dropout=0.0))


@pytest.mark.parametrize("kind", ["none", "causal", "window", "ragged"])
def test_compiled_equals_eager(kind):
    q, k, v = (torch.randn(2, h, 40, 8, requires_grad=True) for h in (4, 2, 2))
    lengths = torch.tensor([40, 11])

    def run(q, k, v, lengths):
        rule = {"none": None, "causal": masks.causal(), "window": masks.window(3), "ragged": masks.padding(lengths)}
        return attend(q, k, v, rule[kind])

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    ours, theirs = compiled(q, k, v, lengths), run(q, k, v, lengths)
    close(ours, theirs, 1e-6)
    for a, b in zip(
        torch.autograd.grad(ours.sum(), (q, k, v)), torch.autograd.grad(theirs.sum(), (q, k, v)), strict=True
    ):
        close(a, b, 1e-5)


def test_record_hands_over_references_in_order():
    q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8)
    with record() as outer:
        attend(q, k, k, masks.causal(), name="first")
        with record() as inner:
            attend(k, k, k, scale=0.5)
    attend(q, k, k)
    assert [c.name for c in outer] == ["first", None] and len(inner) == 1
    assert outer[0].q is q and outer[0].k is k and inner[0].scale == 0.5
    close(outer[0].weights(), attend(q, k, k, masks.causal(), weights=True)[1], 1e-6)
    close(outer[0].weights([3, 0]), attend(q, k, k, masks.causal(), weights=True)[1][:, [3, 0]], 1e-6)


def test_minus_infinity_in_a_bias_hides_like_a_mask():
    q, k, v = (torch.randn(2, 3, 4, 5, dtype=torch.float64) for _ in range(3))
    bias = torch.randn(4, 4, dtype=torch.float64)
    bias[0, 0] = bias[1, :] = bias[3, 2] = -torch.inf
    hidden = bias == -torch.inf
    for rule in (None, masks.causal()):
        both = masks.resolve(rule) & masks.dense(~hidden)
        expected, shares = oracle(q, k, v, mask=both, bias=bias.masked_fill(hidden, 0.0))
        output, weights = attend(q, k, v, rule, bias=bias, weights=True)
        close(output, expected)
        close(weights, shares)
        close(attend(q, k, v, rule, bias=bias), expected)
        capped = attend(q, k, v, rule, bias=bias, softcap=2.0, weights=True)[1]
        assert (capped[:, :, hidden] == 0).all()


def test_another_threads_calls_are_not_recorded():
    import threading

    q = torch.randn(1, 1, 2, 4)
    with record() as calls:
        other = threading.Thread(target=lambda: attend(q, q, q, name="other"))
        other.start()
        other.join()
        attend(q, q, q, name="own")
    assert [call.name for call in calls] == ["own"]


def test_weights_under_autocast():
    q, k, v = (torch.randn(2, 4, 9, 16) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        output, weights = attend(q, k, v, masks.causal(), weights=True)
    expected, shares = oracle(q, k, v, mask=masks.causal())
    close(weights, shares, 1e-6)
    close(output, expected, 1e-5)


def test_all_items_empty_still_has_a_gradient():
    q = torch.randn(2, 3, 4, 5, requires_grad=True)
    for kernel in KERNELS:
        attend(q, q, q, masks.padding([0, 0]), kernel=kernel).sum().backward()
        assert (q.grad == 0).all()


def test_nested_edits_compose():
    q = torch.randn(1, 2, 3, 4, dtype=torch.float64)
    with replace_weights(lambda w: w * 2), replace_weights(lambda w: w + 1, heads=[1]):
        plain = attend(q, q, q)
        output, weights = attend(q, q, q, weights=True)
    exact = attend(q, q, q, weights=True)[1]
    close(weights, torch.stack([exact[:, 0] * 2, exact[:, 1] * 2 + 1], 1))
    close(plain, output)
    close(plain, weights @ q)


def test_wrong_edits_are_refused():
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(ValueError, match="there are 2, numbered from 0"), replace_weights(torch.zeros_like, heads=[2]):
        attend(q, q, q)
    with pytest.raises(ValueError, match="keep the shape"), replace_weights(lambda w: w[..., :1]):
        attend(q, q, q)


@pytest.mark.parametrize("rule", [masks.window(20), masks.padding([300, 7]), masks.prefix(9)], ids=repr)
def test_dropout_on_every_kernel(rule):
    q = torch.randn(2, 2, 300, 8)
    assert not torch.equal(attend(q, q, q, rule, dropout=0.5), attend(q, q, q, rule, dropout=0.5))


def test_compiled_for_any_length_and_with_masks_built_inside():
    def run(q, k, lengths):
        rule = (masks.window(3) | masks.prefix(2)) & masks.padding(lengths) & masks.padding(lengths + 1)
        return attend(q, k, k, rule) + attend(q, k, k, masks.causal()) + attend(q, k, k, masks.padding([3, 2]))

    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    torch._dynamo.utils.counters.clear()
    for n in (5, 9, 13, 21):
        q, k = torch.randn(2, 4, n, 8), torch.randn(2, 2, n, 8)
        lengths = torch.tensor([n, 3])
        close(compiled(q, k, lengths), run(q, k, lengths), 1e-6)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2


@pytest.mark.slow
@pytest.mark.needs("a C++ compiler")
def test_compiled_by_inductor_forward_and_backward():
    q, k = torch.randn(2, 4, 40, 8, requires_grad=True), torch.randn(2, 2, 40, 8, requires_grad=True)
    for rule in (masks.causal(), masks.window(3), masks.padding(torch.tensor([40, 11]))):
        compiled = torch.compile(lambda q, k, rule=rule: attend(q, k, k, rule), fullgraph=True)
        ours, theirs = compiled(q, k), attend(q, k, k, rule)
        close(ours, theirs, 1e-5)
        for a, b in zip(*(torch.autograd.grad(t.square().sum(), (q, k)) for t in (ours, theirs)), strict=True):
            close(a, b, 1e-4)


def test_meta_tensors_have_shapes():
    q, k = torch.randn(2, 4, 6, 8, device="meta"), torch.randn(2, 2, 9, 8, device="meta")
    for rule in (None, masks.causal(), masks.window(2), masks.prefix(2)):
        output, weights = attend(q, k, k, rule, weights=True)
        assert output.shape == attend(q, k, k, rule).shape == q.shape and weights.shape == (2, 4, 6, 9)


def test_recording_stops_after_an_error():
    with pytest.raises(RuntimeError), record() as calls:
        raise RuntimeError
    attend(*[torch.randn(1, 1, 2, 2)] * 3)
    assert calls == []


def test_recorded_heads_with_head_mask_bias_and_sinks():
    q, k = torch.randn(2, 4, 3, 8, dtype=torch.float64), torch.randn(2, 2, 5, 8, dtype=torch.float64)
    rule = masks.dense(torch.rand(2, 4, 3, 5) > 0.3)
    options = {"bias": torch.randn(1, 4, 3, 5).double(), "sinks": torch.randn(4).double(), "softcap": 3.0}
    with record() as calls:
        _, weights = attend(q, k, k, rule, **options, weights=True)
    close(calls[0].weights([2, 1]), weights[:, [2, 1]])


def test_replacing_weights_of_named_heads():
    q, k, v = (torch.randn(2, h, 5, 8, dtype=torch.float64) for h in (4, 2, 2))
    before = attend(q, k, v, masks.causal())
    with replace_weights(lambda w: w):
        close(attend(q, k, v, masks.causal()), before)
    with replace_weights(torch.zeros_like, heads=[2], name="layer 1"):
        assert torch.equal(attend(q, k, v, masks.causal()), before)
        after = attend(q, k, v, masks.causal(), name="layer 1")
        both, weights = attend(q, k, v, masks.causal(), name="layer 1", weights=True)
    assert (after[:, 2] == 0).all() and torch.equal(after[:, [0, 1, 3]], before[:, [0, 1, 3]])
    close(both, after)
    assert (weights[:, 2] == 0).all() and (weights[:, 3].sum(-1) - 1).abs().max() < 1e-12
    assert torch.equal(attend(q, k, v, masks.causal()), before)


@pytest.mark.parametrize(
    ("n", "m", "mask", "options", "message"),
    [
        (8, 8, None, {}, "sdpa without a mask."),
        (8, 8, masks.causal(), {}, "sdpa causal: the fused kernel skips the future by itself."),
        (1, 8, masks.causal(), {}, "sdpa without a mask."),
        (8, 8, masks.padding([3]), {}, "sdpa on the 3 real keys."),
        (8, 8, masks.prefix(3), {}, "sdpa with prefix(3) written out as 8×8."),
        (
            1024,
            1024,
            masks.window(64),
            {},
            "sdpa on 8 pieces: window(64, 0) leaves 18 % of the 1024×1024 scores to compute.",
        ),
        (8, 8, None, {"weights": True}, "plain because the weights were asked for."),
        (8, 8, None, {"softcap": 3.0}, "plain because the fused kernel has no softcap."),
        (8, 8, None, {"kernel": "plain"}, "plain because it was asked for."),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_explain_names_the_kernel(n, m, mask, options, message):
    q, k = torch.zeros(1, 2, n, 4), torch.zeros(1, 2, m, 4)
    assert explain(q, k, k, mask, **options) == message


def test_explains_in_the_language_spoken(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "zh")
    q = torch.zeros(1, 2, 1024, 4)
    assert explain(q, q, q, weights=True) == "plain：因为要求返回权重。"
    assert explain(q, q, q, masks.window(64)).startswith("sdpa：分成 8 块：window(64, 0)")


good = torch.zeros(2, 4, 5, 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attend(good[0], good, good), "q is (4, 5, 8): it needs four axes"),
        (lambda: attend(good, good[:1], good), "batches differ: q has 2, k has 1"),
        (lambda: attend(good, good[..., :4], good), "q is 8 wide but k is 4"),
        (lambda: attend(good, good[:, :, :3], good), "3 keys but 5 values"),
        (lambda: attend(good, good[:, :3], good[:, :3]), "4 query heads don't divide over 3 key heads"),
        (lambda: attend(good, good.double(), good), "convert all three to one dtype"),
        (lambda: attend(good, good, good, torch.ones(5, 5)), "if it holds 0 and −inf"),
        (lambda: attend(good, good, good, torch.ones(2, 6, dtype=torch.bool)), "use masks.padding(mask)"),
        (lambda: attend(good, good, good, kernel="flash"), "not one of auto, plain, sdpa"),
        (lambda: attend(good, good, good, kernel="sdpa", softcap=2.0), "use kernel='auto'"),
        (lambda: attend(good, good, good, bias=torch.zeros(3, 5)), "it must broadcast"),
        (lambda: attend(good, good, good, sinks=torch.zeros(3)), "one finite number per head, (4,)"),
        (lambda: attend(good, good, good, softcap=0.0), "a positive number"),
        (lambda: attend(good.numpy(), good, good), "attend takes torch tensors"),
        (lambda: attend(good.long(), good, good), "attend takes torch tensors of floats"),
        (lambda: attend(good[..., :0], good[..., :0], good), "0 wide"),
        (lambda: attend(good, good, good, dropout=1.5), "dropout is 1.5"),
        (lambda: attend(good, good, good, bias=torch.ones(5, 5) == 1), "goes into mask="),
        (lambda: attend(good, good, good, scale=torch.nn.Parameter(torch.ones(()))), "would not be learned"),
        (lambda: attend(good, good, good + torch.nan), "v holds nan at (0, 0, 0, 0)"),
        (lambda: attend(good, good + torch.inf, good), "k holds inf at (0, 0, 0, 0)"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("mask", [None, masks.causal(), masks.window(3), masks.padding([9, 4])], ids=repr)
def test_recording_changes_no_bit_and_stores_the_row_sums(mask, groups):
    """SDPA drops the log of every row's sum, which its kernel knows; who listens gets it at no cost."""
    torch.manual_seed(0)
    for n in (9, 70, 130):  # with a batch and views as models hand them over
        q, k = (torch.randn(2, n, heads, 8).transpose(1, 2) for heads in (4, groups))
        v = torch.randn_like(k)
        with torch.no_grad():
            plain = attend(q, k, v, mask)
            with record() as calls:
                assert torch.equal(attend(q, k, v, mask), plain)
            (call,) = calls
            has_lse = mask is None or (isinstance(mask, Band) and mask.left is None)
            assert (call.lse is not None) == has_lse
            if has_lse:
                close(call.lse, formula.lse(call), 1e-5)
                close(call.only([1, 3], [1]).lse, formula.lse(call)[1:, [1, 3]], 1e-5)
                assert call.mapped(Tensor.double).lse is None and call.mapped(Tensor.clone).lse is not None


def test_row_sums_are_stored_only_by_the_flash_kernel():
    q = torch.randn(1, 2, 70, 8)
    with torch.no_grad(), record() as calls:
        attend(q, q, q, dropout=0.5)
        attend(q.double(), q.double(), q.double())
        attend(q, q, q, softcap=2.0)
        attend(q, q, torch.randn(1, 2, 70, 5))
        with sdpa_kernel(SDPBackend.MATH):
            attend(q, q, q)
    with record() as learning:
        attend(q.clone().requires_grad_(), q, q).sum().backward()
    assert [call.lse for call in calls + learning] == [None] * 6
