"""The schema of a trace file's header and tensors, as data, and the check of a file against it.

The header is checked before any tensor is read: `check` needs only the shapes and dtypes that the file declares.

B batch, H heads, G key/value heads, N queries, M keys, D and P widths, S = N + M − 1 distances, W = H·P, C model width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...i18n import Message, all_of
from .token_labels import PARTS

Header = dict[str, Any]  # JSON
Declared = Mapping[str, tuple[tuple[int, ...], str]]  # a tensor's name → its shape and dtype
FLOATS = ("F16", "F32", "F64")
NUMBERS = (*FLOATS, "U8", "I8", "I16", "I32", "I64")
DTYPES = (*NUMBERS, "BOOL")


class WrongTrace(ValueError):
    """The header of a trace file is invalid."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class TensorSchema:
    """The axes and dtypes of a tensor; axes in `loose` may have size 1, and with `partial` the first ones may be missing."""

    axes: str
    dtypes: tuple[str, ...] = FLOATS
    loose: str = ""
    partial: bool = False

    def fits(self, shape: tuple[int, ...], dtype: str, sizes: dict[str, int]) -> bool:
        """True if a tensor fits; an axis that `sizes` doesn't have gets the tensor's size.

        >>> sizes = {"H": 4}
        >>> TensorSchema("HD").fits((4, 8), "F32", sizes), sizes, TensorSchema("DH").fits((4, 4), "F32", sizes)
        (True, {'H': 4, 'D': 8}, False)
        """
        axes = self.axes[len(self.axes) - len(shape) :] if self.partial else self.axes
        if len(axes) != len(shape) or dtype not in self.dtypes:
            return False
        pairs = zip(axes, shape, strict=True)
        return all((size == 1 and axis in self.loose) or size == sizes.setdefault(axis, size) for axis, size in pairs)


ATTENTION = {
    "q": TensorSchema("BHND"),
    "k": TensorSchema("BGMD"),
    "v": TensorSchema("BGMP"),
    "bias": TensorSchema("BHNM", NUMBERS, "BHNM", partial=True),
    "mask": TensorSchema("BHNM", ("BOOL",), "BHNM", partial=True),
    "distances": TensorSchema("HS", NUMBERS, "H"),
    "sinks": TensorSchema("H", NUMBERS, "H"),
    "o": TensorSchema("CW"),
}
MIXER = {
    "q": TensorSchema("BGND"),
    "k": TensorSchema("BGND"),
    "v": TensorSchema("BHNP"),
    "decay": TensorSchema("BHN"),
    "write": TensorSchema("BHN"),
    "real": TensorSchema("BN", ("BOOL",)),
    "resets": TensorSchema("BN", ("BOOL",)),
}
EXPERTS = {"chosen": TensorSchema("BNK", ("I32",)), "shares": TensorSchema("BNK", ("F32",))}


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# A type is a value's own; {key: …} are required keys; [x] is a list of x; (x, y) is either; None and functions are tests.
Schema = type | dict[str, "Schema"] | list["Schema"] | tuple["Schema", ...] | Callable[[object], bool] | None
TEXTS: Schema = {"more": dict, "model": str, "text": str}
LAYER: Schema = {"scale": _finite, "softcap": (None, _finite), "mask": list}
TOKENS: Schema = {"pieces": [str], "special": [bool], "ids": [int], "whole": list}


def fits(value: Any, schema: Schema) -> bool:
    """True if a JSON value has the form of a schema; a key that is missing is a KeyError.

    >>> fits({"a": [1, 2], "b": None}, {"a": [int], "b": (None, str)}), fits([1, True], [int])
    (True, False)
    """
    if isinstance(schema, dict):
        return all(fits(value[key], each) for key, each in schema.items())
    if isinstance(schema, list):
        return isinstance(value, list) and all(fits(item, schema[0]) for item in value)
    if isinstance(schema, tuple):
        return any(fits(value, each) for each in schema)
    if isinstance(schema, type):
        return type(value) is schema
    return value is None if schema is None else schema(value)


def check(header: Header, declared: Declared) -> None:
    """Raise `WrongTrace` if the header doesn't describe a trace that these tensors can hold."""
    for name, (_, dtype) in declared.items():
        _require(dtype in DTYPES, Message("{name} holds {dtype}", name=name, dtype=dtype))
    calls, tokens = header["calls"], header["tokens"]
    right = isinstance(calls, dict) and calls and calls.keys() <= PARTS.keys() and isinstance(tokens, dict)
    _require(right, Message("its calls aren't those of a model"))
    _require(fits(header, TEXTS), Message("model, text or more is missing"))
    _require(_has_experts(header.get("experts", {}), declared), Message("its experts aren't those of a model"))
    for part, described in calls.items():
        numbers = _layer_numbers(part, described, len(declared))
        sizes = {_layer_size(f"{part}.{i}", MIXER if part == "mixers" else ATTENTION, declared) for i in numbers}
        _require(len(sizes) == 1, Message("layers of {part} differ in size", part=part))
        batch, n, m = sizes.pop()
        for which, length in (("queries", n), ("keys", m)):
            _check_tokens(part, which, tokens[part].get(which, tokens[part]["queries"]), batch, length)


def _require(right: object, why: Message) -> None:
    if not right:
        raise WrongTrace(why)


def _layer_numbers(part: str, described: Header, tensors: int) -> list[int]:
    """Return the numbers of a part's layers, each of which is described."""
    layers, each = described["layers"], described["each"]
    right = type(layers) is int and 0 < layers <= tensors // 3
    _require(right, Message("{part} has {value} layers", part=part, value=str(layers)[:20]))
    right = fits(each, [dict]) and len(each) in (1, layers)
    _require(right, Message("{part} doesn't describe its {layers} layers", part=part, layers=layers))
    _require(fits(each, [LAYER]), Message("{part} has a wrong scale or mask", part=part))
    numbers: list[int] = described.get("numbers", list(range(layers)))
    right = fits(numbers, [int]) and len(numbers) == layers and numbers[0] >= 0
    right = right and all(a < b for a, b in pairwise(numbers))
    _require(right, Message("{part} has wrong layer numbers", part=part))
    return numbers


def _layer_size(name: str, schema: dict[str, TensorSchema], declared: Declared) -> tuple[int, int, int]:
    """Return the (B, N, M) of a layer whose tensors fit each other."""
    missing = [f"{name}.{what}" for what in "qkv" if f"{name}.{what}" not in declared]
    _require(not missing, Message("{missing} missing", missing=all_of(missing)))
    mixer = schema is MIXER
    sizes: dict[str, int] = {}
    wrong = [what for what in "qkv" if not schema[what].fits(*declared[f"{name}.{what}"], sizes)]
    right = not wrong and min(sizes[axis] for axis in "BHGN") > 0 and sizes["H"] % sizes["G"] == 0
    if right:
        sizes = {"M": sizes["N"]} | sizes
        sizes |= {"S": sizes["N"] + sizes["M"] - 1, "W": sizes["H"] * sizes["P"]}
        # Weights alone have q, k and v of width 0, and a bias.
        bare = not mixer and bool({f"{name}.bias", f"{name}.distances"} & declared.keys())
        widths = sizes["D"], sizes["P"]
        right = sizes["M"] > 0 and (min(widths) > 0 or (bare and max(widths) == 0))
        there = [what for what in schema if f"{name}.{what}" in declared]
        wrong = [what for what in there if not schema[what].fits(*declared[f"{name}.{what}"], sizes)]
    if mixer or not right:
        right = right and not wrong and (not mixer or f"{name}.decay" in declared)
        q, k, v = (declared[f"{name}.{what}"][0] for what in "qkv")
        _require(right, Message("{name} has q {q}, k {k}, v {v}", name=name, q=q, k=k, v=v))
    if wrong:
        shape = declared[f"{name}.{wrong[0]}"][0]
        raise WrongTrace(Message("{name}.{what} is {shape}", name=name, what=wrong[0], shape=shape))
    return sizes["B"], sizes["N"], sizes["M"]


def _check_tokens(part: str, which: str, items: list[Header], batch: int, length: int) -> None:
    """Check the tokens of `batch` texts of this length."""
    is_valid = isinstance(items, list) and len(items) == batch
    _require(is_valid, Message("{part} has {batch} texts but not their {which}", part=part, batch=batch, which=which))
    for item in items:
        _require(fits(item, TOKENS), Message("{part}: {which} are no tokens", part=part, which=which))
        count = len(item["pieces"])
        is_valid = count == length and len(item["special"]) in (0, length) and len(item["ids"]) <= length
        values = dict(part=part, length=length, which=which, count=count)
        _require(is_valid, Message("{part} has {length} {which}, {count} tokens", **values))
        for text, first, end in item["whole"]:
            is_valid = fits([text], [str]) and fits([first, end], [int]) and 0 <= first < end <= length
            _require(is_valid, Message("{part}: wrong tokens", part=part))


def _has_experts(experts: Any, declared: Declared) -> bool:
    """True if these are the numbers of experts of layers, each with tensors of chosen experts and shares."""
    if not isinstance(experts, dict):
        return False
    for name, count in experts.items():
        if not (re.fullmatch(r"(encoder|decoder)\.\d{1,6}", name) and type(count) is int and 0 < count < 1 << 31):
            return False
        sizes: dict[str, int] = {}
        there = {what: declared.get(f"experts.{name}.{what}", ((), "")) for what in EXPERTS}
        if not all(schema.fits(*there[what], sizes) for what, schema in EXPERTS.items()):
            return False
    return True
