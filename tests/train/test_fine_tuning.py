"""Going on from weights that were learned before: nothing is changed by nothing, and all laws of a run hold."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from qkv import text
from qkv.cli import main
from qkv.formats.hf_export import export
from qkv.formats.model_files import load
from qkv.i18n import Problem
from qkv.train import run as runs
from qkv.train.resume_options import ResumeOptions
from qkv.train.tasks import HiddenWord

TEXT = "".join(f"{i}: the cat sat on the mat, 我爱北京天安门 {i * i}\n" for i in range(400))
PAIRS = "".join(f"{day} Nov {year}\t{year}-11-{day:02}\n" for day in range(1, 29) for year in (1999, 2026))
SMALL = dict(n_layer=2, width=32, n_head=2, context=16, batch=4, eval_batches=2, eval_every=5, steps=3)
TUNED = dict(batch=4, eval_batches=2, eval_every=5, steps=12, checkpoint_every=4, dropout=0.1)
DATES = str(Path(text.__file__).parents[1] / "demo" / "dates")


class Power(Exception):
    """The power goes."""


def cut_at(step):
    def report(line):
        if line["step"] == step:
            raise Power

    return report


def stop_at(run, step):
    with pytest.raises(Power):
        run.train(cut_at(step))


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory):
    """A folder with a text, pairs, and a small model of each kind to go on from."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    (folder / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    for task in ("lm", "mlm"):
        runs.start(task, out=folder / task, source=str(folder / "book.txt"), changes=SMALL).train()
    return folder


def begin(task, out, runs_folder, base=None, **changes):
    data = (
        dict(pairs=str(runs_folder / "pairs.tsv"))
        if task == "translate"
        else dict(source=str(runs_folder / "book.txt"))
    )
    base = base or (DATES if task == "translate" else str(runs_folder / task))
    return runs.start(task, out=Path(out), base=base, changes={**TUNED, **changes}, **data)


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


TASKS = ["lm", "mlm", "translate"]


@pytest.mark.parametrize("task", TASKS)
def test_no_step_changes_no_weight(task, runs_folder, tmp_path):
    run = begin(task, tmp_path / "run", runs_folder)
    stop_at(run, 1)
    loaded, tokenizer = load(tmp_path / "run")
    base, theirs = load(DATES if task == "translate" else runs_folder / task)
    assert same(loaded, base) and loaded.config.context == base.config.context
    assert (tokenizer.to_json(), tokenizer.special, tokenizer.start) == (theirs.to_json(), theirs.special, theirs.start)


@pytest.mark.parametrize("task", TASKS)
def test_resumed_equals_uninterrupted_bit_for_bit(task, runs_folder, tmp_path):
    whole = begin(task, tmp_path / "whole", runs_folder)
    whole.train()
    stop_at(begin(task, tmp_path / "cut", runs_folder), 7)
    again = runs.resume(tmp_path / "cut")
    assert again.state["step"] in (4, 5)  # the best is kept too
    again.train()
    assert same(whole.model, again.model)
    first, second = metrics(tmp_path / "whole"), metrics(tmp_path / "cut")
    assert [line.get("loss") for line in first] == [line.get("loss") for line in second]
    assert first[0].keys() == {"step", "val_loss"} and first[0] == second[0], "what it was worth before"


def test_a_run_killed_before_its_first_checkpoint_restarts_from_its_base(runs_folder, tmp_path):
    whole = begin("lm", tmp_path / "whole", runs_folder)
    whole.train()
    stop_at(begin("lm", tmp_path / "cut", runs_folder), 0)
    assert not (tmp_path / "cut" / "checkpoints").exists()
    again = runs.resume(tmp_path / "cut")
    again.train()
    assert same(whole.model, again.model)


def test_a_base_is_needed_only_until_the_first_checkpoint(runs_folder, tmp_path):
    base = shutil.copytree(runs_folder / "lm", tmp_path / "base")
    stop_at(begin("lm", tmp_path / "early", runs_folder, str(base)), 0)
    stop_at(begin("lm", tmp_path / "late", runs_folder, str(base)), 1)
    other = begin("lm", tmp_path / "other", runs_folder, str(base), steps=1)
    other.train()
    shutil.rmtree(base)
    assert runs.resume(tmp_path / "late").state["step"] == 0
    with pytest.raises(Problem, match=r"was trained from .*base, which can't be opened: there is no model"):
        runs.resume(tmp_path / "early")
    shutil.copytree(tmp_path / "other", base)
    with pytest.raises(Problem, match="whose weights have changed since"):
        runs.resume(tmp_path / "early")


def test_the_file_of_the_base_is_never_written_to(runs_folder, tmp_path):
    model, tokenizer = load(runs_folder / "mlm")
    export(model, tokenizer, tmp_path / "hf")
    before = (tmp_path / "hf" / "model.safetensors").read_bytes()
    run = begin("mlm", tmp_path / "run", runs_folder, str(tmp_path / "hf"))
    run.train()
    assert (tmp_path / "hf" / "model.safetensors").read_bytes() == before
    assert same(load(tmp_path / "hf")[0], model) and not same(run.model, model)


def test_it_ends_early_where_nothing_gets_better_and_keeps_the_best(runs_folder, tmp_path):
    hurry = dict(lr=1.0, clip=0.0, patience=2, eval_every=2, warmup=0, steps=40)
    whole = begin("lm", tmp_path / "whole", runs_folder, **hurry)
    state = whole.train()
    assert (state["step"], state["best_step"], state["waited"]) == (4, 0, 2)
    assert same(load(tmp_path / "whole")[0], load(runs_folder / "lm")[0]), "the best is the model as it came"
    assert runs.resume(tmp_path / "whole").train()["step"] == 4, "it has ended"
    stop_at(begin("lm", tmp_path / "cut", runs_folder, **hurry), 4)
    assert same(_resumed(tmp_path / "cut").model, whole.model), "how long it waited is remembered"
    more = runs.resume(tmp_path / "whole", asked=ResumeOptions(changes={"patience": None, "steps": 6}))
    assert more.train()["step"] == 6


def _resumed(folder):
    run = runs.resume(folder)
    run.train()
    return run


def test_settings_for_a_small_text_are_reported(runs_folder, tmp_path, capsys):
    options = [
        "train",
        "lm",
        "--from",
        str(runs_folder / "lm"),
        "--text",
        str(runs_folder / "book.txt"),
        "--out",
        str(tmp_path / "run"),
    ]
    assert main([*options, "--watch", "the cat"]) == 0
    output = capsys.readouterr().out
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["train"]
    assert (settings["optimizer"], settings["lr"], settings["row"], settings["patience"]) == ("adamw", 5e-5, 16, 3)
    assert "learning rate 5e-05, 3 passes over" in output and "before the first step: validation loss" in output
    assert (tmp_path / "run" / "watch" / "000000.safetensors").is_file()
    assert main(["train", "--resume", str(tmp_path / "run"), "--from", str(runs_folder / "lm")]) == 0
    assert main(["train", "--resume", str(tmp_path / "run"), "--from", str(runs_folder / "mlm")]) == 2
    assert "--from is" in capsys.readouterr().err


def test_context_sets_the_row_length_and_not_the_models_context(runs_folder, tmp_path):
    run = begin("lm", tmp_path / "run", runs_folder, context=7)
    assert run.settings.row == 7 and run.model.config.context == 16
    assert run.task.batch(0, 0, 2)[0].shape == (2, 7)


WRONG = {
    "a model of another kind": (["lm", "--from", "mlm", "--text", "book.txt"], "kind encoder: qkv train lm needs"),
    "a size": (["lm", "--from", "lm", "--text", "book.txt", "--set", "width=64"], "width would make another model"),
    "a preset": (["lm", "--from", "lm", "--text", "book.txt", "--preset", "small"], "leave one of them out"),
    "a tokenizer": (["lm", "--from", "lm", "--text", "book.txt", "--tokenizer", "bytes"], "keeps its own"),
    "no pairs": (["translate", "--from", DATES], "give --pairs"),
    "a text shorter than a row": (["lm", "--from", "lm", "--text", "short.txt"], "needs at least 17"),
    "no such model": (["lm", "--from", "nowhere", "--text", "book.txt"], "there is no model nowhere"),
    "no patience": (["lm", "--from", "lm", "--text", "book.txt", "--set", "patience=0"], "give 1 or more, or none"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_unusable_base_is_refused_and_leaves_no_files(wrong, runs_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(runs_folder)
    (runs_folder / "short.txt").write_text("the cat sat on the mat")
    options, message = WRONG[wrong]
    assert main(["train", *options, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_bert_reads_its_rows_between_cls_and_sep(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg"]))
    tokenizer = text.load(tmp_path)
    task = HiddenWord(text.Dataset.of(np.arange(5, 12).repeat(9), range(5, 12)), tokenizer, 7, 0.5, framed=True)
    x, labels = task.batch(0, 0, 3)
    assert x.shape == (3, 7) and (x[:, 0] == tokenizer.bos).all() and (x[:, -1] == tokenizer.eos).all()
    assert (labels[:, [0, -1]] == -100).all() and (labels != -100).any()


def test_a_translator_is_trained_as_it_is_used(runs_folder, tmp_path):
    """Its decoder starts where it is started for a translation, and what it reads is framed alike."""
    from qkv.generation.decoding import source_ids

    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg"]))
    tokenizer = text.load(tmp_path)
    tokenizer.start = tokenizer.pad
    batch = text.Pairs([("a b", "c d")], tokenizer).batch(0, 0, 1)
    assert batch.source.tolist() == [source_ids(tokenizer, "a b")]
    assert batch.target_in[0, 0] == tokenizer.pad and batch.target_out[0, -1] == tokenizer.eos


@pytest.mark.parametrize("task", TASKS)
def test_lora_trains_and_saves_only_the_adapter(task, runs_folder, tmp_path):
    whole = begin(task, tmp_path / "whole", runs_folder, lora=2)
    before = {name: p.clone() for name, p in whole.model.named_parameters() if not p.requires_grad}
    whole.train()
    assert before and all(torch.equal(p, before[name]) for name, p in whole.model.named_parameters() if name in before)
    stop_at(begin(task, tmp_path / "cut", runs_folder, lora=2), 7)
    assert same(whole.model, _resumed(tmp_path / "cut").model), "resumed = uninterrupted"
    checkpoint = sorted((tmp_path / "whole" / "checkpoints").iterdir())[-1]
    files = {"adapter_config.json", "adapter_model.safetensors", "optimizer.safetensors", "state.json"}
    assert {file.name for file in checkpoint.iterdir()} == files
    base, _ = load(DATES if task == "translate" else runs_folder / task)
    assert load(tmp_path / "whole")[0].config == base.config.replace(dropout=0.1)
    alone = shutil.copytree(checkpoint, tmp_path / "alone")  # a checkpoint is a folder of peft's, which names its base
    (alone / "state.json").unlink()
    beside, _ = load(alone)
    assert same(beside, load(checkpoint)[0])
    assert beside.config == base.config and not same(beside, base)


def test_no_step_beside_a_base_changes_no_weight(runs_folder, tmp_path):
    stop_at(begin("lm", tmp_path / "run", runs_folder, lora=3), 1)
    assert same(load(tmp_path / "run")[0], load(runs_folder / "lm")[0])


def test_a_base_that_changed_is_no_base_for_what_was_learned_beside_it(runs_folder, tmp_path):
    base = shutil.copytree(runs_folder / "lm", tmp_path / "base")
    begin("lm", tmp_path / "run", runs_folder, str(base), lora=2, steps=2).train()
    begin("lm", tmp_path / "other", runs_folder, str(base), steps=5).train()
    shutil.rmtree(base)
    shutil.copytree(tmp_path / "other", base)
    for again in (load, runs.resume):
        with pytest.raises(Problem, match="whose weights have changed since"):
            again(tmp_path / "run")


@pytest.fixture
def talker(runs_folder, tmp_path):
    """A model that has a template, and chats."""
    folder = Path(shutil.copytree(runs_folder / "lm", tmp_path / "talker"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    answer = {"role": "assistant", "content": "sat on the mat"}
    chats = [[{"role": "user", "content": f"the cat {i}"}, answer] for i in range(30)]
    (tmp_path / "chats.jsonl").write_text("\n".join(json.dumps({"messages": messages}) for messages in chats))
    return folder


def test_of_chats_the_answers_are_learned(talker, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    options = ["train", "lm", "--from", str(talker), "--chat", str(tmp_path / "chats.jsonl"), "--context", "40"]
    assert main([*options, "--out", str(tmp_path / "run"), "--lora", "2", "--set", "lora_parts=all"]) == 0
    output = capsys.readouterr().out
    assert (
        "27 rows of chat, of which only the assistant's answers are learned" in output and "qkv chat --model" in output
    )
    run = runs.resume(tmp_path / "run")
    x, y = run.task.batch(0, 0, 4)
    answers = [run.task.tokenizer.decode([i for i in row if i >= 0], special=True) for row in y.tolist()]
    assert answers == ["sat on the mat[EOS]"] * 4 and x.shape == y.shape
    assert main(["train", "--resume", str(tmp_path / "run"), "--chat", str(tmp_path / "chats.jsonl")]) == 0
    book = tmp_path / "book.txt"
    book.write_text("the cat sat on the mat\n" * 100)
    assert main([*options[:6], "--text", str(book)]) == 2
    assert main(["train", "lm", "--chat", str(tmp_path / "chats.jsonl")]) == 2
    assert main(["train", "lm", "--text", str(book), "--lora", "4"]) == 2
    err = capsys.readouterr().err
    assert "leave one of them out" in err and "--from MODEL" in err and "say which model with --from" in err


def test_a_model_without_a_template_learns_no_chats(runs_folder, tmp_path, talker, capsys, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "lm", "--from", str(runs_folder / "lm"), "--chat", "chats.jsonl"]) == 2
    assert "no chat template" in capsys.readouterr().err


def test_runs_of_the_same_text_have_separate_folders(runs_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = str(runs_folder / "book.txt")
    for more in ({}, {"lora": 2}):
        runs.start("lm", base=str(runs_folder / "lm"), source=book, changes={"steps": 1, **more})
    runs.start("lm", source=book, changes=SMALL)
    assert {path.name for path in Path("runs").iterdir()} == {"lm-book", "lm-book-lm", "lm-book-lm-lora"}
