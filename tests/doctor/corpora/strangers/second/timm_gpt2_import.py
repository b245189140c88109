"""GPT-2 attention whose c_attn has the published layout: [all q | all k | all v]."""
import torch
from torch import nn
import torch.nn.functional as F


class GPT2Attention(nn.Module):
    def __init__(self, n_embd=48, n_head=4):
        super().__init__()
        self.n_head, self.hd = n_head, n_embd // n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)   # rows: q (n_embd), k (n_embd), v (n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def load_gpt2(self, state, prefix="h.0.attn."):
        # Conv1D stores (in, out)
        with torch.no_grad():
            self.c_attn.weight.copy_(state[prefix + "c_attn.weight"].t())
            self.c_attn.bias.copy_(state[prefix + "c_attn.bias"])
            self.c_proj.weight.copy_(state[prefix + "c_proj.weight"].t())
            self.c_proj.bias.copy_(state[prefix + "c_proj.bias"])

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.c_attn(x).view(B, T, self.n_head, 3 * self.hd).transpose(1, 2)
        q, k, v = qkv.split(self.hd, dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


if __name__ == "__main__":
    print(GPT2Attention()(torch.randn(2, 7, 48)).shape)
