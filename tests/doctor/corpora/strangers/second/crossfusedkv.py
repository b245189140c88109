import torch
from torch import nn, einsum


class ContextAttention(nn.Module):
    def __init__(self, dim, context_dim, heads=4, dim_head=16):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.dim_head = heads, dim_head
        self.scale = dim_head ** -0.5
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, inputs, context):
        b, n, m, h = inputs.shape[0], inputs.shape[1], context.shape[1], self.heads
        q = self.to_q(inputs).view(b, n, h, self.dim_head).transpose(1, 2)
        # keys and values: (2, b, h, m, d)
        k, v = self.to_kv(context).view(b, 2, m, h, self.dim_head).permute(1, 0, 3, 2, 4)
        sim = einsum("bhid,bhjd->bhij", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        out = einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


block = ContextAttention(48, 32)
print(block(torch.randn(2, 10, 48), torch.randn(2, 7, 32)).shape)
