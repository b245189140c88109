"""Trace files: one safetensors file of q, k, v and everything else that determines the weights; NumPy alone can read it.

Tensors of attention: `{part}.{layer}.q` (B, H, N, D) after positions, `.k` and `.v` (B, G, M, D) unrepeated, `.o` the output
projection, `.sinks`, and a bias as a table over distances if possible (`.distances`, (H, N + M − 1)), else dense (`.bias`).
Layers have the model's numbers (`numbers` in the header if some have no attention). Masks are words and small tensors
(`.lengths`, `.real`) if they have such a form, else dense. The size grows with n·d; weights alone, which have q, k and v of
width 0 and the logarithms of the weights as bias, grow with n².

Tensors of mixers: q and k (B, G, N, D), v (B, H, N, P), `.decay` (B, H, N) as logarithms, for the delta rule `.write`
(B, H, N), `.real` and `.resets` (B, N) for padding and the starts of documents. Layers with experts have
`experts.{part}.{layer}.chosen` and `.shares` (B, N, K). `turning` holds rotary frequencies.

The header is JSON: format, model, text, tokens, and for each call its scale, softcap and mask.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from ...attention import masks
from ...attention.dispatch import Call
from ...attention.mask_algebra import Full
from ...attention.masks import Mask
from ...attention.rules import Band, Padding
from ...disk.atomic_files import save_tensors
from ...i18n import Message, Problem, quoted
from ...mixers.calls import Mixing
from ...model.experts import Routing
from .token_labels import Tokens
from .trace_parts import Projection, Turning
from .trace_schema import Header, WrongTrace, check
from .traces import Trace

FORMAT = "qkv trace 1"
Tensors = dict[str, torch.Tensor]
# The header of a call, its tensors by name that may be written in half precision, and those that may not.
_StoredCall = tuple[Header, dict[str, torch.Tensor | None], dict[str, torch.Tensor | None]]
# Errors that an invalid file can cause.
WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


def save(trace: Trace, path: Path, *, half: bool = False) -> None:
    """Write a trace, with `half` in float16."""
    dtype = torch.float16 if half else torch.float32
    tensors: Tensors = {}
    calls: Header = {}
    for part, layers in trace.calls.items():
        descriptions = []
        for i, call in zip(trace.layers(part), layers, strict=True):
            name = f"{part}.{i}"
            description, tensors_of, exact_tensors = (
                _mixing(call) if isinstance(call, Mixing) else _attention(name, call)
            )
            if name in trace.outputs:
                tensors_of["o"] = trace.outputs[name].weight
            tensors |= {f"{name}.{what}": t.to(dtype) for what, t in tensors_of.items() if t is not None}
            tensors |= {f"{name}.{what}": t for what, t in exact_tensors.items() if t is not None}
            descriptions.append(description)
        # Layers with equal descriptions, as in most models, are described once.
        alike = all(description == descriptions[0] for description in descriptions)
        calls[part] = {"layers": len(descriptions), "each": descriptions[:1] if alike else descriptions}
    for part, numbers in trace.numbers.items():
        calls[part]["numbers"] = list(numbers)
    tokens = {}
    for part in trace.calls:
        tokens[part] = {"queries": [_plain(t) for t in trace.queries[part]]}
        if trace.keys[part] != trace.queries[part]:
            tokens[part]["keys"] = [_plain(t) for t in trace.keys[part]]
    more = {key: value for key, value in trace.more.items() if isinstance(value, str | int | float | None)}
    if "logits" in trace.more:
        tensors["logits"] = trace.more["logits"].to(dtype)
    for name, routing in trace.routing.items():
        tensors[f"experts.{name}.chosen"] = routing.chosen.to(torch.int32)
        tensors[f"experts.{name}.shares"] = routing.shares.float()
    if trace.turning is not None:
        tensors["turning"] = torch.tensor([trace.turning.stretch, *trace.turning.frequencies], dtype=torch.float64)
    header = dict(
        format=FORMAT, model=trace.model, text=trace.text, tokens=tokens, calls=calls, dtype=str(dtype), more=more
    )
    if trace.routing:
        header["experts"] = {name: routing.count for name, routing in trace.routing.items()}
    # The file format refuses tensors that share memory.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors, path, metadata={"qkv": json.dumps(header, ensure_ascii=False)})


def read(path: Path) -> tuple[Header, dict[str, np.ndarray]]:
    """Return (header, arrays) of a trace file. The header is checked before any tensor is read."""
    if path.exists() and not path.is_file():  # opening a pipe would block
        raise Problem("{file} is not a readable trace: {error}", file=path, error=Message("it is no regular file"))
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("qkv", "{}"))
            file_format = header.get("format") if isinstance(header, dict) else None
            if file_format != FORMAT:
                file_format = str(file_format)[:80] if file_format else Message("no trace")
                raise Problem(
                    "{file} is {found}; this version reads {known}", file=path, found=file_format, known=FORMAT
                )
            slices = {name: file.get_slice(name) for name in file.keys()}
            check(header, {name: (tuple(s.get_shape()), str(s.get_dtype())) for name, s in slices.items()})
            arrays = {name: file.get_tensor(name) for name in slices}
    except Problem:
        raise
    except FileNotFoundError:
        raise Problem("there is no trace {file}", file=path) from None
    except (SafetensorError, OSError, *WRONG) as error:
        raise _unreadable(path, error) from None
    return header, arrays


def _unreadable(path: Path, error: BaseException) -> Problem:
    return Problem(
        "{file} is not a readable trace: {error}",
        file=path,
        error=error.why if isinstance(error, WrongTrace) else quoted(error),
    )


def load(path: Path) -> Trace:
    """Read a trace; float16 tensors become float32."""
    header, arrays = read(path)
    try:
        stretch, *frequencies = arrays.pop("turning", np.zeros(1)).tolist()
        turning = Turning(tuple(frequencies), stretch) if frequencies else None
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        tensors = {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
        calls: dict[str, list[Call | Mixing]] = {}
        outputs = {}
        numbers = {
            part: tuple(description["numbers"])
            for part, description in header["calls"].items()
            if "numbers" in description
        }
        for part, description in header["calls"].items():
            calls[part] = []
            for index, i in enumerate(numbers.get(part, range(description["layers"]))):
                name, layer = f"{part}.{i}", description["each"][index if len(description["each"]) > 1 else 0]
                if part == "mixers":
                    q, k, v, decay = (tensors[f"{name}.{what}"] for what in ("q", "k", "v", "decay"))
                    write, real, resets = (tensors.get(f"{name}.{what}") for what in ("write", "real", "resets"))
                    mixing = Mixing(q, k, v, decay, layer["scale"], write, None, real, resets, f"decoder.{i}")
                    calls[part].append(mixing)
                    continue
                q, k, v = (tensors[f"{name}.{what}"] for what in "qkv")
                bias, distances, sinks, o = (tensors.get(f"{name}.{w}") for w in ("bias", "distances", "sinks", "o"))
                bias = bias if distances is None else _spread(distances, q.shape[2], k.shape[2])
                mask = _mask(name, layer["mask"], tensors)
                mask.check(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
                calls[part].append(Call(q, k, v, mask, layer["scale"], bias, layer["softcap"], sinks, name))
                if o is not None:
                    outputs[name] = Projection(o)
        sides = {part: header["tokens"][part] for part in calls}
        queries = {part: [_tokens(t) for t in side["queries"]] for part, side in sides.items()}
        keys = {part: [_tokens(t) for t in side.get("keys", side["queries"])] for part, side in sides.items()}
        more = dict(header["more"]) | ({"logits": tensors["logits"]} if "logits" in tensors else {})
        if header.get("dtype") == "torch.float16":
            more["precision"] = "float16"  # also if it is saved again in float32
        routing = {
            name: Routing(name, tensors[f"experts.{name}.chosen"].long(), tensors[f"experts.{name}.shares"], count)
            for name, count in header.get("experts", {}).items()
        }
        return Trace(calls, queries, keys, header["model"], header["text"], outputs, more, turning, numbers, routing)
    except WRONG as error:
        raise _unreadable(path, error) from None


def _plain(tokens: Tokens) -> dict[str, object]:
    return {"pieces": tokens.pieces, "special": tokens.special, "ids": tokens.ids, "whole": tokens.whole}


def _tokens(plain: Header) -> Tokens:
    whole = tuple((text, first, end) for text, first, end in plain["whole"])
    return Tokens(tuple(plain["pieces"]), tuple(plain["special"]), tuple(plain["ids"]), whole)


def _mixing(call: Mixing) -> _StoredCall:
    """Return what to store of a mixer's call. Decays stay in float32, since they are summed over the text."""
    tensors = {"q": call.q, "k": call.k, "v": call.v, "write": call.write}
    exact = {"decay": call.decay.float(), "real": call.keep, "resets": call.resets}
    return {"scale": call.scale, "softcap": None, "mask": []}, tensors, exact


def _attention(name: str, call: Call) -> _StoredCall:
    """Return what to store of an attention call: the mask as words and small tensors, or dense if it has no such form."""
    tensors = {"q": call.q, "k": call.k, "v": call.v, "sinks": call.sinks}
    exact: dict[str, torch.Tensor | None] = {}
    if call.bias is not None:
        distances = distances_of(call.bias)
        exact = {"bias": call.bias.float()} if distances is None else {"distances": distances.float()}
    mask: list[list[object]] = []
    terms = call.mask.terms()
    if not all(isinstance(rule, Full | Band | Padding) for rule in terms):
        mask, exact["mask"], terms = [["dense"]], call.allowed(), ()
    for rule in terms:
        if isinstance(rule, Band):
            mask.append(["band", rule.left, rule.right])
        elif isinstance(rule, Padding):
            kind = "real" if rule.lengths is None else "lengths"
            exact[f"{kind}{len(mask)}"] = torch.as_tensor(getattr(rule, kind))
            mask.append([kind, f"{name}.{kind}{len(mask)}"])
    return {"scale": call.scale, "softcap": call.softcap, "mask": mask}, tensors, exact


def _mask(name: str, description: list[list[Any]], tensors: Tensors) -> Mask:
    mask = masks.full()
    for kind, *values in description:
        if kind == "dense":
            mask = mask & masks.dense(tensors[f"{name}.mask"])
        elif kind == "band":
            behind, ahead = values
            if any(side is not None and (type(side) is not int or abs(side) >= 2**31) for side in values):
                raise Problem("{name}: a band from {left} to {right} is no mask", name=name, left=behind, right=ahead)
            mask = mask & Band(behind, ahead)
        else:
            mask = mask & masks.padding(tensors[values[0]])
    return mask


def distances_of(bias: torch.Tensor) -> torch.Tensor | None:
    """Return a bias as one number per head and distance j − i, (H, N + M − 1); None if it depends on more."""
    table = bias.reshape((1,) * (4 - bias.ndim) + tuple(bias.shape))
    if table.shape[0] != 1 or 1 in table.shape[2:]:
        return None
    distances = torch.cat([table[0, :, 1:, 0].flip(-1), table[0, :, 0]], -1)  # from −(N−1) to M−1
    return distances if torch.equal(_spread(distances, table.shape[2], table.shape[3]), table) else None


def _spread(distances: torch.Tensor, n: int, m: int) -> torch.Tensor:
    """Return the dense bias (1, H, N, M) of a table over distances."""
    heads = distances.shape[0]
    wide = distances.contiguous()
    # Row i starts at N − 1 − i: a window that slides back by one per row.
    windows = wide.unfold(1, m, 1).flip(1) if n > 1 else wide.unfold(1, m, 1)
    return torch.as_tensor(windows.reshape(1, heads, n, m))
