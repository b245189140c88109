"""Watches PyTorch code while it runs: which products had weights in them, what went in and what came out.

Names lie, numbers don't: the projections of attention are found as the products with a weight whose result for
one token changes with that token alone, and its output projection as the first one that has seen other tokens.
"""

import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...watching import Operation, Watcher, tensors_in

PRODUCTS = {
    torch.matmul, torch.mm, torch.bmm, torch.einsum, torch.addmm, torch.baddbmm, torch.tensordot,
    Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, Tensor.mm, Tensor.bmm, F.linear, F.bilinear,
    torch.conv1d, torch.conv2d, torch.conv3d, F.conv1d, F.conv2d, F.conv3d,
}  # fmt: skip
SOFTMAXES = {torch.softmax, F.softmax, Tensor.softmax, torch.log_softmax, F.log_softmax, Tensor.log_softmax}
DROPOUTS = {F.dropout, torch.dropout, F.dropout1d, F.dropout2d, F.alpha_dropout, torch.feature_dropout}
SDPA = F.scaled_dot_product_attention


@dataclass
class Product:
    """One product with a weight: a token's features in, features out."""

    taken: Any
    weight: Any
    given: Any
    place: int
    name: str = ""


class Meeting(NamedTuple):
    """A product of two tensors that both came of the inputs: q with k, weights with v.

    Of each, the axis that is its own in what comes out, and the one that is summed over; None where that isn't told.
    """

    left: Tensor
    right: Tensor
    given: Tensor
    axes: tuple[tuple[int, int] | None, tuple[int, int] | None]


@dataclass(eq=False)
class Capture(Watcher):
    """What ran, in order. `quiet` switches every dropout off, wherever its probability comes from.

    >>> with Capture() as seen:
    ...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> len(seen.products)
    0
    """

    quiet: bool = True
    roots: list[Any] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    softmaxes: list[tuple[Tensor, int | None, Tensor]] = field(default_factory=list)
    scored: list[Meeting] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    thin_softmaxes: int = 0  # that took what a dropout had left
    dropped: list[float] = field(default_factory=list)
    places: int = 0  # how often 0, 1, 2… was made
    along: list[int] = field(default_factory=list)  # how many tokens each of torch's own attentions ran over
    made: list[Tensor] = field(default_factory=list)  # everything that came of the inputs, in order

    def __post_init__(self) -> None:
        super().__init__()
        self._alive = {id(root) for root in self.roots}
        self._thinned: set[int] = set()  # what a dropout left
        self._kept: list[Any] = list(self.roots)  # so that no id is given out twice

    def on_operation(self, operation: Operation) -> Any:
        """Run it, with dropout switched off if `quiet`, and note what came of the inputs."""
        function = operation.function
        if function in DROPOUTS:
            flag = "train" if function in (torch.dropout, torch.feature_dropout) else "training"
            p = operation.argument("p", 1, 0.5)
            if p and operation.argument(flag, 2, True):
                self.dropped.append(float(p))
                left = operation.argument("input", 0) if self.quiet else operation.run()
                self._kept.append(left)
                self._alive.add(id(left))
                self._thinned.add(id(left))
                return left
        self.places += function in (torch.arange, torch.linspace)
        if function is SDPA and (p := operation.argument("dropout_p", 4)):
            self.dropped.append(float(p))
            if self.quiet:
                operation.replace_argument("dropout_p", 4, 0.0)
        if function is F.multi_head_attention_forward and self._alive:
            return self._torch_heads(function, operation.args, operation.kwargs)
        out = operation.run()
        tensors = operation.inputs
        alive = [tensor for tensor in tensors if id(tensor) in self._alive]
        if alive:
            for tensor in operation.outputs:
                self._alive.add(id(tensor))
                self._kept.append(tensor)
                self.made.append(tensor)
            self._note(operation, tensors, alive)
        self._kept += tensors
        return out

    def _torch_heads(self, function: Any, args: Any, kwargs: Any) -> Any:
        """nn.MultiheadAttention is one step to a mode: its projections and its context are worked out beside it."""
        bound = inspect.signature(function).bind(*args, **kwargs)
        given = bound.arguments
        if self.quiet and given.get("training") and given.get("dropout_p"):
            self.dropped.append(float(given["dropout_p"]))
            given["dropout_p"] = 0.0
        out = function(*bound.args, **bound.kwargs)
        self.along.append(len(given["query"]))
        width = given["out_proj_weight"].shape[1]
        bias = given.get("in_proj_bias")
        for place, name in enumerate(("query", "key", "value")):
            packed = given.get("in_proj_weight")
            weight = given[f"{name[0]}_proj_weight"] if packed is None else packed[place * width : (place + 1) * width]
            shift = None if bias is None else bias[place * width : (place + 1) * width]
            made = F.linear(given[name], weight, shift)
            self.products.append(Product(given[name].detach().clone(), weight, made.detach().clone(), len(self._kept)))
        given["out_proj_weight"], given["out_proj_bias"] = torch.eye(width).to(given["out_proj_weight"]), None
        context = function(*bound.args, **bound.kwargs)[0]
        weight = inspect.signature(function).bind(*args, **kwargs).arguments["out_proj_weight"]
        self.products.append(Product(context.detach().clone(), weight, out[0].detach().clone(), len(self._kept)))
        for tensor in tensors_in(out):
            self._alive.add(id(tensor))
            self._kept.append(tensor)
        return out

    def _note(self, operation: Operation, tensors: list[Tensor], alive: list[Tensor]) -> None:
        function, args, out, place = operation.function, operation.args, operation.result, len(self._kept)
        if function in PRODUCTS and isinstance(out, Tensor):
            fixed = [tensor for tensor in tensors if id(tensor) not in self._alive and tensor.dim() >= 2]
            if len(alive) == 1 and fixed:
                self.products.append(Product(alive[0].detach().clone(), fixed[0], out.detach().clone(), place))
            elif len(alive) >= 2:
                left, right, given = (tensor.detach().clone() for tensor in (*alive[:2], out))
                self.scored.append(Meeting(left, right, given, _axes(function, args, alive)))
        elif function in SOFTMAXES:
            self.softmaxes.append((alive[0].detach().clone(), operation.argument("dim", 1), out.detach().clone()))
            self.thin_softmaxes += id(alive[0]) in self._thinned
        elif function is SDPA:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            self.kernels.append({**dict(zip(names, args, strict=False)), **operation.kwargs, "out": out})


MATRICES = {torch.matmul, torch.mm, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.mm, Tensor.bmm}


def _axes(function: Any, args: Any, alive: list[Tensor]) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Whose axis is whose in a product: of matrices by their order, of einsum by its letters."""
    if function in MATRICES and all(one.dim() >= 2 for one in alive):
        return (-2, -1), (-1, -2)
    if function is not torch.einsum or not isinstance(args[0], str) or "." in args[0]:
        return None, None
    taken, _, given = args[0].replace(" ", "").partition("->")
    operands = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
    words = dict(zip(map(id, operands), taken.split(","), strict=False))
    one, two = (words.get(id(tensor), "") for tensor in alive[:2])
    third = "".join(words[id(o)] for o in operands if all(o is not tensor for tensor in alive[:2]))
    summed = [letter for letter in one if letter in two and letter not in given + third]

    def both(word: str, other: str) -> tuple[int, int] | None:
        own = [letter for letter in word if letter in given and letter not in other]
        return (word.index(own[0]), word.index(summed[0])) if len(own) == len(summed) == 1 else None

    return both(one, two), both(two, one)


def as_tokens(tensor: Tensor | np.ndarray, batch: int, length: int) -> np.ndarray | None:
    """The tensor as (B, N, features), found by its sizes; None where it has no such axes.

    >>> as_tokens(torch.zeros(4, 3, 5, 6), 3, 5).shape   # (H, B, N, D)
    (3, 5, 24)
    """
    array = tensor.detach().double().numpy() if isinstance(tensor, Tensor) else np.asarray(tensor)
    shape = array.shape
    if len(shape) > 3 and shape[0] == batch and int(np.prod(shape[2:])) == length:  # an image: (B, C, H, W)
        return array.reshape(batch, shape[1], length).swapaxes(1, 2)
    if length in shape and batch in shape:
        b = shape.index(batch)
        n = shape.index(length)
        if b == n and shape.count(batch) > 1:  # as many texts as tokens: texts come first
            n = shape.index(length, b + 1)
        elif b == n:
            return None
        array = np.moveaxis(array, (b, n), (0, 1))
        return array.reshape(batch, length, -1)
    if shape and shape[0] == batch * length:
        return array.reshape(batch, length, -1)
    if length in shape and len(shape) >= 2:  # batch and heads in one axis, batch outermost
        n = shape.index(length)
        rest = [size for axis, size in enumerate(shape) if axis != n]
        if rest and rest[0] % batch == 0 and len(shape) == 3 and n == 1:
            return (
                array.reshape(batch, rest[0] // batch, length, rest[1]).transpose(0, 2, 1, 3).reshape(batch, length, -1)
            )
        if batch == 1:
            return np.moveaxis(array, n, 0).reshape(1, length, -1)
    return None


def named(module: Any, weight: Any) -> str:
    """What the module calls this weight, or "" where it is none of its own."""
    if isinstance(weight, np.ndarray):
        mine = getattr(module, "__dict__", {})
        return next((n for n, a in mine.items() if isinstance(a, np.ndarray) and np.shares_memory(a, weight)), "")
    storage = weight.untyped_storage().data_ptr()
    for name, parameter in _parameters(module):
        if parameter.untyped_storage().data_ptr() == storage:
            return name
    return ""


def _parameters(module: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(module, torch.nn.Module):
        yield from module.named_parameters()
        yield from module.named_buffers()


class Seen(np.ndarray):
    """An array that tells the log it carries of every product it takes part in; what comes of it does the same."""

    log: "NumpyCapture | None" = None

    def __array_finalize__(self, parent: Any) -> None:
        self.log = getattr(parent, "log", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        """Arithmetic."""
        if out is not None:
            kwargs["out"] = tuple(_bare(o) for o in out)
        result = getattr(ufunc, method)(*map(_bare, inputs), **kwargs)
        if out is not None:
            return out[0]
        if ufunc is np.matmul and method == "__call__":
            self._note(inputs, result)
        return self._wrapped(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """np.dot, np.einsum, np.concatenate…"""
        result = function(*_bare(args), **_bare(kwargs))
        if function in (np.dot, np.einsum, np.tensordot, np.inner):
            self._note([a for a in args if isinstance(a, np.ndarray)], result)
        return self._wrapped(result)

    def dot(self, other: Any, out: Any = None) -> Any:
        """As a method it passes neither."""
        result = np.dot(_bare(self), _bare(other))
        self._note([self, other], result)
        return self._wrapped(result)

    def _wrapped(self, result: Any) -> Any:
        if isinstance(result, np.ndarray) and result.ndim:
            seen = result.view(Seen)
            seen.log = self.log
            return seen
        if isinstance(result, (tuple, list)):
            return type(result)(self._wrapped(r) for r in result)
        return result

    def _note(self, inputs: Any, result: Any) -> None:
        alive = [i for i in inputs if isinstance(i, Seen)]
        fixed = [i for i in inputs if not isinstance(i, Seen) and getattr(i, "ndim", 0) >= 2]
        if self.log is not None and len(alive) == 1 and fixed:
            self.log.products.append(
                Product(_bare(alive[0]).copy(), fixed[0], np.array(result), len(self.log.products))
            )


@dataclass(eq=False)
class NumpyCapture:
    """The same for NumPy: products with a weight, in order."""

    products: list[Product] = field(default_factory=list)
    softmaxes: list[Any] = field(default_factory=list)
    kernels: list[Any] = field(default_factory=list)
    dropped: list[float] = field(default_factory=list)
    places: int = 0

    def watched(self, array: np.ndarray) -> np.ndarray:
        """The array, from now on watched."""
        seen = array.view(Seen)
        seen.log = self
        return seen


def _bare(value: Any) -> Any:
    if isinstance(value, Seen):
        return value.view(np.ndarray)
    if isinstance(value, (tuple, list)):
        return type(value)(_bare(item) for item in value)
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items()}
    return value


@functools.cache
def no_fast_path() -> None:
    """torch's encoder layers take one fused step in eval mode that can't be watched: the plain road instead."""
    torch.backends.mha.set_fastpath_enabled(False)
