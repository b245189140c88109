"""What a run keeps so that it can go on exactly: weights and momenta, as safetensors. Where they lie: runfiles.py."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from ..model.adapters import LowRank, attach, saved
from ..model.tensors import load_weights, read_tensors, weights_of
from ..model.transformer import Transformer
from ..runfiles import MOMENTA, SHARDS, WEIGHTS, begin, check, explained, finish, is_adapter, read_state, write_through
from ..words import Problem
from .optim import Muon


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, optimizers: list[torch.optim.Optimizer], state: dict[str, Any]
) -> Path:
    """Write checkpoints/STEP, then remove all but the last two and the best; gives its path."""
    with explained(folder, step):
        part = begin(folder, step)
        listed = {MOMENTA: write_through(part / MOMENTA, save(momenta_of(model, optimizers)))}
        return finish(part, step, state, _weights(model), listed)


def _weights(model: nn.Module) -> dict[str, bytes]:
    """The files of what learns: the whole model, or the adapters beside one that stays as it is."""
    if isinstance(model, Transformer) and any(isinstance(part, LowRank) for part in model.modules()):
        return saved(model)
    return {WEIGHTS: save(weights_of(model))}


def load_checkpoint(
    place: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer] | None = None
) -> dict[str, Any]:
    """Put a checkpoint's weights (and momenta) back in place, bit for bit; gives its state."""
    if problem := check(place):
        raise problem
    if is_adapter(place):
        assert isinstance(model, Transformer)
        attach(model, place)
    else:
        load_weights(place / WEIGHTS, model)
    if optimizers is not None:
        if (place / SHARDS).is_dir():  # many processes wrote it, each its slices
            load_shards(place, model, optimizers, together=False)
        else:
            _put_momenta(place, model, optimizers)
    return read_state(place)


def save_shards(folder: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
    """Every process writes the slices of weights and momenta that it holds, as safetensors (DCP)."""
    import torch.distributed.checkpoint as dcp

    every = {**weights_of(model), **momenta_of(model, optimizers)}
    try:
        # DCP's own format keeps pickles, and nothing is unpickled here: hence its writer of safetensors.
        dcp.save(every, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except dcp.CheckpointException as error:  # raised in all processes, whichever of them failed
        raise next(iter(error.failures.values()))[0] from error


def load_shards(place: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer], together: bool) -> None:
    """Read weights and momenta, in slices or not, into a model that is cut in slices or not: DCP finds what goes where.

    `together`: all processes of the world call it, each for its slices; else each reads everything by itself.
    """
    import torch.distributed.checkpoint as dcp

    reader = dcp.HuggingFaceStorageReader(str(place / SHARDS if (place / SHARDS).is_dir() else place))
    named, owner = _owners(model, optimizers)
    wanted: dict[str, Any] = {name: p.detach() for name, p in named.items()}
    for key, kept in reader.read_metadata().state_dict_metadata.items():
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
        reason = str(next(iter(error.failures.values()))[0])
        raise Problem("{place} is of another config: {error}", place=place, error=reason) from error


def momenta_of(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """The optimizers' tensors as `parameter:what`."""
    names = {id(p): name for name, p in model.named_parameters()}
    found = {}
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for what, value in state.items():
                found[f"{names[id(parameter)]}:{what}"] = torch.as_tensor(value).detach().contiguous()
    return found


def _put_momenta(place: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
    named, owner = _owners(model, optimizers)
    file = place / MOMENTA
    for key, value in read_tensors(file).items():
        name, _, what = key.rpartition(":")
        parameter = named.get(name)
        if (
            parameter is None
            or (what == "momentum") != isinstance(owner[id(parameter)], Muon)
            or value.shape not in (parameter.shape, torch.Size([]))  # a count of steps has no shape
        ):
            raise Problem(
                "{place} was written with another optimizer: put the one back that config.json had, or begin a new run",
                place=place,
            )
        owner[id(parameter)].state[parameter][what] = value.to(parameter.device, copy=True)


def _owners(
    model: nn.Module, optimizers: list[torch.optim.Optimizer]
) -> tuple[dict[str, nn.Parameter], dict[int, Any]]:
    """Parameters by name, and by id the optimizer that moves each."""
    owner = {id(p): o for o in optimizers for group in o.param_groups for p in group["params"]}
    return dict(model.named_parameters()), owner
