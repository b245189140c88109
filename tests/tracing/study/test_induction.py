"""Repeated random tokens show the heads that do induction, and no others."""

from unittest import mock

import numpy as np
import pytest
import torch

from qkv import Config, Transformer
from qkv.attention import dispatch as module
from qkv.tracing.study.induction import induction_test


def test_the_induction_test_finds_an_induction_head_and_only_it():
    """A head whose scores are those of a copy from one block before, minus one: built by a bias, in a real model."""
    torch.manual_seed(0)
    length = 7
    model = Transformer(Config(vocab=30, width=32, n_layer=2, n_head=4))
    bias = torch.zeros(1, 4, 2 * length, 2 * length)
    for i in range(length, 2 * length):
        bias[0, 2, i, i - length + 1] = 50.0
    plain = module._checked_call

    def biased(q, k, v, mask, scale, extra, softcap, sinks, name):
        extra = bias if name == "decoder.1" else extra
        return plain(q, k, v, mask, scale, extra, softcap, sinks, name)

    with mock.patch.object(module, "_checked_call", biased):
        tested = induction_test(model, vocab=range(5, 30), length=length, batch=3)
    assert tested.best(1)[0][:2] == (1, 2) and tested.best(1)[0][2] == pytest.approx(1, abs=1e-6)
    assert tested.scores.shape == (2, 4) and tested.count == 3 * length
    assert np.delete(tested.scores.ravel(), 6).max() < 0.5
    true_baseline = np.mean([1 / (i + 1) for i in range(length, 2 * length)])
    assert tested.baseline == pytest.approx(true_baseline)
    assert "1.2" in tested.show("en") and "归纳测试" in tested.show("zh")


def test_the_induction_test_runs_on_every_kind_and_is_repeatable():
    for kind in ("encoder", "encoder-decoder"):
        torch.manual_seed(0)
        model = Transformer(Config(vocab=30, width=32, n_layer=1, n_head=4, kind=kind, position="sinusoidal"))
        first, two = (induction_test(model, vocab=30, length=6, repeats=3, batch=2) for _ in range(2))
        assert np.array_equal(first.scores, two.scores) and first.count == 2 * 12
    with pytest.raises(ValueError, match="from 2 to 5"):
        induction_test(model, vocab=5, length=6)
