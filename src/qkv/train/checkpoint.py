"""Checkpoints: weights and optimizer state as safetensors, so that a run resumes exactly. run_folder.py has the layout."""

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
    """Write checkpoints/STEP, remove all but the last two and the best, and return its path."""
    with checkpoint_cleanup(folder, step):
        part = begin_checkpoint(folder, step)
        files = {OPTIMIZER: write_flushed(part / OPTIMIZER, save(momenta_of(model, optimizers)))}
        # With LoRA only the adapters: the other weights are those of the base.
        if isinstance(model, Transformer) and any(isinstance(layer, LowRank) for layer in model.modules()):
            weights = adapter_files(model)
        else:
            weights = {WEIGHTS: save(weights_of(model))}
        return finish_checkpoint(part, step, state, weights, files)


def load_checkpoint(checkpoint: Path, model: nn.Module, optimizers: Optimizers | None = None) -> State:
    """Load a checkpoint's weights (and momenta) bit for bit, and return its state."""
    if problem := check(checkpoint):
        raise problem
    if is_adapter(checkpoint):
        assert isinstance(model, Transformer)
        attach(model, checkpoint)
    else:
        load_weights(checkpoint / WEIGHTS, model)
    if optimizers is not None:
        if shard_files(checkpoint, read_state(checkpoint)):  # written by FSDP
            load_shards(checkpoint, model, optimizers, together=False)
        else:
            _restore_momenta(checkpoint, model, optimizers)
    return read_state(checkpoint)


def save_shards(folder: Path, model: nn.Module, optimizers: Optimizers) -> None:
    """Write the slices of weights and momenta that this process holds, as safetensors (DCP)."""
    import torch.distributed.checkpoint as dcp

    tensors = {**weights_of(model), **momenta_of(model, optimizers)}
    try:
        # Safetensors, because DCP's own format contains pickles.
        dcp.save(tensors, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except dcp.CheckpointException as error:  # raised in all processes, whichever of them failed
        raise next(iter(error.failures.values()))[0] from error


def load_shards(checkpoint: Path, model: nn.Module, optimizers: Optimizers, together: bool) -> None:
    """Load weights and momenta into a model. Either side may be sharded: DCP maps the slices.

    Reads only files that state.json lists. With `together`, all processes of the world call it and each loads its
    slices; otherwise each process loads everything.
    """
    import torch.distributed.checkpoint as dcp

    files = shard_files(checkpoint, read_state(checkpoint)) or [checkpoint / WEIGHTS, checkpoint / OPTIMIZER]
    shapes = _full_shapes(checkpoint, files)
    named, owner = _owners(model, optimizers)
    refuse_other_weights(checkpoint, {name: shape for name, shape in shapes.items() if ":" not in name}, model)
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
            is_whole = entry.size != p.shape  # the step count is not sharded
            momentum = (
                torch.zeros(entry.size, dtype=entry.properties.dtype, device=p.device)
                if is_whole
                else torch.zeros_like(p)
            )
            targets[key] = owner[id(p)].state[p][kind] = momentum.detach()
    try:
        with warnings.catch_warnings():  # DCP warns that no process group exists
            warnings.simplefilter("ignore")
            dcp.load(targets, storage_reader=reader, no_dist=not together)
    except dcp.CheckpointException as error:
        reason = quoted(next(iter(error.failures.values()))[0])
        raise Problem("{place} can't be read: {error}", place=checkpoint, error=reason) from error


def _full_shapes(checkpoint: Path, files: list[Path]) -> dict[str, Shape]:
    """Return the shape of every tensor in these files. Refuse slices that leave a gap or overlap."""
    slices: dict[str, list[tuple[Shape, Shape]]] = {}  # name → start and shape of each slice
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
    """Return the shape of joined slices along the first dimension, None if they leave a gap or overlap."""
    slices = sorted(part for part in all_slices if math.prod(part[1])) or all_slices[:1]  # a process may hold no rows
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
    """Return the optimizers' state tensors as `parameter:kind`, such as `head.weight:exp_avg`."""
    names = {id(p): name for name, p in model.named_parameters()}
    momenta = {}
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for kind, value in state.items():
                momenta[f"{names[id(parameter)]}:{kind}"] = torch.as_tensor(value).detach().contiguous()
    return momenta


def _restore_momenta(checkpoint: Path, model: nn.Module, optimizers: Optimizers) -> None:
    named, owner = _owners(model, optimizers)
    momenta = read_tensors(checkpoint / OPTIMIZER)
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
    """Refuse momenta that these optimizers don't have. A parameter has all state of its optimizer, or none."""
    kinds: dict[str, set[str]] = {}
    for key, shape in shapes.items():
        name, _, kind = key.rpartition(":")
        kinds.setdefault(name, set()).add(kind)
        parameter = named.get(name)
        # The step count is a scalar.
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
    """Return the parameters by name, and the optimizer of each parameter by its id."""
    owner = {id(p): o for o in optimizers for group in o.param_groups for p in group["params"]}
    return dict(model.named_parameters()), owner
