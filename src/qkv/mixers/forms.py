"""Mixers in three equal forms: recurrent (token by token, constant memory), parallel (one matrix, as in attention) and
chunkwise (matrices inside chunks, a state between chunks), which is used to train on long texts.

    S ← γ·S + k·uᵀ,   y = scale·Sᵀq,   u = v                       decayed linear attention: retention, Mamba-2
                                       u = β·x, x = v − (γ·S)ᵀk    the delta rule: x is what the key does not store yet

Given u, the delta rule is linear attention of u. Inside a chunk x solves a triangular system, (I + M·β)·x = v − K̂·S₀,
where M = tril(K Kᵀ ∘ L, −1), S₀ is the state before the chunk and K̂ the decayed keys. The parallel form is a single chunk.

Decays are logarithms. L, the decay from j to i, is e^(cᵢ − cⱼ) with c their running sum inside a chunk, never a quotient
of products, which would be 0/0 for strong decays. Sums are in float64: after a strong decay, float32 would lose the small
differences that follow.

B batch, H heads, G groups of heads that share q and k (head h reads group h // (H/G)), R = H/G, N tokens, D key width,
P value width; T chunks of C tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

CHUNK = 64  # default tokens per chunk: its tables cost about as much as its states
SPAN = 1 << 20  # numbers of all heads' C×C tables processed at once: 4 MB of float32, which fits caches


def recurrent(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    write: Tensor | None,
    state: Tensor,
    scale: float,
    resets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute token by token: q and k (B, G, N, D), v (B, H, N, P), decay and write (B, H, N), state (B, H, D, P).

    Where `resets` (B, N) is True, the state is cleared first.

    >>> one = torch.ones(1, 1, 3, 1)
    >>> y, state = recurrent(one, one, one, torch.zeros(1, 1, 3), None, torch.zeros(1, 1, 1, 1), 1.0)
    >>> y.flatten().tolist(), state.item()
    ([1.0, 2.0, 3.0], 3.0)
    """
    per_group = v.shape[1] // q.shape[1]
    if per_group > 1:
        q, k = q.repeat_interleave(per_group, 1), k.repeat_interleave(per_group, 1)
    gamma, q = decay.exp(), q * scale
    if resets is not None:
        gamma = gamma.masked_fill(resets[:, None], 0.0)
    gamma = gamma[..., None, None]  # (B, H, N, 1, 1)
    outputs = []
    for t in range(v.shape[2]):
        key, value = k[:, :, t, :, None], v[:, :, t, None]  # (B, H, D, 1), (B, H, 1, P)
        state = state * gamma[:, :, t]
        if write is not None:
            value = write[:, :, t, None, None] * (value - key.mT @ state)
        state = state + key * value  # (B, H, D, P)
        outputs.append(q[:, :, t, None] @ state)
    return torch.cat(outputs, 2) if outputs else v, state


def chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    write: Tensor | None,
    state: Tensor,
    scale: float,
    chunk: int,
    resets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute chunk by chunk; a chunk as long as the text is the parallel form.

    >>> one = torch.ones(1, 1, 3, 1)
    >>> y, state = chunkwise(one, one, one, torch.zeros(1, 1, 3), None, torch.zeros(1, 1, 1, 1), 1.0, chunk=2)
    >>> y.flatten().tolist(), state.item()
    ([1.0, 2.0, 3.0], 3.0)
    """
    batch, heads, n, _ = v.shape
    whole = n // chunk * chunk
    most = max(SPAN // max(batch * heads * chunk * chunk, 1), 1) * chunk  # tokens of a span
    spans = [(start, min(start + most, whole)) for start in range(0, whole, most)]
    if whole < n:
        spans.append((whole, n))
    outputs = []
    for start, stop in spans:
        size = min(chunk, stop - start)
        parts = [t if t is None else t[:, :, start:stop].unflatten(2, (-1, size)) for t in (q, k, v, decay, write)]
        cut = None if resets is None else resets[:, start:stop].unflatten(1, (-1, size))
        output, state = _ChunkwiseFunction.apply(*parts, state, scale, cut)
        outputs.append(output.flatten(2, 3))
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs, 2)) if outputs else v, state


class DecayFactors(NamedTuple):
    """Decay factors of every head and chunk."""

    pairs: Tensor  # (B, G, R, T, C, C)  L: from token j to token i; 0 for j > i
    entry: Tensor  # (B, G, R, T, C, 1)  from the start of the chunk to token i
    exit: Tensor  # (B, G, R, T, C, 1)   from token j to the end of the chunk
    through: Tensor  # (B, G, R, T, 1, 1)  from start to end of the chunk


def decay_factors(decay: Tensor, resets: Tensor | None) -> DecayFactors:
    """Return the factors of log decays (…, T, C); resets broadcast to them."""
    total = decay.double().cumsum(-1)  # (B, G, R, T, C)
    last = total[..., -1:]
    pairs = (total[..., :, None] - total[..., None, :]).to(decay.dtype)
    entry, leave = total.to(decay.dtype), (last - total).to(decay.dtype)
    if resets is not None:
        count = resets.cumsum(-1)  # number of documents begun in this chunk
        pairs.masked_fill_(count[..., :, None] != count[..., None, :], float("-inf"))
        entry.masked_fill_(count > 0, float("-inf"))
        leave.masked_fill_(count != count[..., -1:], float("-inf"))
    entry.exp_()
    return DecayFactors(pairs.exp_().tril_(), entry[..., None], leave.exp_()[..., None], entry[..., -1:, None])


class _ChunkwiseFunction(torch.autograd.Function):
    """All chunks of a span, with a hand-written gradient: autograd would copy the span for every chunk it reads.

    q, k (B, G, T, C, D), v (B, H, T, C, P), decay, write (B, H, T, C), state (B, H, D, P), resets (B, T, C).
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        decay: Tensor,
        write: Tensor | None,
        state: Tensor,
        scale: float,
        resets: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        groups, shape = q.shape[1], v.shape
        q, k = (q * scale).contiguous(), k.contiguous()  # (B, G, T, C, D)
        v, decay, state = (t.unflatten(1, (groups, -1)) for t in (v.contiguous(), decay, state))  # (B, G, R, …)
        factors = decay_factors(decay, None if resets is None else resets[:, None, None])
        scores = (q @ k.mT)[:, :, None]  # (B, G, 1, T, C, C)
        weights = factors.pairs * scores
        starts = v.new_empty(*q.shape[:3], k.shape[-1], v.shape[2] * v.shape[-1])  # (B, G, T, D, R·P)
        if write is None:
            beta = solved = overlap = None
            x = u = v
            added, through = (
                k.mT @ _merge_heads(v * factors.exit),
                _merge_heads(factors.through.expand(*v.shape[:4], 1, v.shape[-1])),
            )
            state = _merge_heads(state[:, :, :, None])[:, :, 0]
            for t in range(q.shape[2]):
                starts[:, :, t] = state
                state = torch.addcmul(added[:, :, t], through[:, :, t], state)
            state = _split_heads(state[:, :, None], v)[:, :, :, 0].contiguous()
        else:
            beta, key = write.unflatten(1, (groups, -1))[..., None], k[:, :, None]  # (B, G, R, T, C, 1)
            overlap = (factors.pairs * (key @ key.mT)).tril_(-1)  # M
            solved = inverse(overlap * beta.mT)  # (I + M·β)⁻¹
            x, faded_keys, writes = solved @ v, solved @ (key * factors.entry), key * (factors.exit * beta)
            for t in range(q.shape[2]):
                _split_heads(starts[:, :, t, None], v)[:, :, :, 0] = state
                x[:, :, :, t] -= faded_keys[:, :, :, t] @ state
                state = (writes[:, :, :, t].mT @ x[:, :, :, t]).addcmul_(factors.through[:, :, :, t], state)
            u = x * beta
        y = weights @ u
        y.addcmul_(_split_heads(q @ starts, v), factors.entry)
        ctx.save_for_backward(q, k, v, beta, x, u, y, state, starts, scores, solved, overlap, *factors)
        ctx.scale = scale
        return y.view(shape), state.flatten(1, 2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor, dstate: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, beta, x, u, y, state, starts, scores, solved, overlap, *rest = ctx.saved_tensors
        factors = DecayFactors(*rest)
        dy, end = (t.unflatten(1, (q.shape[1], -1)) for t in (dy.contiguous(), dstate))
        faded_dy = _merge_heads(dy * factors.entry)
        before = q.mT @ faded_dy  # (B, G, T, D, R·P): gradient of the state before a chunk by its reads
        du = (factors.pairs * scores).mT @ dy  # (B, G, R, T, C, P)
        ends = torch.empty_like(starts)  # gradients of the states after each chunk
        if beta is None:
            through, end = (
                _merge_heads(factors.through.expand(*v.shape[:4], 1, v.shape[-1])),
                _merge_heads(end[:, :, :, None])[:, :, 0],
            )
            for t in reversed(range(q.shape[2])):
                ends[:, :, t] = end
                end = torch.addcmul(before[:, :, t], through[:, :, t], end)
            end = _split_heads(end[:, :, None], v)[:, :, :, 0]
            dx = du.addcmul_(_split_heads(k @ ends, v), factors.exit)
        else:
            dx, key = torch.empty_like(du), k[:, :, None]
            faded_keys, before = key * factors.entry, _split_heads(before, v)
            for t in reversed(range(q.shape[2])):
                _split_heads(ends[:, :, t, None], v)[:, :, :, 0] = end
                part = du[:, :, :, t].addcmul_(key[:, :, :, t] @ end, factors.exit[:, :, :, t])
                dx[:, :, :, t] = solved[:, :, :, t].mT @ (part * beta[:, :, :, t])
                end = torch.addcmul(before[:, :, :, t], factors.through[:, :, :, t], end)
                end -= faded_keys[:, :, :, t].mT @ dx[:, :, :, t]
        pairs = (dy @ u.mT).mul_(factors.pairs).sum(2)  # (B, G, T, C, C)
        dq = (pairs @ k).add_(faded_dy @ starts.mT).mul_(ctx.scale)
        dk = (pairs.mT @ q).add_(_merge_heads(u * factors.exit) @ ends.mT)
        dwrite = None
        if beta is not None:
            du -= overlap.mT @ dx
            dwrite = torch.linalg.vecdot(x, du).flatten(1, 2)
            pairs = (dx @ u.mT).mul_(factors.pairs).tril_(-1).sum(2)
            dk -= ((pairs + pairs.mT) @ k).add_(_merge_heads(dx * factors.entry) @ starts.mT)
        # A decay scales every read at or after it of all writes before it: q·dq − k·dk, which equals y·dy − v·dv.
        after = torch.cat([starts[:, :, 1:], _merge_heads(state[:, :, :, None])], 2).mul_(ends)
        carried = _split_heads(after, v).sum((-1, -2))[..., None]  # (B, G, R, T, 1)
        ddecay = torch.linalg.vecdot(y, dy).sub_(torch.linalg.vecdot(v, dx))  # (B, G, R, T, C)
        ddecay = ddecay.flip(-1).cumsum(-1).flip(-1).add_(carried)
        return dq, dk, dx.flatten(1, 2), ddecay.flatten(1, 2), dwrite, end.flatten(1, 2), None, None


def _merge_heads(table: Tensor) -> Tensor:
    """(B, G, R, T, ·, P) → (B, G, T, ·, R·P): join the heads of a group for one product with its q or k."""
    return table.permute(0, 1, 3, 4, 2, 5).flatten(4)


def _split_heads(table: Tensor, like: Tensor) -> Tensor:
    """Invert `_merge_heads`; returns a view."""
    return table.unflatten(4, (like.shape[2], -1)).permute(0, 1, 4, 2, 3, 5)


def inverse(system: Tensor) -> Tensor:
    """Return (I + system)⁻¹ of strictly lower triangular systems."""
    size = system.shape[-1]
    identity = torch.eye(size, dtype=system.dtype, device=system.device).expand_as(system)
    return torch.linalg.solve_triangular(system, identity, upper=False, unitriangular=True)
