"""Random attentions of awkward sizes, and the NumPy oracle they are compared with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from qkv import masks
from qkv.attention import from_qkv


@dataclass
class Case:
    q: Tensor
    k: Tensor
    v: Tensor
    mask: masks.Mask

    @property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v

    def leaves(self) -> list[Tensor]:
        """Copies that ask for gradients."""
        return [t.clone().requires_grad_() for t in self.qkv]


def oracle(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **options: Any) -> tuple[Tensor, Tensor]:
    """(output, weights) in float64 by NumPy, one step at a time."""
    arrays = [t.detach().double().numpy() for t in (q, k, v)]
    options = {name: o.detach().double().numpy() if isinstance(o, Tensor) else o for name, o in options.items()}
    done = from_qkv(*arrays, mask=mask, **options)
    return torch.from_numpy(done.heads), torch.from_numpy(done.weights)


def draw_mask(draw: Any, batch: int, heads: int, n: int, m: int) -> masks.Mask:
    """Any mask, or two combined."""

    def lengths() -> list[int]:
        return draw(st.lists(st.integers(0, m), min_size=batch, max_size=batch))

    def run() -> masks.Mask:  # real keys in one run anywhere, as left or right padding has them
        real = np.zeros((batch, m), dtype=bool)
        for item in range(batch):
            start = draw(st.integers(0, m))
            real[item, start : draw(st.integers(start, m))] = True
        return masks.padding(real)

    def scattered(*shape: int) -> Any:
        return np.random.default_rng(draw(st.integers(0, 99))).random(shape) < 0.6

    edge = st.none() | st.integers(0, m + 1)
    kinds = {
        "full": masks.full,
        "causal": masks.causal,
        "window": lambda: masks.window(draw(edge), draw(edge)),
        "lengths": lambda: masks.padding(torch.tensor(lengths())),
        "run": run,
        "scattered keys": lambda: masks.padding(scattered(batch, m)),
        "prefix": lambda: masks.prefix(draw(st.integers(0, m))),
        "prefixes": lambda: masks.prefix(lengths()),
        "documents": lambda: masks.documents(np.sort(np.random.default_rng(n).integers(0, 3, (batch, m)))),
        "cross": lambda: masks.cross(lengths(), scattered(batch, n)),
        "dense": lambda: masks.dense(torch.from_numpy(scattered(n, m))),
        "dense per head": lambda: masks.dense(scattered(batch, heads, n, m)),
    }
    kind = st.sampled_from(sorted(kinds))
    rule = kinds[draw(kind)]()
    match draw(st.sampled_from(["alone", "and", "or", "not"])):
        case "and":
            return rule & kinds[draw(kind)]()
        case "or":
            return rule | kinds[draw(kind)]()
        case "not":
            return ~rule
    return rule


@st.composite
def cases(draw: Any, dtype: torch.dtype = torch.float64) -> Case:
    """q, k, v and a mask: odd sizes, grouped heads, N ≠ M, a value width of its own."""
    batch, groups, per_group = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n, m, d, dv = draw(st.integers(1, 9)), draw(st.integers(1, 11)), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    q, k, v = random(batch, groups * per_group, n, d), random(batch, groups, m, d), random(batch, groups, m, dv)
    return Case(q, k, v, draw_mask(draw, batch, groups * per_group, n, m))
