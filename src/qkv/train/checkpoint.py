"""What a run keeps so that it can go on exactly: weights and momenta as safetensors, the rest as JSON.

A checkpoint is a folder checkpoints/000200 that is there wholly or not at all: written aside, every file flushed to the
disk, then renamed. Its state.json lists each file's size and sha256; loading takes the newest folder whose files agree.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ..model.weights import changed, load_weights, read_state, weights_of
from ..words import Problem, _, quoted
from .optim import Muon

FORMAT = "qkv checkpoint 1"
SHARDS = "shards"  # the folder inside a checkpoint where many processes wrote their slices


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, optimizers: list[torch.optim.Optimizer], state: dict[str, Any]
) -> Path:
    """Write checkpoints/STEP, then remove all but the last two and the best; gives its path."""
    with explained(folder, step):
        part = begin(folder, step)
        name = "optimizer.safetensors"
        files = {name: _write(part / name, save(momenta_of(model, optimizers)))}
        return finish(part, step, state, weights_of(model), files)


def begin(folder: Path, step: int) -> Path:
    """An empty folder to write checkpoint STEP in, aside."""
    part = folder / f".{step:06d}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    return part


def finish(part: Path, step: int, state: dict[str, Any], weights: dict[str, Tensor], files: dict[str, Any]) -> Path:
    """Add the weights and state.json (which lists `files` too) and give the checkpoint its name; gives its path."""
    folder, place = part.parent, part.parent / f"{step:06d}"
    files = {"model.safetensors": _write(part / "model.safetensors", save(weights)), **files}
    record = {"format": FORMAT, "step": step, **state, "files": files}
    _write(part / "state.json", json.dumps(record, indent=1, ensure_ascii=False).encode())
    for inside in {(part / name).parent for name in files}:
        _flush_folder(inside)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(part, place)
    _flush_folder(folder)
    _prune(folder, state.get("best_step"))
    return place


@contextmanager
def explained(folder: Path, step: int) -> Iterator[None]:
    """Leave nothing half-written behind, and say what a full disk means."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(folder / f".{step:06d}.part", ignore_errors=True)
        if error.errno != errno.ENOSPC:
            raise
        kept = newest(folder)
        raise Problem(
            _(
                "the disk is full: checkpoint {step} was not written, the last good checkpoint is {kept}; free some "
                "space and resume"
            )
            if kept
            else _(
                "the disk is full: checkpoint {step} was not written, no checkpoint could be written yet; free some "
                "space and resume"
            ),
            step=step,
            kept=kept,
        ) from error


def newest(folder: Path) -> Path | None:
    """The newest checkpoint that is whole; half-written and damaged ones are passed over."""
    for place in sorted(folder.glob("[0-9]*"), reverse=True):
        if check(place) is None:
            return place
    return None


def check(place: Path) -> Problem | None:
    """What is wrong with a checkpoint, or None."""
    try:
        state = read_state(place)
        if state.get("format") != FORMAT:
            return Problem(
                "{place} is {found!r}, this version reads {known!r}",
                place=place,
                found=state.get("format"),
                known=FORMAT,
            )
        needed = ["model.safetensors"] + ["optimizer.safetensors"] * (not (place / SHARDS).is_dir())
        for name in dict.fromkeys([*needed, *state["files"]]):
            if problem := changed(place, name, state):
                return problem
    except Problem as problem:
        return problem
    except OSError as error:
        return Problem("{place} can't be read: {error}", place=place, error=quoted(error))
    return None


def load_checkpoint(
    place: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer] | None = None
) -> dict[str, Any]:
    """Put a checkpoint's weights (and momenta) back in place, bit for bit; gives its state."""
    if problem := check(place):
        raise problem
    load_weights(place / "model.safetensors", model)
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
    file = place / "optimizer.safetensors"
    try:
        momenta = load_file(file)
    except (SafetensorError, OSError) as error:
        raise Problem(
            "{file} is not a readable safetensors file: {error}; it was cut short or damaged, get it again",
            file=file,
            error=quoted(error),
        ) from None
    for key, value in momenta.items():
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


def _prune(folder: Path, best: int | None) -> None:
    steps = sorted(int(place.name) for place in folder.glob("[0-9]*"))
    for step in steps[:-2]:
        if step != best:
            shutil.rmtree(folder / f"{step:06d}", ignore_errors=True)


def _write(path: Path, content: bytes) -> dict[str, Any]:
    """Write a file through to the disk; gives its size and sha256."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _flush_folder(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
