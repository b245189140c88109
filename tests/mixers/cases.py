"""Random mixings of awkward sizes, and the NumPy reference they are compared with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from qkv.mixers import mix, reference


@dataclass
class Case:
    q: Tensor
    k: Tensor
    v: Tensor
    decay: Tensor
    write: Tensor | None
    state: Tensor | None = None

    def mix(self, **options: Any) -> tuple[Tensor, Tensor]:
        return mix(*self.inputs, **(dict(write=self.write, state=self.state) | options))

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v, self.decay

    @property
    def n(self) -> int:
        return self.v.shape[2]

    def leaves(self) -> "Case":
        """Copies that ask for gradients."""
        return Case(*(None if t is None else t.clone().requires_grad_() for t in vars(self).values()))

    def part(self, start: int, stop: int) -> "Case":
        """Some of the tokens, with no state."""
        return Case(*(None if t is None else t[:, :, start:stop] for t in (*self.inputs, self.write)))


@st.composite
def cases(draw: Any, delta: bool | None = None, state: bool | None = None, least: int = 1) -> Case:
    """Odd lengths, groups, decays from almost 0 to exactly 1; keys of length 1, as the delta rule wants them."""
    batch, groups, per_group = (draw(st.integers(1, 3)) for _ in range(3))
    n = draw(st.integers(least, 19))
    key, value = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    heads = groups * per_group

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape))

    k = torch.nn.functional.normalize(normal(batch, groups, n, key), dim=-1)
    decay = -normal(batch, heads, n).abs() * 10.0 ** draw(st.integers(-6, 2))
    decay[normal(batch, heads, n) > 1] = 0.0
    corrects = draw(st.booleans()) if delta is None else delta
    write = torch.from_numpy(rng.uniform(size=(batch, heads, n))) if corrects else None
    first = normal(batch, heads, key, value) if (draw(st.booleans()) if state is None else state) else None
    return Case(normal(batch, groups, n, key), k, normal(batch, heads, n, value), decay, write, first)


def by_reference(case: Case, scale: float) -> reference.Mixed:
    """By NumPy; a state that came before is written by tokens of its own, one per number of the key."""
    per_group = case.v.shape[1] // case.q.shape[1]
    q, k = (t.detach().repeat_interleave(per_group, 1).numpy() for t in (case.q, case.k))
    v, decay = case.v.detach().numpy(), case.decay.detach().numpy()
    write = None if case.write is None else case.write.detach().numpy()
    before = 0
    if case.state is not None:  # S = Σ_d e_d·S[d]ᵀ: unit keys write it row by row
        batch, heads, before, _ = case.state.shape
        unit = np.broadcast_to(np.eye(before), (batch, heads, before, before))
        q, k = np.concatenate([0 * unit, q], 2), np.concatenate([unit, k], 2)
        v = np.concatenate([case.state.detach().numpy(), v], 2)
        decay = np.concatenate([np.zeros((batch, heads, before)), decay], 2)
        write = None if write is None else np.concatenate([np.ones((batch, heads, before)), write], 2)
    if write is None:
        whole = reference.linear(q, k, v, decay, scale)
    else:
        whole = reference.delta(q, k, v, decay, write, scale)
    return reference.Mixed(whole.weights[..., before:, before:], whole.output[..., before:, :], whole.state)


def close(ours: Tensor, theirs: Any, atol: float = 1e-10) -> None:
    theirs = torch.as_tensor(theirs)
    torch.testing.assert_close(ours.detach().double(), theirs.detach().double(), atol=atol, rtol=atol)
