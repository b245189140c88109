import math
import torch
import torch.nn.functional as F


def attention(q, k, v, mask=None):
    """
    q, k, v: [batch, heads, len, dim]
    mask: broadcastable to [batch, heads, len, len]; False entries are ignored
    """
    dim = q.shape[-1]
    energy = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(dim)
    if mask is not None:
        masked_energy = energy.masked_fill(mask.logical_not(), -1e9)
    weights = F.softmax(masked_energy, dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v)


if __name__ == "__main__":
    t = torch.randn(2, 4, 6, 8)
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    print(attention(t, t, t, causal).shape)
