import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderAttention(nn.Module):
    def __init__(self, dim=64, n_head=4, max_len=128):
        super().__init__()
        self.n_head, self.hd = n_head, dim // n_head
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        f = 10000 ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        a = torch.arange(max_len).float()[:, None] * f
        self.register_buffer("cos", torch.cat([a, a], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([a, a], -1).sin(), persistent=False)
        self.register_buffer("tri", torch.ones(max_len, max_len).tril().bool(), persistent=False)

    def rotate(self, x, cos, sin):
        h = x.size(-1) // 2
        return x * cos + torch.cat([-x[..., h:], x[..., :h]], -1) * sin

    def forward(self, x, past=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.n_head, self.hd).permute(2, 0, 3, 1, 4)
        start = 0 if past is None else past[0].size(2)
        cos, sin = self.cos[start:start + T], self.sin[start:start + T]
        if T > 1:
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        else:  # one new token: only its own row has to be rotated
            q = torch.cat([self.rotate(q[:, :T], cos, sin), q[:, T:]], dim=1)
            k = torch.cat([self.rotate(k[:, :T], cos, sin), k[:, T:]], dim=1)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.tri[start:start + T, :start + T])
        return self.proj(y.transpose(1, 2).reshape(B, T, C)), (k, v)


if __name__ == "__main__":
    m = DecoderAttention().eval()
    _, past = m(torch.randn(1, 5, 64))
    print(m(torch.randn(1, 1, 64), past)[0].shape)
