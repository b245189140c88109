"""Convert the settings of a GGUF file to those of config.json: sizes, experts, rotary angles.

Settings that are read are recorded, so that any other can be refused: a setting that is not obeyed must not be ignored.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..i18n import Problem
from .binary_reader import broken
from .families import FAMILIES
from .families.setting_table import HfConfig, Value
from .gguf_layouts import HARMLESS, SETTINGS, Layout

SOFTMAX, SIGMOID = 1, 2  # GGUF's expert_gating_func
MAX_LAYERS = 1 << 12
LONG_ROPE = ("rope_factors_short.weight", "rope_factors_long.weight")


@dataclass(frozen=True)
class GgufTensor:
    """A tensor in the file: its shape in PyTorch's order, its type, and the span of its bytes."""

    shape: tuple[int, ...]
    type: int
    begin: int
    end: int


GgufTensors = Mapping[str, GgufTensor]


@dataclass(frozen=True)
class GgufSettings:
    """The settings of one architecture."""

    file: Path
    raw: np.ndarray
    entries: dict[str, Value]
    architecture: str
    used: set[str] = field(default_factory=set)  # names of the settings that were read

    def get(self, word: str, default: Value = None) -> Value:
        """Return a scalar, or the default. An array of equal values counts as one value."""
        self.used.add(word)
        key = f"{self.architecture}.{word}"
        value = self.entries.get(key, default)
        if isinstance(value, np.ndarray) and len(value) and (value == value[0]).all():
            value = value[0].item()
        self.require(word, value, value is None or isinstance(value, bool | int | float | str))
        self.require(word, value, not isinstance(value, float) or math.isfinite(value))
        return value

    def number(self, word: str) -> Value:
        """Return a required number."""
        value = self.get(word)
        self.require(word, value, isinstance(value, int | float) and not isinstance(value, bool))
        return value

    def count(self, word: str, default: int | None = None) -> int:
        """Return a non-negative integer, required if there is no default."""
        value = self.get(word, default)
        self.require(word, value, type(value) is int and value >= 0)
        return value

    def require(self, word: str, value: Value, fits: bool) -> None:
        """Raise Problem for an unusable value unless `fits`."""
        if not fits:
            raise Problem(
                "{file} says {key} = {value}, with which qkv can't build the model",
                file=self.file,
                key=f"{self.architecture}.{word}",
                value=str(value)[:80],
            )


def refuse_unused(settings: GgufSettings, hf_config: HfConfig) -> None:
    """Raise Problem for a setting that was not read, unless it is off or has a neutral value.

    llama.cpp defines over a hundred settings, and files may contain others.
    """
    heads = settings.number("attention.head_count")
    width = hf_config.get("head_dim") or settings.number("embedding_length") / max(heads, 1)
    neutral: dict[str, tuple[Value, ...]] = {
        "attention.causal": (settings.architecture != "bert",),
        "attention.scale": (max(width, 1) ** -0.5,),
        "attention.head_count_kv": (heads,),
        "rope.scaling.yarn_ext_factor": (-1.0, 1.0),
        **dict.fromkeys(("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"), (1.0,)),
        **dict.fromkeys(("logit_scale", "residual_scale", "embedding_scale"), (1.0,)),
    }
    for key in settings.entries:
        arch, _, word = key.partition(".")
        if arch != settings.architecture or word in settings.used or word in HARMLESS:
            continue
        value = settings.entries[key] if isinstance(settings.entries[key], list) else settings.get(word)
        is_off = not value and word != "attention.causal"
        values = [v for v in neutral.get(word, ()) if type(v) is type(value)]
        is_neutral = any(math.isclose(value, v, rel_tol=1e-6) for v in values)
        covers_context = (
            word == "attention.sliding_window" and type(value) is int and value >= settings.number("context_length")
        )
        if not (is_off or covers_context or is_neutral):
            raise Problem(
                "{file} says {key} = {value}, which qkv doesn't support: without it, the model would compute "
                "something else",
                file=settings.file,
                key=key[:80],
                value=str(value)[:80],
            )


def _family_names(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield GGUF's name and config.json's name of each setting in the family's table."""
    member = "deepseek_v2" if layout.model_type == "deepseek2" else layout.model_type
    family = next(family for family in FAMILIES if member in family.types)
    names = dict(family.names(member))
    idle = (
        "attention.layer_norm_rms_epsilon" if family.supported["norm"] == ("layer",) else "attention.layer_norm_epsilon"
    )
    return ((word, names[ours]) for word, ours in SETTINGS.items() if ours in names and word != idle)


def config_of(settings: GgufSettings, layout: Layout, pieces: GgufTensors) -> HfConfig:
    """Return config.json as a dict."""
    file, embedding = settings.file, pieces.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise broken("it has no token_embd.weight, the word vectors", file)
    hf_config: HfConfig = {"model_type": layout.model_type, **layout.fixed, "vocab_size": embedding.shape[0]}
    hf_config |= {word: settings.number(name) for name, word in _family_names(layout)}
    hf_config["tie_word_embeddings"] = layout.model_type == "bert" or "output.weight" not in pieces
    for role, name in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
        token = settings.entries.get(f"tokenizer.ggml.{name}_token_id")
        hf_config[f"{role}_token_id"] = token if isinstance(token, int) else None
    hf_config |= {} if layout.model_type == "deepseek2" else _experts(settings, layout)
    read = READERS.get(layout.model_type)  # GPT-2 has no reader
    return hf_config | read(settings, pieces, hf_config) if read else hf_config


def _bert(settings: GgufSettings, pieces: GgufTensors, hf_config: HfConfig) -> HfConfig:
    types = pieces.get("token_types.weight")
    return {"type_vocab_size": types.shape[0] if types else 0}


def _llama(settings: GgufSettings, pieces: GgufTensors, hf_config: HfConfig) -> HfConfig:
    """LLaMA and relatives; with a window it is a Mistral."""
    sizes = _full_rotary_heads(settings, pieces, hf_config)
    kind = hf_config["model_type"]
    if kind not in ("llama", "mixtral"):
        return sizes
    window = settings.get("attention.sliding_window")
    windowed: HfConfig = {"sliding_window": window} if window else {}
    if kind == "mixtral":
        return sizes | windowed
    sizes |= {"attention_bias": "blk.0.attn_q.bias" in pieces, "mlp_bias": "blk.0.ffn_gate.bias" in pieces}
    return sizes | windowed | ({"model_type": "mistral", "architectures": ["MistralForCausalLM"]} if window else {})


def _gemma(settings: GgufSettings, pieces: GgufTensors, hf_config: HfConfig) -> HfConfig:
    """Softcaps, windows and the scale of scores, with llama.cpp's defaults."""
    sizes = _full_rotary_heads(settings, pieces, hf_config)
    kind, layers = hf_config["model_type"], settings.count("block_count")
    if kind == "gemma":
        return sizes
    is_gemma2 = kind == "gemma2"
    is_largest = layers == (46 if is_gemma2 else 62)  # the 27B model, which has another scale of scores
    window = settings.count("attention.sliding_window", 4096 if is_gemma2 else 0)
    every = settings.count("attention.sliding_window_pattern", 2 if is_gemma2 else 6)
    settings.require("attention.sliding_window_pattern", every, every > 0)
    has_window = [bool(window and (i + 1) % every) for i in range(min(layers, MAX_LAYERS))]
    window_settings = dict(
        query_pre_attn_scalar=hf_config["hidden_size"] // hf_config["num_attention_heads"]
        if is_largest
        else sizes["head_dim"],
        attn_logit_softcapping=settings.get("attn_logit_softcapping", 50.0) or None if is_gemma2 else None,
        final_logit_softcapping=settings.get("final_logit_softcapping", 30.0 if is_gemma2 else None) or None,
        sliding_window=window or None,
        layer_types=["sliding_attention" if windowed else "full_attention" for windowed in has_window],
    )
    if not is_gemma2:  # layers with a window have another base and no scaling
        window_settings["rope_local_base_freq"] = settings.get("rope.freq_base_swa", 10000.0)
        del sizes["rope_parameters"]
    return sizes | window_settings


def _phi3(settings: GgufSettings, pieces: GgufTensors, hf_config: HfConfig) -> HfConfig:
    """Partial rotary. transformers obeys the window, although llama.cpp disables it."""
    sizes = _heads(settings, hf_config)
    rope_width = settings.count("rope.dimension_count", sizes["head_dim"])
    sizes |= _rotary(settings, pieces, rope_width)
    original = (sizes["rope_scaling"] or {}).get(
        "original_max_position_embeddings", hf_config["max_position_embeddings"]
    )
    return sizes | dict(
        sliding_window=settings.count("attention.sliding_window", 0) or None,
        partial_rotary_factor=_share(rope_width, sizes["head_dim"]),
        original_max_position_embeddings=original,
    )


def _gpt_neox(settings: GgufSettings, pieces: GgufTensors, hf_config: HfConfig) -> HfConfig:
    """Partial rotary, and as many key heads as query heads."""
    sizes = _heads(settings, hf_config)
    for word, value, expected in (
        ("attention.head_count_kv", sizes["num_key_value_heads"], hf_config["num_attention_heads"]),
        ("attention.key_length", sizes["head_dim"], hf_config["hidden_size"] // hf_config["num_attention_heads"]),
    ):
        settings.require(word, value, value == expected)
    rope_width = settings.count("rope.dimension_count", sizes["head_dim"])
    return _rotary(settings, pieces, rope_width) | dict(
        rotary_pct=_share(rope_width, sizes["head_dim"]),
        use_parallel_residual=bool(settings.get("use_parallel_residual", True)),
        attention_bias="blk.0.attn_qkv.bias" in pieces,
    )


def _deepseek(settings: GgufSettings, pieces: GgufTensors, hf_config: HfConfig) -> HfConfig:
    """Latent attention and experts. V3 scores experts by sigmoid, V2 by softmax."""
    heads, rank = settings.count("attention.head_count"), settings.count("attention.kv_lora_rank")
    rope_width, gating = settings.count("rope.dimension_count"), settings.get("expert_gating_func", SOFTMAX) or SOFTMAX
    settings.require("expert_gating_func", gating, gating in (SOFTMAX, SIGMOID))
    is_v3, kv_heads = gating == SIGMOID, settings.get("attention.head_count_kv", 1)
    keys, values = settings.count("attention.key_length"), settings.count("attention.value_length")
    if "attn_k_b" in pieces_of_a_layer(pieces):  # key_length and value_length are those of the latent
        settings.require("attention.key_length", keys, (keys, values) == (rank + rope_width, rank))
        keys, values = settings.count("attention.key_length_mla"), settings.count("attention.value_length_mla")
    settings.require("attention.head_count_kv", kv_heads, kv_heads in (1, heads))
    settings.require("attention.key_length", keys, keys > rope_width)
    groups = settings.count("expert_group_count", 1) or 1
    latent = dict(
        model_type="deepseek_v3" if is_v3 else "deepseek_v2",
        architectures=["DeepseekV3ForCausalLM" if is_v3 else "DeepseekV2ForCausalLM"],
        num_key_value_heads=heads,
        q_lora_rank=settings.count("attention.q_lora_rank", 0) or None,
        kv_lora_rank=rank,
        qk_nope_head_dim=keys - rope_width,
        qk_rope_head_dim=rope_width,
        v_head_dim=values,
        n_routed_experts=settings.count("expert_count"),
        num_experts_per_tok=settings.count("expert_used_count"),
        moe_intermediate_size=settings.count("expert_feed_forward_length"),
        n_shared_experts=settings.count("expert_shared_count", 0),
        first_k_dense_replace=settings.count("leading_dense_block_count", 0),
        routed_scaling_factor=settings.get("expert_weights_scale") or 1.0,
        norm_topk_prob=bool(settings.get("expert_weights_norm", False)),
        n_group=groups,
        topk_group=settings.count("expert_group_used_count", 1) or 1,
        topk_method="noaux_tc" if is_v3 else "greedy" if groups == 1 else "group_limited_greedy",
    )
    angles = _rotary(settings, pieces, rope_width)
    if (angles["rope_scaling"] or {}).get("rope_type") == "yarn" and settings.get("rope.scaling.yarn_log_multiplier"):
        weight = 10 * settings.number("rope.scaling.yarn_log_multiplier")  # llama.cpp stores a tenth of it
        magnitudes = {"mscale": weight, "mscale_all_dim": weight}  # llama.cpp has a single number for both
        angles = {name: value | magnitudes if isinstance(value, dict) else value for name, value in angles.items()}
    return latent | angles


def pieces_of_a_layer(pieces: GgufTensors) -> set[str]:
    """Return GGUF's names of the parts of layers."""
    return {name.split(".")[2] for name in pieces if name.startswith("blk.") and name.count(".") == 3}


def _heads(settings: GgufSettings, hf_config: HfConfig) -> HfConfig:
    """Return the number of key heads and the width of a head."""
    heads = hf_config["num_attention_heads"]
    kv_heads = settings.get("attention.head_count_kv") or heads
    are_counts = all(type(n) is int and n > 0 for n in (heads, kv_heads, hf_config["hidden_size"]))
    settings.require("attention.head_count", heads, are_counts)
    width = settings.get("attention.key_length") or hf_config["hidden_size"] // heads
    settings.require("attention.key_length", width, type(width) is int)
    values = settings.get("attention.value_length", width)
    settings.require("attention.value_length", values, values == width)
    return {"num_key_value_heads": kv_heads, "head_dim": width}


def _full_rotary_heads(settings: GgufSettings, pieces: GgufTensors, hf_config: HfConfig) -> HfConfig:
    """Return the sizes of heads and the angles, for layouts that rotate whole heads."""
    sizes = _heads(settings, hf_config)
    rope_width = settings.get("rope.dimension_count", sizes["head_dim"])
    settings.require("rope.dimension_count", rope_width, rope_width == sizes["head_dim"])
    return sizes | _rotary(settings, pieces, rope_width)


def _share(part: int, whole: int) -> float:
    """Return a fraction for which int(whole * fraction) is `part`."""
    share = part / max(whole, 1)
    return share if int(whole * share) == part else math.nextafter(share, 2.0)


READERS = {
    **dict.fromkeys(("llama", "qwen2", "qwen3", "qwen3_moe"), _llama),
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text"), _gemma),
    **dict(phi3=_phi3, gpt_neox=_gpt_neox, deepseek2=_deepseek, bert=_bert),
}


def _experts(settings: GgufSettings, layout: Layout) -> HfConfig:
    """Return the settings of a mixture of experts, if there is one."""
    if not (count := settings.get("expert_count")):
        return {}
    if not layout.moe_type:
        raise Problem(
            "{file} is a mixture of {count} experts, which qkv has no layers for", file=settings.file, count=count
        )
    architecture = "MixtralForCausalLM" if layout.moe_type == "mixtral" else "Qwen3MoeForCausalLM"
    return {
        "model_type": layout.moe_type,
        "architectures": [architecture],
        "num_local_experts": count,
        "num_experts_per_tok": settings.number("expert_used_count"),
    }


def _rotary(settings: GgufSettings, pieces: GgufTensors, width: int) -> HfConfig:
    """Return the base and the scaling of the rotary angles."""
    base, kind = settings.get("rope.freq_base", 10000.0), settings.get("rope.scaling.type", "linear")
    settings.require("rope.freq_base", base, isinstance(base, int | float) and base > 0)
    base = float(base)
    rope: HfConfig = {"rope_type": "default"}
    factor, original = settings.get("rope.scaling.factor"), settings.get("rope.scaling.original_context_length")
    if "rope_freqs.weight" in pieces:
        rope = llama3_scaling(settings.file, _divisors(settings, pieces["rope_freqs.weight"], width), base)
    elif any(name in pieces for name in LONG_ROPE):
        if not all(name in pieces for name in LONG_ROPE):
            raise broken("its rope_freqs don't fit its heads", settings.file)
        short, long = (_divisors(settings, pieces[name], width).tolist() for name in LONG_ROPE)
        rope = {"rope_type": "longrope", "short_factor": short, "long_factor": long}
        rope["original_max_position_embeddings"] = settings.count("rope.scaling.original_context_length")
        if (stretch := settings.get("rope.scaling.attn_factor")) is not None:
            rope["attention_factor"] = stretch
    elif kind == "linear":  # the default of llama.cpp; a factor of 0 means none
        if (factor := factor or settings.get("rope.scale_linear") or 1.0) != 1.0:
            rope = {"rope_type": "linear", "factor": factor}
    elif kind == "yarn":
        rope = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
        for word, name in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
            if (value := settings.get(f"rope.scaling.{name}")) is not None:
                rope[word] = value
    else:
        settings.require("rope.scaling.type", kind, kind == "none")
    scaling = None if rope["rope_type"] == "default" else rope
    return {"rope_theta": base, "rope_scaling": scaling, "rope_parameters": {"rope_theta": base, **rope}}


def _divisors(settings: GgufSettings, piece: GgufTensor, width: int) -> np.ndarray:
    """Return the divisors of the angles, one per pair; `width` dimensions of a head are rotated."""
    if piece.type != 0 or piece.shape != (width // 2,):
        raise broken("its rope_freqs don't fit its heads", settings.file)
    return settings.raw[piece.begin : piece.end].view("<f4").astype(np.float64)


def llama3_scaling(file: Path, divisors: np.ndarray, base: float) -> HfConfig:
    """Recover LLaMA 3's rotary scaling from the divisors of the angles, which are all that GGUF stores.

    A pair that rotates t times within the original length keeps its angle if t > high. The angle is divided by the
    factor if t < low, and by 1 / ((1 − s) / factor + s) in between, where s = (t − low) / (high − low). Only the ratios
    of low, high and the original length matter, so low is 1.
    """
    turns = base ** -(np.arange(len(divisors)) / len(divisors)) / (2 * np.pi)  # per token

    def expected(factor: float, high: float, original: float) -> np.ndarray:
        s = np.clip((turns * original - 1.0) / (high - 1.0), 0.0, 1.0)
        return 1 / ((1 - s) / factor + s)

    if np.isfinite(divisors).all() and divisors.min() >= 1 and divisors.max() > 1:
        factor = float(divisors.max())
        candidates = [(factor, 4.0, 8192.0)]  # as published
        s = (1 / divisors - 1 / factor) / (1 - 1 / factor)
        between = (s > 1e-3) & (s < 1 - 1e-3)
        if between.sum() > 1:
            slope, start = np.polyfit(turns[between], s[between], 1)  # s = original / (high − 1) · t − 1 / (high − 1)
            if start < 0 < slope:
                candidates.append((factor, 1 - 1 / start, float(np.round(-slope / start))))
        for factor, high, original in candidates:
            if np.allclose(expected(factor, high, original), divisors, rtol=1e-3):
                return {
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": float(np.round(high, 3)),
                    "original_max_position_embeddings": int(original),
                }
    raise broken("its rope_freqs are not LLaMA 3's scaling", file)
