"""CTranslate2's `model.bin`, a common format of OPUS-MT translators (Marian), quantised to 8 bits.

    version · name of the layout · its revision · number of tensors
    tensors: name, shape, type, bytes …        aliases of tensors …

An 8-bit matrix has a scale per row, and a weight is the integer divided by it. q, k and v are stacked. Tensors are
returned under the names of Hugging Face's MarianMTModel. The decoder starts from a zero vector that the file omits; it
is added as the last row of the vocabulary, the padding token.
"""

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..disk.bounded_reading import read_json, reading
from ..i18n import Message, Problem, _
from ..text.library_tokenizer import refuse_long
from .binary_reader import Cursor, broken, map_file
from .families.setting_table import HfConfig
from .tensor_files import Makers, Tensors

TYPES = {0: torch.float32, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.float16, 5: torch.bfloat16}
BY_SIZE = {1: 1, 2: 2, 4: 0}  # before version 4: bytes per number -> type
ACTIVATIONS = {0: "relu", 1: "gelu_new", 2: "swish", 3: "gelu"}
# The settings of a Marian; other values mean another model.
MARIAN = {
    "encoder/pre_norm": 0,
    "decoder/pre_norm": 0,
    "encoder/scale_embeddings": 1,
    "decoder/scale_embeddings": 1,
    "decoder/start_from_zero_embedding": 1,
    "decoder/alibi": 0,
}


def find(folder: Path) -> Path | None:
    """Return the folder with the model files, `folder` or its `model` (as Argos packages have it), else None."""
    for path in (folder, folder / "model"):
        if (path / "model.bin").is_file() and (path / "shared_vocabulary.json").is_file():
            return path
    return None


def read(folder: str | Path) -> tuple[HfConfig, Tensors]:
    """Return config.json as a dict, and the tensors."""
    path = find(Path(folder))
    if path is None:
        raise Problem("{folder} has no model.bin with a shared_vocabulary.json beside it", folder=folder)
    file = path / "model.bin"
    spec, model_file = header(file)
    if spec != "TransformerSpec":
        raise Problem(
            "{file} has the layout {spec}: of CTranslate2's, qkv reads TransformerSpec, as OPUS-MT translators have it",
            file=file,
            spec=spec[:80],
        )
    for name, expected in MARIAN.items():
        if name in model_file and model_file.number(name) != expected:
            raise _not_marian(file, name, model_file.number(name), expected)
    vocab, width = model_file.shape("decoder/embeddings/weight", 2)
    for name in ("decoder/projection/weight", "encoder/embeddings_0/weight"):
        if model_file.name(name) != model_file.name("decoder/embeddings/weight"):
            raise Problem(
                "{file} has {name} separate from the decoder's word vectors: qkv reads translators that share them",
                file=file,
                name=name,
            )
    layers = {side: model_file.layers(side) for side in ("encoder", "decoder")}
    sizes: HfConfig = {}
    for side in layers:
        sizes[f"{side}_layers"] = layers[side]
        sizes[f"{side}_attention_heads"] = model_file.number(f"{side}/num_heads", 8)
        sizes[f"{side}_ffn_dim"] = model_file.shape(f"{side}/layer_0/ffn/linear_0/weight", 2)[0]
    hf_config: HfConfig = dict(
        model_type="marian",
        architectures=["MarianMTModel"],
        vocab_size=vocab + 1,
        d_model=width,
        **sizes,
        max_position_embeddings=_positions(model_file, width),
        activation_function=ACTIVATIONS.get(model_file.number("encoder/activation", 2), "?"),
        scale_embedding=True,
        static_position_embeddings=True,
        normalize_before=False,
        tie_word_embeddings=True,
        share_encoder_decoder_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        forced_eos_token_id=0,
        pad_token_id=vocab,
        decoder_start_token_id=vocab,
        bad_words_ids=[[vocab]],
    )
    return hf_config, _tensors(model_file, vocab, width, layers)


def _tensors(model_file: "CTranslate2File", vocab: int, width: int, layers: dict[str, int]) -> Tensors:
    table: Makers = {}

    def stacked(source: str, names: tuple[str, ...]) -> None:
        """Add the equal parts of a stacked matrix and its bias."""
        rows, columns = model_file.shape(f"{source}/weight", 2)
        if rows % len(names) or model_file.shape(f"{source}/bias", 1) != (rows,):
            raise broken("{ours} doesn't divide by {n}", model_file.file, ours=source, n=len(names))
        size = rows // len(names)
        for i, name in enumerate(names):
            cut = slice(i * size, (i + 1) * size)
            table[f"{name}.weight"] = (size, columns), partial(model_file.matrix, f"{source}/weight", cut)
            table[f"{name}.bias"] = (size,), lambda cut=cut: model_file.floats(f"{source}/bias")[cut]  # type: ignore[misc]

    def norm(source: str, name: str) -> None:
        for part, source_part in (("weight", "gamma"), ("bias", "beta")):
            tensor = f"{source}/layer_norm/{source_part}"
            table[f"{name}.{part}"] = model_file.shape(tensor, 1), partial(model_file.floats, tensor)

    for side in ("encoder", "decoder"):
        for i in range(layers[side]):
            source, name = f"{side}/layer_{i}", f"model.{side}.layers.{i}"
            attentions = [("self_attention", "self_attn")] + [("attention", "encoder_attn")] * (side == "decoder")
            for attention, hf_part in attentions:
                q, k, v, out = (f"{name}.{hf_part}.{part}_proj" for part in ("q", "k", "v", "out"))
                cuts = [(q, k, v), (out,)] if attention == "self_attention" else [(q,), (k, v), (out,)]
                for n, cut in enumerate(cuts):
                    stacked(f"{source}/{attention}/linear_{n}", cut)
                norm(f"{source}/{attention}", f"{name}.{hf_part}_layer_norm")
            for n in (0, 1):
                stacked(f"{source}/ffn/linear_{n}", (f"{name}.fc{n + 1}",))
            norm(f"{source}/ffn", f"{name}.final_layer_norm")

    bias = model_file.shape("decoder/projection/bias", 1) if "decoder/projection/bias" in model_file else None
    if bias not in (None, (vocab,)):
        raise broken("its output bias doesn't fit its vocabulary", model_file.file)

    def embedding() -> Tensor:
        tensor = torch.zeros(vocab + 1, width)
        tensor[:vocab] = model_file.matrix("decoder/embeddings/weight")
        return tensor

    def output_bias() -> Tensor:
        tensor = torch.zeros(1, vocab + 1)
        if bias is not None:
            tensor[0, :vocab] = model_file.floats("decoder/projection/bias")
        return tensor

    table["model.shared.weight"] = (vocab + 1, width), embedding
    table["final_logits_bias"] = (1, vocab + 1), output_bias
    return Tensors(table)


def _positions(model_file: "CTranslate2File", width: int) -> int:
    """Return the number of positions. Raise Problem if they are not Marian's sines and cosines."""
    name = "encoder/position_encodings/encodings"
    if name not in model_file:
        return 512
    length, columns = model_file.shape(name, 2)
    checked = min(length, 64)  # enough to recognise the formula
    angles = np.arange(checked)[:, None] / 10000.0 ** (2 * np.arange(width // 2) / width)
    if columns != width or not np.allclose(
        model_file.floats(name)[:checked].numpy(), np.concatenate([np.sin(angles), np.cos(angles)], 1), atol=1e-3
    ):
        raise _not_marian(model_file.file, name, "?", "sin, cos")
    return length


def _not_marian(file: Path, name: str, value: object, expected: object) -> Problem:
    return Problem(
        "{file} is not a Marian translator, the only kind that qkv reads from CTranslate2: {name} is {value}, not {wanted}",
        file=file,
        name=name,
        value=value,
        wanted=expected,
    )


class CTranslate2File:
    """The tensors of a file by CTranslate2's names."""

    def __init__(self, file: Path, raw: np.ndarray) -> None:
        self.file, self.raw = file, raw
        self.pieces: dict[str, tuple[tuple[int, ...], torch.dtype, int, int]] = {}  # shape, type, begin, end
        self.aliases: dict[str, str] = {}

    def name(self, name: str) -> str:
        """Return the name under which a tensor is stored. Raise Problem if there is none."""
        name = self.aliases.get(name, name)
        if name not in self.pieces:
            raise broken("it has no {name}", self.file, name=name)
        return name

    def __contains__(self, name: str) -> bool:
        return self.aliases.get(name, name) in self.pieces

    def shape(self, name: str, rank: int) -> tuple[int, ...]:
        """Return the shape of a tensor. Raise Problem unless it has `rank` dimensions."""
        shape = self.pieces[self.name(name)][0]
        if len(shape) != rank or 0 in shape:
            raise broken("{name} is {shape}", self.file, name=name, shape=shape)
        return shape

    def stored(self, name: str, rows: slice = slice(None)) -> Tensor:
        """Return a tensor, or some of its rows, in its stored dtype."""
        shape, dtype, begin, end = self.pieces[self.name(name)]
        raw = self.raw[begin:end]
        if shape:
            raw = raw.reshape(shape[0], -1)[rows]
            shape = (len(raw), *shape[1:])
        raw = np.array(raw)  # copied, because the bytes may be unaligned
        return torch.from_numpy(raw).view(-1).view(dtype).reshape(shape)

    def floats(self, name: str) -> Tensor:
        """Return a floating-point tensor in float32."""
        tensor = self.stored(name)
        if not tensor.is_floating_point():
            raise broken("{name} is {dtype}", self.file, name=name, dtype=tensor.dtype)
        return tensor.float()

    def number(self, name: str, default: int | None = None) -> int:
        """Return a scalar integer, or the default if it is missing."""
        if name not in self and default is not None:
            return default
        tensor = self.stored(name)
        if tensor.numel() != 1 or tensor.is_floating_point():
            raise broken("{name} is not a single integer", self.file, name=name)
        return int(tensor.item())

    def matrix(self, name: str, rows: slice = slice(None)) -> Tensor:
        """Return a matrix, or some of its rows, in float32, dequantised if necessary."""
        name = self.name(name)
        tensor = self.stored(name, rows)
        if tensor.is_floating_point():
            return tensor.float()
        scale = self.floats(f"{name}_scale")
        if tensor.dtype == torch.int8:  # one scale per row; 16-bit matrices have a single scale
            if scale.shape != (self.shape(name, 2)[0],):
                raise broken("{name}_scale doesn't fit {name}", self.file, name=name)
            scale = scale[rows, None]
        elif scale.numel() != 1:
            raise broken("{name}_scale doesn't fit {name}", self.file, name=name)
        return tensor.float().div_(scale)

    def layers(self, side: str) -> int:
        """Return the number of layers of a side. Raise Problem if their numbering has gaps."""
        layers = {int(m[1]) for name in self.pieces if (m := re.match(rf"{side}/layer_(\d{{1,4}})/", name))}
        if not layers or layers != set(range(len(layers))):
            raise broken("the layers of its {side} are not whole", self.file, side=side)
        return len(layers)


def header(file: Path) -> tuple[str, CTranslate2File]:
    """Return the name of the layout and the tensor table, checked against the file size."""
    raw = map_file(file)
    cursor = Cursor(file, raw)

    def text() -> str:
        return cursor.text(cursor.number("H")).rstrip("\0")

    version = cursor.number("I")
    if not 2 <= version <= 6:
        raise Problem(
            "{file} is not a CTranslate2 model that qkv reads: its version is {version}, not 2 to 6",
            file=file,
            version=version,
        )
    spec, _ = text(), cursor.number("I")
    model_file = CTranslate2File(file, raw)
    count = cursor.number("I")
    cursor.require(count, 2 + 1 + 1 + 4)  # the smallest possible entry
    for _ in range(count):
        name, rank = text(), cursor.number("B")
        cursor.require(rank, 4)
        shape = tuple(cursor.number("I") for _ in range(rank))
        kind = cursor.number("B")
        kind = kind if version >= 4 else BY_SIZE.get(kind, -1)
        if kind not in TYPES or name in model_file.pieces or rank > 4 or 0 in shape:
            raise broken("{value} has an unknown type or appears twice", file, value=name[:80])
        size = TYPES[kind].itemsize
        length = cursor.number("I") * (1 if version >= 4 else size)
        if length != math.prod(shape) * size:
            raise broken("{value} is {shape} and has {length} bytes", file, value=name[:80], shape=shape, length=length)
        begin = cursor.position
        cursor.take(length)
        model_file.pieces[name] = (shape, TYPES[kind], begin, cursor.position)
    if version >= 3:
        for _ in range(cursor.number("I")):
            alias, name = text(), text()
            if alias in model_file.pieces or name not in model_file.pieces:
                raise broken("{value} is an alias of nothing", file, value=alias[:80])
            model_file.aliases[alias] = name
    return spec, model_file


def vocabulary(folder: Path) -> list[str]:
    """Return the pieces in the order of the ids, with the padding token appended."""
    file = folder / "shared_vocabulary.json"
    pieces = read_json(file, _("{file} can't be read: {error}"))
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise Problem("{file} can't be read: {error}", file=file, error=Message("it is not a list of strings"))
    with reading(file, _("{file} can't be read: {error}")):
        refuse_long(pieces)
    return [*pieces, "<pad>"]
