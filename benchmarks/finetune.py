"""Fine-tuning: SmolLM2 against a plain loop over transformers' model, the memory of LoRA, and translating a file of lines, in
the same run.

    python -m benchmarks.finetune            all of it, into RESULTS.md
    python -m benchmarks.finetune look       a round of each; only print

Both loops take the same batches with the same optimizer, and their losses must agree. Needs `qkv models get smollm2`,
`qkv models get opus-zh-en`, `qkv data get shakespeare` and `qkv data get hsk`.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import torch

import qkv
from qkv import text
from qkv.formats.adapters import adapt
from qkv.formats.hf_export import export
from qkv.generation.batching import ROWS, in_batches
from qkv.generation.decoding import source_ids, translate_ids
from qkv.library import store
from qkv.process import memory
from qkv.train.loop import update_weights
from qkv.train.optim import make_optimizers
from qkv.train.parallelize import World
from qkv.train.settings import Settings
from qkv.train.tasks import NextWord

from ._measure import Rival, Row, publish, serve

BATCH, ROW, LINES, MOST = 4, 256, 200, 128
SETTINGS = Settings(
    batch=BATCH, row=ROW, optimizer="adamw", lr=5e-5, weight_decay=0.01, warmup=0, decay=0.0, steps=10**6
)


def task() -> NextWord:
    """Rows of Shakespeare."""
    _, tokenizer = qkv.load("smollm2")
    assert tokenizer is not None
    ids = tokenizer.encode(Path(needed("shakespeare")).read_text(encoding="utf-8")[:200_000])
    return NextWord(text.Dataset.of(ids[:-1000], ids[-1000:]), tokenizer, ROW)


def needed(name: str) -> Path:
    path = store.path(name)
    if path is None:
        sys.exit(f"get what is measured first:  qkv models get {name}, or  qkv data get {name}")
    return path


def ours(lora: int | None = None, settings: Settings = SETTINGS) -> Callable[[int], float]:
    """Return a function that makes a step of `qkv train lm --from smollm2` and returns the loss."""
    model, learned = qkv.load("smollm2")[0].train(), task()
    model = adapt(model, lora) if lora else model
    optimizers = make_optimizers(model, settings)
    return lambda step: update_weights(model, model, learned, settings, optimizers, step, World())[0]


def theirs() -> Callable[[int], float]:
    """Return a step of the usual loop: transformers' own loss, AdamW over all weights."""
    from transformers import AutoModelForCausalLM

    file, learned = needed("smollm2"), task()
    model = AutoModelForCausalLM.from_pretrained(
        Path(file).parent, gguf_file=Path(file).name, dtype=torch.float32
    ).train()
    weights = [[p for p in model.parameters() if (p.ndim >= 2) == wide] for wide in (True, False)]
    groups = [dict(params=weights[0], weight_decay=0.01), dict(params=weights[1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=5e-5, betas=(0.9, 0.95), eps=1e-10, fused=True)

    def step(number: int) -> float:
        x, y = learned.batch(SETTINGS.seed, number, BATCH)
        logits = model(input_ids=x, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def speed(rounds: int) -> Row:
    """Tokens per second; in each round both make a step on the same batch."""
    rivals = [Rival("benchmarks.finetune", name) for name in ("ours", "theirs")]
    for step in range(rounds + 1):
        losses = [rival.turn(counts=step > 0) for rival in rivals]  # the first step creates the momenta
        assert abs(losses[0] - losses[1]) < 1e-3, losses
    for rival in rivals:
        rival.end()
    spent = " and ".join(f"{rival.worked:.3g} s" for rival in rivals)
    note = f"batch {BATCH} × {ROW}, losses agree; processor time of a step {spent}"
    what = "tuning SmolLM2, all weights, tokens per second against a plain transformers loop"
    return Row(what, *(BATCH * ROW / rival.best for rival in rivals), "≥ 1.1", "tokens/s", note)


def rival(name: str) -> None:
    """Run one side in this process."""
    if name in ("ours", "here"):
        memory.keep_freed_memory()  # as the command does
    if name in ("ours", "theirs"):
        step, numbers = (ours if name == "ours" else theirs)(), count()
        serve(lambda: step(next(numbers)))
    else:
        serve(here() if name == "here" else there(int(name.removeprefix("there"))))


def peak(kind: str, steps: int) -> float:
    """Return the peak memory of a process for some steps in MB; it reads /proc, since getrusage counts its parent too."""
    command = [sys.executable, "-m", "benchmarks.finetune", "peak", kind, str(steps)]
    stdout = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(stdout.split()[-1])


def show_peak(kind: str, steps: int) -> None:
    """Print the peak memory of this process after some steps, with one row at a time."""
    step = ours(16 if kind == "lora" else None, replace(SETTINGS, accumulate=BATCH))
    for number in range(steps):
        step(number)
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(int(match[1]) / 1000 if match else float("nan"))


def sentences() -> tuple[Any, Any, list[list[int]]]:
    """Return the translator, its tokenizer, and Chinese sentences as ids."""
    pairs = text.read_pairs(needed("hsk"))
    model, tokenizer = qkv.load("opus-zh-en")
    assert tokenizer is not None
    return model, tokenizer, [source_ids(tokenizer, chinese) for _, chinese in pairs[:: len(pairs) // LINES][:LINES]]


def here() -> Callable[[], list[list[int]]]:
    """Return our greedy translation of the sentences (beam 1)."""
    model, tokenizer, sources = sentences()

    def translate(rows: list[list[int]]) -> list[list[int]]:
        return translate_ids(model, tokenizer, rows, width=1, most=MOST)

    return lambda: list(in_batches(sources, len, translate))


def there(size: int) -> Callable[[], list[list[int]]]:
    """Return the same by transformers, in batches of `size`."""
    from transformers import MarianMTModel

    model, tokenizer, sources = sentences()
    ends, padding = tokenizer.ends, tokenizer.pad or 0
    with tempfile.TemporaryDirectory() as folder:
        export(model, tokenizer, Path(folder, "hf"))
        hf: Any = MarianMTModel.from_pretrained(Path(folder, "hf")).eval()
    settings = dict(num_beams=1, do_sample=False, max_new_tokens=MOST, bad_words_ids=[[padding]], eos_token_id=ends)

    @torch.inference_mode()
    def translated() -> list[list[int]]:
        outputs = []
        for first in range(0, len(sources), size):
            rows = sources[first : first + size]
            longest = max(map(len, rows))
            ids = torch.tensor([row + [padding] * (longest - len(row)) for row in rows])
            real = torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]
            outputs += hf.generate(input_ids=ids, attention_mask=real.long(), pad_token_id=padding, **settings).tolist()
        stops = {*ends, padding}
        return [row[1 : next((i for i in range(1, len(row)) if row[i] in stops), len(row))] for row in outputs]

    return translated


def translation(rounds: int) -> Row:
    """Translation against transformers with batches of 16 and of our size: the faster one counts."""
    rivals = [Rival("benchmarks.finetune", name) for name in ("here", "there16", f"there{ROWS}")]
    for number in range(rounds + 1):
        outputs = [rival.turn(counts=number > 0) for rival in rivals]
    for rival in rivals:
        rival.end()
    same = sum(a == b == c for a, b, c in zip(*outputs, strict=True))
    best = min(rivals[1:], key=lambda rival: rival.best)
    note = f"{same} of {LINES} word for word the same; processor time {rivals[0].worked:.3g} s and {best.worked:.3g} s"
    what = f"translating {LINES} lines, beam 1, lines per second against transformers in batches of 16 or {ROWS}"
    return Row(what, LINES / rivals[0].best, LINES / best.best, "≥ 1.3", "lines/s", note)


def main(rounds: int = 5) -> list[Row]:
    whole, beside = peak("whole", 2), peak("lora", 2)
    what = f"peak memory of learning beside SmolLM2 (LoRA 16), batch {BATCH} × {ROW} a row at a time, against learning all of it"
    room = Row(what, beside, whole, "≤ 0.6", "MB", "the whole process, Python and PyTorch with it")
    return [speed(rounds), room, translation(min(rounds, 3))]


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        show_peak(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["rival"]:
        rival(sys.argv[2])
    elif len(sys.argv) > 1:
        print(*main(1), sep="\n")
    else:
        publish("finetune", "Tuning real models (SmolLM2, opus-zh-en)", main())
