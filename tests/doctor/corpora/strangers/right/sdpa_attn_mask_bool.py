import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class SDPASelfAttention(nn.Module):
    def __init__(self, embed_dim: int, n_heads: int, attn_dropout: float = 0.1, causal: bool = True):
        super().__init__()
        self.n_heads = n_heads
        self.causal = causal
        self.attn_dropout = attn_dropout
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: torch.Tensor, padding_mask: torch.Tensor | None = None) -> torch.Tensor:
        B, L, E = x.shape
        q, k, v = [t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv_proj(x).chunk(3, dim=-1)]
        drop = self.attn_dropout if self.training else 0.0
        if padding_mask is None:
            out = scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=self.causal)
        else:
            # padding_mask (B, L): True for real tokens
            allowed = padding_mask[:, None, None, :]
            if self.causal:
                allowed = allowed & torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
            out = scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=drop)
        return self.out_proj(out.transpose(1, 2).flatten(-2))
