"""The loss without all logits is cross-entropy, in value and gradient, however the rows are cut."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import qkv
from qkv.model import word_loss as cut
from qkv.model.word_loss import word_costs, word_loss

LABELS = [[3, 0, -100, 12, 5], [-100] * 5, [1, 1, 12, -100, 0]]


def plain_loss(head, states, labels):
    return F.cross_entropy(head(states).flatten(0, 1), labels.flatten(), reduction="sum")


def gradients(loss, states, head):
    """Of loss·0.37: what stands behind it is seldom 1."""
    states.grad = None
    head.zero_grad()
    (loss * 0.37).backward()
    return [tensor.grad.clone() for tensor in (states, *head.parameters()) if tensor.grad is not None]


@pytest.mark.parametrize("at_once", [1, 13, 40, 150, 10**6])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_it_is_cross_entropy(at_once, bias, frozen, monkeypatch):
    monkeypatch.setattr(cut, "LOGITS", at_once)
    torch.manual_seed(0)
    head = nn.Linear(9, 13, bias=bias, dtype=torch.float64).requires_grad_(not frozen)
    states = (torch.randn(3, 5, 9, dtype=torch.float64) * 3).requires_grad_()
    labels = torch.tensor(LABELS)
    loss, expected = word_loss(head, states, labels), plain_loss(head, states, labels)
    assert torch.allclose(loss, expected, rtol=1e-12)
    pairs = zip(gradients(loss, states, head), gradients(expected, states, head), strict=True)
    assert all(torch.allclose(ours, theirs, rtol=1e-11, atol=1e-13) for ours, theirs in pairs)
    each = F.cross_entropy(head(states).flatten(0, 1), labels.flatten(), reduction="none")
    assert torch.allclose(word_costs(head, states.flatten(0, 1), labels.flatten()), each, rtol=1e-12)


def test_no_words_cost_nothing():
    head = nn.Linear(9, 13)
    assert word_costs(head, torch.zeros(0, 9), torch.zeros(0, dtype=torch.long)).shape == (0,)
    assert word_loss(head, torch.zeros(0, 3, 9), torch.zeros(0, 3, dtype=torch.long)) == 0


def test_a_word_that_is_all_but_impossible_has_a_finite_cost(monkeypatch):
    monkeypatch.setattr(cut, "LOGITS", 4)
    head = nn.Linear(1, 4, bias=False)
    head.weight.data[:] = torch.tensor([[0.0], [300.0], [-300.0], [299.0]])
    states, labels = torch.ones(1, 2, 1), torch.tensor([[2, 1]])
    assert torch.allclose(word_loss(head, states, labels), plain_loss(head, states, labels))


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_learns_the_same_by_labels(tied, monkeypatch):
    torch.manual_seed(0)
    model = qkv.Transformer(qkv.Config(vocab=50, width=32, n_layer=2, n_head=4, tied=tied)).double()
    ids, labels = torch.randint(50, (2, 7)), torch.randint(50, (2, 7))
    labels[0, :3] = -100
    plain = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="sum")
    plain.backward()
    expected = {name: tensor.grad.clone() for name, tensor in model.named_parameters()}
    model.zero_grad()
    monkeypatch.setattr(cut, "LOGITS", 60)
    loss = model(ids, labels=labels)
    loss.backward()
    assert torch.allclose(loss, plain, rtol=1e-12)
    assert all(
        torch.allclose(tensor.grad, expected[name], rtol=1e-10, atol=1e-12) for name, tensor in model.named_parameters()
    )


def test_other_heads_and_half_precision_use_cross_entropy(monkeypatch):
    monkeypatch.setattr(cut, "LOGITS", 30)
    labels = torch.tensor(LABELS)
    for head in (nn.Sequential(nn.Linear(9, 13)), nn.Linear(9, 13).to(torch.bfloat16)):
        states = torch.randn(3, 5, 9, dtype=next(head.parameters()).dtype)
        if isinstance(head, nn.Sequential):
            head.weight = head[0].weight
        assert torch.allclose(word_loss(head, states, labels), plain_loss(head, states, labels), rtol=1e-2)
        expected = F.cross_entropy(head(states).flatten(0, 1).float(), labels.flatten(), reduction="none")
        assert torch.allclose(word_costs(head, states.flatten(0, 1), labels.flatten()), expected.double())
