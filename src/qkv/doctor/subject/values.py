"""Modules, tensors and signatures of any framework: cast, copied, looked into, described."""

import contextlib
import copy
import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_set_default, _get_default = torch.set_default_dtype, torch.get_default_dtype


def cast(module: nn.Module, dtype: torch.dtype) -> None:
    """Also the tensors and layers that the module doesn't know it has."""
    module._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)  # .to would make complex numbers real
    for part in list(module.modules()):
        for name, given in list(vars(part).items()):
            if isinstance(given, Tensor) and given.is_floating_point():
                object.__setattr__(part, name, given.to(dtype))
            elif isinstance(given, (list, tuple)):
                for item in given:
                    if isinstance(item, nn.Module):
                        item.eval().to(dtype)
                if any(isinstance(item, Tensor) and item.is_floating_point() for item in given):
                    object.__setattr__(
                        part,
                        name,
                        type(given)(
                            i.to(dtype) if isinstance(i, Tensor) and i.is_floating_point() else i for i in given
                        ),
                    )
            elif isinstance(given, dict):
                for item in given.values():
                    if isinstance(item, nn.Module):
                        item.eval().to(dtype)


def copied(owner: Any) -> Any:
    """A copy whose weights and buffers are its own; a buffer that carries a history is copied without it."""
    memo = {
        id(value): value.detach().clone()
        for part in (owner.modules() if isinstance(owner, nn.Module) else ())
        for value in (*vars(part).values(), *part._buffers.values())
        if isinstance(value, Tensor) and not value.is_leaf
    }
    return copy.deepcopy(owner, memo)


@contextlib.contextmanager
def settings(dtype: str) -> Iterator[None]:
    """What is built or drawn inside is of that precision, and nothing is printed as a warning."""
    before = _get_default()
    _set_default(getattr(torch, dtype) if dtype in ("float64", "float32") else torch.float32)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        _set_default(before)


def arrays(value: Any, depth: int = 3) -> Iterator[Any]:
    """Every float tensor or array in what came back: tuples, dicts and objects are looked into."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield value
    elif depth:
        if isinstance(value, dict):
            inner: Any = value.values()
        elif isinstance(value, (tuple, list)):
            inner = value
        else:
            inner = vars(value).values() if hasattr(value, "__dict__") and not callable(value) else ()
        for item in inner:
            yield from arrays(item, depth - 1)


def to_numpy(array: Any) -> np.ndarray:
    """float64, whatever it was."""
    return array.detach().double().numpy().copy() if isinstance(array, Tensor) else np.array(array, dtype=np.float64)


def describe(raw: Any) -> str:
    """What came back, in short.

    >>> describe((torch.zeros(2, 3), None))
    'Tensor(2, 3), NoneType'
    """
    if isinstance(raw, (tuple, list)):
        return ", ".join(describe(item) for item in raw[:4])
    shape = f"({', '.join(map(str, raw.shape))})" if hasattr(raw, "shape") else ""
    return type(raw).__name__ + shape


def signature(function: Any) -> inspect.Signature:
    """Of a module: its forward's."""
    if isinstance(function, nn.Module):
        function = function.forward
    elif not inspect.isroutine(function) and not inspect.isclass(function) and hasattr(function, "__call__"):  # noqa: B004
        function = function.__call__
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return _documented(function)


def _documented(function: Any) -> inspect.Signature:
    """The signature that a builtin's docstring begins with.

    >>> str(_documented(torch.nn.functional.scaled_dot_product_attention))[:26]
    '(query, key, value, attn_m'
    """
    text = (getattr(function, "__doc__", "") or "").strip()[:600]
    match = re.match(r"[\w.]+\((.*?)\)", text, re.DOTALL)
    found = []
    for word in match[1].split(",") if match else []:
        name, _, default = word.strip().partition("=")
        if name.strip().isidentifier():
            given: Any = {"None": None, "False": False, "True": True, "": inspect.Parameter.empty}.get(
                default.strip(), 0.0
            )
            found.append(inspect.Parameter(name.strip(), inspect.Parameter.POSITIONAL_OR_KEYWORD, default=given))
    return inspect.Signature(found)


def parameters_of(function: Any) -> list[inspect.Parameter]:
    return [p for p in signature(function).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
