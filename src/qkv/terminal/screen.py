"""Safe output to a terminal: control characters in untrusted text are escaped.

Tokens, file names, chat templates, generated text and quoted files may hold escape sequences, which move the cursor,
recolour or rename the window, and direction overrides, which show text in another order. While a command runs, all output
passes through a `Screen`, which writes such characters as \\u001b. Colours and live lines of qkv bypass it: `draw`, `live`.
"""

import contextlib
import html
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

# Control characters except tab and line ends (\n, \r\n), and direction overrides.
UNSAFE = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    r"""Return the text with control characters escaped as in Python and JSON.

    >>> print(plain("a\x1b[2Jb\u202ec\n人"))
    a\u001b[2Jb\u202ec
    人
    """
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Screen:
    """A stream that escapes control characters; other attributes are those of the wrapped stream."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._pending = ""  # a trailing \r: only the next write shows whether it belongs to a line end

    def write(self, text: str) -> int:
        """Write the text with control characters escaped."""
        whole = self._pending + text
        self._pending = "\r" if whole.endswith("\r") else ""
        with _lock:
            _erase_live_line()
            self.stream.write(plain(whole[:-1] if self._pending else whole))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line with control characters escaped."""
        for line in lines:
            self.write(line)

    def settle(self) -> None:
        """Write the pending carriage return, if any."""
        pending, self._pending = self._pending, ""
        if pending:
            self.stream.write(plain(pending))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class InNotebook:
    """Mixin for objects whose `str` is a drawing: notebooks show it in a monospaced font."""

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.25">{html.escape(plain(str(self)))}</pre>'


@contextlib.contextmanager
def escaped_output() -> Iterator[None]:
    """Escape control characters in everything that the block prints to stdout and stderr."""
    out, errors = Screen(sys.stdout), Screen(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            yield
        finally:
            with contextlib.suppress(OSError, ValueError):  # the pipe is closed
                out.settle()
                errors.settle()


def draw(text: str) -> None:
    """Print text with its colours; untrusted parts must be escaped already (`plain`)."""
    with _lock:
        _erase_live_line()
        _unescaped(sys.stdout).write(text + "\n")


def live(text: str, stream: TextIO | Screen, *, fleeting: bool = False) -> None:
    """Replace the current line of the terminal; an empty text erases it.

    A fleeting line is erased before the next output, also to stdout, which is often the same terminal.
    """
    global _live_stream
    output = _unescaped(stream)
    with _lock:
        output.write("\r\x1b[K" + plain(text).replace("\n", " "))
        output.flush()
        _live_stream = output if fleeting and text else None


_lock = threading.RLock()  # progress bars are drawn by a thread
_live_stream: TextIO | None = None  # the stream with a fleeting line; a process has one terminal


def _erase_live_line() -> None:
    global _live_stream
    if _live_stream is not None:
        _live_stream.write("\r\x1b[K")
        _live_stream.flush()
        _live_stream = None


def _unescaped(stream: TextIO | Screen) -> TextIO:
    return stream.stream if isinstance(stream, Screen) else stream
