import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderAttention(nn.Module):
    """padding: (B, n) True for real tokens"""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.to_out = nn.Linear(width, width)

    def forward(self, x, padding=None):
        b, n, w = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mask = None if padding is None else padding.unsqueeze(1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out(out.transpose(1, 2).reshape(b, n, w))


enc = EncoderAttention()
lengths = torch.tensor([9, 4, 6, 7])
print(enc(torch.randn(4, 9, 32), torch.arange(9)[None] < lengths[:, None]).shape)
