"""Count the files that a command goes through.

    PYTHONPATH=src python -m tools.walk [--files] [attend see train keystroke]

Print one line for each walk: the number of files of qkv whose functions run, the number of returns from other files of
qkv into the command's own file, and how many of these come from the package tracing. The walks are `qkv.attend`, `qkv see`
and `qkv train lm` on what ships with qkv, and one more letter in the studio's text. `sys.setprofile` sees calls of the
main thread only; what runs while a module is imported does not count. --files also prints the files.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import qkv
from qkv.cli import main

SOURCE = Path(qkv.__file__).parent
DATES = SOURCE / "demo" / "dates"


def walk(own: str, run: Callable[[], object]) -> tuple[set[str], int, int]:
    """Return the files whose functions run, the number of returns into the file `own`, and of those from tracing."""
    home, files, returns, from_tracing = SOURCE / own, set(), 0, 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal returns, from_tracing
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(str(SOURCE)) or _importing(frame):
            return
        files.add(file)
        caller = frame.f_back
        if event == "return" and caller is not None and file != str(home) == caller.f_code.co_filename:
            returns += 1
            from_tracing += file.startswith(str(SOURCE / "tracing"))

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        sys.setprofile(profile)
        try:
            run()
        finally:
            sys.setprofile(None)
    return {str(Path(file).relative_to(SOURCE)) for file in files}, returns, from_tracing


def _importing(frame: FrameType | None) -> bool:
    """True if a frame runs while a module is imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def attend() -> tuple[set[str], int, int]:
    """`qkv.attend` with a mask and weights."""
    q, k, v = torch.randn(3, 1, 2, 5, 8)
    return walk("attention/dispatch.py", lambda: qkv.attend(q, k, v, qkv.masks.causal(), weights=True))


def see() -> tuple[set[str], int, int]:
    """`qkv see` on a text."""
    verb = ["see", "15 Nov 2026", "--model", str(DATES)]
    return walk("commands/see.py", lambda: main(verb))


def train() -> tuple[set[str], int, int]:
    """`qkv train lm`, two steps."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text("the cat sat on the mat. " * 200, encoding="utf-8")
        verb = ["train", "lm", "--text", str(text), "--out", str(Path(folder, "run"))]
        return walk("commands/train.py", lambda: main([*verb, *"--steps 2 --context 16 --batch 2".split()]))


def keystroke() -> tuple[set[str], int, int]:
    """One more letter in the studio's text: the new view."""
    from qkv.studio import openable, requests
    from qkv.studio.handlers import HANDLERS, Job
    from qkv.studio.loaded_models import LoadedModels

    job = Job(LoadedModels(lambda event: None), lambda *_, **__: None, lambda: True, True)

    def type_text(text: str) -> None:
        request = {"do": "view", "spec": {"model": f"{DATES.parent.name}/dates", "text": text}}
        HANDLERS["view"](job, requests.parse(request, lambda name: openable.find(name, [DATES.parent])))

    type_text("15 Nov 202")
    return walk("studio/handlers.py", lambda: type_text("15 Nov 2026"))


WALKS = {"attend": attend, "see": see, "train": train, "keystroke": keystroke}

if __name__ == "__main__":
    os.environ["QKV_LANG"] = "en"
    names = [name for name in sys.argv[1:] if name != "--files"]
    for name in names or WALKS:
        files, returns, from_tracing = WALKS[name]()
        print(f"{name:10}{len(files):4} files {returns:4} returns, {from_tracing} from tracing")
        if "--files" in sys.argv:
            print("\n".join(f"    {file}" for file in sorted(files)))
