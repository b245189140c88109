import torch
import torch.nn as nn
import torch.nn.functional as F


class SASRecAttention(nn.Module):
    """Item sequence attention. log_seqs: (U, T) item ids, 0 = padding item, sequences are right padded."""

    def __init__(self, items=100, hidden=32, heads=2):
        super().__init__()
        self.item_emb = nn.Embedding(items + 1, hidden, padding_idx=0)
        self.Q_w = nn.Linear(hidden, hidden)
        self.K_w = nn.Linear(hidden, hidden)
        self.V_w = nn.Linear(hidden, hidden)
        self.heads, self.head_size = heads, hidden // heads

    def forward(self, log_seqs):
        U, T = log_seqs.shape
        seqs = self.item_emb(log_seqs)
        Q, K, V = self.Q_w(seqs), self.K_w(seqs), self.V_w(seqs)
        Q_ = torch.cat(torch.split(Q, self.head_size, dim=2), dim=0)   # (heads*U, T, head_size)
        K_ = torch.cat(torch.split(K, self.head_size, dim=2), dim=0)
        V_ = torch.cat(torch.split(V, self.head_size, dim=2), dim=0)
        w = Q_.matmul(K_.transpose(1, 2)) / self.head_size ** 0.5

        time_mask = torch.ones(T, T, dtype=torch.bool, device=seqs.device).triu(1)
        pad_mask = (log_seqs == 0).repeat(self.heads, 1)[:, None, :]
        blocked = (time_mask[None] | pad_mask).float()
        w = F.softmax(w * (1.0 - blocked), dim=-1)

        out = torch.cat(torch.split(w.matmul(V_), U, dim=0), dim=2)
        return out + seqs


model = SASRecAttention()
print(model(torch.tensor([[4, 8, 15, 16], [23, 42, 0, 0]])).shape)
