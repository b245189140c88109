import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        dt = x.dtype
        x = x.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x.to(dt)


class QKNormAttention(nn.Module):
    def __init__(self, cfg: dict):
        super().__init__()
        self.n_heads = cfg["n_heads"]
        self.head_dim = cfg["emb_dim"] // cfg["n_heads"]
        self.W_query = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.W_key = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.W_value = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.out_proj = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=False)
        self.q_norm = RMSNorm(self.head_dim)
        self.k_norm = RMSNorm(self.head_dim)

    def forward(self, x, attn_mask=None):
        b, n, _ = x.shape
        q = self.q_norm(self.W_query(x).view(b, n, self.n_heads, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.W_key(x).view(b, n, self.n_heads, self.head_dim)).transpose(1, 2)
        v = self.W_value(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        # attn_mask: bool, True = take part (SDPA convention), (b, 1, 1, n) or (n, n)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        return self.out_proj(y.transpose(1, 2).flatten(2))


CFG = {"emb_dim": 40, "n_heads": 5, "qkv_bias": False}
attn = QKNormAttention(CFG)
print(attn(torch.randn(2, 7, 40)).shape)
