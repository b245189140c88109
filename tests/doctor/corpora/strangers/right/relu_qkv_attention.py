import torch
import torch.nn as nn
import torch.nn.functional as F


class ReluQKVAttention(nn.Module):
    """after Kyubyong's TF code: Q = relu(dense(queries)), residual and layer norm inside"""

    def __init__(self, num_units=32, num_heads=4, dropout=0.1, causality=False):
        super().__init__()
        self.num_heads, self.causality = num_heads, causality
        self.Q_proj = nn.Sequential(nn.Linear(num_units, num_units), nn.ReLU())
        self.K_proj = nn.Sequential(nn.Linear(num_units, num_units), nn.ReLU())
        self.V_proj = nn.Sequential(nn.Linear(num_units, num_units), nn.ReLU())
        self.out = nn.Linear(num_units, num_units)
        self.drop = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(num_units)

    def forward(self, queries, keys, key_lens=None):
        Q, K, V = self.Q_proj(queries), self.K_proj(keys), self.V_proj(keys)
        h = self.num_heads
        Q_ = torch.cat(torch.chunk(Q, h, dim=2), dim=0)  # (h*N, T_q, C/h)
        K_ = torch.cat(torch.chunk(K, h, dim=2), dim=0)
        V_ = torch.cat(torch.chunk(V, h, dim=2), dim=0)
        outputs = torch.bmm(Q_, K_.permute(0, 2, 1)) / (K_.size(-1) ** 0.5)
        if key_lens is not None:
            pad = torch.arange(keys.size(1), device=keys.device)[None] >= key_lens[:, None]
            pad = pad.repeat(h, 1).unsqueeze(1)          # heads are the slow axis here, so tiling is right
            outputs = outputs.masked_fill(pad, -2.0 ** 32 + 1)
        if self.causality:
            tril = torch.tril(torch.ones_like(outputs[0]))
            outputs = outputs.masked_fill(tril == 0, -2.0 ** 32 + 1)
        outputs = self.drop(F.softmax(outputs, dim=-1))
        outputs = torch.bmm(outputs, V_)
        outputs = torch.cat(torch.chunk(outputs, h, dim=0), dim=2)
        return self.norm(self.out(outputs) + queries)
