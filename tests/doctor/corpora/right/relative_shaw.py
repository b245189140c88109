import torch
import torch.nn as nn


class RelativeAttention(nn.Module):
    """Self-Attention with Relative Position Representations (Shaw et al. 2018), keys only"""

    def __init__(self, d_model, num_heads, max_relative_position=8):
        super().__init__()
        self.h, self.d = num_heads, d_model // num_heads
        self.clip = max_relative_position
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))
        self.rel_k = nn.Parameter(torch.empty(2 * max_relative_position + 1, self.d))
        nn.init.xavier_uniform_(self.rel_k)

    def forward(self, x, mask=None):
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.h, self.d).transpose(1, 2)
        k = self.wk(x).view(b, n, self.h, self.d).transpose(1, 2)
        v = self.wv(x).view(b, n, self.h, self.d).transpose(1, 2)
        r = torch.arange(n, device=x.device)
        index = (r[None, :] - r[:, None]).clamp(-self.clip, self.clip) + self.clip
        content = q @ k.transpose(-1, -2)
        position = torch.einsum("bhid,ijd->bhij", q, self.rel_k[index])
        e = (content + position) / self.d**0.5
        if mask is not None:
            e = e.masked_fill(mask == 0, float("-inf"))
        return self.wo((e.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))
