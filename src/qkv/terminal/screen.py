"""What reaches a terminal: text of strangers is shown there and never obeyed.

Tokens, names of models and files, chat templates, what a model writes and errors that quote a file may hold anything, and
a terminal obeys escapes: they move the cursor over what was said before, recolour it, rename the window; and overrides of
direction show one text where another stands. So while a command runs, all that is printed passes through a `Screen`,
which writes such characters as what they are, \\u001b. Our own colours and live lines go round it, by `draw` and `live`.
"""

import contextlib
import html
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

# All controls but tab and line ends (a \\r that stands before \\n is part of one), and what turns the direction of text.
UNSAFE = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    r"""The text with everything that a terminal would obey written out, as Python and JSON write it.

    >>> print(plain("a\x1b[2Jb\u202ec\n人"))
    a\u001b[2Jb\u202ec
    人
    """
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Screen:
    """A stream that writes everything plainly; whatever else is asked of it, it is the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._pending = ""  # a \r that ended a piece: the next one tells whether a line ends here

    def write(self, text: str) -> int:
        """As of any stream."""
        whole = self._pending + text
        self._pending = "\r" if whole.endswith("\r") else ""
        with _lock:
            _erase_live_line()
            self.stream.write(plain(whole[:-1] if self._pending else whole))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As of any stream."""
        for line in lines:
            self.write(line)

    def settle(self) -> None:
        """Nothing more comes: what was held is shown too."""
        pending, self._pending = self._pending, ""
        if pending:
            self.stream.write(plain(pending))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class InNotebook:
    """What prints as a drawing of characters: a notebook shows it so too."""

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.25">{html.escape(plain(str(self)))}</pre>'


@contextlib.contextmanager
def escaped_output() -> Iterator[None]:
    """All that is printed inside is shown plainly, on stdout and stderr."""
    out, errors = Screen(sys.stdout), Screen(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            yield
        finally:
            with contextlib.suppress(OSError, ValueError):  # nobody listens any more
                out.settle()
                errors.settle()


def draw(text: str) -> None:
    """Print something of our own with its colours; what is foreign in it was made plain as it was put in."""
    with _lock:
        _erase_live_line()
        _unescaped(sys.stdout).write(text + "\n")


def live(text: str, stream: TextIO | Screen, *, fleeting: bool = False) -> None:
    """A line in the place of the one before; without a text, that one is wiped away.

    A fleeting one makes room for whatever is printed while it stands, on stdout too: both are often one terminal.
    """
    global _live_stream
    output = _unescaped(stream)
    with _lock:
        output.write("\r\x1b[K" + plain(text).replace("\n", " "))
        output.flush()
        _live_stream = output if fleeting and text else None


_lock = threading.RLock()  # a progress bar is drawn by a thread of its own
_live_stream: TextIO | None = None  # the stream on which a fleeting line stands: a process has one terminal


def _erase_live_line() -> None:
    global _live_stream
    if _live_stream is not None:
        _live_stream.write("\r\x1b[K")
        _live_stream.flush()
        _live_stream = None


def _unescaped(stream: TextIO | Screen) -> TextIO:
    return stream.stream if isinstance(stream, Screen) else stream
