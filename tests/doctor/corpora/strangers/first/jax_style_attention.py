import torch


def init_attention(key, dim, heads):
    g = torch.Generator().manual_seed(key)
    w = lambda *s: torch.randn(*s, generator=g) * dim ** -0.5
    return {"qkv": w(3, dim, heads, dim // heads), "out": w(heads, dim // heads, dim)}


def stable_softmax(x, axis):
    x = x - x.amax(axis, keepdim=True)
    e = x.exp()
    return e / e.sum(axis, keepdim=True)


def apply_attention(params, x):
    """x: (b, n, dim) -> (b, n, dim)"""
    q, k, v = torch.einsum("bnd,cdhe->cbhne", x, params["qkv"])
    logits = torch.einsum("bhie,bhje->bhij", q, k) / q.shape[-1] ** 0.5
    probs = stable_softmax(logits, axis=0)
    return torch.einsum("bhij,bhje,hed->bid", probs, v, params["out"])


params = init_attention(0, 24, 3)
print(apply_attention(params, torch.randn(4, 6, 24)).shape)
