import torch
from torch import nn


def causal_attention(q, k, v):
    T = q.size(-2)
    att = torch.einsum('...td,...sd->...ts', q, k) * q.size(-1) ** -0.5
    ok = torch.tril(torch.ones(T, T, dtype=torch.bool, device=q.device))
    att = torch.where(ok, att, torch.tensor(float('-inf'), dtype=att.dtype, device=att.device))
    return torch.einsum('...ts,...sd->...td', att.softmax(dim=-1), v)


class CausalHead(nn.Module):
    def __init__(self, d_in=20, d_head=12):
        super().__init__()
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_in, d_head, bias=False) for _ in range(3))

    def forward(self, x):
        return causal_attention(self.w_q(x), self.w_k(x), self.w_v(x))
