"""The web process: access control, the page, and forwarding of requests to the worker. It never loads torch.

    GET  /             the studio; with the ?token=… of the printed address, sets a cookie and redirects to /
    GET  /studio.js    all modules as one script      /studio.css, /events.js
    POST /api/ask      a request in JSON; the response is frames (frames.py)
    GET  /api/events   the worker's state, as server-sent events

Host must be a name of this machine (against DNS rebinding), Origin this address, and the cookie must hold the token.
"""

from __future__ import annotations

import asyncio
import hmac
import html as escaping
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import cache
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from .. import __version__
from ..draw.page_shell import asset, in_every_language, script, style, tag
from ..i18n import Message, Problem, _, language, quoted
from ..library import store
from . import openable, requests
from .frames import Fields, frame
from .requests import FetchRequest, ModelsRequest
from .worker_client import WorkerClient, problem

FRAMES = "application/octet-stream"
BODY = 2_000_000  # bytes of a request: a text of a hundred thousand words
PATIENCE = 15.0  # seconds to receive a request
HEADSTART = 1.5  # seconds until the worker starts, unless a request needs it earlier
PULSE = 15.0  # seconds between keep-alive comments of the event stream
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STYLES = ("core/style", "steps/machine", "core/slider", "studio/studio")


class Studio:
    """The app."""

    def __init__(self, port: int, folders: Sequence[Path] = (), *, token: str = "", names: Sequence[str] = ()) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.cookie = f"qkv-studio-{port}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", *names)}
        self.folders = [folder.resolve() for folder in folders]
        self.worker = WorkerClient()
        self.fetching: set[str] = set()
        self.routes: dict[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {
            ("GET", "/"): self.page,
            ("GET", "/studio.js"): _text("text/javascript", lambda: script("studio/studio")),  # all modules
            # The script of the worker in the browser that holds the one stream of events for all tabs.
            ("GET", "/events.js"): _text("text/javascript", lambda: asset("studio/event_worker.js")),
            ("GET", "/studio.css"): _text("text/css", lambda: "".join(map(style, STYLES))),
            ("POST", "/api/ask"): self.handle_request,
            ("GET", "/api/events"): self.events,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the start and end of the server."""
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = self._refused(request) or await self._answer(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        try:
            await response(scope, receive, send)
        except (ClientDisconnect, asyncio.CancelledError):
            pass

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                # The first page needs no worker, which would take both cores while it starts.
                asyncio.get_running_loop().call_later(HEADSTART, self.worker.start)
                await send({"type": "lifespan.startup.complete"})
            else:
                self.worker.close()
                return await send({"type": "lifespan.shutdown.complete"})

    def _refused(self, request: Request) -> Response | None:
        """Return the response that refuses a request, or None."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host.lower() not in self.hosts:
            return PlainTextResponse("this is not an address of qkv studio\n", 421)
        if origin is not None and origin.lower() not in {f"http://{name}" for name in self.hosts}:
            return PlainTextResponse("another site may not ask qkv studio\n", 403)
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # A link on another site may open the studio; other requests from there are refused.
            if request.url.path != "/" or request.headers.get("sec-fetch-dest") != "document":
                return PlainTextResponse("another site may not ask qkv studio\n", 403)
        if (request.method, request.url.path) not in self.routes:
            return PlainTextResponse("there is nothing here\n", 404)
        if request.url.path == "/" and "token" in request.query_params:
            return None
        if not self._is_token(request.cookies.get(self.cookie, "")):
            return Response(_forbidden_page(), 403, media_type="text/html")
        return None

    def _is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    async def _answer(self, request: Request) -> Response:
        try:
            return await self.routes[request.method, request.url.path](request)
        except ClientDisconnect:
            return Response(status_code=499)

    async def page(self, request: Request) -> Response:
        """Send the page; turn the token in the address into a cookie."""
        if "token" in request.query_params:
            if not self._is_token(request.query_params["token"]):
                return Response(_forbidden_page(), 403, media_type="text/html")
            response = RedirectResponse("/", 303)
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return response
        return Response(_page(), media_type="text/html")

    async def events(self, request: Request) -> Response:
        """Stream the worker's events until the browser disconnects."""
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[bytes]:
        with self.worker.listen() as events:
            while True:
                try:
                    # A tab of another version of qkv must be reloaded.
                    event = await asyncio.wait_for(events.get(), PULSE) | {"version": __version__}
                    yield f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
                except TimeoutError:
                    yield b": alive\n\n"

    async def handle_request(self, request: Request) -> Response:
        """Validate a request; forward it to the worker, or respond here if it needs no model."""
        message = await _body(request)
        if isinstance(message, Response):
            return message
        try:
            parsed = requests.parse(message, lambda name: openable.find(name, self.folders))
            if isinstance(parsed, ModelsRequest):
                there = [each.to_json() for each in openable.listed(self.folders)]
                return _framed(frame({"kind": "models", "here": there, "offered": openable.offered()}))
        except Problem as error:
            return _framed(problem(error))
        if isinstance(parsed, FetchRequest):
            return StreamingResponse(self._fetch(parsed.name), media_type=FRAMES)
        if (cached := self.worker.cached(parsed)) is not None:
            return Response(cached, media_type=FRAMES)
        tab, turn = str(message.get("tab", ""))[:64], message.get("turn")
        frames = self._frames(parsed, tab, turn if isinstance(turn, int) else None)
        return StreamingResponse(frames, media_type=FRAMES)

    async def _frames(self, work: requests.Request, tab: str, turn: int | None) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self.worker.answer(work, tab, turn)) as frames:
                async for content in frames:
                    yield content
        except Problem as wrong:
            yield problem(wrong)

    async def _fetch(self, name: str) -> AsyncIterator[bytes]:
        """Fetch a model in a thread of this process, and send progress to all tabs."""
        progress: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def on_progress(done: int, total: int) -> None:
            loop.call_soon_threadsafe(progress.put_nowait, (done, total))

        def fetch() -> None:
            try:
                store.get(name, on_progress)
            finally:
                loop.call_soon_threadsafe(progress.put_nowait, None)

        if name in self.fetching:
            yield problem(Message("{name} is being fetched already", name=name))
            return
        self.fetching.add(name)
        work = asyncio.ensure_future(asyncio.to_thread(fetch))
        reported = -1.0
        try:
            while (step := await progress.get()) is not None:
                share = step[0] / max(step[1], 1)
                if share - reported >= 0.01 or share >= 1:
                    reported = share
                    event = {"kind": "fetching", "name": name, "done": step[0], "all": step[1]}
                    self.worker.notify(event)
                    yield frame(event | {"kind": "progress"})
            await work
            self.worker.forget()
            self.worker.notify({"kind": "fetching", "name": name, "done": 1, "all": 1})
            yield frame({"kind": "done"})
        except Problem as wrong:
            yield problem(wrong)
        except OSError as error:
            yield problem(Message("{name} could not be fetched: {error}", name=name, error=quoted(error)))
        finally:
            self.fetching.discard(name)


def _text(kind: str, content: Callable[[], str]) -> Callable[[Request], Awaitable[Response]]:
    """Return the route of a static text."""

    async def respond(request: Request) -> Response:
        return Response(content(), media_type=kind)

    return respond


async def _body(request: Request) -> Fields | Response:
    """Return the JSON object of a request, or the response that refuses it."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        return PlainTextResponse("an ask is JSON\n", 415)
    size = request.headers.get("content-length", "")
    if not size.isdigit() or int(size) > BODY:
        return PlainTextResponse(f"an ask has at most {BODY} bytes\n", 413)
    try:
        content = await asyncio.wait_for(request.body(), PATIENCE)
        message = json.loads(content)
    except TimeoutError:
        return PlainTextResponse("the ask did not come in time\n", 408)
    except (ValueError, RecursionError):
        return PlainTextResponse("an ask is JSON\n", 400)
    return message if isinstance(message, dict) else PlainTextResponse("an ask is a JSON object\n", 400)


def _framed(*contents: bytes) -> Response:
    """Return a response of these frames and, unless they end in a problem, a last one."""
    last = b"" if b'"kind":"problem"' in contents[-1][:40] else frame({"kind": "done"})
    return Response(b"".join([*contents, last]), media_type=FRAMES)


@cache
def _page() -> str:
    """Return the HTML of the page."""
    header = dict(version=__version__, lang=None, first=dict(model=openable.FIRST), live=openable.FIRST.split("-")[-1])
    lang = language()
    no_scripts = _("This page computes its pictures itself: please allow scripts. It fetches nothing.")
    return f"""<!doctype html>
<html lang="{tag(lang)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/studio.css">
<title>qkv studio</title>
</head>
<body>
<div id="qkv-studio"></div>
<noscript><p>{in_every_language(no_scripts)}</p></noscript>
<script type="application/json" id="qkv-header">{json.dumps(header)}</script>
<script type="module" src="/studio.js"></script>
</body>
</html>
"""


@cache
def _forbidden_page() -> str:
    """Return the page for requests without a valid token."""
    sentence = _("Please open the address that qkv studio printed in its terminal: it carries the key to this page.")
    title = escaping.escape("qkv studio")
    return f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head><body><p>{in_every_language(sentence)}</p></body></html>\n'
