"""The one function through which every attention of every model goes: `attend(q, k, v, mask)`.

It runs the fastest kernel for the mask at hand and can say which and why (`explain`). While somebody listens
(`record`), it hands over references to q, k, v, the mask and the scale: everything needed to compute any weight later.

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

from ..i18n import Message, Problem, say, unknown
from . import formula, masks, pieces
from .formula import Call
from .mask_algebra import Full
from .rules import Band
from .shapes import check_bias, check_shapes

Kernel = Literal["auto", "plain", "sdpa"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)
T = TypeVar("T")
MaskLike = masks.Mask | Tensor | None  # what may be given as a mask


class NotFinite(Problem):
    """NaN or infinity among the numbers that attention was given."""


@dataclass(frozen=True)
class _Edit:
    change: Callable[..., Tensor] | float
    name: str | None
    heads: tuple[int, ...] | None
    with_call: bool


# Known to the whole process, since `attend` is called deep inside models that know of neither and hand nothing through.
_listeners: list[tuple[Callable[[Any], None], int]] = []  # who hears, and in which thread
_edits: list[_Edit] = []  # of every thread


class Options(TypedDict, total=False):
    """What `attend` takes beside q, k, v, the mask and `weights`."""

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
    """softmax(softcap(q·kᵀ·scale) + bias, where mask allows)·v, by the fastest kernel that can.

    q is (B, H, N, D); k and v are (B, G, M, D), G a divisor of H, never repeated in memory; v may have a width of its
    own. `mask`: a mask of `qkv.masks` or a bool tensor, True = may attend; a row that may attend to nothing gives 0.
    `scale` is 1/√D unless given. `softcap` bends scaled scores to ±softcap; `bias` is added after that, and where it is
    −inf the pair is hidden. `sinks` (H,) takes a share of each row and gives nothing. `dropout` is applied as it is
    given: pass 0 in eval. A NaN in what may be seen is refused (on a CPU, where looking is cheap).

    Gives the output (B, H, N, Dv); with `weights=True` the pair (output, weights), the weights exact and before dropout.

    >>> q = torch.eye(3).reshape(1, 1, 3, 3)
    >>> output, weights = attend(q, q, q, masks.causal(), weights=True)
    >>> [[round(w, 2) for w in row] for row in weights[0, 0].tolist()]
    [[1.0, 0.0, 0.0], [0.36, 0.64, 0.0], [0.26, 0.26, 0.47]]
    """
    if not 0 <= dropout < 1:
        raise Problem("dropout is {value}: give a share from 0 up to, not including, 1", value=repr(dropout))
    fast_path = not (weights or _listeners or _edits) and bias is softcap is sinks is scale is None and kernel == "auto"
    if fast_path and (causal := _direct_causal(q, k, v, mask)) is not None:
        # The commonest calls go straight to the kernel: with one new token at a time, microseconds of Python show.
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
        # With few keys the fused kernel takes a row of NaN scores for a hidden one and gives 0: there q and k are looked at.
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
    """Which kernel `attend` would run on these arguments, and why, in one sentence, in the language spoken.

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
    """Hand a call, of an attention or of what stands in its place, to whoever records in this thread.

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
    """Inside the block, `hear` is told what every `attend` of this thread received, as soon as its output is computed.

    What it raises goes through the model to whoever called it: a forward pass can be stopped between two layers.

    >>> q = torch.ones(1, 1, 2, 4)
    >>> with listen(print):
    ...     _ = attend(q, q, q, name="decoder.0")
    <Call decoder.0: q (1, 1, 2, 4), k (1, 1, 2, 4), mask full()>
    """
    with registered(_listeners, (on_call, threading.get_ident())):
        yield


@contextmanager
def registered(entries: list[T], entry: T) -> Iterator[None]:
    """Inside the block, `among` has one more; it is taken out by identity, since an outer one may be equal."""
    entries.append(entry)
    try:
        yield
    finally:
        entries[:] = [other for other in entries if other is not entry]


@contextmanager
def record() -> Iterator[list[Call]]:
    """Collect what every `attend` of this thread inside the block receives, in order.

    The tensors are the caller's own: writing into them later (resetting a cache and filling it again) changes them.

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
    """Inside the block, the weights of these heads (all by default) of calls with this name (any) pass through `change`.

    `change` gets (B, heads, N, M) and gives the same shape back; the output follows from what it gives, without dropout.
    With `with_call` it gets the `Call` of these heads too, which knows the mask. A number instead of a function: weights,
    and so the output, times that, which needs no weights to be computed. Several edits of one head apply one after the other.

    >>> q = torch.ones(1, 2, 2, 4)
    >>> with replace_weights(torch.zeros_like, heads=[1]):
    ...     attend(q, q, q)[0, :, 0, 0].tolist()
    [1.0, 0.0]
    """
    with registered(_edits, _Edit(change, name, None if heads is None else tuple(heads), with_call)):
        yield


def _direct_causal(q: Tensor, k: Tensor, v: Tensor, mask: MaskLike) -> bool | None:
    """Is this a call that SDPA knows as it is, and then with its causal mask or without? None: no, or not surely."""
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
    for what, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_floating_point:
            kind = str(tensor.dtype) if isinstance(tensor, Tensor) else type(tensor).__name__
            raise Problem(
                "{what} is {came}: attend takes torch tensors of floats (qkv.steps takes NumPy arrays)",
                what=what,
                came=kind,
            )
    check_shapes(q.shape, k.shape, v.shape)
    if not q.dtype == k.dtype == v.dtype:
        raise Problem("q, k, v are {q}, {k}, {v}: convert all three to one dtype", q=q.dtype, k=k.dtype, v=v.dtype)
    batch, heads, n, d = q.shape
    m = k.shape[2]
    rule = masks.resolve(mask)
    rule.check(batch, heads, n, m)
    if d == 0:
        raise Problem("q and k are 0 wide: a dot product needs at least one number")
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise Problem("scale is a number, so it would not be learned: multiply q by your parameter and give scale=1")
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
    return Call(q, k, v, rule, d**-0.5 if scale is None else float(scale), bias, softcap, sinks, name)


def _choose_kernel(
    call: Call, weights: bool, kernel: Kernel
) -> tuple[Kernel, list[pieces.Rectangle] | None, Callable[[], Message]]:
    """(kernel, the pieces to run it on or None for the whole, why: worded only when somebody asks)."""
    if kernel not in KERNELS:
        raise unknown("kernel", kernel, KERNELS)
    batch, _, n, _ = call.q.shape
    m = call.k.shape[2]
    compiling = torch.compiler.is_compiling()
    why_plain: Callable[[], Message] | None = None
    if weights:
        why_plain = lambda: Message("because the weights were asked for")  # noqa: E731
    elif call.softcap is not None or call.sinks is not None:
        name = "softcap" if call.softcap is not None else "sinks"
        why_plain = lambda: Message("because the fused kernel has no {name}", name=name)  # noqa: E731
        if kernel == "sdpa":
            raise Problem("kernel='sdpa' can't do this: the fused kernel has no {name}; use kernel='auto'", name=name)
    elif not compiling and 0 in (batch, n, m):
        why_plain = lambda: Message("because there is nothing to compute")  # noqa: E731
    if kernel == "plain" or why_plain:
        return "plain", None, why_plain or (lambda: Message("because it was asked for"))
    if call.bias is not None:
        return "sdpa", None, lambda: Message("with bias and mask written out, added to the scores")

    def written_out() -> Message:
        return Message("with {mask} written out as {n}×{m}", mask=repr(call.mask), n=n, m=m)

    # Reading lengths means waiting for the device and would break a compiled graph, and a loop over pieces would be
    # compiled anew for every length: there a mask that the kernel doesn't know by itself is written out.
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
    """Is this one run of the flash kernel over all queries and keys, and then a causal one? None: it isn't."""
    n, m = call.q.shape[2], call.k.shape[2]
    if parts is None or len(parts) != 1 or parts[0].band is not None or call.v.shape[3] != call.q.shape[3]:
        return None
    part = parts[0]
    if part.item is not None or part.rows != (0, n) or part.cols != (0, m):
        return None
    return part.causal if pieces.is_flash(call.q, call.k, call.v, causal=part.causal, scale=call.scale) else None


def _mask_and_bias(call: Call) -> Tensor | None:
    """Mask and bias as one tensor for SDPA: bool where there is no bias, else floats with −inf."""
    allowed = None if isinstance(call.mask, Full) else call.allowed()
    if call.bias is None:
        return allowed
    bias = call.bias.to(call.q.dtype)
    bias = bias.expand(*bias.shape[:-2], call.q.shape[2], call.k.shape[2])
    return bias if allowed is None else torch.where(allowed, bias, float("-inf"))


def apply_edits(call: Any, output: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Let every edit that means this call, a `Call` or what stands in its place, change its heads' weights, and give the
    output that follows. Weights are computed of heads alone that a function changes, where nobody has them all."""
    edits = [(edit, _edited_heads(edit, call.n_head)) for edit in _edits if edit.name is None or edit.name == call.name]
    changing = sorted({head for edit, heads in edits for head in heads if callable(edit.change)})
    table, rows = weights, list(range(call.n_head))  # weights, and the heads they are of
    if weights is None and changing:
        rows = changing
        table = call.only(changing).table() if len(changing) < call.n_head else call.table()
    for edit, heads in edits:
        index = torch.as_tensor(heads, device=output.device)
        inside = [head for head in heads if table is not None and head in rows]
        at = torch.as_tensor([rows.index(head) for head in inside], dtype=torch.long, device=output.device)
        if not callable(edit.change):  # a head's output is so many times what its weights are
            output = output.index_copy(1, index, output[:, index] * edit.change)
            table = table if table is None else table.index_copy(1, at, table[:, at] * edit.change)
            continue
        assert table is not None
        before = table[:, at]
        after = edit.change(before, call.only(heads)) if edit.with_call else edit.change(before)
        if after.shape != before.shape:
            raise Problem(
                "an edit gave weights of {after}, it got {before}: keep the shape",
                after=tuple(after.shape),
                before=tuple(before.shape),
            )
        output = output.index_copy(1, index, call.applied(after, heads).to(output.dtype))
        table = table.index_copy(1, at, after.to(table.dtype))
    return output, None if weights is None else table


def _edited_heads(edit: _Edit, n_head: int) -> list[int]:
    """The heads that an edit means, of as many as there are."""
    heads = list(range(n_head) if edit.heads is None else edit.heads)
    if any(not 0 <= h < n_head for h in heads):
        raise Problem(
            "heads {heads} were to be edited, but there are {n_head}, numbered from 0", heads=heads, n_head=n_head
        )
    return heads


def _check_finite(call: Call, tensors: tuple[Tensor, ...]) -> None:
    """NaN comes out only if NaN (or infinity) went in: say where it is."""
    if math.isfinite(sum(_probe(tensor.detach()) for tensor in tensors)):
        return
    check_inputs_finite(call, ("q", "k", "v", "bias", "sinks"))


def check_inputs_finite(call: Any, names: Sequence[str]) -> None:
    """Refuse a call, of an attention or of what stands in its place, if one of these tensors isn't finite."""
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
    """A number that is not finite if any in the tensor isn't; the dot product with itself is the quickest on a CPU."""
    if tensor.is_contiguous() and tensor.dtype in (torch.float32, torch.float64):
        flat = tensor.view(-1)
        return torch.dot(flat, flat).item()
    return tensor.sum().item()
