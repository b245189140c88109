"""The oracle with known mistakes put in. A user's numbers that equal a wrong form's to the last digit name the mistake.

Forms compose, so pairs of mistakes are found too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..mistakes import CATALOGUE
from ..mistakes.mistake import At, triangle
from .oracle import AttentionForm, Piece


@dataclass(frozen=True)
class Variant:
    """A form with mistakes in it, none where it is right."""

    form: AttentionForm
    told: dict[str, dict[str, Any]] = field(default_factory=dict)  # mistake → numbers for its evidence

    @property
    def ids(self) -> tuple[str, ...]:
        """The mistakes in it."""
        return tuple(self.told)


def causal(n: int, m: int) -> Piece:
    """The right triangle as a piece."""
    return Piece(triangle(n, m, "causal")[None, None], inner=True)


def singles(form: AttentionForm, at: At) -> Iterator[Variant]:
    """Every form with one mistake."""
    for mistake in CATALOGUE.values():
        for wrong, told in mistake.forms(form, at):
            yield Variant(wrong, {mistake.id: told})


def mixed(form: AttentionForm, at: At) -> Iterator[Variant]:
    """The forms whose rotary pairs are mixed: of heads that are turned in part no other is looked for."""
    for wrong, told in CATALOGUE["R4"].forms(form, at):
        yield Variant(wrong, {"R4": told})


def pairs(form: AttentionForm, at: At) -> Iterator[Variant]:
    """Every form with two."""
    order = list(CATALOGUE)
    for first in singles(form, at):
        one = first.ids[0]
        for two in order[order.index(one) + 1 :]:
            for wrong, told in CATALOGUE[two].forms(first.form, at):
                yield Variant(wrong, {**first.told, two: told})
