"""Measuring: rivals take turns in one run, and the best of several rounds counts, since a machine is rarely idle for long.
The published number is the ratio."""

import gc
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PREFIX = "rival: "


@dataclass
class Row:
    """A claim: ours against a peer, and the required ratio."""

    what: str
    ours: float
    peer: float  # NaN if not available; the note has the reason
    bar: str  # "≤ 1.05" or "≥ 1.15", of `ratio`
    unit: str = "ms"
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.peer

    @property
    def clears(self) -> bool:
        sign, number = self.bar.split()
        return self.ratio <= float(number) if sign == "≤" else self.ratio >= float(number)


def race(*rivals: Callable[[], object], rounds: int = 7, seconds: float = 0.2) -> list[float]:
    """Return the best time of each rival in ms. Rivals take turns of about `seconds`."""
    times = []
    for rival in rivals:  # warm up, and count the calls that fill a turn
        rival()
        start = time.perf_counter()
        rival()
        times.append(time.perf_counter() - start)
    calls = [max(1, min(200, int(seconds / t))) for t in times]
    best = [float("inf")] * len(rivals)
    gc.disable()
    for _ in range(rounds):
        for i, rival in enumerate(rivals):
            for _ in range(calls[i]):
                start = time.perf_counter()
                rival()
                best[i] = min(best[i], time.perf_counter() - start)
    gc.enable()
    return [b * 1e3 for b in best]


class Rival:
    """One side of a race in its own process, so that memory is separate: `python -m MODULE rival NAME` calls the function
    of `serve` once per turn."""

    def __init__(self, module: str, name: str) -> None:
        command = [sys.executable, "-m", module, "rival", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read_message()  # it is ready
        self.best = self.worked = float("inf")

    def read_message(self) -> Any:
        """Return its next message, skipping the output of libraries."""
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()) and not line.startswith(PREFIX):
            pass
        if not line:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} ended")  # type: ignore[arg-type]
        return json.loads(line.removeprefix(PREFIX))

    def turn(self, counts: bool = True) -> Any:
        """Run a round and return its result; if it counts, update the best wall-clock and CPU times."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        clock, work, output = self.read_message()
        if counts:
            self.best, self.worked = min(self.best, clock), min(self.worked, work)
        return output

    def end(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(run: Callable[[], Any]) -> None:
    """Run the function for each line of stdin, as `Rival` expects."""
    print(PREFIX, "null", sep="", flush=True)
    for _ in sys.stdin:
        clock, work = time.perf_counter(), time.process_time()
        output = run()
        print(PREFIX, json.dumps([time.perf_counter() - clock, time.process_time() - work, output]), sep="", flush=True)


def publish(name: str, title: str, rows: list[Row]) -> None:
    """Print the table, write it as JSON, and replace the section of that name in RESULTS.md."""
    lines = ["| what | ours | peer | ratio | bar | |", "|---|---|---|---|---|---|"]
    for row in rows:
        verdict = "; ".join(filter(None, [_verdict(row), row.note]))
        ours, peer = ("" if math.isnan(value) else f"{value:.4g} {row.unit}" for value in (row.ours, row.peer))
        ratio = "" if math.isnan(row.ratio) else f"{row.ratio:.3g}"
        lines.append(f"| {row.what} | {ours} | {peer} | {ratio} | {row.bar} | {verdict} |")
    table = "\n".join(lines)
    print(f"\n{title}\n\n{table}\n", flush=True)

    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    rows_json = [asdict(row) | {"ratio": row.ratio, "clears": row.clears} for row in rows]
    rows_json = [
        {key: None if value != value else value for key, value in row.items()} for row in rows_json
    ]  # JSON has no NaN
    (folder / f"{name}.json").write_text(
        json.dumps({"machine": machine(), "rows": rows_json}, ensure_ascii=False, indent=1)
    )

    page = HERE / "RESULTS.md"
    text = page.read_text(encoding="utf-8") if page.exists() else "# Measured\n"
    opening, closing = f"<!-- {name} -->", f"<!-- end {name} -->"
    section = f"{opening}\n## {title}\n\n{machine()}\n\n{table}\n{closing}"
    if opening in text:
        before, rest = text.split(opening, 1)
        text = before + section + rest.split(closing, 1)[1]
    else:
        text = text.rstrip() + f"\n\n{section}\n"
    page.write_text(text, encoding="utf-8")


def published(name: str) -> list[Row]:
    """Return the rows of the last measurement on this machine."""
    file = HERE / "results" / f"{name}.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    names = [field.name for field in fields(Row)]
    return [Row(**{name: math.nan if row[name] is None else row[name] for name in names}) for row in rows]


def _verdict(row: Row) -> str:
    if math.isnan(row.ratio):
        return "not compared"
    return "holds" if row.clears else "**falls short**"


def machine() -> str:
    """Return a description of this machine."""
    import os

    import torch

    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads."
