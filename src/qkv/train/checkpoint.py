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
    with checkpoint_cleanup(folder, step):
        part = begin_checkpoint(folder, step)
        listed = {OPTIMIZER: write_flushed(part / OPTIMIZER, save(momenta_of(model, optimizers)))}
        # The whole model, or the adapters beside one that stays as it is.
        if isinstance(model, Transformer) and any(isinstance(layer, LowRank) for layer in model.modules()):
            weights = adapter_files(model)
        else:
            weights = {WEIGHTS: save(weights_of(model))}
        return finish_checkpoint(part, step, state, weights, listed)


def load_checkpoint(place: Path, model: nn.Module, optimizers: Optimizers | None = None) -> State:
    """Put a checkpoint's weights (and momenta) back in place, bit for bit; gives its state."""
    if problem := check(place):
        raise problem
    if is_adapter(place):
        assert isinstance(model, Transformer)
        attach(model, place)
    else:
        load_weights(place / WEIGHTS, model)
    if optimizers is not None:
        if shard_files(place, read_state(place)):  # many processes wrote it, each its slices
            load_shards(place, model, optimizers, together=False)
        else:
            _put_momenta(place, model, optimizers)
    return read_state(place)


def save_shards(folder: Path, model: nn.Module, optimizers: Optimizers) -> None:
    """Every process writes the slices of weights and momenta that it holds, as safetensors (DCP)."""
    import torch.distributed.checkpoint as dcp

    every = {**weights_of(model), **momenta_of(model, optimizers)}
    try:
        # DCP's own format keeps pickles, and nothing is unpickled here: hence its writer of safetensors.
        dcp.save(every, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except dcp.CheckpointException as error:  # raised in all processes, whichever of them failed
        raise next(iter(error.failures.values()))[0] from error


def load_shards(place: Path, model: nn.Module, optimizers: Optimizers, together: bool) -> None:
    """Read weights and momenta, in slices or not, into a model that is cut in slices or not: DCP finds what goes where.

    Only files that state.json lists are read. `together`: all processes of the world call it, each for its slices;
    else each reads everything by itself.
    """
    import torch.distributed.checkpoint as dcp

    files = shard_files(place, read_state(place)) or [place / WEIGHTS, place / OPTIMIZER]
    shapes = _joined_shapes(place, files)
    named, owner = _owners(model, optimizers)
    refuse_other_weights(place, {name: shape for name, shape in shapes.items() if ":" not in name}, model)
    _check_momenta(place, {key: shape for key, shape in shapes.items() if ":" in key}, named, owner)
    reader = dcp.HuggingFaceStorageReader(str(files[0].parent))
    reader.fs.ls = lambda path: list(map(str, files))  # type: ignore[method-assign]
    with reading(place, UNREADABLE):
        saved = reader.read_metadata().state_dict_metadata
    wanted: dict[str, Any] = {name: p.detach() for name, p in named.items()}
    for key, kept in saved.items():
        name, sign, what = key.rpartition(":")
        if sign and isinstance(kept, dcp.metadata.TensorStorageMetadata):
            p = named[name]
            whole = kept.size != p.shape  # a count of steps is not cut
            made = (
                torch.zeros(kept.size, dtype=kept.properties.dtype, device=p.device) if whole else torch.zeros_like(p)
            )
            wanted[key] = owner[id(p)].state[p][what] = made.detach()
    try:
        with warnings.catch_warnings():  # it warns of being alone
            warnings.simplefilter("ignore")
            dcp.load(wanted, storage_reader=reader, no_dist=not together)
    except dcp.CheckpointException as error:
        reason = quoted(next(iter(error.failures.values()))[0])
        raise Problem("{place} can't be read: {error}", place=place, error=reason) from error


def _joined_shapes(place: Path, files: list[Path]) -> dict[str, Shape]:
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
        if (joined := _join(parts)) is None:
            raise Problem(
                "the files of {place} don't make up {name}: rows of it are missing, or there twice. Copy the checkpoint "
                "again, or remove it so that the run goes on from another one",
                place=place,
                name=name,
            )
        shapes[name] = joined
    return shapes


def _join(parts: list[tuple[Shape, Shape]]) -> Shape | None:
    """Return the shape that slices along the first dimension make up, None if they leave a gap or overlap."""
    filled = sorted(part for part in parts if math.prod(part[1])) or parts[:1]  # a process may hold no row
    rest = filled[0][1][1:]
    if not filled[0][1]:  # a single number
        return () if len(filled) == 1 else None
    rows = 0
    for start, shape in filled:
        if start[:1] != (rows,) or any(start[1:]) or shape[1:] != rest:
            return None
        rows += shape[0]
    return rows, *rest


def momenta_of(model: nn.Module, optimizers: Optimizers) -> dict[str, Tensor]:
    """The optimizers' tensors as `parameter:what`."""
    names = {id(p): name for name, p in model.named_parameters()}
    found = {}
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for what, value in state.items():
                found[f"{names[id(parameter)]}:{what}"] = torch.as_tensor(value).detach().contiguous()
    return found


def _put_momenta(place: Path, model: nn.Module, optimizers: Optimizers) -> None:
    named, owner = _owners(model, optimizers)
    momenta = read_tensors(place / OPTIMIZER)
    _check_momenta(place, {key: tuple(value.shape) for key, value in momenta.items()}, named, owner)
    for key, value in momenta.items():
        name, _, what = key.rpartition(":")
        parameter = named[name]
        owner[id(parameter)].state[parameter][what] = value.to(parameter.device, copy=True)


def _check_momenta(
    place: Path,
    shapes: Mapping[str, Shape],
    named: Mapping[str, nn.Parameter],
    owner: Mapping[int, torch.optim.Optimizer],
) -> None:
    """Refuse momenta that these optimizers don't have; a parameter has all that its optimizer keeps, or none."""
    kinds: dict[str, set[str]] = {}
    for key, shape in shapes.items():
        name, _, what = key.rpartition(":")
        kinds.setdefault(name, set()).add(what)
        parameter = named.get(name)
        # A count of steps has no shape.
        if id(parameter) not in owner or shape != (() if what == "step" else tuple(named[name].shape)):
            raise _other_optimizer(place)
    for name, kept in kinds.items():
        muon = isinstance(owner[id(named[name])], Muon)
        if kept != ({"momentum"} if muon else {"step", "exp_avg", "exp_avg_sq"}):
            raise _other_optimizer(place)


def _other_optimizer(place: Path) -> Problem:
    return Problem(
        "{place} was written with another optimizer: put the one back that config.json had, or begin a new run",
        place=place,
    )


def _owners(
    model: nn.Module, optimizers: Optimizers
) -> tuple[dict[str, nn.Parameter], dict[int, torch.optim.Optimizer]]:
    """Parameters by name, and by id the optimizer that moves each."""
    owner = {id(p): o for o in optimizers for group in o.param_groups for p in group["params"]}
    return dict(model.named_parameters()), owner
