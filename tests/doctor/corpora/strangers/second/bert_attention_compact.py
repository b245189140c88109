import torch
import torch.nn as nn
import torch.nn.functional as F


class BertLayer(nn.Module):
    def __init__(self, hidden=64, heads=4, intermediate=128, p=0.1):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.attn_norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, intermediate)
        self.down = nn.Linear(intermediate, hidden)
        self.out_norm = nn.LayerNorm(hidden)
        self.p = p

    def self_attention(self, h, keep):
        b, n, d = h.shape
        q = self.query(h).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.key(h).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.value(h).view(b, n, self.heads, -1).transpose(1, 2)
        mask = None if keep is None else keep[:, None, None, :].bool()
        ctx = F.scaled_dot_product_attention(q, k, v, attn_mask=mask,
                                             dropout_p=self.p if self.training else 0.0)
        return ctx.transpose(1, 2).reshape(b, n, d)

    def forward(self, h, keep=None):
        h = self.attn_norm(h + F.dropout(self.self_attention(h, keep), self.p, self.training))
        return self.out_norm(h + F.dropout(self.down(F.gelu(self.up(h))), self.p, self.training))


if __name__ == "__main__":
    layer = BertLayer().eval()
    print(layer(torch.randn(2, 7, 64), torch.tensor([[1] * 7, [1] * 5 + [0] * 2])).shape)
