"""Replace the attention weights of heads while a model runs.

    with qkv.edit(model, "13.8"):                   layer 13, head 8 outputs 0
    with qkv.edit(model, "cross.4.*", to="uniform"):    all heads of a layer attend evenly

Works for native models and those of transformers; layers that aren't edited keep their fast kernels. effects.py shows the
effect on a model's words, ablation.py which heads it needs.

B batch, H heads of one edit, N queries, M keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from ...attention import masks
from ...attention.dispatch import Call, replace_weights
from ...attention.mask_algebra import Positioned
from ...attention.rules import Band
from ...i18n import Problem, all_of, unknown
from ..record.model_protocol import Layer, model_of
from ..record.tokenizer_protocol import AnyTokenizer, ids_of, reader_of
from ..views.traces import no_layer

HeadSelection = dict[Layer, list[int]]  # → heads


@contextmanager
def edit(model: Any, heads: str | Sequence[str], to: str | float = "zero") -> Iterator[None]:
    """Replace the weights of these heads inside the block: "13.8" is layer 13, head 8, "cross.4.2" of a part, * means all.

    Without a part, the first one is meant, as in a trace: encoder or decoder. The new weights are:

    - zero: 0, as if the head's columns of the output projection were 0.
    - uniform: equal weights on all keys that a query may see.
    - mean: the head's average weights. A key's mean is taken over the queries that may see it (without padding); each query
      gets the means of the keys it may see, scaled to sum to 1, or equal weights if all of those are 0. With a cache a call
      has one query, whose mean is itself: run without one.
    - first: 1 on the first key that a query may see.
    - self: 1 on the query itself. Refused for cross-attention.
    - none: unchanged, bit for bit; the names are checked all the same.
    - a number: that many times the weights: 0 is "zero", 0.5 half, 1 "none", 2 twice.

    Padded queries without visible keys still give 0, and an attention sink (GPT-OSS) gets no share of replaced weights.
    Blocks may be nested: an inner edit gets the weights that the outer one made. A trace made inside a block has the q, k
    and v of each attention: the map of an edited head shows its own weights, later layers show the effect of the edit.
    Native models are edited by the names of their layers, so another native model that runs inside the block is edited too.

    >>> from ...model.config import Config
    >>> from ...model.transformer import Transformer
    >>> _ = torch.manual_seed(0)
    >>> model, ids = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), torch.tensor([[3, 1, 4]])
    >>> before = model(ids)
    >>> with edit(model, "1.3"):
    ...     after = model(ids)
    >>> bool((before == after).all()), bool((before == model(ids)).all())
    (False, True)
    """
    change = change_of(to)
    selection = find(model, heads)
    if to == "self" and any(part == "cross" for part, _ in selection):
        raise Problem(
            "cross-attention looks at another text, where no token is itself: use to='uniform', 'mean' or 'zero'"
        )
    with ExitStack() as stack:
        if change is not None:
            names = stack.enter_context(model_of(model).editing(selection))
            for key, head_indices in selection.items():
                stack.enter_context(replace_weights(change, name=names[key], heads=head_indices, with_call=True))
        yield


def change_of(to: str | float) -> Callable[[Tensor, Call], Tensor] | float | None:
    """Return the function or factor that makes the new weights, None to leave them."""
    if isinstance(to, str):
        if to not in CHANGES:
            raise unknown("to", to, CHANGES)
        return CHANGES[to]
    if isinstance(to, bool) or not math.isfinite(to) or to < 0:
        raise Problem(
            "to is {to}: give 0 or a positive number of times, or one of {words}", to=to, words=all_of(CHANGES)
        )
    return None if to == 1 else float(to)


def head_counts(model: object) -> dict[str, dict[int, int]]:
    """Return the number of heads of each layer that attends, by part.

    >>> from ...model.config import Config
    >>> from ...model.transformer import Transformer
    >>> head_counts(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)))
    {'decoder': {0: 4, 1: 4}}
    """
    return model_of(model).heads()


def find(model: object, heads: str | Sequence[str]) -> HeadSelection:
    """Return the heads of names such as "13.8", "cross.4.2" or "2.*"; refuse those that don't exist."""
    counts = head_counts(model)
    selected: dict[tuple[str, int], set[int]] = {}
    for name in [heads] if isinstance(heads, str) else list(heads) or ['""']:
        *prefix, layer, head = ["", *str(name).strip().split(".")]
        prefix = [word for word in prefix if word]
        if len(prefix) > 1 or not all(re.fullmatch(r"\*|[0-9]{1,9}", word) for word in (layer, head)):
            raise Problem(
                "{name} names no head: write layer.head as in 13.8, or part.layer.head as in cross.4.2; * means all",
                name=name,
            )
        part = prefix[0] if prefix else next(iter(counts))
        if part not in counts:
            raise Problem("this model has no part {part}: it has {parts}", part=part, parts=all_of(counts))
        for i in counts[part] if layer == "*" else [int(layer)]:
            if i not in counts[part]:
                raise no_layer(i, tuple(counts[part]), part, hybrid="mixers" in counts and len(counts) > 1)
            selected.setdefault((part, i), set()).update(_heads(head, counts[part][i]))
    return {key: sorted(indices) for key, indices in selected.items()}


def check_names(
    model: object,
    tokenizer: AnyTokenizer,
    text: str,
    *,
    heads: Sequence[str] = (),
    selection: tuple[str | None, int | None, int | None] = (None, None, None),
    words: Sequence[str | None] = (),
) -> None:
    """Refuse missing heads and words before the model runs; `selection` is a part, layer and head to show."""
    if heads:
        find(model, heads)
    adapter = model_of(model)
    if adapter.has_static_layers and any(value is not None for value in selection):
        part = selection[0] or next(iter(adapter.heads()))
        find(model, ".".join([part, *("*" if number is None else str(number) for number in selection[1:])]))
    if adapter.kind != "encoder-decoder":  # its target is still unknown
        tokens = reader_of(tokenizer).tokens(ids_of(text, tokenizer)[0])
        for word in words:
            if word is not None:
                tokens.find(word)


def _heads(word: str, count: int) -> range | list[int]:
    if word == "*":
        return range(count)
    if int(word) >= count:
        raise Problem("there is no head {head}: this layer has 0 … {last}", head=word, last=count - 1)
    return [int(word)]


def _uniform(weights: Tensor, call: Call) -> Tensor:
    allowed = _allowed(weights, call).to(weights.dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


def _mean(weights: Tensor, call: Call) -> Tensor:
    allowed = _allowed(weights, call)
    counted = allowed
    if weights.shape[2] == weights.shape[3]:  # self-attention: a key that no query may see is padding
        counted = allowed & allowed.any(2).unsqueeze(-1)  # (B, H, N, M)
    counted = counted.to(weights.dtype)
    mean = (weights * counted).sum(2, keepdim=True) / counted.sum(2, keepdim=True).clamp(min=1)  # (B, H, 1, M)
    shares = mean * allowed  # (B, H, N, M)
    total = shares.sum(-1, keepdim=True)
    return torch.where(total > 0, shares / total.masked_fill(total == 0, 1), _uniform(weights, call))


def _first(weights: Tensor, call: Call) -> Tensor:
    allowed = _allowed(weights, call)
    m = weights.shape[3]
    positions = torch.arange(m, device=weights.device).expand(1, m)
    placed = next((rule for rule in call.mask.terms() if isinstance(rule, Positioned)), None)
    if placed is not None and placed.keys is not None:  # a ring buffer: the first key need not be in the first slot
        positions = torch.as_tensor(placed.keys, device=weights.device)
    order = positions[:, None, None].expand_as(weights).masked_fill(~allowed, torch.iinfo(torch.int64).max)
    first = torch.arange(m, device=weights.device) == order.argmin(-1, keepdim=True)
    return (first & allowed).to(weights.dtype)


def _itself(weights: Tensor, call: Call) -> Tensor:
    allowed = _allowed(weights, call)
    batch, heads, n, m = weights.shape
    placed = next((rule for rule in call.mask.terms() if isinstance(rule, Positioned)), None)
    if placed is not None or n == m:
        rule: masks.Mask = Band(0, 0)
        rule = rule if placed is None else rule.placed(placed.queries, placed.keys)
        own = rule.tensor(n, m, batch=batch, heads=heads, device=weights.device)
    else:  # a new token is the last key that it may see
        last = m - 1 - allowed.to(torch.uint8).flip(-1).argmax(-1, keepdim=True)
        own = torch.arange(m, device=weights.device) == last
    return (own & allowed).to(weights.dtype)


def _allowed(weights: Tensor, call: Call) -> Tensor:
    allowed = call.allowed()
    if call.bias is not None:
        allowed = allowed & (call.bias != float("-inf"))
    return allowed.expand_as(weights)


CHANGES: dict[str, Callable[[Tensor, Call], Tensor] | float | None] = {
    "zero": 0.0,
    "uniform": _uniform,
    "mean": _mean,
    "first": _first,
    "self": _itself,
    "none": None,
}
