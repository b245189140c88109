"""A real model, SmolLM2 (135M parameters, a GGUF of 4 bits unpacked to float32), against transformers on the same file.

Loading, a prefill of 512 tokens, and 128 greedy tokens, in float32 and with 8-bit weights. Decoding is limited by memory:
every weight is read once per token, so the used share of the measured read bandwidth shows the possible gain. Needs `qkv models get smollm2`.
"""

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import qkv
from qkv.formats.quantise import Int8Linear, quantise
from qkv.generation.decoding import generate
from qkv.library import store

from ._measure import Row, publish, race

PROMPT, NEW, START = 512, 128, 16
TEXT = "The history of the bridge begins in the year when two villages on either side of the river agreed to share a road. "


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def bandwidth() -> float:
    """Return the read bandwidth of all threads in bytes per second: the best time of the sum of a gigabyte."""
    table = torch.ones(1 << 28)
    best = min(seconds(table.sum) for _ in range(8))
    return table.numel() * 4 / best


def weight_bytes(model: qkv.Transformer) -> int:
    """Return the bytes that a token reads: every matrix of the blocks, and the head."""
    total = 0
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            total += module.weight.numel() * module.weight.element_size()
        elif isinstance(module, Int8Linear):
            total += module.integers.numel()
    return total


def main() -> list[Row]:
    from transformers import AutoModelForCausalLM

    file = store.path("smollm2")
    if file is None:
        sys.exit("get the model first:  qkv models get smollm2")
    file = Path(file)

    def load_theirs() -> Any:
        return AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()

    load = {"ours": float("inf"), "theirs": float("inf")}
    for _ in range(2):
        load["ours"] = min(load["ours"], seconds(lambda: qkv.load("smollm2")))
        load["theirs"] = min(load["theirs"], seconds(load_theirs))
        gc.collect()
    theirs = load_theirs()
    model, tokenizer = qkv.load("smollm2")
    exact, _ = qkv.load("smollm2")
    small = quantise(qkv.load("smollm2")[0])
    ids = tokenizer.encode(TEXT * 40)[:PROMPT]
    start = ids[:START]

    def speak(cache: str | None) -> list[int]:
        inputs = torch.tensor([start])
        how = {} if cache is None else {"cache_implementation": cache}
        with torch.inference_mode():
            output = theirs.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                do_sample=False,
                pad_token_id=0,
                **how,
            )
        return output[0, START:].tolist()

    def read_theirs() -> Any:
        with torch.inference_mode():
            return theirs(torch.tensor([ids]), use_cache=True, logits_to_keep=1).logits

    runs: dict[str, Callable[[], Any]] = {
        "float32": lambda: generate(model, [start], most=NEW),
        "int8": lambda: generate(small, [start], most=NEW),
        "default cache": lambda: speak(None),
        "static cache": lambda: speak("static"),
    }
    read = max(bandwidth() for _ in range(3))
    prefill = race(lambda: generate(model, [ids], most=1), read_theirs, rounds=8, seconds=0.1)
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(5):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))

    plain, packed, other = generate(model, [start], most=NEW)[0], generate(small, [start], most=NEW)[0], speak(None)
    same = sum(a == b for a, b in zip(plain, other, strict=True))
    n_same = next((i for i, (a, b) in enumerate(zip(plain, packed, strict=True)) if a != b), NEW)
    with torch.no_grad():
        ours_logits, two = (
            exact(torch.tensor([ids])),
            torch.cat([small(torch.tensor([ids[: i + 1]]))[:, -1:] for i in (0, 3, 7)], 1),
        )
        change = (two - ours_logits[:, [0, 3, 7]]).norm() / ours_logits[:, [0, 3, 7]].norm()
    rate = {name: NEW / best[name] for name in ("float32", "int8", "default cache", "static cache")}
    peer = max(rate["default cache"], rate["static cache"])
    limit = {"float32": read / weight_bytes(model), "int8": read / weight_bytes(small)}
    rates = f"default cache {rate['default cache']:.1f}, static {rate['static cache']:.1f} tokens/s"
    used = rate["int8"] / limit["int8"]
    eight = f"logits change by {change:.1%}; the first {n_same} of {NEW} greedy tokens are the same as in float32; {used:.2f} of its memory limit"
    return [
        Row("loading the GGUF, against transformers", load["ours"], load["theirs"], "≤ 0.3", "s"),
        Row(f"prefill of {PROMPT} tokens", *prefill, "≤ 1.0"),
        Row(
            f"decoding {NEW} tokens, float32",
            rate["float32"],
            peer,
            "≥ 1.25",
            "tokens/s",
            f"{same} of {NEW} tokens are the same; {rates}",
        ),
        Row(
            f"decoding {NEW} tokens, 8-bit weights, against its float32", rate["int8"], peer, "≥ 1.6", "tokens/s", eight
        ),
        Row(
            "share of the memory limit, float32",
            rate["float32"],
            limit["float32"],
            "≥ 0.7",
            "tokens/s",
            f"{read / 1e9:.1f} GB/s read",
        ),
    ]


if __name__ == "__main__":
    torch.manual_seed(0)
    publish("real", "A real model (SmolLM2-135M)", main())
