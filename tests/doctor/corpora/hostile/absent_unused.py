import flash_attn_missing
import wandb_missing as wandb
from einops_missing import rearrange
from einops_missing.layers.torch import Rearrange
import torch
import torch.nn as nn

wandb.init(project="attention")


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        b, n, d = q.shape
        q = self.w_q(q).view(b, -1, self.num_heads, self.d_k).transpose(1, 2)
        k = self.w_k(k).view(b, -1, self.num_heads, self.d_k).transpose(1, 2)
        v = self.w_v(v).view(b, -1, self.num_heads, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.softmax(scores, dim=-1) @ v
        return self.w_o(out.transpose(1, 2).reshape(b, n, d))


def patches(x):
    return rearrange(x, "b c h w -> b (h w) c")
