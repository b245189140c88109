"""The training loop: one page that could be copied out.

Every step is a pure function of the weights, the momenta and (seed, step): batches and dropout are drawn from the step's
number. That is why a stopped run resumes bit for bit.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypedDict

import torch

from ..attention.dispatch import NotFinite
from ..disk.atomic_files import atomic_write
from ..disk.run_folder import CHECKPOINTS, METRICS, SAMPLES, State, newest, read_metrics
from ..i18n import Problem, _
from ..model.transformer import Transformer
from .checkpoint import Optimizers
from .optim import set_rate
from .parallelize import World
from .settings import DtypeName, Settings
from .tasks import Forward, Task, count_labels

if TYPE_CHECKING:
    from .watch import Watch


class Metrics(TypedDict, total=False):
    """A line of metrics.jsonl: a step, or an evaluation before the first step."""

    step: int
    loss: float
    tokens_per_second: float
    seconds: float
    val_loss: float


Report = Callable[[Metrics], None]
BEGINNING: State = {"step": 0, "best_loss": None, "best_step": None, "seconds": 0.0, "waited": 0}


class Stopped(Exception):
    """A signal stopped the run. Everything up to `step` is saved."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step

    def __str__(self) -> str:
        return f"stopped at step {self.step}"


def train(
    run: Path,
    model: Transformer,
    task: Task,
    settings: Settings,
    optimizers: Optimizers,
    *,
    state: State | None,
    world: World,
    watch: Watch | None,
    evaluate_first: bool,
    report: Report,
) -> State:
    """Train from `state` (a checkpoint's, or the beginning) to the last step, and return the final state.

    `evaluate_first`: also evaluate, sample and save before the first step, for weights that were learned before.
    """
    world.check(settings)
    forward = world.wrap(torch.compile(model) if settings.compile else model)
    state = {**BEGINNING, **(state or BEGINNING)}
    started_at, saved_at = time.perf_counter() - state["seconds"], time.perf_counter()
    speed = Speed()
    world.once(partial(trim_metrics, run / METRICS, state["step"]))
    with _stop_signals() as stop_requested, _metrics_log(run / METRICS, world.first, report) as log:
        if world.needs_rehearsal:
            gradients(forward, task, settings, 0, world)
            model.zero_grad(set_to_none=True)
        if evaluate_first and state["best_step"] is None and state["step"] == 0:
            with _refuse_nan(run, 0, settings):
                loss = evaluate(forward, model, task, settings, world)
            state |= {"best_loss": loss, "best_step": 0}
            world.once(partial(_record_sample, run, world.full_model(model), task, watch, 0))
            log({"step": 0, "val_loss": loss})
            world.save(run / CHECKPOINTS, 0, model, optimizers, state)
            saved_at = time.perf_counter()
        for step in range(state["step"], settings.steps):
            if settings.patience is not None and state["waited"] >= settings.patience:
                break
            with _refuse_nan(run, step, settings):
                loss, tokens = update_weights(forward, model, task, settings, optimizers, step, world)
            if not math.isfinite(loss):
                raise _divergence(run, step, loss, settings)
            now = time.perf_counter()
            state |= {"step": step + 1, "seconds": now - started_at}
            line: Metrics = {
                "step": step + 1,
                "loss": loss,
                "tokens_per_second": speed(tokens, now),
                "seconds": now - started_at,
            }
            is_last = step + 1 == settings.planned(step)
            if (step + 1) % settings.eval_every == 0 or is_last:
                with _refuse_nan(run, step, settings):
                    line["val_loss"] = evaluate(forward, model, task, settings, world)
                if state["best_loss"] is None or line["val_loss"] < state["best_loss"]:
                    state |= {"best_loss": line["val_loss"], "best_step": step + 1, "waited": 0}
                else:
                    state["waited"] += 1
                    is_last = is_last or state["waited"] == settings.patience
                world.once(partial(_record_sample, run, world.full_model(model), task, watch, step + 1))
                speed.pause()
            log(line)
            stop = world.agree(stop_requested())
            must_save = stop or is_last or state["best_step"] == step + 1
            if settings.checkpoint_every is not None:
                must_save = must_save or (step + 1) % settings.checkpoint_every == 0
            else:
                must_save = must_save or world.agree(time.perf_counter() - saved_at > 30)
            if must_save:
                world.save(run / CHECKPOINTS, step + 1, model, optimizers, state)
                saved_at = time.perf_counter()
                speed.pause()
            if stop and step + 1 < settings.steps:
                raise Stopped(step + 1)
    return state


def update_weights(
    forward: Forward,
    model: Transformer,
    task: Task,
    settings: Settings,
    optimizers: Optimizers,
    step: int,
    world: World,
) -> tuple[float, int]:
    """Take one optimizer step. Return the mean loss over the whole batch and its number of tokens."""
    set_rate(optimizers, settings.rate(step))
    loss, tokens = gradients(forward, task, settings, step, world)
    if settings.clip:
        world.clip(model, settings.clip)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss, tokens


def gradients(forward: Forward, task: Task, settings: Settings, step: int, world: World) -> tuple[float, int]:
    """Compute the gradients of one step in `.grad`. Return the mean loss over the whole batch and its number of tokens."""
    torch.manual_seed((settings.seed << 32) + step * 1024 + world.rank)  # dropout is a function of (seed, step) too
    batch = world.own_rows(task.batch(settings.seed, step, settings.batch))
    pieces = [tuple(part.chunk(settings.accumulate)[i] for part in batch) for i in range(settings.accumulate)]
    count = world.total(
        sum((count_labels(piece[-1]).float() for piece in pieces), torch.zeros((), device=world.device))
    )
    total = torch.zeros((), device=world.device)
    for number, piece in enumerate(pieces):
        with world.gradient_sync(forward, last=number == len(pieces) - 1), precision(settings.dtype, world.device):
            loss, _ = task.loss(forward, piece)
            # DDP and FSDP average over processes: × world.size makes it a sum, which is divided by all tokens.
            (loss * world.size / count).backward()
        total = total + loss.detach()
    return (world.total(total) / count).item(), int(sum(part.numel() for part in batch[:1])) * world.size


@torch.no_grad()
def evaluate(forward: Forward, model: Transformer, task: Task, settings: Settings, world: World | None = None) -> float:
    """Return the mean loss over the task's fixed validation batches."""
    world = world or World()
    model.eval()
    total, count = torch.zeros((), device=world.device), torch.zeros((), device=world.device)
    for batch in task.validation(settings.batch, settings.eval_batches):
        with precision(settings.dtype, world.device):
            loss, n = task.loss(forward, world.own_rows(batch))
        total, count = total + loss, count + n
    model.train()
    return (world.total(total) / world.total(count)).item()


def precision(dtype: DtypeName, device: torch.device) -> torch.autocast:
    """Return an autocast context: bfloat16 for matrix products, or disabled."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")


class Speed:
    """Tokens per second over the last 20 steps, without the time of evaluating and saving."""

    def __init__(self) -> None:
        self.recent: list[tuple[int, float]] = []
        self.since = time.perf_counter()

    def __call__(self, tokens: int, now: float) -> float:
        self.recent = [*self.recent[-19:], (tokens, now - self.since)]
        self.since = now
        return sum(n for n, _ in self.recent) / max(sum(s for _, s in self.recent), 1e-9)

    def pause(self) -> None:
        self.since = time.perf_counter()


@contextmanager
def _refuse_nan(run: Path, step: int, settings: Settings) -> Iterator[None]:
    """Turn NaN in attention, which appears before the loss is NaN, into an error about the run."""
    try:
        yield
    except NotFinite as problem:
        raise _divergence(run, step, math.nan, settings) from problem


def _divergence(run: Path, step: int, loss: float, settings: Settings) -> Problem:
    checkpoint = newest(run / CHECKPOINTS)
    key = _(
        "the loss became {loss} at step {step}, in the batch of seed {seed} and step {batch}; the last good "
        "checkpoint is {kept}. Try a smaller --lr, or look for broken text in the data"
    )
    if checkpoint is None:
        key = _(
            "the loss became {loss} at step {step}, in the batch of seed {seed} and step {batch}; there is no "
            "checkpoint yet. Try a smaller --lr, or look for broken text in the data"
        )
    return Problem(key, loss=loss, step=step + 1, seed=settings.seed, batch=step, kept=checkpoint)


def _record_sample(run: Path, model: Transformer, task: Task, watch: Watch | None, step: int) -> None:
    """Append a sample of the model's output, and record the attention of the watched sentence."""
    model.eval()
    with (run / SAMPLES).open("a", encoding="utf-8") as file:
        file.write(f"--- step {step}\n{task.sample(model)}\n\n")
    if watch is not None:
        watch.record(model, step)
    model.train()


def trim_metrics(file: Path, step: int) -> None:
    """Drop damaged lines of metrics.jsonl and those after the step that a resumed run starts at."""
    if file.exists():
        good_lines = "".join(line + "\n" for at, line in read_metrics(file) if at <= step).encode()
        if good_lines != file.read_bytes():
            with atomic_write(file) as whole:
                whole.write(good_lines)


@contextmanager
def _metrics_log(file: Path, first: bool, report: Report) -> Iterator[Report]:
    """Yield a function that appends to metrics.jsonl and reports, in the first process."""
    if not first:
        yield lambda line: None
        return
    with file.open("a", encoding="utf-8", buffering=1) as opened:

        def log(line: Metrics) -> None:
            print(json.dumps(line), file=opened)
            report(line)

        yield log


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that is true after Ctrl-C or SIGTERM. A second Ctrl-C interrupts at once."""
    signals: list[float] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        # torchrun forwards a Ctrl-C that the process already got from the terminal: that is not a second one.
        if signals and time.monotonic() - signals[0] > 1:
            raise KeyboardInterrupt
        signals.append(time.monotonic())

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, on_signal)
    except ValueError:  # not in the main thread, which alone gets signals
        pass
    try:
        yield lambda: bool(signals)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
