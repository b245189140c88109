"""Weights of transformers' layers, taken by a table of names."""

from typing import TypeVar

import torch
from torch import Tensor, nn

from ..words import Problem, all_of

Layer = TypeVar("Layer", bound=nn.Module)


@torch.no_grad()
def take_weights(ours: Layer, theirs: dict[str, Tensor], names: dict[str, str], training: bool) -> Layer:
    """Copy weights into a layer of ours, none left over, in the dtype and on the device of theirs.

    >>> linear = take_weights(nn.Linear(1, 1, bias=False), {"w": torch.tensor([[3.0]])}, {"weight": "w"}, training=False)
    >>> linear.weight.item(), linear.training
    (3.0, False)
    """
    found = dict(theirs)
    ours = ours.to(next(iter(found.values()))).train(training)
    for name, parameter in ours.named_parameters():
        parameter.copy_(found.pop(names[name]).reshape(parameter.shape))
    if found:
        raise Problem("these weights have no place here: {names}", names=all_of(sorted(found)))
    return ours
