"""The parts of a trace besides the calls: output projections, rotary positions, and the experts of each token.

N tokens, H heads, D head width, C model width, K experts of a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Projection:
    """A layer's output projection: weight (C, H·D) and bias (C,), references to the model's own."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Turning:
    """Rotary positions: pair i of q and k is rotated by position · frequencies[i], then multiplied by `stretch`."""

    frequencies: tuple[float, ...]
    stretch: float = 1.0


@dataclass(frozen=True)
class Routed:
    """The experts that each token of a text took in one layer, best first, and their shares: (N, K) both."""

    chosen: NDArray[np.int64]
    shares: Floats
    count: int  # the layer's experts
