import torch
import torch.nn as nn
import torch.nn.functional as F


class SublayerAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(size, size), nn.Linear(size, 2 * size), nn.Linear(size, size)

    def forward(self, x, memory, mask):
        # mask: True = may be seen
        B, n, D = x.shape
        q = self.q(x).view(B, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(memory).view(B, memory.size(1), 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(B, n, D))


class DecoderBlock(nn.Module):
    """src_mask (B, 1, 1, S) and tgt_mask (B, 1, T, T) are both boolean keep masks"""

    def __init__(self, size=32, heads=4):
        super().__init__()
        self.self_attn = SublayerAttention(size, heads)
        self.src_attn = SublayerAttention(size, heads)
        self.norm = nn.ModuleList([nn.LayerNorm(size) for _ in range(2)])

    def forward(self, x, memory, src_mask, tgt_mask):
        m = memory
        y = self.norm[0](x)
        x = x + self.self_attn(y, y, tgt_mask)
        y = self.norm[1](x)
        return x + self.src_attn(y, m, tgt_mask)


def make_std_mask(ids, pad):
    n = ids.size(1)
    return (ids != pad)[:, None, None, :] & torch.ones(n, n, dtype=torch.bool).tril()


if __name__ == "__main__":
    src, tgt = torch.tensor([[4, 5, 6, 0], [4, 5, 6, 7]]), torch.tensor([[1, 2, 3, 4], [1, 2, 0, 0]])
    block = DecoderBlock()
    print(block(torch.randn(2, 4, 32), torch.randn(2, 4, 32), (src != 0)[:, None, None, :], make_std_mask(tgt, 0)).shape)
