import torch
from torch import nn


class EinsumMHA(nn.Module):
    """weights kept as (model, head, key) tensors, no reshape anywhere"""

    def __init__(self, M=24, H=3, K=10):
        super().__init__()
        self.P_q = nn.Parameter(torch.randn(M, H, K) * M ** -0.5)
        self.P_k = nn.Parameter(torch.randn(M, H, K) * M ** -0.5)
        self.P_v = nn.Parameter(torch.randn(M, H, K) * M ** -0.5)
        self.P_o = nn.Parameter(torch.randn(H, K, M) * (H * K) ** -0.5)

    def forward(self, X, Y=None, mask=None):
        Y = X if Y is None else Y
        Q = torch.einsum("bnd,dhk->bhnk", X, self.P_q)
        K = torch.einsum("bmd,dhk->bhmk", Y, self.P_k)
        V = torch.einsum("bmd,dhv->bhmv", Y, self.P_v)
        logits = torch.einsum("bhnk,bhmk->bhnm", Q, K) / Q.shape[-1] ** 0.5
        if mask is not None:
            logits = logits.where(mask, logits.new_tensor(float("-inf")))
        O = torch.einsum("bhnm,bhmv->bhnv", torch.softmax(logits, -1), V)
        return torch.einsum("bhnv,hvd->bnd", O, self.P_o)
