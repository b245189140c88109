"""Configs by name. `tiny…` and `small` are modern and the defaults of training; the others are as published."""

from .config import Config, Values

_MODERN: Values = dict(position="rotary", norm="rms", qk_norm="rms", feed_forward="swiglu", tied=False, init="zero-out")
_TINY = _MODERN | dict(width=128, n_layer=4, n_head=4, context=64)
_PUBLISHED: Values = dict(norm="layer", norm_eps=1e-5, bias=True)
# BERT's own layout, without its sizes.
BERT_LAYOUT: Values = dict(
    kind="encoder",
    position="learned",
    norm="layer",
    norm_place="post",
    norm_eps=1e-12,
    feed_forward="gelu",
    bias=True,
    embedding_norm=True,
    token_types=2,
    head="mlm",
)
PRESETS: dict[str, Config] = {
    "tiny": Config(**_TINY),
    "small": Config(width=384, n_layer=6, n_head=6, context=256, **_MODERN),
    # Of tiny's size, in the layout of each family. Blocks without a feed-forward are half as large.
    "tiny-mamba2": Config(
        **_TINY
        | dict(n_layer=8, n_head=8, head_width=32, mixer="mamba2", state_width=32)
        | dict(position="none", qk_norm=None, feed_forward="none")
    ),
    "tiny-bamba": Config(**_TINY | dict(mixer="mamba2×3 attention", state_width=32, rotary_fraction=0.5, qk_norm=None)),
    "tiny-qwen3-next": Config(
        **_TINY
        | dict(mixer="delta×3 attention", attention_gate=True, rotary_fraction=0.25)
        | dict(norm="rms-centred", qk_norm="rms-centred")
    ),
    "gpt2": Config(
        **_PUBLISHED
        | dict(vocab=50257, width=768, n_layer=12, n_head=12, context=1024)
        | dict(position="learned", feed_forward="gelu-tanh")
    ),
    "bert": Config(vocab=30522, width=768, n_layer=12, n_head=12, hidden=3072, context=512, dropout=0.1, **BERT_LAYOUT),
    "classic": Config(
        **_PUBLISHED
        | dict(kind="encoder", vocab=32000, width=512, n_layer=6, n_head=8, hidden=2048, context=512, dropout=0.1)
        | dict(position="sinusoidal", norm_place="post", feed_forward="relu", embedding_scale=512**0.5, init="torch")
    ),
}
