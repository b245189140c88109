"""Copy weights of transformers' layers by a table of names, and interleave the heads of fused weights."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..i18n import Problem, all_of

Layer = TypeVar("Layer", bound=nn.Module)


def interleave_groups(parts: Sequence[Tensor], groups: int) -> Tensor:
    """Join tensors (G·a, …), (G·b, …), … group by group: a rows of the first, b rows of the second, …

    >>> interleave_groups([torch.tensor([1, 2]), torch.tensor([10, 11, 20, 21])], groups=2).tolist()
    [1, 10, 11, 2, 20, 21]
    """
    return torch.cat([part.unflatten(0, (groups, -1)) for part in parts], 1).flatten(0, 1)


def split_groups(tensor: Tensor, groups: int, sizes: Sequence[int]) -> list[Tensor]:
    """Invert `interleave_groups`; `sizes` are a, b, …

    >>> [part.tolist() for part in split_groups(torch.tensor([1, 10, 11, 2, 20, 21]), groups=2, sizes=[1, 2])]
    [[1, 2], [10, 11, 20, 21]]
    """
    return [part.flatten(0, 1) for part in tensor.unflatten(0, (groups, -1)).split(list(sizes), 1)]


@torch.no_grad()
def copy_weights(ours: Layer, theirs: dict[str, Tensor], names: dict[str, str], training: bool) -> Layer:
    """Copy all weights into a layer, moved to their dtype and device; raise if any is unused.

    >>> linear = copy_weights(nn.Linear(1, 1, bias=False), {"w": torch.tensor([[3.0]])}, {"weight": "w"}, training=False)
    >>> linear.weight.item(), linear.training
    (3.0, False)
    """
    remaining = dict(theirs)
    ours = ours.to(next(iter(remaining.values()))).train(training)
    for name, parameter in ours.named_parameters():
        parameter.copy_(remaining.pop(names[name]).reshape(parameter.shape))
    if remaining:
        raise Problem("this layer has no parameters for these weights: {names}", names=all_of(sorted(remaining)))
    return ours
