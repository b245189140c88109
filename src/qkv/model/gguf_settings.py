"""What the settings of a GGUF file say, in the words of config.json: sizes, experts, angles.

What is asked for is noted, so that whatever nobody asked for can be refused: a setting that isn't obeyed must not be passed over.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..words import Message, Problem
from .binary import broken
from .layouts import SILENT, Layout


@dataclass(frozen=True)
class Piece:
    """A tensor in the file: its shape as PyTorch has it, its type, and where its bytes lie."""

    shape: tuple[int, ...]
    type: int
    begin: int
    end: int


@dataclass(frozen=True)
class Settings:
    """The settings of one architecture."""

    file: Path
    raw: np.ndarray
    entries: dict[str, Any]
    architecture: str
    asked: set[str] = field(default_factory=set)  # for what

    def get(self, word: str, default: Any = None) -> Any:
        """A number that all layers share, or the default."""
        self.asked.add(word)
        key = f"{self.architecture}.{word}"
        value = self.entries.get(key, default)
        if isinstance(value, np.ndarray) and len(value) and (value == value[0]).all():
            value = value[0].item()
        if value is not None and not isinstance(value, bool | int | float | str):
            raise Problem(
                "{file} says {key} = {value}, with which qkv can't build the model",
                file=self.file,
                key=key,
                value=str(value)[:80],
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise Problem(
                "{file} says {key} = {value}, with which qkv can't build the model",
                file=self.file,
                key=key,
                value=value,
            )
        return value

    def must(self, word: str) -> Any:
        """A number that has to be there."""
        value = self.get(word)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Problem(
                "{file} says {key} = {value}, with which qkv can't build the model",
                file=self.file,
                key=f"{self.architecture}.{word}",
                value=str(value)[:80],
            )
        return value


def refuse_rest(settings: Settings, theirs: dict[str, Any]) -> None:
    """Refuse a setting that nobody asked for, unless it is off or says what is so anyway.

    llama.cpp has over a hundred, and whoever writes a file may have more: what isn't obeyed must not be passed over.
    """
    heads = settings.must("attention.head_count")
    width = theirs.get("head_dim") or settings.must("embedding_length") / max(heads, 1)
    neutral: dict[str, tuple[Any, ...]] = {
        "attention.causal": (settings.architecture != "bert",),
        "attention.scale": (max(width, 1) ** -0.5,),
        "attention.head_count_kv": (heads,),
        "rope.scaling.yarn_ext_factor": (-1.0, 1.0),
        **dict.fromkeys(("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"), (1.0,)),
        **dict.fromkeys(("logit_scale", "residual_scale", "embedding_scale"), (1.0,)),
    }
    for key in settings.entries:
        arch, _, word = key.partition(".")
        if arch != settings.architecture or word in settings.asked or word in SILENT:
            continue
        value = settings.entries[key] if isinstance(settings.entries[key], list) else settings.get(word)
        off = not value and word != "attention.causal"
        usual = [v for v in neutral.get(word, ()) if type(v) is type(value)]
        same = any(math.isclose(value, v, rel_tol=1e-6) for v in usual)
        wide = word == "attention.sliding_window" and type(value) is int and value >= settings.must("context_length")
        if not (off or wide or same):
            raise Problem(
                "{file} says {key} = {value}, which qkv doesn't obey: read without it, the model would compute "
                "something else",
                file=settings.file,
                key=key[:80],
                value=str(value)[:80],
            )


def config_of(settings: Settings, layout: Layout, pieces: dict[str, Piece]) -> dict[str, Any]:
    """What config.json would say."""
    file, embedding = settings.file, pieces.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise broken(file, Message("it has no token_embd.weight, the word vectors"))
    theirs: dict[str, Any] = {"model_type": layout.model_type, **layout.fixed, "vocab_size": embedding.shape[0]}
    theirs |= {word: settings.must(name) for name, word in layout.settings.items()}
    theirs["tie_word_embeddings"] = layout.model_type == "bert" or "output.weight" not in pieces
    for role, name in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
        token = settings.entries.get(f"tokenizer.ggml.{name}_token_id")
        theirs[f"{role}_token_id"] = token if isinstance(token, int) else None
    theirs |= _experts(settings, layout)
    if layout.model_type == "bert":
        types = pieces.get("token_types.weight")
        return theirs | {"type_vocab_size": types.shape[0] if types else 0}
    if layout.model_type == "gpt2":
        return theirs
    heads = theirs["num_attention_heads"]
    theirs["num_key_value_heads"] = settings.get("attention.head_count_kv") or heads
    if not all(type(n) is int and n > 0 for n in (heads, theirs["num_key_value_heads"], theirs["hidden_size"])):
        raise Problem(
            "{file} says {key} = {value}, with which qkv can't build the model",
            file=file,
            key=f"{settings.architecture}.attention.head_count",
            value=heads,
        )
    theirs["head_dim"] = settings.get("attention.key_length") or theirs["hidden_size"] // heads
    if type(theirs["head_dim"]) is not int:
        key = f"{settings.architecture}.attention.key_length"
        raise Problem(
            "{file} says {key} = {value}, with which qkv can't build the model",
            file=file,
            key=key,
            value=theirs["head_dim"],
        )
    for word in ("attention.value_length", "rope.dimension_count"):
        if settings.get(word, theirs["head_dim"]) != theirs["head_dim"]:
            raise Problem(
                "{file} says {key} = {value}, with which qkv can't build the model",
                file=file,
                key=f"{settings.architecture}.{word}",
                value=settings.get(word),
            )
    theirs |= _rotary(settings, pieces, theirs["head_dim"])
    if theirs["model_type"] == "mixtral":
        window = settings.get("attention.sliding_window")
        return theirs | ({"sliding_window": window} if window else {})
    if layout.model_type == "llama":
        theirs |= {"attention_bias": "blk.0.attn_q.bias" in pieces, "mlp_bias": "blk.0.ffn_gate.bias" in pieces}
        if window := settings.get("attention.sliding_window"):
            theirs |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": window}
    return theirs


def _experts(settings: Settings, layout: Layout) -> dict[str, Any]:
    """What config.json would say of a mixture of experts, where there is one."""
    if not (count := settings.get("expert_count")):
        return {}
    if not layout.mixed:
        raise Problem(
            "{file} is a mixture of {count} experts, which qkv has no layers for", file=settings.file, count=count
        )
    architecture = "MixtralForCausalLM" if layout.mixed == "mixtral" else "Qwen3MoeForCausalLM"
    return {
        "model_type": layout.mixed,
        "architectures": [architecture],
        "num_local_experts": count,
        "num_experts_per_tok": settings.must("expert_used_count"),
    }


def _rotary(settings: Settings, pieces: dict[str, Piece], width: int) -> dict[str, Any]:
    """The base of the rotary angles and how they are scaled."""
    base, kind = settings.get("rope.freq_base", 10000.0), settings.get("rope.scaling.type", "linear")
    if not isinstance(base, int | float) or not base > 0:
        key = f"{settings.architecture}.rope.freq_base"
        raise Problem(
            "{file} says {key} = {value}, with which qkv can't build the model",
            file=settings.file,
            key=key,
            value=str(base)[:80],
        )
    base = float(base)
    theirs: dict[str, Any] = {"rope_type": "default"}
    factor, original = settings.get("rope.scaling.factor"), settings.get("rope.scaling.original_context_length")
    if "rope_freqs.weight" in pieces:
        piece = pieces["rope_freqs.weight"]
        if piece.type != 0 or piece.shape != (width // 2,):
            raise broken(settings.file, Message("its rope_freqs don't fit its heads"))
        divisors = settings.raw[piece.begin : piece.end].view("<f4").astype(np.float64)
        theirs = llama3_scaling(settings.file, divisors, base)
    elif kind == "linear":  # as llama.cpp takes it where no type is given; 0 is no factor
        if (factor := factor or settings.get("rope.scale_linear") or 1.0) != 1.0:
            theirs = {"rope_type": "linear", "factor": factor}
    elif kind == "yarn":
        theirs = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
        for word, name in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
            if (value := settings.get(f"rope.scaling.{name}")) is not None:
                theirs[word] = value
    elif kind != "none" or any(name.startswith("rope_factors") for name in pieces):
        raise Problem(
            "{file} says {key} = {value}, with which qkv can't build the model",
            file=settings.file,
            key=f"{settings.architecture}.rope.scaling.type",
            value=kind,
        )
    if theirs["rope_type"] == "default":
        return {"rope_theta": base, "rope_scaling": None, "rope_parameters": {"rope_theta": base, **theirs}}
    return {"rope_theta": base, "rope_scaling": theirs, "rope_parameters": {"rope_theta": base, **theirs}}


def llama3_scaling(file: Path, divisors: np.ndarray, base: float) -> dict[str, Any]:
    """LLaMA 3's settings from the number that each pair's angle is divided by, which is all that GGUF keeps of them.

    A pair that turns t times within the original length keeps its angle if t > high, has it divided by the factor if
    t < low, and by 1 / ((1 − s) / factor + s) between, where s = (t − low) / (high − low). Only the ratios of low,
    high and the original length matter, so low is 1.
    """
    turns = base ** -(np.arange(len(divisors)) / len(divisors)) / (2 * np.pi)  # per token

    def expected(factor: float, high: float, original: float) -> np.ndarray:
        s = np.clip((turns * original - 1.0) / (high - 1.0), 0.0, 1.0)
        return 1 / ((1 - s) / factor + s)

    if np.isfinite(divisors).all() and divisors.min() >= 1 and divisors.max() > 1:
        factor = float(divisors.max())
        tries = [(factor, 4.0, 8192.0)]  # as published
        s = (1 / divisors - 1 / factor) / (1 - 1 / factor)
        between = (s > 1e-3) & (s < 1 - 1e-3)
        if between.sum() > 1:
            slope, start = np.polyfit(turns[between], s[between], 1)  # s = original / (high − 1) · t − 1 / (high − 1)
            if start < 0 < slope:
                tries.append((factor, 1 - 1 / start, float(np.round(-slope / start))))
        for factor, high, original in tries:
            if np.allclose(expected(factor, high, original), divisors, rtol=1e-3):
                return {
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": float(np.round(high, 3)),
                    "original_max_position_embeddings": int(original),
                }
    raise broken(file, Message("its rope_freqs are not LLaMA 3's scaling"))
