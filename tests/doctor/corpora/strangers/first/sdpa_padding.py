import torch
import torch.nn as nn
import torch.nn.functional as F


class PaddedSelfAttention(nn.Module):
    """Self attention for batches of different lengths.

    key_padding_mask: (B, N) bool, True marks padding (same meaning as in nn.MultiheadAttention)
    """

    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, key_padding_mask=None):
        B, N, E = x.shape
        q, k, v = self.qkv_proj(x).view(B, N, 3, self.num_heads, E // self.num_heads).permute(2, 0, 3, 1, 4)
        attn_mask = None
        if key_padding_mask is not None:
            attn_mask = key_padding_mask[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        return self.out_proj(y.transpose(1, 2).reshape(B, N, E))


if __name__ == "__main__":
    lengths = torch.tensor([6, 3, 4])
    pad = torch.arange(6)[None, :] >= lengths[:, None]
    model = PaddedSelfAttention(32, 4)
    print(model(torch.randn(3, 6, 32), pad).shape)
