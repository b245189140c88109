"""A trace on disk: one safetensors file of q, k, v and what else decides the weights; it opens with NumPy alone.

Tensors are `{part}.{layer}.q` (B, H, N, D) after positions, `.k` and `.v` (B, G, M, D) unrepeated, `.o` the output
projection, `.sinks`, and a bias as a table over distances where it is one (`.distances`, (H, N + M − 1)) or dense. Masks
are words and small tensors (`.lengths`, `.real`) where they have a name, dense otherwise. The header carries JSON: format,
model, text, tokens, and for each call its scale, softcap and mask; `turning` holds rotary frequencies. Size grows with
n·d, never with n².
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..words import Problem

if TYPE_CHECKING:
    import torch

    from ..attention.attend import Call
    from ..attention.masks import Mask
    from .trace import Trace

FORMAT = "qkv trace 1"
Tensors = dict[str, Any]


def save(trace: Trace, path: Path, *, half: bool = False) -> None:
    """Write a trace: aside, then renamed. `half` keeps float16."""
    import torch
    from safetensors.torch import save_file

    dtype = torch.float16 if half else torch.float32
    tensors: Tensors = {}
    described: dict[str, list[dict[str, Any]]] = {part: [] for part in trace.calls}
    for part, layers in trace.calls.items():
        for i, call in enumerate(layers):
            name = f"{part}.{i}"
            for what in ("q", "k", "v", "sinks"):
                if (tensor := getattr(call, what)) is not None:
                    tensors[f"{name}.{what}"] = tensor.detach().to(dtype)
            if call.bias is not None:
                distances = _distances(call.bias)
                key, kept = ("bias", call.bias) if distances is None else ("distances", distances)
                tensors[f"{name}.{key}"] = kept.detach().float()
            described[part].append(
                {"scale": call.scale, "softcap": call.softcap, "mask": _describe(name, call, tensors)}
            )
            if name in trace.outputs:
                tensors[f"{name}.o"] = trace.outputs[name].weight.detach().to(dtype)
    tokens = {}
    for part in trace.calls:
        tokens[part] = {"queries": [_plain(t) for t in trace.queries[part]]}
        if trace.keys[part] != trace.queries[part]:
            tokens[part]["keys"] = [_plain(t) for t in trace.keys[part]]
    more = {key: value for key, value in trace.more.items() if isinstance(value, str | int | float | None)}
    if "logits" in trace.more:
        tensors["logits"] = trace.more["logits"].to(dtype)
    # Layers that are all alike, as most are, are described once.
    calls = {
        part: {"layers": len(each), "each": each[:1] if all(one == each[0] for one in each) else each}
        for part, each in described.items()
    }
    if trace.turning is not None:
        turning = torch.tensor([trace.turning.stretch, *trace.turning.frequencies], dtype=torch.float64)
        tensors["turning"] = turning
    header = dict(
        format=FORMAT, model=trace.model, text=trace.text, tokens=tokens, calls=calls, dtype=str(dtype), more=more
    )
    # Own memory for each: the file format refuses tensors that share some.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    try:
        save_file(tensors, aside, metadata={"qkv": json.dumps(header, ensure_ascii=False)})
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays) of a trace file, without torch."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("qkv", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except FileNotFoundError:
        raise Problem("trace.file.missing", file=path) from None
    except (SafetensorError, ValueError, OSError) as error:
        raise Problem("trace.file", file=path, error=error) from None
    if header.get("format") != FORMAT:
        raise Problem("trace.file.version", file=path, found=header.get("format") or "no trace", known=FORMAT)
    return header, arrays


def load(path: Path) -> Trace:
    """A trace as it was; halves are computed with in float32."""
    import torch

    from ..attention.attend import Call
    from .tokens import Tokens
    from .trace import Projection, Trace, Turning

    header, arrays = read(path)
    try:
        stretch, *frequencies = arrays.pop("turning", np.zeros(1)).tolist()
        turning = Turning(tuple(frequencies), stretch) if frequencies else None
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        tensors = {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
        calls: dict[str, list[Call]] = {}
        outputs = {}
        told_of = [
            (f"{part}.{i}", told["each"][i if len(told["each"]) > 1 else 0])
            for part, told in header["calls"].items()
            for i in range(told["layers"])
        ]
        for name, told in told_of:
            q, k, v = (tensors[f"{name}.{what}"] for what in "qkv")
            bias = tensors.get(f"{name}.bias")
            if (distances := tensors.get(f"{name}.distances")) is not None:
                bias = _spread(distances, q.shape[2], k.shape[2])
            mask = _mask(name, told["mask"], tensors)
            sinks = tensors.get(f"{name}.sinks")
            call = Call(q, k, v, mask, told["scale"], bias, told["softcap"], sinks, name)
            calls.setdefault(name.split(".")[0], []).append(call)
            if f"{name}.o" in tensors:
                outputs[name] = Projection(tensors[f"{name}.o"])

        def side(part: str, which: str) -> list[Tokens]:
            return [
                Tokens(
                    tuple(t["pieces"]), tuple(t["special"]), tuple(t["ids"]), tuple((w, a, b) for w, a, b in t["whole"])
                )
                for t in header["tokens"][part].get(which, header["tokens"][part]["queries"])
            ]

        queries, keys = ({part: side(part, which) for part in calls} for which in ("queries", "keys"))
        more = dict(header["more"]) | ({"logits": tensors["logits"]} if "logits" in tensors else {})
        return Trace(calls, queries, keys, header["model"], header["text"], outputs, more, turning)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Problem("trace.file", file=path, error=f"{type(error).__name__} {error}") from None


def _plain(tokens: Any) -> dict[str, Any]:
    return {"pieces": tokens.pieces, "special": tokens.special, "ids": tokens.ids, "whole": tokens.whole}


def _describe(name: str, call: Call, tensors: Tensors) -> list[list[Any]]:
    """The mask as words, its lengths and marks as tensors; dense where it has no such form."""
    import torch

    from ..attention.rules import Band, Full, Padding

    told: list[list[Any]] = []
    terms = call.mask.terms()
    if not all(isinstance(rule, Full | Band | Padding) for rule in terms):
        tensors[f"{name}.mask"] = call.allowed()
        return [["dense"]]
    for rule in terms:
        if isinstance(rule, Band):
            told.append(["band", rule.left, rule.right])
        elif isinstance(rule, Padding):
            kind = "real" if rule.lengths is None else "lengths"
            key = f"{name}.{kind}{len(told)}"
            tensors[key] = torch.as_tensor(getattr(rule, kind))
            told.append([kind, key])
    return told


def _mask(name: str, told: list[list[Any]], tensors: Tensors) -> Mask:
    from ..attention import masks
    from ..attention.rules import Band

    made = masks.full()
    for kind, *values in told:
        if kind == "dense":
            made = made & masks.dense(tensors[f"{name}.mask"])
        elif kind == "band":
            made = made & Band(*values)
        else:
            made = made & masks.padding(tensors[values[0]])
    return made


def _distances(bias: torch.Tensor) -> torch.Tensor | None:
    """A bias that depends on the distance alone, as one number per head and distance j − i: (H, N + M − 1)."""
    import torch

    table = bias.reshape((1,) * (4 - bias.ndim) + tuple(bias.shape))
    if table.shape[0] != 1 or 1 in table.shape[2:]:
        return None
    kept = torch.cat([table[0, :, 1:, 0].flip(-1), table[0, :, 0]], -1)  # from −(N−1) to M−1
    return kept if torch.equal(_spread(kept, table.shape[2], table.shape[3]), table) else None


def _spread(distances: torch.Tensor, n: int, m: int) -> torch.Tensor:
    """The other way: (1, H, N, M)."""
    import torch

    heads = distances.shape[0]
    wide = distances.contiguous()
    # Row i begins N − 1 − i numbers further left: a window that slides back by one per row.
    windows = wide.unfold(1, m, 1).flip(1) if n > 1 else wide.unfold(1, m, 1)
    return torch.as_tensor(windows.reshape(1, heads, n, m))
