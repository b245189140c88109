"""How GGUF writes each architecture: its words for settings, and for tensors with Hugging Face's."""

from dataclasses import dataclass, field

from .families.setting_table import HfConfig

# GGUF's word for a setting that any model has -> ours, which the family's table turns into that of its config.json.
SETTINGS = {
    "embedding_length": "width",
    "block_count": "n_layer",
    "feed_forward_length": "hidden",
    "attention.head_count": "n_head",
    "context_length": "context",
    "attention.layer_norm_rms_epsilon": "norm_eps",
    "attention.layer_norm_epsilon": "norm_eps",
    "expert_feed_forward_length": "experts.hidden",
}
# Settings that change no number: the vocabulary is counted, and the epsilon of norms that a model doesn't have is idle.
SILENT = (
    *("vocab_size", "tensor_data_layout", "pooling_type", "rope.scaling.finetuned"),
    *("rope.scaling.original_context_length", "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"),
)


@dataclass(frozen=True)
class Layout:
    """How one architecture is written: Hugging Face's word for it and for its tensors."""

    model_type: str
    fixed: HfConfig  # said by the architecture itself
    outside: dict[str, str]  # tensors outside the layers
    inside: dict[str, str]  # and in layer {i}
    turned: str = "$^"  # a pattern: matrices that Hugging Face keeps the other way round
    permuted: tuple[str, ...] = ()  # those whose rows llama.cpp reorders for its rotary
    woven: tuple[
        str, ...
    ] = ()  # those in which all of q, k and v follow each other, where Hugging Face takes turns head by head
    raised: str = "$^"  # a pattern: norms that are kept with 1 added
    joined: dict[str, str] = field(default_factory=dict)  # the keys' and the values' half of a tensor -> the whole
    experts: dict[str, str] = field(default_factory=dict)  # tensors that stack the experts of layer {i}: expert {e}
    mixed: str = ""  # Hugging Face's word for it, if there are experts


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
    return Layout(model_type, fixed, _LLAMA_OUTSIDE, inside, permuted=permuted, experts=experts, mixed=mixed)


def _qwen_moe() -> Layout:
    """Its router's shares sum to 1 in llama.cpp, whatever a file says."""
    fixed: HfConfig = dict(architectures=["Qwen3MoeForCausalLM"], hidden_act="silu", norm_topk_prob=True)
    inside = _LLAMA_INSIDE | {"ffn_gate_inp": "model.layers.{i}.mlp.gate"}
    experts = {name: f"model.layers.{{i}}.mlp.experts.{{e}}.{word}" for name, word in _QWEN_MOE.items()}
    return Layout("qwen3_moe", fixed, _LLAMA_OUTSIDE, inside, experts=experts, mixed="qwen3_moe")


def _gemma(model_type: str, architecture: str) -> Layout:
    """From Gemma 2 on each part has a norm before and one after."""
    layer = "model.layers.{i}"
    both = {
        "post_attention_norm": f"{layer}.post_attention_layernorm",
        "ffn_norm": f"{layer}.pre_feedforward_layernorm",
        "post_ffw_norm": f"{layer}.post_feedforward_layernorm",
    }
    inside = _LLAMA_INSIDE | ({} if model_type == "gemma" else both)
    activation = "gelu_pytorch_tanh"
    fixed = dict(architectures=[architecture], hidden_act=activation, hidden_activation=activation)
    return Layout(model_type, fixed, _LLAMA_OUTSIDE, inside, raised=r"norm\.weight$")


def _phi3() -> Layout:
    layer = "model.layers.{i}"
    fused = {"attn_qkv": f"{layer}.self_attn.qkv_proj", "ffn_up": f"{layer}.mlp.gate_up_proj"}
    apart = ("attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "ffn_gate")
    inside = {name: word for name, word in _LLAMA_INSIDE.items() if name not in apart} | fused
    fixed = dict(architectures=["Phi3ForCausalLM"], hidden_act="silu")
    return Layout("phi3", fixed, _LLAMA_OUTSIDE, inside)


def _deepseek() -> Layout:
    """V2 and V3 have one name in GGUF: how experts are scored tells which it is."""
    attention, think = "model.layers.{i}.self_attn", "model.layers.{i}.mlp"
    common = ("attn_norm", "attn_q", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    inside = {name: _LLAMA_INSIDE[name] for name in common} | {
        "attn_q_a": f"{attention}.q_a_proj",
        "attn_q_a_norm": f"{attention}.q_a_layernorm",
        "attn_q_b": f"{attention}.q_b_proj",
        "attn_kv_a_mqa": f"{attention}.kv_a_proj_with_mqa",
        "attn_kv_a_norm": f"{attention}.kv_a_layernorm",
        "attn_kv_b": f"{attention}.kv_b_proj",  # as old files have it
        "ffn_gate_inp": f"{think}.gate",
        "exp_probs_b.bias": f"{think}.gate.e_score_correction_bias",
        **{f"ffn_{part}_shexp": f"{think}.shared_experts.{part}_proj" for part in ("gate", "up", "down")},
    }
    experts = {name: f"{think}.experts.{{e}}.{word}" for name, word in _QWEN_MOE.items()}
    joined = dict.fromkeys(("attn_k_b", "attn_v_b"), f"{attention}.kv_b_proj")
    fixed = dict(hidden_act="silu")
    return Layout("deepseek2", fixed, _LLAMA_OUTSIDE, inside, joined=joined, experts=experts)


LAYOUTS = {
    "llama": _like_llama("llama", "LlamaForCausalLM", "attn_q", "attn_k"),
    "qwen2": _like_llama("qwen2", "Qwen2ForCausalLM"),
    "qwen3": _like_llama("qwen3", "Qwen3ForCausalLM"),
    "qwen3moe": _qwen_moe(),
    "gemma": _gemma("gemma", "GemmaForCausalLM"),
    "gemma2": _gemma("gemma2", "Gemma2ForCausalLM"),
    "gemma3": _gemma("gemma3_text", "Gemma3ForCausalLM"),
    "phi3": _phi3(),
    "deepseek2": _deepseek(),
    "gptneox": Layout(
        "gpt_neox",
        dict(architectures=["GPTNeoXForCausalLM"], hidden_act="gelu"),
        {"token_embd": "gpt_neox.embed_in", "output_norm": "gpt_neox.final_layer_norm", "output": "embed_out"},
        {
            "attn_norm": "gpt_neox.layers.{i}.input_layernorm",
            "attn_qkv": "gpt_neox.layers.{i}.attention.query_key_value",
            "attn_output": "gpt_neox.layers.{i}.attention.dense",
            "ffn_norm": "gpt_neox.layers.{i}.post_attention_layernorm",
            "ffn_up": "gpt_neox.layers.{i}.mlp.dense_h_to_4h",
            "ffn_down": "gpt_neox.layers.{i}.mlp.dense_4h_to_h",
        },
        woven=("attn_qkv",),
    ),
    "gpt2": Layout(
        "gpt2",
        dict(architectures=["GPT2LMHeadModel"], activation_function="gelu_new"),
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
