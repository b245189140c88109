"""A chat as the text that a model was taught to read, by the model's own template (Jinja2, as `transformers` runs it).

Templates come with models, so they are strangers' programs: they run in Jinja's sandbox, where nothing can be reached
or changed, and are stopped when they take too long or make too much.

What people write must never become a control token: a message that contains "<|im_end|>" is a message about that
token, not the end of the turn. So in every message such names are broken by a mark that no text holds, the template
is filled in, names that are whole are then the template's own, and the marks are taken out again.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import FrameType
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..words import Problem

SECONDS = 5.0  # a template takes a millisecond
LARGEST = 10_000_000  # characters that one product may make
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # never characters of any text, says Unicode


class _Generation(Extension):
    """{% generation %} marks what the assistant said, for training: here it is passed through."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(side) if isinstance(side, str | list | tuple) else side for side in (left, right)]
        if operator == "**" or any(isinstance(side, str | list | tuple) for side in (left, right)):
            grown = abs(sizes[0]) ** min(abs(sizes[1]), 64) if operator == "**" else sizes[0] * sizes[1]
            if grown > LARGEST:
                raise TemplateError(f"{operator} makes something too large")
        return super().call_binop(context, operator, left, right)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)  # Jinja's own would escape < and > as for a web page


@cache
def _environment() -> _Sandbox:
    made = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation])
    made.filters["tojson"] = _to_json
    made.globals["raise_exception"] = _raise
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def render(template: str, messages: Sequence[Mapping[str, Any]], *, answer: bool, names: Mapping[str, str]) -> str:
    """The template filled in; `names` are bos_token, eos_token, …; with `answer`, up to where the model goes on.

    >>> render("{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}",
    ...        [{"role": "user", "content": "Hi"}], answer=False, names={})
    'user: Hi\\n'
    """
    values = {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": answer, **names}
    try:
        with _Deadline(SECONDS):
            return _environment().from_string(template).render(**values)
    except TemplateError as error:
        raise Problem("text.chat.template", why=error.message or type(error).__name__) from None
    except _TooLong:
        raise Problem("text.chat.long", seconds=SECONDS) from None
    except Exception as error:  # a template can do wrong whatever a program can
        raise Problem("text.chat.template", why=f"{type(error).__name__}: {error}") from None


def guard(messages: Sequence[Mapping[str, Any]], names: Iterable[str]) -> tuple[list[Any], str]:
    """The messages with the names of control tokens broken by a mark, and the mark.

    >>> guarded, mark = guard([{"role": "user", "content": "say <end> now"}], ["<end>"])
    >>> guarded[0]["content"].replace(mark, "·")
    'say <·end> now'
    """
    names = [name for name in names if len(name) > 1]
    written = json.dumps(messages, ensure_ascii=False, default=str)
    mark = next((mark for mark in MARKS if mark not in written), None)
    if mark is None:
        raise Problem("text.chat.marks")
    if not names:
        return list(messages), mark
    whole = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    begun = {name[:n] for name in names for n in range(1, len(name))}
    ended = {name[n:] for name in names for n in range(1, len(name))}
    longest = max(map(len, names))

    def within(core: str) -> bool:
        return len(core) < longest and any(core in name for name in names)

    def broken(text: str) -> str:
        # Again and again, since names may overlap: what is left of one can be part of the next.
        while found := whole.search(text):
            text = text[: found.start() + 1] + mark + text[found.start() + 1 :]
        core = text.strip()  # templates strip too
        if core:
            first = text.index(core)
            # A name that is only begun or ended here could be made whole by what the template puts beside it.
            after = mark if any(core[-n:] in begun for n in range(1, longest)) else ""
            before = mark if any(core[:n] in ended for n in range(1, longest)) or within(core) else ""
            text = text[:first] + before + core + after + text[first + len(core) :]
        return text

    def through(value: Any) -> Any:
        if isinstance(value, str):
            return broken(value)
        if isinstance(value, Mapping):
            return {key: through(inner) for key, inner in value.items()}
        return [through(inner) for inner in value] if isinstance(value, list | tuple) else value

    # The role is a word the template compares with; it is broken only if it holds a whole name.
    return [
        {key: value if key == "role" and not whole.search(str(value)) else through(value) for key, value in m.items()}
        for m in messages
    ], mark


class _TooLong(BaseException):
    """Not an Exception, so that nothing within a template can catch it."""


class _Deadline:
    """Stops Python code that runs for too long, by looking at the clock on every line of it."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.before: Callable[..., Any] | None = None

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        if self.before is None:  # a debugger or a coverage tool is not pushed aside
            sys.settrace(self._look)

    def __exit__(self, *_: object) -> None:
        if self.before is None:
            sys.settrace(None)

    def _look(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if time.monotonic() > self.end:
            raise _TooLong
        return self._look
