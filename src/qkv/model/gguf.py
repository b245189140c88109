"""GGUF, the file format of llama.cpp: one file with the settings, the vocabulary and the (mostly quantised) weights.

    "GGUF" · version · number of tensors · number of settings
    settings: key, type, value …        tensors: name, dims, type, where its bytes begin …        the bytes

The header is read here and every number in it is checked against the length of the file before it is used; the
`gguf` package knows how each type is quantised. What comes out is in Hugging Face's words: `read(file).theirs` is
what config.json would say, `.tensors` has Hugging Face's names and is dequantised as it is asked for.
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..words import Message, Problem, all_of
from .binary import Cursor, broken, mapped
from .layouts import LAYOUTS, SILENT, Layout

# GGUF's numbers for the types of settings, as struct and NumPy write them; 8 is a text, 9 a list.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
LONGEST = 1 << 22  # no vocabulary has as many tokens, merges or scores


@dataclass(frozen=True)
class Piece:
    """A tensor in the file: its shape as PyTorch has it, its type, and where its bytes lie."""

    shape: tuple[int, ...]
    type: int
    begin: int
    end: int


@dataclass(frozen=True)
class Gguf:
    """A GGUF file in Hugging Face's words."""

    theirs: dict[str, Any]
    tensors: "Tensors"
    vocabulary: dict[str, Any]  # the settings that begin with `tokenizer.`, which is left out; lists are plain


class Tensors(Mapping[str, Tensor]):
    """Hugging Face's name -> tensor in float32, dequantised each time it is asked for."""

    def __init__(self, file: Path, raw: np.ndarray, pieces: dict[str, tuple[Piece, int, bool]]) -> None:
        self._file, self._raw, self._pieces = file, raw, pieces  # name -> piece, heads to unpermute, turned
        self.shapes = {name: _turn(piece.shape, turned) for name, (piece, _, turned) in pieces.items()}

    def __getitem__(self, name: str) -> Tensor:
        piece, heads, turned = self._pieces[name]
        raw = self._raw[piece.begin : piece.end]
        if heads:
            raw = unpermute(raw.reshape(piece.shape[0], -1), heads)
        try:
            made = dequantise(raw, piece.type).reshape(piece.shape)
        except NotImplementedError:
            raise Problem(
                "{file}: {name} is of type {type}, which can't be turned into floats here: take a file with another "
                "quantisation",
                file=self._file,
                name=name,
                type=piece.type,
            ) from None
        return made.T if turned else made

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def read(file: str | Path) -> Gguf:
    """The whole header of a file; its weights are read when they are asked for."""
    file = Path(file)
    entries, pieces, raw = header(file)
    settings = Settings(file, raw, entries, str(entries.get("general.architecture")))
    if settings.architecture not in LAYOUTS:
        near = difflib.get_close_matches(settings.architecture, LAYOUTS, n=1)
        raise Problem(
            "{file} is a {name}, which qkv does not know in GGUF: it reads {known}; the nearest is {near}",
            file=file,
            name=settings.architecture[:80],
            known=all_of(LAYOUTS),
            near=near[0] if near else "llama",
        )
    layout = LAYOUTS[settings.architecture]
    theirs = _config(settings, layout, pieces)
    _refuse_rest(settings, theirs)
    heads = {"attn_q": theirs.get("num_attention_heads", 0), "attn_k": theirs.get("num_key_value_heads", 0)}
    table: dict[str, tuple[Piece, int, bool]] = {}
    for name, piece in pieces.items():
        if stacked := _stacked(name, layout):
            table |= {hf: (one, 0, False) for hf, one in _apart(file, name, piece, stacked).items()}
            continue
        hf, part = _rename(name, layout)
        if hf is None:
            continue
        n = heads[part] if part in layout.permuted else 0
        if n and piece.shape[0] % (2 * n):
            raise broken(
                file,
                Message("{name} has {value} rows for {n} heads", name=name, value=piece.shape[0], n=n),
            )
        table[hf] = (piece, n, len(piece.shape) == 2 and re.search(layout.turned, hf) is not None)
    return Gguf(theirs, Tensors(file, raw, table), _vocabulary(file, entries))


def _vocabulary(file: Path, entries: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in entries.items():
        if key.startswith("tokenizer."):
            if isinstance(value, list | np.ndarray) and len(value) > LONGEST:
                raise broken(file, Message("{value} has {n} entries", value=key[:80], n=len(value)))
            found[key.removeprefix("tokenizer.")] = value.tolist() if isinstance(value, np.ndarray) else value
    return found


def header(file: Path) -> tuple[dict[str, Any], dict[str, Piece], np.ndarray]:
    """Settings and tensors of a GGUF file as it names them, all within its bounds, and its bytes."""
    raw = mapped(file)
    cursor = Cursor(file, raw)
    if bytes(cursor.take(min(4, cursor.left))) != b"GGUF":
        raise Problem("{file} is no GGUF file: it does not begin with GGUF", file=file)
    version = cursor.number("I")
    if version not in (2, 3):
        raise Problem(
            "{file} is GGUF of version {version}: qkv reads 2 and 3, little-endian; convert the model again with "
            "llama.cpp",
            file=file,
            version=version if version < 1 << 16 else "big-endian",
        )
    n_tensors, n_settings = cursor.number("Q"), cursor.number("Q")
    cursor.need(n_tensors, 24 + 8)  # the least that one takes
    cursor.need(n_settings, 8 + 4 + 1)
    settings: dict[str, Any] = {}
    for _ in range(n_settings):
        key = cursor.text(cursor.number("Q"))
        if key in settings:
            raise broken(file, Message("the setting {value!r} is there twice", value=key[:80]))
        settings[key] = _value(cursor, cursor.number("I"))
    return settings, _pieces(cursor, n_tensors, settings.get("general.alignment", 32)), raw


def _value(cursor: Cursor, kind: int, depth: int = 0) -> Any:
    """A setting's value: a number, a text, or a list (an array, if of numbers)."""
    if kind in NUMBERS:
        return cursor.number(NUMBERS[kind])
    if kind == TEXT:
        return cursor.text(cursor.number("Q"))
    if kind != LIST or depth > 1:
        at = cursor.at
        raise broken(cursor.file, Message("byte {at}: no setting has the type {kind}", at=at, kind=kind))
    of, count = cursor.number("I"), cursor.number("Q")
    if of in NUMBERS:
        dtype = np.dtype(NUMBERS[of]).newbyteorder("<")
        cursor.need(count, dtype.itemsize)
        return np.frombuffer(cursor.take(count * dtype.itemsize), dtype)
    cursor.need(count, 8)
    return [_value(cursor, of, depth + 1) for _ in range(count)]


def _pieces(cursor: Cursor, count: int, alignment: Any) -> dict[str, Piece]:
    """The table of tensors: each within the file, none over another."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    file, listed = cursor.file, []
    for _ in range(count):
        name, rank = cursor.text(cursor.number("Q")), cursor.number("I")
        if not 1 <= rank <= 4:
            raise broken(file, Message("{value} has {rank} dimensions", value=name[:80], rank=rank))
        shape = tuple(cursor.number("Q") for _ in range(rank))[::-1]  # GGUF counts from the innermost
        listed.append((name, shape, cursor.number("I"), cursor.number("Q")))
    if type(alignment) is not int or not 8 <= alignment <= 1 << 16 or alignment % 8:
        raise broken(file, Message("general.alignment is {alignment!r}", alignment=alignment))
    first = -(-cursor.at // alignment) * alignment
    pieces: dict[str, Piece] = {}
    for name, shape, kind, offset in listed:
        try:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except (ValueError, KeyError):
            raise Problem(
                "{file}: {name} is of type {type}, which can't be turned into floats here: take a file with another "
                "quantisation",
                file=file,
                name=name[:80],
                type=kind,
            ) from None
        if min(shape) < 1 or shape[-1] % block or offset % alignment or name in pieces:
            raise broken(
                file,
                Message(
                    "{value} can't be {shape} of type {kind} at {offset}, or is there twice",
                    value=name[:80],
                    shape=shape,
                    kind=kind,
                    offset=offset,
                ),
            )
        begin, length = first + offset, math.prod(shape) // block * size
        if begin + length > len(cursor.raw):
            raise broken(
                file,
                Message(
                    "{value} {shape} ends at byte {value2} and the file at {n}: it was cut short or damaged; get it again",
                    value=name[:80],
                    shape=shape,
                    value2=begin + length,
                    n=len(cursor.raw),
                ),
            )
        pieces[name] = Piece(shape, kind, begin, begin + length)
    end = first
    for name, piece in sorted(pieces.items(), key=lambda item: item[1].begin):
        if piece.begin < end:
            raise broken(file, Message("{value} lies over another tensor", value=name[:80]))
        end = piece.end
    return pieces


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


def _refuse_rest(settings: Settings, theirs: dict[str, Any]) -> None:
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


def _config(settings: Settings, layout: Layout, pieces: dict[str, Piece]) -> dict[str, Any]:
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


def _rename(name: str, layout: Layout) -> tuple[str | None, str]:
    """Hugging Face's name of a tensor, and what GGUF calls its part; one that is unknown keeps its name."""
    if name == "rope_freqs.weight":
        return None, ""
    part, _, kind = name.rpartition(".")
    if part in layout.outside:
        return f"{layout.outside[part]}.{kind}", part
    if (found := re.fullmatch(r"blk\.(\d{1,6})\.(\w+)", part)) and found[2] in layout.inside:
        return f"{layout.inside[found[2]].format(i=found[1])}.{kind}", found[2]
    return name, part


def _stacked(name: str, layout: Layout) -> str | None:
    """Hugging Face's name of each tensor that one of GGUF stacks, with {e} for the expert's number."""
    found = re.fullmatch(r"blk\.(\d{1,6})\.(\w+)\.weight", name)
    if found is None or found[2] not in layout.experts:
        return None
    return layout.experts[found[2]].replace("{i}", found[1]) + ".weight"


def _apart(file: Path, name: str, piece: Piece, theirs: str) -> dict[str, Piece]:
    """The experts of one tensor, (E, rows, columns), each by itself: its bytes stand together."""
    if len(piece.shape) != 3:
        raise broken(file, Message("{value} has {rank} dimensions", value=name[:80], rank=len(piece.shape)))
    count, size = piece.shape[0], (piece.end - piece.begin) // piece.shape[0]
    places = [piece.begin + i * size for i in range(count)]
    return {
        theirs.replace("{e}", str(i)): Piece(piece.shape[1:], piece.type, at, at + size) for i, at in enumerate(places)
    }


def _turn(shape: tuple[int, ...], turned: bool) -> tuple[int, ...]:
    return shape[::-1] if turned else shape


def unpermute(rows: np.ndarray, heads: int) -> np.ndarray:
    """The rows of q or k in Hugging Face's order.

    Its rotary turns the pairs (i, i + D/2) of a head, llama.cpp's the neighbours (2i, 2i + 1), so the rows of each
    head were interleaved for it. Rows are quantised one by one, so this works on their bytes.
    """
    width = rows.shape[0] // heads
    return rows.reshape(heads, width // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def dequantise(raw: np.ndarray, kind: int) -> Tensor:
    """Bytes of a GGUF type as a flat float32 tensor.

    The three commonest types take a shorter road in PyTorch, with the same result to the bit.
    """
    from gguf.constants import GGMLQuantizationType as Type
    from gguf.quants import dequantize

    if kind == Type.F32:
        return torch.from_numpy(raw.reshape(-1).view(np.float32))
    if kind == Type.F16:
        return torch.from_numpy(raw.reshape(-1).view(np.float16)).float()
    if kind in SHORT_ROADS:
        size, unpack = SHORT_ROADS[kind]
        return unpack(torch.from_numpy(np.ascontiguousarray(raw)).reshape(-1, size)).reshape(-1)
    return torch.from_numpy(dequantize(raw.reshape(-1), Type(kind))).reshape(-1)


def _half(raw: Tensor) -> Tensor:
    return raw.contiguous().view(torch.float16).float()


def _nibbles(raw: Tensor) -> Tensor:
    """16 bytes a block -> 32 numbers from 0 to 15, the lower halves of all bytes first."""
    made = torch.empty(len(raw), 32, dtype=torch.float32)
    made[:, :16] = raw & 15
    made[:, 16:] = raw >> 4
    return made


# A block of 32 weights begins with its step in float16 (and, in q4_1, its least value).
SHORT_ROADS = {
    2: (18, lambda raw: _nibbles(raw[:, 2:]).sub_(8).mul_(_half(raw[:, :2]))),  # q4_0
    3: (20, lambda raw: _nibbles(raw[:, 4:]).mul_(_half(raw[:, :2])).add_(_half(raw[:, 2:4]))),  # q4_1
    8: (34, lambda raw: raw[:, 2:].view(torch.int8).float().mul_(_half(raw[:, :2]))),  # q8_0
}
