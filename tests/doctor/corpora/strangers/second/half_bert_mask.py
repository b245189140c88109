import torch
from torch import nn


class FP16SelfAttention(nn.Module):
    """BERT self-attention. Call .half() before inference on the GPU."""

    NEG = -1e9

    def __init__(self, hidden, heads, max_len=64):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, hidden_states, attention_mask):
        """attention_mask: (B, N) with 1 for tokens and 0 for padding"""
        b, n, c = hidden_states.shape
        q, k, v = (f(hidden_states).view(b, n, self.heads, -1).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (c // self.heads) ** 0.5
        scores = scores.masked_fill(attention_mask[:, None, None, :].eq(0), self.NEG)
        ctx = torch.matmul(scores.softmax(-1), v)
        return self.dense(ctx.transpose(1, 2).reshape(b, n, c))


def get_attention(hidden=32, heads=4, dtype=torch.float16):
    return FP16SelfAttention(hidden, heads).to(dtype)


if __name__ == "__main__":
    on_gpu = torch.cuda.is_available()
    m = get_attention(dtype=torch.float16 if on_gpu else torch.float32)
    x = torch.randn(2, 5, 32, dtype=next(m.parameters()).dtype)
    print(m(x, torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])).shape)
