import torch
from torch import nn


class Conv1D(nn.Module):
    """a linear layer that keeps its weight as (in, out), like the published checkpoints"""

    def __init__(self, nf, nx):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf) * 0.02), nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


class GPT2Attention(nn.Module):
    """layer_past: keys and values of earlier tokens, stacked (2, batch, head, n, d)"""

    def __init__(self, nx, n_ctx, config, scale=True):
        super().__init__()
        assert nx % config.n_head == 0
        self.n_head, self.scale = config.n_head, scale
        self.c_attn, self.c_proj = Conv1D(3 * nx, nx), Conv1D(nx, nx)
        self.register_buffer("bias", torch.ones(n_ctx, n_ctx, dtype=torch.bool).tril())

    def forward(self, x, layer_past=None, attention_mask=None, head_mask=None, use_cache=False):
        b, n, width = x.shape
        q, k, v = (t.reshape(b, n, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=2))
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=2)
            v = torch.cat((layer_past[1], v), dim=2)
        present = torch.stack((k, v)) if use_cache else None

        w = q @ k.transpose(2, 3)
        if self.scale:
            w = w / v.size(-1) ** 0.5
        total = k.size(2)
        w = torch.where(self.bias[total - n : total, :total], w, torch.finfo(w.dtype).min)
        if attention_mask is not None:
            w = w + attention_mask
        w = w.softmax(-1)
        if head_mask is not None:
            w = w * head_mask
        return self.c_proj((w @ v).transpose(1, 2).reshape(b, n, width)), present
