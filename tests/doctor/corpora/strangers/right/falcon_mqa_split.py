import torch
from torch import nn
import torch.nn.functional as F


class FalconAttention(nn.Module):
    def __init__(self, hidden=40, n_head=5):
        super().__init__()
        self.n_head, self.head_dim = n_head, hidden // n_head
        self.query_key_value = nn.Linear(hidden, (n_head + 2) * self.head_dim, bias=False)
        self.dense = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x):
        B, N, C = x.shape
        fused = self.query_key_value(x).view(B, N, self.n_head + 2, self.head_dim)
        q, k, v = fused[:, :, :-2], fused[:, :, [-2]], fused[:, :, [-1]]
        q = q.transpose(1, 2)
        k = k.transpose(1, 2).expand(-1, self.n_head, -1, -1)
        v = v.transpose(1, 2).expand(-1, self.n_head, -1, -1)
        out = F.scaled_dot_product_attention(q, k, v, None, 0.0, is_causal=True)
        return self.dense(out.permute(0, 2, 1, 3).reshape(B, N, C))
