"""PyTorch's fused kernel (SDPA), called only on the parts that a mask leaves visible.

With a dense mask the kernel computes every score and discards the hidden ones. Most masks combine two simple rules: the
real keys of each item are contiguous (padding), and each query sees a band of keys (causal, window). They split into a
few rectangles, each full, or a causal square, or a small piece with a small mask.

B batch, H heads, G key/value heads, N queries, M keys, D head width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend

from .mask_algebra import Full, Mask
from .rules import Band, Padding, narrowest

CHUNK = 128  # queries per piece of a band; at 64 the calls cost more, at 256 the hidden corners do (measured on CPU)


@dataclass(frozen=True)
class Rectangle:
    """Rows `rows` of item `item` attend to columns `cols`: all, a causal square, or a band."""

    item: int | None  # None: all items alike
    rows: tuple[int, int]
    cols: tuple[int, int]
    causal: bool = False
    band: tuple[int | None, int | None] | None = None  # (left, right) around a query's position


def plan(mask: Mask, batch: int, n: int, m: int) -> list[Rectangle] | None:
    """Return the visible pieces of a mask, or None if it must be written out.

    >>> from .masks import causal, padding
    >>> plan(causal() & padding([2, 3]), 2, 3, 3)[0]
    Rectangle(item=0, rows=(0, 2), cols=(0, 2), causal=True, band=None)
    """
    rules = [rule for rule in mask.terms() if not isinstance(rule, Full | Band)]
    ranges = rules[0].ranges() if len(rules) == 1 and isinstance(rules[0], Padding) else None
    if rules and ranges is None:
        return None
    before, after = narrowest(mask.terms())
    # The last query is at m − 1 and the first at m − n: drop limits beyond the keys.
    before = None if before is not None and before >= m - 1 else before
    after = None if after is not None and after >= n - 1 else after

    if ranges is None or len(ranges) == 1 or len(set(ranges)) == 1:
        start, stop = (0, m) if ranges is None else (ranges[0][0], min(ranges[0][1], m))
        return _band(None, n, m, start, stop, before, after)
    pieces = []
    for item, (start, stop) in enumerate(ranges):
        pieces += _band(item, n, m, start, min(stop, m), before, after)
    return pieces


def native_piece(mask: Mask, n: int, m: int) -> list[Rectangle] | None:
    """Return the piece of a mask that the kernel supports natively (everything, or a causal square), else None."""
    match mask:
        case Full():
            return [Rectangle(None, (0, n), (0, m))]
        case Band(left=None, right=0) if n == m:
            return [Rectangle(None, (0, n), (0, m), causal=True)]
    return None


def _band(
    item: int | None, n: int, m: int, start: int, stop: int, before: int | None, after: int | None
) -> list[Rectangle]:
    """Return rectangles that cover a banded mask: each query sees `before` keys before and `after` keys after its position.

    Only keys start … stop are visible. `None` means no limit. The rectangles cover all n rows in order.
    """
    if before is None and after is None:
        return [Rectangle(item, (0, n), (start, stop))]
    shift = m - n  # query i is at position i + shift
    if before is None and after == 0:
        first, last = (min(max(p - shift, 0), n) for p in (start, stop))
        pieces = [Rectangle(item, (0, first), (start, start))] if first else []
        if last > first:
            if first + shift == start:
                pieces.append(Rectangle(item, (first, last), (start, start + last - first), causal=True))
            else:
                pieces += _chunks(item, first, last, shift, start, stop, None, 0)
        return pieces + ([Rectangle(item, (last, n), (start, stop))] if n > last else [])
    return _chunks(item, 0, n, shift, start, stop, before, after)


def _chunks(
    item: int | None, first: int, last: int, shift: int, start: int, stop: int, before: int | None, after: int | None
) -> list[Rectangle]:
    pieces = []
    for a in range(first, last, CHUNK):
        b = min(a + CHUNK, last)
        low = start if before is None else min(max(start, a + shift - before), stop)
        high = stop if after is None else max(min(stop, b + shift + after), low)
        is_full = (before is None or b - 1 + shift - before <= low) and (after is None or a + shift + after >= high - 1)
        pieces.append(Rectangle(item, (a, b), (low, high), band=None if is_full else (before, after)))
    return pieces


def count_scores(pieces: list[Rectangle], batch: int) -> int:
    """Return how many scores the pieces compute per head."""
    return sum(
        (batch if p.item is None else 1) * (p.rows[1] - p.rows[0]) * (p.cols[1] - p.cols[0]) // (2 if p.causal else 1)
        for p in pieces
    )


def run(q: Tensor, k: Tensor, v: Tensor, pieces: list[Rectangle], scale: float, dropout: float) -> Tensor:
    """Run SDPA on each piece and concatenate the outputs: (B, H, N, D)."""
    n, m = q.shape[2], k.shape[2]
    if len(pieces) == 1:
        low, high = pieces[0].cols
        keys, values = (k, v) if (low, high) == (0, m) else (k[:, :, low:high], v[:, :, low:high])
        return _attend(q, keys, values, pieces[0], m - n, scale, dropout)
    items = [None] if pieces[0].item is None else list(range(q.shape[0]))
    # Split instead of slicing: the backward of split writes each gradient once, that of a slice writes a whole tensor
    # of zeros per piece.
    qs, ks, vs = ([t] if items[0] is None else t.split(1) for t in (q, k, v))
    outputs = []
    for item in items:
        mine = [p for p in pieces if p.item == item]
        i = item or 0
        in_blocks = (
            torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad) and len(mine) > 4
        )
        take_k, take_v = (_slicer(t[i], in_blocks=in_blocks) for t in (ks, vs))
        parts = []
        for piece, part in zip(mine, qs[i].split([p.rows[1] - p.rows[0] for p in mine], dim=2), strict=True):
            parts.append(_attend(part, take_k(*piece.cols), take_v(*piece.cols), piece, m - n, scale, dropout))
        outputs.append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=2))
        assert outputs[-1].shape[2] == n
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _slicer(whole: Tensor, in_blocks: bool) -> Callable[[int, int], Tensor]:
    """Return a function that slices keys of a (B, G, M, D) tensor; `in_blocks` splits it once into blocks of CHUNK."""
    if not in_blocks:
        return lambda low, high: whole[:, :, low:high]
    blocks = whole.split(CHUNK, dim=2)

    def take(low: int, high: int) -> Tensor:
        if high <= low:
            return blocks[0][:, :, :0]
        first, last = low // CHUNK, (high - 1) // CHUNK
        run = list(blocks[first : last + 1])
        run[-1] = run[-1][:, :, : high - last * CHUNK]
        run[0] = run[0][:, :, low - first * CHUNK :]
        return run[0] if len(run) == 1 else torch.cat(run, dim=2)

    return take


def _attend(q: Tensor, k: Tensor, v: Tensor, piece: Rectangle, shift: int, scale: float, dropout: float) -> Tensor:
    if k.shape[2] == 0:
        return q.new_zeros(*q.shape[:3], v.shape[3])
    mask = None
    if piece.band is not None:
        row = torch.arange(piece.rows[0] + shift, piece.rows[1] + shift, device=q.device)[:, None]
        col = torch.arange(piece.cols[0], piece.cols[1], device=q.device)
        mask = Band(*piece.band).between(row, col)
    return sdpa(q, k, v, mask, scale=scale, dropout=dropout, causal=piece.causal)


def sdpa(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, scale: float, dropout: float = 0.0, causal: bool = False
) -> Tensor:
    """Run SDPA with grouped heads and any value width; q (B, H, N, D), k (B, G, M, D), v (B, G, M, Dv)."""
    heads, d = q.shape[1], q.shape[3]
    groups, value_width = v.shape[1], v.shape[3]
    if value_width != d:  # the fused kernel needs equal widths; zeros change no score and no output
        wide = max(d, value_width)
        q, k, v = (F.pad(t, (0, wide - t.shape[3])) for t in (q, k, v))
    grouped = True if heads != groups else False  # a branch, so that a compiler sees a bool
    output = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    return output if value_width == output.shape[3] else output[..., :value_width]


def flash(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Run the kernel of SDPA on a CPU; return the output (B, H, N, D) and log Σ e^score of every row (B, H, N).

    >>> q = torch.ones(1, 2, 3, 4)
    >>> output, lse = flash(q, q[:, :1], q[:, :1], causal=True, scale=0.25)
    >>> output.shape, lse[0, 1].exp().round(decimals=3).tolist()  # e, 2e, 3e
    (torch.Size([1, 2, 3, 4]), [2.7179999351501465, 5.436999797821045, 8.154999732971191])
    """
    if (per_kv := q.shape[1] // k.shape[1]) > 1:  # as SDPA does
        k, v = (t.repeat_interleave(per_kv, 1) for t in (k, v))
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)
    return output, lse


def is_flash(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float) -> bool:
    """True if SDPA would run the flash kernel on these without a gradient."""
    if q.device.type != "cpu" or q.dtype != torch.float32 or torch.compiler.is_compiling():
        return False
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return False
    grouped = q.shape[1] != k.shape[1]
    backend = torch._fused_sdp_choice(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
    return backend == SDPBackend.FLASH_ATTENTION.value
