import torch
import torch.nn as nn
import torch.nn.functional as F


class Head(nn.Module):
    def __init__(self, n_embd, head_size, block_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        T = x.size(1)
        q, k, v = self.query(x), self.key(x), self.value(x)
        wei = q @ k.transpose(-2, -1) * k.size(-1) ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, n_embd=48, num_heads=6, block_size=32):
        super().__init__()
        self.heads = [Head(n_embd, n_embd // num_heads, block_size) for _ in range(num_heads)]
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


if __name__ == "__main__":
    m = MultiHeadAttention()
    opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
    x = torch.randn(4, 16, 48)
    for _ in range(3):
        loss = (m(x) - x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item())
