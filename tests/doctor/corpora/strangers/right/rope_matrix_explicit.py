import torch
from torch import nn


def rotation_matrix(n, d):
    R = torch.zeros(n, d, d)
    for pos in range(n):
        for i in range(d // 2):
            theta = torch.tensor(pos * 10000.0 ** (-2 * i / d))
            R[pos, 2 * i, 2 * i] = torch.cos(theta)
            R[pos, 2 * i, 2 * i + 1] = -torch.sin(theta)
            R[pos, 2 * i + 1, 2 * i] = torch.sin(theta)
            R[pos, 2 * i + 1, 2 * i + 1] = torch.cos(theta)
    return R


class RoPEMaskedHead(nn.Module):
    def __init__(self, d_model=24, max_len=32):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("R", rotation_matrix(max_len, d_model))

    def forward(self, x, return_attn_weights=False):
        b, m, d = x.shape
        q = torch.einsum("mij,bmj->bmi", self.R[:m], self.w_q(x))
        k = torch.einsum("mij,bmj->bmi", self.R[:m], self.w_k(x))
        v = self.w_v(x)
        logits = torch.bmm(q, k.transpose(1, 2)) / d ** 0.5
        keep = torch.tril(torch.ones(m, m, device=x.device)) == 1
        weights = logits.masked_fill(~keep, float("-inf")).softmax(-1)
        out = weights @ v
        return (out, weights) if return_attn_weights else out
