"""Connections with unfinished headers are closed, and many of them don't block others."""

import socket
import threading

import pytest
import uvicorn

from qkv.studio.connections import patient_protocol

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    while not scope["app"].released.is_set() and scope["path"] == "/slow":
        await scope["app"].pause()
    await send({"type": "http.response.body", "body": b"here"})


class Answers:
    """The app, and the event on which it continues."""

    released = threading.Event()

    async def __call__(self, scope, receive, send):
        await app(scope | {"app": self}, receive, send)

    async def pause(self):
        import asyncio

        await asyncio.sleep(0.02)


@pytest.fixture
def served():
    """Serve with a protocol and yield a function that connects."""
    running = []

    def go(protocol):
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        server = uvicorn.Server(
            uvicorn.Config(Answers(), log_level="critical", http=protocol, ws="none", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs=dict(sockets=[listener]))
        thread.start()
        running.append((server, thread))
        opened = []

        def connect(content=b""):
            connection = socket.create_connection(listener.getsockname(), timeout=30)
            connection.sendall(content)
            opened.append(connection)
            return connection

        running[-1] += (opened,)
        return connect

    yield go
    for server, thread, opened in running:
        for connection in opened:
            connection.close()
        server.should_exit = True
        thread.join(20)


def answer(connection):
    text = b""
    while not text.endswith(b"here"):
        piece = connection.recv(1000)
        assert piece, text
        text += piece
    return text


def is_closed(connection):
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_unfinished_headers_end_the_connection(served):
    connect = served(patient_protocol(0.4))
    silent, halfway = connect(), connect(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    quick = connect(REQUEST)
    assert answer(quick).startswith(b"HTTP/1.1 200")
    quick.sendall(b"GET / HT")  # the next request on the same connection
    assert is_closed(silent) and is_closed(halfway) and is_closed(quick)


def test_an_answer_may_take_longer_than_headers_may(served):
    connect = served(patient_protocol(0.2))
    Answers.released.clear()
    slow, silent = connect(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"), connect()
    assert is_closed(silent)  # so long it took
    Answers.released.set()
    assert answer(slow).endswith(b"here")


def test_many_silent_connections_keep_nobody_out(served):
    connect = served(patient_protocol(600, most=8))
    silent = [connect(b"GET /") for _ in range(30)]
    assert answer(connect(REQUEST)).startswith(b"HTTP/1.1 200")
    assert all(is_closed(connection) for connection in silent[:20])
