"""Training: tokens per second against transformers' GPT-2, and time to quality against the classic small recipe.

The recipe is that of beginners' tutorials: 4 layers, width 128, context 64, batch 12, learned positions, GELU,
2,000 steps of AdamW, characters of tiny Shakespeare with the last tenth held out. It uses our modules and the
same loop as our preset, so that only the recipe differs.
"""

import sys
import time
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from qkv import Config, Transformer
from qkv.library import store
from qkv.model.presets import PRESETS
from qkv.text import Characters, Dataset
from qkv.train.loop import evaluate, update_weights
from qkv.train.optim import make_optimizers
from qkv.train.parallelize import World
from qkv.train.settings import Settings, preset
from qkv.train.tasks import NextWord

from ._measure import Row, publish, race

GPT2 = dict(
    position="learned",
    norm="layer",
    norm_eps=1e-5,
    feed_forward="gelu-tanh",
    bias=True,
    qk_norm=None,
    tied=True,
    init="normal",
)
SHAPES = {
    "4 layers, width 128, context 64, batch 12": ("tiny", 12, 1.15),
    "6 layers, width 384, context 256, batch 16": ("small", 16, 1.1),
}


def speed(compiled: bool) -> list[Row]:
    """A GPT-2 of the same shape: ours by our loop against transformers' by a plain loop, each in its better mode."""
    from transformers import GPT2Config, GPT2LMHeadModel

    rows = []
    for what, (name, batch, bar) in SHAPES.items():
        config = PRESETS[name].replace(vocab=65, **GPT2)
        tokens = Dataset.of(torch.randint(65, (100_000,)).numpy())
        settings = Settings(optimizer="adamw", lr=1e-3, weight_decay=0.1, batch=batch)

        def ours(compile: bool):
            model = Transformer(config)
            optimizers, task = make_optimizers(model, settings), NextWord(tokens, None, config.context)
            forward = torch.compile(model) if compile else model
            state = {"step": 0}

            def step() -> None:
                update_weights(forward, model, task, settings, optimizers, state["step"], World())
                state["step"] += 1

            return step

        def theirs(compile: bool):
            shape = dict(n_positions=config.context, n_embd=config.width, n_layer=config.n_layer, n_head=config.n_head)
            none = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
            model = GPT2LMHeadModel(GPT2Config(vocab_size=65, **shape, **none))
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
            forward = torch.compile(model) if compile else model
            state = {"step": 0}

            def step() -> None:
                x, y = (torch.from_numpy(t.copy()) for t in tokens.batch(0, state["step"], batch, config.context))
                loss = F.cross_entropy(forward(x, use_cache=False).logits.flatten(0, 1), y.flatten())
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                state["step"] += 1

            return step

        modes = [False, True] if compiled else [False]
        times = race(*(ours(m) for m in modes), *(theirs(m) for m in modes), rounds=5, seconds=1.0)
        mine, other = min(times[: len(modes)]), min(times[len(modes) :])
        per_second = batch * config.context * 1e3
        rows.append(
            Row(
                f"GPT-2, {what}: ours against transformers'",
                per_second / mine,
                per_second / other,
                f"≥ {bar}",
                "tokens/s",
            )
        )
        print(f"{what}: {'ours ' + str(times[: len(modes)])} theirs {times[len(modes) :]} ms", flush=True)
    return rows


def learn(
    config: Config, settings: Settings, task: NextWord, goal: float | None, limit: float | None, compile: bool
) -> list[tuple[float, int, float]]:
    """Train and return (seconds, step, validation loss) at each evaluation, without the time of evaluations."""
    torch.manual_seed(0)
    start_time = time.perf_counter()
    model = Transformer(config)
    optimizers = make_optimizers(model, settings)
    forward = torch.compile(model) if compile else model
    spent, curve = 0.0, []
    for step in range(settings.steps):
        update_weights(forward, model, task, settings, optimizers, step, World())
        if (step + 1) % settings.eval_every == 0 or step + 1 == settings.steps:
            pause = time.perf_counter()
            curve.append(
                (
                    pause - start_time - spent,
                    step + 1,
                    evaluate(model, model, task, Settings(batch=32, eval_batches=50)),
                )
            )
            spent += time.perf_counter() - pause
            if (goal is not None and curve[-1][2] <= goal) or (limit is not None and curve[-1][0] > limit):
                break
    return curve


def quality() -> list[Row]:
    """The recipe to its end, then our preset to the recipe's loss, then our preset for as long as the recipe took."""
    text = shakespeare()
    tokenizer = Characters.make(text)
    ids = tokenizer.encode_array([text])
    cut = int(0.9 * len(ids))
    tokens = Dataset.of(ids[:cut], ids[cut:])
    classic = PRESETS["tiny"].replace(vocab=tokenizer.vocab, **GPT2)
    recipe = Settings(
        steps=2000, batch=12, optimizer="adamw", lr=1e-3, weight_decay=0.1, warmup=100, decay=1.0, eval_every=2000
    )
    task = NextWord(tokens, tokenizer, 64)
    seconds, _, loss = learn(classic, recipe, task, None, None, compile=False)[-1]
    print(f"the recipe: {loss:.3f} after {seconds:.0f} s", flush=True)

    config, settings = preset("tiny", "lm")
    config = config.replace(vocab=tokenizer.vocab)
    ours = NextWord(tokens, tokenizer, config.context)
    short = quick(settings, ours, config, seconds, 0.32)
    reached = learn(config, short, ours, loss, None, compile=False)
    print(f"ours, short: {[(round(s), n, round(v, 3)) for s, n, v in reached]}", flush=True)
    long = quick(settings, ours, config, seconds, 0.9)
    curve = learn(config, long, ours, None, None, compile=False)
    best = [row for row in curve if row[0] <= seconds][-1]  # within the time of the recipe
    print(f"ours, long: {best[2]:.3f} after {best[0]:.0f} s", flush=True)
    is_reached = reached[-1][2] <= loss
    return [
        Row(
            "seconds to the recipe's final validation loss",
            reached[-1][0] if is_reached else float("inf"),
            seconds,
            "≤ 0.35",
            "s",
            f"to {loss:.3f}",
        ),
        Row(
            "validation loss in the recipe's time, against 1.65",
            best[2],
            1.65,
            "≤ 1.0",
            "",
            f"{best[0]:.0f} s of {seconds:.0f} s; the recipe reached {loss:.3f}",
        ),
    ]


def quick(settings: Settings, task: NextWord, config: Config, seconds: float, share: float) -> Settings:
    """Return the preset with as many steps as fit into a share of some seconds, measured on this machine."""
    from dataclasses import replace

    model = Transformer(config)
    optimizers, state = make_optimizers(model, settings), {"step": 0}

    def step() -> None:
        update_weights(model, model, task, settings, optimizers, state["step"], World())
        state["step"] += 1

    times = []
    for _ in range(6):
        start_time = time.perf_counter()
        for _ in range(5):
            step()
        times.append((time.perf_counter() - start_time) / 5)
    each = sorted(times)[1]  # the median
    steps = max(int(share * seconds / each), 50)
    return replace(settings, steps=steps, eval_every=max(steps // 10, 1))


def shakespeare() -> str:
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "tinyshakespeare.txt"
    return (beside if beside.is_file() else store.get("shakespeare")).read_text(encoding="utf-8")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    publish("train", "Training", [*speed(compiled="--eager" not in sys.argv), *quality()])
