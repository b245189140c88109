import torch


def sink_attention(q, k, v, sinks, causal=True):
    """q k v (B, H, N, D), sinks (H,): one extra logit per head that takes probability but has no value"""
    B, H, N, D = q.shape
    qk = torch.einsum('bhid,bhjd->bhij', q, k) * D ** -0.5
    if causal:
        qk = qk + torch.triu(qk.new_full((N, k.shape[2]), float('-inf')), diagonal=1 + k.shape[2] - N)
    s = sinks.view(1, H, 1, 1).expand(B, H, N, 1)
    w = torch.softmax(torch.cat([qk, s], dim=-1), dim=-1)[..., :-1]   # drop the sink column
    return torch.einsum('bhij,bhjd->bhid', w, v)
