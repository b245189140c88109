from typing import Optional, Tuple

import torch
import torch.nn as nn


class CachedMultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.q_linear = nn.Linear(d_model, d_model)
        self.k_linear = nn.Linear(d_model, d_model)
        self.v_linear = nn.Linear(d_model, d_model)
        self.out_linear = nn.Linear(d_model, d_model)

    def _split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(
        self,
        x: torch.Tensor,
        past_kv: Optional[Tuple[torch.Tensor, torch.Tensor]] = None,
        use_cache: bool = False,
    ):
        b, n, d = x.shape
        q, k, v = self._split(self.q_linear(x)), self._split(self.k_linear(x)), self._split(self.v_linear(x))
        if past_kv is not None:
            k = torch.cat([past_kv[0], k], dim=2)
            v = torch.cat([past_kv[1], v], dim=2)
        total = k.size(2)

        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        # query i stands at position total - n + i
        q_pos = torch.arange(total - n, total, device=x.device)[:, None]
        k_pos = torch.arange(total, device=x.device)[None, :]
        scores = scores.masked_fill(k_pos > q_pos, float("-inf"))
        attn = torch.softmax(scores, dim=-1)

        out = (attn @ v).transpose(1, 2).reshape(b, n, d)
        out = self.out_linear(out)
        if use_cache:
            return out, (k, v)
        return out


if __name__ == "__main__":
    torch.manual_seed(0)
    mha = CachedMultiHeadAttention(64, 4).eval()
    x = torch.randn(1, 10, 64)
    full = mha(x)
    past, outs = None, []
    for t in range(10):
        o, past = mha(x[:, t : t + 1], past, use_cache=True)
        outs.append(o)
    print(torch.allclose(full, torch.cat(outs, 1), atol=1e-6))
