"""The settings of a mixture of experts, as `Config.experts`.

>>> Experts(count=8, per_token=9)
Traceback (most recent call last):
qkv.i18n.Problem: experts.per_token is 9, but there are 8 experts: give 8 at most
"""

from dataclasses import dataclass, fields
from typing import get_args

from ..i18n import Problem
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
        if self.count > MOST_EXPERTS:
            raise Problem(
                "experts.count is {count}: {most} are the most that are built", count=self.count, most=MOST_EXPERTS
            )
        if self.per_token > self.count:
            raise Problem(
                "experts.per_token is {each}, but there are {count} experts: give {count} at most",
                each=self.per_token,
                count=self.count,
            )
        size = self.count // self.groups
        if self.count % self.groups or (self.groups > 1 and self.score == "sigmoid" and size < 2):
            raise Problem(
                "{count} experts don't divide into {groups} groups: give a divisor, and two experts or more to each",
                count=self.count,
                groups=self.groups,
            )
        if not (self.groups_per_token <= self.groups and self.per_token <= self.groups_per_token * size):
            raise Problem(
                "a token's {each} experts can't come from {kept} of {groups} groups of {size}: give more groups per token",
                each=self.per_token,
                kept=self.groups_per_token,
                groups=self.groups,
                size=size,
            )
