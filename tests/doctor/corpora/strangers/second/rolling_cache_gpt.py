import torch
from torch import nn
import torch.nn.functional as F


class RollingCacheAttention(nn.Module):
    """Local attention with constant memory; tokens may arrive in blocks (block <= span)."""

    def __init__(self, width=48, n_head=4, span=8):
        super().__init__()
        self.n_head, self.span = n_head, span
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def new_state(self, batch):
        hd = self.qkv.in_features // self.n_head
        z = torch.zeros(batch, self.n_head, self.span, hd)
        return {"k": z, "v": z.clone(), "at": torch.full((self.span,), -1), "t": 0}

    @torch.no_grad()
    def forward(self, x, state):
        B, T, C = x.shape
        q, k, v = (a.view(B, T, self.n_head, -1).transpose(1, 2) for a in self.qkv(x).chunk(3, dim=-1))
        now = torch.arange(state["t"], state["t"] + T)
        idx = now % self.span
        state["k"].index_copy_(2, idx, k)
        state["v"].index_copy_(2, idx, v)
        state["at"].index_copy_(0, idx, now)
        state["t"] += T
        at = state["at"]
        seen = (at >= 0) & (at <= now[:, None]) & (now[:, None] - at < self.span)     # (T, span)
        y = F.scaled_dot_product_attention(q, state["k"], state["v"], attn_mask=seen)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


if __name__ == "__main__":
    att = RollingCacheAttention().eval()
    st = att.new_state(2)
    for block in torch.randn(2, 24, 48).split(6, dim=1):
        out = att(block, st)
    print(out.shape, st["t"])
