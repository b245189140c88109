"""No verb lets a stranger's text speak to the terminal: escapes and overrides of direction are shown, never sent.

A book, a folder's name, tokens, traces, templates and configs full of them go through every verb that there is.
"""

import io
import json
import re

import pytest

from qkv.cli import VERBS, main
from qkv.terminal.screen import UNSAFE, Screen, plain

EVIL = "\x1b[95mX\x1b]0;owned\x07\x9b2J\x7f\b\u202e\u2066\r"
SMALL = "--set n_layer=1 --set width=16 --set n_head=2 --set eval_batches=1 --context 16 --batch 4 --steps 2".split()
OURS = re.compile(r"\x1b\[(?:[0-9;]*m|K)")  # colours and the wiping of a live line


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A run of each task, a trace, a chat model and a few damaged things, all of evil text in a folder of evil name."""
    folder = tmp_path_factory.mktemp("shelf") / plain(EVIL).replace("\\u001b", "\x1b").replace("/", "")
    folder.mkdir()
    (folder / "book.txt").write_text(f"{EVIL} the cat {EVIL} sat\n" * 60, encoding="utf-8", newline="")
    (folder / "pairs.tsv").write_text(f"cat{EVIL[:-1]}\t猫{EVIL[:-1]}\n" * 40, encoding="utf-8", newline="")
    (folder / "uneven.tsv").write_text(f"cat{EVIL[:-1]}\t猫\n{EVIL[:-1]}\n", encoding="utf-8", newline="")
    for task, given, file in (("lm", "--text", "book.txt"), ("mlm", "--text", "book.txt")):
        assert main(["train", task, given, str(folder / file), "--out", str(folder / task), *SMALL]) == 0
    translate = ["train", "translate", "--pairs", str(folder / "pairs.tsv"), "--out", str(folder / "translate")]
    assert main([*translate, *SMALL]) == 0
    (folder / "labels.tsv").write_text(
        f"cat{EVIL[:-1]}\tgood{EVIL[:-1]}\nmat\tbad\n" * 20, encoding="utf-8", newline=""
    )
    classify = ["train", "classify", "--pairs", str(folder / "labels.tsv"), "--from", str(folder / "mlm")]
    assert main([*classify, "--out", str(folder / "classify"), "--steps", "2", "--batch", "4"]) == 0
    told = json.loads((folder / "lm" / "tokenizer_config.json").read_text(encoding="utf-8"))
    told["chat_template"] = EVIL + "{{ messages[0].content }}"
    (folder / "lm" / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    saved = ["--save", str(folder / "trace.safetensors")]
    assert main(["see", f"the cat {EVIL}", "--model", str(folder / "lm"), *saved]) == 0
    (folder / "odd").mkdir()
    (folder / "odd" / "config.json").write_text(json.dumps({"model_type": EVIL, "architectures": [EVIL]}))
    (folder / "bad").mkdir()
    (folder / "bad" / "config.json").write_text(EVIL)
    (folder / "attention.py").write_text(
        f"def attend(q, k, v):\n    raise ValueError({EVIL!r})\n\ndef attention(q, k, v):\n    return q  # {EVIL[:-1]}\n",
        encoding="utf-8",
        newline="",
    )
    (folder / "matrices.json").write_text(json.dumps({EVIL: [[1]]}))
    return folder


LM, TRACE = ["--model", "{}/lm"], ["--trace", "{}/trace.safetensors"]
CASES = {
    "steps": [[EVIL], ["the cat", *LM], [f"a {EVIL}", "--word", EVIL], ["--file", "{}/matrices.json"], ["a", "--mask", EVIL]],
    "see": [
        TRACE,
        [*TRACE, "--from", "X", "--patterns"],
        [*TRACE, "--from", EVIL],
        [f"the cat {EVIL}", *LM, "--without", "0.0"],
        [f"cat{EVIL}", "--model", "{}/translate", "--cross"],
        ["a", "--model", "{}/odd"],
        ["a", "--model", "{}/bad"],
        [EVIL, "--model", EVIL],
    ],
    "studio": [["--no-browser", EVIL], ["--host", EVIL]],
    "importance": [[f"the cat {EVIL}", *LM], ["a", "--model", EVIL]],
    "masks": [[EVIL], [f"window:{EVIL}"]],
    "check": [["{}/attention.py"], ["{}/attention.py", "--json"], ["{}/attention.py", "--markdown"], [f"{EVIL}.py:x"]],
    "learn": [["--folder", "{}/learn", EVIL], ["--folder", "{}/learn"]],
    "train": [["lm", "--text", "{}/nothing"], ["lm", "--text", "{}/book.txt", "--set", f"{EVIL}=1"], ["--resume", "{}/lm"]],
    "generate": [["the cat", *LM, "--most", "64", "--temperature", "2"], [EVIL, *LM], ["a", "--model", "{}/bad"]],
    "chat": [["the cat", *LM, "--most", "20"], ["the cat", "--model", "{}/odd"]],
    "fill": [["the [MASK]", "--model", "{}/mlm", "--top", "20"], [EVIL, "--model", "{}/mlm"]],
    "translate": [[f"cat{EVIL}", "--model", "{}/translate", "--most", "16"], [EVIL, "--demo"]],
    "classify": [
        ["the cat", f"cat{EVIL}", "--model", "{}/classify"],
        ["the cat", "--model", "{}/classify", "--json"],
        ["--file", "{}/labels.tsv", "--model", "{}/classify"],
    ],
    "caption": [[EVIL, "--demo"], ["{}/book.txt", "--demo"], ["{}/book.txt", "--model", EVIL]],
    "eval": [
        ["--model", "{}/classify", "--pairs", "{}/labels.tsv", "--each"],
        [f"the cat {EVIL}", *LM, "--tokens"],
        [*LM, "--text", "{}/book.txt", "--json"],
        ["--model", "{}/translate", "--pairs", "{}/pairs.tsv", "--each", "--most", "4"],
        ["--model", "{}/translate", "--pairs", "{}/uneven.tsv", "--json", "--most", "4"],
        ["--model", "{}/translate", "--pairs", EVIL],
    ],
    "export": [["{}/lm", "--out", "{}/out"], ["{}/odd"], [EVIL]],
    "models": [["show", "{}/lm"], ["show", "{}/odd"], ["show", EVIL], ["get", EVIL]],
    "lab": [[EVIL], ["memory", "--model", EVIL]],
    "data": [["prepare", "{}/book.txt", "--out", "{}/tokens"], ["get", EVIL], ["prepare", EVIL, "--out", "{}/more"]],
}  # fmt: skip


def test_every_verb_is_tried():
    assert CASES.keys() == VERBS.keys()


@pytest.mark.parametrize(("verb", "colour"), [*((verb, "") for verb in CASES), ("see", "1"), ("check", "1")])
def test_what_strangers_write_is_shown_and_not_sent(verb, colour, shelf, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", colour)
    monkeypatch.chdir(shelf)
    capsys.readouterr()
    shown = False
    for given in CASES[verb]:
        try:
            main([verb, *(word.replace("{}", str(shelf)) for word in given)])
        except SystemExit:
            pass  # argparse has spoken
        for text in capsys.readouterr():
            assert "\x1b[95m" not in text
            sent = UNSAFE.search(OURS.sub("", text) if colour else text)
            assert sent is None, f"{given}: {text[max(sent.start() - 80, 0) : sent.end() + 20]!r}"
            shown = shown or any(form in text for form in (r"\u00", r"\x1b", r"\u20"))
    assert shown


def test_line_ends_stay_also_in_pieces():
    stream = io.StringIO(newline="")
    screen = Screen(stream)
    for piece in ("a\r\nb\r", "\nc\r", "d\t\r", "\r\n", "e\r"):
        assert screen.write(piece) == len(piece)
    screen.settle()
    assert stream.getvalue() == "a\r\nb\r\nc\\u000dd\t\\u000d\r\ne\\u000d"
