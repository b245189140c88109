"""Who may look at whom. True = may attend, here and everywhere in qkv.

A mask is a rule over index arithmetic (batch, head, query, key) → bool, so it can be evaluated on any rectangle
without building the rest, drawn, combined with `&`, `|`, `~`, and lowered to whatever a kernel wants.

Queries stand at the end of the keys (lower-right): with N queries and M keys, query i is at position i + M − N, so
the last query sees every key. That is what a cache needs; for N = M it is the usual triangle.

>>> print(causal() & window(2))
■ · · · · · · ·
■ ■ · · · · · ·
■ ■ ■ · · · · ·
· ■ ■ ■ · · · ·
· · ■ ■ ■ · · ·
· · · ■ ■ ■ · ·
· · · · ■ ■ ■ ·
· · · · · ■ ■ ■

B batch, H heads, N queries, M keys. Nothing here imports torch; NumPy arrays and torch tensors are both welcome.
"""

import difflib
from typing import Any

from ..words import Problem, say
from .rules import (
    And,
    Band,
    Dense,
    Documents,
    Full,
    Mask,
    Or,
    Padding,
    Prefix,
    Queries,
    combine,
    is_bool,
    is_integer,
    rows_of,
    values_of,
)


def full() -> Mask:
    """Every query may look at every key."""
    return Full()


def causal() -> Mask:
    """A query sees itself and what came before: no look into the future."""
    return Band(None, 0)


def window(left: int | None, right: int | None = 0) -> Mask:
    """A query sees itself, `left` keys before it and `right` after it, both ends included; None is no limit.

    A model's `sliding_window=W`, which counts the token itself, is `window(W − 1, 0)`.
    """
    if (left is not None and left < 0) or (right is not None and right < 0):
        raise ValueError(f"window({left}, {right}): count keys to each side, 0 or more; None is no limit")
    return full() if left is None and right is None else Band(left, right)


def padding(real: Any) -> Mask:
    """Only real keys may be seen: give each item's length, (B,), or one True (real) / False (padding) per key, (B, M).

    >>> print(padding([[True, True, False]]))
    ■ ■ ·
    ■ ■ ·
    ■ ■ ·
    """
    values = values_of(real)
    if values.ndim == 0 or (values.ndim == 1 and not is_bool(values)):
        if is_bool(values) or not is_integer(values):
            raise ValueError(f"lengths are {values.dtype}: give whole numbers (B,), or True/False per key (B, M)")
        return Padding(lengths=values.reshape(-1))
    if not is_bool(values) or values.ndim > 2:
        raise ValueError(
            f"padding is {tuple(values.shape)} of {values.dtype}: give lengths (B,), or True/False per key (B, M) with "
            "True = a real key (if yours holds 1 and 0, write mask == 1)"
        )
    return Padding(real=values.reshape(-1, values.shape[-1]))


def prefix(n: Any) -> Mask:
    """The first n keys are open to everyone, the rest is causal (a prefix language model); n may differ per item."""
    values = values_of(n).reshape(-1)
    if not is_integer(values):
        raise ValueError(f"prefix lengths are {values.dtype}: give whole numbers, one or one per item")
    return Prefix(values)


def documents(ids: Any) -> Mask:
    """Tokens see only their own document: ids (M,) or (B, M) number the document of each key (packed sequences)."""
    values = values_of(ids)
    if values.ndim not in (1, 2) or not is_integer(values):
        raise ValueError(f"document ids are {tuple(values.shape)} of {values.dtype}: give whole numbers (M,) or (B, M)")
    return Documents(rows_of(values))


def cross(keys: Any, queries: Any = None) -> Mask:
    """Cross-attention: real keys of the memory may be seen; rows of padded queries, if told, attend to nothing.

    Both as in `padding`: lengths (B,), or True/False per token.
    """
    rule = padding(keys)
    if queries is None:
        return rule
    rows = padding(queries)
    assert isinstance(rows, Padding)
    return rule & Queries(rows)


def dense(allowed: Any) -> Mask:
    """Any rule written out: bool (N, M), (B, N, M) or (B, H, N, M); True = may attend."""
    values = values_of(allowed)
    if not is_bool(values):
        raise ValueError(
            f"mask has dtype {values.dtype}: it needs True (may attend) and False. If yours holds 1 and 0, write "
            "mask == 1; if it holds 0 and −inf, masks.from_additive(mask); if True means blocked, ~mask"
        )
    if not 2 <= values.ndim <= 4:
        raise ValueError(f"mask is {tuple(values.shape)}: give (N, M), (B, N, M) or (B, H, N, M)")
    lift = {2: (None, None), 3: (slice(None), None), 4: ()}[values.ndim]
    return Dense(values[lift])


def from_additive(added: Any) -> Mask:
    """A mask of 0 (may attend) and −inf, or a hugely negative number, (may not) that is added to the scores."""
    values = values_of(added)
    if is_bool(values) or is_integer(values):
        raise ValueError(f"an additive mask holds floats (0 and −inf), this one is {values.dtype}; use masks.dense")
    blocked = values <= -1e4
    if not bool(((values == 0) | blocked).all()):
        raise ValueError(
            "this additive mask holds numbers other than 0 and −inf: that is a bias; give it as attend(..., bias=...)"
        )
    return dense(~blocked)


def from_torch_mha(attn_mask: Any = None, key_padding_mask: Any = None, n_head: int | None = None) -> Mask:
    """The masks of `nn.MultiheadAttention`, where True = may NOT attend and floats are added.

    attn_mask is (N, M) or (B·n_head, N, M), which needs `n_head`; key_padding_mask is (B, M).
    """

    def read(values: Any) -> Mask:
        return dense(~values) if is_bool(values) else from_additive(values)

    rule = full()
    if attn_mask is not None:
        values = values_of(attn_mask)
        if values.ndim == 3:
            if not n_head or values.shape[0] % n_head:
                raise ValueError(f"attn_mask is {tuple(values.shape)}, (B·heads, N, M): give n_head, a divisor of it")
            values = values.reshape(-1, n_head, *values.shape[1:])
        rule = rule & read(values)
    if key_padding_mask is not None:
        values = values_of(key_padding_mask)
        real = ~values if is_bool(values) else values == 0
        rule = rule & padding(real)
    return rule


WORDS = {
    "causal": "causal",
    "full": "full",
    "window": "window:LEFT or window:LEFT,RIGHT",
    "padding": "padding:LENGTH,…",
    "prefix": "prefix:N",
    "documents": "documents:0,0,1,1,…",
}


def parse(text: str, real: Any = None) -> Mask:
    """A mask from words, as the command line takes it: `causal`, `window:3`, `causal&~window:2`, `prefix:3|window:1`.

    With `real`, one True or False per key, a bare `padding` hides what isn't real.

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
    if word.startswith("~"):
        return ~parse(word[1:], real)
    name, _, rest = word.partition(":")
    if word == "padding" and real is not None:
        return padding([real])
    if name not in WORDS:
        near = difflib.get_close_matches(name, WORDS, n=1)
        raise UnknownMask(name, near[0] if near else None)
    least, most = {"causal": (0, 0), "full": (0, 0), "window": (1, 2), "prefix": (1, 1)}.get(name, (1, 10**6))
    try:
        given = [int(part) for part in rest.split(",")] if rest else []
    except ValueError:
        given = [-1]
    if not least <= len(given) <= most or min(given, default=0) < 0:
        raise Problem("problem.mask.form", word=word, form=WORDS[name])
    if name == "documents":
        return documents(given)
    if name == "padding":
        return padding(given)
    return {"causal": causal, "full": full, "window": window, "prefix": prefix}[name](*given)  # type: ignore[operator]


class UnknownMask(Problem):
    """A word that names no mask, with the nearest that does."""

    def __init__(self, name: str, near: str | None) -> None:
        self.near = near
        super().__init__("problem.mask.word", name=name, words=", ".join(WORDS.values()), hint="")

    def say(self, lang: str | None = None) -> str:
        """The same in that language."""
        return super().say(lang) + (say("problem.near", lang, near=self.near) if self.near else "")

    def __str__(self) -> str:
        return self.say("en")


def resolve(mask: Any) -> Mask:
    """What a caller gave as a mask: a Mask, nothing, or a bool array with True = may attend."""
    if mask is None:
        return full()
    return mask if isinstance(mask, Mask) else dense(mask)
