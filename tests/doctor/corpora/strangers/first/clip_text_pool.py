import torch
import torch.nn as nn
import torch.nn.functional as F


class TextAttention(nn.Module):
    """tokens: (B, L, D), lengths: (B,)"""

    def __init__(self, D=32, H=4):
        super().__init__()
        self.H = H
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)

    def forward(self, tokens, lengths):
        B, L, D = tokens.shape
        valid = torch.arange(L, device=tokens.device).expand(B, L) < lengths.unsqueeze(1)
        mask = torch.zeros(B, 1, L, L, dtype=tokens.dtype, device=tokens.device)
        mask = mask.masked_fill(~valid.view(B, 1, L, 1), -1e9)
        q, k, v = self.qkv(tokens).view(B, L, 3, self.H, D // self.H).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(y.transpose(1, 2).reshape(B, L, D))


if __name__ == "__main__":
    print(TextAttention()(torch.randn(3, 7, 32), torch.tensor([7, 4, 2])).shape)
