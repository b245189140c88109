import torch
import torch.nn as nn


class DecoderSelfAttention(nn.Module):
    """Causal attention over the target. padding_mask: (B, T), True for padded tokens."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.to_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, padding_mask=None):
        B, T, C = x.shape
        q, k, v = (t.reshape(B, T, self.n_heads, self.d_head).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.d_head**-0.5

        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(diagonal=1)
        logits = scores.masked_fill(future, float("-inf"))
        if padding_mask is not None:
            logits = scores.masked_fill(padding_mask[:, None, None, :], float("-inf"))

        weights = torch.softmax(logits, dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(B, T, C)
        return self.to_out(out)
