"""qkv check: name the mistake in an implementation of attention."""

import argparse
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from ..cli import complain, forget_output
from ..doctor.baseline import Baseline
from ..doctor.ignores import is_silenced
from ..doctor.report import SIGNS, Report, width_of_terminal, worst
from ..i18n import Message, Problem, quoted, say
from ..terminal.screen import draw, live, plain
from ..terminal.text_grid import clip, left, width
from .option_checks import check_range

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
FailOn = Literal["wrong", "partly", "unknown"]
FAIL_ON: tuple[FailOn, ...] = get_args(FailOn)  # each level includes those before it
PATIENCE = 2.0  # seconds before progress is shown


def arguments(parser: argparse.ArgumentParser) -> None:
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
    add("--args", metavar='"dim=64,heads=8"', help=say("what to pass to the constructor"))
    add("--call", metavar='"q=a,mask=b"', help=say("which argument of forward is q, k, v, x, memory, mask, …"))
    causal = parser.add_mutually_exclusive_group()
    add = causal.add_argument
    add("--causal", action="store_true", default=None, help=say("it must not see the future"))
    add("--not-causal", dest="causal", action="store_false", help=say("it may see all"))
    add = parser.add_argument
    add("--mask-true-means", choices=("keep", "block"), help=say("what True (or 1) in its mask means"))
    _add_output_options(parser)


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--json", action="store_true", help=say("as JSON"))
    add("--markdown", action="store_true", help=say("as Markdown"))
    add("--seconds", type=float, default=120.0, metavar="S", help=say("stop code after this processor time (120)"))
    add("--list", action="store_true", help=say("only show what looks like attention"))
    add("--fix", action="store_true", help=say("apply the patches that cure; the original becomes FILE.bak"))
    add(
        "--fail-on",
        choices=FAIL_ON,
        default="wrong",
        help=say("what makes the exit code 1: wrong (default), also partly; unknown: 2 if anything could not be run"),
    )
    add("--baseline", type=Path, metavar="FILE", help=say("findings in this file are known and do not fail the run"))
    add("--write-baseline", type=Path, metavar="FILE", help=say("write the findings to a file for --baseline"))


def run(options: argparse.Namespace) -> int:
    """Check each target and return the exit code; see `_exit_code`."""
    try:
        return _run(options)
    except Problem as problem:
        if options.json:  # programs get JSON for errors too
            _show([_unknown(" ".join(options.targets), problem)], "unknown", options)
        raise


def _run(options: argparse.Namespace) -> int:
    from .check_fixes import refuse_to_fix
    from .check_targets import find_targets, list_targets

    settings = _settings(options)
    baseline = _read_baseline(options)
    with _progress() as show:
        show(say("looking for attention"))
        targets = find_targets(options.targets)
    if options.list:
        return list_targets(targets, options.json)
    if options.fix:
        for file in targets:
            refuse_to_fix(file)
    folders = [Path(target) for target in options.targets if Path(target).is_dir()]
    named = find_targets([target for target in options.targets if not Path(target).is_dir()]) if folders else targets
    results = _check(options, settings, targets, named)
    _print(options, results, baseline, folders)
    if results.checked < len(targets):
        complain(say("stopped after {n} of {files} files", n=results.checked, files=len(targets)))
        return 130
    reports = results.reports
    for sentence in _baseline_summary(reports, baseline) if not folders or options.json or options.markdown else ():
        complain(sentence)
    for entry in baseline.stale(reports, folders):
        complain(say("{file}: {entry} is not found any more; remove the entry", file=baseline.file, entry=entry))
    if options.write_baseline:
        baseline = _write_baseline(options.write_baseline, reports)
    return _exit_code(reports, results.required, baseline, options.fail_on)


def _settings(options: argparse.Namespace) -> dict[str, object]:
    """Return the settings that the options give for the attention; raise for invalid ones."""
    from .check_targets import read_call, read_pairs

    check_range("--seconds", options.seconds, 1, 86400)
    check_range("--heads", options.heads, 1, 4096)
    settings = {
        "heads": options.heads,
        "causal": options.causal,
        "mask_true_means": options.mask_true_means,
        "args": read_pairs("args", options.args, '"dim=64,heads=8"'),
        "call": read_call(options.call),
    }
    return {name: value for name, value in settings.items() if value is not None}


@dataclass
class Results:
    """The results of the files that were checked before the end or Ctrl-C."""

    reports: list[Report] = field(default_factory=list)
    required: list[Report] = field(default_factory=list)  # the exit code is 2 if one of these could not be run
    unread: list[Problem] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    checked: int = 0  # files


def _check(
    options: argparse.Namespace,
    settings: dict[str, object],
    targets: dict[Path, list[str]],
    named: dict[Path, list[str]],
) -> Results:
    """Check the files in order; `named` has those that the user named, not found in a folder."""
    from ..doctor.isolated_check import examine
    from .check_fixes import fix

    results, started = Results(), 0
    try:
        with _progress() as show:
            for file, names in targets.items():
                count = f"{results.checked + 1}/{len(targets)} " if len(targets) > 1 else ""
                show(say("checking {target}", target=f"{count}{file}"), count and f"{count}{file}")

                def progress(name: str, target: str = f"{count}{file}", line: str = count and f"{count}{file}") -> None:
                    nonlocal started
                    started += 1  # the user named the first object of a single file
                    line = line or (f"{target}:{name}" if started > 1 else "")
                    show(say("checking {target}", target=f"{target}:{name}"), line)

                check = partial(examine, file, names or None, settings, seconds=options.seconds, progress=progress)
                try:
                    reports = fix(file, check, results.fixed) if options.fix else check()
                except (Problem, OSError) as error:  # continue with the other files
                    if isinstance(error, OSError):
                        error = Problem("{file} can't be read: {error}", file=file, error=quoted(error))
                    results.unread.append(error)
                    reports = [_unknown(f"{file}:{','.join(names)}" if names else str(file), error)]
                results.reports += reports
                results.checked += 1
                if file in named:
                    results.required += [report for report in reports if names or not _makes_masks(report)]
    except KeyboardInterrupt:
        if not results.checked or options.json:
            raise
    return results


def _print(options: argparse.Namespace, results: Results, baseline: Baseline, folders: list[Path]) -> None:
    reports = results.reports
    nothing = len(results.unread) == len(reports)
    if results.fixed and not options.json:
        draw("\n\n".join(results.fixed) + "\n")
    if options.json or not nothing:
        _show(reports, worst(reports), options, baseline)
    if folders and not options.json and not options.markdown:
        draw("\n" + _table(reports, baseline))
    if options.json or nothing:
        for problem in results.unread:
            complain(say("qkv: {sentence}", sentence=problem.say()))


def _exit_code(reports: list[Report], required: list[Report], baseline: Baseline, fail_on: FailOn) -> int:
    """Return 1 if something fails the run, 2 if something that had to run could not, else 0.

    Known and silenced findings don't fail. Code that could not be run fails if the user named it or its file, if nothing
    at all could be run, or with `--fail-on unknown`.
    """
    level = FAIL_ON.index(fail_on)
    if any(baseline.has_new(report) for report in reports):
        return 1
    if level >= 1 and any(
        report.verdict == "partly" and not is_silenced(report) and not _makes_masks(report) for report in reports
    ):
        return 1
    must_run = reports if level >= 2 or all(report.verdict == "unknown" for report in reports) else required
    return 2 if any(report.verdict == "unknown" for report in must_run) else 0


def _read_baseline(options: argparse.Namespace) -> Baseline:
    """Return the baseline; also check before any work that --write-baseline can be written."""
    if (new := options.write_baseline) is not None and (new.is_dir() or not new.absolute().parent.is_dir()):
        raise Problem("--write-baseline {file}: name a file in a folder that exists", file=new)
    return Baseline.read(options.baseline) if options.baseline else Baseline(Path("qkv-known.json"), set())


def _write_baseline(file: Path, reports: list[Report]) -> Baseline:
    """Write the findings of these reports to a baseline and return it."""
    baseline = Baseline.of(reports, file)
    try:
        baseline.write()
    except OSError as error:
        raise Problem("{file} can't be written: {error}", file=file, error=quoted(error)) from error
    complain(say("{file} lists the known findings: {n}", file=file, n=len(baseline.known)))
    return baseline


def _table(reports: list[Report], baseline: Baseline) -> str:
    """Return a line per report, with sign, name and mistakes with their lines, and the totals."""
    room = max(width(report.target) for report in reports)
    lines = []
    for report in reports:
        notes = []
        for finding, in_baseline in zip(report.findings, baseline.are_known(report), strict=True):
            label = f"{finding.id} ({finding.line})" if finding.line and finding.cell is None else finding.id
            notes.append(say("{id} known", id=label) if in_baseline else label)
        if report.verdict == "unknown" and _makes_masks(report):
            notes.append(say("makes masks: not checked"))
        lines.append(f"{SIGNS[report.verdict]} {left(report.target, room)}  {', '.join(notes)}".rstrip())
    count = {verdict: sum(report.verdict == verdict for report in reports) for verdict in SIGNS}
    totals = say("right {right}, as far as checked {partly}, wrong {wrong}, could not be run {unknown}", **count)
    return "\n".join([*map(plain, lines), totals, *_baseline_summary(reports, baseline)])


def _makes_masks(report: Report) -> bool:
    return report.adapted.get("kind") == "mask maker"


def _baseline_summary(reports: list[Report], baseline: Baseline) -> list[str]:
    if not baseline.known:
        return []
    return [say("known from {file}: {n}; they do not fail the run", file=baseline.file, n=baseline.count(reports))]


def _unknown(target: str, problem: Problem) -> Report:
    return Report(target, "unknown", problem=Message(problem.sentence, **problem.values))


def _show(reports: list[Report], verdict: str, options: argparse.Namespace, baseline: Baseline | None = None) -> None:
    from ..draw.terminal_map import colours

    if options.json:
        contents = [report.json() for report in reports]
        if options.baseline and baseline:
            for report, content in zip(reports, contents, strict=True):
                for finding, in_baseline in zip(content["findings"], baseline.are_known(report), strict=True):
                    finding["known"] = in_baseline
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
    except BrokenPipeError:  # `qkv check … | head`: the exit code still counts
        forget_output()


@contextmanager
def _progress() -> Iterator[Callable[..., None]]:
    """Yield `show(text, line)`: terminals get a spinner with the text, logs each new `line`.

    Nothing appears in the first two seconds. Both go to stderr.
    """
    text, line, printed, finished = "", "", "", threading.Event()
    started, lock, on_terminal = time.monotonic(), threading.Lock(), sys.stderr.isatty()

    def show(new_text: str, new_line: str = "") -> None:
        nonlocal text, line
        text, line = new_text, new_line
        if not on_terminal and time.monotonic() - started > PATIENCE:
            print_line()

    def print_line() -> None:
        nonlocal printed
        with lock:
            if line and line != printed:
                printed = line
                print(plain(line), file=sys.stderr, flush=True)

    def watch() -> None:
        if finished.wait(PATIENCE):
            return
        if not on_terminal:
            print_line()
            return
        for sign in itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"):
            live(clip(f"{sign} {text}", width_of_terminal() - 1), sys.stderr)
            if finished.wait(0.1):
                break
        live("", sys.stderr)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        finished.set()
        thread.join()
