import torch
import torch.nn as nn


class CrossAttention(nn.Module):
    """inputs (B, N, D) attend to context (B, M, D); context_mask (B, M) optional, True = usable"""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, inputs, context, context_mask=None):
        B, N, D = inputs.shape
        M = context.shape[1]
        context_mask = context_mask.to(inputs.device).bool()
        q = self.to_q(inputs).reshape(B, N, self.heads, -1).transpose(1, 2)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        k = k.reshape(B, M, self.heads, -1).transpose(1, 2)
        v = v.reshape(B, M, self.heads, -1).transpose(1, 2)
        sim = q @ k.transpose(-1, -2) * (D // self.heads) ** -0.5
        if context_mask is not None:
            sim = sim.masked_fill(~context_mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        return self.to_out((sim.softmax(-1) @ v).transpose(1, 2).reshape(B, N, D))


if __name__ == "__main__":
    net = CrossAttention(32)
    print(net(torch.randn(2, 5, 32), torch.randn(2, 7, 32), torch.ones(2, 7)).shape)
