"""Tensors in safetensors files: memory-mapped, checked for NaN and infinity, copied into a model by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from ..i18n import Message, Problem, quoted

Makers = dict[str, tuple[tuple[int, ...], Callable[[], Tensor]]]  # name -> shape, and its constructor


class LazyTensors(Mapping[str, Tensor]):
    """Tensors by name, created on each access."""

    def __init__(self, makers: Mapping[str, Callable[[], Tensor]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> Tensor:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class Tensors(LazyTensors):
    """Lazy tensors whose shapes are known in advance."""

    def __init__(self, table: Makers) -> None:
        super().__init__({name: make for name, (_, make) in table.items()})
        self.shapes = {name: shape for name, (shape, _) in table.items()}


def mapped_tensors(files: Mapping[Path, list[str] | None], dtype: torch.dtype, keep: bool = True) -> Tensors:
    """Return the tensors of safetensors files by name, memory-mapped where they have the dtype, else converted.

    With `keep=False` a file is mapped only while a tensor is converted, so that its pages are freed.
    """
    table: Makers = {}
    for file, names in files.items():
        handle = _open(file)
        available = set(handle.keys())
        if missing := [name for name in names or () if name not in available]:
            raise Problem(
                "{file} lacks {name}, which the index says is there ({count} such): the files are of different "
                "versions; get them again",
                file=file,
                name=missing[0],
                count=len(missing),
            )
        for name in names or handle.keys():
            shape = tuple(handle.get_slice(name).get_shape())
            table[name] = shape, partial(_read_mapped, file, handle, name, dtype, keep)
    return Tensors(table)


def _read_mapped(file: Path, handle: Any, name: str, dtype: torch.dtype, keep: bool) -> Tensor:
    try:
        tensor = handle.get_tensor(name)
        if not tensor.is_floating_point() or (keep and tensor.dtype == dtype):
            return tensor
        # A separate handle frees the mapped pages as soon as the tensor is converted.
        return _open(file).get_tensor(name).to(dtype)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise _unreadable(file, error) from None


def checked_finite(source: Path, tensors: Tensors) -> Tensors:
    """Return the same tensors, each checked on access: NaN or infinity in a weight makes all output useless."""

    def checked(name: str) -> Tensor:
        tensor = tensors[name]
        refuse_infinite(source, name, tensor)
        return tensor

    return Tensors({name: (shape, partial(checked, name)) for name, shape in tensors.shapes.items()})


def refuse_infinite(source: Path, name: str, tensor: Tensor) -> None:
    """Raise Problem if a tensor has NaN or infinity. Checks minimum and maximum, at memory speed."""
    if tensor.is_floating_point() and tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
        is_bad = ~tensor.isfinite()
        first = tuple(is_bad.nonzero()[0].tolist())
        details = dict(count=int(is_bad.sum()), all=tensor.numel(), place=first, value=float(tensor[first]))
        raise Problem(
            "{file}: {name} has {count} of its {all} weights not finite (the first is {value}, at {place}): the file was "
            "damaged, or training diverged before it was saved; get it again, or take an earlier one",
            file=source,
            name=name,
            **details,
        )


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: Exception) -> Problem:
    return Problem(
        "{file} is not a readable safetensors file: {error}; it was cut short or damaged, get it again",
        file=file,
        error=quoted(error),
    )


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter by name; shared ones (a tied head) appear once."""
    return {name: p.detach().contiguous() for name, p in model.named_parameters()}


def fingerprint(model: nn.Module) -> str:
    """Return the sha256 of all weights and their names, independent of the file format."""
    digest = hashlib.sha256()
    for name, tensor in weights_of(model).items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Return all tensors of a safetensors file by name."""
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise _unreadable(file, error) from None


def load_weights(file: Path, model: nn.Module) -> None:
    """Copy weights by name into a model of the same config."""
    saved = read_tensors(file)
    refuse_other_weights(file, {name: tuple(tensor.shape) for name, tensor in saved.items()}, model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(saved[name])


def refuse_other_weights(file: Path, saved: dict[str, tuple[int, ...]], model: nn.Module) -> None:
    """Raise Problem if names or shapes of the weights differ from the model's."""
    own = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    for name in sorted(own.keys() | saved.keys()):
        if saved.get(name) != own.get(name):
            there, here = (shapes.get(name, Message("missing")) for shapes in (saved, own))
            raise Problem(
                "{file} is of another config: {name} is {there} there and {here} here",
                file=file,
                name=name,
                there=there,
                here=here,
            )
