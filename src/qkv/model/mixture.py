"""What a mixture of experts is made of, in plain values: the part of `Config` that stands for many feed-forwards.

>>> Experts(count=8, per_token=9)
Traceback (most recent call last):
qkv.i18n.Problem: experts.per_token is 9, but there are 8 experts: give 8 at most
"""

from dataclasses import dataclass, fields
from typing import get_args

from ..i18n import Problem
from .config_checks import check_kinds, choose
from .words import FeedForwardKind, Score

LAYERS: tuple[FeedForwardKind, ...] = get_args(FeedForwardKind)  # what a layer may have for a feed-forward
MOST_EXPERTS = 4096  # of one layer: the most that were ever trained have a few hundred


@dataclass(frozen=True)
class Experts:
    """`count` feed-forwards of which each token takes `per_token`, those that a router scores highest."""

    count: int
    per_token: int = 2
    hidden: int | None = None  # of one expert: what the model's feed-forward has
    shared: int | None = None  # the hidden width of one more, which every token takes
    layers: str = "experts"  # which layers have them; one word for all, or one per layer: "dense×3 experts×58"
    score: Score = "softmax"  # over all experts; sigmoid: each by itself
    normed: bool = True  # the shares of a token's experts are made to sum to 1
    scale: float = 1.0  # and are multiplied by this
    groups: int = 1  # experts stand in so many groups, one after the other,
    groups_per_token: int = 1  # and a token's come from so many: the groups with the best expert (sigmoid: best two)
    balance: bool = False  # a number per expert is added to its score for choosing alone, as DeepSeek-V3 has it

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
