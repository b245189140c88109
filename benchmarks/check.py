"""Time of `qkv check`, against a Python process that only imports torch: on an idle machine, and next to four processes.

python -m benchmarks.check
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from ._measure import Row, publish
from .busy import beside

RIGHT = Path(__file__).resolve().parent.parent / "tests" / "doctor" / "corpora" / "right"
WHOLE = RIGHT / "lecture_gpt.py"


def process(*command: str) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return (time.perf_counter() - start) * 1e3

    return run


def many(folder: Path) -> Path:
    """Twelve definitions in one file: the same class and function under six names each."""
    text = (RIGHT / "nano_gpt.py").read_text(encoding="utf-8")
    head = text.split("class CausalSelfAttention")[0]
    body = "class CausalSelfAttention" + text.split("class CausalSelfAttention")[1].split("\nclass ")[0]
    function = "def attention{n}(q, k, v):\n    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v\n\n\n"
    parts = [body.replace("CausalSelfAttention", f"CausalSelfAttention{n}") + "\n\n" for n in range(6)]
    file = folder / "twelve.py"
    file.write_text(head + "import torch\n\n" + "".join(parts) + "".join(function.format(n=n) for n in range(6)))
    return file


def main() -> None:
    with TemporaryDirectory() as folder:
        twelve = many(Path(folder))
        check = ("-m", "qkv", "check")
        rivals = {
            "import torch": process("-c", "import torch"),
            "a module": process(*check, str(RIGHT / "nano_gpt.py:CausalSelfAttention")),
            "a whole model": process(*check, f"{WHOLE}:GPTLanguageModel"),
            "a file of 12 definitions": process(*check, str(twelve)),
        }
        best = {(what, others): min(times) for others in (0, 4) for what, times in _rounds(rivals, others).items()}
    rows = [
        Row(what, best[what, 0], best["import torch", 0], bar)
        for what, bar in (("a module", "≤ 1.5"), ("a whole model", "≤ 3.5"), ("a file of 12 definitions", "≤ 8"))
    ]
    rows += [
        Row(f"{what}, beside four busy processes", best[what, 4], best[what, 0], "≤ 3", note="peer: the same, quiet")
        for what in ("a module", "a whole model", "a file of 12 definitions")
    ]
    publish("check", "Check (peer: `python -c 'import torch'`)", rows)


def _rounds(rivals: dict[str, Callable[[], float]], others: int, rounds: int = 3) -> dict[str, list[float]]:
    """Run the rivals in turns, several times, next to so many spinning processes."""
    times: dict[str, list[float]] = {what: [] for what in rivals}
    with ExitStack() as stack:
        for _ in range(others):
            stack.enter_context(beside(True))
        for _ in range(rounds):
            for what, run in rivals.items():
                times[what].append(run())
    return times


if __name__ == "__main__":
    main()
