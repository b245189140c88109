"""Weights that the code leaves as memory has them (`torch.empty`) are drawn from a seed: the verdict is always the same."""

import pytest
import torch
from torch import nn

from qkv.doctor.doctor import check
from qkv.doctor.subject.building import construct

LEFT = [0.0]  # the number that memory is full of


class Unset(nn.Module):
    """Right attention whose matrices wait for a checkpoint."""

    def __init__(self, d_model, n_heads, wrong=False):
        super().__init__()
        self.n_heads, self.wrong = n_heads, wrong
        _ = [torch.full((d_model, d_model), LEFT[0], dtype=torch.float64) for _ in range(8)]
        del _  # the next tensors of this size lie where these were
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Parameter(torch.empty(d_model, d_model)) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = ((x @ w.T).view(b, n, self.n_heads, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / (d if self.wrong else d // self.n_heads) ** 0.5
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d) @ self.w_o.T


@pytest.fixture
def memory_as_it_is():
    """conftest.py fills new memory with NaN for all tests; here it is as people have it."""
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("wrong", "verdict", "ids"), [(False, "right", []), (True, "wrong", ["S3"])])
@pytest.mark.usefixtures("memory_as_it_is")
def test_the_verdict_does_not_depend_on_what_lies_in_memory(wrong, verdict, ids):
    class Given(Unset):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads, wrong)

    for LEFT[0] in (1e200, float("nan"), 0.0):
        report = check(Given)
        assert (report.verdict, [finding.id for finding in report.findings]) == (verdict, ids), report


@pytest.mark.usefixtures("memory_as_it_is")
def test_only_what_is_unset_is_drawn():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.set, self.unset = nn.Linear(3, 3), nn.Parameter(torch.empty(3, 2))
            self.register_buffer("table", torch.empty(4))
            self.register_buffer("mask", torch.tensor([0.0, float("-inf")]))

    torch.manual_seed(0)
    wanted = nn.Linear(3, 3, dtype=torch.float64)
    first = construct(Half, {})
    _ = [torch.full((6,), 7.0, dtype=torch.float64) for _ in range(50)]
    again = construct(Half, {})
    assert torch.equal(first.set.weight, wanted.weight) and torch.equal(first.mask, torch.tensor([0.0, -torch.inf]))
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]) and not tensor.isnan().any(), name
    assert not torch.are_deterministic_algorithms_enabled()
