"""A local package registry: pages and archives in memory, with optional faults."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(pages, wrap=None):
    """Serve {path: page}; yields the address and the list of requests as (method, path, headers).

    A page is bytes, or a function of the handler that responds itself. `wrap` puts the server's socket into TLS.
    """
    requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, pages, requests)) as server:
        server.handle_error = lambda *_: None  # clients that hang up
        if wrap is not None:
            server.socket = wrap(server.socket)
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.02), daemon=True)
        thread.start()
        try:
            yield f"http{'s' if wrap else ''}://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, pages, requests, *more):
        self.pages, self.requests = pages, requests
        super().__init__(*more)

    def log_message(self, *_):
        """Print nothing: tests read the list of requests."""

    def do_GET(self):
        self.requests.append((self.command, self.path, dict(self.headers)))
        page = self.pages.get(self.path)
        if callable(page):
            page(self)
        elif page is None:
            self.respond(404, b"no such page")
        else:
            self.respond(200, page)

    do_CONNECT = do_GET

    def respond(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "text/html", **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def failing(times, status, page, headers=()):
    """Return a page that responds with an error status `times` times, then normally."""
    errors = iter(range(times))

    def respond(handler):
        if next(errors, None) is None:
            handler.respond(200, page)
        else:
            handler.respond(status, b"not now", headers)

    return respond


def cut(page, resumable=True, times=10**9):
    """Return a page whose connection closes after half of the remaining bytes, `times` times; with or without ranges."""
    interruptions = iter(range(times))

    def respond(handler):
        byte_range = handler.headers.get("Range", "bytes=0-")
        start = int(byte_range.removeprefix("bytes=").rstrip("-")) if resumable else 0
        rest = page[start:]
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(page) - 1}/{len(page)}")
        handler.send_header("Content-Length", str(len(rest)))
        handler.end_headers()
        handler.wfile.write(rest if next(interruptions, None) is None else rest[: len(rest) // 2])
        handler.close_connection = True

    return respond
