import math
import torch
import torch.nn.functional as F

attn_config = {"n_heads": 8, "alibi": True, "alibi_bias_max": 8}


def build_alibi_bias(n_heads, seq_len, alibi_bias_max=8, dtype=torch.float32):
    bias = torch.arange(1 - seq_len, 1, dtype=dtype).view(1, 1, 1, seq_len)
    m = torch.arange(0, n_heads, dtype=dtype) * (alibi_bias_max / n_heads)
    return bias * (1.0 / 2 ** m).view(1, n_heads, 1, 1)


def mpt_attention(q, k, v, cfg=attn_config):
    """q, k, v: (batch, heads, n, d); causal."""
    n, d = q.shape[-2:]
    s = q @ k.transpose(-1, -2) / math.sqrt(d)
    if cfg["alibi"]:
        # a constant per row does not change the softmax, so one row of distances is enough
        s = s + build_alibi_bias(q.shape[1], n, cfg["alibi_bias_max"], q.dtype)
    future = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
    return F.softmax(s.masked_fill(future, float("-inf")), dim=-1) @ v


if __name__ == "__main__":
    q = torch.randn(2, 8, 6, 16)
    print(mpt_attention(q, q, q).shape)
