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
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, wraps
from types import FrameType
from typing import Any

from jinja2 import TemplateError, nodes, pass_environment
from jinja2.ext import Extension
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from ..words import Problem

SECONDS = 5.0  # a template takes a millisecond
LARGEST = 10_000_000  # characters that one step of a template may make
MOST = 10 * LARGEST  # and all of them
DIGITS = 10_000  # bits of a number
# Methods and filters that no chat needs and that can make much of little.
REFUSED = {"translate", "maketrans", "encode", "to_bytes", "expandtabs", "batch", "slice", "pprint", "urlize"} | {
    "urlencode",
    "wordwrap",
    "xmlattr",
    "striptags",
}
# Filters that look at a value and never write it out.
LOOKING = {"length", "count", "first", "last", "list", "items", "map", "select", "reject", "selectattr"} | {
    "rejectattr",
    "attr",
    "default",
    "d",
    "reverse",
    "random",
    "sum",
    "tojson",
    "abs",
}
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # never characters of any text, says Unicode


class _Generation(Extension):
    """{% generation %} marks what the assistant said, for training: here it is passed through."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Made(threading.local):
    """How much the template that runs now has made, so that it can't fill the memory bit by bit."""

    size = 0

    def add(self, size: int, what: str) -> None:
        self.size += size
        if size > LARGEST or self.size > MOST:
            raise TemplateError(f"{what} makes something too large")


_made = _Made()


def _count(value: Any, what: str) -> Any:
    """The value, once it is counted: characters, or 8 bytes for each element."""
    if isinstance(value, int) and value.bit_length() > DIGITS:
        raise TemplateError(f"{what} makes something too large")
    if isinstance(value, str | list | tuple | dict | set):
        _made.add(len(value) if isinstance(value, str) else len(value) * 8, what)
    return value


def _written(value: Any, left: int = LARGEST) -> int:
    """About how long a value is as text. The same list within lists is written each time, so it counts each time."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Namespace):
        value = object.__getattribute__(value, "_Namespace__attrs")
    if isinstance(value, Mapping):
        value = value.items()
    size = 8
    if isinstance(value, Collection):
        for inner in value:
            size += 2 + _written(inner, left - size)
            if size > left:
                raise TemplateError("the text of a list is too large")
    return size


def _numbers(value: Any) -> Iterable[int]:
    """The whole numbers of a list of arguments, one level deep."""
    for inner in value:
        yield from (abs(x) for x in (inner if isinstance(inner, list | tuple) else [inner]) if isinstance(x, int))


def _widths(form: str) -> int:
    """The sum of the numbers within a format: its widths and precisions."""
    return sum(int(digits[:12]) for digits in re.findall(r"[0-9]+", form))


def _percent(form: str, values: Any) -> int:
    """At most how long form % values is."""
    size = len(form) + form.count("%") * _written(values) + _widths(form)
    given = values if isinstance(values, tuple) else (values,)
    return size + form.count("*") * max(_numbers(given), default=0)


def _replaced(text: Any, old: Any, new: Any, *_: Any, **__: Any) -> int:
    text, old, new = str(text), str(old), str(new)
    return len(text) + text.count(old) * len(new)


def _joined(values: Any, between: Any = "", *_: Any, **__: Any) -> int:
    return _written(values) + len(values) * len(str(between))


def _indented(text: Any, width: Any = 4, *_: Any, **__: Any) -> int:
    return len(str(text)) + (str(text).count("\n") + 1) * (len(width) if isinstance(width, str) else abs(width))


class _Formatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        _made.add(_written(value) + _widths(format_spec), "format")
        return super().format_field(value, format_spec)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        _written(value)
        return super().convert_field(value, conversion)


class _Bound(NodeTransformer):
    """What Jinja's code does by itself, without asking the sandbox: a ~ b, slices and long lists."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._call("joined", node.nodes, node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return self._call("counted", [node], node) if isinstance(node.arg, nodes.Slice) else node

    def visit_List(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        loaded = getattr(node, "ctx", "load") == "load"
        return self._call("counted", [node], node) if loaded and len(node.items) > 16 else node

    visit_Tuple = visit_Dict = visit_List

    def _call(self, name: str, given: list[Any], at: nodes.Node) -> nodes.Call:
        return nodes.Call(nodes.EnvironmentAttribute(name), given, [], None, None, lineno=at.lineno)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["*", "**", "+", "%"])

    def _generate(self, source: nodes.Template, *args: Any, **options: Any) -> str:
        return super()._generate(_Bound().visit(source), *args, **options)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(side) if isinstance(side, str | list | tuple) else side for side in (left, right)]
        if operator == "%" and isinstance(left, str):
            _made.add(_percent(left, right), operator)
        elif operator == "**" or (operator == "*" and any(isinstance(s, str | list | tuple) for s in (left, right))):
            grown = abs(sizes[0]) ** min(abs(sizes[1]), 64) if operator == "**" else sizes[0] * sizes[1]
            if grown > LARGEST:
                raise TemplateError(f"{operator} makes something too large")
        return _count(super().call_binop(context, operator, left, right), operator)

    def call(__self, __context: Any, __obj: Any, *args: Any, **options: Any) -> Any:
        name = getattr(__obj, "__name__", type(__obj).__name__)
        if any(number > LARGEST for number in _numbers([*args, *options.values()])):
            raise TemplateError(f"{name} makes something too large")
        text = getattr(__obj, "__self__", None)
        if isinstance(text, str):
            if name == "replace" and len(args) > 1:
                _made.add(_replaced(text, *args), name)
            elif name == "join" and args:
                args = (args[0] if isinstance(args[0], Collection) else list(args[0]), *args[1:])
                _made.add(_joined(args[0], text), name)
        return _count(super().call(__context, __obj, *args, **options), name)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in REFUSED and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text, mapped = str(value.__self__), value.__name__ == "format_map"

        def bounded(*args: Any, **options: Any) -> str:
            given: Any = ((), args[0]) if mapped and len(args) == 1 else (args, options)
            _Formatter(self).vformat(text, *given)  # stops at what is too large
            return wrapped(*args, **options)

        return bounded

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        kept, size = [], 0
        for piece in pieces:
            size += len(piece)
            if size > LARGEST:
                raise TemplateError("the template makes something too large")
            kept.append(piece)
        return str(_count("".join(kept), "the template"))

    @staticmethod
    def joined(*values: Any) -> str:
        _made.add(sum(map(_written, values)), "~")
        return "".join(map(str, values))

    @staticmethod
    def counted(value: Any) -> Any:
        return value  # what a call gives is counted


def _bounded(name: str, filter: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that refuses to make too much."""
    passed = 1 if hasattr(filter, "jinja_pass_arg") else 0
    known: dict[str, Callable[..., int]] = {"replace": _replaced, "join": _joined, "indent": _indented}
    foreseen = known.get(name)

    @wraps(filter)
    def bounded(*args: Any, **options: Any) -> Any:
        given = list(args[passed:])
        if any(number > LARGEST for number in _numbers([*given[1:], *options.values()])):
            raise TemplateError(f"{name} makes something too large")
        if name not in LOOKING:
            given = [list(value) if isinstance(value, Iterator) else value for value in given]
            for value in (*given, *options.values()):
                _written(value)
        if name == "format":
            _made.add(_percent(str(given[0]), options or tuple(given[1:])), name)
        if foreseen is not None:
            named = {"d": "between", "s": "text"}
            _made.add(foreseen(*given, **{named.get(key, key): value for key, value in options.items()}), name)
        return _count(filter(*args[:passed], *given, **options), name)

    return bounded


def _raise(message: str) -> None:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    for given in (options.get("indent") or 0, *(options.get("separators") or ())):
        if (len(given) if isinstance(given, str) else given) > 100:
            raise TemplateError("tojson makes something too large")
    # Piece by piece. Jinja's own would escape < and > as for a web page.
    return _Sandbox.concat(json.JSONEncoder(ensure_ascii=ensure_ascii, **options).iterencode(value))


@pass_environment
def _sum(environment: _Sandbox, values: Iterable[Any], attribute: Any = None, start: Any = 0) -> Any:
    of = make_attrgetter(environment, attribute) if attribute is not None else lambda value: value
    for value in values:
        start = environment.call_binop(None, "+", start, of(value))
    return start


def _now(form: str) -> str:
    if len(form) > 1000:
        raise TemplateError("strftime_now makes something too large")
    return datetime.now().strftime(form)


def _shown(value: Any) -> Any:
    _written(value)
    return value


@cache
def _environment() -> _Sandbox:
    made = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, finalize=_shown, extensions=["jinja2.ext.loopcontrols", _Generation]
    )
    made.filters["tojson"], made.filters["sum"] = _to_json, _sum
    made.filters = {n: _bounded(n, filter) for n, filter in made.filters.items() if n not in REFUSED}
    del made.globals["lipsum"]
    made.globals["raise_exception"] = _raise
    made.globals["strftime_now"] = _now
    return made


def render(template: str, messages: Sequence[Mapping[str, Any]], *, answer: bool, names: Mapping[str, str]) -> str:
    """The template filled in; `names` are bos_token, eos_token, …; with `answer`, up to where the model goes on.

    >>> render("{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}",
    ...        [{"role": "user", "content": "Hi"}], answer=False, names={})
    'user: Hi\\n'
    """
    values = {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": answer, **names}
    _made.size = 0
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
