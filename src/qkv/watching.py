"""Watch the operations of any PyTorch code: arguments, result, module and source line.

A subclass of `Watcher` overrides `on_operation` and may change the arguments or the result. The doctor builds on this
module, which doesn't import it.

>>> import torch
>>> class Names(Watcher):
...     def on_operation(self, operation):
...         print(operation.name, [tuple(tensor.shape) for tensor in operation.inputs])
...         return operation.run()
>>> with Names():
...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
ones []
ones []
matmul [(2, 3), (3, 4)]
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@dataclass(eq=False)
class Operation:
    """One call of a function of torch."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None  # set by `run`

    def run(self) -> Any:
        """Call the function, store its result and return it."""
        self.result = self.function(*self.args, **self.kwargs)
        return self.result

    @property
    def name(self) -> str:
        """The function's name without underscores: `__matmul__` is matmul, `add_` is add."""
        return getattr(self.function, "__name__", "").strip("_")

    @property
    def in_place(self) -> bool:
        """True if it writes into its first argument, as `add_` does."""
        return getattr(self.function, "__name__", "").endswith("_")

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors among the arguments, in order."""
        return list(tensors_in((self.args, self.kwargs)))

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors in the result."""
        return list(tensors_in(self.result))

    def argument(self, name: str, position: int, default: Any = None) -> Any:
        """Return an argument that may be passed by name or by position."""
        return self.kwargs.get(name, self.args[position] if len(self.args) > position else default)

    def replace_argument(self, name: str, position: int, value: Any) -> None:
        """Replace an argument, by position if it was passed so, else by name."""
        if name not in self.kwargs and len(self.args) > position:
            self.args = (*self.args[:position], value, *self.args[position + 1 :])
        else:
            self.kwargs[name] = value


class Watcher(TorchFunctionMode):
    """Pass every operation of this thread through `on_operation` inside the block, except those that it runs itself."""

    def on_operation(self, operation: Operation) -> Any:
        """Run the operation and return the result for its caller."""
        return operation.run()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self.on_operation(Operation(function, args, dict(kwargs or {})))


def source_span(file: str) -> tuple[int, int] | None:
    """Return line and column of the innermost expression of this file that called the operation; None if none did."""
    for frame in _frames():
        if frame.f_code.co_filename == file:
            position = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
            return position[0] or frame.f_lineno, position[2] or 0
    return None


def running_module() -> nn.Module | None:
    """Return the innermost module whose forward called the operation, None outside of modules.

    >>> import torch
    >>> class Modules(Watcher):
    ...     def on_operation(self, operation):
    ...         print(operation.name, type(running_module()).__name__)
    ...         return operation.run()
    >>> x = torch.ones(1, 2)
    >>> with Modules():
    ...     _ = nn.Sequential(nn.ReLU())(x) + x
    relu ReLU
    add NoneType
    """
    for frame in _frames():
        if frame.f_code is nn.Module._call_impl.__code__:  # every module is called through it
            return frame.f_locals["self"]
    return None


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield the tensors in a value, and in its tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def _frames() -> Iterator[FrameType]:
    """Yield the frames that called the operation, innermost first, without those of the watcher."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not Watcher.__torch_function__.__code__:
        frame = frame.f_back
    while frame is not None and (frame := frame.f_back) is not None:
        yield frame
