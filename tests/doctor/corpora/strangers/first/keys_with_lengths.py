import torch
import torch.nn as nn


class WindowedKeysAttention(nn.Module):
    """Attention over a variable number of keys, `lengths` (B,) counts the valid ones."""

    def __init__(self, q_dim, kv_dim, dim, heads):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.q_proj = nn.Linear(q_dim, dim)
        self.k_proj = nn.Linear(kv_dim, dim)
        self.v_proj = nn.Linear(kv_dim, dim)
        self.out_proj = nn.Linear(dim, q_dim)

    def forward(self, inputs, context, lengths=None):
        B, N, _ = inputs.shape
        M = context.shape[1]
        q = self.q_proj(inputs).view(B, N, self.heads, self.dh).transpose(1, 2)
        k = self.k_proj(context).view(B, M, self.heads, self.dh).transpose(1, 2)
        v = self.v_proj(context).view(B, M, self.heads, self.dh).transpose(1, 2)
        logits = (q @ k.transpose(-1, -2)) * self.dh ** -0.5
        if lengths is not None:
            pad = torch.arange(M, device=logits.device).view(1, 1, 1, M) >= lengths.view(B, 1, 1, 1)
            logits = logits.masked_fill(pad, -torch.finfo(logits.dtype).eps)
        out = logits.softmax(-1) @ v
        return self.out_proj(out.transpose(1, 2).reshape(B, N, -1))


if __name__ == "__main__":
    m = WindowedKeysAttention(24, 40, 32, 4)
    print(m(torch.randn(2, 5, 24), torch.randn(2, 7, 40), torch.tensor([7, 3])).shape)
