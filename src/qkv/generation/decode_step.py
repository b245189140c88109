"""Decode one new token per item without calling modules: the hot loop of generation.

`Transformer.decode` is the reference. For a single token of a small model, calling modules costs more than the arithmetic,
so here each block is a chain of functions, and what all layers share (positions, mask) is computed once per step.
Attention still goes through `attend`, so that recorders and edits see it.

B batch, H heads, G key/value heads, D head width, C model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import masks
from ..attention.cache import KVCache
from ..attention.dispatch import attend
from ..attention.heads import MultiHeadAttention
from ..attention.norms import RMSNorm
from ..attention.positions import Rotary
from ..attention.rules import Mask
from ..model.experts import MixtureOfExperts
from ..model.layers import Block, FeedForward
from ..model.thin_matmul import product
from ..model.transformer import ModelCache, Transformer

Turn = tuple[Tensor, Tensor]  # cosines and signed sines of the newest token
# Submodules handled below. A block with any other submodule goes through `Transformer.decode`.
_BLOCK = {"attention", "attention_norm", "cross", "cross_norm", "feed_forward", "feed_forward_norm", "dropout"}
_HEADS = {"q", "k", "v", "out", "position", "q_norm", "k_norm"}
_FORWARD = {"up", "gate", "down"}


def can_step(model: Transformer, cache: ModelCache) -> bool:
    """True if `Step` supports this model; otherwise use `Transformer.decode`."""
    return all(isinstance(layer, KVCache) and not layer.static for layer in cache.layers) and all(
        type(block) is Block
        and type(block.attention) is MultiHeadAttention
        and type(block.feed_forward) in (FeedForward, MixtureOfExperts)
        and block.attention.window is None
        and not block.parallel
        and _has_plain_rotary(block.attention)
        and _has_only(block, _BLOCK)
        and _has_only(block.attention, _HEADS)
        and (not isinstance(block.feed_forward, FeedForward) or _has_only(block.feed_forward, _FORWARD))
        for block in model.decoder or ()
    )


def _has_plain_rotary(heads: MultiHeadAttention) -> bool:
    rotary = heads.position
    return rotary is None or (type(rotary) is Rotary and not rotary.interleaved and rotary.turned == heads.head_width)


def _has_only(module: nn.Module, allowed: set[str]) -> bool:
    return {name for name, _ in module.named_children()} <= allowed


class Step:
    """Map ids (B,) to the decoder's states (B, C) and append one token to the cache."""

    def __init__(self, model: Transformer, cache: ModelCache) -> None:
        assert model.decoder is not None
        self.model, self.cache = model, cache
        self.blocks = [_block(block) for block in model.decoder]
        self.norm = None if model.decoder_norm is None else _norm(model.decoder_norm)
        position = getattr(model.decoder[0].attention, "position", None)  # the layers share one
        self.rotary = position if isinstance(position, Rotary) else None

    def __call__(self, ids: Tensor, memory_mask: masks.Mask | None = None) -> Tensor:
        cache = self.cache
        at = cache.at(1)
        x = self.model.embed_target(ids[:, None], at)  # (B, 1, C)
        # The newest token sees every real key. Items of equal length need no mask.
        rule = masks.full()
        if not isinstance(at, int):
            keys = torch.arange(int(at.max()) + 1, device=at.device)
            rule = masks.dense((keys <= at)[:, None, None])  # (B, 1, 1, M)
        turn = None
        if self.rotary is not None:
            cos, sin = self.rotary.table(at, 1, x)  # (1, D/2) or (B, 1, 1, D/2)
            turn = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        memory_rule = masks.full() if memory_mask is None else memory_mask
        x = x[:, 0]  # (B, C)
        for i, block in enumerate(self.blocks):
            x = block(x, rule, turn, cache.layers[i], memory_rule, cache.memory[i] if cache.memory else None)
        return x if self.norm is None else self.norm(x)


def _block(block: Any) -> Callable[..., Tensor]:
    """Return a block as a function of (x, rule, rotary table, cache, memory's rule, memory's cache)."""
    attend_ = _around(_self_attention(block.attention), block.attention_norm, block.pre)
    cross = None if block.cross is None else _around(_cross_attention(block.cross), block.cross_norm, block.pre)
    feed_forward_ = _around(_feed_forward(block.feed_forward), block.feed_forward_norm, block.pre)

    def step(
        x: Tensor, rule: Mask, turn: Turn | None, own: KVCache, memory_rule: Mask, memory_cache: KVCache | None
    ) -> Tensor:
        x = attend_(x, rule, turn, own)
        return feed_forward_(x if cross is None else cross(x, memory_rule, memory_cache))

    return step


def _around(sublayer: Callable[..., Tensor], norm_module: nn.Module, pre: bool) -> Callable[..., Tensor]:
    """Return a sublayer with its residual connection and its norm before or after."""
    norm = _norm(norm_module)
    if pre:
        return lambda x, *more: x + sublayer(norm(x), *more)
    return lambda x, *more: norm(x + sublayer(x, *more))


def _self_attention(heads: MultiHeadAttention) -> Callable[..., Tensor]:
    to_q, to_k, to_v, out = (_linear(part) for part in (heads.q, heads.k, heads.v, heads.out))
    n_head, groups, width = heads.n_head, heads.n_kv_head, heads.head_width
    scale, softcap, name = heads.scale, heads.softcap, heads.name
    norm = _norm_of_both(heads)

    def attend_(x: Tensor, rule: Mask, turn: Turn | None, cache: KVCache) -> Tensor:
        q = to_q(x).view(-1, n_head, 1, width)  # with one token, (B, H·D) → (B, H, 1, D) moves nothing
        k = to_k(x).view(-1, groups, 1, width)
        v = to_v(x).view(-1, groups, 1, width)
        if norm is not None or turn is not None:
            both = torch.cat([q, k], 1)  # (B, H + G, 1, D): normed and rotated together
            if norm is not None:
                both = norm(both)
            if turn is not None:  # [a, b] → [a, b]·[cos, cos] + [b, a]·[−sin, sin]
                both = torch.addcmul(both * turn[0], both.roll(width // 2, -1), turn[1])
            q, k = both[:, :n_head], both[:, n_head:]
        k, v = cache.append(k, v)
        output = attend(q, k, v, rule, scale=scale, softcap=softcap, name=name)
        return out(output.reshape(-1, n_head * width))

    return attend_


def _norm_of_both(heads: MultiHeadAttention) -> Callable[[Tensor], Tensor] | None:
    """Return one function for the norms of q and k, over their concatenated heads."""
    n_head, groups, (q, k) = heads.n_head, heads.n_kv_head, (heads.q_norm, heads.k_norm)
    if q is None or k is None:
        return None
    if type(q) is RMSNorm and type(k) is RMSNorm and q.eps == k.eps:
        return _rms(torch.cat([q.weight.expand(n_head, 1, -1), k.weight.expand(groups, 1, -1)]), q.eps)
    q_norm, k_norm = _norm(q), _norm(k)
    return lambda x: torch.cat([q_norm(x[:, :n_head]), k_norm(x[:, n_head:])], 1)


def _cross_attention(heads: MultiHeadAttention) -> Callable[..., Tensor]:
    to_q, out = _linear(heads.q), _linear(heads.out)
    n_head, width, q_norm = heads.n_head, heads.head_width, None if heads.q_norm is None else _norm(heads.q_norm)

    def attend_(x: Tensor, rule: Mask, memory_cache: KVCache) -> Tensor:
        q = to_q(x).view(-1, n_head, 1, width)
        q = q if q_norm is None else q_norm(q)
        k, v = memory_cache.k[:, :, : memory_cache.longest], memory_cache.v[:, :, : memory_cache.longest]
        output = attend(q, k, v, rule, scale=heads.scale, softcap=heads.softcap, name=heads.name)
        return out(output.reshape(-1, n_head * width))

    return attend_


def _feed_forward(part: Any) -> Callable[[Tensor], Tensor]:
    if type(part) is MixtureOfExperts:
        return part
    activation, up, down = part.activation, _linear(part.up), _linear(part.down)
    if part.gate is None:
        return lambda x: down(activation(up(x)))
    gate = _linear(part.gate)
    return lambda x: down(activation(gate(x)) * up(x))


def _norm(norm: Any) -> Callable[[Tensor], Tensor]:
    if type(norm) is RMSNorm:
        return _rms(norm.weight, norm.eps)
    if type(norm) is nn.LayerNorm:
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: F.layer_norm(x, shape, weight, bias, eps)
    return norm


def _rms(weight: Tensor, eps: float) -> Callable[[Tensor], Tensor]:
    """x / √(|x|²/C + ε)·w  =  x / √(|x|² + C·ε) · (√C·w), which is one operation less."""
    size = weight.shape[-1]
    if weight.dtype not in (torch.float32, torch.float64):
        return lambda x: F.rms_norm(x, (size,), None, eps) * weight
    scaled, least = weight * size**0.5, torch.tensor(eps * size).to(weight)

    def norm(x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * torch.addcmul(least, length, length).rsqrt_() * scaled

    return norm


def _linear(part: Any) -> Callable[[Tensor], Tensor]:
    """Return a linear layer as a function, without the cost of calling a module."""
    if type(part) is nn.Linear:
        weight, bias = part.weight, part.bias
        return lambda x: product(x, weight, bias)
    return part.flat() if hasattr(part, "flat") else part
