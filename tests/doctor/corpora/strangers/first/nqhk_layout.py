import torch
import torch.nn.functional as F


def init_params(d_model, n_heads, seed=0):
    g = torch.Generator().manual_seed(seed)
    d_head = d_model // n_heads
    shape = (d_model, n_heads, d_head)
    p = {n: torch.randn(shape, generator=g) * d_model ** -0.5 for n in ("wq", "wk", "wv")}
    p["wo"] = torch.randn((n_heads, d_head, d_model), generator=g) * d_model ** -0.5
    return p


def attention_block(params, x, ctx=None):
    """x: (b, i, m), ctx: (b, j, m); self attention if ctx is None."""
    ctx = x if ctx is None else ctx
    q = torch.einsum("bim,mhd->bihd", x, params["wq"])
    k = torch.einsum("bjm,mhd->bjhd", ctx, params["wk"])
    v = torch.einsum("bjm,mhd->bjhd", ctx, params["wv"])
    logits = torch.einsum("bihd,bjhd->bijh", q, k) / q.shape[-1] ** 0.5
    probs = F.softmax(logits, dim=-1)
    o = torch.einsum("bijh,bjhd->bihd", probs, v)
    return torch.einsum("bihd,hdm->bim", o, params["wo"])


if __name__ == "__main__":
    params = init_params(32, 4)
    print(attention_block(params, torch.randn(2, 5, 32), torch.randn(2, 7, 32)).shape)
