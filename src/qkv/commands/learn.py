"""qkv learn: graded exercises, from q·k by hand to a GPT that trains."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..disk.atomic_files import write_file
from ..i18n import Problem, _, echo, nearest, say, unknown
from ..lessons import lesson
from ..lessons.exercise_folder import FILE, Folder

if TYPE_CHECKING:
    from ..lessons.grade import Grade

EXAMPLES = [
    "qkv learn",
    "qkv learn 7",
    "qkv learn check",
    "qkv learn hint",
    "qkv learn watch",
    "qkv learn solution 7",
    "qkv learn reset 7",
]
MAX_LINES, MAX_CHARACTERS = 20, 2000  # of output of the learner's code that is shown
ACTIONS = ("check", "hint", "watch", "solution", "reset")
ALL_SOLVED = _("All {last} are solved. What you wrote is what models compute: qkv see, qkv train lm.")

VERDICTS = {
    "right": _("✓ {number} {title}: right"),
    "wrong": _("✗ {number} {title}: not yet ({passed} of {total} questions right)"),
    "unknown": _("? {number} {title}: could not be graded"),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "what",
        nargs="*",
        metavar="check|hint|watch|solution|reset|N",
        help=say(
            "nothing: the list, and the next exercise; N or a name: that exercise; check [N|FILE|all]: grade it; "
            "hint [N]: a hint; watch [N]: grade on every save; solution [N]; reset N: start it anew"
        ),
    )
    add("--folder", type=Path, help=say("where your exercises are (./learn)"))
    add("--yes", action="store_true", help=say("reset without asking"))


def run(options: argparse.Namespace) -> int:
    """Run an action. Return 0 if the exercise is right, 1 if wrong, 2 if it could not be graded."""
    folder = Folder.locate(options.folder)
    if folder.damaged_file is not None:
        echo(
            "{file} could not be read and was put aside as {aside}; your exercises are untouched. To count again: "
            "qkv learn check all",
            sys.stderr,
            file=folder.path / FILE,
            aside=folder.damaged_file.name,
        )
    what, *which = options.what or [""]
    if what not in ACTIONS:
        if nearest(what, [*ACTIONS, *lesson.NAMES]) in ACTIONS:
            raise unknown("qkv learn", what, ACTIONS)
        if len(options.what) > 1:
            raise Problem("{what} takes one exercise, not {n}", what="qkv learn", n=len(options.what))
        return _show(folder, what)
    if len(which) > 1:
        raise Problem("{what} takes one exercise, not {n}", what=f"qkv learn {what}", n=len(which))
    if what == "check" and which == ["all"]:
        names = [name for name in lesson.NAMES if folder.file(name).exists()]
        if not names:
            raise Problem(
                "{file} isn't there: qkv learn {number} puts it there", file=folder.file(lesson.NAMES[0]), number=1
            )
        return max(_check(folder, folder.file(name), name) for name in names)
    name = lesson.find(which[0]) if which else folder.current
    if name is None:
        raise Problem("all exercises are solved; say which one, as in  qkv learn {what} 3", what=what)
    file = Path(which[0]) if which and Path(which[0]).is_file() else folder.file(name)
    if what == "check":
        return _check(folder, file, name)
    if what == "watch":
        return _watch(folder, file, name)
    return {"hint": _hint, "solution": _solution, "reset": _reset}[what](folder, name, options.yes)


def _show(folder: Folder, word: str) -> int:
    """Print the list and the current exercise, which is copied to the folder if missing."""
    if word:
        folder.select(lesson.find(word))
    name = lesson.find(word) if word else folder.current
    if not word:
        heading = _("From q·k to a GPT that trains: {solved} of {last} solved, in {folder}")
        print(say(heading, solved=len(folder.solved), last=len(lesson.COURSE), folder=folder.path) + "\n")
        for at, (each, title, library) in enumerate(lesson.COURSE, 1):
            mark = "✓" if each in folder.solved else "→" if each == name else " "
            print(f"  {mark} " + say("{number}  {title}  ({library})", number=f"{at:2}", title=title, library=library))
        print()
    if name is None:
        echo(ALL_SOLVED, last=len(lesson.COURSE))
        return 0
    folder.copy(name)
    folder.save()
    title = lesson.COURSE[lesson.number(name) - 1].title
    echo("Exercise {number}, {title}, is in {file}", number=lesson.number(name), title=title, file=folder.file(name))
    echo(
        "Open {file} in an editor, fill it in, then\n  qkv learn check{more}      grade it\n  qkv learn "
        "watch{more}      grade it on every save\n  qkv learn hint{more}       a hint, stronger each time",
        file=folder.file(name),
        more=_argument(folder, name),
    )
    return 0


def _argument(folder: Folder, name: str) -> str:
    """Return the argument of an action for this exercise: "" for the current one."""
    return "" if name == folder.current else f" {lesson.number(name)}"


def _check(folder: Folder, file: Path, name: str) -> int:
    from ..lessons.grading_process import run as grade_elsewhere

    if not file.is_file():
        raise Problem("{file} isn't there: qkv learn {number} puts it there", file=file, number=lesson.number(name))
    if b"\x00" in file.read_bytes()[:10000]:
        raise Problem("{file} is not a text file", file=file)
    grade = grade_elsewhere(name, file)
    if grade.verdict == "right":
        folder.mark_solved(name)
    elif grade.step:
        folder.record_step(name, grade.step)
    _print_grade(folder, name, grade)
    return grade.exit_code


def _print_grade(folder: Folder, name: str, grade: "Grade") -> None:
    title = lesson.COURSE[lesson.number(name) - 1].title
    echo(VERDICTS[grade.verdict], number=lesson.number(name), title=title, passed=grade.passed, total=grade.total)
    for note in grade.messages:
        print("  " + say(note).replace("\n", "\n  "))
    if grade.lines > MAX_LINES or len(grade.printed) > MAX_CHARACTERS:
        print("  " + say("(your code printed {lines} lines; not shown)", lines=grade.lines))
    elif grade.printed.strip():
        print("  " + say("Your code printed:\n{text}", text=grade.printed.rstrip()).replace("\n", "\n    "))
    if grade.verdict != "right":
        print("  " + say("More help: qkv learn hint{more}", more=_argument(folder, name)))
    elif folder.current is None:
        print("  " + say(ALL_SOLVED, last=len(lesson.COURSE)))
    else:
        following = lesson.COURSE[lesson.number(folder.current) - 1]
        next_line = _("Next: exercise {number}, {title}:  qkv learn")
        print("  " + say(next_line, number=lesson.number(folder.current), title=following.title))


def _watch(folder: Folder, file: Path, name: str) -> int:
    """Grade now and after each change of the file; after a solved exercise go on to the next."""
    if not file.exists():
        folder.copy(name)
    watching = _("watching {file}: graded on every save; Ctrl-C ends it")
    print(say(watching, file=file), flush=True)
    last_stamp = None
    try:
        while True:
            stamp = _stamp(file)
            if stamp != last_stamp and stamp is not None:
                if last_stamp is not None:
                    print()
                last_stamp = stamp
                code = _check(folder, file, name)
                sys.stdout.flush()
                if code == 0:
                    if folder.current is None:
                        return 0
                    name = folder.current
                    file = folder.file(name)
                    folder.copy(name)
                    last_stamp = _stamp(file)
                    print("\n" + say(watching, file=file), flush=True)
            time.sleep(0.3)
    except KeyboardInterrupt:
        print("\n" + say("no longer watching"))
        return 0


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return modification time and size; None while an editor replaces the file."""
    try:
        state = file.stat()
    except FileNotFoundError:
        return None
    return state.st_mtime_ns, state.st_size


def _hint(folder: Folder, name: str, yes: bool) -> int:
    hints = lesson.load(name).ordered_hints(folder.steps.get(name, ""))
    at = folder.next_hint(name, len(hints))
    number, last = lesson.number(name), len(hints)
    if at == last:
        echo(
            "Those were all the hints for exercise {number}. Grading says more about your own answer (qkv learn "
            "check {number}); the last resort is  qkv learn solution {number}",
            number=number,
        )
    else:
        echo("Hint {n} of {last}, exercise {number}: {hint}", n=at + 1, last=last, number=number, hint=hints[at])
    return 0


def _solution(folder: Folder, name: str, yes: bool) -> int:
    file = folder.path / "solutions" / lesson.filename(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = lesson.render(name, solved=True)
    write_file(file, text)
    print(text)
    echo("A solution, also in {file}", file=file)
    return 0


def _reset(folder: Folder, name: str, yes: bool) -> int:
    file = folder.file(name)
    if file.exists() and not folder.is_unmodified(name) and not yes:
        if not sys.stdin.isatty():
            raise Problem("can't ask for confirmation without a terminal: add --yes to reset {file}", file=file)
        question = _("{file} is reset to its initial state; your version is kept in {backups}. Continue? [y/N] ")
        answer = input(say(question, file=file, backups=folder.path / "backups"))
        if answer.strip().lower() not in ("y", "yes", "是", "好"):
            echo("not changed")
            return 0
    backup = folder.reset(name)
    echo(_("{file} is reset; your version is in {kept}") if backup else _("{file} is reset"), file=file, kept=backup)
    return 0
