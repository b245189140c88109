import torch
from torch import nn

class GatedLinearAttention(nn.Module):
    """Scalar gates: one forget gate per head and token."""
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_gate = nn.Linear(dim, heads)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = [t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1)]
        log_f = torch.nn.functional.logsigmoid(self.to_gate(x)).transpose(1, 2)
        c = log_f.cumsum(-1)
        L = (c.unsqueeze(-1) - c.unsqueeze(-2)).exp().tril()
        y = (torch.einsum('bhid,bhjd->bhij', q, k) * L) @ v
        return self.to_out(y.transpose(1, 2).reshape(b, n, d))
