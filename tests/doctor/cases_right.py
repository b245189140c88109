"""Attention that is right, however it is written: nothing here may be called a mistake.

`also` holds what would be true as well: a fill such as -1e9 that half precision can't hold (N1), weights kept or given
back after dropout (X8), code for one sentence without a batch (S7). "Could not run" is a fair answer to ODD alone:
constructors that want other modules, whole models, images, additive attention.
"""

from .case import Case

HALF = ("N1",)  # the fill overflows in half precision
DROPPED = ("X8",)  # weights are handed out after dropout, which shows in training alone
FLAT = ("S7",)  # one sentence at a time
OTHER = ("numbers",)  # something else happens to q, k or v: there is no formula to compare with


def of(
    file: str, *names: str, also: tuple[str, ...] = (), unseen: tuple[str, ...] = (), **options: object
) -> list[Case]:
    """One case per name in a file."""
    file = file if file.endswith(".ipynb") else f"{file}.py"
    return [Case(file, name, also=also, unseen=unseen, options=dict(options)) for name in names]


FUNCTIONS = [
    *of("fn_sdpa_pair", "scaled_dot_product", also=HALF),
    *of("annotated", "attention", also=HALF + DROPPED),
    *of("annotated_2018", "attention", also=HALF + DROPPED),
    *of("einsum_fn", "attn4d", also=HALF),
    *of("einsum_fn", "attn3d", "causal_attention", "attention_blhd", "attention_with_scale"),
    *of("own_softmax", "log_softmax_attention", also=HALF),
    *of("own_softmax", "scaled_dot_product_attention"),
    *of("flash_tiles", "flash_attention"),
    *of("sdpa_wrappers", "attention"),
    *of("modulelist_heads", "scaled_dot_product_attention"),
    *of("rope_half_functions", "rotary_attention", unseen=OTHER),
    *of("simple_2d_torch", "attention_2d", also=FLAT),
    *of("numpy_2d", "self_attention", "attention", also=FLAT),
    *of("numpy_batched", "scaled_dot_product_attention"),
    *of("pico_numpy", "attention", also=FLAT),
    *of("keys_in_pieces", "piece", unseen=OTHER),
    *of("keys_in_pieces", "attention_in_pieces"),
    *of("keys_in_pieces", "attention_by_thirds", unseen=("lengths",)),
]

ATTENTION = [
    *of("fn_sdpa_pair", "MultiheadAttention", also=HALF),
    *of("numpy_class", "MultiHeadAttention"),
    *of("numpy_autograd", "SelfAttention"),
    *of("annotated", "MultiHeadedAttention", also=HALF + DROPPED),
    *of("annotated_2018", "MultiHeadedAttention", also=HALF + DROPPED),
    *of("lecture_gpt", "Head", "MultiHeadAttention"),
    *of("nano_gpt", "CausalSelfAttention"),
    *of("min_gpt_past", "CausalSelfAttention"),
    *of("book_chapter", "SelfAttention_v1", also=FLAT),
    *of("book_chapter", "CausalAttention", "MultiHeadAttention"),
    *of("values_keys_query", "SelfAttention", also=HALF),
    *of("blog_former", "SelfAttention", "SelfAttentionWide"),
    *of("vit_timm_like", "Attention", also=DROPPED),
    *of("fused_heads_first", "ParallelSelfAttention"),
    *of("fused_dims_first", "MHSA"),
    *of("fused_kv_other_order", "CrossAttention"),
    *of("llama_meta", "Attention"),
    *of("llama_hf_like", "LlamaAttention"),
    *of("handed_cache", "LlamaAttention", "eager_attention_forward"),
    *of("rope_interleaved", "RoPEAttention"),
    *of("mqa", "MultiQueryAttention"),
    *of("gqa_grouped", "GroupedQueryAttention"),
    *of("dict_cfg_gqa", "GroupedQueryAttention"),
    *of("cache_past_kv", "CachedMultiHeadAttention"),
    *of("cache_class", "Attention"),
    *of("cache_static", "StaticCacheAttention"),
    *of("gpt2_conv1d", "GPT2Attention"),
    *of("fairseq_like", "MultiheadAttention", also=DROPPED),
    *of("seq_first_simple", "SeqFirstAttention"),
    *of("padding_bn", "MultiHeadSelfAttention"),
    # -1e6 is enough for any logit of a real model, but not for every logit there is.
    *of("lengths_d2l", "DotProductAttention", "MultiHeadAttention", also=("M19",)),
    *of("additive_mask", "MHA"),
    *of("block_convention", "MultiHeadAttention"),
    *of("both_masks", "DecoderSelfAttention"),
    *of("mask_before_scale", "MaskedMultiHeadAttention"),
    *of("bert_self_attention", "BertSelfAttention", "BertAttention", also=DROPPED),
    *of("globals_no_args", "MultiHeadAttention", also=HALF),
    *of("heads_first_ctor", "ScaledDotProductAttention", "MultiHeadAttention", also=HALF + DROPPED),
    *of("split_concat", "ScaleDotProductAttention", "MultiHeadAttention", also=HALF),
    *of("translation_model", "MultiHeadAttentionBlock", also=HALF + DROPPED),
    *of("course_transformer", "MultiHeadAttention", also=HALF),
    *of("zh_comments", "MultiHeadAttention"),
    *of("diffusion_cross", "SelfAttention", "CrossAttention"),
    *of("perceiver_like", "Attention"),
    *of("residual_inside", "SelfAttentionLayer", "PostNormCross"),
    *of("lying_names", "Attention", also=HALF),
    *of("lying_names", "Memory"),
    *of("modulelist_heads", "AttentionHead", "MultiHeadAttention"),
    *of("wide_heads", "SingleHead", "MultiHeadAttention"),
    *of("per_head_loop", "MHSA", unseen=OTHER),
    *of("interp_params", "Attention"),
    *of("simple_2d_torch", "SelfAttention", also=FLAT),
    *of("whisper_like", "MultiHeadAttention"),
    # Scales of other kinds, all on purpose. T5's is no scale at all: right, or a remark.
    *of("t5_style", "T5SelfAttention", unseen=("lines 20", *OTHER)),  # the buckets of a decoder
    *of("scale_in_weights", "PreScaledAttention", also=("S2",)),
    *of("learned_temperature", "TemperatureAttention"),
    *of("learned_temperature", "CosineAttention", unseen=OTHER),
    *of("mup_attention", "MuPSelfAttention"),
    *of("alibi", "ALiBiMultiHeadAttention", unseen=("lines 16",)),  # heads that are no power of 2
    *of("relative_shaw", "RelativeAttention", unseen=OTHER),
    *of("own_softmax", "CausalMultiHeadSelfAttention"),
    *of("chunked", "ChunkedAttention"),
    *of("sliding_window", "SlidingWindowAttention", "LocalAttention"),
    *of("qk_norm", "QKNormAttention", unseen=OTHER),
    *of("softcap", "GemmaAttention", unseen=("lines 35",)),  # its cap is off unless a number is given
    *of("relu_qkv", "ScaledDotProductAttention", "MultiHeadAttention", also=HALF),
    *of("sdpa_wrappers", "MHACausal", "PaddedCausalAttention"),
    *of("torch_wrappers", "SelfAttention"),
    # A window has one size, and its table of distances fits that size alone.
    *of(
        "swin_window",
        "WindowAttention",
        also=("M20",),
        unseen=OTHER,
        args={"dim": 24, "window_size": (2, 3), "num_heads": 4},
    ),
    *of("returns_dict", "DictAttention", "DataclassAttention"),
    *of("return_flags", "MultiHeadAttention"),
    *of("scripted_typed", "ScriptAttention"),
    *of("tiny_gpt_simple", "SelfAttn"),
    *of("mla_deepseek", "MLA", unseen=OTHER),
    *of("vit_einops", "Attention"),
    *of("notebook_attention.ipynb", "SelfAttention"),
    *of("tokens_first", "Either"),
    *of("one_head_d_head", "Head"),
    *of("distances_in_values", "DistanceAttention", unseen=OTHER),
    *of("distances_in_values", "Recurrent", unseen=("memory: numbers",)),
    *of("mask_objects", "PlainAttention", unseen=("mask attn_mask",)),
    *of("segments_and_lengths", "Attention", also=HALF),
    *of("latent_norms", "LatentAttention"),
]

BLOCKS = [
    *of("annotated", "EncoderLayer", "DecoderLayer", also=HALF + DROPPED),
    *of("translation_model", "EncoderBlock", "DecoderBlock", also=HALF + DROPPED),
    *of("fn_sdpa_pair", "EncoderBlock", also=HALF),
    *of("lecture_gpt", "Block"),
    *of("nano_gpt", "Block"),
    *of("min_gpt_past", "Block"),
    *of("book_chapter", "TransformerBlock"),
    *of("values_keys_query", "TransformerBlock", also=HALF),
    *of("values_keys_query", "DecoderBlock", also=HALF, unseen=("mask trg_mask",)),
    *of("blog_former", "TransformerBlock"),
    *of("vit_timm_like", "Block"),
    *of("llama_meta", "TransformerBlock"),
    *of("dict_cfg_gqa", "TransformerBlock"),
    *of("fairseq_like", "TransformerEncoderLayer"),
    *of("lengths_d2l", "TransformerEncoderBlock", also=("M19",)),
    *of("bert_self_attention", "BertLayer"),
    *of("globals_no_args", "EncoderLayer", "DecoderLayer", also=HALF),
    *of("heads_first_ctor", "DecoderLayer", also=HALF + DROPPED),
    *of("split_concat", "EncoderLayer", "DecoderLayer", also=HALF),
    *of("course_transformer", "EncoderLayer", "DecoderLayer", also=HALF),
    *of("zh_comments", "EncoderLayer"),
    *of("modulelist_heads", "TransformerEncoderLayer"),
    *of("per_head_loop", "ViTBlock", unseen=OTHER),
    *of("interp_params", "TransformerBlock"),
    *of("whisper_like", "ResidualAttentionBlock"),
    *of("torch_wrappers", "Block", "EncoderLayerWrapper"),
    *of("tiny_gpt_simple", "Layer"),
    *of("parallel_block", "ParallelBlock"),
    *of("tokens_first", "Tower", "Pixels", "Frames", "Text"),
    *of("mask_objects", "Layer"),
    *of("segments_and_lengths", "Encoder", also=HALF),
]

POSITIONS = [
    *of("annotated", "PositionalEncoding"),
    *of("annotated_2018", "PositionalEncoding"),
    *of("globals_no_args", "PositionalEncoding"),
    *of("heads_first_ctor", "PositionalEncoding"),
    *of("lengths_d2l", "PositionalEncoding"),
    *of("split_concat", "PositionalEncoding"),
    *of("translation_model", "PositionalEncoding"),
    *of("course_transformer", "PositionalEncoding"),
    *of("zh_comments", "PositionalEncoding"),
    *of("torch_wrappers", "PositionalEncoding"),
    *of("positions", "sinusoidal_table", "SinusoidalPositionalEmbedding"),
    *of("positions", "SeqFirstPositionalEncoding", "LearnedPositionalEncoding"),
    # The frequencies of tensor2tensor: the last is exactly 1/10000, so the exponent's step is a little longer.
    *of("positions", "get_timing_signal", also=("R1",)),
    *of("numpy_batched", "positional_encoding"),
    *of("per_head_loop", "get_positional_embeddings"),
    *of("notebook_attention.ipynb", "positional_encoding"),
    *of("rope_interleaved", "RotaryEmbedding"),
    *of("rope_half_functions", "apply_rope", "rope"),
    *of("dict_cfg_gqa", "apply_rope"),
    *of("llama_meta", "apply_rotary_emb"),
    *of("turn_zh", "旋转"),
    *of("turn_one_place", "rope_at"),
]

# From modules_right.py: no file, the name is the function that makes the object.
# Beside a name, what can't be checked of it: caches that a whole model makes, numbers that have no formula.
CACHE = ("cache",)
# Masks of arguments that may be left out, and were; and the text's own, which is not used where there is another text.
MEMORIES = ("mask mem_mask", "mask additional_key_value_mask", "memory: mask mask")
UNSEEN = {
    "bert_self_attention": CACHE,
    "bert_attention": CACHE,
    "bert_layer": CACHE,
    "t5_attention": CACHE,
    "t5_attention_with_distances": ("cache", "numbers", "memory: numbers"),
    "x_transformers_attention": (*CACHE, *MEMORIES),
    "x_transformers_causal": (*CACHE, *MEMORIES),
    "x_transformers_fused": (*CACHE, *MEMORIES),
    "qkv_cross": CACHE,
    "qkv_block": CACHE,
    "qkv_block_post_norm": CACHE,
    "qkv_block_with_memory": CACHE,
    "qkv_relative": OTHER,
    "qkv_window": ("memory: numbers",),
    "qkv_normed": ("cache", "numbers", "memory: numbers"),
    "qkv_latent": ("cache", "numbers"),
}
MODULES = [
    Case("", name, unseen=UNSEEN.get(name, ()))
    for name in (
        "torch_mha",
        "torch_mha_sequence_first",
        "torch_mha_other_widths",
        "torch_mha_class",
        "torch_sdpa",
        "torch_encoder_layer",
        "torch_encoder_layer_sequence_first",
        "torch_encoder_layer_pre_norm",
        "torch_decoder_layer",
        "bert_self_attention",
        "bert_attention",
        "bert_layer",
        "gpt2_attention",
        "gpt2_attention_fused",
        "gpt2_block",
        "llama_attention",
        "llama_layer",
        "llama_attention_with_tables",
        "t5_attention",
        "t5_attention_with_distances",
        "x_transformers_attention",
        "x_transformers_causal",
        "x_transformers_fused",
        "qkv_self_attention",
        "qkv_self_attention_class",
        "qkv_mha",
        "qkv_mha_class",
        "qkv_rotary_few_keys",
        "qkv_alibi",
        "qkv_relative",
        "qkv_window",
        "qkv_normed",
        "qkv_cross",
        "qkv_latent",
        "qkv_attend",
        "qkv_block",
        "qkv_block_post_norm",
        "qkv_block_with_memory",
        "qkv_sinusoidal",
        "qkv_sinusoidal_halves",
        "qkv_learned",
        "qkv_rotary",
        "qkv_rotary_interleaved",
    )
]
# Query heads share keys in turn (0, 1, 0, 1): a model trained so is right, weights from elsewhere wouldn't fit.
MODULES.append(Case("", "x_transformers_few_keys", also=("H8",), unseen=(*CACHE, *MEMORIES)))

RIGHT = FUNCTIONS + ATTENTION + BLOCKS + POSITIONS + MODULES

# As right as the others, but an adapter may give up on them: that is "unknown", never "wrong".
ODD = [
    *of("positions", "ViTPositions"),
    *of("values_keys_query", "Encoder", also=HALF),
    *of("course_transformer", "Transformer", also=HALF),
    *of("lecture_gpt", "GPTLanguageModel"),
    *of("nano_gpt", "GPT"),
    *of("book_chapter", "GPTModel"),
    *of("tiny_gpt_simple", "TinyGPT"),
    *of("llama_meta", "Transformer"),
    *of("vit_einops", "Transformer"),
    *of("torch_wrappers", "TransformerClassifier"),
    *of("bert_self_attention", "BertEmbeddings"),
    *of("diffusion_cross", "SpatialSelfAttention"),
    *of("bahdanau", "BahdanauAttention", "LuongAttention"),
    *of("pico_numpy", "mha", "transformer_block", also=FLAT),
    *of("simple_2d_torch", "attention_single", also=FLAT),
]
