"""Render chats with a model's own template (Jinja2, as in `transformers`).

Templates come with models and are untrusted programs. They run in a separate process (`template_process.py`), which is
killed on a timeout and otherwise reused for the next chat.

A message must never become a control token: "<|im_end|>" in a message is text about that token, not the end of the
turn. `guard` therefore breaks such names in messages with a mark that occurs in no text. After rendering, unbroken
names are the template's own, and the marks are removed.
"""

import atexit
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..i18n import Problem, quoted

SECONDS = 5.0  # time limit; a template usually takes a millisecond
START_SECONDS = 120.0  # time limit for starting the process on a busy machine
ChatMessage = Mapping[str, Any]  # role, content and other keys that the template reads
TOO_LARGE = '{"large": true}'  # the response if the template exceeded the limits, also if the process died of them
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # noncharacters: Unicode excludes them from text


def render(template: str, messages: Sequence[ChatMessage], *, answer: bool, names: Mapping[str, str]) -> str:
    """Return the rendered chat; with `answer`, it ends where the answer begins. `names` are bos_token, eos_token, ….

    >>> render("{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}",
    ...        [{"role": "user", "content": "Hi"}], answer=False, names={})
    'user: Hi\\n'
    """
    values = {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": answer, **names}
    request = json.dumps({"template": template, "values": values, "seconds": SECONDS}, default=str)
    with _lock:
        response = json.loads(_exchange(request))
    if "refused" in response:
        raise Problem("the model's chat template failed: {why}", why=response["refused"])
    if "text" not in response:
        raise Problem("the model's chat template exceeded its limit of memory or text length and was stopped")
    return response["text"]


class _Process:
    """The worker process that renders templates, started on first use."""

    def __init__(self) -> None:
        self.owner = os.getpid()  # a forked child must start its own
        self.timed_out = False
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
        lifeline, self.lifeline = os.pipe()
        inherited = () if os.name == "nt" else (lifeline,)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("template_process.py")), *map(str, inherited)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**os.environ, **variables},
                pass_fds=inherited,
            )
        except OSError as error:
            os.close(self.lifeline)
            raise Problem("the process that runs chat templates can't be started: {why}", why=quoted(error)) from None
        finally:
            os.close(lifeline)
        if self.exchange(None, START_SECONDS) != "ready\n":
            self.close()
            raise Problem(
                "the process that runs chat templates can't be started: {why}",
                why=f"exit code {self.process.returncode}",
            )

    def exchange(self, line: str | None, seconds: float) -> str:
        """Send a line and return the response; "" if the process died or was killed on the timeout."""
        assert self.process.stdin is not None and self.process.stdout is not None
        alarm = threading.Timer(seconds, self._time_out)
        alarm.daemon = True
        alarm.start()
        try:
            if line is not None:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
            response = self.process.stdout.readline()
            return response if response.endswith("\n") else ""
        except OSError:  # the process is already dead
            return ""
        finally:
            alarm.cancel()

    def _time_out(self) -> None:
        self.timed_out = True
        self.process.kill()  # signals that Python handles would wait for C code

    def close(self) -> None:
        """Kill the process and close its pipes."""
        if self.owner == os.getpid():
            self.process.kill()
            self.process.wait()
        os.close(self.lifeline)
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


# Shared by all chats: starting a process takes longer than rendering a chat. A forked child starts its own.
_process: _Process | None = None
_lock = threading.Lock()


def _exchange(request: str) -> str:
    """Return the response to a request, restarting the process if it died."""
    global _process
    if _process is not None and _process.process.poll() is not None:
        _close_process()
    _process = _process or _Process()
    response = ""
    try:
        response = _process.exchange(request, SECONDS)
        if not response and _process.timed_out:
            raise Problem(
                "the model's chat template ran for more than {seconds} seconds and was stopped", seconds=SECONDS
            )
        return response or TOO_LARGE
    finally:
        if not response:  # also after an interrupt: the next response would belong to this request
            _close_process()


def _close_process() -> None:
    global _process
    if _process is not None:
        _process.close()
    _process = None


def _reset_after_fork() -> None:
    """Drop the process and the lock, which belong to the parent."""
    global _lock
    _lock = threading.Lock()
    _close_process()


atexit.register(_close_process)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def guard(messages: Sequence[ChatMessage], names: Iterable[str]) -> tuple[list[ChatMessage], str]:
    """Return the messages with the names of control tokens broken by a mark, and the mark.

    >>> guarded, mark = guard([{"role": "user", "content": "say <end> now"}], ["<end>"])
    >>> guarded[0]["content"].replace(mark, "·")
    'say <·end> now'
    """
    names = [name for name in names if len(name) > 1]
    serialized = json.dumps(messages, ensure_ascii=False, default=str)
    mark = next((mark for mark in MARKS if mark not in serialized), None)
    if mark is None:
        raise Problem("the chat contains all 32 noncharacters U+FDD0 to U+FDEF: remove one of them")
    if not names:
        return list(messages), mark
    name_pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    longest = max(map(len, names))
    firsts, lasts = {name[0] for name in names}, {name[-1] for name in names}

    def break_names(text: str) -> str:
        # Repeat, since names may overlap: the rest of one can be part of the next.
        while match := name_pattern.search(text):
            text = text[: match.start() + 1] + mark + text[match.start() + 1 :]
        core = text.strip()  # as templates do
        if core:
            first = text.index(core)
            # The template could complete a name whose beginning or end is here.
            lengths = range(1, min(longest, len(core) + 1))
            tails = [core[-n:] for n in lengths if core[-n] in firsts]
            heads = [core[:n] for n in lengths if core[n - 1] in lasts]
            after = mark if any(name.startswith(tail) for tail in tails for name in names) else ""
            is_inside = any(core in name for name in names)
            before = mark if is_inside or any(name.endswith(head) for head in heads for name in names) else ""
            text = text[:first] + before + core + after + text[first + len(core) :]
        return text

    def guard_value(value: Any) -> Any:
        if isinstance(value, str):
            return break_names(value)
        if isinstance(value, Mapping):
            return {key: guard_value(inner) for key, inner in value.items()}
        return [guard_value(inner) for inner in value] if isinstance(value, list | tuple) else value

    # Templates compare the role with words, so it is broken only if it contains a whole name.
    return [
        {
            key: value if key == "role" and not name_pattern.search(str(value)) else guard_value(value)
            for key, value in m.items()
        }
        for m in messages
    ], mark
