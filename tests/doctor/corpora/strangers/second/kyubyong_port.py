"""PyTorch port of a TF1 transformer: heads are stacked on the batch axis."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiheadAttention(nn.Module):
    def __init__(self, num_units, num_heads=8, dropout_rate=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout_rate)
        self.Q_proj = nn.Linear(num_units, num_units, bias=False)
        self.K_proj = nn.Linear(num_units, num_units, bias=False)
        self.V_proj = nn.Linear(num_units, num_units, bias=False)
        self.out = nn.Linear(num_units, num_units, bias=False)

    def forward(self, queries, keys):
        Q, K, V = self.Q_proj(queries), self.K_proj(keys), self.V_proj(keys)  # (N, T, C)
        # Split and concat: (h*N, T, C/h)
        Q_ = torch.cat(torch.chunk(Q, self.num_heads, dim=2), dim=0)
        K_ = torch.cat(torch.chunk(K, self.num_heads, dim=2), dim=0)
        V_ = torch.cat(torch.chunk(V, self.num_heads, dim=2), dim=0)
        outputs = torch.bmm(Q_, K_.transpose(1, 2)) / (K_.size(-1) ** 0.5)
        outputs = self.dropout(F.softmax(outputs, dim=-1))
        outputs = torch.bmm(outputs, V_)
        # Restore shape: (N, T, C)
        N, T, C = Q.shape
        outputs = outputs.view(N, self.num_heads, T, C // self.num_heads)
        outputs = outputs.permute(0, 2, 1, 3).reshape(N, T, C)
        return self.out(outputs)


if __name__ == "__main__":
    mha = MultiheadAttention(64)
    q, kv = torch.randn(2, 5, 64), torch.randn(2, 9, 64)
    print(mha(q, kv).shape)
