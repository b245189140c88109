"""Small models of transformers with random weights, and how other programs write them: GGUF, CTranslate2 and ONNX
files.

The names come from the `gguf` package's own table, the order of the rows from llama.cpp's converter.
"""

import json
import math
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize, quantize
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

Type = gguf.GGMLQuantizationType
KINDS = {"f32": Type.F32, "f16": Type.F16, "q8_0": Type.Q8_0, "q4_0": Type.Q4_0, "q4_1": Type.Q4_1, "q5_1": Type.Q5_1}

LLAMA: dict[str, Any] = dict(
    vocab_size=67,
    hidden_size=96,
    intermediate_size=64,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=50,
    rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
    tie_word_embeddings=False,
)
GEMMA: dict[str, Any] = LLAMA | dict(head_dim=32, tie_word_embeddings=True)
PHI3: dict[str, Any] = LLAMA | dict(num_attention_heads=3, num_key_value_heads=1, sliding_window=9, pad_token_id=0)
NEOX: dict[str, Any] = dict(
    vocab_size=67,
    hidden_size=96,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=3,
    max_position_embeddings=50,
    layer_norm_eps=1e-4,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
)
DEEPSEEK: dict[str, Any] = LLAMA | dict(
    num_attention_heads=3,
    num_key_value_heads=3,
    qk_nope_head_dim=32,
    qk_rope_head_dim=16,
    v_head_dim=64,
    kv_lora_rank=32,
    q_lora_rank=64,
    n_routed_experts=6,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    n_shared_experts=2,
    first_k_dense_replace=1,
    routed_scaling_factor=1.7,
    n_group=3,
    topk_group=2,
    tie_word_embeddings=False,
)
MODELS: dict[str, Any] = {
    "gemma": lambda **more: transformers.GemmaForCausalLM(
        transformers.GemmaConfig(**GEMMA | dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0}) | more)
    ),
    "gemma2": lambda **more: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(
            **GEMMA
            | dict(query_pre_attn_scalar=32, sliding_window=7, attn_logit_softcapping=3.0, final_logit_softcapping=5.0)
            | dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
            | more
        )
    ),
    "gemma3_text": lambda **more: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(
            **GEMMA
            | dict(query_pre_attn_scalar=32, sliding_window=7, final_logit_softcapping=5.0, num_hidden_layers=7)
            | dict(
                rope_parameters={
                    "full_attention": {"rope_type": "linear", "rope_theta": 9000.0, "factor": 3.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 700.0},
                }
            )
            | more
        )
    ),
    "phi3": lambda **more: transformers.Phi3ForCausalLM(transformers.Phi3Config(**PHI3 | more)),
    "gpt_neox": lambda **more: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**NEOX | more)),
    "deepseek_v2": lambda **more: transformers.DeepseekV2ForCausalLM(
        transformers.DeepseekV2Config(**DEEPSEEK | dict(topk_method="group_limited_greedy") | more)
    ),
    "deepseek_v3": lambda **more: transformers.DeepseekV3ForCausalLM(
        transformers.DeepseekV3Config(**DEEPSEEK | dict(norm_topk_prob=True) | more)
    ),
    "llama": lambda **more: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA | more)),
    "qwen2": lambda **more: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**LLAMA | more)),
    "qwen3": lambda **more: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**LLAMA | dict(head_dim=32) | more)),
    "mixtral": lambda **more: transformers.MixtralForCausalLM(
        transformers.MixtralConfig(**LLAMA | dict(num_local_experts=5, num_experts_per_tok=3) | more)
    ),
    "qwen3_moe": lambda **more: transformers.Qwen3MoeForCausalLM(
        transformers.Qwen3MoeConfig(
            **LLAMA
            | dict(head_dim=32, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True)
            | more
        )
    ),
    "gpt2": lambda **more: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            **dict(vocab_size=71, n_positions=41, n_embd=96, n_layer=2, n_head=3, n_inner=64, eos_token_id=0) | more
        )
    ),
    "bert": lambda **more: transformers.BertModel(
        transformers.BertConfig(
            **dict(
                vocab_size=73,
                hidden_size=96,
                num_hidden_layers=2,
                num_attention_heads=3,
                intermediate_size=64,
                max_position_embeddings=43,
            )
            | more
        ),
        add_pooling_layer=False,
    ),
    "marian": lambda **more: transformers.MarianMTModel(
        transformers.MarianConfig(
            **dict(
                vocab_size=60,
                d_model=24,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=3,
                decoder_attention_heads=3,
                encoder_ffn_dim=40,
                decoder_ffn_dim=40,
                max_position_embeddings=64,
                activation_function="swish",
                scale_embedding=True,
                static_position_embeddings=True,
                pad_token_id=59,
                decoder_start_token_id=59,
                eos_token_id=0,
                forced_eos_token_id=0,
            )
            | more
        )
    ),
}


def hf_model(name: str, seed: int = 0, **more: Any) -> Any:
    """A model in which no weight is what it was born as."""
    torch.manual_seed(seed)
    model = MODELS[name](**more).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "embed_positions" not in parameter_name:
                parameter.add_(torch.randn_like(parameter) * (0.15 if parameter.ndim == 2 else 0.1))
        for buffer_name, buffer in model.named_buffers():
            if "e_score_correction_bias" in buffer_name:
                buffer.copy_(torch.randn_like(buffer) * 0.1)
        if name == "marian":
            model.model.shared.weight[-1] = 0
            model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
            model.final_logits_bias[0, -1] = 0
    return model


def rounded(model: Any, kind: str) -> Any:
    """The same model with the weights that a file of this kind keeps of it."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if _split(model, name):
                halves = (_dequantised(*_quantised(half, name, kind)) for half in halved(model, parameter.numpy()))
                keys, values = map(torch.from_numpy, halves)
                parameter.copy_(torch.cat([keys.mT, values], 1).reshape(parameter.shape))
                continue
            raised = float(_raised(model, name))
            stored = torch.from_numpy(_dequantised(*_quantised(_as_stored(model, name, parameter), name, kind)))
            parameter.copy_((stored.T if _transposed(model, name) else stored) - raised)
    return model


def _split(model: Any, name: str) -> bool:
    return name.endswith("kv_b_proj.weight")


def halved(model: Any, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What expands DeepSeek's latent, as llama.cpp's converter cuts it: keys turned over, values, both head by head."""
    config = model.config
    heads = array.reshape(config.num_attention_heads, config.qk_nope_head_dim + config.v_head_dim, -1)
    keys, values = np.split(heads, [config.qk_nope_head_dim], axis=1)
    return np.ascontiguousarray(keys.swapaxes(1, 2)), np.ascontiguousarray(values)


def _raised(model: Any, name: str) -> bool:
    return model.config.model_type.startswith("gemma") and name.endswith("norm.weight")


def _transposed(model: Any, name: str) -> bool:
    return model.config.model_type == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))


def _as_stored(model: Any, name: str, tensor: torch.Tensor) -> np.ndarray:
    array = tensor.detach().numpy() + np.float32(_raised(model, name))
    return np.ascontiguousarray(array.T if _transposed(model, name) else array)


def _quantised(array: np.ndarray, name: str, kind: str) -> tuple[np.ndarray, Any, tuple[int, ...]]:
    word = KINDS[kind] if array.ndim > 1 and "position" not in name and "wpe" not in name else Type.F32
    return quantize(array, word), word, array.shape


def _dequantised(raw: np.ndarray, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(dequantize(raw, kind), dtype=np.float32).reshape(shape)


def permute(array: np.ndarray, heads: int) -> np.ndarray:
    """As llama.cpp's converter does it."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def unweave(array: np.ndarray, heads: int) -> np.ndarray:
    """GPT-NeoX's rows, q, k and v of each head in turn, as llama.cpp's converter lays them: all of q, all of k, all of v."""
    woven = array.reshape(heads, 3, -1, *array.shape[1:])
    return np.concatenate([woven[:, i].reshape(-1, *array.shape[1:]) for i in range(3)])


# What llama.cpp calls it, where that is another word than transformers'.
ARCHITECTURES = {
    **dict(mixtral="llama", mistral="llama", qwen3_moe="qwen3moe", gemma3_text="gemma3", gpt_neox="gptneox"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), "deepseek2"),
}


def _write_gemma(writer: Any, config: Any, architecture: str) -> None:
    """As its converter: the cap on scores is Gemma 2's, the two bases Gemma 3's."""
    writer.add_sliding_window(config.sliding_window)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        return
    near, far = (config.rope_parameters[f"{name}_attention"] for name in ("sliding", "full"))
    if near["rope_theta"] != 10000.0:
        writer.add_rope_freq_base_swa(near["rope_theta"])
    if far["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(far["factor"])


def _write_phi3(writer: Any, config: Any) -> None:
    """As its converter: no word for LongRoPE, which is told by its factors; 0 for no window."""
    rope = config.rope_parameters
    writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
    turned = int(rope.get("partial_rotary_factor", 1.0) * config.hidden_size) // config.num_attention_heads
    writer.add_rope_dimension_count(turned)
    writer.add_sliding_window(config.sliding_window or 0)
    if rope["rope_type"] == "longrope":
        stretch = config.max_position_embeddings / config.original_max_position_embeddings
        writer.add_rope_scaling_attn_factors(
            math.sqrt(1 + math.log(stretch) / math.log(config.original_max_position_embeddings))
        )
        for length in ("long", "short"):
            factors = np.array(rope[f"{length}_factor"], dtype=np.float32)
            writer.add_tensor(f"rope_factors_{length}.weight", factors)


def _write_deepseek(writer: Any, config: Any, legacy: bool) -> None:
    """As its converter: heads are counted as one latent's, their own sizes said apart; before that, as they are."""
    keys, rope = config.qk_nope_head_dim + config.qk_rope_head_dim, config.rope_parameters
    writer.add_head_count_kv(config.num_attention_heads if legacy else 1)
    writer.add_key_length(keys if legacy else config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.v_head_dim if legacy else config.kv_lora_rank)
    if not legacy:
        writer.add_key_length_mla(keys)
        writer.add_value_length_mla(config.v_head_dim)
    writer.add_vocab_size(config.vocab_size)
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)
    if config.norm_topk_prob:
        writer.add_expert_weights_norm(True)
    third = config.model_type == "deepseek_v3"
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if third else gguf.ExpertGatingFuncType.SOFTMAX)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def write_gguf(
    model: Any,
    file: Path,
    kind: str = "f32",
    extra: Any = None,
    arch: str | None = None,
    tokens: Any = None,
    legacy: bool = False,
) -> Path:
    """The model as a GGUF file; `extra(writer)` adds to it; `legacy` files have DeepSeek's kv_b in one."""
    config = model.config
    layers = config.num_hidden_layers
    architecture = ARCHITECTURES.get(config.model_type, config.model_type)
    names = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[architecture], layers)
    writer = gguf.GGUFWriter(file, ARCHITECTURES.get(arch, arch) if arch else architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config.n_inner if config.model_type == "gpt2" else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type in ("gpt2", "bert", "gpt_neox"):
        writer.add_layer_norm_eps(getattr(config, "layer_norm_eps", None) or config.layer_norm_epsilon)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        far = config.rope_parameters.get("full_attention", config.rope_parameters)
        if architecture not in ("gemma", "gemma2"):  # whose base nobody writes
            writer.add_rope_freq_base(far["rope_theta"])
    if architecture == "gptneox":
        turned = config.rope_parameters["partial_rotary_factor"] * (config.hidden_size // config.num_attention_heads)
        writer.add_rope_dimension_count(int(turned))
        writer.add_parallel_residual(config.use_parallel_residual)
    elif architecture == "deepseek2":
        _write_deepseek(writer, config, legacy)
    elif config.model_type not in ("gpt2", "bert"):
        writer.add_head_count_kv(config.num_key_value_heads)
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        if width * config.num_attention_heads != config.hidden_size or architecture.startswith("gemma"):
            writer.add_key_length(width)
            writer.add_value_length(width)
    if architecture in ("gemma2", "gemma3"):
        _write_gemma(writer, config, architecture)
    if architecture == "phi3":
        _write_phi3(writer, config)
    if architecture in ("llama", "qwen3moe") and hasattr(config, "num_experts_per_tok"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if architecture == "qwen3moe":
            writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_tokenizer_model("bert" if config.model_type == "bert" else "gpt2")
    writer.add_token_list(tokens or ["t", "1", *(f"t{i - 1}" for i in range(2, config.vocab_size))])
    writer.add_token_types([1] * config.vocab_size)
    writer.add_token_merges([] if tokens else ["t 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if extra is not None:
        extra(writer)
    balances = [(name, buffer) for name, buffer in model.named_buffers() if "e_score_correction_bias" in name]
    for name, parameter in [*model.named_parameters(), *balances]:
        array = _as_stored(model, name, parameter)
        if _split(model, name) and not legacy:
            for letter, half in zip("kv", halved(model, array), strict=True):
                raw, word, _ = _quantised(half, name, kind)
                writer.add_tensor(f"blk.{name.split('.')[2]}.attn_{letter}_b.weight", raw, raw_dtype=word)
            continue
        if ".experts." in name:
            halves = ("gate", "up") if "gate_up" in name else ("down",)
            for half, part in zip(halves, np.split(array, len(halves), axis=1), strict=True):
                raw = quantize(np.ascontiguousarray(part), KINDS[kind])
                writer.add_tensor(f"blk.{name.split('.')[2]}.ffn_{half}_exps.weight", raw, raw_dtype=KINDS[kind])
            continue
        if architecture == "llama" and ".q_proj" in name:
            array = permute(array, config.num_attention_heads)
        if architecture == "llama" and ".k_proj" in name:
            array = permute(array, config.num_key_value_heads)
        if ".query_key_value." in name:
            array = unweave(array, config.num_attention_heads)
        raw, word, _ = _quantised(array, name, kind)
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        if name.endswith("mlp.gate.weight"):
            writer.add_tensor(f"blk.{name.split('.')[2]}.ffn_gate_inp.weight", raw, raw_dtype=word)
            continue
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), raw, raw_dtype=word)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def write_ctranslate2(model: Any, folder: Path, kind: str = "f32", version: int = 6, **more: Any) -> Path:
    """A Marian as CTranslate2 keeps it: q, k and v stacked, the padding row left out, matrices in `kind`."""
    config, state = model.config, model.state_dict()
    tensors: dict[str, np.ndarray] = {}

    def linear(name: str, *parts: str) -> None:
        matrix = np.concatenate([state[f"{part}.weight"].numpy() for part in parts])
        keep(f"{name}/weight", matrix)
        tensors[f"{name}/bias"] = np.concatenate([state[f"{part}.bias"].numpy() for part in parts])

    def keep(name: str, matrix: np.ndarray) -> None:
        if kind == "int8":
            scale = 127 / np.abs(matrix).max(axis=1)
            tensors[name + "_scale"] = scale.astype(np.float32)
            tensors[name] = np.rint(matrix * scale[:, None]).astype(np.int8)
        elif kind == "int16":
            scale = np.float32(1000 / np.abs(matrix).max())
            tensors[name + "_scale"] = np.array(scale)
            tensors[name] = np.rint(matrix * scale).astype(np.int16)
        else:
            tensors[name] = matrix.astype({"f32": np.float32, "f16": np.float16}[kind])

    def norm(name: str, part: str) -> None:
        tensors[f"{name}/layer_norm/gamma"] = state[f"{part}.weight"].numpy()
        tensors[f"{name}/layer_norm/beta"] = state[f"{part}.bias"].numpy()

    for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(count):
            ours, theirs = f"{side}/layer_{i}", f"model.{side}.layers.{i}"
            attn = f"{theirs}.self_attn"
            linear(f"{ours}/self_attention/linear_0", f"{attn}.q_proj", f"{attn}.k_proj", f"{attn}.v_proj")
            linear(f"{ours}/self_attention/linear_1", f"{attn}.out_proj")
            norm(f"{ours}/self_attention", f"{attn}_layer_norm")
            if side == "decoder":
                attn = f"{theirs}.encoder_attn"
                linear(f"{ours}/attention/linear_0", f"{attn}.q_proj")
                linear(f"{ours}/attention/linear_1", f"{attn}.k_proj", f"{attn}.v_proj")
                linear(f"{ours}/attention/linear_2", f"{attn}.out_proj")
                norm(f"{ours}/attention", f"{attn}_layer_norm")
            linear(f"{ours}/ffn/linear_0", f"{theirs}.fc1")
            linear(f"{ours}/ffn/linear_1", f"{theirs}.fc2")
            norm(f"{ours}/ffn", f"{theirs}.final_layer_norm")
        for name, value in (("num_heads", np.int16(3)), ("pre_norm", np.int8(0)), ("scale_embeddings", np.int8(1))):
            tensors[f"{side}/{name}"] = np.array(value)
        tensors[f"{side}/activation"] = np.array(np.int8(2))
    keep("decoder/embeddings/weight", state["model.shared.weight"].numpy()[:-1])
    tensors["decoder/projection/bias"] = state["final_logits_bias"].numpy()[0, :-1]
    tensors["decoder/start_from_zero_embedding"] = np.array(np.int8(1))
    half = config.d_model // 2
    angles = np.arange(64)[:, None] / 10000.0 ** (2 * np.arange(half) / config.d_model)
    tensors["decoder/position_encodings/encodings"] = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(
        np.float32
    )
    tensors |= {name: np.asarray(value) for name, value in more.items()}
    words = {np.dtype(t): i for i, t in enumerate((np.float32, np.int8, np.int16, np.int32, np.float16))}
    raw = struct.pack("<I", version) + _text("TransformerSpec") + struct.pack("<II", 7, len(tensors))
    for name, array in sorted(tensors.items()):
        raw += _text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        if version >= 4:
            raw += struct.pack("<BI", words[array.dtype], array.nbytes)
        else:
            raw += struct.pack("<BI", array.itemsize, array.size)
        raw += array.tobytes()
    aliases = {
        "decoder/projection/weight": "decoder/embeddings/weight",
        "encoder/embeddings_0/weight": "decoder/embeddings/weight",
        "encoder/position_encodings/encodings": "decoder/position_encodings/encodings",
    }
    raw += struct.pack("<I", len(aliases)) + b"".join(_text(a) + _text(b) for a, b in aliases.items())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_bytes(raw)
    words_list = ["</s>", "<unk>", *(f"▁w{i}" for i in range(config.vocab_size - 3))]
    (folder / "shared_vocabulary.json").write_text(json.dumps(words_list), encoding="utf-8")
    return folder


def _varint(number: int) -> bytes:
    raw = b""
    number &= (1 << 64) - 1
    while number > 127:
        raw, number = raw + bytes([number & 127 | 128]), number >> 7
    return raw + bytes([number])


def _field(number: int, value: int | str | bytes) -> bytes:
    """One field of protobuf: an integer, or anything that has a length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def onnx_tensor(name: str, array: np.ndarray, inline: bool = False) -> bytes:
    """A TensorProto; `few` numbers are written one by one, as the quantiser of onnxruntime does with zero points."""
    kinds = {np.dtype(t): i for t, i in ((np.float32, 1), (np.uint8, 2), (np.int8, 3), (np.int64, 7), (np.float16, 10))}
    raw = b"".join(_field(1, side) for side in array.shape) + _field(2, kinds[array.dtype]) + _field(8, name)
    if not inline:
        return raw + _field(9, array.tobytes())
    if array.dtype == np.float32:
        return raw + _field(4, array.tobytes())
    return raw + _field(5, b"".join(_varint(int(number)) for number in array.flatten()))


def write_onnx(model: Any, folder: Path, kind: str = "int8", more: bytes = b"", node: bytes = b"") -> Path:
    """A folder as models for the browser have it: matrices turned over and without their names, 8 bits if wanted.

    Kinds: f32, f16, int8 (one scale for a matrix), uint8, channels (int8 with a scale for each column).
    """
    tensors, nodes = [onnx_tensor("positions", np.arange(3))], [node] if node else []

    def keep(name: str, matrix: np.ndarray) -> None:
        if kind in ("f32", "f16"):
            tensors.append(onnx_tensor(name, matrix.astype({"f32": np.float32, "f16": np.float16}[kind])))
            return
        unsigned = kind == "uint8" or "embed" in name  # which are looked up, not multiplied
        each = matrix.reshape(-1, matrix.shape[-1]) if kind == "channels" else matrix.reshape(-1, 1)
        scale = ((each.max(0) - each.min(0)) / 255).astype(np.float32)
        zero = np.rint(-each.min(0) / scale) - (0 if unsigned else 128)
        if kind != "channels":
            scale, zero = scale[0], zero[0]
        low, high, dtype = (0, 255, np.uint8) if unsigned else (-128, 127, np.int8)
        rounded = np.clip(np.rint(matrix / scale + zero), low, high).astype(dtype)
        tensors.append(onnx_tensor(f"{name}_quantized", rounded))
        tensors.append(onnx_tensor(f"{name}_scale", np.asarray(scale, np.float32), inline=True))
        tensors.append(onnx_tensor(f"{name}_zero_point", np.asarray(zero).astype(dtype), inline=True))

    integer = kind not in ("f32", "f16")
    for count, (name, tensor) in enumerate({**model.state_dict(), "lm_head.weight": model.lm_head.weight}.items()):
        if tensor.ndim == 2 and "embed" not in name:
            own = f"onnx::MatMul_{count}"
            keep(own, np.ascontiguousarray(tensor.detach().numpy().T))
            node_name = "/" + name.removesuffix(".weight").replace(".", "/").replace("layers/", "layers.") + "/MatMul"
            used = _field(1, "x") + _field(1, own + "_quantized" * integer) + _field(3, node_name + "_quant" * integer)
            nodes.append(used + _field(4, "MatMulInteger" if integer else "MatMul"))
        elif tensor.ndim == 2:
            keep(name, tensor.numpy())
        else:
            tensors.append(onnx_tensor(name, tensor.numpy()))
    graph = b"".join(_field(1, each) for each in nodes) + b"".join(_field(5, each) for each in tensors) + more
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    name = "model_quantized.onnx" if integer else "model.onnx"
    (folder / "onnx" / name).write_bytes(_field(1, 8) + _field(2, "pytorch") + _field(7, graph))
    model.config.save_pretrained(folder)
    return folder


def llama3_divisors(config: Any) -> np.ndarray:
    """What llama.cpp's converter writes as rope_freqs for LLaMA 3's scaling."""
    rope = config.rope_parameters
    base, dim = rope["rope_theta"], config.head_dim
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    context = rope["original_max_position_embeddings"]
    divisors = []
    for i in range(0, dim, 2):
        wave = 2 * math.pi * base ** (i / dim)
        if wave < context / high:
            divisors.append(1.0)
        elif wave > context / low:
            divisors.append(factor)
        else:
            smooth = (context / wave - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)
