"""qkv check: name the mistake in attention somebody wrote."""

import argparse
import ast
import itertools
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..cli import complain, forget_output
from ..doctor.baseline import Baseline
from ..doctor.ignores import is_silenced
from ..doctor.report import SIGNS, Report, width_of_terminal, worst
from ..i18n import Message, Problem, all_of, quoted, say
from ..terminal.screen import draw, live, plain
from ..terminal.text_grid import clip, left, width

ROLES = ("q", "k", "v", "x", "memory", "mask", "lengths", "cache", "start", "frequencies", "positions")
EXAMPLES = [
    "qkv check mymodel.py:MultiHeadAttention",
    "qkv check mymodel.py",
    "qkv check notebook.ipynb:SelfAttention --heads 8",
    'qkv check mymodel.py:Attention --args "dim=64,heads=8"',
    'qkv check mymodel.py:attend --call "q=a,k=b,v=c" --causal',
    "qkv check mymodel.py:Attention --mask-true-means block --json",
    "qkv check mymodel.py --list",
    "qkv check mymodel.py:Attention --fix",
    "qkv check .",
    "qkv check . --fail-on partly",
    "qkv check . --write-baseline qkv-known.json",
    "qkv check . --baseline qkv-known.json",
]
FAIL_ON = ("wrong", "partly", "unknown")  # each fails on those before it too
PATIENCE = 2.0  # seconds before progress is shown


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add(
        "targets",
        nargs="+",
        metavar="FILE[:NAME]",
        help=say(
            "a .py file or notebook, and a class or function in it; without NAME, all that looks like attention; "
            "a folder: every file below it"
        ),
    )
    add("--heads", type=int, metavar="H", help=say("how many heads it has"))
    add(
        "--args",
        metavar='"dim=64,heads=8"',
        help=say("what to pass to the constructor"),
    )
    add(
        "--call",
        metavar='"q=a,mask=b"',
        help=say("which argument of forward is q, k, v, x, memory, mask, …"),
    )
    causal = parser.add_mutually_exclusive_group()
    add = causal.add_argument
    add("--causal", action="store_true", default=None, help=say("it must not see the future"))
    add("--not-causal", dest="causal", action="store_false", help=say("it may see all"))
    add = parser.add_argument
    add(
        "--mask-true-means",
        choices=("keep", "block"),
        help=say("what True (or 1) in its mask means"),
    )
    add("--json", action="store_true", help=say("as JSON"))
    add("--markdown", action="store_true", help=say("as Markdown"))
    add(
        "--seconds",
        type=float,
        default=120.0,
        metavar="S",
        help=say("stop code that computes for longer: processor seconds for each (120)"),
    )
    add("--list", action="store_true", help=say("only show what looks like attention"))
    add(
        "--fix",
        action="store_true",
        help=say("put the patches that cure into the file, one after another; the file as it was becomes FILE.bak"),
    )
    add(
        "--fail-on",
        choices=FAIL_ON,
        default="wrong",
        help=say("what makes the exit code 1: wrong (default), also partly; unknown: 2 for all that could not be run"),
    )
    add(
        "--baseline",
        type=Path,
        metavar="FILE",
        help=say("findings that this file lists are known and do not fail the run"),
    )
    add(
        "--write-baseline",
        type=Path,
        metavar="FILE",
        help=say("write the findings of this run to a file for --baseline"),
    )


def run(options: argparse.Namespace) -> int:
    """Check each target and return the exit code; see `_exit_code`."""
    try:
        return _run(options)
    except Problem as problem:
        if options.json:  # a program that reads this gets an answer to everything
            _show([_unknown(" ".join(options.targets), problem)], "unknown", options)
        raise


def _run(options: argparse.Namespace) -> int:
    from ..doctor.isolated_check import examine

    if not 1 <= options.seconds <= 86400:
        raise Problem(
            "{option} is {value}: give {wanted}", option="--seconds", value=options.seconds, wanted="1 … 86400"
        )
    if options.heads is not None and not 1 <= options.heads <= 4096:
        raise Problem("{option} is {value}: give {wanted}", option="--heads", value=options.heads, wanted="1 … 4096")
    told = {
        "heads": options.heads,
        "causal": options.causal,
        "mask_true_means": options.mask_true_means,
        "args": _pairs("args", options.args, '"dim=64,heads=8"'),
        "call": _call(options.call),
    }
    told = {name: value for name, value in told.items() if value is not None}
    known = _known(options)
    with _progress() as show:
        show(say("looking for attention"))
        wanted = _wanted(options.targets)
    if options.list:
        return _list(wanted, options.json)
    if options.fix:
        for file in wanted:
            _refuse_to_mend(file)
    reports: list[Report] = []
    unread: list[Problem] = []
    mended: list[str] = []
    checked = begun = 0
    folders = [Path(target) for target in options.targets if Path(target).is_dir()]
    explicit = _wanted([target for target in options.targets if not Path(target).is_dir()]) if folders else wanted
    required: list[Report] = []  # what must run, or the exit code is 2
    try:
        with _progress() as show:
            for file, names in wanted.items():
                count = f"{checked + 1}/{len(wanted)} " if len(wanted) > 1 else ""
                show(say("checking {target}", target=f"{count}{file}"), count and f"{count}{file}")

                def progress(name: str, target: str = f"{count}{file}", line: str = count and f"{count}{file}") -> None:
                    nonlocal begun
                    begun += 1  # the first object of a single file needs no line: who asked knows what is checked
                    line = line or (f"{target}:{name}" if begun > 1 else "")
                    show(say("checking {target}", target=f"{target}:{name}"), line)

                before = len(reports)

                try:
                    check = partial(examine, file, names or None, told, seconds=options.seconds, progress=progress)
                    reports += _mend(file, check, mended) if options.fix else check()
                except (Problem, OSError) as error:  # the other files can still be checked
                    if isinstance(error, OSError):
                        error = Problem("{file} can't be read: {error}", file=file, error=quoted(error))
                    unread.append(error)
                    reports.append(_unknown(f"{file}:{','.join(names)}" if names else str(file), error))
                checked += 1
                if file in explicit:
                    required += [one for one in reports[before:] if names or not _makes_masks(one)]
    except KeyboardInterrupt:
        if not checked or options.json:
            raise
    nothing = len(unread) == len(reports)
    verdict = worst(reports)
    if mended and not options.json:
        draw("\n\n".join(mended) + "\n")
    if options.json or not nothing:
        _show(reports, verdict, options, known)
    if folders and not options.json and not options.markdown:
        draw("\n" + _table(reports, known))
    if options.json or nothing:
        for problem in unread:
            complain(say("qkv: {sentence}", sentence=problem.say()))
    if checked < len(wanted):
        complain(say("stopped after {n} of {files} files", n=checked, files=len(wanted)))
        return 130
    for sentence in _count_known(reports, known) if not folders or options.json or options.markdown else ():
        complain(sentence)
    for entry in known.stale(reports, folders):
        complain(say("{file}: {entry} is not found any more; remove the entry", file=known.file, entry=entry))
    if options.write_baseline:
        known = _write_baseline(options.write_baseline, reports)
    return _exit_code(reports, required, known, options.fail_on)


def _exit_code(reports: list[Report], required: list[Report], known: Baseline, fail_on: str) -> int:
    """1 if something fails the run, 2 if something that had to run could not, else 0.

    Known and silenced findings don't fail. What could not be run fails where it was named or its file was, where nothing
    at all could be run, and everywhere with `--fail-on unknown`.
    """
    level = FAIL_ON.index(fail_on)
    if any(known.has_new(report) for report in reports):
        return 1
    if level >= 1 and any(
        report.verdict == "partly" and not is_silenced(report) and not _makes_masks(report) for report in reports
    ):
        return 1
    must_run = reports if level >= 2 or all(report.verdict == "unknown" for report in reports) else required
    return 2 if any(report.verdict == "unknown" for report in must_run) else 0


def _known(options: argparse.Namespace) -> Baseline:
    """The findings that are known, read before any work; a folder to write to that is not there is reported too."""
    if (new := options.write_baseline) is not None and (new.is_dir() or not new.absolute().parent.is_dir()):
        raise Problem("--write-baseline {file}: name a file in a folder that exists", file=new)
    return Baseline.read(options.baseline) if options.baseline else Baseline(Path("qkv-known.json"), set())


def _write_baseline(file: Path, reports: list[Report]) -> Baseline:
    """Write the findings of these reports, which are known from now on."""
    baseline = Baseline.of(reports, file)
    try:
        baseline.write()
    except OSError as error:
        raise Problem("{file} can't be written: {error}", file=file, error=quoted(error)) from error
    complain(say("{file} lists the known findings: {n}", file=file, n=len(baseline.known)))
    return baseline


def _refuse_to_mend(file: Path) -> None:
    """Say before any work what --fix can't write."""
    if file.suffix == ".ipynb":
        raise Problem("--fix changes .py files, and {file} is a notebook: take the patches from the report", file=file)
    if os.path.lexists(kept := _beside(file)):  # also a link to nowhere: a write would follow it
        raise Problem("{kept} is there already, where --fix would keep the file as it was: move it away", kept=kept)


def _beside(file: Path) -> Path:
    return file.with_name(file.name + ".bak")


def _mend(file: Path, check: Callable[[], list[Report]], mended: list[str]) -> list[Report]:
    """Check, put in the first patch, check again, until there is none; each was tried before it was shown."""
    from ..disk.atomic_files import atomic_write, write_file
    from ..doctor.source.file import read

    for _unused in range(10):
        reports = check()
        patches = [(report, finding) for report in reports for finding in report.findings if finding.edits]
        if not patches:
            break
        report, finding = patches[0]
        raw = file.read_bytes()
        try:
            before = raw.decode("utf-8")
        except UnicodeDecodeError:
            before = ""
        if before.removeprefix("\ufeff").replace("\r\n", "\n") != read(file).text:
            raise Problem(
                "--fix writes UTF-8 files of plain Python; take the patches of {file} from the report", file=file
            )
        after = read(file).edited(finding.edits).text
        after = "\ufeff" * before.startswith("\ufeff") + (after.replace("\n", "\r\n") if "\r\n" in before else after)
        backup = _beside(file)
        is_first = not backup.exists()
        try:
            if is_first:
                with atomic_write(backup, like=file) as copy:
                    copy.write(raw)
            write_file(file, after)
        except BaseException as error:  # a full disk, Ctrl-C: the file is as it was, so it needs no backup
            if is_first:
                backup.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise Problem("{file} can't be written: {error}", file=error.filename, error=quoted(error)) from error
            raise
        first = say(
            "{target}: {id} mended; the file as it was is {kept}",
            target=report.target,
            id=finding.id,
            kept=_beside(file),
        )
        mended.append("\n".join([first, *("  " + line for line in plain(finding.diff).split("\n"))]))
    return reports


def _table(reports: list[Report], known: Baseline) -> str:
    """One line for each: its sign, its name, the mistakes and where."""
    room = max(width(report.target) for report in reports)
    lines = []
    for report in reports:
        places = [f"{one.id} ({one.line})" if one.line and one.cell is None else one.id for one in report.findings]
        are_known = known.are_known(report)
        notes = [say("{id} known", id=one) if old else one for one, old in zip(places, are_known, strict=True)]
        if report.verdict == "unknown" and _makes_masks(report):
            notes.append(say("makes masks: not checked"))
        lines.append(f"{SIGNS[report.verdict]} {left(report.target, room)}  {', '.join(notes)}".rstrip())
    count = {verdict: sum(report.verdict == verdict for report in reports) for verdict in SIGNS}
    told = say("right {right}, as far as checked {partly}, wrong {wrong}, could not be run {unknown}", **count)
    return "\n".join([*map(plain, lines), told, *_count_known(reports, known)])


def _makes_masks(report: Report) -> bool:
    return report.adapted.get("kind") == "mask maker"


def _count_known(reports: list[Report], known: Baseline) -> list[str]:
    if not known.known:
        return []
    return [say("known from {file}: {n}; they do not fail the run", file=known.file, n=known.count(reports))]


def _unknown(target: str, problem: Problem) -> Report:
    return Report(target, "unknown", problem=Message(problem.sentence, **problem.values))


def _show(reports: list[Report], verdict: str, options: argparse.Namespace, known: Baseline | None = None) -> None:
    from ..draw.terminal_map import colours

    if options.json:
        contents = [report.json() for report in reports]
        if options.baseline and known:
            for report, content in zip(reports, contents, strict=True):
                for finding, is_known in zip(content["findings"], known.are_known(report), strict=True):
                    finding["known"] = is_known
        several = {"reports": contents, "verdict": verdict}
        text = json.dumps(contents[0] if len(contents) == 1 else several, ensure_ascii=False, indent=2)
    elif options.markdown:
        text = "\n".join(report.markdown() for report in reports).rstrip()
    else:
        colour, columns = colours() != "none", width_of_terminal()
        text = "\n\n".join(report.terminal(colour=colour, columns=columns) for report in reports)
    try:
        (draw if not options.json and not options.markdown else print)(text)
        sys.stdout.flush()
    except BrokenPipeError:  # `qkv check … | head`: the reader has seen enough, the verdict stands
        forget_output()


def _list(wanted: dict[Path, list[str]], as_json: bool) -> int:
    from ..doctor.source.file import read

    found: list[dict[str, Any]] = []
    for file, names in wanted.items():
        source = read(file)
        listed = names or source.candidates()
        if not listed:
            raise Problem(
                "{file} holds nothing that looks like attention (a softmax beside a product of matrices); to check a "
                "class or function anyway, name it: qkv check {file}:NAME",
                file=file,
            )
        for name in listed:
            cell, line = source.place(source.node(name).lineno)
            found.append({"target": f"{file}:{name}", "line": line, "cell": cell})
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return 0
    for one in found:
        where = say("line {line}", line=one["line"])
        if one["cell"] is not None:
            where = say("cell {cell}, {where}", cell=one["cell"], where=where)
        print(f"{one['target']}  ({where})")
    return 0


def _wanted(targets: list[str]) -> dict[Path, list[str]]:
    """The names asked of each file; [] where all that looks like attention is meant."""
    wanted: dict[Path, list[str]] = {}
    for target in targets:
        split = re.fullmatch(r"(.+?\.(?:py|pyw|ipynb|txt|md))(?::(.*))?", target, re.DOTALL)
        file, name = (split[1], split[2] or "") if split else (target, "")
        if split is None and not Path(target).exists() and ":" in target:
            file, _, name = target.rpartition(":")
        if not file:
            raise Problem("name a file, as in  qkv check mymodel.py")
        if Path(file).is_dir():
            wanted |= {one: [] for one in _below(Path(file)) if one not in wanted}
            continue
        names = [one.strip() for one in name.split(",") if one.strip()]
        before = wanted.get(Path(file))
        whole = not names or before == []  # the file by itself asks for all that is in it
        wanted[Path(file)] = [] if whole else list(dict.fromkeys([*(before or []), *names]))
    return wanted


SKIPPED = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv", "env"}


def _below(folder: Path) -> list[Path]:
    """The files below a folder in which something looks like attention; not what was installed there."""
    from ..doctor.source.file import read

    found, seen = [], 0
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in SKIPPED)
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")) and not name.startswith("."):
                seen += 1
                with suppress(Problem, OSError):  # no Python: nothing in it can be attention
                    if read(Path(path, name)).candidates():
                        found.append(Path(path, name))
    if not found:
        raise Problem(
            "in {folder} nothing looks like attention (files read: {seen}); name the file to check",
            folder=folder,
            seen=seen,
        )
    return found


def _pairs(option: str, text: str | None, example: str) -> dict[str, Any] | None:
    """`dim=64,heads=8` as a dict. Values are literals, or bare words that mean themselves; nothing is evaluated."""
    if text is None:
        return None
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args and call.keywords
        pairs = {}
        for pair in call.keywords:
            assert pair.arg is not None
            pairs[pair.arg] = pair.value.id if isinstance(pair.value, ast.Name) else ast.literal_eval(pair.value)
        json.dumps(pairs)
        return pairs
    except (AssertionError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise Problem(
            "--{option} is {text!r}: write it as name=value pairs, as in --{option} {example}",
            option=option,
            text=text,
            example=example,
        ) from None


def _call(text: str | None) -> dict[str, Any] | None:
    """`q=a,mask=b`: what each is, and the name of the argument that it is in the user's code."""
    example = '"q=a,mask=b"'
    pairs = _pairs("call", text, example)
    for word, name in (pairs or {}).items():
        if word not in ROLES:
            raise Problem(
                "--call: {word} is none of {roles}; write what it is, then your argument's name, as in --call "
                "{example}",
                word=word,
                roles=all_of(ROLES),
                example=example,
            )
        if not isinstance(name, str):
            raise Problem(
                "--{option} is {text!r}: write it as name=value pairs, as in --{option} {example}",
                option="call",
                text=text,
                example=example,
            )
    return pairs


@contextmanager
def _progress() -> Iterator[Callable[..., None]]:
    """Yield `show(text, line)`: on terminals a line with a spinner shows the text, elsewhere each new `line` is printed.

    Nothing appears in the first two seconds. Both go to stderr.
    """
    text, line, printed, over = "", "", "", threading.Event()
    begun, lock, on_terminal = time.monotonic(), threading.Lock(), sys.stderr.isatty()

    def show(new_text: str, new_line: str = "") -> None:
        nonlocal text, line
        text, line = new_text, new_line
        if not on_terminal and time.monotonic() - begun > PATIENCE:
            print_line()

    def print_line() -> None:
        nonlocal printed
        with lock:
            if line and line != printed:
                printed = line
                print(plain(line), file=sys.stderr, flush=True)

    def spin() -> None:
        shown = False
        for sign in itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"):
            if over.wait(0.1):
                break
            if time.monotonic() - begun > PATIENCE:
                shown = True
                live(clip(f"{sign} {text}", width_of_terminal() - 1), sys.stderr)
        if shown:
            live("", sys.stderr)

    def print_late() -> None:
        if not over.wait(PATIENCE):
            print_line()

    thread = threading.Thread(target=spin if on_terminal else print_late, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        over.set()
        thread.join()
