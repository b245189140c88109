"""What a token does by itself: a wider layer and back, and the activations between.

B batch, N tokens, C model width.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import Config


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU's approximation by tanh. Compiled as x·σ(2u), which is the same: a third of the time tanh takes."""
    if torch.compiler.is_compiling():
        return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
    "swiglu": F.silu,
    "geglu": F.gelu,
    "geglu-tanh": gelu_tanh,
}


class FeedForward(nn.Module):
    """Each token by itself through a wider layer and back; gated ones multiply two views of it."""

    def __init__(self, config: Config, hidden: int | None = None) -> None:
        super().__init__()
        bias, hidden = "forward" in config.biased, hidden or config.hidden_width
        self.activation = ACTIVATIONS[config.feed_forward]
        self.up = nn.Linear(config.width, hidden, bias=bias)
        self.gate = nn.Linear(config.width, hidden, bias=bias) if config.gated else None
        self.down = nn.Linear(hidden, config.width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C) → (B, N, C)."""
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        gate, up = self.activation(self.gate(x)), self.up(x)
        # Without a graph, in place: new memory costs more than the product.
        return self.down(gate * up if torch.is_grad_enabled() else gate.mul_(up))
