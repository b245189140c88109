"""The data of a page: tokens, a small picture of every head, and as many layers' q, k and v as fit.

Arrays are text: bytes plane by plane, deflated, in base64. Masks and biases are rules or small tables where possible,
so the size doesn't grow with n². Tokens and pictures are always included, then q, k and v of every layer in float32. If
that is too large, float16 is used: q and k of the requested layers, then of layers with a head that links the words of
`focus`, strongest first, then of the others, alternating between kinds of heads (tracing/study/survey.py); then v in
the same order. Each layer has error bounds of its weights, q·k and v, which decide how many digits the page shows.

A mixer's layer (retention, Mamba-2, the delta rule) also has its log-decays and writes β, always in float32, and
document starts. Its weights have any size, so their errors are relative to the largest of their head.

B batch, H heads, G key/value heads (of a mixer: groups of q and k), N queries, M keys, D head width.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..attention.dispatch import Call
from ..i18n import Problem, unknown
from ..mixers.calls import Mixing
from ..tracing.study.survey import KINDS, Layer, Progress, in_turn, plain
from ..tracing.views.token_labels import BY, NoSuchToken
from ..tracing.views.traces import Trace, no_layer
from .layer_json import (
    DTYPES,
    Json,
    Stored,
    bias_json,
    default_opening,
    dtype_of,
    layer_header,
    mask_json,
    mixer_tensors,
    token_lists,
)
from .precision import HALF, difference, measure_errors

LINK_SHARE = 0.1  # a weight that counts as a link between the words of `focus`
MIN_PACKED_SHARE = 4 / 3 * 0.8  # packed float32 numbers are never smaller than this share of their bytes
MAX_HALF_ERROR = 2.5e-3  # with a larger measured error q and k stay in float32

Opening = tuple[str, int, int]  # part, layer, head


@dataclass
class PageData:
    """The header of a page and its packed blocks by name; `room` is the bytes left."""

    room: int
    header: Json = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # content hash → block: equal masks are stored once
    best_ratios: dict[str, float] = field(default_factory=dict)  # dtype → the best compression so far

    @property
    def whole(self) -> dict[str, list[int]]:
        """The layers of each part that have q and k, not only small pictures."""
        return {
            part["name"]: [layer["number"] for layer in part["layers"] if layer["q"] is not None]
            for part in self.header["parts"]
        }

    def add(self, name: str, array: np.ndarray, *, must: bool = False) -> Stored | None:
        """Store an array and return its reference, or None if there is no room."""
        dtype = dtype_of(array)
        if array.nbytes * self.best_ratios.get(dtype, 0.0) > self.room and not must:
            return None  # too large even at the best compression so far
        block, _ = pack(array)
        if array.nbytes > 1 << 16 and dtype != "u1":
            self.best_ratios[dtype] = min(self.best_ratios.get(dtype, 9.0), 0.9 * len(block) / array.nbytes)
        cost = len(block) + len(name) + 100
        if cost > self.room and not must:
            return None
        self.room -= cost
        self.blocks[name] = block
        return Stored(id=name, shape=list(array.shape), dtype=dtype)

    def share(self, name: str, array: np.ndarray) -> Stored | None:
        """Store an array that several layers may share."""
        key = hashlib.sha256(array.tobytes() + str(array.shape).encode()).hexdigest()
        if key not in self.names:
            if self.add(name, array) is None:
                return None
            self.names[key] = name
        return Stored(id=self.names[key], shape=list(array.shape), dtype=dtype_of(array))


def build_page_data(
    trace: Trace,
    room: int,
    layers: Sequence[int] | None = None,
    focus: tuple[int | str, int | str] | None = None,
    lang: str | None = None,
    progress: Progress | None = None,
    opening: Opening | None = None,
    by: str = "characters",
) -> PageData:
    """Return the data of a page of at most `room` bytes; the module docstring has the order."""
    if by not in BY:
        raise unknown("by", by, BY)
    for layer in layers or ():
        available = sorted({number for part in trace.parts for number in trace.layers(part)})
        if layer not in available:
            raise no_layer(layer, tuple(available))
    link = None if focus is None else _find_focus(trace, focus, None if opening is None else opening[0])
    data = PageData(room)
    numbers, listed = token_lists(*({part: side[part] for part in trace.parts} for side in (trace.queries, trace.keys)))
    tokens = json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode()
    stored_tokens = data.add("tokens", np.frombuffer(tokens, np.uint8), must=True)
    parts, looks, tops = _overview(trace, data, numbers, progress)
    linked = [] if link is None else _linked_layers(trace, link, tops)
    data.header = dict(
        model=trace.model,
        text=text_of(trace),
        lang=lang,
        context=trace.more.get("context"),  # the model's, if the text is longer
        tokens=stored_tokens,
        parts=parts,
        focus=link,
        first=None,
    )
    # Arrays add at most this many bytes to a layer's JSON.
    data.room -= len(json.dumps(data.header, ensure_ascii=False).encode()) + 600 * len(looks)
    _add_tensors(trace, data, _layer_order(layers or (), [*dict.fromkeys(linked)], looks))
    data.header["first"] = _opening(trace, data.header, opening)
    split = any(tokens["characters"] for tokens in listed)
    data.header["first"]["unit"] = "tokens" if by == "characters" and not split else by
    return data


def _overview(
    trace: Trace, data: PageData, numbers: Mapping[tuple[str, bool], list[int]], progress: Progress | None
) -> tuple[list[Json], dict[Layer, dict[str, float]], dict[Layer, list[list[float]]]]:
    """Survey every part and store a small picture of each head.

    Return the JSON of every part, each layer's best score for each kind of head, and each layer's largest weight per text of the
    batch and head. `numbers` has the token lists of each (part, whether of keys).
    """
    total = sum(call.q.shape[0] * call.n_head for calls in trace.calls.values() for call in calls)
    parts: list[Json] = []
    looks: dict[Layer, dict[str, float]] = {}
    tops: dict[Layer, list[list[float]]] = {}
    done = 0
    for part in trace.parts:

        def report(heads: int, _: int, done: int = done) -> None:
            if progress is not None:
                progress(done + heads, total)

        survey = trace.survey(part, report)
        layers = []
        for index, layer in enumerate(trace.layers(part)):
            heads = [look.looks for item in survey.heads for look in item[index]]
            looks[part, layer] = {kind: max(look[kind] for look in heads) for kind in KINDS}
            tops[part, layer] = [[look.top for look in item[index]] for item in survey.heads]
            call = trace.call(layer, part)
            layers.append(layer_header(call, layer) | dict(linkError=measure_errors(trace, plain(call))["weight"]))
        stack = np.stack([[look.picture for heads in item for look in heads] for item in survey.heads])
        done += stack.shape[0] * stack.shape[1]
        parts.append(
            dict(
                name=part,
                n=trace.calls[part][0].q.shape[2],
                m=trace.calls[part][0].k.shape[2],
                queries=numbers[part, False],
                keys=numbers[part, True],
                layers=layers,
                thumbs=dict(stored=data.add(f"{part}.thumbs", stack, must=True), tall=survey.tall, wide=survey.wide),
                links=[[[look.link for look in heads] for heads in item] for item in survey.heads],
                signed=part == "mixers",
                tops=[tops[part, layer] for layer in trace.layers(part)] if part == "mixers" else None,
                precision=None,
            )
        )
    return parts, looks, tops


def _linked_layers(trace: Trace, link: Json, tops: Mapping[Layer, list[list[float]]]) -> list[Layer]:
    """Return the layers that link the two words, strongest first; add the ten strongest heads to `link`."""
    part = link["part"]
    top = trace.find(link["query"], link["key"], part=part, most=10**6)
    indices = {number: i for i, number in enumerate(trace.layers(part))}
    digits = ".6g" if part == "mixers" else ".6f"
    link["top"] = [(indices[layer], head, float(f"{share:{digits}}")) for layer, head, share in top[:10]]
    return [
        (part, layer)
        for layer, head, share in top
        if abs(share) >= LINK_SHARE * tops[part, layer][0][head] or layer == top[0][0]
    ]


def _opening(trace: Trace, header: Json, opening: Opening | None) -> Json:
    """Return the initial view: the head of `opening`, else the strongest of the focus, else the default."""
    focus = header["focus"]
    if opening is not None:
        part, layer, head = opening
        trace.head(layer, head, part)  # raises if it doesn't exist
        part_header = next(candidate for candidate in header["parts"] if candidate["name"] == part)
        index = trace.layers(part).index(layer)
        i, j, _ = part_header["links"][0][index][head] or (0, 0, 0.0)
        if focus is not None and focus["part"] == part:
            i, j = focus["query"], focus["key"]
        return dict(part=part, item=0, layer=index, head=head, query=i, key=j)
    if focus is not None:
        layer, head, _ = focus["top"][0]
        return {key: focus[key] for key in ("part", "item", "query", "key")} | dict(layer=layer, head=head)
    return default_opening(trace, header["parts"])


def _layer_order(
    preferred: Sequence[int], linked: Sequence[Layer], looks: dict[Layer, dict[str, float]]
) -> list[Layer]:
    """Return every layer: the preferred ones, the linked ones, then the others by kind."""
    order = [*linked, *in_turn({layer: kinds for layer, kinds in looks.items() if layer not in linked})]
    return sorted(order, key=lambda layer: layer[1] not in preferred)


def _add_tensors(trace: Trace, data: PageData, order: Iterable[Layer]) -> None:
    """Store q, k and v of all layers in float32 if they fit, else of as many layers as fit in float16."""
    order = list(order)
    numbers = sum(
        tensor.numel()
        for calls in trace.calls.values()
        for call in calls
        for tensor in (call.q, call.k, call.v, *mixer_tensors(call).values())
    )
    whole = None
    if 4 * numbers * MIN_PACKED_SHARE <= data.room:
        attempt = replace(data, blocks={}, names={})
        whole = _pack_layers(trace, attempt, order, exact=True)
        if whole is not None:
            data.room, data.blocks = attempt.room, data.blocks | attempt.blocks
    whole = _pack_layers(trace, data, order, exact=False) if whole is None else whole
    assert whole is not None
    for part in data.header["parts"]:
        for layer in part["layers"]:
            layer.update(whole.get((part["name"], layer["number"]), {}))
        complete = [layer for layer in part["layers"] if layer["q"] is not None]
        if complete:
            kinds = sorted({DTYPES[layer["q"]["dtype"]] for layer in complete})
            error = max(layer["errors"]["weight"] for layer in complete)
            part["precision"] = dict(dtype=" / ".join(kinds), error=_rounded_up(error))


def _pack_layers(trace: Trace, data: PageData, order: list[Layer], *, exact: bool) -> dict[Layer, Json] | None:
    """Store layers and return their JSON; with `exact`, all layers with all their arrays, or None."""
    whole: dict[Layer, Json] = {}
    for part, layer in order:
        call = plain(trace.call(layer, part))
        name, before = f"{part}.{layer}", data.room
        mask, bias = mask_json(name, call, data), bias_json(name, call, data)
        if mask is None or bias is False:
            continue
        errors = measure_errors(trace, call)
        dtype = np.float16 if trace.more.get("precision") == "float16" else np.float32
        if not exact:
            dtype, errors = _precision(call, errors)
        packed = {tensor_name: tensor.numpy().astype(dtype) for tensor_name, tensor in (("q", call.q), ("k", call.k))}
        packed |= {tensor_name: tensor.numpy() for tensor_name, tensor in mixer_tensors(call).items()}
        stored = {tensor_name: data.add(f"{name}.{tensor_name}", array) for tensor_name, array in packed.items()}
        if all(stored.values()):
            whole[part, layer] = dict(mask=mask, bias=bias, errors=errors) | stored
        elif exact:
            return None
        else:  # a layer needs all of its arrays
            for tensor_name in packed:
                data.blocks.pop(f"{name}.{tensor_name}", None)
            data.room = before
    for (part, layer), packed in whole.items():
        v = plain(trace.call(layer, part)).v.numpy()
        if not v.shape[3]:  # only weights
            continue
        most = float(np.abs(v).max(initial=0.0))
        half = (not exact and most < 6e4) or trace.more.get("precision") == "float16"
        packed["v"] = data.add(f"{part}.{layer}.v", v.astype(np.float16 if half else np.float32))
        if packed["v"] is None and exact:
            return None
        packed["errors"] = packed["errors"] | {"value": most * HALF if half else 0.0}
    return whole


def pack(array: np.ndarray) -> tuple[str, str]:
    """Return an array as base64 text and its dtype: bytes plane by plane (all first bytes, then all second), deflated.

    >>> pack(np.arange(3, dtype=np.uint8))
    ('eJxjYGQCAAAHAAQ=', 'u1')
    """
    dtype = dtype_of(array)
    size = array.dtype.itemsize
    planes = array.astype(array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).reshape(-1, size).T.tobytes()
    # Floats hardly repeat, so only Huffman coding pays.
    strategy = zlib.Z_DEFAULT_STRATEGY if size == 1 else zlib.Z_HUFFMAN_ONLY
    packer = zlib.compressobj(6 if size == 1 else 1, zlib.DEFLATED, 15, 9, strategy)
    return base64.b64encode(packer.compress(planes) + packer.flush()).decode(), dtype


def _precision(call: Call | Mixing, errors: dict[str, float]) -> tuple[type[np.floating], dict[str, float]]:
    """Return the dtype of q and k and its errors: float16 if the weights stay exact enough, else float32."""
    weight, dot = difference(call, replace(call, q=call.q.half().float(), k=call.k.half().float()))
    if weight > MAX_HALF_ERROR:
        return np.float32, errors
    return np.float16, dict(weight=max(weight, errors["weight"]), dot=max(dot, errors["dot"]), value=0.0)


def _rounded_up(error: float) -> str:
    """Round an error up to 1, 2 or 5 times a power of ten.

    >>> _rounded_up(0.00034), _rounded_up(0.0012), _rounded_up(0.0)
    ('0.0005', '0.002', '0.000001')
    """
    for exponent in range(-6, 0):
        for digit in (1, 2, 5):
            if error <= digit * 10.0**exponent:
                return f"{digit * 10.0**exponent:.{-exponent}f}"
    return "1"


def _find_focus(trace: Trace, focus: tuple[int | str, int | str], opening: str | None) -> Json:
    """Return the two words' part and indices: in the part of `opening`, else in the first part with both."""
    problem: Problem | None = None
    for part in sorted(trace.parts, key=lambda part: part != opening):
        try:
            query, key = trace.place(focus[0], part), trace.place(focus[1], part, keys=True)
        except Problem as raised:
            if problem is None or isinstance(problem, NoSuchToken):
                problem = raised
            continue
        return dict(part=part, item=0, query=query, key=key)
    assert problem is not None
    raise problem


def text_of(trace: Trace, most: int = 1500) -> str:
    """Return the first `most` characters of the text, or of the joined tokens if the trace has only ids."""
    tokens = trace.tokens(trace.parts[-1], keys=True)
    text = re.sub(r"\s*\n\s*", "\n", (trace.text or "".join(piece for piece, _, _ in tokens.whole[:most])).strip())
    return text if len(text) <= most else text[:most].rstrip() + " …"
