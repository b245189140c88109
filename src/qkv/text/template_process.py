"""The process that renders chat templates: requests and responses are lines of JSON. `chat_templates` starts it.

Templates come with models and are untrusted programs. Jinja's sandbox isolates them but limits neither time nor memory:
5|round(-9999999) computes a number of ten million digits, and nested lists can take forever to compare, all in C code
that Python can't interrupt. So this process limits its memory and CPU time, the caller sets a timeout, and the process
ends with its caller.

Of qkv only `lifeline` is imported, so the process is ready in a tenth of a second.
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

MEMORY_LIMIT = 1 << 29  # bytes for templates; a chat has a few thousand
MAX_CHARACTERS = 10_000_000  # of a rendered chat


class Generation(Extension):
    """Accepts {% generation %}, which marks the assistant's text for training, and renders its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the content of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    """Return JSON; Jinja's own filter would escape < and > for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def environment() -> ImmutableSandboxedEnvironment:
    """Return a Jinja2 environment set up as in `transformers`."""
    jinja = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    jinja.filters["tojson"] = _to_json
    jinja.globals["raise_exception"] = _raise
    jinja.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return jinja


def answer(jinja: ImmutableSandboxedEnvironment, request: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request: {"text": …}, {"refused": reason} or {"large": true}."""
    try:
        text = jinja.from_string(request["template"]).render(**request["values"])
    except TemplateError as error:
        return {"refused": str(error.message or type(error).__name__)[:1000]}
    except MemoryError:
        return {"large": True}
    except Exception as error:  # templates can raise any exception
        return {"refused": f"{type(error).__name__}: {str(error)[:1000]}"}
    return {"text": text} if len(text) <= MAX_CHARACTERS else {"large": True}


def limit_cpu(seconds: float) -> None:
    """Make the system end this process after this many more CPU seconds, at least one."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds) + 1, hard))


def main() -> None:
    """Answer requests until stdin or the caller ends. The argument, if any, is the file descriptor of the lifeline."""
    for number in sys.argv[1:]:
        end_with_caller(int(number))
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows and some Unixes have no such limits
        import resource

        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_LIMIT, size + MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, which then ends this process
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
