import torch
import torch.nn as nn
import torch.nn.functional as F


class MHACausal(nn.Module):
    def __init__(self, d_in, d_out, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "embed_dim is indivisible by num_heads"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.d_out = d_out
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.proj = nn.Linear(d_out, d_out)
        self.dropout = dropout

    def forward(self, x):
        batch_size, num_tokens, embed_dim = x.shape
        qkv = self.qkv(x)
        qkv = qkv.view(batch_size, num_tokens, 3, self.num_heads, self.head_dim)
        qkv = qkv.permute(2, 0, 3, 1, 4)
        queries, keys, values = qkv

        use_dropout = 0.0 if not self.training else self.dropout
        context_vec = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=None, dropout_p=use_dropout, is_causal=True
        )
        context_vec = context_vec.transpose(1, 2).contiguous().view(batch_size, num_tokens, self.d_out)
        return self.proj(context_vec)


class PaddedCausalAttention(nn.Module):
    """SDPA doesn't take is_causal together with a mask, so we merge them."""

    def __init__(self, dim: int, num_heads: int, p: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.p = p
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim)

    def forward(self, x, padding_mask=None):
        """padding_mask: (B, T) bool, True for real tokens"""
        B, T, C = x.shape
        q, k, v = [
            lin(x).view(B, T, self.num_heads, -1).transpose(1, 2) for lin in (self.q_proj, self.k_proj, self.v_proj)
        ]
        if padding_mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        else:
            causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            both = causal[None, None] & padding_mask.bool()[:, None, None, :]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=both, dropout_p=self.p if self.training else 0.0)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, C))


def attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, scale=scale)
