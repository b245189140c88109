import math
from typing import Optional

import torch
from torch import Tensor, nn


class MultiheadAttention(nn.Module):
    r"""Drop-in for torch.nn.MultiheadAttention(batch_first=True).

    ``key_padding_mask`` has shape :math:`(N, S)`; ``True`` marks keys that are padding.
    """

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None
    ) -> tuple[Tensor, Tensor]:
        N, L, E = query.shape
        S = key.shape[1]
        q = self.q_proj(query).view(N, L, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        k = self.k_proj(key).view(N, S, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        v = self.v_proj(value).view(N, S, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        scores = torch.einsum("nhld,nhsd->nhls", q, k) / math.sqrt(self.head_dim)
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, :, None], -math.inf)
        attn = scores.softmax(-1)
        out = torch.einsum("nhls,nhsd->nlhd", attn, v).reshape(N, L, E)
        return self.out_proj(out), attn.mean(1)
