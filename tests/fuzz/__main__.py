"""python -m tests.fuzz [--n 10000] [--reader NAME …] [--seed S]: try damaged files, show progress, keep failures.

With --seed, run one case of each reader and print all details.
"""

import argparse
import collections
import contextlib
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .readers import READERS

SECONDS = 60.0  # a case takes milliseconds; a busy machine may stand still for a while
START = 300.0
FAILURES = Path("out/fuzz")
PROGRAM = ("-m", "tests.fuzz.worker")


@dataclass
class Result:
    """Outcomes of all cases."""

    counts: dict[str, collections.Counter[str]] = field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    wrong: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    seconds: float = 0.0


class Worker:
    """A worker process."""

    def __init__(self, corpus: Path, scratch: Path, program: Sequence[str] = PROGRAM, more: Sequence[str] = ()) -> None:
        shutil.rmtree(scratch, ignore_errors=True)
        self.scratch = scratch
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        calm = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "QKV_LANG": "en", "RUST_BACKTRACE": "0"}
        self.process = subprocess.Popen(
            [sys.executable, *program, str(corpus), str(scratch), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **calm},
        )
        self.timed_out, self.errors_read = False, 0
        if self.request(None, START).strip() != "ready":
            raise RuntimeError(f"the worker can't read the good files:\n{self.stderr_tail()}")

    def request(self, line: str | None, seconds: float) -> str:
        """Send a line and return the answer; "" if the process died or was killed after the time limit."""
        assert self.process.stdin is not None and self.process.stdout is not None
        alarm = threading.Timer(seconds, self._stop)
        alarm.start()
        try:
            if line is not None:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
            return self.process.stdout.readline()
        except OSError:
            return ""
        finally:
            alarm.cancel()

    def _stop(self) -> None:
        self.timed_out = True
        self.process.kill()

    def attempt(self, reader: str, seed: int) -> dict[str, str]:
        """Return the outcome of a case. After a crash or a timeout the worker is dead."""
        answer = self.request(f"{reader} {seed}", SECONDS)
        if answer.endswith("\n"):
            report = json.loads(answer)
            self.errors.seek(self.errors_read)
            new_errors = self.errors.read()
            self.errors_read = self.errors.tell()
            # Rust libraries print panics on stderr even if they are caught.
            return (
                report | {"outcome": "wrong", "why": f"a panic was printed\n{new_errors[-3000:]}"}
                if "panicked" in new_errors
                else report
            )
        code = self.process.wait()
        reason = f"no answer within {SECONDS:g} s" if self.timed_out else f"the process ended with {code}"
        if not self.timed_out and code < 0:
            reason = f"the process was killed by {signal.Signals(-code).name}"
        return {"outcome": "wrong", "why": f"{reason}\n{self.stderr_tail()}", "dead": "yes"}

    def stderr_tail(self) -> str:
        """Return the end of its stderr."""
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()[-3000:]

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def make_corpus(folder: Path, readers: list[str]) -> None:
    """Write the valid files of each reader."""
    for reader in readers:
        (folder / reader).mkdir(parents=True)
        READERS[reader].make(folder / reader)


def fuzz(
    cases: list[tuple[str, int]],
    folder: Path,
    *,
    workers: int = 1,
    failures_folder: Path | None = None,
    show: bool = False,
) -> Result:
    """Try all cases; valid files and scratch copies go to `folder`, failures to `failures_folder`."""
    result, todo, lock = Result(), queue.SimpleQueue[tuple[str, int]](), threading.Lock()
    start_time = last_print = time.monotonic()
    make_corpus(folder / "good", list(dict.fromkeys(reader for reader, _ in cases)))
    for case in cases:
        todo.put(case)

    def work(number: int) -> None:
        nonlocal last_print
        worker = None
        while True:
            try:
                reader, seed = todo.get_nowait()
            except queue.Empty:
                break
            worker = worker or Worker(folder / "good", folder / f"scratch{number}")
            report = worker.attempt(reader, seed)
            with lock:
                result.counts[reader][report["outcome"]] += 1
                done = sum(counts.total() for counts in result.counts.values())
                if report["outcome"] == "wrong":
                    result.wrong.append((reader, seed, report))
                    again = f"python -m tests.fuzz --reader {reader} --seed {seed}"
                    if failures_folder is not None:
                        save_failure(worker, reader, seed, report, failures_folder)
                    if show:
                        print(
                            f"\n{reader} {seed} {report.get('file', '')}: {report['why']}\nagain: {again}", flush=True
                        )
                if show and (time.monotonic() - last_print > 2 or done == len(cases)):
                    last_print = time.monotonic()
                    remaining = (last_print - start_time) / done * (len(cases) - done)
                    print(f"{done:,}/{len(cases):,} · {len(result.wrong)} wrong · {remaining:.0f} s left", flush=True)
            if "dead" in report:
                worker = worker.end()
        if worker is not None:
            worker.end()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    result.seconds = time.monotonic() - start_time
    return result


def save_failure(worker: Worker, reader: str, seed: int, report: dict[str, str], failures_folder: Path) -> None:
    """Write the damaged file and the reason. It is damaged again, since a live worker has restored the valid file."""
    dice = random.Random(f"{reader} {seed}")
    name = dice.choice(list(READERS[reader].files))
    good = worker.scratch.with_name("good") / reader / name
    case_folder = failures_folder / f"{reader}-{seed}"
    case_folder.mkdir(parents=True, exist_ok=True)
    (case_folder / Path(name).name).write_bytes(READERS[reader].files[name](good.read_bytes(), dice))
    (case_folder / "why.txt").write_text(f"{name}\n{report['why']}\n", encoding="utf-8", errors="backslashreplace")


def main() -> int:
    """Return exit code 1 if any case neither loaded nor raised a Problem."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=10_000, help="how many cases in all (10000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--reader", action="append", choices=list(READERS), help="this reader alone; may be repeated")
    parser.add_argument("--seed", type=int, help="this one case of each reader")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 2))
    options = parser.parse_args()
    readers = options.reader or list(READERS)
    seeds = range(options.first, options.first + -(-options.n // len(readers)))
    cases = [(reader, seed) for seed in ([options.seed] if options.seed is not None else seeds) for reader in readers]
    cases = cases[: max(options.n, 1)] if options.seed is None else cases
    with tempfile.TemporaryDirectory() as folder:
        result = fuzz(cases, Path(folder), workers=options.workers, failures_folder=FAILURES, show=True)
    print(f"{'':14}{'loaded':>10}{'sentence':>10}{'wrong':>10}")
    for reader in readers:
        counts = result.counts[reader]
        print(f"{reader:14}" + "".join(f"{counts[outcome]:10,}" for outcome in ("loaded", "sentence", "wrong")))
    print(f"{len(cases):,} files in {result.seconds:.0f} s")
    if result.wrong:
        print(f"{len(result.wrong)} wrong; the files are in {FAILURES}")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
