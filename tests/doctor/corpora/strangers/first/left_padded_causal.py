import torch
import torch.nn as nn


class CausalAttention(nn.Module):
    """Causal attention for left-padded prompts. attention_mask (B, T): 0 = pad, 1 = token."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, attention_mask):
        B, T, D = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5
        causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        allowed = causal & attention_mask.bool()[:, None, None, :]
        scores = scores.masked_fill(~allowed, float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, T, D))


if __name__ == "__main__":
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    y = CausalAttention(32, 4)(torch.randn(2, 5, 32), mask)
    print(y.shape)
