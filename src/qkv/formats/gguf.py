"""GGUF, the file format of llama.cpp: settings, vocabulary and (mostly quantised) weights in one file.

    "GGUF" · version · number of tensors · number of settings
    settings: key, type, value …        tensors: name, dims, type, offset …        the bytes

Every number in the header is checked against the file size before it is used. The `gguf` package dequantises.
`read(file)` returns Hugging Face's config.json as `.config`, and `.tensors` under Hugging Face's names, dequantised on
access.
"""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..i18n import Problem, all_of
from .binary_reader import Cursor, broken, map_file
from .families.setting_table import HfConfig, Value
from .gguf_layouts import LAYOUTS, Layout
from .gguf_settings import LONG_ROPE, GgufSettings, GgufTensor, config_of, refuse_unused
from .tensor_files import Tensors

# GGUF's type numbers of settings -> struct and NumPy format characters; 8 is a string, 9 a list.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
MAX_ENTRIES = 1 << 22  # more than the tokens, merges or scores of any vocabulary


@dataclass(frozen=True)
class Gguf:
    """A GGUF file in Hugging Face's terms."""

    config: HfConfig
    tensors: Tensors
    vocabulary: dict[str, Value]  # settings below `tokenizer.`; arrays are lists


Reorder = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class StoredTensor:
    """How a Hugging Face tensor is stored: its pieces in the file, and how they are combined."""

    pieces: tuple[GgufTensor, ...]
    shape: tuple[int, ...]  # in Hugging Face's layout
    reorder: Reorder | None = None  # of the rows of a piece
    combine: Callable[..., Tensor] = lambda tensor: tensor  # the dequantised pieces -> the tensor


def _floats(file: Path, raw: np.ndarray, name: str, stored: StoredTensor) -> Tensor:
    """Return one of Hugging Face's tensors in float32."""
    floats = []
    for piece in stored.pieces:
        rows = raw[piece.begin : piece.end]
        if stored.reorder is not None:
            rows = stored.reorder(rows.reshape(piece.shape[0], -1))
        try:
            floats.append(dequantise(rows, piece.type).reshape(piece.shape))
        except NotImplementedError:
            raise _unknown_type(file, name, piece.type) from None
    return stored.combine(*floats)


def _unknown_type(file: Path, name: str, kind: int) -> Problem:
    return Problem(
        "{file}: {name} is of type {type}, which can't be turned into floats here: take a file with another quantisation",
        file=file,
        name=name,
        type=kind,
    )


def read(file: str | Path) -> Gguf:
    """Read the header of a file. Weights are read on access."""
    file = Path(file)
    entries, pieces, raw = header(file)
    settings = GgufSettings(file, raw, entries, str(entries.get("general.architecture")))
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
    hf_config = config_of(settings, layout, pieces)
    refuse_unused(settings, hf_config)
    table: dict[str, StoredTensor] = {}
    for name, piece in pieces.items():
        part, kind = name.rpartition(".")[::2]
        if name in ROPE_TENSORS and "rope_theta" in hf_config:
            continue
        if hf_part := _layer_name(layout.experts, part):
            table |= _split_experts(file, name, piece, f"{hf_part}.{kind}")
        elif hf_part := _layer_name(layout.kv_halves, part):
            halves = [part.rpartition(".")[0] + f".{half}.{kind}" for half in layout.kv_halves]
            if all(half in pieces for half in halves):  # if not, the tensor is reported as missing
                table[f"{hf_part}.{kind}"] = _join_kv_b(file, name, *(pieces[half] for half in halves))
        else:
            hf_name = _rename(name, layout)
            table[hf_name] = _single_tensor(file, name, hf_name, piece, layout, hf_config)
    tensors = Tensors(
        {hf_name: (stored.shape, partial(_floats, file, raw, hf_name, stored)) for hf_name, stored in table.items()}
    )
    return Gguf(hf_config, tensors, _vocabulary(file, entries))


def _vocabulary(file: Path, entries: dict[str, Value]) -> dict[str, Value]:
    vocabulary = {}
    for key, value in entries.items():
        if key.startswith("tokenizer."):
            if isinstance(value, list | np.ndarray) and len(value) > MAX_ENTRIES:
                raise broken("{value} has {n} entries", file, value=key[:80], n=len(value))
            vocabulary[key.removeprefix("tokenizer.")] = value.tolist() if isinstance(value, np.ndarray) else value
    return vocabulary


def header(file: Path) -> tuple[dict[str, Value], dict[str, GgufTensor], np.ndarray]:
    """Return the settings and tensors of a GGUF file under its own names, and its bytes. Raise Problem if it is
    damaged."""
    raw = map_file(file)
    cursor = Cursor(file, raw)
    if bytes(cursor.take(min(4, cursor.remaining))) != b"GGUF":
        raise Problem("{file} is not a GGUF file: it does not begin with GGUF", file=file)
    version = cursor.number("I")
    if version not in (2, 3):
        raise Problem(
            "{file} is GGUF of version {version}: qkv reads 2 and 3, little-endian; convert the model again with "
            "llama.cpp",
            file=file,
            version=version if version < 1 << 16 else "big-endian",
        )
    n_tensors, n_settings = cursor.number("Q"), cursor.number("Q")
    cursor.require(n_tensors, 24 + 8)  # the smallest possible entry
    cursor.require(n_settings, 8 + 4 + 1)
    settings: dict[str, Value] = {}
    for _ in range(n_settings):
        key = cursor.text(cursor.number("Q"))
        if key in settings:
            raise broken("the setting {value!r} appears twice", file, value=key[:80])
        settings[key] = _value(cursor, cursor.number("I"))
    return settings, _tensor_table(cursor, n_tensors, settings.get("general.alignment", 32)), raw


def _value(cursor: Cursor, kind: int, depth: int = 0) -> Value:
    """Return a setting: a number, a string or a list (an array if of numbers)."""
    if kind in NUMBERS:
        return cursor.number(NUMBERS[kind])
    if kind == TEXT:
        return cursor.text(cursor.number("Q"))
    if kind != LIST or depth > 1:
        at = cursor.position
        raise broken("byte {at}: no setting has the type {kind}", cursor.file, at=at, kind=kind)
    of, count = cursor.number("I"), cursor.number("Q")
    if of in NUMBERS:
        dtype = np.dtype(NUMBERS[of]).newbyteorder("<")
        cursor.require(count, dtype.itemsize)
        return np.frombuffer(cursor.take(count * dtype.itemsize), dtype)
    cursor.require(count, 8)
    return [_value(cursor, of, depth + 1) for _ in range(count)]


def _tensor_table(cursor: Cursor, count: int, alignment: Value) -> dict[str, GgufTensor]:
    """Return the tensors. Raise Problem if one exceeds the file or overlaps another."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    file, listed = cursor.file, []
    for _ in range(count):
        name, rank = cursor.text(cursor.number("Q")), cursor.number("I")
        if not 1 <= rank <= 4:
            raise broken("{value} has {rank} dimensions", file, value=name[:80], rank=rank)
        shape = tuple(cursor.number("Q") for _ in range(rank))[::-1]  # GGUF lists the innermost dimension first
        listed.append((name, shape, cursor.number("I"), cursor.number("Q")))
    if type(alignment) is not int or not 8 <= alignment <= 1 << 16 or alignment % 8:
        raise broken("general.alignment is {alignment!r}", file, alignment=alignment)
    data_begin = -(-cursor.position // alignment) * alignment
    pieces: dict[str, GgufTensor] = {}
    for name, shape, kind, offset in listed:
        try:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except (ValueError, KeyError):
            raise _unknown_type(file, name[:80], kind) from None
        if min(shape) < 1 or shape[-1] % block or offset % alignment or name in pieces:
            raise broken(
                "{value} can't be {shape} of type {kind} at {offset}, or appears twice",
                file,
                value=name[:80],
                shape=shape,
                kind=kind,
                offset=offset,
            )
        begin, length = data_begin + offset, math.prod(shape) // block * size
        if begin + length > len(cursor.raw):
            raise broken(
                "{value} {shape} ends at byte {value2} and the file at {n}: it was cut short or damaged; get it again",
                file,
                value=name[:80],
                shape=shape,
                value2=begin + length,
                n=len(cursor.raw),
            )
        pieces[name] = GgufTensor(shape, kind, begin, begin + length)
    end = data_begin
    for name, piece in sorted(pieces.items(), key=lambda item: item[1].begin):
        if piece.begin < end:
            raise broken("{value} overlaps another tensor", file, value=name[:80])
        end = piece.end
    return pieces


# Divisors of the rotary angles: settings stored as tensors.
ROPE_TENSORS = ("rope_freqs.weight", *LONG_ROPE)


def _layer_name(hf_parts: Mapping[str, str], name: str) -> str | None:
    """Return Hugging Face's name of a tensor in a layer, such as `blk.7.attn_q`, or None."""
    match = re.fullmatch(r"blk\.(\d{1,6})\.([\w.]+)", name)
    return hf_parts[match[2]].replace("{i}", match[1]) if match and match[2] in hf_parts else None


def _rename(name: str, layout: Layout) -> str:
    """Return Hugging Face's name of a tensor; unknown names are unchanged."""
    part, _, kind = name.rpartition(".")
    if hf_name := _layer_name(layout.inside, name):
        return hf_name
    hf_part = layout.outside.get(part) or _layer_name(layout.inside, part)
    return f"{hf_part}.{kind}" if hf_part else name


def _single_tensor(
    file: Path, name: str, hf_name: str, piece: GgufTensor, layout: Layout, hf_config: HfConfig
) -> StoredTensor:
    """Return the StoredTensor of a tensor that corresponds to exactly one in Hugging Face's layout."""
    part = name.split(".")[-2] if "." in name else name
    heads = hf_config.get("num_key_value_heads" if part == "attn_k" else "num_attention_heads", 0)
    order: Reorder | None = None
    for parts, multiple, reorder in ((layout.permuted, 2, unpermute), (layout.fused, 3, interleave_heads)):
        if heads and part in parts:
            if (rows := piece.shape[0]) % (multiple * heads):
                raise broken("{name} has {value} rows for {n} heads", file, name=name[:80], value=rows, n=heads)
            order = partial(reorder, heads=heads)
    if len(piece.shape) == 2 and re.search(layout.transposed, hf_name):
        return StoredTensor((piece,), piece.shape[::-1], order, torch.t)
    if re.search(layout.offset_norms, hf_name):
        return StoredTensor((piece,), piece.shape, order, lambda weight: weight - 1)
    return StoredTensor((piece,), piece.shape, order)


def _split_experts(file: Path, name: str, piece: GgufTensor, hf_name: str) -> dict[str, StoredTensor]:
    """Split a stack of experts (E, rows, columns); each expert is contiguous."""
    if len(piece.shape) != 3:
        raise broken("{value} has {rank} dimensions", file, value=name[:80], rank=len(piece.shape))
    count, size = piece.shape[0], (piece.end - piece.begin) // piece.shape[0]
    begins = [piece.begin + i * size for i in range(count)]
    experts = [GgufTensor(piece.shape[1:], piece.type, at, at + size) for at in begins]
    return {hf_name.replace("{e}", str(i)): StoredTensor((expert,), expert.shape) for i, expert in enumerate(experts)}


def _join_kv_b(file: Path, name: str, keys: GgufTensor, values: GgufTensor) -> StoredTensor:
    """Combine keys (H, rank, D), which llama.cpp transposes, and values (H, D, rank) into kv_b, head by head."""
    if len(keys.shape) != 3 or len(values.shape) != 3 or keys.shape[:2] != (values.shape[0], values.shape[2]):
        raise broken("{value} has {rank} dimensions", file, value=name[:80], rank=len(keys.shape))
    heads, rank, width = keys.shape
    shape = (heads * (width + values.shape[1]), rank)
    return StoredTensor((keys, values), shape, combine=lambda k, v: torch.cat([k.mT, v], 1).reshape(shape))


def unpermute(rows: np.ndarray, heads: int) -> np.ndarray:
    """Return the rows of q or k in Hugging Face's order.

    Hugging Face rotates the pairs (i, i + D/2) of a head and llama.cpp the pairs (2i, 2i + 1), so GGUF interleaves the
    rows of each head. Rows are quantised one by one, so this also works on quantised bytes.
    """
    width = rows.shape[0] // heads
    return rows.reshape(heads, width // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def interleave_heads(rows: np.ndarray, heads: int) -> np.ndarray:
    """Convert rows from all q, all k, all v to GPT-NeoX's order: q, k and v of each head in turn."""
    return rows.reshape(3, heads, -1, rows.shape[1]).swapaxes(0, 1).reshape(rows.shape)


def dequantise(raw: np.ndarray, kind: int) -> Tensor:
    """Convert the bytes of a GGUF type to a flat float32 tensor.

    The three most common types are unpacked in PyTorch, which is faster and equal to the bit.
    """
    from gguf.constants import GGMLQuantizationType as Type
    from gguf.quants import dequantize

    if kind == Type.F32:
        return torch.from_numpy(raw.reshape(-1).view(np.float32))
    if kind == Type.F16:
        return torch.from_numpy(raw.reshape(-1).view(np.float16)).float()
    if kind in FAST_UNPACK:
        size, unpack = FAST_UNPACK[kind]
        return unpack(torch.from_numpy(np.ascontiguousarray(raw)).reshape(-1, size)).reshape(-1)
    return torch.from_numpy(dequantize(raw.reshape(-1), Type(kind))).reshape(-1)


def _half(raw: Tensor) -> Tensor:
    return raw.contiguous().view(torch.float16).float()


def _nibbles(raw: Tensor) -> Tensor:
    """Unpack 16 bytes per block to 32 numbers from 0 to 15: the lower halves of all bytes first."""
    numbers = torch.empty(len(raw), 32, dtype=torch.float32)
    numbers[:, :16] = raw & 15
    numbers[:, 16:] = raw >> 4
    return numbers


# A block of 32 weights begins with its scale in float16 (and, in q4_1, its minimum).
FAST_UNPACK = {
    2: (18, lambda raw: _nibbles(raw[:, 2:]).sub_(8).mul_(_half(raw[:, :2]))),  # q4_0
    3: (20, lambda raw: _nibbles(raw[:, 4:]).mul_(_half(raw[:, :2])).add_(_half(raw[:, 2:4]))),  # q4_1
    8: (34, lambda raw: raw[:, 2:].view(torch.int8).float().mul_(_half(raw[:, :2]))),  # q8_0
}
