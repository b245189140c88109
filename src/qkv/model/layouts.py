"""How GGUF writes each architecture: its words for settings and tensors, and Hugging Face's."""

from dataclasses import dataclass, field
from typing import Any

# Settings that change no number: the vocabulary is counted, and the epsilon of norms that a model doesn't have is idle.
SILENT = (
    *("vocab_size", "tensor_data_layout", "pooling_type", "rope.scaling.finetuned"),
    *("rope.scaling.original_context_length", "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"),
)


@dataclass(frozen=True)
class Layout:
    """How one architecture is written: Hugging Face's word for it, for its settings and for its tensors."""

    model_type: str
    fixed: dict[str, Any]  # said by the architecture itself
    settings: dict[str, str]  # GGUF's word -> theirs
    outside: dict[str, str]  # tensors outside the layers
    inside: dict[str, str]  # and in layer {i}
    turned: str = "$^"  # a pattern: matrices that Hugging Face keeps the other way round
    permuted: tuple[str, ...] = ()  # those whose rows llama.cpp reorders for its rotary
    experts: dict[str, str] = field(default_factory=dict)  # tensors that stack the experts of layer {i}: expert {e}
    mixed: str = ""  # Hugging Face's word for it, if there are experts


_LLAMA_SETTINGS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "context_length": "max_position_embeddings",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
_LLAMA_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LLAMA_INSIDE = {
    "attn_norm": "model.layers.{i}.input_layernorm",
    "attn_q": "model.layers.{i}.self_attn.q_proj",
    "attn_k": "model.layers.{i}.self_attn.k_proj",
    "attn_v": "model.layers.{i}.self_attn.v_proj",
    "attn_q_norm": "model.layers.{i}.self_attn.q_norm",
    "attn_k_norm": "model.layers.{i}.self_attn.k_norm",
    "attn_output": "model.layers.{i}.self_attn.o_proj",
    "ffn_norm": "model.layers.{i}.post_attention_layernorm",
    "ffn_gate": "model.layers.{i}.mlp.gate_proj",
    "ffn_up": "model.layers.{i}.mlp.up_proj",
    "ffn_down": "model.layers.{i}.mlp.down_proj",
}


_MIXTRAL = {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}
_QWEN_MOE = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}


def _like_llama(model_type: str, architecture: str, *permuted: str) -> Layout:
    fixed = dict(architectures=[architecture], hidden_act="silu")
    inside = _LLAMA_INSIDE | {"ffn_gate_inp": "model.layers.{i}.block_sparse_moe.gate"}
    experts = {name: f"model.layers.{{i}}.block_sparse_moe.experts.{{e}}.{word}" for name, word in _MIXTRAL.items()}
    mixed = "mixtral" if model_type == "llama" else ""
    return Layout(model_type, fixed, _LLAMA_SETTINGS, _LLAMA_OUTSIDE, inside, "$^", permuted, experts, mixed)


def _qwen_moe() -> Layout:
    """Its router's shares sum to 1 in llama.cpp, whatever a file says."""
    fixed: dict[str, Any] = dict(architectures=["Qwen3MoeForCausalLM"], hidden_act="silu", norm_topk_prob=True)
    settings = _LLAMA_SETTINGS | {"expert_feed_forward_length": "moe_intermediate_size"}
    inside = _LLAMA_INSIDE | {"ffn_gate_inp": "model.layers.{i}.mlp.gate"}
    experts = {name: f"model.layers.{{i}}.mlp.experts.{{e}}.{word}" for name, word in _QWEN_MOE.items()}
    return Layout("qwen3_moe", fixed, settings, _LLAMA_OUTSIDE, inside, experts=experts, mixed="qwen3_moe")


LAYOUTS = {
    "llama": _like_llama("llama", "LlamaForCausalLM", "attn_q", "attn_k"),
    "qwen2": _like_llama("qwen2", "Qwen2ForCausalLM"),
    "qwen3": _like_llama("qwen3", "Qwen3ForCausalLM"),
    "qwen3moe": _qwen_moe(),
    "gpt2": Layout(
        "gpt2",
        dict(architectures=["GPT2LMHeadModel"], activation_function="gelu_new"),
        {
            "embedding_length": "n_embd",
            "block_count": "n_layer",
            "feed_forward_length": "n_inner",
            "attention.head_count": "n_head",
            "context_length": "n_positions",
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
        {
            "token_embd": "transformer.wte",
            "position_embd": "transformer.wpe",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
        },
        {
            "attn_norm": "transformer.h.{i}.ln_1",
            "attn_qkv": "transformer.h.{i}.attn.c_attn",
            "attn_output": "transformer.h.{i}.attn.c_proj",
            "ffn_norm": "transformer.h.{i}.ln_2",
            "ffn_up": "transformer.h.{i}.mlp.c_fc",
            "ffn_down": "transformer.h.{i}.mlp.c_proj",
        },
        turned=r"\.(c_attn|c_proj|c_fc)\.weight$",
    ),
    "bert": Layout(
        "bert",
        dict(architectures=["BertModel"], hidden_act="gelu", position_embedding_type="absolute"),
        {
            "embedding_length": "hidden_size",
            "block_count": "num_hidden_layers",
            "feed_forward_length": "intermediate_size",
            "attention.head_count": "num_attention_heads",
            "context_length": "max_position_embeddings",
            "attention.layer_norm_epsilon": "layer_norm_eps",
        },
        {
            "token_embd": "embeddings.word_embeddings",
            "position_embd": "embeddings.position_embeddings",
            "token_types": "embeddings.token_type_embeddings",
            "token_embd_norm": "embeddings.LayerNorm",
        },
        {
            "attn_q": "encoder.layer.{i}.attention.self.query",
            "attn_k": "encoder.layer.{i}.attention.self.key",
            "attn_v": "encoder.layer.{i}.attention.self.value",
            "attn_output": "encoder.layer.{i}.attention.output.dense",
            "attn_output_norm": "encoder.layer.{i}.attention.output.LayerNorm",
            "ffn_up": "encoder.layer.{i}.intermediate.dense",
            "ffn_down": "encoder.layer.{i}.output.dense",
            "layer_output_norm": "encoder.layer.{i}.output.LayerNorm",
        },
    ),
}
