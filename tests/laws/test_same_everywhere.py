"""Attention gives the same result with and without gradients, in inference mode, recorded, and with weights."""

import sys

import pytest
import torch

import qkv
from qkv import attend, masks, record

RULES = {
    "none": None,
    "causal": masks.causal(),
    "window": masks.window(20),
    "padding": masks.padding([300, 7]),
    "both": masks.causal() & masks.padding([300, 7]),
    "prefix": masks.prefix(9),
    "documents": masks.documents(torch.arange(300) // 77),
}


@pytest.mark.parametrize("name", RULES)
def test_modes_agree(name):
    q, k, v = (torch.randn(2, h, 300, 8, requires_grad=True) for h in (4, 2, 2))
    rule = RULES[name]
    plain = attend(q, k, v, rule, kernel="plain")
    training = attend(q, k, v, rule)
    torch.testing.assert_close(training, plain, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(attend(q, k, v, rule), plain, atol=1e-5, rtol=1e-5)
    with torch.inference_mode(), record() as calls:
        torch.testing.assert_close(attend(q, k, v, rule), plain, atol=1e-5, rtol=1e-5)
    assert len(calls) == 1
    torch.testing.assert_close(attend(q, k, v, rule, weights=True)[0], plain, atol=1e-5, rtol=1e-5)
    upstream = torch.randn_like(plain)
    ours, theirs = (torch.autograd.grad(t, (q, k, v), upstream, retain_graph=True) for t in (training, plain))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_no_listener_remains():
    state = vars(sys.modules["qkv.attention.dispatch"])
    assert state["_listeners"] == [] and state["_edits"] == []


def test_the_public_names_are_there_and_no_others():
    for name in qkv.__all__:
        assert getattr(qkv, name) is not None
    with pytest.raises(AttributeError, match="qkv has no 'attention_is_all_you_need'"):
        qkv.attention_is_all_you_need  # noqa: B018
