"""Training: it learns, it goes on exactly, and what it says about itself is true."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from qkv.disk.run_folder import check, newest
from qkv.formats.model_files import load
from qkv.i18n import Problem
from qkv.train import run as runs
from qkv.train.loop import update_weights
from qkv.train.parallelize import World
from qkv.train.resume_options import ResumeOptions

TEXT = "".join(f"{i}: the cat sat on the mat, 我爱北京天安门 {i * i}\n" for i in range(400))
SMALL = dict(n_layer=2, width=32, n_head=2, context=16, batch=4, eval_batches=2, eval_every=5, steps=12, dropout=0.1)


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "book.txt")


def begin(task, out, book, **changes):
    source = None if task == "translate" else book
    return runs.start(task, out=Path(out), source=source, changes={**SMALL, **changes})


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def is_learnable(batch):
    """Does every row differ from the others from its first token on, so that memory alone can bring the loss to 0?"""
    first = batch[0][:, 0].tolist()
    return len(set(first)) == len(first) or len(batch) > 2


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("task", ["lm", "mlm", "translate"])
def test_overfits_a_single_batch(task, optimizer, book, tmp_path):
    rates = {"lr": 0.02} if optimizer == "muon" else {"lr": 3e-3, "weight_decay": 0.0}
    run = begin(
        task, tmp_path / "run", book, optimizer=optimizer, dropout=0.0, steps=10**6, warmup=5, width=48, **rates
    )
    batch = next(b for b in (run.task.batch(0, step, 4) for step in range(1000)) if is_learnable(b))
    run.task.batch = lambda seed, step, rows: batch
    for step in range(400):
        loss, _ = update_weights(run.model, run.model, run.task, run.settings, run.optimizers, step, World())
        if loss < 0.01:
            return
    pytest.fail(f"after 400 steps on one batch the loss is still {loss}")


@pytest.mark.parametrize(
    "task, mixer", [("lm", "attention"), ("mlm", "attention"), ("translate", "attention"), ("lm", "mamba2 delta")]
)
def test_resumed_equals_uninterrupted_bit_for_bit(task, mixer, book, tmp_path):
    own = dict(checkpoint_every=4) if mixer == "attention" else dict(checkpoint_every=4, mixer=mixer, qk_norm=None)
    whole = begin(task, tmp_path / "whole", book, **own)
    whole.train()

    class Power(Exception):
        """The power goes."""

    def cut(line):
        if line["step"] == 7:
            raise Power

    with pytest.raises(Power):
        begin(task, tmp_path / "cut", book, **own).train(cut)
    again = runs.resume(tmp_path / "cut")
    assert again.state["step"] in (4, 5)
    again.train()
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    for (name, a), b in zip(whole.model.named_parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_accumulating_equals_the_whole_batch(book, tmp_path):
    results = []
    for pieces in (1, 2, 4):
        run = begin("lm", tmp_path / f"run{pieces}", book, accumulate=pieces, dropout=0.0, dtype="float64", steps=3)
        run.train()
        results.append([p.detach().clone() for p in run.model.parameters()])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def test_a_run_is_readable_by_eye(book, tmp_path):
    run = runs.start("lm", out=tmp_path / "run", source=book, changes=SMALL, watch="the cat 我")
    run.train()
    folder = tmp_path / "run"
    record = json.loads((folder / "config.json").read_text())
    assert record["task"] == "lm" and record["model"]["width"] == 32 and record["train"]["steps"] == 12
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert all({"loss", "tokens_per_second", "seconds"} <= line.keys() for line in lines)
    assert [line["step"] for line in lines if "val_loss" in line] == [5, 10, 12]
    assert (folder / "samples.txt").read_text().count("--- step") == 3
    assert (folder / "tokenizer.json").exists()
    model, tokenizer = load(folder)
    best = json.loads((newest(folder / "checkpoints") / "state.json").read_text())["best_step"]
    assert (folder / "checkpoints" / f"{best:06d}").exists() and not model.training
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"


def test_watch_keeps_traces_that_give_the_models_own_weights(book, tmp_path):
    from qkv.tracing.views.traces import Trace

    run = runs.start("lm", out=tmp_path / "run", source=book, changes=SMALL, watch="the cat 我")
    run.train()
    files = sorted((tmp_path / "run" / "watch").iterdir())
    assert [file.stem for file in files] == ["000005", "000010", "000012"]
    trace = Trace.load(files[-1])
    assert "".join(trace.tokens().pieces) == trace.text == "the cat 我" and trace.more["step"] == 12
    ids = torch.tensor([run.task.tokenizer.encode("the cat 我")])
    from qkv import record

    run.model.eval()
    with record() as calls, torch.no_grad():
        run.model(ids)
    for layer in (0, 1):
        for head in range(trace.n_head()):
            own = calls[layer].weights()[0, head]
            torch.testing.assert_close(torch.from_numpy(trace.map(layer, head)), own, atol=5e-3, rtol=5e-3)


def test_translators_are_watched_too(tmp_path):
    from qkv.tracing.views.traces import Trace

    run = runs.start("translate", out=tmp_path / "run", changes=SMALL, watch="15 Nov 2026")
    run.train()
    trace = Trace.load(tmp_path / "run" / "watch" / "000012.safetensors")
    assert trace.parts == ["encoder", "decoder", "cross"]
    assert trace.map(0, 0, part="cross").shape[1] == len(trace.tokens("encoder")) == len("15 Nov 2026") + 1


CHILD = """
import sys
from pathlib import Path
from qkv.train import run as runs
folder = Path(sys.argv[1])
run = runs.resume(folder) if (folder / "config.json").exists() else runs.start(
    "lm", out=folder, source=sys.argv[2], changes=dict({changes}, steps={steps}, checkpoint_every=1, eval_every=7))
run.train()
"""


def child(folder, book, steps):
    script = CHILD.format(changes=SMALL, steps=steps)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder), book], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


@pytest.mark.slow
def test_ten_kills_at_random_moments_lose_nothing(book, tmp_path):
    """A checkpoint after every step, so that many kills fall into the writing of one."""
    steps = 60
    finished = child(tmp_path / "whole", book, steps)
    assert finished.wait(300) == 0
    folder, dice = tmp_path / "killed", random.Random(0)
    for _ in range(10):
        process = child(folder, book, steps)
        deadline = time.time() + 60
        while not (folder / "metrics.jsonl").exists() and time.time() < deadline and process.poll() is None:
            time.sleep(0.01)
        time.sleep(dice.random() * 0.6)
        process.kill()
        process.wait()
        checkpoint = newest(folder / "checkpoints")
        assert checkpoint is None or check(checkpoint) is None
    last = child(folder, book, steps)
    assert last.wait(300) == 0, last.stderr.read().decode()
    assert losses(folder) == losses(tmp_path / "whole")
    a, _ = load(folder)
    b, _ = load(tmp_path / "whole")
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    "signum", [pytest.param(signal.SIGTERM, marks=pytest.mark.cold), signal.SIGINT], ids=["SIGTERM", "Ctrl-C"]
)
def test_a_stop_signal_saves_and_resume_is_exact(signum, book, tmp_path):
    folder = tmp_path / "run"
    options = [f"--set={k}={v}" for k, v in SMALL.items()]
    command = [
        sys.executable,
        "-m",
        "qkv",
        "train",
        "lm",
        "--text",
        book,
        "--out",
        str(folder),
        *options,
        "--set",
        "steps=3000",
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"QKV_LANG": "en"}
    )
    metrics = folder / "metrics.jsonl"
    deadline = time.time() + 60
    while (not metrics.exists() or metrics.read_text().count("\n") < 6) and time.time() < deadline:
        time.sleep(0.02)
    process.send_signal(signum)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err.decode()
    assert "go on with" in out.decode() and b"Traceback" not in err
    stopped = json.loads((newest(folder / "checkpoints") / "state.json").read_text())["step"]
    assert losses(folder)[stopped - 1 :] == losses(folder)[stopped - 1 : stopped]
    reference = begin("lm", tmp_path / "whole", book, steps=3000)
    expected = []

    class Enough(Exception):
        pass

    def record_loss(line):
        expected.append(line["loss"])
        if line["step"] == stopped:
            raise Enough

    with pytest.raises(Enough):
        reference.train(record_loss)
    again = runs.resume(folder)
    assert losses(folder) == expected
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), reference.model.parameters(), strict=True))


@pytest.mark.slow
def test_dates_are_learned_and_aligned(tmp_path):
    """≥ 99 % of unseen dates exactly right, and cross-attention looks at the day, month and year being written."""
    from qkv.generation.decoding import translate
    from qkv.text import date_pair

    run = runs.start("translate", out=tmp_path / "run")
    run.train()
    model, tokenizer = load(tmp_path / "run")
    pairs = [date_pair(99, i, "unseen") for i in range(500)]
    translations = translate(model, tokenizer, [source for source, _ in pairs])
    right = sum(a == b for a, (_, b) in zip(translations, pairs, strict=True))
    assert right >= 495, [(s, a, b) for a, (s, b) in zip(translations, pairs, strict=True) if a != b][:10]
    assert aligned(model, tokenizer) >= 0.9


def aligned(model, tokenizer):
    """The share of digits of year and day that some head of cross-attention takes from their own place in the source."""
    from qkv import record

    source, target = "2031年12月28日", "2031-12-28"
    s, t = tokenizer.encode(source), tokenizer.encode(target)
    with record() as calls, torch.no_grad():
        model(torch.tensor([[tokenizer.bos, *t]]), torch.tensor([[*s, tokenizer.eos]]))
    own = {0: 0, 1: 1, 2: 2, 3: 3, 5: 5, 6: 6, 8: 8, 9: 9}  # place in the target → place in the source
    maps = [call.weights()[0] for call in calls if call.name.startswith("cross")]  # (H, N, M)
    hits = sum(any((head[i].argmax() == j).item() for layer in maps for head in layer) for i, j in own.items())
    return hits / len(own)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widht": 8}, "did you mean 'width'?"),
        ({"optimizer": "sgd"}, "not one of muon, adamw"),
        ({"batch": 5, "accumulate": 2}, "doesn't divide into accumulate=2"),
        ({"context": 10**6}, "give more text"),
        ({"steps": 0}, "steps is 0"),
        ({"dtype": "half"}, "not one of float32"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(changes, message, book, tmp_path):
    with pytest.raises(ValueError) as error:
        begin("lm", tmp_path / "run", book, **changes)
    assert message in str(error.value)


def test_a_run_is_not_overwritten(book, tmp_path):
    begin("lm", tmp_path / "run", book)
    with pytest.raises(ValueError, match="holds a run already"):
        begin("lm", tmp_path / "run", book)


def test_a_lost_loss_names_the_step_the_batch_and_the_last_good_checkpoint(book, tmp_path):
    run = begin("lm", tmp_path / "run", book, checkpoint_every=2)

    def poison(line):
        if line["step"] == 4:
            with torch.no_grad():
                run.model.head.weight.fill_(float("nan"))

    with pytest.raises(ValueError, match=r"the loss became nan at step 5.*the last good checkpoint is .*000004"):
        run.train(poison)
    assert runs.resume(tmp_path / "run").state["step"] == 4


def test_changed_data_is_refused(book, tmp_path):
    begin("lm", tmp_path / "run", book)
    runs.resume(tmp_path / "run", asked=ResumeOptions(source=book))
    Path(book).write_text(TEXT + "more", encoding="utf-8")
    with pytest.raises(ValueError, match="its content changed"):
        runs.resume(tmp_path / "run", asked=ResumeOptions(source=book))


def test_what_this_machine_can_not_do_is_refused_before_there_is_a_run(tmp_path, monkeypatch):
    """Where there is no compiler, torch.compile fails in the first step, with a run begun and an error nobody understands."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Problem, match=r"no C\+\+ compiler here: install g\+\+"):
        runs.start("translate", out=tmp_path / "run", changes={"compile": True})
    assert not (tmp_path / "run").exists()
    runs.start("translate", out=tmp_path / "run")
    record = json.loads((tmp_path / "run/config.json").read_text())
    record["train"]["compile"] = True  # a run from another machine
    (tmp_path / "run/config.json").write_text(json.dumps(record))
    with pytest.raises(Problem, match=r"no C\+\+ compiler"):
        runs.resume(tmp_path / "run")
