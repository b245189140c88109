"""The one formula (formula.py) against the oracle, on any rectangle of any call, in NumPy and in torch.

The oracle has its own ten lines (oracle.py), so the two can be wrong only apart.
"""

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv import masks
from qkv.attention import Call, Steps, formula, from_qkv

from .cases import cases

KINDS = ["numpy", "torch", "torch with a graph"]


@dataclass
class Rectangle:
    """A call with everything that a call may have, and a rectangle of it."""

    call: Call  # of torch tensors
    rows: Any
    cols: Any
    heads: list[int] | None
    items: list[int] | None

    def cut(self, table: Any, cols: Any = None) -> Any:
        """What the rectangle is of a whole table (B, H, N, M)."""
        for axis, indices in enumerate((self.items, self.heads, self.rows, cols)):
            table = table if indices is None else np.take(table, np.arange(table.shape[axis])[indices], axis)
        return table

    def oracle(self) -> Steps:
        call = self.call
        q, k, v = (tensor.numpy() for tensor in (call.q, call.k, call.v))
        bias, sinks = (None if tensor is None else tensor.numpy() for tensor in (call.bias, call.sinks))
        return from_qkv(q, k, v, call.mask, call.scale, bias=bias, softcap=call.softcap, sinks=sinks)

    def of(self, kind: str) -> Call:
        """The same numbers in NumPy or in torch, of these heads and items."""
        if kind == "numpy":
            return self.call.mapped(lambda tensor: tensor.numpy()).only(self.heads, self.items)
        return self.call.mapped(lambda t: t.clone().requires_grad_("graph" in kind)).only(self.heads, self.items)


@st.composite
def rectangles(draw: Any) -> Rectangle:
    case = draw(cases())
    (batch, heads, n, _), m = case.q.shape, case.k.shape[2]
    rng = np.random.default_rng(draw(st.integers(0, 999)))

    def span(size: int) -> Any:
        low = draw(st.integers(0, size - 1))
        numbers = st.lists(st.integers(-size, size - 1), min_size=1, max_size=4)
        return draw(st.none() | st.just(slice(low, draw(st.integers(low + 1, size)))) | numbers)

    def subset(size: int) -> list[int] | None:
        return draw(st.none() | st.lists(st.integers(0, size - 1), min_size=1, max_size=3))

    bias = None
    if shape := draw(st.sampled_from([None, (n, m), (heads, n, m), (batch, 1, 1, m), (1, heads, n, 1), (1, 1, 1, 1)])):
        bias = rng.normal(size=shape)
        bias[rng.random(shape) < draw(st.sampled_from([0, 0.3]))] = -np.inf
        bias = torch.from_numpy(bias)
    sinks = torch.from_numpy(rng.normal(size=heads) * 4) if draw(st.booleans()) else None
    softcap, scale = draw(st.sampled_from([None, 0.8, 5.0])), draw(st.sampled_from([0.3, 1.0, 20.0]))
    call = Call(*case.qkv, case.mask, scale, bias, softcap, sinks)
    return Rectangle(call, span(n), span(m), subset(heads), subset(batch))


def close(ours: Any, theirs: Any) -> None:
    ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else ours
    np.testing.assert_allclose(np.broadcast_to(ours, theirs.shape), theirs, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(rectangle=rectangles())
def test_any_rectangle_equals_the_oracle(kind, rectangle):
    done, call = rectangle.oracle(), rectangle.of(kind)
    with torch.set_grad_enabled("graph" in kind):
        close(formula.scores(call, rectangle.rows, rectangle.cols), rectangle.cut(done.masked, rectangle.cols))
        close(formula.weights(call, rectangle.rows), rectangle.cut(done.weights))
        with np.errstate(divide="ignore"):
            sums = np.exp(done.masked).sum(-1)
            sums = sums if call.sinks is None else sums + np.exp(rectangle.call.sinks.numpy())[:, None]
            close(formula.lse(call, rectangle.rows), np.log(rectangle.cut(sums[..., None])[..., 0]))


@pytest.mark.parametrize(("n", "m"), [(6, 6), (4, 7), (7, 4)])
def test_every_block_of_rows_under_every_band_equals_the_oracle(n, m):
    """As maps are made: a block of rows, over no more keys than its bands let it see, hidden at their edges alone."""
    q, k = torch.randn(2, 4, n, 3, dtype=torch.float64), torch.randn(2, 2, m, 3, dtype=torch.float64)
    edges = [None, 0, 1, 3]
    bands = [masks.window(before, after) for before in edges for after in edges]
    for mask in [*bands, masks.window(3, 1) & masks.window(1, 3), masks.window(2) & masks.padding([m, 2])]:
        call = Call(q, k, k, mask, 1.0)
        done = Rectangle(call, None, None, None, None).oracle()
        for variant in (call, call.mapped(lambda tensor: tensor.numpy())):
            for rows in (slice(first, last) for first in range(n) for last in range(first + 1, n + 1)):
                cols = formula.visible_keys(mask, n, m, rows)
                with torch.no_grad():
                    close(formula.scores(variant, rows), done.masked[:, :, rows])
                    close(formula.weights(variant, rows, cols), done.weights[:, :, rows, cols])
                    with np.errstate(divide="ignore"):
                        close(formula.lse(variant, rows, cols), np.log(np.exp(done.masked[:, :, rows]).sum(-1)))
                assert done.weights[:, :, rows].sum() == pytest.approx(done.weights[:, :, rows, cols].sum())


@given(rectangle=rectangles())
def test_inputs_are_not_overwritten(rectangle):
    """Tables made on the way are; the caller's arrays never are, and a second look gives the same."""
    for kind in KINDS:
        call = rectangle.of(kind)
        arrays = (call.q, call.k, call.v, call.bias, call.sinks)
        before = [None if array is None else np.array(array.tolist()) for array in arrays]
        with torch.set_grad_enabled("graph" in kind):
            first, second = (formula.weights(call, rectangle.rows) for _ in range(2))
        assert first.tolist() == second.tolist()
        for array, was in zip(arrays, before, strict=True):
            assert array is None or np.array_equal(np.array(array.tolist()), was)


@given(rectangle=rectangles())
def test_gradients_equal_those_of_a_sum_written_out(rectangle):
    """e^s / (Σe^s + e^sink), with hidden pairs left out of the sum: no softmax, no row maximum, nothing filled."""
    names = [name for name in ("q", "k", "bias", "sinks") if getattr(rectangle.call, name) is not None]
    seed = torch.from_numpy(np.random.default_rng(0).normal(size=rectangle.oracle().weights.shape))
    rectangle.call = replace(rectangle.call, scale=0.3)

    def grads(weigh: Any) -> list[torch.Tensor]:
        call = rectangle.call.mapped(lambda tensor: tensor.clone().requires_grad_())
        loss = (weigh(call) * seed).sum()
        if not loss.requires_grad:
            return []
        gradients = torch.autograd.grad(loss, [getattr(call, name) for name in names], allow_unused=True)
        return [torch.zeros(()) if grad is None else grad for grad in gradients]

    def written_out(call: Call) -> torch.Tensor:
        k = call.k.repeat_interleave(call.q.shape[1] // call.k.shape[1], 1)
        s = torch.einsum("bhnd,bhmd->bhnm", call.q, k) * call.scale
        s = s if call.softcap is None else call.softcap * torch.tanh(s / call.softcap)
        allowed = call.allowed().expand(s.shape)
        if call.bias is not None:
            finite = call.bias != -np.inf
            s, allowed = s + torch.where(finite, call.bias, 0.0), allowed & finite
        raised = torch.where(allowed, s.exp(), 0.0)
        total = raised.sum(-1, keepdim=True)
        total = total if call.sinks is None else total + call.sinks.exp()[:, None, None]
        return raised / torch.where(total == 0, 1.0, total)

    for ours, theirs in zip(grads(formula.weights), grads(written_out), strict=True):
        close(ours, torch.broadcast_to(theirs, ours.shape).numpy())


def test_equal_scores_and_a_sink_have_the_right_gradient():
    """Where several keys are the largest, the sink's share must not be blamed on one of them."""
    scores = torch.zeros(1, 1, 1, 4, dtype=torch.float64, requires_grad=True)
    sinks = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(formula.softmax, (scores, sinks))


def test_numpy_alone_is_enough():
    """Weights from arrays, without torch."""
    code = (
        "import sys, numpy as np; from qkv import masks; from qkv.attention import Call, formula\n"
        "q = np.eye(3)[None, None]\n"
        "print(formula.weights(Call(q, q, q, masks.causal(), 1.0), rows=[1]).round(3).tolist(), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[[[0.269, 0.731, 0.0]]]] False"
