import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderSelfAttention(nn.Module):
    """Masked self-attention of the caption decoder: a word sees itself and the words before it.

    pad_mask: (B, L) bool, True where a real word stands
    """

    def __init__(self, dim: int, heads: int, dropout: float = 0.1):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.in_proj = nn.Linear(dim, dim * 3)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, pad_mask=None):
        B, L, D = x.shape
        q, k, v = self.in_proj(x).reshape(B, L, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        attn_mask = pad_mask[:, None, None, :] if pad_mask is not None else None
        out = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=attn_mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=attn_mask is None,
        )
        return self.out_proj(out.transpose(1, 2).reshape(B, L, D))
