"""A trace on disk: one safetensors file of q, k, v and what else decides the weights; it opens with NumPy alone.

Tensors are `{part}.{layer}.q` (B, H, N, D) after positions, `.k` and `.v` (B, G, M, D) unrepeated, `.bias` and `.sinks`
where there are some, `.mask` (bool) where the mask has no name of its own. The header carries JSON: format, model,
tokens, and for each call its scale, softcap and mask.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..attention.attend import Call

FORMAT = "qkv trace 1"


def save_calls(
    path: Path, calls: list[Call], *, model: str, tokens: dict[str, list[str]], half: bool = True, **more: Any
) -> None:
    """Write recorded calls, named "decoder.0", "cross.3", …; float16 unless told otherwise. Aside, then renamed."""
    import torch
    from safetensors.torch import save_file

    from ..attention.rules import Band, Full

    tensors: dict[str, torch.Tensor] = {}
    described: dict[str, dict[str, Any]] = {}
    for number, call in enumerate(calls):
        name = call.name or f"call.{number}"
        for what in ("q", "k", "v", "bias", "sinks"):
            tensor = getattr(call, what)
            if tensor is not None:
                kept = tensor.detach().to(torch.float16 if half else torch.float32)
                tensors[f"{name}.{what}"] = kept.contiguous().clone()
        rules = call.mask.terms()
        if not all(isinstance(rule, (Full, Band)) for rule in rules):
            tensors[f"{name}.mask"] = call.allowed().contiguous().clone()
        described[name] = {"scale": call.scale, "softcap": call.softcap, "mask": repr(call.mask)}
    header = {"format": FORMAT, "model": model, "tokens": tokens, "calls": described, **more}
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, part, metadata={"qkv": json.dumps(header, ensure_ascii=False)})
    os.replace(part, path)


def open_calls(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, tensors) of a trace file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("qkv", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except FileNotFoundError:
        raise ValueError(f"there is no trace {path}") from None
    except (SafetensorError, ValueError, OSError) as error:
        raise ValueError(f"{path} is not a readable trace: {error}") from None
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} is {header.get('format') or 'no trace of qkv'}; this version reads {FORMAT!r}")
    return header, tensors
