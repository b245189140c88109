"""`mix(q, k, v, decay)`, the function that every mixer layer calls, as attention layers call `attend`.

It computes a mixer's output in the recurrent or the chunkwise form, depending on the number of tokens; `explain` returns the
form and the reason. `record` and `replace_weights` of attention work
on mixers too.

B batch, H heads, G groups of heads that share q and k (head h reads group h // (H/G), as Mamba-2 does), N tokens,
D key width, P value width.
"""

from __future__ import annotations

import math
from typing import Literal, TypedDict, Unpack, get_args

import torch
from torch import Tensor

from ..attention.dispatch import NotFinite, apply_edits, check_floats, check_inputs_finite, check_scale, notify
from ..attention.shapes import check_axes
from ..i18n import Message, Problem, _, say, unknown
from . import forms
from .calls import Mixing

Form = Literal["auto", "parallel", "chunkwise", "recurrent"]
FORMS: tuple[Form, ...] = get_args(Form)


class Options(TypedDict, total=False):
    """Arguments of `mix` besides q, k, v, the decay and the write."""

    state: Tensor | None
    keep: Tensor | None
    documents: Tensor | None
    scale: float | None
    name: str | None


def mix(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    *,
    write: Tensor | None = None,
    state: Tensor | None = None,
    keep: Tensor | None = None,
    documents: Tensor | None = None,
    scale: float | None = None,
    form: Form = "auto",
    chunk: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the output of a recurrent state: S ← γ·S + k·vᵀ, y = scale·Sᵀq; with `write` (β) the delta rule.

    q and k are (B, G, N, D), v is (B, H, N, P), G a divisor of H. `decay` is log γ, so at most 0: (H,) for one per head
    as in retention, or (B, H, N) for one per token as in Mamba-2. With `write` (B, H, N) a token first removes the value
    of its key from the state: S ← γ·S + k·β·(v − γ·Sᵀk)ᵀ; keys should then have length 1. `state` (B, H, D, P) is the
    initial state. `keep` (B, N): True = a real token; padding doesn't change the state. `documents` (B, N) numbers
    packed texts: where the number changes, the state is cleared. `scale` defaults to 1/√D. `form` is parallel, chunkwise
    (in chunks of `chunk` tokens) or recurrent; all give the same result.

    Returns the output (B, H, N, P) and the state after the last token.

    >>> one = torch.ones(1, 1, 3, 1)
    >>> output, state = mix(one, one, one, torch.tensor([0.5]).log())
    >>> output.flatten().tolist(), state.item()
    ([1.0, 1.5, 1.75], 1.75)
    """
    call = _checked_call(q, k, v, decay, write, state, keep, documents, scale, name)
    form, size, _ = _choose_form(call, form, chunk)
    output, last = call.run(form, size)
    notify(call)
    output = apply_edits(call, output, None)[0]
    if output.device.type == "cpu" and not torch.compiler.is_compiling():
        _check_finite(call, output, last)
    return output.to(v.dtype), last


def explain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    *,
    write: Tensor | None = None,
    form: Form = "auto",
    chunk: int | None = None,
    **options: Unpack[Options],
) -> str:
    """Return which form `mix` would use on these arguments and why, as a sentence in the current language.

    >>> q = torch.zeros(1, 8, 1024, 64)
    >>> explain(q, q, q, torch.zeros(8))
    'chunkwise: 1024 tokens in 16 chunks of 64, a state of 64×64 per head between them.'
    """
    if wrong := sorted(set(options) - set(Options.__annotations__)):
        raise TypeError(f"explain has no argument {wrong[0]!r}; it takes those of mix")
    call = _checked_call(q, k, v, decay, write, **options)
    form, _, reason = _choose_form(call, form, chunk)
    return say("{form}: {why}.", form=form, why=reason)


def _choose_form(call: Mixing, form: Form, chunk: int | None) -> tuple[Form, int, Message]:
    """Return (form, tokens of a chunk, reason)."""
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    if chunk is not None and (not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1):
        raise Problem("chunk is {chunk}: give a whole number of tokens, 1 or more", chunk=repr(chunk))
    n, size = call.v.shape[2], forms.CHUNK if chunk is None else chunk
    if n == 1 and form in ("recurrent", "auto"):
        return "recurrent", size, Message("one token, which costs the same after any text")
    if form == "recurrent":
        return "recurrent", size, Message("it was asked for: {n} tokens one after the other", n=n)
    if n <= size:
        return "parallel", max(n, 1), Message("{n} tokens fit into one chunk of {size}", n=n, size=size)
    if form == "parallel":
        return "parallel", max(n, 1), Message("it was asked for: one table of {n}×{n} per head", n=n)
    numbers = dict(n=n, count=-(-n // size), size=size, width=f"{call.k.shape[3]}×{call.v.shape[3]}")
    why = Message("{n} tokens in {count} chunks of {size}, a state of {width} per head between them", **numbers)
    return "chunkwise", size, why


def _checked_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    write: Tensor | None,
    state: Tensor | None = None,
    keep: Tensor | None = None,
    documents: Tensor | None = None,
    scale: float | Tensor | None = None,
    name: str | None = None,
) -> Mixing:
    key = _("{what} is {came}: mix takes torch tensors of floats")
    optional = {what: tensor for what, tensor in (("write", write), ("state", state)) if tensor is not None}
    check_floats(key, q=q, k=k, v=v, decay=decay, **optional)
    check_axes(q.shape, k.shape, v.shape)
    batch, heads, n, width = v.shape
    if q.shape != k.shape or q.shape[0] != batch or q.shape[2] != n or q.shape[1] < 1 or heads % q.shape[1]:
        raise Problem(
            "q, k, v are {q}, {k}, {v}: q and k need one shape, (batch, groups, tokens, key width), with v's batch and "
            "tokens, and v's heads must be a multiple of the groups",
            q=tuple(q.shape),
            k=tuple(k.shape),
            v=tuple(v.shape),
        )
    scale = check_scale(q, k, v, scale)
    decay = _per_token("decay", decay, (batch, heads, n))
    write = None if write is None else _per_token("write", write, (batch, heads, n))
    _check_decay(decay)
    if state is not None and state.shape != (batch, heads, k.shape[3], width):
        raise Problem(
            "state is {shape}: it needs {expected} (batch, heads, key width, value width), as mix gave it",
            shape=tuple(state.shape),
            expected=(batch, heads, k.shape[3], width),
        )
    keep, documents = (None if t is None else torch.as_tensor(t, device=v.device) for t in (keep, documents))
    for what, tensor in (("keep", keep), ("documents", documents)):
        if tensor is not None and tuple(tensor.shape) != (batch, n):
            raise Problem(
                "{what} is {shape}: give one value per token, {expected}",
                what=what,
                shape=tuple(tensor.shape),
                expected=(batch, n),
            )
    if keep is not None and keep.dtype != torch.bool:
        raise Problem("keep is {dtype}: give True for a real token and False for padding", dtype=keep.dtype)
    resets = None if documents is None else document_starts(documents, keep)
    if keep is not None:
        is_padding = ~keep[:, None]
        k, v = k.masked_fill(is_padding[..., None], 0.0), v.masked_fill(is_padding[..., None], 0.0)
        decay = decay.masked_fill(is_padding, 0.0)
        write = None if write is None else write.masked_fill(is_padding, 0.0)
    return Mixing(q, k, v, decay, scale, write, state, keep, resets, name)


def document_starts(documents: Tensor, keep: Tensor | None = None) -> Tensor:
    """Return where a new document begins, (B, N) bool; the first token doesn't count, and padding is skipped.

    >>> document_starts(torch.tensor([[1, 1, 9, 1, 2]]), torch.tensor([[True, True, False, True, True]])).tolist()
    [[False, False, False, False, True]]
    """
    if keep is not None:  # padding belongs to the text before it; leading padding to the first text
        position = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
        last = torch.where(keep, position, -1).cummax(1).values
        first = torch.where(keep, position, documents.shape[1] - 1).amin(1, keepdim=True)
        documents = documents.gather(1, torch.where(last < 0, first, last))
    changed = torch.zeros_like(documents, dtype=torch.bool)
    changed[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return changed


def _per_token(what: str, values: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Return values per head, (H,), or per token as (B, H, N)."""
    per_token = values.ndim == 3 and all(s in (1, whole) for s, whole in zip(values.shape, shape, strict=True))
    if not per_token and values.shape != shape[1:2]:
        raise Problem(
            "{what} is {shape}: give one number per head, ({heads},), or per token, {expected}",
            what=what,
            shape=tuple(values.shape),
            heads=shape[1],
            expected=shape,
        )
    return (values if per_token else values[:, None]).expand(shape)


def _check_decay(decay: Tensor) -> None:
    if decay.device.type != "cpu" or torch.compiler.is_compiling() or decay.numel() == 0:
        return
    values = decay.detach()
    low, high = (float(end) for end in torch.aminmax(values))  # NaN if any is NaN
    if not (high <= 0 and math.isfinite(low)):
        index = tuple((~(torch.isfinite(values) & (values <= 0))).nonzero()[0].tolist())
        raise Problem(
            "decay holds {value} at {place}: it is log γ of a γ above 0 and up to 1, so a finite number, 0 or less; "
            "for γ itself give γ.log()",
            value=float(values[index]),
            place=index,
        )


def _check_finite(call: Mixing, output: Tensor, state: Tensor) -> None:
    """Raise `NotFinite` if output or state hold NaN: from the inputs, or because the delta rule overshot."""
    if math.isfinite(float(output.detach().sum()) + float(state.detach().sum())):
        return
    check_inputs_finite(call, ("q", "k", "v", "write", "state"))
    if call.write is not None and not bool(torch.isfinite(state).all()):
        longest = float(call.write.detach().amax() * call.k.detach().square().sum(-1).amax())
        raise NotFinite(
            "the state overflowed: a write with β·|k|² above 2 overshoots, and here it is up to {longest}; give keys of "
            "length 1",
            longest=longest,
        )
