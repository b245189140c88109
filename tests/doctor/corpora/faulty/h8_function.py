import torch
from torch import Tensor


def grouped_query_attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Grouped multi-query attention: neighbouring query heads share one key/value head.

    query: (batch, query_heads, n, d)
    key:   (batch, kv_heads, m, d)
    value: (batch, kv_heads, m, d)
    """
    hq, hk = query.size(1), key.size(1)
    if hq != hk:
        key = torch.cat([key] * (hq // hk), dim=1)
        value = torch.cat([value] * (hq // hk), dim=1)
    sim = torch.einsum("bhnd,bhmd->bhnm", query, key) * query.size(-1) ** -0.5
    if is_causal:
        causal = torch.ones(sim.shape[-2:], dtype=torch.bool, device=sim.device).tril()
        sim = sim.masked_fill(~causal, float("-inf"))
    return torch.einsum("bhnm,bhmd->bhnd", sim.softmax(-1), value)


if __name__ == "__main__":
    print(grouped_query_attention(torch.randn(2, 8, 5, 4), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4)).shape)
