"""A layer as JSON for the scripts: its mask and bias as rules and small tables, and references to its arrays.

Pages (page_data.py) and the studio share this format; a page packs the arrays as text, the studio sends them as bytes.

B batch, H heads, G key/value heads (of a mixer: groups of q and k), N queries, M keys, D head width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypedDict

import numpy as np
from torch import Tensor

from ..attention.dispatch import Call
from ..attention.mask_algebra import Full
from ..attention.rules import Band, Padding
from ..mixers.calls import Mixing
from ..tracing.views.token_labels import Tokens
from ..tracing.views.trace_file import distances_of
from ..tracing.views.traces import Trace

DENSE = 1 << 26  # cells of a mask that isn't a rule
BIAS = 1 << 19  # numbers of a bias that isn't a function of distance
DTYPES = {"f2": "float16", "f4": "float32", "u1": "uint8"}


Json = dict[str, Any]  # an object of the header that the scripts read


class Stored(TypedDict):
    """A reference to a stored array."""

    id: str
    shape: list[int]
    dtype: str


class ArrayStore(Protocol):
    """Stores arrays and returns references to them, or None if there is no room."""

    def share(self, name: str, array: np.ndarray) -> Stored | None:
        """Store an array that several layers may share."""


@dataclass
class Arrays:
    """Stores arrays in a list."""

    all: list[np.ndarray] = field(default_factory=list)

    def share(self, name: str, array: np.ndarray) -> Stored:
        """Append an array; return its reference."""
        self.all.append(np.ascontiguousarray(array))
        return Stored(id=str(len(self.all) - 1), shape=list(array.shape), dtype=dtype_of(array))


def dtype_of(array: np.ndarray) -> str:
    """Return the short name of an array's dtype.

    >>> dtype_of(np.zeros(3, np.float32))
    'f4'
    """
    return next(short for short, name in DTYPES.items() if name == array.dtype.name)


def whole_layer(call: Call | Mixing, number: int, arrays: Arrays, errors: dict[str, float]) -> Json:
    """Return the JSON of a layer with all its arrays in float32; `errors` bounds its numbers' errors."""
    mask, bias = mask_json("", call, arrays), bias_json("", call, arrays)
    header = layer_header(call, number) | dict(mask=mask, bias=bias, errors=errors)
    tensors = {"q": call.q, "k": call.k} | ({"v": call.v} if call.v.shape[3] else {}) | mixer_tensors(call)
    return header | {name: arrays.share("", tensor.numpy()) for name, tensor in tensors.items()}


def mixer_tensors(call: Call | Mixing) -> dict[str, Tensor]:
    """Return the other tensors of a mixer's weights: its log-decays and, if it has them, its writes."""
    if not isinstance(call, Mixing):
        return {}
    return dict(decay=call.decay) | ({} if call.write is None else dict(write=call.write))


def layer_header(call: Call | Mixing, number: int) -> Json:
    """Return the JSON of a layer without arrays: what turns its scores into weights."""
    header: Json = dict(number=number, heads=call.n_head, groups=call.k.shape[1], scale=call.scale)
    header |= dict(softcap=None, sinks=None, mask=[], bias=None, errors=None, q=None, k=None, v=None)
    if isinstance(call, Mixing):
        return header | dict(decay=None, write=None, state=call.state is not None and bool(call.state.any()))
    sinks = None if call.sinks is None else call.sinks.detach().float().reshape(-1).tolist()
    return header | dict(softcap=call.softcap, sinks=sinks)


def mask_json(name: str, call: Call | Mixing, store: ArrayStore) -> list[list[object]] | None:
    """Return the mask as rules, or as packed bits where there is no rule; None if those are too many."""
    batch, _, n, _ = call.q.shape
    m = call.k.shape[2]
    rules: list[list[object]] = []
    if isinstance(call, Mixing) and call.resets is not None:
        rules.append(["starts", [item.nonzero()[:, 0].tolist() for item in call.resets]])
        call = replace(call, resets=None)
    for i, rule in enumerate(call.mask.terms()):
        if isinstance(rule, Band):
            rules.append(["band", rule.left, rule.right])
        elif isinstance(rule, Padding) and rule.lengths is not None:
            rules.append(["lengths", [int(length) for length in rule.lengths]])
        elif not isinstance(rule, Full):
            # Padding is the same for every query, so one row is enough.
            rows = slice(0, 1) if isinstance(rule, Padding) else slice(0, n)
            if (rows.stop - rows.start) * m > DENSE:
                return None
            allowed = np.asarray(rule.tensor(n, m, batch=batch, heads=call.q.shape[1], rows=rows).cpu())
            allowed = np.broadcast_to(allowed, (*allowed.shape[:2], rows.stop - rows.start, m))
            stored = store.share(f"{name}.mask{i}", np.packbits(allowed, axis=-1, bitorder="little"))
            if stored is None:
                return None
            rules.append(["dense", stored])
    return rules


def bias_json(name: str, call: Call | Mixing, store: ArrayStore) -> Json | bool | None:
    """Return the bias as a table over distances or in full, None without a bias, False if it is too large."""
    if call.bias is None:
        return None
    kind, table = "distances", distances_of(call.bias)
    if table is None:
        kind, table = "dense", call.bias.reshape((1,) * (4 - call.bias.ndim) + tuple(call.bias.shape))
        if table.numel() > BIAS and call.q.shape[3]:  # without q and k the bias holds the weights
            return False
    stored = store.share(f"{name}.bias", table.contiguous().numpy().astype(np.float32))
    return False if stored is None else dict(kind=kind, table=stored)


def token_lists(
    queries: Mapping[str, Sequence[Tokens]], keys: Mapping[str, Sequence[Tokens]]
) -> tuple[dict[tuple[str, bool], list[int]], list[Json]]:
    """Return the lists' indices by (part, is key side), and the distinct lists of tokens."""
    listed: list[Json] = []
    indices: dict[Tokens, int] = {}
    numbers: dict[tuple[str, bool], list[int]] = {}
    for part in queries:
        for is_key in (False, True):
            for tokens in (keys if is_key else queries)[part]:
                if tokens not in indices:
                    indices[tokens] = len(listed)
                    special = [i for i, is_special in enumerate(tokens.special) if is_special]
                    listed.append(
                        dict(
                            labels=tokens.numbered,
                            special=special,
                            words=tokens.words,
                            characters=tokens.groups() if len(tokens.whole) < len(tokens) else None,
                        )
                    )
                numbers.setdefault((part, is_key), []).append(indices[tokens])
    return numbers, listed


def default_opening(trace: Trace, parts: Sequence[Json]) -> Json:
    """Return the default view of a page: the strongest link between two words."""
    best: tuple[tuple[bool, bool, bool, float], Json] | None = None
    for part in parts:
        queries, keys = (_characters(trace.tokens(part["name"], keys=keys)) for keys in (False, True))
        for layer, heads in enumerate(part["links"][0]):
            for head, link in enumerate(heads):
                i, j, share = link or (0, 0, 0.0)
                is_far = (part["name"] == "cross" or abs(i + part["m"] - part["n"] - j) > 1) and queries[i] != keys[j]
                both_words = all(any(c.isalnum() for c in text) for text in (queries[i], keys[j]))
                if part["signed"]:
                    share = abs(share) / (part["tops"][layer][0][head] or 1.0)
                rank = part["layers"][layer]["q"] is not None, not part["signed"], is_far and both_words, share
                if best is None or rank > best[0]:
                    best = rank, dict(part=part["name"], item=0, layer=layer, head=head, query=i, key=j)
    assert best is not None
    return best[1]


def _characters(tokens: Tokens) -> list[str]:
    """Return each token's text, whole characters for parts of them."""
    return [text.strip() for text, first, end in tokens.whole for _ in range(first, end)]
