"""The process in which chat templates run: requests come in as lines of JSON, answers go out. `chat` starts it.

Templates come with models, so they are strangers' programs. Jinja's sandbox keeps them from reaching or changing
anything, but not from taking for ever or all memory, and there is no counting all the ways: 5|round(-9999999) computes a
number of ten million digits, two lists of themselves take for ever to compare, and all of it in C, where no line of ours
is passed. So the whole process has a limit of memory, set here, and of time, kept by the caller. It ends with its caller,
and after so many CPU seconds in any case.

It imports only `lifeline` of qkv: run as a file, it is ready in a tenth of a second.
"""

import contextlib
import json
import math
import signal
import sys
import time
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from qkv.process.lifeline import end_with_caller

MEMORY_LIMIT = 1 << 29  # bytes that templates may take: a chat is a few thousand
MAX_CHARACTERS = 10_000_000  # characters that a chat may have


class Generation(Extension):
    """{% generation %} marks what the assistant said, for training: here it is passed through."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """As if it were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    """Jinja's own would escape < and > as for a web page."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def environment() -> ImmutableSandboxedEnvironment:
    """Jinja2 as `transformers` sets it up."""
    jinja = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    jinja.filters["tojson"] = _to_json
    jinja.globals["raise_exception"] = _raise
    jinja.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return jinja


def answer(jinja: ImmutableSandboxedEnvironment, request: dict[str, Any]) -> dict[str, Any]:
    """{"text": …}, {"refused": why} or {"large": true}."""
    try:
        text = jinja.from_string(request["template"]).render(**request["values"])
    except TemplateError as error:
        return {"refused": str(error.message or type(error).__name__)[:1000]}
    except MemoryError:
        return {"large": True}
    except Exception as error:  # a template can do wrong whatever a program can
        return {"refused": f"{type(error).__name__}: {str(error)[:1000]}"}
    return {"text": text} if len(text) <= MAX_CHARACTERS else {"large": True}


def limit_cpu(seconds: float) -> None:
    """Let the system end this process after so many more CPU seconds, at least one."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds) + 1, hard))


def main() -> None:
    """Answer requests until stdin ends or the caller does. The first argument is the number of the lifeline, if any."""
    for number in sys.argv[1:]:
        end_with_caller(int(number))
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows and some Unixes have no such limits
        import resource

        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_LIMIT, size + MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asked, who then ends this
    jinja = environment()
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            request = json.loads(line)
            limit_cpu(request["seconds"])
            response = json.dumps(answer(jinja, request))
        except MemoryError:
            response = '{"large": true}'
        print(response, flush=True)


if __name__ == "__main__":
    main()
