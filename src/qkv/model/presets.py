"""Shapes by name. `tiny…` and `small` are the modern recipe that training defaults to; the others are as published."""

from .config import Config, Values
from .config_groups import EmbeddingSettings, RotarySettings, StateSettings

_MODERN: Values = dict(position="rotary", norm="rms", qk_norm="rms", feed_forward="swiglu", tied=False, init="zero-out")
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
    "tiny": Config(width=128, n_layer=4, n_head=4, context=64, **_MODERN),
    "small": Config(width=384, n_layer=6, n_head=6, context=256, **_MODERN),
    # Of the same size as tiny, each in the layout of its family: blocks without a feed-forward are half as large.
    "tiny-mamba2": Config(
        width=128,
        n_layer=8,
        n_head=8,
        head_width=32,
        context=64,
        mixer="mamba2",
        state=StateSettings(width=32),
        **_MODERN | dict(position="none", qk_norm=None, feed_forward="none"),
    ),
    "tiny-bamba": Config(
        width=128,
        n_layer=4,
        n_head=4,
        context=64,
        mixer="mamba2×3 attention",
        state=StateSettings(width=32),
        rotary=RotarySettings(fraction=0.5),
        **_MODERN | dict(qk_norm=None),
    ),
    "tiny-qwen3-next": Config(
        width=128,
        n_layer=4,
        n_head=4,
        context=64,
        mixer="delta×3 attention",
        attention_gate=True,
        rotary=RotarySettings(fraction=0.25),
        **_MODERN | dict(norm="rms-centred", qk_norm="rms-centred"),
    ),
    "gpt2": Config(
        vocab=50257,
        width=768,
        n_layer=12,
        n_head=12,
        context=1024,
        position="learned",
        norm="layer",
        norm_eps=1e-5,
        feed_forward="gelu-tanh",
        bias=True,
    ),
    "bert": Config(vocab=30522, width=768, n_layer=12, n_head=12, hidden=3072, context=512, dropout=0.1, **BERT_LAYOUT),
    "classic": Config(
        kind="encoder",
        vocab=32000,
        width=512,
        n_layer=6,
        n_head=8,
        hidden=2048,
        context=512,
        position="sinusoidal",
        norm="layer",
        norm_place="post",
        norm_eps=1e-5,
        feed_forward="relu",
        bias=True,
        embedding=EmbeddingSettings(scale=512**0.5),
        dropout=0.1,
        init="torch",
    ),
}
