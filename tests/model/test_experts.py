"""A mixture of experts: the grouped road is the formula, in output and gradient; every token's experts are told."""

import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from qkv import Config, Transformer, trace
from qkv.formats.quantise import quantise
from qkv.model.describe import active, parts
from qkv.model.experts import MixtureOfExperts, grouped, mixture, record_routing, route
from qkv.model.mixture import Experts
from qkv.tracing.views.traces import Trace

SHAPE = dict(vocab=37, width=18, n_layer=3, n_head=3, hidden=20, context=40)
SETTINGS = {
    "softmax": Experts(5, 2),
    "one each": Experts(5, 1),
    "all": Experts(5, 5, hidden=7),
    "shares as they are": Experts(5, 3, normed=False, scale=0.7),
    "shared": Experts(5, 2, hidden=7, shared=11),
    "groups": Experts(8, 3, groups=4, groups_per_token=2),
    "sigmoid, groups, balance": Experts(9, 3, groups=3, groups_per_token=2, score="sigmoid", balance=True, scale=2.5),
}
each = pytest.mark.parametrize("how", SETTINGS.values(), ids=list(SETTINGS))


def layer(how, seed=0, **more):
    torch.manual_seed(seed)
    mixture_layer = MixtureOfExperts(Config(**SHAPE | more, experts=how), "decoder.0").double()
    if mixture_layer.balance is not None:
        torch.nn.init.normal_(mixture_layer.balance)
    return mixture_layer


@each
@pytest.mark.parametrize("feed_forward", ["swiglu", "relu"])
def test_grouped_equals_the_formula_in_output_and_gradient(how, feed_forward):
    mixture_layer = layer(how, feed_forward=feed_forward)
    x = torch.randn(2, 7, 18, dtype=torch.float64, requires_grad=True)
    into = torch.randn(2, 7, 18, dtype=torch.float64)
    learned = [x, *(weight for weight in mixture_layer.parameters() if weight.requires_grad)]
    fast, plain = mixture_layer(x), mixture_layer.reference(x)
    assert_close(fast, plain, atol=1e-12, rtol=0)
    for a, b in zip(
        torch.autograd.grad((fast * into).sum(), learned),
        torch.autograd.grad((plain * into).sum(), learned, materialize_grads=True),
        strict=True,
    ):
        assert_close(a, b, atol=1e-12, rtol=0)
    with torch.no_grad():
        assert_close(mixture_layer(x), plain, atol=1e-12, rtol=0)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 9), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_both_computations_agree_for_any_choice(count, per_token, tokens, seed):
    """Also experts that nobody takes, one that a token takes twice, and no token at all."""
    generator = torch.Generator().manual_seed(seed)
    experts = torch.nn.ModuleList(torch.nn.Linear(4, 4).double() for _ in range(count))
    x = torch.randn(tokens + 1, 4, dtype=torch.float64, generator=generator)
    indices = torch.randint(count, (tokens + 1, per_token), generator=generator)
    shares = torch.rand(tokens + 1, per_token, dtype=torch.float64, generator=generator)
    assert_close(grouped(x, indices, shares, experts), mixture(x, indices, shares, experts), atol=1e-12, rtol=0)
    assert grouped(x[:0], indices[:0], shares[:0], experts).shape == (0, 4)


def test_an_expert_that_nobody_takes_has_a_gradient_of_zero():
    mixture_layer = layer(Experts(5, 1))
    torch.nn.init.zeros_(mixture_layer.router.weight)  # all tied: the first one takes all
    mixture_layer(torch.randn(1, 4, 18, dtype=torch.float64)).sum().backward()
    gradients = [expert.down.weight.grad for expert in mixture_layer.experts]
    assert all(gradient is not None for gradient in gradients)
    assert sum(bool(gradient.any()) for gradient in gradients) == 1


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3"])
def test_ties_are_broken_as_in_transformers(kind):
    """Scores of few different values: most choices are between equals."""
    torch.manual_seed(0)
    from transformers.models import deepseek_v2, deepseek_v3, mixtral, qwen3_moe

    routers = dict(
        mixtral=mixtral.modeling_mixtral.MixtralTopKRouter,
        qwen3_moe=qwen3_moe.modeling_qwen3_moe.Qwen3MoeTopKRouter,
        deepseek_v2=deepseek_v2.modeling_deepseek_v2.DeepseekV2TopkRouter,
        deepseek_v3=deepseek_v3.modeling_deepseek_v3.DeepseekV3TopkRouter,
    )
    sizes = dict(hidden_size=8, num_attention_heads=2, num_experts_per_tok=3)
    grouping = dict(n_group=4, topk_group=2, n_routed_experts=12, routed_scaling_factor=2.5)
    config, how = {
        "mixtral": (hf.MixtralConfig(**sizes, num_local_experts=12), Experts(12, 3)),
        "qwen3_moe": (hf.Qwen3MoeConfig(**sizes, num_experts=12), Experts(12, 3, normed=False)),
        "deepseek_v2": (
            hf.DeepseekV2Config(**sizes, **grouping, topk_method="group_limited_greedy"),
            Experts(12, 3, normed=False, scale=2.5, groups=4, groups_per_token=2),
        ),
        "deepseek_v3": (
            hf.DeepseekV3Config(**sizes, **grouping),
            Experts(12, 3, score="sigmoid", scale=2.5, groups=4, groups_per_token=2, balance=True),
        ),
    }[kind]
    router = routers[kind](config)
    with torch.no_grad():
        router.weight.copy_(torch.randint(-1, 2, (12, 8)))
        if how.balance:
            router.e_score_correction_bias.copy_(torch.randint(0, 2, (12,)))
    x = torch.randint(-1, 2, (200, 8)).float()
    logits, shares, indices = router(x)
    assert (
        logits[:, :, None] == logits[:, None]
    ).sum() > 2 * logits.numel()  # many are equal, and not only to themselves
    ours, parts = route(logits, how, getattr(router, "e_score_correction_bias", None))
    for a, b, c, d in zip(indices.tolist(), ours.tolist(), shares.tolist(), parts.tolist(), strict=True):
        theirs, ours_by_expert = (dict(zip(numbers, values, strict=True)) for numbers, values in ((a, c), (b, d)))
        assert theirs.keys() == ours_by_expert.keys()
        assert [ours_by_expert[i] for i in theirs] == pytest.approx(list(theirs.values()), abs=1e-6)


def model(**more):
    torch.manual_seed(0)
    return Transformer(Config(**SHAPE | dict(experts=Experts(5, 2, layers="dense experts×2")) | more)).eval()


def test_a_trace_records_the_experts_of_each_token(tmp_path):
    transformer, ids = model(), [3, 1, 4, 1, 5]
    traced = trace(transformer, ids)
    assert traced.expert_layers == (1, 2)
    took = traced.experts(2)
    assert took.chosen.shape == took.shares.shape == (5, 2) and took.count == 5
    with record_routing() as routings, torch.no_grad():
        transformer(torch.tensor([ids]))
    assert [routing.name for routing in routings] == ["decoder.1", "decoder.2"]
    assert took.chosen.tolist() == routings[1].chosen[0].tolist()
    assert took.shares.sum(1).tolist() == pytest.approx([1.0] * 5)
    with pytest.raises(ValueError, match="layer 0 has no experts; these have: 1, 2"):
        traced.experts(0)
    with pytest.raises(ValueError, match="this model has no experts"):
        trace(model(experts=None), ids).experts(0)
    traced.save(tmp_path / "kept.safetensors")
    again = Trace.load(tmp_path / "kept.safetensors").experts(2)
    assert again.chosen.tolist() == took.chosen.tolist() and again.count == 5
    assert again.shares == pytest.approx(took.shares)


def test_a_long_text_in_chunks_is_routed_the_same(monkeypatch):
    transformer, ids = model(), torch.randint(37, (33,)).tolist()
    whole = trace(transformer, ids).experts(1)
    monkeypatch.setattr("qkv.tracing.record.native_model.is_long", lambda n, streamed: True)
    monkeypatch.setattr("qkv.tracing.record.native_model.chunks", lambda n: [slice(0, 20), slice(20, n)])
    assert trace(transformer, ids).experts(1).chosen.tolist() == whole.chosen.tolist()


def test_what_a_token_meets_is_counted():
    transformer = model()
    table = {part.name: part for part in parts(transformer)}
    expert_size = 3 * 18 * 20
    assert table["experts"].parameters == 2 * (5 * expert_size + 5 * 18)
    assert table["experts"].flops == 2 * 2 * (2 * expert_size + 5 * 18)
    assert table["forward"].parameters == expert_size
    assert transformer.count() - active(transformer) == 2 * 3 * expert_size
    assert "each token takes 2 of 5, chosen by softmax, in 2 of 3 layers" in transformer.describe("en")
    assert "从 5 个专家中取 2 个" in transformer.describe("zh")


def test_eight_bits_leave_the_router_alone():
    transformer = model(n_layer=1, experts=Experts(4, 2))
    ids = torch.randint(37, (1, 9))
    with torch.no_grad(), record_routing() as before:
        expected = transformer(ids)
    with torch.no_grad(), record_routing() as after:
        rounded = quantise(transformer)(ids)
    assert type(transformer.decoder[0].feed_forward.router) is torch.nn.Linear
    assert (rounded - expected).norm() < 0.05 * expected.norm()
    assert (before[0].chosen == after[0].chosen).float().mean() > 0.8


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (dict(experts={"counts": 3}), r"give none, or an object such as \{"),
        (dict(experts={"count": 3, "top": 1}), "there is no setting 'experts.top'"),
        (dict(experts=Experts(4, layers="experts×2")), "experts.layers 'experts×2' names 2 layers"),
        (dict(experts={"count": 4, "layers": "expert"}), "experts.layers 'expert' is not one of experts, dense"),
        (dict(experts=Experts(4), feed_forward="none", hidden=None), "experts are feed-forwards"),
        (dict(experts={"count": 4, "score": "max"}), "experts.score 'max' is not one of softmax, sigmoid"),
        (dict(experts={"count": 4, "groups": 3}), "4 experts don't divide into 3 groups"),
        (dict(experts={"count": 4, "groups": 2, "per_token": 3}), "can't come from 1 of 2 groups of 2"),
        (dict(experts={"count": 10**5}), "4096 are the most"),
        (dict(experts={"count": 4, "scale": 0}), "experts.scale is 0: give a number above 0"),
        (dict(experts={"count": True}), "experts.count is True"),
        (dict(experts={"count": 4, "normed": 1}), "experts.normed is 1: give true or false"),
    ],
)
def test_a_wrong_mixture_is_refused_with_what_is_right(settings, sentence):
    with pytest.raises(ValueError, match=sentence) as refusal:
        Config(**SHAPE | settings)
    assert refusal.value.say("zh") != str(refusal.value)


def test_settings_of_the_group_come_and_go_as_plain_values():
    config = Config(**SHAPE).set(["experts.count=6", "experts.per_token=3", "experts.layers=dense×2 experts"])
    assert config.experts == Experts(6, 3, layers="dense×2 experts")
    assert Config.from_dict(config.to_dict()) == config
    assert config.set(["experts.per_token=1"]).experts == Experts(6, 1, layers="dense×2 experts")
    assert config.set(["experts=none"]).experts is None
