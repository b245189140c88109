"""One new token per item through the decoder, written flat: what generation spends its time on.

`Transformer.decode` is the reference and says the same in modules, but for a single token of a small model calling
modules costs more than the arithmetic. Here each block is one straight line of functions; what all layers share (where
the token stands, which keys are real) is worked out once per step. Attention still goes through `attend`, so that
recorders and edits see it.

B batch, H heads, G key/value heads, D head width, C model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import masks
from ..attention.attend import attend
from ..attention.cache import KVCache
from ..attention.heads import MultiHeadAttention
from ..attention.norms import RMSNorm
from ..attention.positions import Rotary, turn_halves
from .layers import Block, FeedForward
from .transformer import ModelCache, Transformer

# What is written out below. A block with any other part goes through the modules.
_BLOCK = {"attention", "attention_norm", "cross", "cross_norm", "feed_forward", "feed_forward_norm", "dropout"}
_HEADS = {"q", "k", "v", "out", "position", "q_norm", "k_norm"}
_FORWARD = {"up", "gate", "down"}


def fits(model: Transformer, cache: ModelCache) -> bool:
    """Can this model be stepped flat? Otherwise `Transformer.decode` does it."""
    return all(isinstance(kept, KVCache) and not kept.static for kept in cache.layers) and all(
        type(block) is Block
        and type(block.attention) is MultiHeadAttention
        and type(block.feed_forward) is FeedForward
        and block.attention.window is None
        and _turns_plainly(block.attention)
        and _has_only(block, _BLOCK)
        and _has_only(block.attention, _HEADS)
        and _has_only(block.feed_forward, _FORWARD)
        for block in model.decoder or ()
    )


def _turns_plainly(heads: MultiHeadAttention) -> bool:
    rotary = heads.position
    return rotary is None or (type(rotary) is Rotary and not rotary.interleaved and rotary.turned == heads.head_width)


def _has_only(module: nn.Module, known: set[str]) -> bool:
    return {name for name, _ in module.named_children()} <= known


class Step:
    """ids (B, 1) in, the decoder's states (B, 1, C) out, the cache one token longer."""

    def __init__(self, model: Transformer, cache: ModelCache) -> None:
        assert model.decoder is not None
        self.model, self.cache = model, cache
        self.blocks = [_block(block) for block in model.decoder]
        positions: list[Any] = [block.attention.position for block in model.decoder]  # type: ignore[union-attr]
        self.rotary: Rotary | None = positions[0]  # the layers share one

    def __call__(self, ids: Tensor, memory_mask: masks.Mask | None = None) -> Tensor:
        cache = self.cache
        at = cache.at(1)
        x = self.model._embed(ids, at)  # (B, 1, C)
        # The newest token sees every real key. Items of one length need no mask; others share one, made here.
        rule = masks.full()
        if not isinstance(at, int):
            keys = torch.arange(int(at.max()) + 1, device=at.device)
            rule = masks.dense((keys <= at)[:, None, None])  # (B, 1, 1, M)
        table = None if self.rotary is None else self.rotary.table(at, 1, x)
        memory_rule = masks.full() if memory_mask is None else memory_mask
        for i, block in enumerate(self.blocks):
            x = block(x, rule, table, cache.layers[i], memory_rule, cache.memory[i] if cache.memory else None)
        norm = self.model.decoder_norm
        return x if norm is None else norm(x)


def _block(block: Any) -> Callable[..., Tensor]:
    """A block as one function of (x, rule, rotary table, cache, memory's rule, memory's cache)."""
    pre = block.pre
    look, look_norm = _self_attention(block.attention), _norm(block.attention_norm)
    think, think_norm = _feed_forward(block.feed_forward), _norm(block.feed_forward_norm)
    cross = None if block.cross is None else _cross_attention(block.cross)
    cross_norm = None if block.cross is None else _norm(block.cross_norm)

    def before(x: Tensor, rule: Any, table: Any, own: Any, memory_rule: Any, kept: Any) -> Tensor:
        x = x + look(look_norm(x), rule, table, own)
        if cross is not None and cross_norm is not None:
            x = x + cross(cross_norm(x), memory_rule, kept)
        return x + think(think_norm(x))

    def after(x: Tensor, rule: Any, table: Any, own: Any, memory_rule: Any, kept: Any) -> Tensor:
        x = look_norm(x + look(x, rule, table, own))
        if cross is not None and cross_norm is not None:
            x = cross_norm(x + cross(x, memory_rule, kept))
        return think_norm(x + think(x))

    return before if pre else after


def _self_attention(heads: MultiHeadAttention) -> Callable[..., Tensor]:
    (wq, bq), (wk, bk), (wv, bv), (wo, bo) = (_pair(part) for part in (heads.q, heads.k, heads.v, heads.out))
    n_head, groups, width = heads.n_head, heads.n_kv_head, heads.head_width
    q_norm, k_norm = (None if norm is None else _norm(norm) for norm in (heads.q_norm, heads.k_norm))
    scale, softcap, name = heads.scale, heads.softcap, heads.name

    def look(x: Tensor, rule: masks.Mask, table: tuple[Tensor, Tensor] | None, cache: KVCache) -> Tensor:
        batch = x.shape[0]
        # With one token, (B, 1, H·D) → (B, H, 1, D) moves nothing.
        q = F.linear(x, wq, bq).view(batch, n_head, 1, width)
        k = F.linear(x, wk, bk).view(batch, groups, 1, width)
        v = F.linear(x, wv, bv).view(batch, groups, 1, width)
        if q_norm is not None and k_norm is not None:
            q, k = q_norm(q), k_norm(k)
        if table is not None:
            cos, sin = table
            turned = turn_halves(torch.cat([q, k], 1), cos, sin)  # both in one go
            q, k = turned[:, :n_head], turned[:, n_head:]
        k, v = cache.append(k, v)
        output = attend(q, k, v, rule, scale=scale, softcap=softcap, name=name)
        return F.linear(output.reshape(batch, 1, n_head * width), wo, bo)

    return look


def _cross_attention(heads: MultiHeadAttention) -> Callable[..., Tensor]:
    (wq, bq), (wo, bo) = _pair(heads.q), _pair(heads.out)
    n_head, width, q_norm = heads.n_head, heads.head_width, None if heads.q_norm is None else _norm(heads.q_norm)

    def look(x: Tensor, rule: masks.Mask, kept: KVCache) -> Tensor:
        q = F.linear(x, wq, bq).view(x.shape[0], n_head, 1, width)
        q = q if q_norm is None else q_norm(q)
        k, v = kept.k[:, :, : kept.longest], kept.v[:, :, : kept.longest]
        output = attend(q, k, v, rule, scale=heads.scale, softcap=heads.softcap, name=heads.name)
        return F.linear(output.reshape(x.shape[0], 1, n_head * width), wo, bo)

    return look


def _feed_forward(part: FeedForward) -> Callable[[Tensor], Tensor]:
    activation, (up, up_bias), (down, down_bias) = part.activation, _pair(part.up), _pair(part.down)
    if part.gate is None:
        return lambda x: F.linear(activation(F.linear(x, up, up_bias)), down, down_bias)
    gate, gate_bias = _pair(part.gate)
    return lambda x: F.linear(activation(F.linear(x, gate, gate_bias)) * F.linear(x, up, up_bias), down, down_bias)


def _norm(norm: Any) -> Callable[[Tensor], Tensor]:
    if type(norm) is RMSNorm and norm.weight.dtype in (torch.float32, torch.float64):
        weight, eps, share = norm.weight, norm.eps, 1 / norm.weight.shape[0]

        def rms(x: Tensor) -> Tensor:
            length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
            return x * length.square_().mul_(share).add_(eps).rsqrt_() * weight

        return rms
    if type(norm) is nn.LayerNorm:
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: F.layer_norm(x, shape, weight, bias, eps)
    return norm


def _pair(linear: Any) -> tuple[Tensor, Tensor | None]:
    return linear.weight, linear.bias
