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
MODELS: dict[str, Any] = {
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


def made(name: str, seed: int = 0, **more: Any) -> Any:
    """A model in which no weight is what it was born as."""
    torch.manual_seed(seed)
    model = MODELS[name](**more).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "embed_positions" not in parameter_name:
                parameter.add_(torch.randn_like(parameter) * (0.15 if parameter.ndim == 2 else 0.1))
        if name == "marian":
            model.model.shared.weight[-1] = 0
            model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
            model.final_logits_bias[0, -1] = 0
    return model


def rounded(model: Any, kind: str) -> Any:
    """The same model with the weights that a file of this kind keeps of it."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            kept = torch.from_numpy(_dequantised(*_quantised(_as_kept(model, name, parameter), name, kind)))
            parameter.copy_(kept.T if _transposed(model, name) else kept)
    return model


def _transposed(model: Any, name: str) -> bool:
    return model.config.model_type == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))


def _as_kept(model: Any, name: str, tensor: torch.Tensor) -> np.ndarray:
    array = tensor.detach().numpy()
    return np.ascontiguousarray(array.T if _transposed(model, name) else array)


def _quantised(array: np.ndarray, name: str, kind: str) -> tuple[np.ndarray, Any, tuple[int, ...]]:
    word = KINDS[kind] if array.ndim > 1 and "position" not in name and "wpe" not in name else Type.F32
    return quantize(array, word), word, array.shape


def _dequantised(raw: np.ndarray, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(dequantize(raw, kind), dtype=np.float32).reshape(shape)


def permute(array: np.ndarray, heads: int) -> np.ndarray:
    """As llama.cpp's converter does it."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def write_gguf(
    model: Any, file: Path, kind: str = "f32", extra: Any = None, arch: str | None = None, tokens: Any = None
) -> Path:
    """The model as a GGUF file; `extra(writer)` adds to it."""
    config = model.config
    arch = arch or config.model_type
    layers = config.num_hidden_layers
    arch = {"mixtral": "llama", "qwen3_moe": "qwen3moe"}.get(arch, arch)
    known = {"mixtral": "llama", "qwen3_moe": "qwen3moe"}.get(config.model_type, config.model_type)
    names = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[known], layers)
    writer = gguf.GGUFWriter(file, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config.n_inner if config.model_type == "gpt2" else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type in ("gpt2", "bert"):
        writer.add_layer_norm_eps(getattr(config, "layer_norm_eps", None) or config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        if width * config.num_attention_heads != config.hidden_size:
            writer.add_key_length(width)
            writer.add_value_length(width)
    if hasattr(config, "num_experts_per_tok"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if known == "qwen3moe":
            writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_tokenizer_model("bert" if config.model_type == "bert" else "gpt2")
    writer.add_token_list(tokens or ["t", "1", *(f"t{i - 1}" for i in range(2, config.vocab_size))])
    writer.add_token_types([1] * config.vocab_size)
    writer.add_token_merges([] if tokens else ["t 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if extra is not None:
        extra(writer)
    for name, parameter in model.named_parameters():
        array = _as_kept(model, name, parameter)
        if ".experts." in name:
            halves = ("gate", "up") if "gate_up" in name else ("down",)
            for half, part in zip(halves, np.split(array, len(halves), axis=1), strict=True):
                raw = quantize(np.ascontiguousarray(part), KINDS[kind])
                writer.add_tensor(f"blk.{name.split('.')[2]}.ffn_{half}_exps.weight", raw, raw_dtype=KINDS[kind])
            continue
        if known == "llama" and ".q_proj" in name:
            array = permute(array, config.num_attention_heads)
        if known == "llama" and ".k_proj" in name:
            array = permute(array, config.num_key_value_heads)
        raw, word, _ = _quantised(array, name, kind)
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


def onnx_tensor(name: str, array: np.ndarray, few: bool = False) -> bytes:
    """A TensorProto; `few` numbers are written one by one, as the quantiser of onnxruntime does with zero points."""
    kinds = {np.dtype(t): i for t, i in ((np.float32, 1), (np.uint8, 2), (np.int8, 3), (np.int64, 7), (np.float16, 10))}
    raw = b"".join(_field(1, side) for side in array.shape) + _field(2, kinds[array.dtype]) + _field(8, name)
    if not few:
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
        tensors.append(onnx_tensor(f"{name}_scale", np.asarray(scale, np.float32), few=True))
        tensors.append(onnx_tensor(f"{name}_zero_point", np.asarray(zero).astype(dtype), few=True))

    integer = kind not in ("f32", "f16")
    for count, (name, tensor) in enumerate({**model.state_dict(), "lm_head.weight": model.lm_head.weight}.items()):
        if tensor.ndim == 2 and "embed" not in name:
            own = f"onnx::MatMul_{count}"
            keep(own, np.ascontiguousarray(tensor.detach().numpy().T))
            place = "/" + name.removesuffix(".weight").replace(".", "/").replace("layers/", "layers.") + "/MatMul"
            used = _field(1, "x") + _field(1, own + "_quantized" * integer) + _field(3, place + "_quant" * integer)
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
    told = config.rope_parameters
    base, dim = told["rope_theta"], config.head_dim
    factor, low, high = told["factor"], told["low_freq_factor"], told["high_freq_factor"]
    context = told["original_max_position_embeddings"]
    found = []
    for i in range(0, dim, 2):
        wave = 2 * math.pi * base ** (i / dim)
        if wave < context / high:
            found.append(1.0)
        elif wave > context / low:
            found.append(factor)
        else:
            smooth = (context / wave - low) / (high - low)
            found.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(found, dtype=np.float32)
