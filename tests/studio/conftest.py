"""A studio process for tests, and an HTTP client."""

import http.client
import json
import os
import re
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

from tests.studio.unpacking import unpack


class Client:
    """Sends requests as a browser does."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host, self.port = parts.hostname, parts.port
        self.token = parts.query.removeprefix("token=")
        self.cookie = f"qkv-studio-{self.port}={self.token}"

    def request(self, method, path, body=None, *, cookie=True, **headers):
        """Send a request and return (status, headers, body)."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        sent = {"Host": f"{self.host}:{self.port}"} | ({"Cookie": self.cookie} if cookie else {})
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def respond(self, **fields):
        """Send a request to the worker and return the frames of the response: [(fields, arrays), …]."""
        status, _, body = self.request("POST", "/api/ask", json.dumps(fields).encode(), Content_Type="application/json")
        assert status == 200, body
        return unpack(body)

    def kinds(self, **fields):
        return [frame["kind"] for frame, _ in self.respond(**fields)]


class Running:
    """A `qkv studio` process."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "qkv", "studio", "--no-browser", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env=os.environ | environment,
        )
        self.output = ""
        while "token=" not in self.output:
            line = self.process.stdout.readline()
            assert line, self.output
            self.output += line
        self.address = re.search(r"http://\S+", self.output)[0]
        self.client = Client(self.address)

    def workers(self):
        """Return the ids of its child processes."""
        listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in listing.stdout.split()]

    def end(self):
        self.process.terminate()
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.stdout.close()


def until(condition, seconds=60.0):
    """Wait until a condition returns a true value, and return the value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


@pytest.fixture(autouse=True)
def english(monkeypatch):
    """Reset the language after each test, since `--lang` sets it for the process."""
    monkeypatch.setenv("QKV_LANG", "en")


@pytest.fixture(scope="module")
def studio(shelf):
    """Return a studio with the runs of the shelf, shared by the tests of a file."""
    running = Running(str(shelf))
    yield running
    running.end()


@pytest.fixture
def client(studio):
    return studio.client
