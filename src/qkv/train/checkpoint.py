"""What a run keeps so that it can go on exactly: weights and momenta, as safetensors. Where they lie: run_folder.py."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..disk.bounded_reading import reading
from ..disk.run_folder import (
    OPTIMIZER,
    WEIGHTS,
    State,
    begin_checkpoint,
    check,
    checkpoint_cleanup,
    finish_checkpoint,
    is_adapter,
    read_state,
    shard_files,
    write_flushed,
)
from ..formats.adapters import LowRank, adapter_files, attach
from ..formats.tensor_files import load_weights, read_tensors, refuse_other_weights, weights_of
from ..i18n import Problem, _, quoted
from ..model.transformer import Transformer
from .optim import Muon

Shape = tuple[int, ...]
Optimizers = list[torch.optim.Optimizer]
UNREADABLE = _("{file} can't be read: {error}")


def save_checkpoint(folder: Path, step: int, model: nn.Module, optimizers: Optimizers, state: State) -> Path:
    """Write checkpoints/STEP, then remove all but the last two and the best; gives its path."""
    with explained(folder, step):
        part = begin(folder, step)
        files = {MOMENTA: write_through(part / MOMENTA, save(momenta_of(model, optimizers)))}
        # The whole model, or the adapters beside one that stays as it is.
        if isinstance(model, Transformer) and any(isinstance(layer, LowRank) for layer in model.modules()):
            weights = adapter_files(model)
        else:
            weights = {WEIGHTS: save(weights_of(model))}
        return finish(part, step, state, weights, files)


def load_checkpoint(checkpoint: Path, model: nn.Module, optimizers: Optimizers | None = None) -> State:
    """Put a checkpoint's weights (and momenta) back in place, bit for bit; gives its state."""
    if problem := check(checkpoint):
        raise problem
    if is_adapter(checkpoint):
        assert isinstance(model, Transformer)
        attach(model, checkpoint)
    else:
        load_weights(checkpoint / WEIGHTS, model)
    if optimizers is not None:
        if shard_files(checkpoint, read_state(checkpoint)):  # many processes wrote it, each its slices
            load_shards(checkpoint, model, optimizers, together=False)
        else:
            _restore_momenta(checkpoint, model, optimizers)
    return read_state(checkpoint)


def save_shards(folder: Path, model: nn.Module, optimizers: Optimizers) -> None:
    """Every process writes the slices of weights and momenta that it holds, as safetensors (DCP)."""
    import torch.distributed.checkpoint as dcp

    tensors = {**weights_of(model), **momenta_of(model, optimizers)}
    try:
        # DCP's own format keeps pickles, and nothing is unpickled here: hence its writer of safetensors.
        dcp.save(tensors, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except dcp.CheckpointException as error:  # raised in all processes, whichever of them failed
        raise next(iter(error.failures.values()))[0] from error


def load_shards(checkpoint: Path, model: nn.Module, optimizers: Optimizers, together: bool) -> None:
    """Read weights and momenta, in slices or not, into a model that is cut in slices or not: DCP finds what goes where.

    Only files that state.json lists are read. `together`: all processes of the world call it, each for its slices;
    else each reads everything by itself.
    """
    import torch.distributed.checkpoint as dcp

    files = shard_files(checkpoint, read_state(checkpoint)) or [checkpoint / WEIGHTS, checkpoint / MOMENTA]
    shapes = _full_shapes(checkpoint, files)
    named, owner = _owners(model, optimizers)
    refuse_others(checkpoint, {name: shape for name, shape in shapes.items() if ":" not in name}, model)
    _check_momenta(checkpoint, {key: shape for key, shape in shapes.items() if ":" in key}, named, owner)
    reader = dcp.HuggingFaceStorageReader(str(files[0].parent))
    reader.fs.ls = lambda path: list(map(str, files))  # type: ignore[method-assign]
    with reading(checkpoint, UNREADABLE):
        stored = reader.read_metadata().state_dict_metadata
    targets: dict[str, Any] = {name: p.detach() for name, p in named.items()}
    for key, entry in stored.items():
        name, separator, kind = key.rpartition(":")
        if separator and isinstance(entry, dcp.metadata.TensorStorageMetadata):
            p = named[name]
            is_whole = entry.size != p.shape  # a count of steps is not cut
            momentum = (
                torch.zeros(entry.size, dtype=entry.properties.dtype, device=p.device)
                if is_whole
                else torch.zeros_like(p)
            )
            targets[key] = owner[id(p)].state[p][kind] = momentum.detach()
    try:
        with warnings.catch_warnings():  # it warns of being alone
            warnings.simplefilter("ignore")
            dcp.load(targets, storage_reader=reader, no_dist=not together)
    except dcp.CheckpointException as error:
        reason = quoted(next(iter(error.failures.values()))[0])
        raise Problem("{place} can't be read: {error}", place=checkpoint, error=reason) from error


def _full_shapes(checkpoint: Path, files: list[Path]) -> dict[str, Shape]:
    """Return the shape of every tensor whose slices are in these files; the slices must make it up exactly."""
    slices: dict[str, list[tuple[Shape, Shape]]] = {}  # name -> where each begins, and its shape
    for file in files:
        with reading(file, UNREADABLE), safe_open(file, framework="pt") as opened:
            table = json.loads((opened.metadata() or {}).get("DCP_SHARDING_INFO", "null"))
            for name in opened.keys():
                shape = tuple(opened.get_slice(name).get_shape())
                start = (0,) * len(shape) if table is None else tuple(table[name]["saved_offsets"])
                if len(start) != len(shape) or not all(type(n) is int and n >= 0 for n in start):
                    raise Problem("invalid start of the slice of {name}: {start}", name=name, start=start)
                slices.setdefault(name, []).append((start, shape))
    shapes = {}
    for name, parts in slices.items():
        if (full := _join_slices(parts)) is None:
            raise Problem(
                "the files of {place} don't make up {name}: rows of it are missing, or there twice. Copy the checkpoint "
                "again, or remove it so that the run goes on from another one",
                place=checkpoint,
                name=name,
            )
        shapes[name] = full
    return shapes


def _join_slices(all_slices: list[tuple[Shape, Shape]]) -> Shape | None:
    """Return the shape that slices along the first dimension make up, None if they leave a gap or overlap."""
    slices = sorted(part for part in all_slices if math.prod(part[1])) or all_slices[:1]  # a process may hold no row
    rest = slices[0][1][1:]
    if not slices[0][1]:  # a single number
        return () if len(slices) == 1 else None
    rows = 0
    for start, shape in slices:
        if start[:1] != (rows,) or any(start[1:]) or shape[1:] != rest:
            return None
        rows += shape[0]
    return rows, *rest


def momenta_of(model: nn.Module, optimizers: Optimizers) -> dict[str, Tensor]:
    """The optimizers' tensors as `parameter:what`."""
    names = {id(p): name for name, p in model.named_parameters()}
    momenta = {}
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for kind, value in state.items():
                momenta[f"{names[id(parameter)]}:{kind}"] = torch.as_tensor(value).detach().contiguous()
    return momenta


def _restore_momenta(checkpoint: Path, model: nn.Module, optimizers: Optimizers) -> None:
    named, owner = _owners(model, optimizers)
    momenta = read_tensors(checkpoint / MOMENTA)
    _check_momenta(checkpoint, {key: tuple(value.shape) for key, value in momenta.items()}, named, owner)
    for key, value in momenta.items():
        name, _, kind = key.rpartition(":")
        parameter = named[name]
        owner[id(parameter)].state[parameter][kind] = value.to(parameter.device, copy=True)


def _check_momenta(
    checkpoint: Path,
    shapes: Mapping[str, Shape],
    named: Mapping[str, nn.Parameter],
    owner: Mapping[int, torch.optim.Optimizer],
) -> None:
    """Refuse momenta that these optimizers don't have; a parameter has all that its optimizer keeps, or none."""
    kinds: dict[str, set[str]] = {}
    for key, shape in shapes.items():
        name, _, kind = key.rpartition(":")
        kinds.setdefault(name, set()).add(kind)
        parameter = named.get(name)
        # A count of steps has no shape.
        if id(parameter) not in owner or shape != (() if kind == "step" else tuple(named[name].shape)):
            raise _optimizer_error(checkpoint)
    for name, names in kinds.items():
        is_muon = isinstance(owner[id(named[name])], Muon)
        if names != ({"momentum"} if is_muon else {"step", "exp_avg", "exp_avg_sq"}):
            raise _optimizer_error(checkpoint)


def _optimizer_error(checkpoint: Path) -> Problem:
    return Problem(
        "{place} was written with another optimizer: put the one back that config.json had, or begin a new run",
        place=checkpoint,
    )


def _owners(
    model: nn.Module, optimizers: Optimizers
) -> tuple[dict[str, nn.Parameter], dict[int, torch.optim.Optimizer]]:
    """Parameters by name, and by id the optimizer that moves each."""
    owner = {id(p): o for o in optimizers for group in o.param_groups for p in group["params"]}
    return dict(model.named_parameters()), owner
