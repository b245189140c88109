"""Small Transformers of awkward sizes: every kind of position, mixer, window, grouping and norm."""

from typing import Any

import torch
from torch import Tensor

from qkv import Config, Transformer

# Odd widths on purpose: 3 heads of 6, 4 heads over 2, a vocabulary that is no round number.
SHAPES: dict[str, dict[str, Any]] = {
    "rotary": dict(),
    "rotary, post-norm": dict(norm_place="post", norm="layer", bias=True),
    "rotary, GQA": dict(width=24, n_head=4, n_kv_head=2, qk_norm="rms", bias="qkv"),
    "rotary, MQA, layer qk norm": dict(n_kv_head=1, qk_norm="layer", feed_forward="relu2"),
    "rotary, head width of its own": dict(head_width=8, feed_forward="geglu"),
    "rotary, window": dict(window=3),
    "rotary, window, GQA, post-norm": dict(window=2, width=24, n_head=4, n_kv_head=2, norm_place="post"),
    "rotary, scaled": dict(rotary_scaling={"kind": "linear", "factor": 2.0}),
    "learned, tied": dict(position="learned", tied=True),
    "learned": dict(position="learned", norm="layer", feed_forward="gelu-tanh", bias=True),
    "learned, window": dict(position="learned", window=3, feed_forward="gelu"),
    "sinusoidal": dict(position="sinusoidal", embedding_scale=18**0.5, norm_place="post", feed_forward="relu"),
    "alibi": dict(position="alibi"),
    "alibi, window, MQA": dict(position="alibi", window=3, n_kv_head=1),
    "relative": dict(position="relative", norm_place="post"),
    "relative, window": dict(position="relative", window=4),
    "none": dict(position="none", embedding_norm=True),
    "latent": dict(mixer="latent", rank=10, rope_width=4),
    "latent, post-norm, learned": dict(mixer="latent", norm_place="post", position="learned"),
}


def make(name: str = "rotary", kind: str = "decoder", dtype: torch.dtype = torch.float64, **more: Any) -> Transformer:
    """The model of that name, with weights large enough that what it says depends on what it reads."""
    shape = (
        dict(kind=kind, vocab=37, width=18, n_layer=2, n_head=3, hidden=20, context=40, tied=False)
        | SHAPES[name]
        | more
    )
    model = Transformer(Config(**shape)).to(dtype).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                spread = parameter.shape[1] ** -0.5 if parameter.shape[0] != 37 else 0.4
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=dtype) * spread * 1.5)
            else:
                parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=dtype) * 0.1)
    return model


def words(*shape: int, seed: int = 0, vocab: int = 37) -> Tensor:
    """Random token ids."""
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))
