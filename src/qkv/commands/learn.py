"""qkv learn: graded exercises, from q·k by hand to a GPT that trains."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..lessons import lesson
from ..lessons.progress import FILE, Folder
from ..words import LANGUAGES, Problem, both, language, nearest, say, unknown

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
LINES, CHARACTERS = 20, 2000  # more that somebody's code prints isn't shown
ACTIONS = ("check", "hint", "watch", "solution", "reset")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add(
        "what",
        nargs="*",
        metavar="check|hint|watch|solution|reset|N",
        help=both(
            "nothing: the list, and the next exercise; N or a name: that exercise; check [N|FILE|all]: grade it; hint [N]: a hint; "
            "watch [N]: grade on every save; solution [N]; reset N: start it anew",
            "不写：列出练习并给出下一个；N 或名字：那个练习；check [N|文件|all]：评分；hint [N]：提示；"
            "watch [N]：每次保存自动评分；solution [N]：解答；reset N：重新开始",
        ),
    )
    add(
        "--folder",
        type=Path,
        help=both("where your exercises are (./learn)", "你的练习放在哪里（./learn）"),
    )
    add("--yes", action="store_true", help=both("reset without asking", "重置时不再询问"))


def run(options: argparse.Namespace) -> int:
    """One of the actions; gives 0 right, 1 wrong, 2 could not run."""
    folder = Folder.here(options.folder)
    if folder.damaged is not None:
        print(say("learn.damaged", file=folder.path / FILE, aside=folder.damaged.name), file=sys.stderr)
    what, *which = options.what or [""]
    if what not in ACTIONS:
        if nearest(what, [*ACTIONS, *lesson.NAMES]) in ACTIONS:
            raise unknown("qkv learn", what, ACTIONS)
        if len(options.what) > 1:
            raise Problem("learn.many", what="qkv learn", n=len(options.what))
        return _show(folder, what)
    if len(which) > 1:
        raise Problem("learn.many", what=f"qkv learn {what}", n=len(which))
    if what == "check" and which == ["all"]:
        names = [name for name in lesson.NAMES if folder.file(name).exists()]
        if not names:
            raise Problem("learn.file.none", file=folder.file(lesson.NAMES[0]), number=1)
        return max(_check(folder, folder.file(name), name) for name in names)
    name = lesson.find(which[0]) if which else folder.current
    if name is None:
        raise Problem("learn.all.solved", what=what)
    place = Path(which[0]) if which and Path(which[0]).is_file() else folder.file(name)
    if what == "check":
        return _check(folder, place, name)
    if what == "watch":
        return _watch(folder, place, name)
    return {"hint": _hint, "solution": _solution, "reset": _reset}[what](folder, name, options.yes)


def _show(folder: Folder, word: str) -> int:
    """The list, and the exercise to do now, which is copied if it isn't there."""
    if word:
        folder.choose(lesson.find(word))
    name = lesson.find(word) if word else folder.current
    if not word:
        print(say("learn.title", solved=len(folder.solved), last=len(lesson.COURSE), folder=folder.path) + "\n")
        for at, (each, title, library) in enumerate(lesson.COURSE, 1):
            mark = "✓" if each in folder.solved else "→" if each == name else " "
            print(f"  {mark} " + say("learn.line", number=f"{at:2}", title=title, library=library))
        print()
    if name is None:
        print(say("learn.done", last=len(lesson.COURSE)))
        return 0
    folder.copy(name)
    folder.save()
    title = lesson.COURSE[lesson.number(name) - 1].title
    print(say("learn.copied", number=lesson.number(name), title=title, file=folder.file(name)))
    print(say("learn.next", file=folder.file(name), more=_more(folder, name)))
    return 0


def _more(folder: Folder, name: str) -> str:
    """What to type behind an action: nothing for the current exercise."""
    return "" if name == folder.current else f" {lesson.number(name)}"


def _check(folder: Folder, place: Path, name: str) -> int:
    from ..lessons.run import run as grade_elsewhere

    if not place.is_file():
        raise Problem("learn.file.none", file=place, number=lesson.number(name))
    if b"\x00" in place.read_bytes()[:10000]:
        raise Problem("learn.file.text", file=place)
    grade = grade_elsewhere(name, place)
    if grade.verdict == "right":
        folder.solve(name)
    _tell(folder, name, grade)
    return grade.exit_code


def _tell(folder: Folder, name: str, grade: "Grade") -> None:
    spoken = LANGUAGES.index(language())
    title = lesson.COURSE[lesson.number(name) - 1].title
    key = f"learn.verdict.{grade.verdict}"
    print(say(key, number=lesson.number(name), title=title, passed=grade.passed, total=grade.total))
    for sentence in grade.says:
        print("  " + sentence[spoken].replace("\n", "\n  "))
    if grade.lines > LINES or len(grade.printed) > CHARACTERS:
        print("  " + say("learn.printed.much", lines=grade.lines))
    elif grade.printed.strip():
        print("  " + say("learn.printed", text=grade.printed.rstrip()).replace("\n", "\n    "))
    if grade.verdict != "right":
        print("  " + say("learn.more", more=_more(folder, name)))
    elif folder.current is None:
        print("  " + say("learn.done", last=len(lesson.COURSE)))
    else:
        coming = lesson.COURSE[lesson.number(folder.current) - 1]
        print("  " + say("learn.go.on", number=lesson.number(folder.current), title=coming.title))


def _watch(folder: Folder, place: Path, name: str) -> int:
    """Grade now and whenever the file changes; a solved one is followed by the next, which is copied."""
    if not place.exists():
        folder.copy(name)
    print(say("learn.watching", file=place), flush=True)
    seen = None
    try:
        while True:
            now = _stamp(place)
            if now != seen and now is not None:
                if seen is not None:
                    print()
                seen = now
                code = _check(folder, place, name)
                sys.stdout.flush()
                if code == 0:
                    if folder.current is None:
                        return 0
                    name = folder.current
                    place, seen = folder.file(name), None
                    folder.copy(name)
                    seen = _stamp(place)
                    print("\n" + say("learn.watching", file=place), flush=True)
            time.sleep(0.3)
    except KeyboardInterrupt:
        print("\n" + say("learn.watched"))
        return 0


def _stamp(place: Path) -> tuple[int, int] | None:
    """When it was last written; None while an editor is just replacing it."""
    try:
        state = place.stat()
    except FileNotFoundError:
        return None
    return state.st_mtime_ns, state.st_size


def _hint(folder: Folder, name: str, yes: bool) -> int:
    hints = lesson.load(name).hints
    at = folder.next_hint(name, len(hints))
    if at == len(hints):
        print(say("learn.hint.none", number=lesson.number(name)))
    else:
        print(say("learn.hint", n=at + 1, last=len(hints), number=lesson.number(name), hint=hints[at]))
    return 0


def _solution(folder: Folder, name: str, yes: bool) -> int:
    place = folder.path / "solutions" / lesson.filename(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    text = lesson.write(name, solved=True)
    place.write_text(text, encoding="utf-8", newline="\n")
    print(text)
    print(say("learn.solution", file=place))
    return 0


def _reset(folder: Folder, name: str, yes: bool) -> int:
    place = folder.file(name)
    if place.exists() and not folder.untouched(name) and not yes:
        if not sys.stdin.isatty():
            raise Problem("learn.reset.yes", file=place)
        answer = input(say("learn.reset.ask", file=place, backups=folder.path / "backups"))
        if answer.strip().lower() not in ("y", "yes", "是", "好"):
            print(say("learn.reset.no"))
            return 0
    kept = folder.reset(name)
    print(say("learn.reset.kept" if kept else "learn.reset.fresh", file=place, kept=kept))
    return 0
