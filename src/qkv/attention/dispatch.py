"""`attend(q, k, v, mask)`, the function that every attention of every model calls.

It runs the fastest kernel for the mask; `explain` returns which one and why. Inside `record()` it also passes on
references to q, k, v, the mask and the scale, from which any weight can be computed later.

B batch, H heads, G key/value heads (H is a multiple; head h reads group h // (H/G), as LLaMA does), N queries, M keys,
D head width.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from ..i18n import Message, Problem, _, say, unknown
from . import formula, masks, pieces
from .formula import Call
from .mask_algebra import Full
from .rules import Band
from .shapes import check_bias, check_shapes

Kernel = Literal["auto", "plain", "sdpa"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)
T = TypeVar("T")
MaskLike = masks.Mask | Tensor | None


class NotFinite(Problem):
    """NaN or infinity in the inputs of attention."""


@dataclass(frozen=True)
class _Edit:
    change: Callable[..., Tensor] | float
    name: str | None
    heads: tuple[int, ...] | None
    with_call: bool


# Global, since `attend` is called deep inside models that could not pass them through.
_listeners: list[tuple[Callable[[Any], None], int]] = []  # callback, thread id
_edits: list[_Edit] = []  # for all threads


class Options(TypedDict, total=False):
    """Arguments of `attend` besides q, k, v, the mask and `weights`."""

    scale: float | None
    bias: Tensor | None
    dropout: float
    softcap: float | None
    sinks: Tensor | None
    kernel: Kernel
    name: str | None


@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike = None, *, weights: Literal[False] = False, **more: Unpack[Options]
) -> Tensor: ...
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike = None, *, weights: Literal[True], **more: Unpack[Options]
) -> tuple[Tensor, Tensor]: ...
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: MaskLike = None, *, weights: bool = False, **more: Unpack[Options]
) -> Tensor | tuple[Tensor, Tensor]: ...
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: MaskLike = None,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    weights: bool = False,
    kernel: Kernel = "auto",
    name: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return softmax(softcap(q·kᵀ·scale) + bias, where mask allows)·v, computed by the fastest suitable kernel.

    q is (B, H, N, D); k and v are (B, G, M, D), G a divisor of H, never repeated in memory; v may have another width.
    `mask` is a mask of `qkv.masks` or a bool tensor, True = may attend; a row that may attend to nothing gives 0.
    `scale` defaults to 1/√D. `softcap` limits scaled scores to ±softcap by tanh; `bias` is added afterwards, and −inf in
    it hides the pair. `sinks` (H,) are extra scores that add to each row's sum and have no value. `dropout` is always
    applied: pass 0 in eval. NaN in visible inputs raises `NotFinite` (on a CPU, where the check is cheap).

    Returns the output (B, H, N, Dv); with `weights=True` (output, weights), the weights exact and before dropout.

    >>> q = torch.eye(3).reshape(1, 1, 3, 3)
    >>> output, weights = attend(q, q, q, masks.causal(), weights=True)
    >>> [[round(w, 2) for w in row] for row in weights[0, 0].tolist()]
    [[1.0, 0.0, 0.0], [0.36, 0.64, 0.0], [0.26, 0.26, 0.47]]
    """
    if not 0 <= dropout < 1:
        raise Problem("dropout is {value}: give a share from 0 up to, not including, 1", value=repr(dropout))
    fast_path = not (weights or _listeners or _edits) and bias is softcap is sinks is scale is None and kernel == "auto"
    if fast_path and (causal := _direct_causal(q, k, v, mask)) is not None:
        # Common calls go directly to the kernel: when decoding token by token, microseconds of Python matter.
        grouped = True if q.shape[1] != k.shape[1] else False  # a branch, so that a compiler sees a bool
        output = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal, enable_gqa=grouped)
        if torch.compiler.is_compiling() or output.device.type != "cpu" or math.isfinite(_probe(output.detach())):
            return output
    call = _checked_call(q, k, v, mask, scale, bias, softcap, sinks, name)
    kernel, parts, _ = _choose_kernel(call, weights, kernel)

    table = None
    if kernel == "plain":
        table = formula.weights(call)
        output = formula.mix(torch.dropout(table, dropout, True) if dropout else table, v, q.dtype)
    elif _listeners and not dropout and (causal := _flash_causal(call, parts)) is not None:
        output, lse = pieces.flash(q, k, v, causal=causal, scale=call.scale)
        call = replace(call, lse=lse)
    elif parts is not None:
        output = pieces.run(q, k, v, parts, call.scale, dropout)
    else:
        output = pieces.sdpa(q, k, v, _mask_and_bias(call), scale=call.scale, dropout=dropout)
    notify(call)
    if _edits:
        output, table = apply_edits(call, output, table)
    if type(output) is Tensor and output.device.type == "cpu" and not torch.compiler.is_compiling():
        # With few keys the fused kernel treats a row of NaN scores as hidden and returns 0, so q and k are checked too.
        whole = kernel == "plain" or (k.shape[2] >= 64 and parts is not None and len(parts) == 1)
        _check_finite(call, (output,) if whole else (output, q, k))
    return (output, table.to(q.dtype)) if weights and table is not None else output


def explain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: MaskLike = None,
    *,
    weights: bool = False,
    kernel: Kernel = "auto",
    **options: Any,
) -> str:
    """Return which kernel `attend` would run on these arguments and why, as a sentence in the current language.

    >>> q = torch.zeros(1, 8, 1024, 64)
    >>> explain(q, q, q, masks.window(128))
    'sdpa on 8 pieces: window(128, 0) leaves 23 % of the 1024×1024 scores to compute.'
    """
    options.pop("dropout", None)
    if wrong := sorted(set(options) - {"scale", "bias", "softcap", "sinks", "name"}):
        raise TypeError(f"explain has no argument {wrong[0]!r}; it takes those of attend")
    call = _checked_call(q, k, v, mask, **options)
    kernel, _, reason = _choose_kernel(call, weights, kernel)
    return say("{kernel} {why}.", kernel=kernel, why=reason())


def notify(call: Any) -> None:
    """Pass a call (a `Call` or a mixer's) to the listeners of this thread.

    >>> with record() as calls:
    ...     notify("a call")
    >>> calls
    ['a call']
    """
    for on_call, thread in list(_listeners):
        if thread == threading.get_ident():
            on_call(call)


@contextmanager
def listen(on_call: Callable[[Any], None]) -> Iterator[None]:
    """Inside the block, call `on_call` with the `Call` of every `attend` of this thread, after its output is computed.

    Exceptions of `on_call` propagate through the model, so a forward pass can be stopped between two layers.

    >>> q = torch.ones(1, 1, 2, 4)
    >>> with listen(print):
    ...     _ = attend(q, q, q, name="decoder.0")
    <Call decoder.0: q (1, 1, 2, 4), k (1, 1, 2, 4), mask full()>
    """
    with registered(_listeners, (on_call, threading.get_ident())):
        yield


@contextmanager
def registered(entries: list[T], entry: T) -> Iterator[None]:
    """Append an entry for the duration of the block. Removed by identity, since an outer one may be equal."""
    entries.append(entry)
    try:
        yield
    finally:
        entries[:] = [other for other in entries if other is not entry]


@contextmanager
def record() -> Iterator[list[Call]]:
    """Collect the `Call` of every `attend` of this thread inside the block, in order.

    The tensors are references: writing into them later (refilling a cache after a reset) changes the recorded calls.

    >>> q = torch.ones(1, 1, 2, 4)
    >>> with record() as calls:
    ...     _ = attend(q, q, q)
    >>> calls[0].weights().tolist()
    [[[[0.5, 0.5], [0.5, 0.5]]]]
    """
    calls: list[Call] = []
    with listen(calls.append):
        yield calls


@contextmanager
def replace_weights(
    change: Callable[..., Tensor] | float,
    *,
    name: str | None = None,
    heads: Sequence[int] | None = None,
    with_call: bool = False,
) -> Iterator[None]:
    """Inside the block, apply `change` to the weights of these heads (default: all) of calls with this name (default: any).

    `change` takes weights (B, heads, N, M) and returns the same shape; the output is computed from the result, without
    dropout. With `with_call` it also takes the `Call` of these heads, which has the mask. A number instead of a function
    multiplies weights and output, which needs no weights. Several edits of a head apply in order.

    >>> q = torch.ones(1, 2, 2, 4)
    >>> with replace_weights(torch.zeros_like, heads=[1]):
    ...     attend(q, q, q)[0, :, 0, 0].tolist()
    [1.0, 0.0]
    """
    with registered(_edits, _Edit(change, name, None if heads is None else tuple(heads), with_call)):
        yield


def _direct_causal(q: Tensor, k: Tensor, v: Tensor, mask: MaskLike) -> bool | None:
    """Return `is_causal` if SDPA can run this call directly; None if it can't or that is not certain."""
    if type(q) is not Tensor or type(k) is not Tensor or type(v) is not Tensor or q.ndim != 4 or k.ndim != 4:
        return None
    n, m = q.shape[2], k.shape[2]
    if m < 64 or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or k.shape != v.shape or q.shape[1] % k.shape[1]:
        return None
    if not q.dtype == k.dtype == v.dtype or not q.dtype.is_floating_point or q.shape[3] == 0 or n == 0:
        return None
    if mask is None or isinstance(mask, Full):
        return False
    if isinstance(mask, Band) and mask.left is None and mask.right == 0 and (n == 1 or n == m):
        return n == m and n > 1
    return None


def _checked_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: MaskLike,
    scale: float | Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    name: str | None = None,
) -> Call:
    key = _("{what} is {came}: attend takes torch tensors of floats (qkv.steps takes NumPy arrays)")
    check_floats(key, q=q, k=k, v=v)
    check_shapes(q.shape, k.shape, v.shape)
    scale = check_scale(q, k, v, scale)
    (batch, heads, n, _d), m = q.shape, k.shape[2]
    rule = masks.resolve(mask)
    rule.check(batch, heads, n, m)
    if bias is not None and not bias.dtype.is_floating_point:
        raise Problem(
            "bias is {dtype}: it is added to the scores; a mask of True and False goes into mask=", dtype=bias.dtype
        )
    if bias is not None:
        check_bias(bias.shape, (batch, heads, n, m))
    if sinks is not None and sinks.shape != (heads,):
        raise Problem(
            "sinks are {shape}: give one finite number per head, ({heads},)", shape=tuple(sinks.shape), heads=heads
        )
    if softcap is not None and not softcap > 0:
        raise Problem("softcap is {value}: give a positive number, or None for no cap", value=repr(softcap))
    return Call(q, k, v, rule, scale, bias, softcap, sinks, name)


def check_floats(key: str, **tensors: Tensor) -> None:
    """Raise with the message `key` if one of these isn't a torch tensor of floats."""
    for what, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_floating_point:
            kind = str(tensor.dtype) if isinstance(tensor, Tensor) else type(tensor).__name__
            raise Problem(key, what=what, came=kind)


def check_scale(q: Tensor, k: Tensor, v: Tensor, scale: float | Tensor | None) -> float:
    """Return the scale (default: 1/√D); raise if it needs a gradient, D is 0, or the dtypes differ."""
    if not q.dtype == k.dtype == v.dtype:
        raise Problem("q, k, v are {q}, {k}, {v}: convert all three to one dtype", q=q.dtype, k=k.dtype, v=v.dtype)
    if k.shape[3] == 0:
        raise Problem("q and k are 0 wide: a dot product needs at least one number")
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise Problem("scale is a number, so it would not be learned: multiply q by your parameter and give scale=1")
    return k.shape[3] ** -0.5 if scale is None else float(scale)


def _choose_kernel(
    call: Call, weights: bool, kernel: Kernel
) -> tuple[Kernel, list[pieces.Rectangle] | None, Callable[[], Message]]:
    """Return (kernel, the pieces to run it on or None for the whole, a function that returns the reason)."""
    if kernel not in KERNELS:
        raise unknown("kernel", kernel, KERNELS)
    batch, _, n, _ = call.q.shape
    m = call.k.shape[2]
    compiling = torch.compiler.is_compiling()
    if weights:
        return "plain", None, lambda: Message("because the weights were asked for")
    if call.softcap is not None or call.sinks is not None:
        name = "softcap" if call.softcap is not None else "sinks"
        if kernel == "sdpa":
            raise Problem("kernel='sdpa' can't do this: the fused kernel has no {name}; use kernel='auto'", name=name)
        return "plain", None, lambda: Message("because the fused kernel has no {name}", name=name)
    if not compiling and 0 in (batch, n, m):
        return "plain", None, lambda: Message("because there is nothing to compute")
    if kernel == "plain":
        return "plain", None, lambda: Message("because it was asked for")
    if call.bias is not None:
        return "sdpa", None, lambda: Message("with bias and mask written out, added to the scores")

    def written_out() -> Message:
        return Message("with {mask} written out as {n}×{m}", mask=repr(call.mask), n=n, m=m)

    # Off the CPU, reading lengths waits for the device; it also breaks a compiled graph, and a loop over pieces would be
    # recompiled for every length. Masks without a native kernel are written out in these cases.
    free = call.q.device.type == "cpu" and not compiling
    parts = pieces.plan(call.mask, batch, n, m) if free else pieces.native_piece(call.mask, n, m)
    if parts is None or all(p.cols[0] == p.cols[1] for p in parts):
        return "sdpa", None, written_out
    if len(parts) == 1 and parts[0].band is None:
        if parts[0].causal:
            return "sdpa", parts, lambda: Message("causal: the fused kernel skips the future by itself")
        real = parts[0].cols[1] - parts[0].cols[0]
        return (
            "sdpa",
            parts,
            lambda: Message("on the {n} real keys", n=real) if real < m else Message("without a mask"),
        )
    share = pieces.count_scores(parts, batch) / (batch * n * m)
    if share > 0.8:
        return "sdpa", None, written_out

    def in_pieces() -> Message:
        numbers = dict(pieces=len(parts), mask=repr(call.mask), share=f"{100 * share:.0f}", n=n, m=m)
        return Message("on {pieces} pieces: {mask} leaves {share} % of the {n}×{m} scores to compute", **numbers)

    return "sdpa", parts, in_pieces


def _flash_causal(call: Call, parts: list[pieces.Rectangle] | None) -> bool | None:
    """Return `is_causal` if this is a single run of the flash kernel over all queries and keys, else None."""
    n, m = call.q.shape[2], call.k.shape[2]
    if parts is None or len(parts) != 1 or parts[0].band is not None or call.v.shape[3] != call.q.shape[3]:
        return None
    part = parts[0]
    if part.item is not None or part.rows != (0, n) or part.cols != (0, m):
        return None
    return part.causal if pieces.is_flash(call.q, call.k, call.v, causal=part.causal, scale=call.scale) else None


def _mask_and_bias(call: Call) -> Tensor | None:
    """Return mask and bias as one tensor for SDPA: bool without a bias, else floats with −inf."""
    allowed = None if isinstance(call.mask, Full) else call.allowed()
    if call.bias is None:
        return allowed
    bias = call.bias.to(call.q.dtype)
    bias = bias.expand(*bias.shape[:-2], call.q.shape[2], call.k.shape[2])
    return bias if allowed is None else torch.where(allowed, bias, float("-inf"))


def apply_edits(call: Any, output: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return (output, weights) of a call (a `Call` or a mixer's) after the edits that match it.

    If `weights` is None, only those of the heads that a function edits are computed.
    """
    edits = [(edit, _edited_heads(edit, call.n_head)) for edit in _edits if edit.name is None or edit.name == call.name]
    changing = sorted({head for edit, heads in edits for head in heads if callable(edit.change)})
    table, rows = weights, list(range(call.n_head))  # weights, and their heads
    if weights is None and changing:
        rows = changing
        table = call.only(changing).table() if len(changing) < call.n_head else call.table()
    for edit, heads in edits:
        index = torch.as_tensor(heads, device=output.device)
        inside = [head for head in heads if table is not None and head in rows]
        at = torch.as_tensor([rows.index(head) for head in inside], dtype=torch.long, device=output.device)
        if not callable(edit.change):  # the output is linear in the weights
            output = output.index_copy(1, index, output[:, index] * edit.change)
            table = table if table is None else table.index_copy(1, at, table[:, at] * edit.change)
            continue
        assert table is not None
        before = table[:, at]
        after = edit.change(before, call.only(heads)) if edit.with_call else edit.change(before)
        if after.shape != before.shape:
            raise Problem(
                "an edit returned weights of shape {after} for {before}: keep the shape",
                after=tuple(after.shape),
                before=tuple(before.shape),
            )
        output = output.index_copy(1, index, call.applied(after, heads).to(output.dtype))
        table = table.index_copy(1, at, after.to(table.dtype))
    return output, None if weights is None else table


def _edited_heads(edit: _Edit, n_head: int) -> list[int]:
    """Return the heads that an edit changes."""
    heads = list(range(n_head) if edit.heads is None else edit.heads)
    if any(not 0 <= h < n_head for h in heads):
        raise Problem(
            "an edit names heads {heads}, but there are {n_head}, numbered from 0", heads=heads, n_head=n_head
        )
    return heads


def _check_finite(call: Call, tensors: tuple[Tensor, ...]) -> None:
    """Raise `NotFinite` with the input at fault if these tensors hold NaN."""
    if math.isfinite(sum(_probe(tensor.detach()) for tensor in tensors)):
        return
    check_inputs_finite(call, ("q", "k", "v", "bias", "sinks"))


def check_inputs_finite(call: Any, names: Sequence[str]) -> None:
    """Raise `NotFinite` if one of these tensors of a call (a `Call` or a mixer's) isn't finite."""
    for what in names:
        tensor = getattr(call, what)
        if tensor is not None and (bad := ~torch.isfinite(tensor.detach())).any():
            index = tuple(bad.nonzero()[0].tolist())
            if what != "bias" or torch.isnan(tensor[index]):
                raise NotFinite(
                    "{what} holds {value} at {place} of {shape}: attention needs finite numbers",
                    what=what,
                    value=tensor[index].item(),
                    place=index,
                    shape=tuple(tensor.shape),
                )


def _probe(tensor: Tensor) -> float:
    """Return a number that is finite only if the tensor is. The dot product with itself is fastest on a CPU."""
    if tensor.is_contiguous() and tensor.dtype in (torch.float32, torch.float64):
        flat = tensor.view(-1)
        return torch.dot(flat, flat).item()
    return tensor.sum().item()
