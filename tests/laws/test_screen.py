"""Every verb escapes control characters and direction overrides in untrusted text before printing it.

Books, folder names, tokens, traces, templates and configs with such characters go through every verb.
"""

import io
import json
import re

import pytest

from qkv.cli import VERBS, main
from qkv.terminal.screen import UNSAFE, Screen, plain

UNTRUSTED = "\x1b[95mX\x1b]0;owned\x07\x9b2J\x7f\b\u202e\u2066\r"
SMALL = "--set n_layer=1 --set width=16 --set n_head=2 --set eval_batches=1 --context 16 --batch 4 --steps 2".split()
OUR_ESCAPES = re.compile(r"\x1b\[(?:[0-9;]*m|K)")  # colours and clearing of the progress line


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Return a folder with a run of each task, a trace, a chat model and damaged files, all with untrusted text."""
    folder = tmp_path_factory.mktemp("shelf") / plain(UNTRUSTED).replace("\\u001b", "\x1b").replace("/", "")
    folder.mkdir()
    (folder / "book.txt").write_text(f"{UNTRUSTED} the cat {UNTRUSTED} sat\n" * 60, encoding="utf-8", newline="")
    (folder / "pairs.tsv").write_text(f"cat{UNTRUSTED[:-1]}\t猫{UNTRUSTED[:-1]}\n" * 40, encoding="utf-8", newline="")
    (folder / "uneven.tsv").write_text(f"cat{UNTRUSTED[:-1]}\t猫\n{UNTRUSTED[:-1]}\n", encoding="utf-8", newline="")
    for task, option, file in (("lm", "--text", "book.txt"), ("mlm", "--text", "book.txt")):
        assert main(["train", task, option, str(folder / file), "--out", str(folder / task), *SMALL]) == 0
    translate = ["train", "translate", "--pairs", str(folder / "pairs.tsv"), "--out", str(folder / "translate")]
    assert main([*translate, *SMALL]) == 0
    (folder / "labels.tsv").write_text(
        f"cat{UNTRUSTED[:-1]}\tgood{UNTRUSTED[:-1]}\nmat\tbad\n" * 20, encoding="utf-8", newline=""
    )
    classify = ["train", "classify", "--pairs", str(folder / "labels.tsv"), "--from", str(folder / "mlm")]
    assert main([*classify, "--out", str(folder / "classify"), "--steps", "2", "--batch", "4"]) == 0
    tokenizer_config = json.loads((folder / "lm" / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer_config["chat_template"] = UNTRUSTED + "{{ messages[0].content }}"
    (folder / "lm" / "tokenizer_config.json").write_text(json.dumps(tokenizer_config), encoding="utf-8")
    saved = ["--save", str(folder / "trace.safetensors")]
    assert main(["see", f"the cat {UNTRUSTED}", "--model", str(folder / "lm"), *saved]) == 0
    (folder / "odd").mkdir()
    (folder / "odd" / "config.json").write_text(json.dumps({"model_type": UNTRUSTED, "architectures": [UNTRUSTED]}))
    (folder / "bad").mkdir()
    (folder / "bad" / "config.json").write_text(UNTRUSTED)
    (folder / "attention.py").write_text(
        f"def attend(q, k, v):\n    raise ValueError({UNTRUSTED!r})\n\ndef attention(q, k, v):\n    return q  # {UNTRUSTED[:-1]}\n",
        encoding="utf-8",
        newline="",
    )
    (folder / "matrices.json").write_text(json.dumps({UNTRUSTED: [[1]]}))
    return folder


LM, TRACE = ["--model", "{}/lm"], ["--trace", "{}/trace.safetensors"]
CASES = {
    "steps": [[UNTRUSTED], ["the cat", *LM], [f"a {UNTRUSTED}", "--word", UNTRUSTED], ["--file", "{}/matrices.json"], ["a", "--mask", UNTRUSTED]],
    "see": [
        TRACE,
        [*TRACE, "--from", "X", "--patterns"],
        [*TRACE, "--from", UNTRUSTED],
        [f"the cat {UNTRUSTED}", *LM, "--without", "0.0"],
        [f"cat{UNTRUSTED}", "--model", "{}/translate", "--cross"],
        ["a", "--model", "{}/odd"],
        ["a", "--model", "{}/bad"],
        [UNTRUSTED, "--model", UNTRUSTED],
    ],
    "studio": [["--no-browser", UNTRUSTED], ["--host", UNTRUSTED]],
    "importance": [[f"the cat {UNTRUSTED}", *LM], ["a", "--model", UNTRUSTED]],
    "masks": [[UNTRUSTED], [f"window:{UNTRUSTED}"]],
    "check": [["{}/attention.py"], ["{}/attention.py", "--json"], ["{}/attention.py", "--markdown"], [f"{UNTRUSTED}.py:x"]],
    "learn": [["--folder", "{}/learn", UNTRUSTED], ["--folder", "{}/learn"]],
    "train": [["lm", "--text", "{}/nothing"], ["lm", "--text", "{}/book.txt", "--set", f"{UNTRUSTED}=1"], ["--resume", "{}/lm"]],
    "generate": [["the cat", *LM, "--most", "64", "--temperature", "2"], [UNTRUSTED, *LM], ["a", "--model", "{}/bad"]],
    "chat": [["the cat", *LM, "--most", "20"], ["the cat", "--model", "{}/odd"]],
    "fill": [["the [MASK]", "--model", "{}/mlm", "--top", "20"], [UNTRUSTED, "--model", "{}/mlm"]],
    "translate": [[f"cat{UNTRUSTED}", "--model", "{}/translate", "--most", "16"], [UNTRUSTED, "--demo"]],
    "classify": [
        ["the cat", f"cat{UNTRUSTED}", "--model", "{}/classify"],
        ["the cat", "--model", "{}/classify", "--json"],
        ["--file", "{}/labels.tsv", "--model", "{}/classify"],
    ],
    "caption": [[UNTRUSTED, "--demo"], ["{}/book.txt", "--demo"], ["{}/book.txt", "--model", UNTRUSTED]],
    "eval": [
        ["--model", "{}/classify", "--pairs", "{}/labels.tsv", "--each"],
        [f"the cat {UNTRUSTED}", *LM, "--tokens"],
        [*LM, "--text", "{}/book.txt", "--json"],
        ["--model", "{}/translate", "--pairs", "{}/pairs.tsv", "--each", "--most", "4"],
        ["--model", "{}/translate", "--pairs", "{}/uneven.tsv", "--json", "--most", "4"],
        ["--model", "{}/translate", "--pairs", UNTRUSTED],
    ],
    "export": [["{}/lm", "--out", "{}/out"], ["{}/odd"], [UNTRUSTED]],
    "models": [["show", "{}/lm"], ["show", "{}/odd"], ["show", UNTRUSTED], ["get", UNTRUSTED]],
    "lab": [[UNTRUSTED], ["memory", "--model", UNTRUSTED]],
    "data": [["prepare", "{}/book.txt", "--out", "{}/tokens"], ["get", UNTRUSTED], ["prepare", UNTRUSTED, "--out", "{}/more"]],
}  # fmt: skip


def test_every_verb_is_tried():
    assert CASES.keys() == VERBS.keys()


@pytest.mark.parametrize(("verb", "colour"), [*((verb, "") for verb in CASES), ("see", "1"), ("check", "1")])
def test_untrusted_text_is_escaped(verb, colour, shelf, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", colour)
    monkeypatch.chdir(shelf)
    capsys.readouterr()
    escaped = False
    for arguments in CASES[verb]:
        try:
            main([verb, *(word.replace("{}", str(shelf)) for word in arguments)])
        except SystemExit:
            pass  # an argparse error
        for text in capsys.readouterr():
            assert "\x1b[95m" not in text
            unsafe = UNSAFE.search(OUR_ESCAPES.sub("", text) if colour else text)
            assert unsafe is None, f"{arguments}: {text[max(unsafe.start() - 80, 0) : unsafe.end() + 20]!r}"
            escaped = escaped or any(form in text for form in (r"\u00", r"\x1b", r"\u20"))
    assert escaped


def test_line_ends_survive_split_writes():
    stream = io.StringIO(newline="")
    screen = Screen(stream)
    for piece in ("a\r\nb\r", "\nc\r", "d\t\r", "\r\n", "e\r"):
        assert screen.write(piece) == len(piece)
    screen.settle()
    assert stream.getvalue() == "a\r\nb\r\nc\\u000dd\t\\u000d\r\ne\\u000d"
