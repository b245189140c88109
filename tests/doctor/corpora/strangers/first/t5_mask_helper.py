import torch
import torch.nn as nn
import torch.nn.functional as F


def padding_bias(attention_mask, dtype=torch.float32):
    """Turn a tokenizer mask (1 = token, 0 = padding) into a bias for the logits, (B, 1, 1, n)."""
    mask = attention_mask[:, None, None, :].to(dtype)
    return mask * torch.finfo(dtype).min


class EncoderSelfAttention(nn.Module):
    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, hidden, attention_mask):
        b, n, d = hidden.shape
        q, k, v = (f(hidden).view(b, n, self.n_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        logits = q @ k.transpose(-1, -2) / (d // self.n_heads) ** 0.5
        logits = logits + padding_bias(attention_mask, logits.dtype)
        ctx = F.softmax(logits, dim=-1) @ v
        return self.o(ctx.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    attention_mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])  # from the tokenizer
    print(EncoderSelfAttention()(torch.randn(2, 5, 32), attention_mask).shape)
