"""Evaluation: `qkv eval` of 100 kB of text on SmolLM2 against transformers' strided recipe, in the same run.

    python -m benchmarks.evaluate            all of it, into RESULTS.md
    python -m benchmarks.evaluate 4000       so many bytes; only print

Both read the same windows and must agree on the loss. Needs `qkv models get smollm2` and `qkv data get shakespeare`.
"""

import sys
from pathlib import Path
from typing import Any

import torch

import qkv
from qkv.evaluation.text_metrics import score_text
from qkv.library import store
from qkv.process import memory

from ._measure import Rival, Row, publish, serve

BYTES, LENGTH, STRIDE, ROUNDS = 100_000, 2048, 1024, 2


@torch.inference_mode()
def recipe(model: Any, ids: list[int]) -> float:
    """The recipe of transformers' documentation (perplexity of fixed-length models), weighted by the tokens of each window."""
    total, count, before = 0.0, 0, 0
    for begin in range(0, len(ids), STRIDE):
        end = min(begin + LENGTH, len(ids))
        inputs = torch.tensor([ids[begin:end]])
        labels = inputs.clone()
        labels[:, : -(end - before)] = -100
        scored = int((labels[:, 1:] != -100).sum())
        total, count = total + float(model(inputs, labels=labels).loss) * scored, count + scored
        before = end
        if end == len(ids):
            break
    return total / count


def rival(name: str, size: int) -> None:
    """Run one side in this process."""
    file, book = store.path("smollm2"), store.path("shakespeare")
    if file is None or book is None:
        sys.exit("get what is measured first:  qkv models get smollm2; qkv data get shakespeare")
    text = Path(book).read_text(encoding="utf-8")[:size]
    model, tokenizer = qkv.load("smollm2")
    assert tokenizer is not None
    ids = tokenizer.frame(tokenizer.encode(text))
    if name == "ours":
        memory.keep_freed_memory()  # as the command does
        # `context` counts what is read, `max_length` also the last token that is scored.
        serve(lambda: (len(ids), score_text(model, tokenizer, text, context=LENGTH - 1, stride=STRIDE).loss))
    else:
        from transformers import AutoModelForCausalLM

        arguments = dict(gguf_file=Path(file).name, dtype=torch.float32)
        theirs = AutoModelForCausalLM.from_pretrained(Path(file).parent, **arguments).eval()
        serve(lambda: (len(ids), recipe(theirs, ids)))


def main(size: int = BYTES) -> list[Row]:
    rivals = [Rival("benchmarks.evaluate", f"{name} {size}") for name in ("ours", "theirs")]
    for _ in range(ROUNDS):
        (tokens, loss), (_, right) = (rival.turn() for rival in rivals)
        assert abs(loss - right) < 1e-4, (loss, right)
    for rival in rivals:
        rival.end()
    spent = " and ".join(f"{rival.worked:.3g} s" for rival in rivals)
    note = f"{tokens:,} tokens, loss {loss:.4f} by both; processor time {spent}"
    what = f"eval of {size / 1000:g} kB, windows of {LENGTH:,} tokens, stride {STRIDE:,}, against transformers' strided recipe"
    return [Row(what, *(rival.best for rival in rivals), "≤ 0.8", "s", note)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["rival"]:
        name, size = sys.argv[2].split()
        rival(name, int(size))
    elif len(sys.argv) > 1:
        print(*main(int(sys.argv[1])), sep="\n")
    else:
        publish("evaluate", "Measuring a model (SmolLM2)", main())
