"""Score `qkv check` on public code: a manifest of objects with known truths, run on copies of their repositories.

    .venv/bin/python tools/wild.py FOLDER [--list FILE] [--half work|held] [--only TEXT] [--json FILE]

FOLDER has a git repository for each row, bare or not, as FOLDER/OWNER+NAME, FOLDER/OWNER+NAME/repo or FOLDER/OWNER/NAME. The
Python files and notebooks of the row's commit are copied to a temporary folder. Nothing is fetched, and no repository code
is stored. Every object is checked by name, and again as part of its file.

The manifest is tests/doctor/corpora/wild/objects.tsv; its columns are those of `Row`.
"""

import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

MANIFEST = Path(__file__).resolve().parent.parent / "tests" / "doctor" / "corpora" / "wild" / "objects.tsv"
WORKERS = 2
LIMIT = 900.0  # seconds that one check may take by the clock

Outcome = Literal[
    "not run",  # no verdict
    "named",  # wrong, with one of its true ids
    "misnamed",  # wrong, with other ids only
    "missed, partly",  # wrong, but "right as far as checked"
    "missed, right",  # wrong, but plainly "right"
    "false alarm",  # right, but "wrong"
    "right",  # right, and plainly so
    "partly",  # right, as far as checked
    "refused",  # not PyTorch or NumPy, and not run, as it should be
]


@dataclass(frozen=True)
class Row:
    """An object: its location and its true verdict."""

    repository: str  # OWNER/NAME
    commit: str
    path: str
    object: str
    truth: (
        str  # "right", ids of mistakes joined by "+" (any of them is a right answer), or "other" for another framework
    )
    kind: str  # its domain, such as "course" or "vision"
    half: str  # "held": of a list that nobody had looked at when it was first run; "work": of the lists before it
    reason: str = ""  # how its truth was shown

    @property
    def ids(self) -> set[str]:
        """Return the ids of its mistakes."""
        return set() if self.truth in ("right", "other") else set(self.truth.split("+"))


@dataclass(frozen=True)
class Answer:
    """The answer of `qkv check` for a row."""

    row: Row
    how: Literal["object", "file"]
    outcome: Outcome
    verdict: str
    ids: list[str]
    sentence: str  # why there is no verdict
    cpu: float  # seconds, of the check and all that it started

    @property
    def beyond(self) -> set[str]:
        """Return the reported ids that are false."""
        return set(self.ids) - self.row.ids


def read_manifest(path: Path) -> list[Row]:
    """Return the rows of a tab-separated manifest; the first line names the columns."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(**line) for line in csv.DictReader(file, delimiter="\t", restval="")]


def git_folder(folder: Path, repository: str) -> Path | None:
    """Return the folder of a repository's copy, or None."""
    owner, name = repository.split("/")
    for path in (folder / f"{owner}+{name}" / "repo", folder / f"{owner}+{name}", folder / owner / name):
        for candidate in (path / ".git", path):
            if (candidate / "objects").is_dir():
                return candidate
    return None


def copy_sources(git: Path, commit: str, target: Path) -> None:
    """Write the Python files and notebooks of a commit; files missing in the copy are skipped."""
    command = ["git", f"--git-dir={git}"]
    listed = subprocess.run([*command, "ls-tree", "-r", "-z", commit], capture_output=True, check=True).stdout
    for entry in filter(None, listed.decode("utf-8", "surrogateescape").split("\0")):
        (mode, _, blob), path = entry.split("\t", 1)[0].split(), entry.split("\t", 1)[1]
        if mode.startswith("100") and path.endswith((".py", ".ipynb")):
            content = subprocess.run([*command, "cat-file", "blob", blob], capture_output=True)
            if content.returncode == 0:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(content.stdout)


def run(command: list[str], folder: Path | None = None) -> tuple[str, str, float]:
    """Run a command; return stdout, stderr and its CPU seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # an installed package has bytecode
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
        alarm = threading.Timer(LIMIT, process.terminate)
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)  # the CPU seconds of this process and of all that it waited for
        alarm.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        printed, complaint = out.read().decode("utf-8", "replace"), errors.read().decode("utf-8", "replace")
    return printed, complaint.strip(), usage.ru_utime + usage.ru_stime


def check(folder: Path, target: str) -> tuple[list[dict], str, float]:
    """Run `qkv check TARGET --json`; return its reports, stderr and its CPU seconds."""
    command = [sys.executable, "-m", "qkv", "check", target, "--json", "--lang", "en"]
    printed, complaint, cpu = run(command, folder)
    try:
        answer = json.loads(printed)
    except ValueError:
        answer = {"reports": []}
    return answer.get("reports", [answer]), complaint, cpu


def import_torch() -> float:
    """Return the CPU seconds of `import torch`, to compare with a check in the same run."""
    return run([sys.executable, "-c", "import torch"])[2]


def outcome(row: Row, verdict: str, ids: Iterable[str]) -> Outcome:
    """Compare a verdict with the truth.

    >>> row = Row("a/b", "", "a.py", "A", "S2+X1", "course", "work")
    >>> outcome(row, "wrong", ["X1"]), outcome(row, "wrong", ["M3"]), outcome(row, "right", [])
    ('named', 'misnamed', 'missed, right')
    """
    if verdict == "unknown":
        return "refused" if row.truth == "other" else "not run"
    if row.truth in ("right", "other"):
        return "false alarm" if verdict == "wrong" else "right" if verdict == "right" else "partly"
    if verdict == "wrong":
        return "named" if row.ids & set(ids) else "misnamed"
    return "missed, right" if verdict == "right" else "missed, partly"


def answers(row: Row, folder: Path, modes: tuple[str, ...] = ("object", "file")) -> Iterator[Answer]:
    """Check one object by name and as part of its file."""
    for how in modes:
        target = f"{row.path}:{row.object}" if how == "object" else row.path
        reports, complaint, cpu = check(folder, target)
        own = (
            [each for each in reports if each["target"].rpartition(":")[2] == row.object] if how == "file" else reports
        )
        report = (
            own[0] if own else {"verdict": "unknown", "findings": [], "problem": complaint or "not found in its file"}
        )
        ids = [finding["id"] for finding in report["findings"]]
        verdict = report["verdict"]
        sentence = str(report["problem"] or "") if verdict == "unknown" else ""
        yield Answer(row, how, outcome(row, verdict, ids), verdict, ids, sentence, cpu)


def score(answers: list[Answer], how: str, torch_seconds: float) -> str:
    """Return the counts by object or by file, as text; `torch_seconds` is the CPU time of `import torch`."""
    selected = [answer for answer in answers if answer.how == how and answer.row.truth != "other"]
    count = Counter(answer.outcome for answer in selected)
    right, wrong = (sum((answer.row.truth == "right") == is_right for answer in selected) for is_right in (True, False))
    run = len(selected) - count["not run"]
    ran_right = count["right"] + count["partly"] + count["false alarm"]
    lines = [
        f"by {how}: {len(selected)} objects, {right} right and {wrong} wrong",
        f"  run                       {run:4d} of {len(selected)}",
        f"  named                     {count['named']:4d} of {wrong}",
        f"  misnamed                  {count['misnamed']:4d}",
        f'  missed as "partly"        {count["missed, partly"]:4d}',
        f'  missed as plain "right"   {count["missed, right"]:4d}',
        f"  named, and another claimed {sum(bool(a.beyond) for a in selected if a.outcome == 'named'):3d}",
        f"  false alarms              {count['false alarm']:4d} of {ran_right} right ones that ran",
        f'  plain "right"             {count["right"]:4d} of {ran_right} right ones that ran',
    ]
    if selected:
        seconds = [answer.cpu for answer in selected]
        median = statistics.median(seconds)
        lines.append(f"  CPU seconds               {median:6.2f} median, {sum(seconds):.0f} in all")
        lines.append(f"  of `import torch`         {median / torch_seconds:6.2f} (median; {torch_seconds:.2f} s)")
    return "\n".join(lines)


SCORES = MANIFEST.with_name("scores.tsv")


def read_scores() -> list[dict[str, str]]:
    """Return the last answer for every object: half, how, repository, object, truth, outcome, ids."""
    with SCORES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def keep_scores(answers: list[Answer]) -> None:
    """Replace answers in scores.tsv, which docs/check.md is made from."""
    rows = {}
    for line in read_scores() if SCORES.exists() else []:
        rows[line["how"], line["repository"], line["path"], line["object"]] = line
    for answer in answers:
        row = answer.row
        location = {"repository": row.repository, "path": row.path, "object": row.object}
        result = {"truth": row.truth, "outcome": answer.outcome, "ids": "+".join(answer.ids)}
        rows[answer.how, *location.values()] = {"half": row.half, "how": answer.how, **location, **result}
    with SCORES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(next(iter(rows.values()))), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def main() -> int:
    """Run the manifest and print every wrong answer, then the scores."""
    parser = argparse.ArgumentParser(description="Score qkv check on public code.")
    parser.add_argument("folder", type=Path, help="the folder with copies of the repositories")
    parser.add_argument(
        "--list", type=Path, default=MANIFEST, help="the manifest (tests/doctor/corpora/wild/objects.tsv)"
    )
    parser.add_argument("--half", choices=["work", "held"], help="only this half of the manifest")
    parser.add_argument("--how", choices=["object", "file"], help="only by object, or only by file")
    parser.add_argument("--only", default="", help="only rows whose repository, path or object has this text")
    parser.add_argument("--json", type=Path, help="also write every answer to this file")
    parser.add_argument("--keep", action="store_true", help="put the answers into tests/doctor/corpora/wild/scores.tsv")
    options = parser.parse_args()
    rows = [row for row in read_manifest(options.list) if options.half in (None, row.half)]
    rows = [row for row in rows if options.only in f"{row.repository}/{row.path}:{row.object}"]
    folders = {row.repository: git_folder(options.folder, row.repository) for row in rows}
    absent = sorted(name for name, folder in folders.items() if folder is None)
    if absent:
        print(f"not in {options.folder}, so left out: {', '.join(absent)}", file=sys.stderr)
    modes = (options.how,) if options.how else ("object", "file")
    all_answers: list[Answer] = []
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(WORKERS) as pool:
        copies: dict[tuple[str, str], Path] = {}
        for row in rows:
            git, key = folders[row.repository], (row.repository, row.commit)
            if git is not None and key not in copies:
                copies[key] = Path(temporary, f"{len(copies)}", row.repository.split("/")[1])
                copy_sources(git, row.commit, copies[key])
        copied_rows = [
            (row, copies[row.repository, row.commit]) for row in rows if (row.repository, row.commit) in copies
        ]
        imports: list[float] = []
        for number, each in enumerate(pool.map(lambda pair: list(answers(*pair, modes)), copied_rows), 1):
            all_answers += each
            if number % 20 == 1:  # during the checks, so that both have the same load
                imports.append(import_torch())
            if sys.stderr.isatty():
                print(f"\r{number}/{len(copied_rows)}", end="", file=sys.stderr, flush=True)
            for answer in each:
                if answer.outcome not in ("named", "right", "partly", "refused") or answer.beyond:
                    row = answer.row
                    result = ", ".join(answer.ids) or answer.sentence[:160] or answer.verdict
                    print(
                        f"{answer.outcome:15} {answer.how:6} {row.truth:8} {row.repository} {row.path}:{row.object}  {result}"
                    )
    if options.json is not None:
        options.json.write_text(
            json.dumps([asdict(answer) for answer in all_answers], indent=1) + "\n", encoding="utf-8"
        )
    if options.keep:
        keep_scores(all_answers)
    torch_seconds = statistics.median(imports) if imports else math.nan
    print(*(score(all_answers, how, torch_seconds) for how in modes), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
