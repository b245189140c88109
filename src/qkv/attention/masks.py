"""Masks: which query may attend to which key. True = may attend, here and everywhere in qkv.

A mask is a rule over index arithmetic (batch, head, query, key) → bool. It can be evaluated on any rectangle, drawn,
combined with `&`, `|`, `~`, and converted to the format of any kernel.

Queries are aligned to the end of the keys (lower-right): with N queries and M keys, query i is at position i + M − N, so
the last query sees every key, as a cache needs. For N = M it is the usual triangle.

>>> print(causal() & window(2))
■ · · · · · · ·
■ ■ · · · · · ·
■ ■ ■ · · · · ·
· ■ ■ ■ · · · ·
· · ■ ■ ■ · · ·
· · · ■ ■ ■ · ·
· · · · ■ ■ ■ ·
· · · · · ■ ■ ■

B batch, H heads, N queries, M keys. Accepts NumPy arrays and torch tensors; does not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..i18n import Problem, _, all_of, nearest
from .mask_algebra import And, Full, Mask, Or, as_array, as_rows, combine, is_bool, is_integer
from .rules import Band, Dense, Documents, Padding, Prefix, QueryPadding

if TYPE_CHECKING:
    from .mask_algebra import Table, TableLike


def full() -> Mask:
    """Every query may attend to every key.

    >>> print(full().draw(2, 3))
    ■ ■ ■
    ■ ■ ■
    """
    return Full()


def causal() -> Mask:
    """A query sees its own position and earlier keys.

    >>> print(causal().draw(3))
    ■ · ·
    ■ ■ ·
    ■ ■ ■
    >>> print(causal().draw(1, 3))
    ■ ■ ■
    """
    return Band(None, 0)


def window(left: int | None, right: int | None = 0) -> Mask:
    """A query sees itself, `left` keys before it and `right` after it, both ends included; None: no limit.

    `sliding_window=W` of Hugging Face models counts the token itself: it is `window(W − 1, 0)`.

    >>> print(window(1, 0).draw(4))
    ■ · · ·
    ■ ■ · ·
    · ■ ■ ·
    · · ■ ■
    """
    if any(side is not None and (not isinstance(side, int) or side < 0) for side in (left, right)):
        raise Problem(
            "window({left}, {right}): count keys to each side, 0 or more; None is no limit", left=left, right=right
        )
    return full() if left is None and right is None else Band(left, right)


def padding(real: TableLike) -> Mask:
    """Only real keys are seen: lengths (B,), or True (real) / False (padding) per key, (B, M).

    >>> print(padding([[True, True, False]]))
    ■ ■ ·
    ■ ■ ·
    ■ ■ ·
    """
    values = as_array(real)
    if values.ndim == 0 or (values.ndim == 1 and not is_bool(values)):
        if is_bool(values) or not is_integer(values):
            raise Problem(
                "lengths are {dtype}: give whole numbers (B,), or True/False per key (B, M)", dtype=values.dtype
            )
        return Padding(lengths=values.reshape(-1))
    if not is_bool(values) or values.ndim > 2:
        raise Problem(
            "padding is {shape} of {dtype}: give lengths (B,), or True/False per key (B, M) with True = a real "
            "key (if yours holds 1 and 0, write mask == 1)",
            shape=tuple(values.shape),
            dtype=values.dtype,
        )
    return Padding(real=values.reshape(-1, values.shape[-1]))


def prefix(n: TableLike) -> Mask:
    """All queries see the first n keys, the rest is causal (a prefix language model); n may differ per item.

    >>> print(prefix(2).draw(4))
    ■ ■ · ·
    ■ ■ · ·
    ■ ■ ■ ·
    ■ ■ ■ ■
    """
    values = as_array(n).reshape(-1)
    if not is_integer(values):
        raise Problem("prefix lengths are {dtype}: give whole numbers, one or one per item", dtype=values.dtype)
    return Prefix(values)


def documents(ids: TableLike) -> Mask:
    """Tokens see only their own document (packed sequences): ids (M,) or (B, M) number the document of each key.

    >>> print(documents([0, 0, 1, 1]).draw(4))
    ■ ■ · ·
    ■ ■ · ·
    · · ■ ■
    · · ■ ■
    """
    values = as_array(ids)
    if values.ndim not in (1, 2) or not is_integer(values):
        raise Problem(
            "document ids are {shape} of {dtype}: give whole numbers (M,) or (B, M)",
            shape=tuple(values.shape),
            dtype=values.dtype,
        )
    return Documents(as_rows(values))


def cross(keys: TableLike, queries: TableLike | None = None) -> Mask:
    """Cross-attention: queries see the real keys of the memory; with `queries`, rows of padding attend to nothing.

    Both take what `padding` takes: lengths (B,), or True/False per token.

    >>> print(cross([2], queries=[1]).draw(2, 3))
    ■ ■ ·
    · · ·
    """
    rule = padding(keys)
    if queries is None:
        return rule
    rows = padding(queries)
    assert isinstance(rows, Padding)
    return rule & QueryPadding(rows)


def dense(allowed: TableLike) -> Mask:
    """A mask from a bool table (N, M), (B, N, M) or (B, H, N, M); True = may attend.

    >>> print(dense([[True, False], [True, True]]))
    ■ ·
    ■ ■
    """
    values = as_array(allowed)
    if not is_bool(values):
        raise Problem(
            "mask has dtype {dtype}: it needs True (may attend) and False. If yours holds 1 and 0, write mask == "
            "1; if it holds 0 and −inf, masks.from_additive(mask); if True means blocked, ~mask",
            dtype=values.dtype,
        )
    if not 2 <= values.ndim <= 4:
        raise Problem("mask is {shape}: give (N, M), (B, N, M) or (B, H, N, M)", shape=tuple(values.shape))
    lift = {2: (None, None), 3: (slice(None), None), 4: ()}[values.ndim]
    return Dense(values[lift])


def from_additive(added: TableLike) -> Mask:
    """A mask from an additive one: 0 = may attend; −inf or a number of at most −10,000 = may not.

    >>> print(from_additive([[0.0, float("-inf")], [0.0, 0.0]]))
    ■ ·
    ■ ■
    """
    values = as_array(added)
    if is_bool(values) or is_integer(values):
        raise Problem(
            "an additive mask holds floats (0 and −inf), this one is {dtype}; use masks.dense", dtype=values.dtype
        )
    blocked = values <= -1e4
    if not bool(((values == 0) | blocked).all()):
        raise Problem(
            "this additive mask holds numbers other than 0 and −inf: that is a bias; give it as attend(..., bias=...)"
        )
    return dense(~blocked)


def from_torch_mha(
    attn_mask: TableLike | None = None, key_padding_mask: TableLike | None = None, n_head: int | None = None
) -> Mask:
    """A mask from those of `nn.MultiheadAttention`, where True = may NOT attend and floats are added.

    attn_mask is (N, M) or (B·n_head, N, M), which needs `n_head`; key_padding_mask is (B, M).

    >>> print(from_torch_mha([[False, True], [False, False]]))
    ■ ·
    ■ ■
    """

    def read(values: Table) -> Mask:
        return dense(~values) if is_bool(values) else from_additive(values)

    rule = full()
    if attn_mask is not None:
        values = as_array(attn_mask)
        if values.ndim == 3:
            if not n_head or values.shape[0] % n_head:
                raise Problem(
                    "attn_mask is {shape}, (B·heads, N, M): give n_head, a divisor of it", shape=tuple(values.shape)
                )
            values = values.reshape(-1, n_head, *values.shape[1:])
        rule = rule & read(values)
    if key_padding_mask is not None:
        values = as_array(key_padding_mask)
        if is_integer(values):
            raise Problem(
                "key_padding_mask holds whole numbers: in PyTorch True means padding; write mask == 1 or == 0"
            )
        is_padding = values if is_bool(values) else values <= -1e4
        if not is_bool(values) and not bool(((values == 0) | is_padding).all()):
            raise Problem("a float key_padding_mask holds 0 (real) and −inf (padding); this one holds other numbers")
        rule = rule & padding(~is_padding)
    return rule


WORDS = {
    "causal": "causal",
    "full": "full",
    "window": "window:LEFT[,RIGHT]",
    "padding": "padding:LENGTH,…",
    "prefix": "prefix:N",
    "documents": "documents:0,0,1,1,…",
}


def parse(text: str, real: Sequence[bool] | None = None) -> Mask:
    """Parse a mask as written on the command line: `causal`, `window:3`, `causal&~window:2`, `prefix:3|window:1`.

    `real`, one True or False per key, is the table of a `padding` without lengths.

    >>> parse("causal & window:2,1")
    causal() & window(2, 1)
    """
    for sign, kind in (("|", Or), ("&", And)):
        parts = text.split(sign)
        if len(parts) > 1:
            rule = parse(parts[0], real)
            for part in parts[1:]:
                rule = combine(kind, rule, parse(part, real))
            return rule
    word = text.strip()
    bare = word.lstrip("~ ")
    if word != bare:
        rule = parse(bare, real)
        return ~rule if word.count("~") % 2 else rule
    name, _colon, rest = word.partition(":")
    if word == "padding" and real is not None:
        return padding([real])
    if name not in WORDS:
        near = nearest(name, WORDS)
        key = _("no mask is called {name}; there are {words}")
        if near:
            key = _("no mask is called {name}. Did you mean {near}? There are {words}")
        elif not name:
            key = _("the name of a mask is missing; there are {words}")
        raise Problem(key, name=name, near=near, words=all_of(WORDS.values()))
    least, most = {"causal": (0, 0), "full": (0, 0), "window": (1, 2), "prefix": (1, 1)}.get(name, (1, 10**6))
    try:
        numbers = [int(part) for part in rest.split(",")] if rest else []
    except ValueError:
        numbers = [-1]
    if not least <= len(numbers) <= most or not all(0 <= number < 2**31 for number in numbers):
        raise Problem("{word} is not a valid mask: write {form}", word=word, form=WORDS[name])
    if name == "documents":
        return documents(numbers)
    if name == "padding":
        return padding(numbers)
    return {"causal": causal, "full": full, "window": window, "prefix": prefix}[name](*numbers)  # type: ignore[operator]


def resolve(mask: Mask | TableLike | None) -> Mask:
    """Return a mask argument as a Mask: None is full(), a bool array is dense(array).

    >>> resolve(None), resolve(causal())
    (full(), causal())
    >>> print(resolve([[True, False]]))
    ■ ·
    """
    if mask is None:
        return full()
    if isinstance(mask, str):
        raise Problem(
            "mask is the word {word!r}: write masks.parse({word!r}), or as a call, such as masks.causal()", word=mask
        )
    return mask if isinstance(mask, Mask) else dense(mask)
