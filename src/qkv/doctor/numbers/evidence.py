"""The numbers behind a "right": what the child sends with its report, and what the parent recomputes from them.

The child sends q, k and v as the projections gave them, the form of attention that it found, and the context that the user's
code computed. The parent computes attention anew in NumPy. A report alone proves nothing: it is made in the process that runs
the user's code.

>>> x = np.arange(24.0).reshape(1, 3, 8) / 24
>>> evidence = Evidence(x, x, x, AttentionForm(heads=2), attention(x, x, x, AttentionForm(heads=2)), "float64")
>>> is_confirmed(evidence.to_dict()), is_confirmed({**evidence.to_dict(), "context": pack(x)}), is_confirmed(None)
(True, False, False)
"""

import base64
import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .oracle import TOLERANCE, Array, AttentionForm, Piece, attention, relative_error

LARGEST = 8 << 20  # bytes of all arrays together
SCORES = 1 << 24  # of all heads, which the parent computes
# Every choice in which a form can be right; of the others (scale, width of the rotation, …) any number.
RIGHT = {
    "split": ("hd", "dh", "given"),
    "merge": ("hd", "dh", "given"),
    "groups": ("interleave", "tile"),
    "softmax": ("keys",),
    "divide": (1.0,),
    "rotary": ("", "half", "pairs"),
    "activation": ("", "relu"),
    "slopes": ("", "right"),
    "swap": ("",),
}


class Invalid(Exception):
    """What was sent is not evidence."""


@dataclass(frozen=True)
class Evidence:
    """One run of the user's code that equals a form of attention."""

    q: Array
    k: Array
    v: Array
    form: AttentionForm
    context: Array  # computed by the user's code
    dtype: str  # in which it computed

    def to_dict(self) -> dict[str, Any] | None:
        """Plain values, for JSON; None if they are too large to send."""
        arrays = [self.q, self.k, self.v, self.context, *(piece.keep for piece in self.form.pieces)]
        if sum(array.nbytes for array in arrays) > LARGEST:
            return None
        form = {field.name: getattr(self.form, field.name) for field in fields(AttentionForm) if field.name != "pieces"}
        pieces = [pack(piece.keep) for piece in self.form.pieces if piece.how != "ignored"]
        named = {"q": self.q, "k": self.k, "v": self.v, "context": self.context}
        return {name: pack(array) for name, array in named.items()} | {
            "form": form,
            "pieces": pieces,
            "dtype": self.dtype,
        }


def is_confirmed(sent: Any) -> bool:
    """Whether the numbers that were sent are attention, computed anew. What was sent may be anything."""
    try:
        form = _form(sent["form"], sent["pieces"])
        q, k, v, context = (_unpack(sent[name]) for name in ("q", "k", "v", "context"))
        if q.shape[0] * form.heads * q.shape[-2] * k.shape[-2] > SCORES:
            return False
        with np.errstate(all="ignore"):
            mine = attention(q, k, v, form)
        tolerance = TOLERANCE.get(sent["dtype"], TOLERANCE["float32"])
        return mine.shape == context.shape and relative_error(mine, context) < tolerance
    except (Invalid, KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        return False


def pack(array: Array) -> dict[str, Any]:
    """An array as plain values."""
    array = np.ascontiguousarray(array, bool if array.dtype == bool else np.float64)
    return {"shape": list(array.shape), "type": array.dtype.name, "data": base64.b64encode(array.tobytes()).decode()}


def _unpack(sent: dict[str, Any]) -> Array:
    kinds: dict[str, Any] = {"bool": np.bool_, "float64": np.float64}
    array: Array = np.frombuffer(base64.b64decode(sent["data"], validate=True), kinds[sent["type"]])
    shape = sent["shape"]
    if not 3 <= len(shape) <= 4 or not all(type(size) is int and size > 0 for size in shape) or array.nbytes > LARGEST:
        raise Invalid(f"shape {shape}")
    return array.reshape(shape)


def _form(sent: dict[str, Any], pieces: list[Any]) -> AttentionForm:
    """A form whose every choice is right, or Invalid."""
    for name, choices in RIGHT.items():
        if sent[name] not in choices:
            raise Invalid(f"{name} is {sent[name]}")
    form = replace(AttentionForm(), **sent, pieces=tuple(Piece(_unpack(keep)) for keep in pieces[:4]))
    numbers = [form.heads, form.kv_heads, form.turned, form.base, 1.0 if form.scale is None else form.scale]
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers) or form.heads < 1:
        raise Invalid(f"form {form}")
    return form
