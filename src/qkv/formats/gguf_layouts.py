"""For each GGUF architecture: Hugging Face's name of each tensor, how GGUF stores it differently, and our names of settings."""

from dataclasses import dataclass, field

from .families.setting_table import HfConfig

# GGUF's name of a setting -> ours; the family's table maps ours to config.json's.
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
# Settings without effect on the output, such as the epsilon of norms that a model does not have.
HARMLESS = (
    *("vocab_size", "tensor_data_layout", "pooling_type", "rope.scaling.finetuned"),
    *("rope.scaling.original_context_length", "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"),
)


@dataclass(frozen=True)
class Layout:
    """Names and storage conventions of one architecture."""

    model_type: str
    fixed: HfConfig  # settings implied by the architecture
    outside: dict[str, str]  # names of tensors outside the layers
    inside: dict[str, str]  # names of tensors in layer {i}
    transposed: str = "$^"  # pattern of matrices that Hugging Face stores transposed
    permuted: tuple[str, ...] = ()  # matrices whose rows llama.cpp reorders for its rotary embedding
    fused: tuple[str, ...] = ()  # matrices with all of q, k and v in turn; Hugging Face interleaves them by head
    offset_norms: str = "$^"  # pattern of norms stored with 1 added
    kv_halves: dict[str, str] = field(default_factory=dict)  # key and value parts of a tensor -> the whole
    experts: dict[str, str] = field(default_factory=dict)  # stacks of experts in layer {i} -> expert {e}
    moe_type: str = ""  # Hugging Face's model_type if there are experts


def _under(prefix: str, **names: str) -> dict[str, str]:
    """Return {GGUF's name: prefix + Hugging Face's name}."""
    return {name: prefix + word for name, word in names.items()}


_LAYER = "model.layers.{i}."
_LLAMA_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LLAMA_INSIDE = (
    _under(_LAYER, attn_norm="input_layernorm", ffn_norm="post_attention_layernorm")
    | _under(f"{_LAYER}self_attn.", attn_q="q_proj", attn_k="k_proj", attn_v="v_proj", attn_output="o_proj")
    | _under(f"{_LAYER}self_attn.", attn_q_norm="q_norm", attn_k_norm="k_norm")
    | _under(f"{_LAYER}mlp.", ffn_gate="gate_proj", ffn_up="up_proj", ffn_down="down_proj")
)
_MIXTRAL = {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}
_QWEN_MOE = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}


def _like_llama(model_type: str, architecture: str, *permuted: str) -> Layout:
    fixed = dict(architectures=[architecture], hidden_act="silu")
    inside = _LLAMA_INSIDE | _under(f"{_LAYER}block_sparse_moe.", ffn_gate_inp="gate")
    experts = _under(f"{_LAYER}block_sparse_moe.experts.{{e}}.", **_MIXTRAL)
    moe_type = "mixtral" if model_type == "llama" else ""
    return Layout(model_type, fixed, _LLAMA_OUTSIDE, inside, permuted=permuted, experts=experts, moe_type=moe_type)


def _qwen_moe() -> Layout:
    """llama.cpp always normalises the router's weights to sum to 1."""
    fixed: HfConfig = dict(architectures=["Qwen3MoeForCausalLM"], hidden_act="silu", norm_topk_prob=True)
    inside = _LLAMA_INSIDE | _under(f"{_LAYER}mlp.", ffn_gate_inp="gate")
    experts = _under(f"{_LAYER}mlp.experts.{{e}}.", **_QWEN_MOE)
    return Layout("qwen3_moe", fixed, _LLAMA_OUTSIDE, inside, experts=experts, moe_type="qwen3_moe")


def _gemma(model_type: str, architecture: str) -> Layout:
    """Since Gemma 2 each part has a norm before and one after it."""
    norm_names = dict(
        post_attention_norm="post_attention", ffn_norm="pre_feedforward", post_ffw_norm="post_feedforward"
    )
    norms = {name: f"{word}_layernorm" for name, word in norm_names.items()}
    inside = _LLAMA_INSIDE | ({} if model_type == "gemma" else _under(_LAYER, **norms))
    activation = "gelu_pytorch_tanh"
    fixed = dict(architectures=[architecture], hidden_act=activation, hidden_activation=activation)
    return Layout(model_type, fixed, _LLAMA_OUTSIDE, inside, offset_norms=r"norm\.weight$")


def _phi3() -> Layout:
    fused = _under(_LAYER, attn_qkv="self_attn.qkv_proj", ffn_up="mlp.gate_up_proj")
    unfused = ("attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "ffn_gate")
    inside = {name: word for name, word in _LLAMA_INSIDE.items() if name not in unfused} | fused
    fixed = dict(architectures=["Phi3ForCausalLM"], hidden_act="silu")
    return Layout("phi3", fixed, _LLAMA_OUTSIDE, inside)


def _deepseek() -> Layout:
    """V2 and V3 have one name in GGUF; the scoring of experts tells them apart."""
    attention, mlp = f"{_LAYER}self_attn.", f"{_LAYER}mlp."
    common = ("attn_norm", "attn_q", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    inside = (
        {name: _LLAMA_INSIDE[name] for name in common}
        | _under(attention, attn_q_a="q_a_proj", attn_q_a_norm="q_a_layernorm", attn_q_b="q_b_proj")
        | _under(attention, attn_kv_a_mqa="kv_a_proj_with_mqa", attn_kv_a_norm="kv_a_layernorm")
        | _under(attention, attn_kv_b="kv_b_proj")  # in old files
        | _under(mlp, ffn_gate_inp="gate", **{"exp_probs_b.bias": "gate.e_score_correction_bias"})
        | {f"ffn_{part}_shexp": f"{mlp}shared_experts.{part}_proj" for part in ("gate", "up", "down")}
    )
    experts = _under(f"{mlp}experts.{{e}}.", **_QWEN_MOE)
    kv_halves = dict.fromkeys(("attn_k_b", "attn_v_b"), f"{attention}kv_b_proj")
    return Layout("deepseek2", dict(hidden_act="silu"), _LLAMA_OUTSIDE, inside, kv_halves=kv_halves, experts=experts)


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
        _under("gpt_neox.layers.{i}.", attn_norm="input_layernorm", ffn_norm="post_attention_layernorm")
        | _under("gpt_neox.layers.{i}.attention.", attn_qkv="query_key_value", attn_output="dense")
        | _under("gpt_neox.layers.{i}.mlp.", ffn_up="dense_h_to_4h", ffn_down="dense_4h_to_h"),
        fused=("attn_qkv",),
    ),
    "gpt2": Layout(
        "gpt2",
        dict(architectures=["GPT2LMHeadModel"], activation_function="gelu_new"),
        _under("transformer.", token_embd="wte", position_embd="wpe", output_norm="ln_f") | {"output": "lm_head"},
        _under("transformer.h.{i}.", attn_norm="ln_1", attn_qkv="attn.c_attn", attn_output="attn.c_proj")
        | _under("transformer.h.{i}.", ffn_norm="ln_2", ffn_up="mlp.c_fc", ffn_down="mlp.c_proj"),
        transposed=r"\.(c_attn|c_proj|c_fc)\.weight$",
    ),
    "bert": Layout(
        "bert",
        dict(architectures=["BertModel"], hidden_act="gelu", position_embedding_type="absolute"),
        _under("embeddings.", token_embd="word_embeddings", position_embd="position_embeddings")
        | _under("embeddings.", token_types="token_type_embeddings", token_embd_norm="LayerNorm"),
        _under("encoder.layer.{i}.attention.self.", attn_q="query", attn_k="key", attn_v="value")
        | _under("encoder.layer.{i}.attention.output.", attn_output="dense", attn_output_norm="LayerNorm")
        | _under("encoder.layer.{i}.", ffn_up="intermediate.dense", ffn_down="output.dense")
        | _under("encoder.layer.{i}.", layer_output_norm="output.LayerNorm"),
    ),
}
