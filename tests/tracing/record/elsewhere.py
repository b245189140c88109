"""A model on another device, without one: what is careless about devices fails here as it would there."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

HERE, THERE = torch.device("cpu"), torch.device("cpu", 0)  # the same memory under two names


class Elsewhere(TorchFunctionMode):
    """Tensors that exist when it begins are THERE; HERE is only what was made for "cpu" by name or came by `.cpu()`.

    The two don't mix, NumPy reads only what is HERE, and what is made without a device lands on "meta", which mixes with
    nothing at all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.here: dict[int, Tensor] = {}  # kept, so that no other tensor gets the number of one that is gone
        self.default = torch.device("meta")

    def __enter__(self) -> Any:
        self.default.__enter__()
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        self.default.__exit__(*problem)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = [*args, *(kwargs or {}).values()]
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return HERE if id(args[0]) in self.here else THERE
        if func is Tensor.numpy:
            assert id(args[0]) in self.here, "NumPy can't read a tensor of another device: .cpu() is missing"
        named = [
            torch.device(value)
            for value in arguments
            if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu")
        ]
        sides = {id(tensor) in self.here for tensor in _tensors(arguments) if tensor.ndim}
        if func is Tensor.cpu:
            here = True
        elif func is Tensor.to and isinstance(args[1], Tensor):
            here = id(args[1]) in self.here
        elif named:
            here = named[0] == HERE
        else:
            assert len(sides) < 2 or func is Tensor.__getitem__, f"{func} mixes two devices"
            here = sides == {True}
        output = func(*args, **(kwargs or {}))
        several = output if isinstance(output, tuple) else (output,)
        if func in (Tensor.cpu, Tensor.to):  # where nothing had to be done they give the very same tensor
            output = output.clone()
            several = (output,)
        if here:
            self.here |= {id(tensor): tensor for tensor in several if isinstance(tensor, Tensor)}
        return output


def _tensors(values: Any) -> list[Tensor]:
    tensors = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            tensors += _tensors(value)
    return tensors
