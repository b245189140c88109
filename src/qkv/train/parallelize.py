"""Parallel training: one process, DDP or FSDP2. The model doesn't know which.

Processes started by `torchrun` share each batch: each computes its rows, and gradients are averaged before the step.
With DDP each process holds the whole model. With FSDP each holds a slice of every weight and of its momenta, and blocks
are gathered just before they are used. Both are PyTorch's own.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from safetensors.torch import save
from torch import Tensor, nn

from ..attention.positions import Relative
from ..disk.run_folder import (
    CHECKPOINTS,
    SHARDS,
    WEIGHTS,
    State,
    WorldRecord,
    begin_checkpoint,
    check,
    checkpoint_cleanup,
    fingerprint,
    finish_checkpoint,
    newest,
    read_state,
)
from ..formats.adapters import LowRank
from ..i18n import Message, Problem, unknown
from ..model.layers import Block
from ..model.transformer import Transformer
from .checkpoint import Optimizers, load_checkpoint, load_shards, save_checkpoint, save_shards
from .settings import Settings

T = TypeVar("T")


class World:
    """A single process, and the interface of all worlds."""

    kind, rank, size = "one", 0, 1
    needs_rehearsal = False  # True if a backward pass, whose gradients are discarded, must come before the first step

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)

    @property
    def first(self) -> bool:
        """True in the process that writes files and prints."""
        return self.rank == 0

    def once(self, work: Callable[[], T]) -> T:
        """Run `work` in the first process; all return its result or raise its error."""
        return work()

    def check(self, settings: Settings) -> None:
        """Refuse a batch that processes can't share evenly."""
        shares = self.size * settings.accumulate
        if settings.batch % shares:
            raise Problem(
                "a batch of {batch} rows can't be shared evenly by {processes} processes × accumulate={accumulate}: choose a "
                "multiple of {shares}, such as --batch {near}",
                batch=settings.batch,
                processes=self.size,
                accumulate=settings.accumulate,
                shares=shares,
                near=max(settings.batch // shares, 1) * shares,
            )

    def prepare(self, model: Transformer) -> Transformer:
        """Return the model as its optimizers see it, sharded with FSDP."""
        return model

    def wrap(self, model: Any) -> Any:
        """Return the model to call in training."""
        return model

    def full_model(self, model: Transformer) -> Any:
        """Return the unsharded model on the first process, for samples."""
        return model

    def own_rows(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return this process's rows of a batch, on its device."""
        return tuple(part[self.rank :: self.size].to(self.device, non_blocking=True) for part in batch)

    def total(self, value: Tensor) -> Tensor:
        """Return the sum over processes."""
        return value

    def agree(self, flag: bool) -> bool:
        """Return True in all processes if `flag` is True in any."""
        return flag

    def gradient_sync(self, forward: Any, last: bool) -> Any:
        """Return a context that averages gradients over processes only for the last piece of a batch."""
        return nullcontext()

    def clip(self, model: nn.Module, limit: float) -> None:
        """Clip the norm of all gradients together to `limit`."""
        nn.utils.clip_grad_norm_(model.parameters(), limit)

    def save(self, folder: Path, step: int, model: nn.Module, optimizers: Optimizers, state: State) -> None:
        """Write a checkpoint."""
        self.once(partial(save_checkpoint, folder, step, model, optimizers, {**state, **self.record}))

    def load(self, checkpoint: Path, model: nn.Module, optimizers: Optimizers) -> State:
        """Load a checkpoint that any kind of world wrote, and return its state."""
        return load_checkpoint(checkpoint, model, optimizers)

    @property
    def record(self) -> WorldRecord:
        """The world that wrote a checkpoint, for its state.json."""
        return {"parallel": self.kind, "processes": self.size}

    def difference(self, state: State) -> dict[str, str | Message] | None:
        """Return how this world differs from the one that wrote a checkpoint. A resumed run is then equal up to rounding."""
        was: WorldRecord = {"parallel": state.get("parallel", "one"), "processes": state.get("processes", 1)}
        if was == self.record:
            return None
        return {"was": world_label(**was), "now": world_label(**self.record)}


class Ddp(World):
    """Several processes, each with the whole model."""

    kind = "ddp"
    # DDP rebuilds its gradient buckets after the first backward pass, which changes the order in which three or more
    # processes add them. Without a rehearsal, the first step after a resume would differ in its last bits.
    needs_rehearsal = True

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def once(self, work: Callable[[], T]) -> T:
        outcome: list[Any] = [None, None]
        if self.first:
            try:
                outcome[0] = work()
            except Exception as error:
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def wrap(self, model: Any) -> Any:
        index = self.device.index
        return nn.parallel.DistributedDataParallel(model, device_ids=None if index is None else [index])

    def full_model(self, model: Transformer) -> Any:
        return model if self.first else None

    def total(self, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value

    def agree(self, flag: bool) -> bool:
        return bool(self.total(torch.tensor(float(flag), device=self.device)))

    def gradient_sync(self, forward: Any, last: bool) -> Any:
        return nullcontext() if last else forward.no_sync()


class Fsdp(Ddp):
    """Several processes, each with a slice of every weight (FSDP2) and of the checkpoint (DCP)."""

    kind, needs_rehearsal = "fsdp", False

    def prepare(self, model: Transformer) -> Transformer:
        """Return the model with every weight a DTensor, of which this process holds some rows."""
        if any(isinstance(part, LowRank) for part in model.modules()):
            raise Problem(
                "--lora keeps most weights as they are, which fsdp would cut up: share the work with --parallel ddp"
            )
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.device.type, (self.size,))
        for part in model.modules():
            if isinstance(part, Relative):  # shared by all blocks of a side, which call `bias`, not `forward`
                fully_shard(part, mesh=mesh)
                register_fsdp_forward_method(part, "bias")
        for part in model.modules():
            if isinstance(part, Block):
                fully_shard(part, mesh=mesh)
        return fully_shard(model, mesh=mesh)  # type: ignore[return-value]

    def wrap(self, model: Any) -> Any:
        return model

    def full_model(self, model: Transformer) -> Any:
        """Return an unsharded copy of the model, on the first process only."""
        weights = self._gather_weights(model)
        if not self.first:
            return None
        copy = Transformer(model.config).to(self.device, next(iter(weights.values())).dtype)
        with torch.no_grad():
            for name, parameter in copy.named_parameters():
                parameter.copy_(weights[name])
        return copy

    def _gather_weights(self, model: nn.Module) -> dict[str, Tensor]:
        """Return all unsharded weights on the first process; the others send theirs and return {}."""
        model.reshard()  # type: ignore[operator]  # an evaluation leaves the outermost module gathered
        weights = {}
        for name, parameter in model.named_parameters():
            full = parameter.detach().full_tensor()  # type: ignore[attr-defined]
            if self.first:
                weights[name] = full.cpu()
        return weights

    def gradient_sync(self, forward: Any, last: bool) -> Any:
        forward.set_requires_gradient_sync(last)
        return nullcontext()

    def clip(self, model: nn.Module, limit: float) -> None:
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm.full_tensor())  # type: ignore[attr-defined]

    def save(self, folder: Path, step: int, model: nn.Module, optimizers: Optimizers, state: State) -> None:
        """Write a checkpoint: the slices of each process, and all unsharded weights from the first."""
        with checkpoint_cleanup(folder, step):
            part = self.once(partial(begin_checkpoint, folder, step))
            weights = self._gather_weights(model)
            save_shards(part / SHARDS, model, optimizers)
            shards = sorted((part / SHARDS).iterdir())
            fingerprints = {f"{SHARDS}/{file.name}": fingerprint(file) for file in shards[self.rank :: self.size]}
            gathered: list[Any] = [None] * self.size
            dist.all_gather_object(gathered, fingerprints)
            files = {name: digest for share in gathered for name, digest in share.items()}
            self.once(partial(finish_checkpoint, part, step, {**state, **self.record}, {WEIGHTS: save(weights)}, files))

    def load(self, checkpoint: Path, model: nn.Module, optimizers: Optimizers) -> State:
        """Load a checkpoint that any kind of world wrote, sharded for this number of processes, and return its state."""
        if problem := self.once(partial(check, checkpoint)):
            raise problem
        load_shards(checkpoint, model, optimizers, together=True)
        return read_state(checkpoint)


KINDS = {"ddp": Ddp, "fsdp": Fsdp}


def world_from_environment(parallel: str | None = None, run: Path | None = None) -> World:
    """Return the world of this process: a single process, or its rank among those of `torchrun`.

    `parallel` (ddp, fsdp) defaults to the kind that saved the `run` to resume, else to DDP.
    """
    if parallel is not None and parallel not in KINDS:
        raise unknown("--parallel", parallel, KINDS)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    launched = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    if not launched and parallel is not None:
        raise Problem(
            "--parallel {parallel} shares the work between processes, and this one is alone: start them with "
            "`torchrun --nproc-per-node 2 -m qkv train … --parallel {parallel}`, or leave --parallel out",
            parallel=parallel,
        )
    if not launched or (parallel is None and int(os.environ["WORLD_SIZE"]) == 1):
        return World(device)
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        # The others wait while the first process prepares the text, which can take long. A dead process is noticed anyway.
        dist.init_process_group("nccl" if device != "cpu" else "gloo", timeout=timedelta(hours=6))
        atexit.register(_destroy_process_group)
    if parallel is None and run is not None:
        checkpoint = newest(run / CHECKPOINTS)
        parallel = None if checkpoint is None else read_state(checkpoint).get("parallel")
    return KINDS.get(parallel or "ddp", Ddp)(device)


def world_label(parallel: str, processes: int) -> str | Message:
    """Return a short name of a world.

    >>> str(world_label("one", 1)), world_label("fsdp", 8)
    ('1 process', '8 × fsdp')
    """
    return Message("1 process") if parallel == "one" else f"{processes} × {parallel}"


def _destroy_process_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
        # FSDP's modules are in reference cycles with their groups, so nothing frees them before Python ends. The threads of
        # a remaining group would then abort the process.
        gc.collect()
