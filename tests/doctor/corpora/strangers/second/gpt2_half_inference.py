import torch
from torch import nn


class Attention(nn.Module):
    """GPT-2 attention. The checkpoint is loaded in half precision: model.half()."""

    def __init__(self, nx=48, n_ctx=64, n_head=4):
        super().__init__()
        self.n_head, self.nx = n_head, nx
        self.register_buffer("bias", torch.tril(torch.ones(n_ctx, n_ctx, dtype=torch.bool)).view(1, 1, n_ctx, n_ctx))
        self.masked_bias = -1e10
        self.c_attn = nn.Linear(nx, 3 * nx)
        self.c_proj = nn.Linear(nx, nx)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.c_attn(x).split(self.nx, dim=2)
        q, k, v = (t.view(b, n, self.n_head, -1).permute(0, 2, 1, 3) for t in (q, k, v))
        w = torch.matmul(q, k.transpose(-1, -2)) / (v.size(-1) ** 0.5)
        w = w.masked_fill(~self.bias[:, :, :n, :n], self.masked_bias)
        a = torch.matmul(torch.softmax(w, dim=-1), v)
        return self.c_proj(a.permute(0, 2, 1, 3).contiguous().view(b, n, c))


def load(dtype=torch.float16):
    return Attention().eval().to(dtype)


if __name__ == "__main__":
    dtype = torch.float16 if torch.cuda.is_available() else torch.float32
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load(dtype).to(device)
    print(model(torch.randn(1, 5, 48, dtype=dtype, device=device)).dtype)
