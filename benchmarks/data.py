"""Data: preparing text against the tokenizer library, and the cost of batches.

    python -m benchmarks.data

Ours and theirs take turns in one run; the best of several counts. Uses tiny Shakespeare if it is in ../shared/data, else
synthetic text.
"""

import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from qkv.text import Corpus, Dataset, load, prepare, train_tokenizer
from qkv.text.corpus import pieces

from ._measure import Row, publish

ROOT = Path(__file__).resolve().parent.parent
SHAKESPEARE = ROOT.parent / "shared" / "data" / "tinyshakespeare.txt"


def text() -> str:
    if SHAKESPEARE.is_file():
        return SHAKESPEARE.read_text(encoding="utf-8")
    chance = random.Random(0)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(1, 9))) for _ in range(5000)]
    return "".join(chance.choice(words) + chance.choice("     ,.\n") for _ in range(200_000))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def preparing(folder: Path, times: int = 4, rounds: int = 5) -> Row:
    """All of `prepare` (reading, hashing, tokens, writing, flushing to disk) against the library's encode_batch alone."""
    book = text() * times
    (folder / "book.txt").write_text(book, encoding="utf-8")
    tokenizer = train_tokenizer("bpe", [book], vocab=4096)
    parts = pieces(book)
    corpus = Corpus.of(folder / "book.txt")
    ours, theirs = [], []
    for _ in range(rounds):
        shutil.rmtree(folder / "tokens", ignore_errors=True)
        ours.append(seconds(lambda: prepare(corpus, tokenizer, folder / "tokens")))
        theirs.append(seconds(lambda: tokenizer.library.encode_batch(parts)))
    size = len(book.encode()) / 1e6
    what = "preparing text by BPE, all of it, against the library's bare encode_batch"
    return Row(what, size / min(ours), size / min(theirs), "≥ 0.9", "MB/s")


def loading(folder: Path, rounds: int = 5, steps: int = 20) -> Row:
    """The time of a batch against a training step of the tiny preset."""
    import torch  # here, so that it does not count in the peak memory of the other process

    from qkv import Transformer
    from qkv.train.loop import update_weights
    from qkv.train.optim import make_optimizers
    from qkv.train.parallelize import World
    from qkv.train.settings import preset
    from qkv.train.tasks import NextWord

    tokens = Dataset.open(folder / "tokens")
    config, settings = preset("tiny", "lm")
    torch.manual_seed(0)
    model = Transformer(config.replace(vocab=4096))
    task, optimizers = NextWord(tokens, load(folder / "tokenizer"), config.context), make_optimizers(model, settings)

    def step(number: int) -> None:
        update_weights(model, model, task, settings, optimizers, number, World())

    step(0)
    fetch, train = [], []
    for _ in range(rounds):
        fetch.append(seconds(lambda: [task.batch(0, number, settings.batch) for number in range(steps)]) / steps)
        train.append(seconds(lambda: [step(number) for number in range(steps)]) / steps)
    return Row("a batch from the loader against a whole training step", min(fetch) * 1e3, min(train) * 1e3, "≤ 0.02")


def memory(folder: Path, small: int = 4, large: int = 32) -> Row:
    """The peak memory of a process that prepares a corpus, and one eight times as large."""
    sample = text()
    peaks = []
    for megabytes in (small, large):
        raw = sample.encode()
        (folder / "large.txt").write_bytes(raw * (megabytes * 1_000_000 // len(raw) + 1))
        command = [
            sys.executable,
            "-m",
            "benchmarks.data",
            "--peak",
            str(folder / "large.txt"),
            str(folder / "tokenizer"),
        ]
        peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peaks.append(float(peak))
    return Row(f"peak memory preparing {large} MB against {small} MB", peaks[1], peaks[0], "≤ 1.2", "MB")


def peak(source: str, tokenizer: str) -> None:
    with tempfile.TemporaryDirectory() as out:
        prepare(source, load(tokenizer), out)
    status = Path("/proc/self/status")
    if status.is_file():  # on Linux a child inherits the peak of getrusage from its parent
        print(next(int(line.split()[1]) / 1e3 for line in status.read_text().splitlines() if line.startswith("VmHWM")))
    else:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        peak(*sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            train_tokenizer("bpe", [text()], vocab=4096).save(folder / "tokenizer")
            publish("data", "Data", [preparing(folder), loading(folder), memory(folder)])
