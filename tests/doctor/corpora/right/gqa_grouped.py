import torch
import torch.nn as nn


class GroupedQueryAttention(nn.Module):
    """
    GQA without materializing the repeated keys: queries get a (kv_head, group) pair of axes.
    """

    def __init__(self, embed_dim, num_query_heads, num_kv_heads):
        super().__init__()
        assert embed_dim % num_query_heads == 0
        assert num_query_heads % num_kv_heads == 0
        self.hq, self.hk = num_query_heads, num_kv_heads
        self.groups = num_query_heads // num_kv_heads
        self.head_dim = embed_dim // num_query_heads
        kv_dim = num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, kv_dim)
        self.v_proj = nn.Linear(embed_dim, kv_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, is_causal=False):
        b, n, _ = query.shape
        s = key.shape[1]
        q = self.q_proj(query).view(b, n, self.hk, self.groups, self.head_dim)
        k = self.k_proj(key).view(b, s, self.hk, self.head_dim)
        v = self.v_proj(value).view(b, s, self.hk, self.head_dim)

        similarity = torch.einsum("bnhgd,bshd->bhgns", q, k) / self.head_dim**0.5
        if is_causal:
            keep = torch.ones((n, s), device=q.device, dtype=torch.bool).tril_()
            similarity.masked_fill_(~keep, torch.finfo(similarity.dtype).min)
        attention = similarity.softmax(dim=-1)
        out = torch.einsum("bhgns,bshd->bnhgd", attention, v)
        return self.out_proj(out.reshape(b, n, -1))
