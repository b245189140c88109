"""`qkv check --fix`: apply patches to a file, after a backup."""

import os
from collections.abc import Callable
from pathlib import Path

from ..disk.atomic_files import atomic_write, write_file
from ..doctor.report import Report
from ..doctor.source.file import read
from ..i18n import Problem, quoted, say
from ..terminal.screen import plain


def refuse_to_fix(file: Path) -> None:
    """Raise if --fix can't change the file."""
    if file.suffix == ".ipynb":
        raise Problem("--fix changes .py files, and {file} is a notebook: take the patches from the report", file=file)
    if os.path.lexists(backup := _backup(file)):  # also a broken link, which a write would follow
        raise Problem("{kept} is there already, where --fix would keep the file as it was: move it away", kept=backup)


def _backup(file: Path) -> Path:
    return file.with_name(file.name + ".bak")


def fix(file: Path, check: Callable[[], list[Report]], fixed: list[str]) -> list[Report]:
    """Check and apply the first patch until there is none; add a sentence and a diff for each to `fixed`."""
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
        backup = _backup(file)
        is_first = not backup.exists()
        try:
            if is_first:
                with atomic_write(backup, like=file) as copy:
                    copy.write(raw)
            write_file(file, after)
        except BaseException as error:  # a full disk, Ctrl-C: the file is unchanged
            if is_first:
                backup.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise Problem("{file} can't be written: {error}", file=error.filename, error=quoted(error)) from error
            raise
        summary = say(
            "{target}: {id} mended; the file as it was is {kept}", target=report.target, id=finding.id, kept=backup
        )
        fixed.append("\n".join([summary, *("  " + line for line in plain(finding.diff).split("\n"))]))
    return reports
