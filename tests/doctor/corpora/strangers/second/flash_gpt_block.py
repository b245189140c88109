from dataclasses import dataclass
import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Cfg:
    n_embd: int = 64
    n_head: int = 4
    dropout: float = 0.2
    bias: bool = True


class FlashCausalAttention(nn.Module):
    def __init__(self, cfg: Cfg):
        super().__init__()
        self.cfg = cfg
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=cfg.bias)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.resid_dropout = nn.Dropout(cfg.dropout)

    def forward(self, x):
        B, T, C = x.size()
        nh = self.cfg.n_head
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, nh, C // nh).transpose(1, 2)
        q = q.view(B, T, nh, C // nh).transpose(1, 2)
        v = v.view(B, T, nh, C // nh).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=self.cfg.dropout, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


attn = FlashCausalAttention(Cfg())
attn.eval()
print(attn(torch.randn(2, 12, 64)).shape)
