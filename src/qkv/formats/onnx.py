"""Weights of ONNX files, a common format of small models for the browser, often quantised to 8 bits.

    model {graph}      graph {nodes, tensors}      node {inputs, operation, name}      tensor {shape, type, name, bytes}

Only the tensors are read, from protobuf's wire format; the graph supplies names and is never run. An export keeps the
names of vectors and tables but not of matrices, which it transposes: `onnx::MatMul_17` is identified by its use, since
node `/model/layers.0/mlp/up_proj/MatMul` uses model.layers.0.mlp.up_proj.weight. An 8-bit tensor X is stored as
X_quantized, X_scale and X_zero_point: a weight is (integer − zero point) · scale.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..i18n import Problem
from .binary_reader import broken, map_file
from .families.setting_table import HfConfig
from .tensor_files import Makers, Tensors

NAMES = ("model.onnx", "model_quantized.onnx", "model_fp16.onnx", "model_int8.onnx", "model_uint8.onnx")
TYPES = {1: torch.float32, 2: torch.uint8, 3: torch.int8, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16}
PRODUCTS = {"MatMul": "/MatMul", "MatMulInteger": "/MatMul_quant"}  # operation -> suffix of the node's name
PACKED = ("MatMulNBits", "MatMulBnb4")  # less than 8 bits, in blocks
MAX_FIELDS = 4_000_000  # a model of 100 layers has about 100,000
MAX_NUMBERS = 1 << 20  # written one by one: scales and zero points

# protobuf field numbers
GRAPH = 7
NODE, INITIALIZER = 1, 5
INPUT, NODE_NAME, OPERATION = 1, 3, 4
SHAPE, TYPE, FLOATS, INTEGERS, NAME, BYTES, LOCATION = 1, 2, 4, 5, 8, 9, 14

Span = tuple[int, int]  # begin, end
Field = int | Span


def find(folder: Path) -> Path | None:
    """Return the ONNX file of a folder or of its `onnx` subfolder, else None."""
    candidates = [parent / name for name in NAMES for parent in (folder, folder / "onnx")]
    return next((file for file in candidates if file.is_file()), None)


def read(file: Path, config: HfConfig) -> tuple[HfConfig, Tensors]:
    """Return config.json, corrected where the file differs, and the tensors under Hugging Face's names."""
    graph = OnnxGraph(file)
    table: Makers = {}
    for name in graph.pieces:
        if name.endswith((".weight", ".bias")) and name not in graph.products:
            table[name] = graph.pieces[name].shape, partial(graph.floats, name)
    for name, hf_name in graph.products.items():
        if len(shape := graph.pieces[name].shape) == 2:
            table[hf_name] = shape[::-1], lambda name=name: graph.floats(name).T  # type: ignore[misc]
    if not table:
        raise broken("it has no weights with the names of a Hugging Face model", file)
    hf_config = dict(config)
    if "lm_head.weight" in graph.products.values() and any(piece.quantised for piece in graph.pieces.values()):
        hf_config["tie_word_embeddings"] = False  # the shared table was quantised twice, differently
    return hf_config, Tensors(table)


@dataclass(frozen=True)
class OnnxTensor:
    """A tensor: the span of its bytes or, if it is small, its numbers. Quantised ones need a scale and a zero point."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    span: Span
    numbers: tuple[int, ...] | None = None
    quantised: bool = False


class OnnxGraph:
    """The tensors of a file under its own names (without `_quantized`), and which products use them."""

    def __init__(self, file: Path) -> None:
        self.file, self.raw = file, map_file(file)
        self.data, self.fields_remaining = self.raw.data, MAX_FIELDS
        self.pieces: dict[str, OnnxTensor] = {}
        self.products: dict[str, str] = {}  # a tensor's name -> Hugging Face's, from the node that uses it
        nodes: list[Span] = []
        graphs = [span for number, span in self.fields((0, len(self.raw))) if number == GRAPH]
        if len(graphs) != 1:
            raise broken("it has {n} graphs where an ONNX model has one", file, n=len(graphs))
        for number, span in self.fields(self.as_span(graphs[0])):
            if number == INITIALIZER:
                self._tensor(self.as_span(span))
            elif number == NODE:
                nodes.append(self.as_span(span))
        for node in nodes:
            self._node(node)

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Read a number of 7 bits per byte, lowest first. Return it and the position after it."""
        number = 0
        for shift in range(0, 70, 7):
            if at >= end:
                break
            byte, at = self.data[at], at + 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number, at
        raise broken("byte {at} is not a protobuf number: it was cut short or damaged", self.file, at=at)

    def fields(self, span: Span) -> Iterator[tuple[int, Field]]:
        """Yield the fields of a message: field number and an integer, or the span of a string, bytes or message."""
        at, end = span
        while at < end:
            self.fields_remaining -= 1
            if self.fields_remaining < 0:
                raise broken("it has more than {most} fields", self.file, most=MAX_FIELDS)
            key, at = self.varint(at, end)
            value: Field
            if key & 7 == 0:
                value, at = self.varint(at, end)
            else:
                if key & 7 == 2:
                    length, at = self.varint(at, end)
                else:
                    length = {1: 8, 5: 4}.get(key & 7, end)  # other wire types are obsolete
                value = (at, at + length)
                at += length
                if at > end:
                    raise broken(
                        "byte {at} is not a protobuf number: it was cut short or damaged", self.file, at=value[0]
                    )
            yield key >> 3, value

    def as_span(self, value: Field) -> Span:
        """Return the span of a field. Raise Problem if it is an integer."""
        if not isinstance(value, tuple):
            raise broken("a number stands where a text or a tensor should", self.file)
        return value

    def text(self, value: Field) -> str:
        """Return a string, cut after 1000 bytes, since names are shorter."""
        begin, end = self.as_span(value)
        return str(self.data[begin : min(end, begin + 1000)], "utf-8", "replace")

    def integers(self, value: Field) -> list[int]:
        """Return a repeated integer field, packed or not."""
        if isinstance(value, int):
            return [value]
        (at, end), numbers = value, []
        while at < end:
            number, at = self.varint(at, end)
            numbers.append(number)
            if len(numbers) > MAX_NUMBERS:
                raise broken("more than {most} numbers are written one by one", self.file, most=MAX_NUMBERS)
        return numbers

    def _tensor(self, message: Span) -> None:
        name, dtype, shape = "", 0, []
        span: Span | None = None
        numbers: list[int] | None = None
        for number, value in self.fields(message):
            if number == NAME:
                name = self.text(value)
            elif number == TYPE:
                dtype = value if isinstance(value, int) else 0
            elif number == SHAPE:
                shape += self.integers(value)
            elif number in (BYTES, FLOATS):
                span = self.as_span(value)
            elif number == INTEGERS:
                numbers = [*(numbers or []), *self.integers(value)]
            elif number == LOCATION and value == 1:
                raise broken("its weights lie in another file, which qkv does not open", self.file)
        if dtype not in TYPES:
            return  # index tensors of the graph
        if len(shape) > 4 or 0 in shape or any(side >= 1 << 32 for side in shape):
            raise broken("{name} is {shape}", self.file, name=name[:80], shape=tuple(shape[:8]))
        stored_name = name.removesuffix("_quantized")
        length = len(numbers) if numbers is not None else span[1] - span[0] if span else 0
        size = 1 if numbers is not None else TYPES[dtype].itemsize
        if stored_name in self.pieces or length != math.prod(shape) * size:
            raise broken(
                "{value} is {shape} and has {length} bytes",
                self.file,
                value=name[:80],
                shape=tuple(shape),
                length=length,
            )
        low = None if numbers is None else tuple(number & 255 for number in numbers)  # −1 is written as 2⁶⁴ − 1
        self.pieces[stored_name] = OnnxTensor(tuple(shape), TYPES[dtype], span or (0, 0), low, stored_name != name)

    def _node(self, span: Span) -> None:
        inputs, operation, name = [], "", ""
        for number, value in self.fields(span):
            if number == INPUT:
                inputs.append(self.text(value))
            elif number == OPERATION:
                operation = self.text(value)
            elif number == NODE_NAME:
                name = self.text(value)
        if operation in PACKED:
            raise Problem(
                "{file} has its weights in blocks of less than 8 bits ({operation}), which qkv does not read: take "
                "the same model in 8 bits (model_quantized.onnx) or as floats (model.onnx)",
                file=self.file,
                operation=operation,
            )
        ending = PRODUCTS.get(operation)
        used = inputs[1].removesuffix("_quantized") if len(inputs) > 1 else ""
        if ending and used in self.pieces and name.endswith(ending):
            self.products[used] = name.removesuffix(ending).strip("/").replace("/", ".") + ".weight"

    def stored(self, name: str) -> Tensor:
        """Return a tensor in its stored dtype."""
        piece = self.pieces[name]
        if piece.numbers is not None:
            if piece.dtype not in (torch.uint8, torch.int8):
                raise broken("{name} is {dtype}", self.file, name=name[:80], dtype=piece.dtype)
            return torch.tensor(piece.numbers, dtype=torch.uint8).view(piece.dtype).reshape(piece.shape)
        raw = np.array(self.raw[slice(*piece.span)])  # copied, because the bytes may be unaligned
        return torch.from_numpy(raw).view(piece.dtype).reshape(piece.shape)

    def floats(self, name: str) -> Tensor:
        """Return a tensor in float32, dequantised if necessary."""
        tensor = self.stored(name)
        if self.pieces[name].quantised:
            tensor = self._scaled(name, tensor)
        elif not tensor.is_floating_point():
            raise broken("{name} is {dtype}", self.file, name=name[:80], dtype=tensor.dtype)
        return tensor.float()

    def _scaled(self, name: str, tensor: Tensor) -> Tensor:
        scaling = {}
        for part in ("scale", "zero_point"):
            if (tensor_name := f"{name}_{part}") not in self.pieces:
                raise broken("it has no {name}", self.file, name=tensor_name[:80])
            scaling[part] = self.stored(tensor_name)
            # One for the whole matrix, or one per column.
            if scaling[part].numel() != 1 and scaling[part].shape != tensor.shape[-1:]:
                raise broken("{name}_scale doesn't fit {name}", self.file, name=name[:80])
        if tensor.is_floating_point() or not scaling["scale"].is_floating_point():
            raise broken("{name} is {dtype}", self.file, name=name[:80], dtype=tensor.dtype)
        return tensor.float().sub_(scaling["zero_point"].float()).mul_(scaling["scale"].float())
