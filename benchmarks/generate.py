"""Generation of 512 tokens (6 layers, width 384, float32, CPU): with a cache against without, and against transformers.

The peer is the same model: exported and loaded by transformers, with its own greedy `generate`.
"""

import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from qkv import Transformer
from qkv.formats.hf_export import export
from qkv.generation.decoding import generate
from qkv.model.presets import PRESETS

from ._measure import Row, publish

NEW, PROMPT = 512, 16


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def theirs(model: Transformer) -> Any:
    """Return the same model loaded by transformers, and a function that generates with it."""
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        export(model, None, f"{folder}/model")
        loaded = AutoModelForCausalLM.from_pretrained(f"{folder}/model", dtype=torch.float32).eval()

    def speak(ids: list[list[int]], most: int = NEW) -> list[list[int]]:
        inputs = torch.tensor(ids)
        with torch.inference_mode():
            output = loaded.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=most,
                min_new_tokens=most,
                do_sample=False,
                pad_token_id=0,
            )
        return output[:, inputs.shape[1] :].tolist()

    return speak


def main() -> list[Row]:
    config = PRESETS["small"].replace(context=1024, init="normal")
    model = Transformer(config).eval()
    with torch.no_grad():  # an untrained model repeats one token; with larger weights its tokens depend on the text
        for block in model.decoder or ():
            for parameter in block.parameters():
                if parameter.ndim == 2:
                    parameter.mul_(3)
    prompt = torch.randint(config.vocab, (1, PROMPT)).tolist()
    batch = torch.randint(config.vocab, (8, PROMPT)).tolist()
    speak = theirs(model)
    same = sum(a == b for a, b in zip(generate(model, prompt, most=64)[0], speak(prompt, 64)[0], strict=True))

    # Rivals take turns and the best turn counts; without a cache, a hundred times the work, there are two.
    runs: dict[str, Callable[[], Any]] = {
        "cached": lambda: generate(model, prompt, most=NEW),
        "transformers": lambda: speak(prompt),
        "cached batch": lambda: generate(model, batch, most=NEW // 4),
        "transformers batch": lambda: speak(batch, NEW // 4),
    }
    best = dict.fromkeys([*runs, "uncached"], float("inf"))
    for turn in range(6):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))
        if turn % 3 == 1:
            best["uncached"] = min(best["uncached"], seconds(lambda: generate(model, prompt, most=NEW, cache=False)))
    rate = {name: (8 * NEW // 4 if "batch" in name else NEW) / time_ for name, time_ in best.items()}
    note = f"{same} of the first 64 tokens are the same"
    per_second = "tokens/s"
    return [
        Row("512 new tokens, cached against uncached", rate["cached"], rate["uncached"], "≥ 10", per_second),
        Row(
            "512 new tokens, one text, against transformers.generate",
            rate["cached"],
            rate["transformers"],
            "≥ 1.5",
            per_second,
            note,
        ),
        Row(
            "128 new tokens, batch of 8, against transformers.generate",
            rate["cached batch"],
            rate["transformers batch"],
            "≥ 1.0",
            per_second,
        ),
    ]


if __name__ == "__main__":
    torch.manual_seed(0)
    publish("generate", "Generation (6 layers, width 384)", main())
