"""attend and MultiHeadAttention against PyTorch's own, on the same numbers in the same run (float32, CPU)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv import MultiHeadAttention, attend, masks

from ._measure import Row, publish, race


def qkv(batch: int, heads: int, n: int, width: int = 64) -> list[Tensor]:
    return [torch.randn(batch, heads, n, width, requires_grad=True) for _ in range(3)]


def fused() -> list[Row]:
    """attend against the kernel that it calls."""
    rows = []
    rule = masks.causal()
    for n in (256, 1024, 4096):
        q, k, v = qkv(1, 8, n)
        with torch.no_grad():
            ours, peer = race(
                lambda: attend(q, k, v, rule),
                lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                rounds=15,
            )
        rows.append(Row(f"causal, n = {n}, forward, against bare SDPA", ours, peer, "≤ 1.05"))
        ours, peer = race(
            lambda: attend(q, k, v, rule).sum().backward(),
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward(),
            rounds=9,
        )
        rows.append(Row(f"causal, n = {n}, forward + backward, against bare SDPA", ours, peer, "≤ 1.05"))
    return rows


def modules() -> list[Row]:
    """The module against nn.MultiheadAttention with the same weights, training and eval, with and without weights."""
    rows = []
    theirs = nn.MultiheadAttention(512, 8, batch_first=True)
    ours = MultiHeadAttention.from_torch(theirs)
    for n in (128, 512):
        x = torch.randn(4, n, 512)
        for mode in ("eval", "train"):
            ours.train(mode == "train")
            theirs.train(mode == "train")
            with torch.set_grad_enabled(mode == "train"):
                for weights, bar in ((False, "≤ 1.0"), (True, "≤ 1.1")):
                    a, b = race(
                        lambda: ours(x, weights=weights),
                        lambda: theirs(x, x, x, need_weights=weights, average_attn_weights=False),
                        rounds=15,
                    )
                    mode_name = "with weights" if weights else "no weights"
                    rows.append(
                        Row(
                            f"MultiHeadAttention, n = {n}, {mode}, {mode_name}, against nn.MultiheadAttention",
                            a,
                            b,
                            bar,
                        )
                    )
    return rows


def skipping() -> list[Row]:
    """Masked blocks are not computed."""
    rows = []
    n = 4096
    q, k, v = qkv(1, 8, n)
    rule = masks.window(128)
    dense = rule.tensor(n)
    with torch.no_grad():
        ours, peer = race(
            lambda: attend(q, k, v, rule), lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=dense), rounds=5
        )
    rows.append(Row("window 128, n = 4096, forward, against SDPA with the mask dense", ours, peer, "≤ 0.2"))
    ours, peer = race(
        lambda: attend(q, k, v, rule).sum().backward(),
        lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=dense).sum().backward(),
        rounds=3,
    )
    rows.append(Row("window 128, n = 4096, forward + backward", ours, peer, "≤ 0.2"))
    batch = 4
    q, k, v = qkv(batch, 8, n)
    rule = masks.padding(torch.linspace(0.1, 1, batch).mul(n).long())
    dense = rule.tensor(n, batch=batch)
    with torch.no_grad():
        ours, peer = race(
            lambda: attend(q, k, v, rule), lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=dense), rounds=3
        )
    rows.append(Row("padded batch (10–100 % of 4096), forward, against SDPA with the mask dense", ours, peer, "≤ 0.7"))
    ours, peer = race(
        lambda: attend(q, k, v, rule).sum().backward(),
        lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=dense).sum().backward(),
        rounds=2,
    )
    rows.append(Row("padded batch, forward + backward", ours, peer, "≤ 0.7"))
    return rows


def decoding() -> list[Row]:
    """One token against 2,048 cached ones, 9 heads over 3: 30 layers' caches in turn, as a model reads them."""
    q = torch.randn(1, 9, 1, 64)
    layers = [(torch.randn(1, 3, 2048, 64), torch.randn(1, 3, 2048, 64)) for _ in range(30)]
    rule = masks.causal()

    def ours() -> None:
        for k, v in layers:
            attend(q, k, v, rule)

    def repeated() -> None:
        for k, v in layers:
            F.scaled_dot_product_attention(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1))

    def gqa() -> None:
        for k, v in layers:
            F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    with torch.inference_mode():
        a, b, c = race(ours, repeated, gqa, rounds=25)
    return [
        Row("decode 9:3 over 2,048 keys, 30 layers, against repeating keys", a, b, "≤ 0.15"),
        Row("the same against enable_gqa=True", a, c, "≤ 1.0"),
    ]


if __name__ == "__main__":
    torch.manual_seed(0)
    publish("attention", "Attention", [*decoding(), *fused(), *modules(), *skipping()])
