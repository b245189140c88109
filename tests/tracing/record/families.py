"""Small models of transformers with random weights and awkward sizes, one for each family that can be traced."""

from typing import Any

import torch
import transformers
from transformers.utils import logging

logging.set_verbosity_error()

LLAMA: dict[str, Any] = dict(
    vocab_size=67,
    hidden_size=42,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=10,
    max_position_embeddings=2100,
    tie_word_embeddings=False,
)
EXPERTS = LLAMA | dict(hidden_size=48)  # their kernel wants rows of whole 16 bytes
BERT: dict[str, Any] = dict(
    vocab_size=73,
    hidden_size=42,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=50,
    max_position_embeddings=43,
)
BART: dict[str, Any] = dict(
    vocab_size=61,
    d_model=42,
    encoder_layers=2,
    decoder_layers=3,
    encoder_attention_heads=3,
    decoder_attention_heads=6,
    encoder_ffn_dim=40,
    decoder_ffn_dim=40,
    max_position_embeddings=64,
    pad_token_id=59,
    decoder_start_token_id=59,
    bos_token_id=58,
    eos_token_id=0,
    forced_eos_token_id=None,
)

FAMILIES: dict[str, Any] = {
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**BERT)),
    "roberta": lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**BERT)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=71, n_positions=41, n_embd=42, n_layer=3, n_head=6, n_inner=50)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**LLAMA)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**LLAMA)),
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**LLAMA, sliding_window=4)),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(
            **LLAMA, sliding_window=4, query_pre_attn_scalar=23, attn_logit_softcapping=3.0, final_logit_softcapping=5.0
        )
    ),
    "gemma3": lambda: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(
            **LLAMA,
            sliding_window=4,
            query_pre_attn_scalar=23,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        )
    ),
    "gpt-oss": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**EXPERTS, sliding_window=4, num_local_experts=4, num_experts_per_tok=2)
    ),
    "deepseek-v3": lambda: transformers.DeepseekV3ForCausalLM(
        transformers.DeepseekV3Config(
            **{key: value for key, value in EXPERTS.items() if key not in ("head_dim", "num_key_value_heads")},
            num_key_value_heads=6,
            q_lora_rank=14,
            kv_lora_rank=12,
            qk_rope_head_dim=4,
            qk_nope_head_dim=7,
            v_head_dim=5,
            moe_intermediate_size=16,
            n_routed_experts=4,
            n_group=2,
            topk_group=1,
            num_experts_per_tok=2,
            first_k_dense_replace=2,
        )
    ),
    "t5": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=61,
            d_model=42,
            d_kv=9,
            d_ff=50,
            num_layers=3,
            num_decoder_layers=2,
            num_heads=5,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=20,
            pad_token_id=0,
            eos_token_id=1,
            decoder_start_token_id=0,
        )
    ),
    "bart": lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(**BART)),
    "marian": lambda: transformers.MarianMTModel(transformers.MarianConfig(**BART)),
}
TRANSLATORS = ("t5", "bart", "marian")


def build_family(family: str) -> Any:
    """The model in float32, its weights scaled up so that its heads look somewhere."""
    torch.manual_seed(0)
    sharpness = 1.5 if family == "t5" else 14.0  # T5 doesn't scale its scores down
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("sinks"):
                parameter.normal_()
            elif parameter.ndim == 2:
                words = any(part in name for part in ("embed", "wte", "shared"))
                parameter.mul_(min(sharpness, 3.0) if words else sharpness)
            elif name.endswith("bias"):
                parameter.normal_(std=0.3)
    return model
