import torch
import torch.nn as nn


class CrossAttention(nn.Module):
    """Queries from the decoder look at the image features. Scores are laid out (batch, query, head, key)."""

    def __init__(self, query_dim, context_dim, heads=8, dim_head=64):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads = heads
        self.dim_head = dim_head
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, query_dim)

    def forward(self, x, context):
        b, n, _ = x.shape
        m = context.shape[1]
        q = self.to_q(x).view(b, n, self.heads, self.dim_head)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        k = k.view(b, m, self.heads, self.dim_head)
        v = v.view(b, m, self.heads, self.dim_head)

        sim = torch.einsum("bihd,bjhd->bihj", q, k) * self.dim_head**-0.5
        attn = sim.flatten(2).softmax(dim=-1).view_as(sim)
        out = torch.einsum("bihj,bjhd->bihd", attn, v).reshape(b, n, -1)
        return self.to_out(out)


if __name__ == "__main__":
    ca = CrossAttention(32, 48, heads=4, dim_head=8)
    print(ca(torch.randn(2, 5, 32), torch.randn(2, 9, 48)).shape)
