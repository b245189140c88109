"""The oracle with one known mistake put in: each entry changes a right form of attention into a wrong one.

A user's numbers that equal a wrong form's to the last digit name the mistake. Entries compose, so pairs are found too.
Ids are those of docs/check.md; the words are in sentences/mistakes.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..words import Message
from .oracle import Form, Piece, changed


@dataclass(frozen=True)
class At:
    """The sizes at which attention was watched."""

    batch: int
    n: int
    m: int
    width: int  # of the model
    heads: int
    head: int  # width of one head
    kv_heads: int
    declared: int = 0  # heads that the constructor was asked for
    extra: tuple[int, ...] = ()  # other sizes around: the context length, the first call's width…


@dataclass(frozen=True)
class Variant:
    """A form with mistakes in it: their ids, and what to say."""

    form: Form
    ids: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


LENGTH, BATCH = Message("the number of tokens"), Message("the batch")
HEADS, KEY_HEADS = Message("the number of heads"), Message("the number of key heads")
SLOPES = {
    "late": Message("exponents begin at 0 instead of 1"),
    "early": Message("exponents begin at 2 instead of 1"),
    "grows": Message("far keys are favoured, not near ones"),
}

Maker = Callable[[Form, At], Iterator[tuple[Form, dict[str, Any]]]]
BUGS: dict[str, Maker] = {}


def bug(name: str) -> Callable[[Maker], Maker]:
    """Enters a mistake into the list under its id."""

    def enter(make: Maker) -> Maker:
        BUGS[name] = make
        return make

    return enter


@bug("S3")
def by_model_width(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """√width for √d_k."""
    if at.width != at.head and form.scale is None:
        yield changed(form, scale=at.width**-0.5), {"used": f"1/√{at.width}", "value": at.width**-0.5}


@bug("S2")
def unscaled(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """No scale."""
    if form.scale is None:
        yield changed(form, scale=1.0), {"used": "1", "value": 1.0}


@bug("S1")
def scaled_up(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Divided by d^-½."""
    if form.scale is None:
        yield changed(form, scale=at.head**0.5), {"used": f"√{at.head}", "value": at.head**0.5}
        if at.width != at.head:
            yield changed(form, scale=at.width**0.5), {"used": f"√{at.width}", "value": at.width**0.5}


@bug("S4")
def scaled_by_another_size(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """The length, the number of heads, the batch."""
    if form.scale is not None:
        return
    named = {at.n: LENGTH, at.m: LENGTH, at.batch: BATCH, at.kv_heads: KEY_HEADS, at.heads: HEADS}
    for size in dict.fromkeys([at.n, at.m, at.heads, at.declared, at.batch, *at.extra]):
        if size > 1 and size not in (at.head, at.width):
            yield (
                changed(form, scale=size**-0.5),
                {"used": f"1/√{size}", "value": size**-0.5, "size": named.get(size, "")},
            )
    if at.heads > 1:
        yield (
            changed(form, scale=float(at.heads) ** 0.5),
            {"used": f"√{at.heads}", "value": at.heads**0.5, "size": HEADS},
        )


@bug("S6")
def scaled_after(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Softmax first, then divided."""
    if form.scale is None and form.divide == 1:
        for size in dict.fromkeys([at.head, at.width]):
            yield changed(form, scale=1.0, divide=size**0.5), {"used": f"√{size}", "value": size**0.5}


@bug("X1")
def over_queries(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Softmax over the queries."""
    yield changed(form, softmax="queries"), {}


@bug("X3")
def over_heads(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Softmax over the heads."""
    if at.heads > 1:
        yield changed(form, softmax="heads"), {"axis": HEADS}
        yield changed(form, softmax="heads and keys"), {"axis": Message("heads and keys together")}


@bug("X2")
def over_batch(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Softmax over the batch."""
    yield changed(form, softmax="batch"), {"axis": BATCH}
    if at.heads > 1:
        yield changed(form, softmax="batch and heads"), {"axis": Message("batch and heads together")}


@bug("X6")
def no_softmax(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Raw scores as weights."""
    yield changed(form, softmax="nothing"), {}


@bug("H2")
def merged_without_transpose(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """(B, H, N, D) laid out as (B, N, C)."""
    if at.heads > 1 and form.merge in ("hd", "dh") and form.split != "view":
        yield changed(form, merge="view"), {}


@bug("H1")
def split_without_transpose(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """(B, N, C) taken as (B, H, N, D)."""
    if at.heads > 1 and form.split in ("hd", "dh"):
        yield changed(form, split="view", merge="view"), {}
        yield changed(form, split="view", merge="hd"), {}
        yield changed(form, split="view, keys turned", merge="hd"), {}
        yield changed(form, split="view, keys turned", merge="view"), {}


@bug("H3")
def batch_and_heads_mixed(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Heads of one sample computed with another's."""
    if at.heads > 1 and form.split in ("hd", "dh"):
        yield changed(form, split="across"), {}
        yield changed(form, merge="across"), {}
        yield changed(form, split="across", merge="across"), {}


@bug("H4")
def never_split(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """One head as wide as the model."""
    if at.heads > 1 and form.scale is None and form.kv_heads in (0, form.heads):
        yield changed(form, heads=1, kv_heads=0), {}
        yield changed(form, heads=1, kv_heads=0, scale=at.head**-0.5), {}


@bug("H8")
def tiled_groups(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Query heads share the wrong key heads."""
    if form.kv_heads not in (0, 1, form.heads):
        yield changed(form, groups="tile"), {}


@bug("H11")
def averaged_heads(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Heads added up instead of put side by side."""
    if at.heads > 1:
        yield changed(form, merge="mean"), {"how": Message("mean")}
        yield changed(form, merge="sum"), {"how": Message("sum")}


@bug("R4")
def mixed_pairing(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Angles laid out for one pairing of channels, turned by the other."""
    if form.rotary in ("half", "pairs"):
        yield changed(form, rotary="mixed half"), {}
        yield changed(form, rotary="mixed pairs"), {}


@bug("R6")
def rotated_before_split(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """One rotation over the whole width."""
    if form.rotary in ("half", "pairs") and at.heads > 1:
        yield changed(form, rotary=f"width {form.rotary}"), {}


@bug("R7")
def slopes_off(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """ALiBi's exponent off by one."""
    if form.slopes == "right":
        for how, words in SLOPES.items():
            yield changed(form, slopes=how), {"how": words}


def masking(name: str, how: str) -> None:
    """Enters a way in which a mask gets into the scores wrongly."""

    @bug(name if name not in BUGS else f"{name}:{how}")
    def wrong(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
        for place, piece in enumerate(form.pieces):
            if piece.how == "fill" and not (piece.inner and how in ("ignored", "inverted")):
                for given in ("keep", "block") if piece.inner and how in ("added", "multiplied") else (piece.given,):
                    other = replace(piece, how=how, given=given)
                    yield changed(form, pieces=(*form.pieces[:place], other, *form.pieces[place + 1 :])), {"how": how}


for _name, _how in (
    ("M2", "ignored"),
    ("X7", "after"),
    ("M7", "added"),
    ("M8", "multiplied"),
    ("M8", "zero"),
    ("M1", "inverted"),
    ("M8", "zero inverted"),
):
    masking(_name, _how)


@bug("M11")
def on_query_rows(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """A padding mask that blocks rows instead of columns."""
    for place, piece in enumerate(form.pieces):
        keep = piece.keep
        if (
            piece.how == "fill"
            and at.n == at.m
            and keep.shape[-2:] == (at.n, at.m)
            and (keep == keep[..., :1, :]).all()
        ):
            for how in ("fill", "zero"):
                turned = replace(piece, keep=np.broadcast_to(keep.swapaxes(-1, -2), keep.shape), how=how)
                yield changed(form, pieces=(*form.pieces[:place], turned, *form.pieces[place + 1 :])), {}


@bug("M15")
def tiled_mask(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Repeated over heads in the wrong order: head h of item b gets another item's mask."""
    if at.heads == 1:
        return
    for place, piece in enumerate(form.pieces):
        if piece.how == "fill" and piece.keep.shape[0] == at.batch and piece.keep.shape[1] == 1:
            tiled = np.tile(piece.keep[:, 0], (at.heads, 1, 1)).reshape(at.batch, at.heads, *piece.keep.shape[-2:])
            yield (
                changed(form, pieces=(*form.pieces[:place], replace(piece, keep=tiled), *form.pieces[place + 1 :])),
                {},
            )


@bug("M5")
def only_one_mask(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Of two masks only one is used."""
    if len(form.pieces) == 2:
        yield changed(form, pieces=form.pieces[:1]), {"kept": 0}
        yield changed(form, pieces=form.pieces[1:]), {"kept": 1}


def triangle(n: int, m: int, kind: str) -> np.ndarray:
    """(N, M) booleans: causal, and the ways people get it wrong.

    >>> triangle(3, 3, "strict").astype(int).tolist()
    [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """
    i, j = np.arange(n)[:, None] + (m - n), np.arange(m)[None]
    return {
        "causal": j <= i,
        "strict": j < i,
        "ahead": j <= i + 1,
        "transposed": j >= i,
        "strictly transposed": j > i,
        "upper left": j <= i - (m - n),
    }[kind]


@bug("M12")
def wrong_triangle(form: Form, at: At) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Off by one, or upside down."""
    right = triangle(at.n, at.m, "causal")
    for place, piece in enumerate(form.pieces):
        if piece.how == "fill" and piece.keep.shape[:2] == (1, 1) and np.array_equal(piece.keep[0, 0], right):
            for kind in ("strict", "ahead", "transposed", "strictly transposed"):
                for how in ("fill", "low") if kind.startswith("strict") else ("fill",):
                    other = replace(piece, keep=triangle(at.n, at.m, kind)[None, None], how=how)
                    yield changed(form, pieces=(*form.pieces[:place], other, *form.pieces[place + 1 :])), {"kind": kind}


def causal(n: int, m: int) -> Piece:
    """The right triangle as a piece."""
    return Piece(triangle(n, m, "causal")[None, None], inner=True)


def singles(form: Form, at: At) -> Iterator[Variant]:
    """Every form with one mistake."""
    for name, make in BUGS.items():
        for wrong, facts in make(form, at):
            yield Variant(wrong, (name.split(":")[0],), facts)


def pairs(form: Form, at: At) -> Iterator[Variant]:
    """Every form with two."""
    names = list(BUGS)
    for first in singles(form, at):
        place = next(p for p, n in enumerate(names) if n.split(":")[0] == first.ids[0])
        for name in names[place:]:
            plain = name.split(":")[0]
            if plain == first.ids[0]:
                continue
            for wrong, facts in BUGS[name](first.form, at):
                yield Variant(
                    wrong, (*first.ids, plain), {**first.facts, **facts, first.ids[0]: first.facts, plain: facts}
                )
