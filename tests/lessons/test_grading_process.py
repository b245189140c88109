"""No answer can hang, crash or deceive the grader; every error is explained with the learner's line."""

import json
import re
import sys
import time

import numpy as np
import pytest

from qkv.i18n import unpacked
from qkv.lessons import grading_process
from qkv.lessons.diagnosis import describe_difference as difference
from qkv.lessons.grade import Grade, grade
from qkv.lessons.lesson import render

pytestmark = pytest.mark.usefixtures("warm")
HOLE = "    ...  # your code\n    raise NotImplementedError\n"
LINE = render("scores", "en").split(HOLE)[0].count("\n") + 1  # of the answer
RIGHT = "q @ k.T"


def answer(body, name="scores"):
    """Return the exercise with its first hole filled."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return render(name, "en").replace(HOLE, lines, 1)


def elsewhere(tmp_path, text, seconds=None, name="scores"):
    file = tmp_path / "mine.py"
    file.write_text(text, encoding="utf-8")
    return grading_process.run(name, file, seconds)


MISTAKES = {
    "return q @ k.T +": (
        "unknown",
        f"line {LINE} is not valid Python yet (SyntaxError: invalid syntax):\n    return q @ k.T +",
    ),
    "return foo(q)": ("wrong", f"line {LINE} stopped with NameError: name 'foo' is not defined:\n    return foo(q)"),
    "x = 1\nreturn q[5]": ("wrong", f"line {LINE + 1} stopped with IndexError"),
    "q @ k.T": ("wrong", "gave None. The function"),
    "import sys\nsys.exit(0)": ("unknown", f"line {LINE + 1} ends the program (sys.exit)"),
    "return scores(q, k)": ("wrong", f"line {LINE} calls itself without end"),
    "q *= 2\nreturn q @ k.T / 2": ("wrong", "your function wrote into q"),
    "return 'no numbers'": ("wrong", "it gave a str that isn't a table of numbers"),
    "return [[1, 2], [3]]": ("wrong", "it gave a list that isn't a table of numbers"),
    "return (q @ k.T)[0]": ("wrong", "your result has the shape (3,); (1, 3) is right."),
    "return np.full((1, 3), np.nan)": ("wrong", "at [0, 0] you have nan; 11 is right."),
    "return q @ k.T * 1.5": ("wrong", "All your numbers are the right ones times 1.5."),
    "return q @ k.T + (k.shape[0] == 5)": ("wrong", "15 of 15 numbers differ"),
    "raise KeyError": ("wrong", f"line {LINE} stopped with KeyError"),
}


@pytest.mark.parametrize("body", MISTAKES, ids=lambda body: body.replace("\n", "; "))
def test_a_mistake_gets_a_sentence(body):
    verdict, sentence = MISTAKES[body]
    graded = grade("scores", answer(body), "02_scores.py")
    assert graded.verdict == verdict and any(sentence in message.say("en") for message in graded.messages), (
        graded.messages
    )
    assert all(message.say("zh") and message.say("zh") != message.say("en") for message in graded.messages)


def test_a_file_that_cannot_be_loaded():
    graded = grade("scores", "import numpy as np\nnp.nosuch\n" + render("scores", "en"), "02_scores.py")
    assert graded.verdict == "unknown" and "line 2 stopped with AttributeError" in graded.messages[0].say("en")
    graded = grade("scores", "x = 1\n", "02_scores.py")
    assert graded.verdict == "unknown" and "no scores in the file any more" in graded.messages[0].say("en")
    graded = grade("scores", "x = '\x00'", "02_scores.py")
    assert graded.verdict == "unknown"


def test_equivalent_code_is_right_too():
    for body in ("return np.einsum('nd,md->nm', q, k)", "return [[float(a @ b) for b in k] for a in q]"):
        graded = grade("scores", answer(body), "02_scores.py")
        assert graded.passed == 4 and graded.cause == "hole", graded.messages  # on to the second hole
    single = "return (q @ k.T).astype(np.float32)"
    assert grade("scores", answer(single), "02_scores.py").passed == 4


def test_a_root_in_single_precision_is_no_mistake():
    text = render("split_heads", "en", solved=True)
    text = text.replace("q.shape[-1] ** 0.5", "torch.sqrt(torch.tensor(q.shape[-1]))")
    assert "torch.sqrt" in text and grade("split_heads", text, "a.py").verdict == "right"


def test_cached_keys_may_be_stored_unrotated():
    """The contents of a cache don't matter if the outputs are right."""
    text = render("kv_cache", "en", solved=True)
    text = text.replace("q, k = rotate(q, places), rotate(k, places)\n", "q = rotate(q, places)\n")
    text = text.replace("scores = (q @ k.tr", "scores = (q @ rotate(k, torch.arange(k.shape[2])).tr")
    assert "q = rotate" in text and grade("kv_cache", text, "a.py").verdict == "right"


def test_output_belongs_to_the_question_that_printed_it():
    graded = grade("scores", "print('loading')\n" + answer("print(q.shape)\nreturn q @ k.T * (len(q) < 3)"), "a.py")
    assert graded.printed == "loading\n(3, 4)\n" and graded.lines == 2 and graded.passed == 1
    graded = grade("scores", answer("print('so much ' * 10 ** 6)\nprint('\\n' * 10 ** 6)\nreturn q"), "a.py")
    assert len(graded.printed) < 3000 and graded.lines > 10**6


def test_the_difference_in_words():
    table = np.arange(9.0).reshape(3, 3) ** 2
    assert "transposed" in difference(table.T, table)[-1].say("en")
    assert "order isn't" in difference(np.ones((2, 3)), np.ones((3, 2)))[-1].say("en")
    assert "inf" in difference(np.array([1.0, np.inf]), np.array([1.0, 2.0]))[0].say("en")
    assert "times 3" in difference(table * 3, table)[-1].say("en")
    assert len(difference(table * 0, table)) == 1  # "times 0" would say nothing


def test_differences_are_counted_with_the_tolerance_of_the_question():
    actual, expected = np.array([1.004, 2.0, 3.1, 9.0]), np.array([1.0, 2.0, 3.0, 7.0])
    assert "at [3] you have 9; 7 is right. 3 of 4" in difference(actual, expected)[0].say("en")
    assert "at [3] you have 9; 7 is right. 2 of 4" in difference(actual, expected, 0.01)[0].say("en")


def test_a_grade_crosses_as_json():
    graded = Grade("wrong", [unpacked({"en": "a", "zh": "甲"})], "id", 1, 2, "p", 3)
    assert Grade.from_dict(json.loads(json.dumps(graded.to_dict()))) == graded
    assert [Grade(v).exit_code for v in ("right", "wrong", "unknown")] == [0, 1, 2]


@pytest.mark.cold
def test_the_child_process_gives_the_same_grade(tmp_path):
    text = answer("return k @ q.T")
    assert elsewhere(tmp_path, text) == grade("scores", text, "02_scores.py")


def test_a_loop_without_end_is_ended(tmp_path):
    start = time.monotonic()
    graded = elsewhere(tmp_path, answer("while True:\n    pass"), seconds=1)
    assert time.monotonic() - start < 30
    assert graded.verdict == "unknown" and re.search(
        f"still at line ({LINE}|{LINE + 1}) ", graded.messages[0].say("en")
    )
    graded = elsewhere(
        tmp_path, answer("try:\n    import time; time.sleep(99)\nexcept BaseException:\n    pass"), seconds=0.2
    )
    assert graded.verdict == "unknown" and "time was up" in graded.messages[0].say("en"), graded.messages


def test_a_process_that_ends_itself(tmp_path):
    graded = elsewhere(tmp_path, answer("import os\nos._exit(0)"))
    assert graded.verdict == "unknown" and "without an answer (exit code 0)" in graded.messages[0].say("en")
    graded = elsewhere(tmp_path, answer("import signal\nsignal.raise_signal(signal.SIGSEGV)"))
    assert graded.verdict == "unknown" and "without an answer" in graded.messages[0].say("en")


def test_it_may_not_change_files(tmp_path):
    """The audit hook refuses changes from Python, the kernel those from C."""
    (tmp_path / "mine.txt").write_text("mine")
    path = str(tmp_path / "mine.txt")
    graded = elsewhere(tmp_path, answer(f"import os\nos.remove({path!r})"))
    assert graded.verdict == "unknown" and "os.remove is not allowed" in graded.messages[-1].say("en"), graded.messages
    if sys.platform == "linux":
        elsewhere(tmp_path, answer(f"import ctypes\nctypes.CDLL(None).unlink({path.encode()!r})\nreturn q @ k.T"))
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="memory can be limited on Linux only")
def test_memory_has_a_limit(tmp_path):
    graded = elsewhere(tmp_path, answer("np.zeros(1 << 29)\nreturn q @ k.T"))  # 4 GB, of which nothing is touched
    assert graded.verdict == "unknown" and f"line {LINE} asked for more memory" in graded.messages[-1].say("en"), (
        graded.messages
    )


FORGED = {
    "half of one": 'b\'{"verdict": "ri\'',
    "one without the number": 'b\'\\n{"event": "grade", "grade": {"verdict": "right", "messages": []}}\\n\'',
}


@pytest.mark.parametrize("forged", FORGED)
def test_an_answer_that_the_persons_code_writes_is_none(tmp_path, forged):
    """A forged message in the pipe does not become a grade."""
    graded = elsewhere(tmp_path, answer(f"import os, sys\nos.write(int(sys.argv[1]), {FORGED[forged]})\nos._exit(0)"))
    assert graded.verdict == "unknown" and "without an answer" in graded.messages[0].say("en"), graded.messages


def test_the_doctor_is_consulted_if_no_wrong_answer_matches():
    """No wrong answer has this scale; the doctor measures it."""
    text = render("merge_heads", "en", solved=True).replace("q.shape[-1] ** 0.5", "q.shape[-1] ** 0.25")
    graded = grade("merge_heads", text, "a.py")
    assert graded.verdict == "wrong" and not graded.cause
    assert any(
        "qkv check finds" in message.say("en") and "qkv check 发现" in message.say("zh") for message in graded.messages
    ), graded.messages


def test_a_doctor_that_fails_is_not_the_persons_fault(monkeypatch):
    def ill(*_, **__):
        raise RuntimeError("ill")

    monkeypatch.setattr("qkv.doctor.doctor.check", ill)
    text = render("merge_heads", "en", solved=True).replace("q.shape[-1] ** 0.5", "q.shape[-1] ** 0.25")
    graded = grade("merge_heads", text, "a.py")
    assert graded.verdict == "wrong" and len(graded.messages) == 2 and "numbers differ" in graded.messages[1].say("en")
