import torch
from torch import nn


class PreScaledAttention(nn.Module):
    """
    The 1/sqrt(d) is part of the query projection from the beginning: we multiply the initial weights with it
    and never divide again (saves one op per step, the optimizer doesn't mind).
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.proj_q = nn.Linear(width, width, bias=False)
        self.proj_k = nn.Linear(width, width, bias=False)
        self.proj_v = nn.Linear(width, width, bias=False)
        self.proj_o = nn.Linear(width, width, bias=False)
        with torch.no_grad():
            self.proj_q.weight.mul_((width // heads) ** -0.5)

    def forward(self, x, mask=None):
        def cut(t):
            return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = cut(self.proj_q(x)), cut(self.proj_k(x)), cut(self.proj_v(x))
        logits = q @ k.mT
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        return self.proj_o((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))
