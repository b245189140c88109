"""What a trace holds beside the calls: output projections, how positions turn q and k, and which experts were taken.

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
    """What a layer does with its heads' outputs: (C, H·D) and a bias (C,), references to the model's own."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Turning:
    """Rotary positions: pair i of q and k is turned by position · frequencies[i], and all are stretched."""

    frequencies: tuple[float, ...]
    stretch: float = 1.0


@dataclass(frozen=True)
class Routed:
    """The experts that each token of a text took in one layer, best first, and their shares: (N, K) both."""

    chosen: NDArray[np.int64]
    shares: Floats
    count: int  # experts there were
