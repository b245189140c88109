import torch
from torch import nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1


def linear_attention(q, k, v, eps=1e-6):
    q, k = phi(q), phi(k)
    kv = torch.einsum('bhnd,bhne->bhde', k, v)
    z = 1 / (torch.einsum('bhnd,bhd->bhn', q, k.sum(dim=2)) + eps)
    return torch.einsum('bhnd,bhde,bhn->bhne', q, kv, z)


def causal_linear_attention(q, k, v, eps=1e-6):
    q, k = phi(q), phi(k)
    kv = torch.einsum('bhnd,bhne->bhnde', k, v).cumsum(dim=2)
    z = 1 / (torch.einsum('bhnd,bhnd->bhn', q, k.cumsum(dim=2)) + eps)
    return torch.einsum('bhnd,bhnde,bhn->bhne', q, kv, z)


class LinearSelfAttention(nn.Module):
    def __init__(self, dim, heads=4, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        f = causal_linear_attention if self.causal else linear_attention
        return self.to_out(f(q, k, v).transpose(1, 2).reshape(b, n, d))
