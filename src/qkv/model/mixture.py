"""The settings of a mixture of experts, as `Config.experts`.

>>> Experts(count=8, per_token=9)
Traceback (most recent call last):
qkv.i18n.Problem: experts.per_token is 9, but there are 8 experts: give 8 at most
"""

from dataclasses import dataclass, fields
from typing import get_args

from ..i18n import Problem, _
from .config_checks import check_kinds, choose
from .words import FeedForwardKind, Score

LAYERS: tuple[FeedForwardKind, ...] = get_args(FeedForwardKind)  # of one layer
MOST_EXPERTS = 4096  # per layer; trained models have a few hundred at most


@dataclass(frozen=True)
class Experts:
    """`count` feed-forwards, of which each token uses the `per_token` with the highest router scores."""

    count: int
    per_token: int = 2
    hidden: int | None = None  # width of an expert: that of the model's feed-forward
    shared: int | None = None  # width of another expert that all tokens use
    layers: str = "experts"  # one word for all layers, or one per layer: "dense×3 experts×58"
    score: Score = "softmax"  # softmax over all experts; sigmoid: each by itself
    normed: bool = True  # normalise the shares of a token's experts to sum 1
    scale: float = 1.0  # factor of the shares
    groups: int = 1  # consecutive experts form this many groups
    groups_per_token: int = 1  # groups a token may use: those with the best expert (sigmoid: the best two)
    balance: bool = False  # a bias per expert that only affects the choice, as in DeepSeek-V3

    def __post_init__(self) -> None:
        choose("experts.score", self.score, get_args(Score))
        check_kinds(self, {field.name: f"experts.{field.name}" for field in fields(self)})
        size = self.count // self.groups
        has_pairs = self.groups == 1 or self.score == "softmax" or size > 1  # sigmoid ranks groups by two experts
        for is_wrong, message in (
            (self.count > MOST_EXPERTS, _("experts.count is {count}: {most} are the most that are built")),
            (
                self.per_token > self.count,
                _("experts.per_token is {per_token}, but there are {count} experts: give {count} at most"),
            ),
            (
                self.count % self.groups > 0 or not has_pairs,
                _("{count} experts don't divide into {groups} groups: give a divisor, and two experts or more to each"),
            ),
            (
                self.groups_per_token > self.groups or self.per_token > self.groups_per_token * size,
                _(
                    "a token's {per_token} experts can't come from {groups_per_token} of {groups} groups of {size}: give "
                    "more groups per token"
                ),
            ),
        ):
            if is_wrong:
                raise Problem(message, **vars(self), size=size, most=MOST_EXPERTS)
