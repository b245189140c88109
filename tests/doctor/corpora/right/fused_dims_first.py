import torch
import torch.nn as nn


class MHSA(nn.Module):
    """Self attention on patches. x -> (b, n, heads, d, 3) -> q, k, v"""

    def __init__(self, dim: int, heads: int, bias: bool = True):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=bias)
        self.w_o = nn.Linear(dim, dim, bias=bias)

    def forward(self, x, mask=None):
        bs, n, dim = x.shape
        qkv = self.to_qkv(x).view(bs, n, self.heads, dim // self.heads, 3)
        q, k, v = qkv.permute(4, 0, 2, 1, 3).unbind(0)  # 3 x (b, h, n, d)
        att = torch.einsum("bhid,bhjd->bhij", q, k) / (q.shape[-1] ** 0.5)
        if mask is not None:
            assert mask.shape[-2:] == att.shape[-2:]
            att = att.masked_fill(mask.logical_not(), -torch.inf)
        att = att.softmax(-1)
        out = torch.einsum("bhij,bhjd->bihd", att, v)
        return self.w_o(out.flatten(2))


if __name__ == "__main__":
    x = torch.rand(4, 17, 32)
    print(MHSA(32, 4)(x).shape)
