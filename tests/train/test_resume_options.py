"""A run that goes on: every option beside --resume is obeyed, is what the run has, or is refused by name."""

import argparse
import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch

from qkv.cli import main
from qkv.commands import train as command
from qkv.disk.run_folder import newest
from qkv.formats.model_files import load
from qkv.model.config import CHOICES, Config
from qkv.train import run as runs
from qkv.train import settings as settings_
from qkv.train.loop import Stopped
from qkv.train.resume_options import CHANGEABLE, ResumeOptions, settings_by_name
from qkv.train.settings import Settings

TEXT = "".join(f"{i}: the cat sat on the mat {i * i}\n" for i in range(200))
SMALL = dict(n_layer=1, width=16, n_head=2, context=8, batch=2, eval_batches=1, eval_every=4, steps=8, dropout=0.1)
SMALL |= dict(warmup=2, seed=3)


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory):
    """A finished run, the text it learned from, and another text and table of pairs."""
    folder = tmp_path_factory.mktemp("runs")
    for name, text in {"book.txt": TEXT, "other.txt": TEXT[:-9], "pairs.tsv": "a\tb\nc\td\n"}.items():
        (folder / name).write_text(text)
    runs.start("lm", out=folder / "run", source=str(folder / "book.txt"), changes=SMALL, watch="the cat").train()
    return folder


@pytest.fixture
def run(runs_folder, tmp_path):
    return Path(shutil.copytree(runs_folder / "run", tmp_path / "run"))


def resumed(run, capsys, *options):
    code = main(["train", "--resume", str(run), *options])
    return code, *capsys.readouterr()


def options_of_train():
    parser = argparse.ArgumentParser(add_help=False)
    command.arguments(parser)
    return {action.dest: action for action in parser._actions}


# What to type for what the run has, and for something else; None: there is no such thing to type.
OPTIONS = {
    "task": (["lm"], ["mlm"]),
    "text": (["--text", "{runs_folder}/book.txt"], ["--text", "{runs_folder}/other.txt"]),
    "pairs": (None, ["--pairs", "{runs_folder}/pairs.tsv"]),
    "out": (["--out", "{run}"], ["--out", "{run}-2"]),
    "chat": (None, ["--chat", "{runs_folder}/chats.jsonl"]),
    "lora": (None, ["--lora", "4"]),
    "base": (None, ["--from", "{runs_folder}/base"]),
    "preset": (["--preset", "tiny"], ["--preset", "small"]),
    "steps": (["--steps", "8"], ["--steps", "12"]),
    "seed": (["--seed", "3"], ["--seed", "4"]),
    "batch": (["--batch", "2"], ["--batch", "4"]),
    "context": (["--context", "8"], ["--context", "16"]),
    "lr": (["--lr", "0.02"], ["--lr", "0.01"]),
    "eval_every": (["--eval-every", "4"], ["--eval-every", "3"]),
    "checkpoint_every": (["--set", "checkpoint_every=none"], ["--checkpoint-every", "1"]),
    "tokenizer": (["--tokenizer", "characters"], ["--tokenizer", "bytes"]),
    "watch": (["--watch", "the cat"], ["--watch", "the dog"]),
    "set": (["--set", "width=16"], ["--set", "width=32"]),
    "parallel": (None, ["--parallel", "fsdp"]),
}
OBEYED = {"steps", "eval_every", "checkpoint_every"}
# These say how to go on, not what the run is: --resume itself, fetching a data set that isn't here.
HOW = {"resume", "yes"}


def test_the_table_has_every_option_there_is():
    assert OPTIONS.keys() | HOW == options_of_train().keys()


@pytest.mark.parametrize("option", OPTIONS)
def test_current_values_may_be_repeated(option, runs_folder, run, capsys):
    same, _ = OPTIONS[option]
    if same is not None:
        code, out, err = resumed(run, capsys, *(word.format(runs_folder=runs_folder, run=run) for word in same))
        assert code == 0, err
        assert "all 8 steps" in out


@pytest.mark.parametrize("option", sorted(OPTIONS.keys() - OBEYED))
def test_anything_else_is_refused_by_name_and_changes_nothing(option, runs_folder, run, capsys):
    words = [word.format(runs_folder=runs_folder, run=run) for word in OPTIONS[option][1]]
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    code, _, err = resumed(run, capsys, *words)
    assert code == 2
    name = words[1].split("=")[0] if option == "set" else option
    assert name in err and words[-1].split("=")[-1] in err, err
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("option", sorted(OBEYED))
def test_a_changeable_option_is_applied_reported_and_stored(option, run, capsys):
    option_string, value = OPTIONS[option][1]
    code, out, _ = resumed(run, capsys, option_string, value)
    assert code == 0 and f"{option}: {value}" in out
    assert json.loads((run / "config.json").read_text())["train"][option] == int(value)


def another(has):
    """A value of the same kind that isn't this one."""
    if isinstance(has, bool):
        return not has
    return has + 1 if isinstance(has, int | float) else [[1, 2]] if has == [] else 1


@pytest.mark.parametrize("name", [*Config().to_dict(), *(field.name for field in dataclasses.fields(Settings))])
def test_every_setting_is_refused_or_obeyed(name, run):
    record = json.loads((run / "config.json").read_text())
    has = settings_by_name(record)[name]
    runs.resume(run, asked=ResumeOptions(changes={name: has}))
    assert json.loads((run / "config.json").read_text()) == record
    choices = {**CHOICES, **settings_.CHOICES}.get(name, ())
    other_value = next((word for word in choices if word != has), another(has))
    if name in CHANGEABLE:
        assert getattr(runs.resume(run, asked=ResumeOptions(changes={name: 9})).settings, name) == 9
    else:
        with pytest.raises(ValueError, match=rf"^{name} is .* can't become "):
            runs.resume(run, asked=ResumeOptions(changes={name: other_value}))


def test_settings_of_groups_go_by_either_name(run, capsys):
    code, out, err = resumed(run, capsys, "--set", "embedding.tied=false", "--set", "rotary.base=10000")
    assert code == 0 and "all 8 steps" in out, err
    for name, stored_name in (("rotary.base", "rotary_base"), ("experts.count", "experts.count")):
        code, _, err = resumed(run, capsys, "--set", f"{name}=4")
        assert code == 2 and f"{stored_name} is " in err and "can't become 4" in err


def test_fewer_steps_than_completed_are_refused(run, capsys):
    code, _, err = resumed(run, capsys, "--steps", "7")
    assert code == 2 and "has done 8 steps already, and 7 were asked for" in err


def test_a_run_whose_checkpoints_are_all_damaged_is_not_extended(run, capsys):
    for file in run.glob("checkpoints/*/model.safetensors"):
        file.write_bytes(b"gone")
    before = (run / "config.json").read_bytes()
    code, _, err = resumed(run, capsys, "--steps", "12")
    assert code == 2 and "000008" in err and (run / "config.json").read_bytes() == before


def test_a_repeated_setting_is_refused(run, capsys):
    code, _, err = resumed(run, capsys, "--steps", "12", "--set", "steps=16")
    assert code == 2 and "--set steps=16 and --steps 12" in err


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def stop_at(run, *steps):
    """Go on with a run and stop it, as SIGTERM does, at each of these steps."""
    import os
    import signal

    for last in steps:
        with pytest.raises(Stopped):
            runs.resume(run).train(
                lambda line, last=last: line["step"] == last and os.kill(os.getpid(), signal.SIGTERM)
            )


@pytest.mark.parametrize("steps_before", [8, 5], ids=["after the end", "half way"])
def test_an_extended_run_is_exact(steps_before, runs_folder, tmp_path):
    """Killed and gone on with = uninterrupted, bit for bit; what was trained before is unchanged."""
    first = tmp_path / "first"
    runs.start("lm", out=first, source=str(runs_folder / "book.txt"), changes=SMALL)
    if steps_before == 8:
        runs.resume(first).train()
    else:
        stop_at(first, steps_before)
    before = losses(first)
    assert len(before) == steps_before
    whole, cut = (Path(shutil.copytree(first, tmp_path / name)) for name in ("whole", "cut"))
    runs.resume(whole, asked=ResumeOptions(changes={"steps": 16})).train()
    runs.resume(cut, asked=ResumeOptions(changes={"steps": 16}))  # dies at once
    stop_at(cut, 10, 13)
    again = runs.resume(cut)
    again.train()
    assert losses(whole)[:steps_before] == before and len(losses(whole)) == 16
    assert losses(cut) == losses(whole)
    (a, _), (b, _) = load(whole), load(cut)
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    # The plan for 16 steps holds from there on, not the old one, whose rate was 0 at its end.
    assert [again.settings.rate(step) for step in range(16)] == [
        Settings(**{**again.settings.to_dict(), "steps": 8 if step < steps_before else 16, "before": ()}).rate(step)
        for step in range(16)
    ]


def test_where_the_last_checkpoint_before_an_extension_is_damaged_the_old_plan_is_followed_to_its_end(
    runs_folder, tmp_path
):
    first = tmp_path / "first"
    changes = {**SMALL, "checkpoint_every": 1}
    runs.start("lm", out=first, source=str(runs_folder / "book.txt"), changes=changes).train()
    hurt = Path(shutil.copytree(first, tmp_path / "hurt"))
    for run in (first, hurt):
        runs.resume(run, asked=ResumeOptions(changes={"steps": 12}))
    (hurt / "checkpoints" / "000008" / "model.safetensors").write_bytes(b"gone")
    resumed_run = runs.resume(hurt)
    assert resumed_run.state["step"] == 7 and newest(hurt / "checkpoints").name == "000007"
    resumed_run.train()
    runs.resume(first).train()
    assert losses(hurt) == losses(first)
    twice = runs.resume(hurt, asked=ResumeOptions(changes={"steps": 20}))
    assert twice.settings.before == ((8, 8), (12, 12))


@pytest.mark.parametrize("before", [3, [[1]], [[0, 4]], [[4, 3]], [[5, 9], [5, 9]], [["1", 2]]], ids=str)
def test_plans_that_make_no_sense_are_refused(before):
    with pytest.raises(ValueError, match="earlier plans"):
        Settings(before=before)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "--text", "{runs_folder}/book.txt"], "--text is"),
        (["lm", "--text", "{runs_folder}/book.txt", "--pairs", "{runs_folder}/pairs.tsv"], "--pairs is"),
        (["translate", "--tokenizer", "bytes"], "--tokenizer is bytes"),
        (["lm", "--text", "{runs_folder}/book.txt", "--set", "vocab=7"], "vocab is 7"),
    ],
    ids=["text", "pairs", "tokenizer", "vocab"],
)
def test_a_new_run_ignores_nothing_either(words, message, runs_folder, tmp_path, capsys):
    code = main(["train", "--out", str(tmp_path / "run"), *(word.format(runs_folder=runs_folder) for word in words)])
    assert code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
