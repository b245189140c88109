"""What this machine can do for a run: compiler, dtypes, memory and threads. What it can't do is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..formats.model_files import empty_model
from ..i18n import Problem, _
from ..model.config import Config
from ..process.memory import explain, require
from .parallelize import World
from .reasons import Reason
from .settings import Settings

# Parameters × tokens of a step, above which a second thread pays. CPU time of the main thread on 2 cores: a step of 16
# million took 1.12 times as long with two threads, a step of 114 million 0.82 times, plus the time to wake the second thread.
# If another process uses a core, two threads are slower at every size. `python -m benchmarks.busy threads` measures it.
SMALL = 100_000_000
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def compiler() -> str | None:
    """Return the C++ compiler that torch.compile would call, or None."""
    configured = os.environ.get("CXX")
    names = [configured] if configured else ["cl"] if sys.platform == "win32" else ["g++", "clang++", "c++"]
    return next((path for name in names if (path := shutil.which(name))), None)


def check_machine(settings: Settings) -> None:
    """Refuse compiling without a compiler, and bfloat16 on a CPU that crashes with it."""
    if torch.cuda.is_available():
        return
    if settings.compile and compiler() is None:
        raise Problem(
            "compile is true, and there is no C++ compiler here: install g++ or clang++ (CXX names another), or "
            "leave compile=false, which trains the same"
        )
    # Some CPUs claim bfloat16 and then kill the process: try it in another process first.
    trial = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print(float((a @ a).sum()))"
    if settings.dtype == "bfloat16" and subprocess.run([sys.executable, "-c", trial], capture_output=True).returncode:
        raise Problem(
            "bfloat16 does not work on this machine (a trial of it crashed): leave dtype=float32, or set the "
            "environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before starting"
        )


def check_memory(config: Config, settings: Settings, world: World) -> None:
    """Refuse a run whose weights, gradients and momenta, or one batch, need more memory than is free."""
    size = 8 if settings.dtype == "float64" else 4
    try:
        count = empty_model(config).count()
    except RuntimeError as error:  # sizes that overflow 64 bits
        raise explain(error) or error from None
    moments = 1 if settings.optimizer == "muon" else 2
    require(
        count * size * (2 + moments if settings.lora is None else 1),
        _(
            "a model of {weights} weights takes at least {size} to train and {free} of memory is free: make "
            "width, n_layer or hidden smaller"
        ),
        world.device,
        weights=f"{count:,}",
    )
    rows = -(-settings.batch // settings.accumulate // world.size)
    # Sentences may be short: count 2 tokens. Rows of a text are full.
    tokens = 2 if config.kind == "encoder-decoder" else settings.row or config.context
    size = 2 if settings.dtype == "bfloat16" else size
    token = 16 + size * (2 * config.vocab + sum(config.layers) * (4 * config.width + 2 * config.hidden_width))
    require(
        rows * tokens * token,
        _(
            "a batch of {rows} rows of {tokens} tokens takes at least {size} and {free} of memory is free: give a "
            "smaller --batch or --context, or --set accumulate=N"
        ),
        world.device,
        rows=f"{rows:,}",
        tokens=f"{tokens:,}",
    )


def device_reasons(settings: Settings, threads: int | None) -> list[Reason]:
    """Return the reasons for a run's device, dtype and compilation."""
    if torch.cuda.is_available():
        device: Reason = ("why.gpu", {"name": torch.cuda.get_device_name()})
    else:
        device = ("why.cpu" if threads is None else "why.thread", {"threads": torch.get_num_threads()})
    return [device, (f"why.{settings.dtype}", {}), ("why.compiled" if settings.compile else "why.eager", {})]


def threads_for(parameters: int, tokens: int) -> int | None:
    """Return 1 for a small model; None for a larger one, or if the environment sets the number of threads."""
    if (
        any(name in os.environ for name in THREAD_VARIABLES)
        or torch.cuda.is_available()
        or torch.get_num_threads() == 1
    ):
        return None
    return 1 if parameters * tokens < SMALL else None


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Compute with this many threads in the block. None, or a number in the environment, changes nothing."""
    before = torch.get_num_threads()
    if number is None or any(name in os.environ for name in THREAD_VARIABLES):
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
