import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads, causal=True, max_len=256):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.to_q = nn.Linear(d_model, d_model, bias=False)
        self.to_k = nn.Linear(d_model, d_model, bias=False)
        self.to_v = nn.Linear(d_model, d_model, bias=False)
        self.causal = causal
        self.register_buffer("tri", torch.ones(max_len, max_len, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)
                   for f in (self.to_q, self.to_k, self.to_v))
        s = torch.matmul(q, k.transpose(2, 3)) * self.d_head ** -0.5
        if self.causal:
            s = s.masked_fill(self.tri[:n, :n], float("-inf"))
        a = s.softmax(dim=-1)
        # concatenate the heads
        return torch.matmul(a, v).transpose(1, 2).reshape(b, n, d)


if __name__ == "__main__":
    print(MultiHead(64, 8)(torch.randn(2, 10, 64)).shape)
