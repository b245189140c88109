"""Score `qkv check` on code by independent authors (tests/doctor/corpora/strangers).

    .venv/bin/python tools/score_check.py [--write] [part of a path …]

--write stores wrong verdicts in missed.json, which tests/doctor/test_strangers.py compares.
"""

import json
import os
import select
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent / "tests" / "doctor" / "corpora" / "strangers"
REMARKS = ("E1", "M18", "N1")  # not mistakes by themselves: a remark is the correct answer
WORKERS = 2


def cases() -> dict[str, dict[str, Any]]:
    """Return each definition by path:Name, with the expected id; without an id if it is right."""
    answers = json.loads((HERE / "answers.json").read_text(encoding="utf-8"))
    return {
        f"{file}:{name}": {"file": file, "name": name, **answer}
        for file, answer in answers.items()
        for name in answer.get("names", [answer.get("name")])
    }


def check_case(case: dict[str, Any]) -> dict[str, Any]:
    """Return verdict, ids, lines, and `wrong`: "", "missed", "alarm" or "not run"."""
    from qkv.doctor import doctor
    from qkv.doctor.source import file as source

    file = source.read(HERE / case["file"])
    try:
        report = doctor.check(file.load(case["name"]), source=file, name=case["name"])
    except Exception as error:
        return {"verdict": "unknown", "ids": [], "lines": [], "problem": repr(error), "wrong": "not run"}
    ids, remarks = [finding.id for finding in report.findings], [finding.id for finding in report.remarks]
    wrong = "not run" if report.verdict == "unknown" else ""
    if not wrong and "id" in case:
        named = case["id"] in ids or (case["id"] in REMARKS and case["id"] in remarks)
        wrong = "" if named else "missed"
    elif not wrong and ids:
        wrong = "alarm"
    lines = [finding.line for finding in report.findings]
    problem = str(report.problem or "; ".join(str(finding.text) for finding in report.unseen))
    return {"verdict": report.verdict, "ids": ids, "lines": lines, "problem": problem, "wrong": wrong}


def check_all(cases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check each case in a forked process, after loading torch once."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    waiting, running, answers = list(cases), {}, {}
    while waiting or running:
        while waiting and len(running) < WORKERS:
            name = waiting.pop(0)
            out, into = os.pipe()
            if (child := os.fork()) == 0:
                signal.alarm(300)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.write(into, json.dumps(check_case(cases[name])).encode())
                os._exit(0)
            os.close(into)
            running[out] = (name, child, b"")
        for out in select.select(list(running), [], [])[0]:
            name, child, before = running[out]
            if more := os.read(out, 1 << 16):
                running[out] = (name, child, before + more)
                continue
            os.close(out)
            os.waitpid(child, 0)
            del running[out]
            killed = {"verdict": "unknown", "ids": [], "lines": [], "problem": "it died", "wrong": "not run"}
            answers[name] = json.loads(before) if before else killed
    return answers


def main() -> None:
    parts = [argument for argument in sys.argv[1:] if argument != "--write"]
    selected = {name: case for name, case in cases().items() if not parts or any(part in name for part in parts)}
    answers = check_all(selected)
    for name, answer in sorted(answers.items()):
        if answer["wrong"]:
            problem = answer["problem"].replace("\n", " ")[:120]
            print(f"{answer['wrong']:8} {name}  {selected[name].get('id', 'right')}  got {answer['ids']} {problem}")
    faulty = [name for name in answers if "id" in selected[name]]
    right = [name for name in answers if "id" not in selected[name]]
    ran = [name for name in faulty if answers[name]["wrong"] != "not run"]
    named = [name for name in ran if not answers[name]["wrong"]]
    with_line = [name for name in named if selected[name]["id"] in answers[name]["ids"]]
    exact = [
        name
        for name in with_line
        if answers[name]["lines"][answers[name]["ids"].index(selected[name]["id"])] in selected[name]["lines"]
    ]
    print(
        f"with a mistake: {len(faulty)}; run {len(ran)}, named {len(named)}, on the right line {len(exact)}/{len(with_line)}"
    )
    count = {word: sum(answers[name]["wrong"] == word for name in right) for word in ("alarm", "not run")}
    partly = sum(answers[name]["verdict"] == "partly" for name in right)
    print(f"right: {len(right)}; false alarms {count['alarm']}, partly {partly}, not run {count['not run']}")
    if "--write" in sys.argv and not parts:
        missed = {name: answer["wrong"] for name, answer in sorted(answers.items()) if answer["wrong"]}
        (HERE / "missed.json").write_text(json.dumps(missed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
