import torch
import torch.nn as nn


class ChunkedAttention(nn.Module):
    """Slices the queries so that at most `slice_size` rows of the attention matrix exist at once."""

    def __init__(self, dim, heads=4, slice_size=3):
        super().__init__()
        self.heads = heads
        self.slice_size = slice_size
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(dim, dim), nn.Dropout(0.0)])

    def forward(self, hidden_states, encoder_hidden_states=None):
        ctx = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        q, k, v = self.to_q(hidden_states), self.to_k(ctx), self.to_v(ctx)
        B, N, D = q.shape
        d = D // self.heads
        q = q.view(B, N, self.heads, d).permute(0, 2, 1, 3)
        k = k.view(B, -1, self.heads, d).permute(0, 2, 3, 1)
        v = v.view(B, -1, self.heads, d).permute(0, 2, 1, 3)
        parts = []
        for start in range(0, N, self.slice_size):
            s = torch.matmul(q[:, :, start : start + self.slice_size], k) * d**-0.5
            parts.append(torch.matmul(s.softmax(dim=-1), v))
        out = torch.cat(parts, dim=2).permute(0, 2, 1, 3).reshape(B, N, D)
        for layer in self.to_out:
            out = layer(out)
        return out
