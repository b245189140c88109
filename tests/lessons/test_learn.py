"""The command `qkv learn`, in both languages."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from qkv.cli import main
from qkv.lessons import lesson
from qkv.lessons.exercise_folder import FILE, Folder
from qkv.lessons.lesson import COURSE, NAMES, filename, render

HAN = re.compile("[\u4e00-\u9fff]")


@pytest.fixture
def learn(warm, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capfd.readouterr()
        try:
            code = main(["learn", *map(str, arguments)])
        except SystemExit as stop:
            code = stop.code
        return code, *capfd.readouterr()

    return run


def solve(folder, name):
    (folder / filename(name)).write_text(render(name, "en", solved=True), encoding="utf-8")


def test_the_course_is_complete():
    assert len(COURSE) == len(set(NAMES)) == 21
    files = {path.name for path in lesson.files("qkv.lessons").joinpath("exercises").iterdir()}
    graders = {path.name for path in lesson.files("qkv.lessons").joinpath("graders").iterdir()}
    assert {f"{name}.py" for name in NAMES} | {"__init__.py", "__pycache__"} >= files | graders


def test_from_the_list_to_the_next(learn, tmp_path):
    code, out, err = learn()
    assert code == 0 and not err and "0 of 21 solved" in out and "→  1  attention by hand" in out
    assert "qkv learn check" in out and (tmp_path / "learn" / "01_by_hand.py").read_text() == render("by_hand", "en")
    code, out, _ = learn("check")
    assert code == 1 and "the hole is still there" in out and "qkv learn hint" in out
    code, out, _ = learn("hint")
    assert code == 0 and out.startswith("Hint 1 of 5")
    assert learn("hint")[1].startswith("Hint 2 of 5")
    solve(tmp_path / "learn", "by_hand")
    code, out, _ = learn("check")
    assert code == 0 and "✓ 1 attention by hand: right" in out and "Next: exercise 2" in out
    code, out, _ = learn()
    assert (
        "1 of 21 solved" in out and "✓  1" in out and "→  2" in out and (tmp_path / "learn" / "02_scores.py").exists()
    )


def test_the_same_in_chinese(learn, tmp_path):
    code, out, _ = learn("--lang", "zh")
    assert code == 0 and "已完成 0/21" in out and "手算注意力" in out
    text = (tmp_path / "learn" / "01_by_hand.py").read_text(encoding="utf-8")
    assert text == render("by_hand", "zh") and HAN.search(text)
    text = text.replace("scores = [..., ..., ...]", "scores = [4, 2, 0]")
    (tmp_path / "learn" / "01_by_hand.py").write_text(text.replace("scaled = [..., ..., ...]", "scaled = [1, 0.5, 0]"))
    code, out, _ = learn("check", "--lang", "zh")
    assert code == 1 and "是分数除以 d = 4" in out and "还不对（5 个问题对了 1 个）" in out
    assert "练习 1 提示 1/5" in learn("hint", "--lang", "zh")[1]
    for line in out.splitlines():
        assert HAN.search(line), line


def test_a_hint_is_about_the_step_that_was_wrong(learn, tmp_path):
    learn("3")
    file = tmp_path / "learn" / "03_scaling.py"
    assert "last size of q" in learn("hint", 3)[1]
    solved = lesson.render("scaling", "en", solved=True)
    file.write_text(solved.replace("scaled.max(-1)", "scaled.max(0)"))
    assert learn("check", 3)[0] == 1
    assert "largest_weights:" in learn("hint", 3)[1]  # the first step was right
    assert learn("reset", 3, "--yes")[0] == 0
    assert "last size of q" in learn("hint", 3)[1]


def test_after_the_last_hint_the_solution_is_named(learn):
    for _ in lesson.load("scores").ordered_hints():
        assert "Hint" in learn("hint", "scores")[1]
    for _ in range(2):
        assert "qkv learn solution 2" in learn("hint", 2)[1]


def test_an_exercise_by_number_name_or_file(learn, tmp_path):
    assert "04_softmax.py" in learn(4)[1] and "04_softmax.py" in learn("softmax")[1]
    assert "→  4" in learn()[1]
    solve(tmp_path / "learn", "softmax")
    mine = tmp_path / "elsewhere"
    mine.mkdir()
    solve(mine, "softmax")
    assert learn("check", mine / "04_softmax.py")[0] == 0
    assert "→  1" in learn()[1] and "✓  4" in learn()[1]


def test_what_was_edited_is_never_written_over(learn, tmp_path):
    learn()
    path = tmp_path / "learn" / "01_by_hand.py"
    assert learn("--lang", "zh")[0] == 0 and HAN.search(
        path.read_text(encoding="utf-8")
    )  # unmodified: may change language
    mine = path.read_text(encoding="utf-8") + "# mine\n"
    path.write_text(mine, encoding="utf-8")
    for arguments in ([], [1], ["--lang", "zh"], ["by_hand"]):
        assert learn(*arguments)[0] == 0 and path.read_text(encoding="utf-8") == mine


def test_reset_confirms_and_keeps_a_backup(learn, tmp_path, monkeypatch):
    learn(3)
    path = tmp_path / "learn" / "03_scaling.py"
    solve(tmp_path / "learn", "scaling")
    learn("check", 3)
    code, _, err = learn("reset", 3)
    assert code == 2 and "--yes" in err and "raise NotImplementedError" not in path.read_text()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert "not changed" in learn("reset", 3)[1] and "raise NotImplementedError" not in path.read_text()
    code, _, _ = learn("reset", 3, "--yes")
    backup = tmp_path / "learn" / "backups" / "03_scaling.1.py"
    assert code == 0 and path.read_text() == render("scaling", "en") and "np.sqrt" in backup.read_text()
    assert "0 of 21 solved" in learn()[1]
    solve(tmp_path / "learn", "scaling")
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert learn("reset", 3)[0] == 0 and (backup.parent / "03_scaling.2.py").exists() and backup.exists()


def test_a_solution_is_written_on_request_only(learn, tmp_path):
    learn(5)
    assert not (tmp_path / "learn" / "solutions").exists()
    code, out, _ = learn("solution", 5)
    assert (
        code == 0 and "return weights @ v" in out and (tmp_path / "learn" / "solutions" / "05_weighted_sum.py").exists()
    )
    assert "已给出" in learn("solution", 5, "--lang", "zh")[1]


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"solved": 3, "hints": {}}', '{"solved": {}}', "\xff\x00", "[" * 5000]
)
def test_a_damaged_progress_file_is_reported_and_renamed(damage, learn, tmp_path):
    learn()
    (tmp_path / "learn" / FILE).write_text(damage, encoding="latin-1")
    code, out, err = learn()
    assert code == 0 and "could not be read" in err and "0 of 21" in out and "Traceback" not in err
    assert (tmp_path / "learn" / "qkv-learn.damaged.json").read_text(encoding="latin-1") == damage
    assert not learn()[2]


def test_progress_survives(learn, tmp_path):
    learn(2)
    solve(tmp_path / "learn", "scores")
    learn("check", 2)
    learn("hint", 5)
    progress = json.loads((tmp_path / "learn" / FILE).read_text())
    assert list(progress["solved"]) == ["scores"] and progress["hints"] == {"weighted_sum": 1}
    again = Folder(tmp_path / "learn")
    assert again.solved == progress["solved"] and again.hints == progress["hints"] and again.current == "by_hand"
    progress["solved"] |= {"from a later version": "2030-01-01"}
    progress["hints"] |= {"scores": -3}
    (tmp_path / "learn" / FILE).write_text(json.dumps(progress))
    again = Folder(tmp_path / "learn")
    assert list(again.solved) == ["scores"] and again.hints == {"weighted_sum": 1} and again.damaged_file is None


def test_the_working_directory_may_be_the_folder(learn, tmp_path, monkeypatch):
    learn()
    monkeypatch.chdir(tmp_path / "learn")
    assert "01_by_hand.py" in learn()[1] and not (tmp_path / "learn" / "learn").exists()


def test_another_folder(learn, tmp_path):
    learn("--folder", tmp_path / "school" / "one")
    assert (tmp_path / "school" / "one" / "01_by_hand.py").exists() and not (tmp_path / "learn").exists()


def test_check_all_counts_again(learn, tmp_path):
    learn(2)
    learn(5)
    solve(tmp_path / "learn", "scores")
    code, out, _ = learn("check", "all")
    assert code == 1 and "✓ 2" in out and "✗ 5" in out
    assert "1 of 21 solved" in learn()[1]


def test_all_solved(learn, tmp_path):
    learn()
    (tmp_path / "learn" / FILE).write_text(json.dumps({"solved": dict.fromkeys(NAMES, "2026-01-01"), "hints": {}}))
    code, out, _ = learn()
    assert code == 0 and "All 21 are solved" in out
    code, _, err = learn("check")
    assert code == 2 and "say which one" in err


MISTAKES = {
    ("22",): ("there is no exercise 22", "没有练习 22"),
    ("0",): ("from 1 to 21", "从 1 到 21"),
    ("sofmax",): ("did you mean softmax", "是不是想写 softmax"),
    ("xyzzy",): ("xyzzy is not an exercise", "没有 xyzzy 这个练习"),
    ("check", "7"): ("qkv learn 7 puts it there", "运行 qkv learn 7"),
    ("check", "all"): ("qkv learn 1 puts it there", "运行 qkv learn 1"),
    ("check", "1", "2"): ("takes one exercise, not 2", "只能有一个练习"),
    ("1", "2"): ("takes one exercise, not 2", "只能有一个练习"),
    ("chekc",): ("did you mean 'check'?", "是不是想写 check？"),
}


@pytest.mark.parametrize("typed", MISTAKES, ids=" ".join)
def test_mistakes_get_a_sentence(typed, learn, tmp_path):
    english, chinese = MISTAKES[typed]
    code, _, err = learn(*typed)
    assert code == 2 and english in err and "Traceback" not in err
    code, _, err = learn(*typed, "--lang", "zh")
    assert code == 2 and chinese in err and HAN.search(err)


def test_a_binary_file_is_refused(learn, tmp_path):
    (tmp_path / "02_scores.py").write_bytes(b"\x00\x01")
    assert "is not a text file" in learn("check", tmp_path / "02_scores.py")[2]


def test_a_short_output_is_printed_and_a_long_output_counted(learn, tmp_path):
    learn(2)
    path = tmp_path / "learn" / "02_scores.py"
    hole = "    ...  # your code\n    raise NotImplementedError\n"
    text = path.read_text()
    path.write_text(text.replace(hole, "    print('look', q.shape)\n    return k @ q.T\n", 1))
    code, out, _ = learn("check", 2)
    assert code == 1 and "Your code printed:\n    look (1, 2)\n" in out and "rows are keys" in out
    path.write_text(text.replace(hole, "    print('look\\n' * 100000)\n    return k @ q.T\n", 1))
    assert "your code printed 100001 lines; not shown" in learn("check", 2)[1]


def test_watch_grades_on_save_and_ends_with_ctrl_c(tmp_path):
    """In a separate process; a solved exercise is followed by the next."""
    env = {**os.environ, "QKV_LANG": "en", "PYTHONUNBUFFERED": "1"}
    watcher = subprocess.Popen(
        [sys.executable, "-m", "qkv", "learn", "watch"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert "watching" in watcher.stdout.readline() and "✗ 1" in watcher.stdout.readline()
        solve(tmp_path / "learn", "by_hand")
        output = ""
        while "02_scores.py" not in output:
            line = watcher.stdout.readline()
            assert line, output
            output += line
        assert "✓ 1" in output and "watching" in output
        time.sleep(0.5)
        watcher.send_signal(signal.SIGINT)
        rest, _ = watcher.communicate(timeout=20)
        assert watcher.returncode == 0 and "no longer watching" in rest and "Traceback" not in rest
    finally:
        watcher.kill()
    assert list(Folder(tmp_path / "learn").solved) == ["by_hand"]


def test_the_list_needs_no_torch_and_no_numpy():
    script = "import sys; from qkv.cli import main; main(['learn', '--folder', sys.argv[1]]); print('', *sys.modules)"
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy"} & set(done.stdout.splitlines()[-1].split())
