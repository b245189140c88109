"""How a mask is handed over: its axes, its type, what True means. Canonical masks are keep (B, N, M), True = may attend."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .subject import PerItem

_tensor = torch.tensor


SHAPES = ("b1nm", "bnm", "nm", "11nm", "b11m", "bm", "b1m", "bhnm", "Hnm", "lengths", "1nm", "bm1")
SEQUENCE_FIRST = ("mb", "nmb")  # also tried where tokens come before texts


KINDS = ("bool", "float", "additive", "int")
FINITE = -1e4  # what people add where they do not add −inf


@dataclass(frozen=True)
class Format:
    """How a mask is handed over: its axes, what its numbers are, and what True means (or that −inf is a finite number)."""

    shape: str = "b1nm"
    kind: str = "bool"
    means: str = "keep"

    @property
    def meaning(self) -> str:
        """ "keep", "block" or "additive"."""
        return "additive" if self.kind == "additive" else self.means

    def encode(
        self, keep: np.ndarray, heads: int, framework: str, dtype: str = "float64", per_item: bool = False
    ) -> Any:
        """keep (B, N, M) as the tensor; None where this format can't say it."""
        m = keep.shape[-1]
        same_rows = bool((keep == keep[:, :1]).all())
        same_items = bool((keep == keep[:1]).all())
        if per_item:
            if self.shape not in ("nm", "b1m", "bm"):
                return None
            items = [
                Format("nm" if self.shape == "nm" else "m", self.kind, self.means)._one(
                    k if self.shape == "nm" else k[0], framework, dtype
                )
                for k in keep
            ]
            return PerItem(items) if self.shape == "nm" or same_rows else None
        if self.shape == "lengths":
            counts = keep[:, 0].sum(-1)
            front = np.arange(m) < counts[:, None]
            if not same_rows or not (keep[:, 0] == front).all():
                return None
            return counts if framework == "numpy" else _tensor(counts)
        shaped = {
            "b1nm": keep[:, None],
            "bnm": keep,
            "nm": keep[0] if same_items else None,
            "11nm": keep[:1, None] if same_items else None,
            "1nm": keep[:1] if same_items else None,
            "b11m": keep[:, None, :1] if same_rows else None,
            "bm": keep[:, 0] if same_rows else None,
            "b1m": keep[:, :1] if same_rows else None,
            "bhnm": np.repeat(keep[:, None], heads, 1),
            "Hnm": np.repeat(keep, heads, 0),
            "bm1": keep[:, 0, :, None] if same_rows else None,
            "mb": keep[:, 0].T if same_rows else None,
            "nmb": keep.transpose(1, 2, 0),
        }[self.shape]
        return None if shaped is None else self._one(shaped, framework, dtype)

    def _one(self, keep: np.ndarray, framework: str, dtype: str) -> Any:
        if self.kind == "additive":
            array: Any = np.where(keep, 0.0, FINITE if self.means == "finite" else -np.inf).astype(dtype)
        else:
            raw = keep if self.means == "keep" else ~keep
            array = (
                np.ascontiguousarray(raw)
                if self.kind == "bool"
                else raw.astype(dtype if self.kind == "float" else "int64")
            )
        return array if framework == "numpy" else _tensor(np.ascontiguousarray(array))

    def __str__(self) -> str:
        axes = {"H": "B·H", "b": "B", "h": "H", "n": "n", "m": "m", "1": "1"}
        shape = "lengths (B,)" if self.shape == "lengths" else f"({', '.join(axes[c] for c in self.shape)})"
        kind = (
            "additive" if self.kind == "additive" else f"True = {'may attend' if self.means == 'keep' else 'blocked'}"
        )
        return (
            shape
            if self.shape == "lengths"
            else f"{shape}, {self.kind if self.kind != 'additive' else ''} {kind}".replace("  ", " ").replace(
                ", ,", ","
            )
        )


def formats(parameter: str, role_: str, hint: str | None = None, layout: str = "") -> list[Format]:
    """Formats worth trying for a mask parameter, likeliest first; `hint` "keep", "block" or "additive" leaves only these."""
    if role_ == "lengths":
        return [Format("lengths")]
    name = parameter.lower()
    first = [s for s in SHAPES if s != "lengths"]
    if "pad" in name or "key" in name:
        first = ["bm", "b11m", "b1m", *first]
    shapes = list(dict.fromkeys([*first, *(SEQUENCE_FIRST if layout == "nbc" else ())]))
    meanings = {"keep": ("keep",), "block": ("block",)}.get(hint or "", ("keep", "block"))
    kinds = (
        ("additive",)
        if hint == "additive"
        else ("bool", "float", "int")
        if hint in ("keep", "block")
        else ("bool", "float", "int", "additive")
    )
    found = [Format(s, k, w) for k in kinds for s in shapes for w in (meanings if k != "additive" else ("keep",))]
    return [*found, Format("lengths")] if "len" in name else found
