"""`qkv lab` as a person meets it: tables, figures and paragraphs in both languages, and what it says to nonsense."""

import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import cache, partial

import pytest

from qkv.cli import main
from qkv.lab import EXPERIMENTS, report, run
from tests.selection import slow_except

HAN = re.compile("[\u4e00-\u9fff]")
QUICK = {
    "scaling": "--numbers 500 --widths 4,64 --keys 16 --queries 32",
    "complexity": "--lengths 64,128,256 --window 8 --width 8 --context 8 --to 1000",
    "memory": "--model gpt2 --length 1024",
    "distance": "--gaps 2,4 --symbols 3 --steps 3 --width 8 --batch 4",
    "heads": "--heads 1,2 --length 4 --symbols 8 --steps 3 --width 8 --batch 4",
    "mixers": f"--text {shlex.quote(__file__)} --steps 2 --recall-steps 2 --pairs 1,2 --lengths 8,64 --width 8 --state 2 --seeds 1",
    "seq2seq": "--steps 2 --width 8 --batch 4 --tests 3",
    "masks": "--words 'we go' --source 'a b c'",
}


@pytest.fixture
def call(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "race", partial(report.race, rounds=1, seconds=0))

    def run_command(*arguments):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capfd.readouterr()

    return run_command


def quick(name):
    return shlex.split(QUICK[name])


@cache
def measure_once(name):
    """What an experiment found, and how far it said it was: measured once, told in several ways."""
    updates, arguments = [], quick(name)
    names = {size.option: size.name for size in EXPERIMENTS[name].sizes}
    sizes = {names[option]: size for option, size in zip(arguments[::2], arguments[1::2], strict=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "race", partial(report.race, rounds=1, seconds=0))
        results = run(name, lambda *now: updates.append(now), **sizes)
    return results, updates


@pytest.fixture
def skip_figures(monkeypatch):
    for name in EXPERIMENTS:
        monkeypatch.setattr(f"qkv.lab.{name}.draw", lambda results, path: None)


@pytest.fixture
def reuse_measurements(monkeypatch):
    monkeypatch.setattr("qkv.commands.lab.measured", lambda name, progress, **sizes: measure_once(name)[0])


def test_the_command_line_passes_the_sizes(call, skip_figures):
    for name in ("scaling", "masks"):
        results = json.loads(call("lab", name, *quick(name), "--json")[1])
        assert {key: results[key] for key in measure_once(name)[0]} == json.loads(json.dumps(measure_once(name)[0]))


@pytest.mark.usefixtures("reuse_measurements")
@pytest.mark.parametrize(
    ("name", "lang"),
    slow_except(
        [(name, lang) for name, lang in zip(EXPERIMENTS, itertools.cycle(["en", "zh"]), strict=False)],
        itertools.product(EXPERIMENTS, ["en", "zh"]),
    ),
)
def test_every_experiment_prints_a_table_a_paragraph_and_a_figure(call, tmp_path, name, lang):
    code, out, err = call("lab", name, *quick(name), "--lang", lang)
    assert code == 0, err
    assert "───" in out and ("wrote" if lang == "en" else "已写入") in out
    paragraph = out.strip().split("\n\n")[-2]
    assert len(paragraph) > 100 and bool(HAN.search(paragraph)) == (lang == "zh")
    assert not re.search(r"\{\w+\}|nan|None|_first|Traceback", out)
    picture = tmp_path / "out" / f"lab-{name}.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and picture.stat().st_size > 10_000


@pytest.mark.usefixtures("reuse_measurements")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_json_has_the_numbers_and_nothing_else_is_printed(call, tmp_path, name):
    code, out, err = call("lab", name, *quick(name), "--json", "-o", tmp_path / "x.svg")
    assert code == 0, err
    results = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert results["experiment"] == name and results["shows"] and results["figure"].endswith("x.svg")
    assert "<svg" in (tmp_path / "x.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_progress_counts_expected_seconds(name):
    _, updates = measure_once(name)
    if name in ("memory", "masks"):  # done at once
        assert updates == []
        return
    assert updates[0][1] > 0 and {total for _, total in updates} == {updates[0][1]}, "expected once, by a small step"
    assert [done for done, _ in updates] == sorted(done for done, _ in updates)


@pytest.mark.parametrize(
    ("name", "lang"), [("scaling", "en"), pytest.param("complexity", "en", marks=pytest.mark.slow), ("distance", "zh")]
)
def test_the_estimated_time_is_measured_and_printed(call, skip_figures, monkeypatch, name, lang):
    """Not a constant: twice as long a small step makes twice as long an experiment."""
    estimates = []
    for took in (50.0, 100.0):
        monkeypatch.setattr(f"qkv.lab.{name}.small_step", lambda work, took=took: took)
        code, _, err = call("lab", name, *quick(name), "--lang", lang)
        estimates += [
            int(n) for n in re.findall(r"take about (\d+) s here" if lang == "en" else r"大约需要 (\d+) 秒", err)
        ]
    assert (
        code == 0
        and len(estimates) == 2
        and estimates[0] > 50
        and estimates[1] == pytest.approx(2 * estimates[0], rel=0.02)
    )
    monkeypatch.setattr(f"qkv.lab.{name}.small_step", lambda work: 0.0)
    monkeypatch.setattr(report, "race_seconds", lambda once: once)
    assert "about" not in call("lab", name, *quick(name))[2], "what is done at once needs no word"


def test_compiling_is_optional(call, skip_figures, monkeypatch):
    monkeypatch.setattr("qkv.train.machine.compiler", lambda: None)
    for options, message in (
        ([], "--compile measures a compiled step too"),
        (["--compile"], "no C++ compiler"),
        (["--compile", "1"], "no C++ compiler"),
    ):
        code, out, _ = call("lab", "complexity", *options, *quick("complexity"))
        assert code == 0 and message in " ".join(out.split())  # where a line ends depends on the numbers in it


def test_the_list_has_a_line_for_each(call):
    for lang in ("en", "zh"):
        code, out, _ = call("lab", "--lang", lang)
        assert code == 0
        for name, experiment in EXPERIMENTS.items():
            assert name in out and experiment.line.say(lang) in out and experiment.example in out


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_names_every_size_in_both_languages(call, name):
    for lang in ("en", "zh"):
        code, out, _ = call("lab", name, "--help", "--lang", lang)
        assert code == 0
        for size in EXPERIMENTS[name].sizes:
            assert size.option in out
            assert size.means.say(lang).replace(" ", "")[:20] in re.sub(r"\s", "", out)
        assert lang == "en" or "选项：" in out


def test_looking_at_the_help_needs_no_torch():
    script = "import sys; sys.argv = ['qkv', 'lab']; from qkv.cli import main; main(); print('', *sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "matplotlib"} & set(out.splitlines()[-1].split())


MISTAKES = {
    "scalin": ("did you mean 'scaling'?", "不能是 'scalin'"),
    "scaling --widths 4,x": ("separated by commas", "用逗号隔开的整数"),
    "scaling --widths 0": ("--widths is 0", "--widths 是 0"),
    "scaling --widths ,": ("separated by commas", "用逗号隔开的整数"),
    "scaling --std nan": ("--std is nan", "--std 是 nan"),
    "scaling --std -1": ("--std is -1", "--std 是 -1"),
    "scaling --numbers many": ("--numbers is many", "--numbers 是 many"),
    "scaling --seed -1": ("--seed is -1", "--seed 是 -1"),
    "scaling -o picture.gif": (".png or .svg or .pdf", ".png 或 .svg 或 .pdf"),
    "complexity --lengths 64,128": ("2 lengths are too few", "2 个长度太少"),
    "complexity --lengths 64,128,256 --heads 64 --width 0": ("--width is 0", "--width 是 0"),
    "complexity --lengths 20000,30000,40000": ("plain attention can be measured up to", "最多只能测到"),
    "memory --model lama-3-8b": ("did you mean 'llama-3-8b'", "是不是想写 llama-3-8b"),
    "memory --model bert": ("is an encoder", "是编码器"),
    "memory --model tiny-mamba2": ("keeps a state of one size", "大小固定的状态"),
    "memory --kv-heads 5": ("5", "5"),
    "memory --bytes 3": ("--bytes is 3", "--bytes 是 3"),
    "memory --length 1.5": ("--length is 1.5", "--length 是 1.5"),
    "distance --gaps 0,4": ("--gaps is 0,4", "--gaps 是 0,4"),
    "distance --width 10": ("10", "10"),
    "heads --heads 3": ("3 heads of an even width", "3 个偶数宽的头"),
    "heads --steps 0": ("--steps is 0", "--steps 是 0"),
    "mixers --width 12": ("12", "12"),
    "mixers --pairs 0,4": ("--pairs is 0,4", "--pairs 是 0,4"),
    "mixers --layers 1": ("--layers is 1", "--layers 是 1"),
    "mixers --text nowhere.txt": ("nowhere.txt", "nowhere.txt"),
    "mixers --tune 2": ("--tune is 2", "--tune 是 2"),
    "seq2seq --date ''": ("--date is empty", "--date 是空的"),
    "seq2seq --date hello": ("hello, not a date in a form", "hello，不是两个模型要学的日期写法"),
    "seq2seq --width 20": ("20", "20"),
    "masks --words hello": ("give both --words", "要么都给"),
    "masks --widht 3": ("--widht", "--widht"),
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("arguments", MISTAKES)
def test_bad_arguments_are_reported_in_a_sentence(call, tmp_path, arguments, lang):
    words = [word.strip("'") for word in re.findall(r"'.*?'|\S+", arguments)]
    code, out, err = call("lab", *words, "--lang", lang)
    assert code == 2 and not out, out + err
    assert MISTAKES[arguments][lang == "zh"] in err, err
    assert "Traceback" not in err and "此说明只有英文" not in err
    assert lang == "en" or HAN.search(err), err


def test_an_unwritable_figure_path_is_reported_before_measuring(call, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = call("lab", "distance", "-o", tmp_path / "file" / "x.png")
    assert code == 2 and "file" in err and "Traceback" not in err


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.usefixtures("warm")
def test_ctrl_c_stops_quietly(tmp_path):
    script = "import torch; print('ready', flush=True); from qkv.cli import main; raise SystemExit(main())"
    command = [sys.executable, "-c", script, "lab", "distance", "--gaps", "512", "--steps", "100000"]
    environment = os.environ | {"QKV_LANG": "en", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.splitlines()[-1] == "stopped" and not out and "Traceback" not in err
