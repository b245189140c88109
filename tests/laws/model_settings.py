"""Settings of small models: one of every published layout, and some of our own."""

SHARED = dict(vocab=37, width=24, n_layer=2, n_head=4, context=29)
LLAMA = SHARED | dict(n_kv_head=2, hidden=20)
GPT2 = dict(
    vocab=41, width=24, n_layer=2, n_head=3, hidden=31, context=19, position="learned", norm="layer", norm_eps=1e-5,
    feed_forward="gelu-tanh", bias=True,
)  # fmt: skip
BERT = GPT2 | dict(
    kind="encoder", norm_place="post", feed_forward="gelu", embedding_norm=True, token_types=2, head="mlm"
)
T5 = dict(
    kind="encoder-decoder", vocab=41, width=22, n_layer=2, n_decoder_layer=3, n_head=3, head_width=6, hidden=19, context=29,
    position="relative", relative_buckets=10, relative_distance=9, attention_scale=1.0, output_scale=22**-0.5,
    feed_forward="relu",
)  # fmt: skip
BART = dict(
    kind="encoder-decoder", vocab=39, width=21, n_layer=3, n_decoder_layer=2, n_head=3, hidden=23, context=19,
    position="learned", norm="layer", norm_place="post", norm_eps=1e-5, feed_forward="gelu", bias=True,
    embedding_norm=True, sides="own", head_bias=True,
)  # fmt: skip
GEMMA = LLAMA | dict(
    norm="rms-centred", norm_place="both", feed_forward="geglu-tanh", embedding_scale=24**0.5, head_width=10,
    attention_scale=7**-0.5, window=4, window_layers="window full",
)  # fmt: skip
# A small model of every published layout; the key is only a name.
LAYOUTS = {
    "llama": LLAMA,
    "llama, biased, untied": LLAMA | dict(bias=True, tied=False),
    "llama, llama3 rotary": LLAMA | dict(rotary_scaling=dict(kind="llama3", factor=4.0, low=1.0, high=4.0, original=16)),
    "mistral": LLAMA | dict(window=3),
    "qwen2": LLAMA | dict(bias="qkv"),
    "qwen3": LLAMA | dict(qk_norm="rms"),
    "mixtral": LLAMA | dict(experts=dict(count=5, per_token=3)),
    "qwen3-moe": LLAMA
    | dict(qk_norm="rms", experts=dict(count=5, hidden=7, layers="dense experts", normed=False)),
    "deepseek-v3": SHARED
    | dict(hidden=20, mixer="latent", rank=9, rope_width=4, value_width=5, q_rank=11)
    | dict(
        experts=dict(
            count=6, hidden=7, shared=14, layers="dense experts", score="sigmoid", scale=1.5, groups=3,
            groups_per_token=2, balance=True,
        )
    ),
    "deepseek-v2": SHARED
    | dict(hidden=20, mixer="latent", rank=10, rope_width=4, value_width=5, q_rank=11)
    | dict(experts=dict(count=6, hidden=7, shared=14, normed=False)),
    "gemma 2": GEMMA | dict(softcap=3.0, output_softcap=5.0),
    "gemma 3": GEMMA | dict(qk_norm="rms-centred", window_base=77.0),
    "gpt2": GPT2,
    "gpt-neox": GPT2 | dict(position="rotary", rotary_fraction=0.5, parallel=True, feed_forward="gelu"),
    "opt": GPT2 | dict(embedding_width=9, norm_place="post", feed_forward="relu"),
    "bert": BERT,
    "bert, a pooler and no head": BERT | dict(head="none", pooler=True),
    "bert, classes": BERT | dict(head="classes", labels=["bad", "good"], pooler=True),
    "t5": T5,
    "t5, gated": T5 | dict(feed_forward="geglu-tanh"),
    "bart": BART,
    "mbart": BART | dict(norm_place="pre", embedding_scale=21**0.5),
    "marian": BART
    | dict(position="sinusoidal", sinusoid="halves", embedding_norm=False, sides="shared", embedding_scale=21**0.5)
    | dict(feed_forward="silu"),
    "mamba2": dict(vocab=37, width=24, n_layer=2, n_head=6, head_width=8, context=29, position="none", feed_forward="none")
    | dict(mixer="mamba2", state_width=5, n_state_group=3, taps=3),
    "bamba": LLAMA
    | dict(n_layer=3, mixer="mamba2 attention mamba2", rotary_fraction=0.5, head_width=8, n_state_head=3, taps=3),
    "qwen3-next": LLAMA
    | dict(mixer="delta attention", norm="rms-centred", qk_norm="rms-centred", attention_gate=True, rotary_fraction=0.5)
    | dict(head_width=8, n_state_head=6, n_state_group=2, state_width=5, state_head_width=7),
}  # fmt: skip
# Settings that no published layout has, for the state dict alone.
OWN = {
    "alibi": dict(position="alibi"),
    "relative": dict(position="relative"),
    "retention": dict(mixer="retention", position="none"),
    "latent": dict(mixer="latent", rank=9, rope_width=4),
    "qk norm, layer": dict(qk_norm="layer", norm="layer"),
    "translator, tied": dict(kind="encoder-decoder"),
    "translator, two vocabularies": dict(kind="encoder-decoder", source_vocab=31, tied=False),
}


# Layouts that qkv reads, and doesn't choose for an export: what their name tables would write. The key is a `model_type`.
READ_ONLY = {"phi3": LLAMA, "roberta": BERT | dict(token_types=1)}
