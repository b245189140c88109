import torch
import torch.nn as nn
import torch.nn.functional as F


class KVCache(nn.Module):
    def __init__(self, max_batch, max_len, n_heads, head_dim):
        super().__init__()
        self.register_buffer('k_cache', torch.zeros(max_batch, n_heads, max_len, head_dim), persistent=False)
        self.register_buffer('v_cache', torch.zeros(max_batch, n_heads, max_len, head_dim), persistent=False)

    def update(self, input_pos, k_val, v_val):
        # input_pos: [S], k_val: [B, H, S, D]
        k_out, v_out = self.k_cache, self.v_cache
        k_out[:, :, input_pos] = k_val
        v_out[:, :, input_pos] = v_val
        return k_out, v_out


class Attention(nn.Module):
    def __init__(self, dim=48, n_head=6, n_kv=2, max_batch=2, max_len=16):
        super().__init__()
        self.n_head, self.n_kv, self.head_dim, self.dim = n_head, n_kv, dim // n_head, dim
        self.wqkv = nn.Linear(dim, (n_head + 2 * n_kv) * self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.kv_cache = KVCache(max_batch, max_len, n_kv, self.head_dim)
        self.register_buffer('causal_mask', torch.tril(torch.ones(max_len, max_len, dtype=torch.bool)))

    @torch.no_grad()
    def forward(self, x, input_pos):
        b, s, _ = x.shape
        kv = self.n_kv * self.head_dim
        q, k, v = self.wqkv(x).split([self.dim, kv, kv], dim=-1)
        q = q.view(b, s, self.n_head, self.head_dim).transpose(1, 2)
        k = k.view(b, s, self.n_kv, self.head_dim).transpose(1, 2)
        v = v.view(b, s, self.n_kv, self.head_dim).transpose(1, 2)
        k, v = self.kv_cache.update(input_pos, k, v)
        k = k.repeat_interleave(self.n_head // self.n_kv, dim=1)
        v = v.repeat_interleave(self.n_head // self.n_kv, dim=1)
        mask = self.causal_mask[None, None, input_pos]   # rows of the queries; later slots are blocked
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.0)
        return self.wo(y.transpose(1, 2).contiguous().view(b, s, self.dim))


attn = Attention()
h = attn(torch.randn(2, 5, 48), torch.arange(5))
h = attn(torch.randn(2, 1, 48), torch.tensor([5]))
print(h.shape)
