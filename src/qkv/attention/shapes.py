"""Shape checks for q, k, v and bias.

B batch, H heads, G key/value heads (H is a multiple), N queries, M keys, D and Dv head widths.
"""

from collections.abc import Iterable, Sequence

from ..i18n import Problem, all_of


def check_axes(q: Sequence[int], k: Sequence[int], v: Sequence[int]) -> None:
    """Raise if q, k or v does not have four axes."""
    for name, shape in (("q", q), ("k", k), ("v", v)):
        if len(shape) != 4:
            raise Problem(
                "{name} is {shape}: it needs four axes (batch, heads, tokens, head width)",
                name=name,
                shape=tuple(shape),
            )


def check_bias(bias: Sequence[int], scores: Sequence[int]) -> None:
    """Raise if a bias doesn't broadcast to scores (B, H, N, M)."""
    if len(bias) > 4 or any(s not in (1, w) for s, w in zip(reversed(bias), reversed(scores), strict=False)):
        raise Problem(
            "bias is {shape} but scores are {scores} (batch, heads, queries, keys): it must broadcast to them",
            shape=tuple(bias),
            scores=tuple(scores),
        )


def check_shapes(q: Sequence[int], k: Sequence[int], v: Sequence[int]) -> None:
    """Raise if the shapes of q (B, H, N, D), k (B, G, M, D) and v (B, G, M, Dv) don't fit together."""
    check_axes(q, k, v)
    if not q[0] == k[0] == v[0]:
        raise Problem(
            "batches differ: q has {q}, k has {k}, v has {v}; give all three the same batch", q=q[0], k=k[0], v=v[0]
        )
    if q[3] != k[3]:
        raise Problem("q is {q} wide but k is {k}: a dot product needs equal widths", q=q[3], k=k[3])
    if k[2] != v[2]:
        raise Problem("there are {k} keys but {v} values: give one value per key", k=k[2], v=v[2])
    if k[1] != v[1]:
        raise Problem("k has {k} heads but v has {v}: give both the same", k=k[1], v=v[1])
    if k[1] == 0 or q[1] % k[1]:
        raise Problem("{q} query heads don't divide over {k} key heads: the first must be a multiple", q=q[1], k=k[1])


def head_width(width: int, heads: int) -> int:
    """Return the width of each head; raise if the heads can't share the width evenly."""
    if width % heads:
        raise Problem(
            "width {width} doesn't divide into {heads} heads: choose a divisor, or give head_width",
            width=width,
            heads=heads,
        )
    return width // heads


def check_even_heads(width: int, counts: Iterable[int]) -> None:
    """Raise if any of these numbers of heads doesn't divide a width into heads of even width."""
    if wrong := [count for count in counts if width % (2 * count)]:
        raise Problem(
            "width {width} doesn't divide into {heads} heads of an even width (rotary positions turn pairs)",
            width=width,
            heads=all_of(wrong),
        )
