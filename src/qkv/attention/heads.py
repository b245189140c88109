"""Attention modules: `SelfAttention` with one head, for learning, and `MultiHeadAttention`, for building models.

B batch, H heads, G key/value heads, N queries, M keys, D head width, C model width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..i18n import Problem, all_of, unknown
from . import masks, shapes
from .cache import Cache, KVCache
from .dispatch import MaskLike, attend
from .norms import CentredRMSNorm, RMSNorm
from .positions import ALiBi, Positions, Relative, Rotary

PositionKind = Literal["rotary", "alibi", "relative"]
K = TypeVar("K", bound=str)
T = TypeVar("T")

POSITIONS: dict[PositionKind, Callable[[int, int], nn.Module]] = {
    "rotary": lambda n_head, head_width: Rotary(head_width),
    "alibi": lambda n_head, head_width: ALiBi(n_head),
    "relative": lambda n_head, head_width: Relative(n_head),
}
NORMS: dict[str, Callable[..., nn.Module]] = {  # called with (width, eps)
    "rms": RMSNorm,
    "rms-centred": CentredRMSNorm,
    "layer": nn.LayerNorm,
}


class Cached(TypedDict, total=False):
    """Arguments of `MultiHeadAttention` for decoding."""

    cache: Cache | None
    at: Positions | None


class SelfAttention(nn.Module):
    """A single head of self-attention; returns output and weights.

    >>> output, weights = SelfAttention(6, d_k=4)(torch.randn(2, 5, 6))
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 6]), torch.Size([2, 5, 5]))
    """

    def __init__(self, width: int, d_k: int | None = None) -> None:
        super().__init__()
        check_sizes(width=width, d_k=d_k)
        d_k = width if d_k is None else d_k
        self.q = nn.Linear(width, d_k, bias=False)
        self.k = nn.Linear(width, d_k, bias=False)
        self.v = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: MaskLike = None) -> tuple[Tensor, Tensor]:
        """x (B, N, C) → output (B, N, C), weights (B, N, N)."""
        check_input("x", x, self.q.in_features)
        q, k, v = (project(x)[:, None] for project in (self.q, self.k, self.v))  # (B, 1, N, ·)
        output, weights = attend(q, k, v, mask, weights=True)
        return output[:, 0], weights[:, 0]

    if TYPE_CHECKING:  # nn.Module.__call__ returns Any
        __call__ = forward


class MultiHeadAttention(nn.Module):
    """Multi-head attention for self-, causal and cross-attention; `n_kv_head` selects MHA, GQA or MQA.

    width         C, of the input and the output
    n_kv_head     G: heads of keys and values, shared by groups of query heads; default n_head, 1 is MQA
    head_width    D: default width / n_head
    bias          True, False, "qkv" (none on the output) or "out" (only on the output)
    memory_width  width of `memory`, if it isn't `width`
    position      "rotary", "alibi", "relative", or such a module (shared between layers, say); for self-attention only,
                  since positions of x and of a memory can't be compared
    qk_norm       "rms", "rms-centred" or "layer": normalise q and k of each head before positions
    gate          multiply the output of each head by σ(W_g·x), elementwise, before the projection, as in Qwen3-Next
    window        int or (left, right): added to any mask, as masks.window
    dropout       on the weights, in training

    >>> mha = MultiHeadAttention(64, 8, n_kv_head=2, position="rotary")
    >>> x = torch.randn(2, 5, 64)
    >>> mha(x, mask=masks.causal()).shape
    torch.Size([2, 5, 64])
    >>> output, weights = mha(x, weights=True)
    >>> weights.shape
    torch.Size([2, 8, 5, 5])
    """

    def __init__(
        self,
        width: int,
        n_head: int,
        n_kv_head: int | None = None,
        head_width: int | None = None,
        *,
        bias: bool | Literal["qkv", "out"] = True,
        memory_width: int | None = None,
        position: PositionKind | nn.Module | None = None,
        qk_norm: str | None = None,
        gate: bool = False,
        window: int | tuple[int | None, int | None] | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        softcap: float | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes(width=width, n_head=n_head, n_kv_head=n_kv_head, head_width=head_width, memory_width=memory_width)
        n_kv_head = n_head if n_kv_head is None else n_kv_head
        if n_head % n_kv_head:
            raise Problem(
                "{n_head} heads don't divide over {n_kv_head} key/value heads: the first must be a multiple",
                n_head=n_head,
                n_kv_head=n_kv_head,
            )
        head_width = shapes.head_width(width, n_head) if head_width is None else head_width
        if bias not in (True, False, "qkv", "out"):
            raise Problem("bias is {bias!r}: give True, False, 'qkv' (none on the output) or 'out'", bias=bias)
        reads_bias, out_bias = bias in (True, "qkv"), bias in (True, "out")
        self.width, self.n_head, self.n_kv_head, self.head_width = width, n_head, n_kv_head, head_width
        self.memory_width = width if memory_width is None else memory_width
        self.dropout, self.scale, self.softcap, self.name = dropout, scale, softcap, name

        self.q = nn.Linear(width, n_head * head_width, bias=reads_bias)
        self.k = nn.Linear(self.memory_width, n_kv_head * head_width, bias=reads_bias)
        self.v = nn.Linear(self.memory_width, n_kv_head * head_width, bias=reads_bias)
        self.gate = nn.Linear(width, n_head * head_width, bias=reads_bias) if gate else None
        self.out = nn.Linear(n_head * head_width, width, bias=out_bias)
        if isinstance(position, str):
            position = look_up("position", position, POSITIONS)(n_head, head_width)
        if position is not None and not isinstance(position, Rotary | ALiBi | Relative):
            raise Problem(
                "position is a {kind}: inside attention there are {known}; sinusoidal and learned positions are added to "
                "the word vectors before it",
                kind=type(position).__name__,
                known=all_of(POSITIONS),
            )
        self.position = position
        self.q_norm = None if qk_norm is None else look_up("qk_norm", qk_norm, NORMS)(head_width)
        self.k_norm = None if qk_norm is None else look_up("qk_norm", qk_norm, NORMS)(head_width)
        pair = (window, 0) if isinstance(window, int) else window
        self.window = None if pair is None else masks.window(*pair)

    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: MaskLike = None,
        *,
        weights: Literal[False] = False,
        **cached: Unpack[Cached],
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: MaskLike = None,
        *,
        weights: Literal[True],
        **cached: Unpack[Cached],
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: MaskLike = None, *, weights: bool, **cached: Unpack[Cached]
    ) -> Tensor | tuple[Tensor, Tensor]: ...
    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: MaskLike = None,
        *,
        cache: Cache | None = None,
        at: Positions | None = None,
        weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from x (B, N, C) to itself, or to `memory` (B, M, ·); return (B, N, C), and with weights (B, H, N, M).

        With a cache, x is only the new tokens, and cached keys have no gradient; for cross-attention the keys of the
        memory are computed once. `at` is the position of the tokens of x, if they aren't consecutive.
        """
        check_input("x", x, self.width)
        if isinstance(mask, Tensor) and mask.is_floating_point() and mask.shape[-1] == self.width:
            raise Problem(
                "the third argument is {shape} {dtype}, as large as a text: it is the mask here. Keys and values both come from "
                "the second, `memory`: for mha(q, k, v) of PyTorch write mha(x, memory)",
                shape=tuple(mask.shape),
                dtype=mask.dtype,
            )
        rule = masks.resolve(mask)
        if self.window is not None:
            rule = rule & self.window
        n = x.shape[1]

        start: Positions = 0
        if memory is not None:
            q = self._split(self.q(x), self.n_head, self.q_norm)  # (B, H, N, D)
            k, v = self._from_memory(memory, cache)
        else:
            if self.memory_width != self.width:
                raise Problem("this attention reads a memory {width} wide: pass memory=", width=self.memory_width)
            q, k, v = self._from_itself(x)
            start = 0 if cache is None else cache.at(n)
            if isinstance(self.position, Rotary):
                positions = start if at is None else at
                q, k = self.position(q, positions), self.position(k, positions)
            if cache is not None:
                k, v = cache.append(k, v)
                rule = cache.place(rule, start)

        bias = None
        if self.position is not None and not isinstance(self.position, Rotary) and memory is None:
            keys_at, query_at = None if cache is None else cache.keys_at, None if isinstance(start, int) else start
            if isinstance(at, Tensor):
                if cache is not None:
                    raise Problem("a cache counts positions itself: with a bias by distance, leave `at` out")
                keys_at = query_at = at
            bias = self.position.bias(n, k.shape[2], query_at, keys_at, x.device)
        options: Any = dict(scale=self.scale, bias=bias, softcap=self.softcap, name=self.name, weights=weights)
        result = attend(q, k, v, rule, dropout=self.dropout if self.training else 0.0, **options)
        output, shares = result if isinstance(result, tuple) else (result, None)
        joined = output.transpose(1, 2).flatten(2)  # (B, N, H·D)
        projected: Tensor = self.out(joined if self.gate is None else joined * self.gate(x).sigmoid())  # (B, N, C)
        return projected if shares is None else (projected, shares)

    if TYPE_CHECKING:
        __call__ = forward

    def _split(self, x: Tensor, heads: int, norm: nn.Module | None = None) -> Tensor:
        x = x.unflatten(-1, (heads, self.head_width))  # (B, N, H, D)
        return (x if norm is None else norm(x)).transpose(1, 2)  # (B, H, N, D)

    def _from_itself(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v of x; in training by one matrix product instead of three."""
        projections = (self.q, self.k, self.v)
        if torch.is_grad_enabled() and all(type(part) is nn.Linear for part in projections):
            bias = None if self.q.bias is None else torch.cat([part.bias for part in projections])
            projected = F.linear(x, torch.cat([part.weight for part in projections]), bias)
            q, k, v = projected.split([part.out_features for part in projections], -1)
        else:
            q, k, v = (part(x) for part in projections)
        # (B, H, N, D), and twice (B, G, N, D)
        return self._split(q, self.n_head, self.q_norm), *self._split_keys_values(k, v)

    def _from_memory(self, memory: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        check_input("memory", memory, self.memory_width)
        if cache is None:
            return self._split_keys_values(self.k(memory), self.v(memory))  # (B, G, M, D) both
        if not isinstance(cache, KVCache):
            raise Problem("cross-attention needs a KVCache: a WindowCache drops keys of the memory")
        if cache.memory is None:
            cache.append(*self._split_keys_values(self.k(memory), self.v(memory)))
            cache.memory = memory.shape[1]
        if cache.memory != memory.shape[1]:
            raise Problem(
                "this cache holds a memory of {memory} tokens, not {tokens}: reset it first",
                memory=cache.memory,
                tokens=memory.shape[1],
            )
        return cache.k[:, :, : cache.memory].to(memory.dtype), cache.v[:, :, : cache.memory].to(memory.dtype)

    def _split_keys_values(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return self._split(k, self.n_kv_head, self.k_norm), self._split(v, self.n_kv_head)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> MultiHeadAttention:
        """Convert PyTorch's module, with its weights; the result is batch first.

        In PyTorch's masks True means "may not attend"; `masks.from_torch_mha` converts them.

        >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> ours, x = MultiHeadAttention.from_torch(theirs).eval(), torch.randn(1, 3, 8)
        >>> bool(torch.allclose(ours(x), theirs(x, x, x)[0], atol=1e-6))
        True
        """
        if module.bias_k is not None or module.add_zero_attn:
            raise Problem("add_bias_kv and add_zero_attn add keys that no text has; qkv has no such keys")
        if module.kdim != module.vdim:
            raise Problem(
                "keys come from width {keys} and values from {values}; qkv reads both from one memory",
                keys=module.kdim,
                values=module.vdim,
            )
        width, n_head, biased = module.embed_dim, module.num_heads, module.in_proj_bias is not None
        ours = cls(width, n_head, bias=biased, memory_width=module.kdim, dropout=module.dropout)
        ours = ours.to(module.out_proj.weight).train(module.training)
        if module._qkv_same_embed_dim:
            matrices: Any = module.in_proj_weight.chunk(3)
        else:
            matrices = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        biases = (*module.in_proj_bias.chunk(3), module.out_proj.bias) if biased else ()
        with torch.no_grad():
            parts = (ours.q, ours.k, ours.v, ours.out)
            for part, matrix in zip(parts, (*matrices, module.out_proj.weight), strict=True):
                part.weight.copy_(matrix)
            for part, bias in zip(parts, biases, strict=False):
                part.bias.copy_(bias)
        return ours

    def to_torch(self) -> nn.MultiheadAttention:
        """Convert to PyTorch's module (batch first); raise if it can't express this attention.

        >>> ours, x = MultiHeadAttention(8, 2).eval(), torch.randn(1, 3, 8)
        >>> bool(torch.allclose(ours.to_torch().eval()(x, x, x)[0], ours(x), atol=1e-6))
        True
        """
        fits = self.n_kv_head == self.n_head and self.n_head * self.head_width == self.width
        extras = [self.position, self.q_norm, self.gate, self.window, self.scale, self.softcap]
        if not fits or any(extra is not None for extra in extras) or (self.q.bias is None) != (self.out.bias is None):
            raise Problem(
                "nn.MultiheadAttention has no grouped heads, head_width, positions, qk_norm, gate, window, scale, softcap or "
                "bias='qkv': this attention uses one of them"
            )
        biased = self.q.bias is not None
        widths = {} if self.memory_width == self.width else dict(kdim=self.memory_width, vdim=self.memory_width)
        theirs = nn.MultiheadAttention(self.width, self.n_head, self.dropout, bias=biased, batch_first=True, **widths)
        theirs = theirs.to(self.out.weight).train(self.training)
        with torch.no_grad():
            if theirs._qkv_same_embed_dim:
                theirs.in_proj_weight.copy_(torch.cat([self.q.weight, self.k.weight, self.v.weight]))
            else:
                for name in "qkv":
                    getattr(theirs, f"{name}_proj_weight").copy_(getattr(self, name).weight)
            theirs.out_proj.weight.copy_(self.out.weight)
            if biased:
                theirs.in_proj_bias.copy_(torch.cat([self.q.bias, self.k.bias, self.v.bias]))
                theirs.out_proj.bias.copy_(self.out.bias)
        return theirs

    def extra_repr(self) -> str:
        kv = "" if self.n_kv_head == self.n_head else f", n_kv_head={self.n_kv_head}"
        return f"width={self.width}, n_head={self.n_head}{kv}, head_width={self.head_width}"


def look_up(what: str, word: K, table: Mapping[K, T]) -> T:
    """Return the entry of that name; the error for an unknown name lists the known ones and the nearest."""
    if word in table:
        return table[word]
    raise unknown(what, word, table)


def check_sizes(**sizes: Any) -> None:
    """Raise if a size is not a positive whole number; None is allowed.

    >>> check_sizes(width=8, n_head=-2)
    Traceback (most recent call last):
    qkv.i18n.Problem: n_head is -2: give a whole number, 1 or more
    """
    for name, value in sizes.items():
        whole = hasattr(value, "__index__") and not isinstance(value, bool)
        if value is not None and not (whole and value >= 1):
            raise Problem("{name} is {value}: give a whole number, 1 or more", name=name, value=repr(value))


def check_input(name: str, x: Tensor, width: int) -> None:
    """Raise if x is not (batch, tokens, width)."""
    if x.ndim != 3 or x.shape[2] != width:
        raise Problem(
            "{name} is {shape}: it needs (batch, tokens, {width})", name=name, shape=tuple(x.shape), width=width
        )
