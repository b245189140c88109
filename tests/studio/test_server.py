"""The studio's server: access, refused requests, and restarts of its worker."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from qkv.cli import main
from qkv.studio.connections import MOST
from tests.studio.conftest import Client, Running, until

FIRST = {"model": "trace:cat-smollm2"}
JSON = {"Content_Type": "application/json"}


def named(client, run):
    """Return the name of a run of the shelf in the studio."""
    entries = client.respond(do="models")[0][0]["here"]
    return next(entry["name"] for entry in entries if entry["name"].endswith(f"/{run}"))


def test_the_web_process_has_no_torch(studio):
    studio.client.request("GET", "/studio.css")
    with open(f"/proc/{studio.process.pid}/maps", encoding="utf-8") as maps:
        assert "libtorch" not in maps.read()


def test_the_key_becomes_a_cookie_that_scripts_cannot_read(client):
    status, headers, _ = client.request("GET", f"/?token={client.token}", cookie=False)
    assert (status, headers["location"]) == (303, "/")
    fields = headers["set-cookie"].lower()
    assert client.token.lower() in fields and "httponly" in fields and "samesite=strict" in fields
    status, headers, body = client.request("GET", "/")
    assert status == 200 and client.token.encode() not in body


@pytest.mark.parametrize("path", ["/", "/studio.js", "/studio.css", "/api/events", "/events.js"])
def test_without_the_token_everything_is_refused(client, path):
    status, _, body = client.request("GET", path, cookie=False)
    assert status == 403 and "地址".encode() in body and b"address" in body


@pytest.mark.parametrize("token", ["", "x", "é", "0" * 32, "a" * 5000])
def test_a_wrong_or_stale_key_is_refused(client, token):
    from urllib.parse import quote

    assert client.request("GET", f"/?token={quote(token)}", cookie=False)[0] == 403
    stale = {"Cookie": f"qkv-studio-{client.port}={quote(token)}"}
    assert client.request("GET", "/", cookie=False, **stale)[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8377", "127.0.0.1.evil.example", "127.0.0.1:1", ""])
def test_other_names_for_this_machine_are_refused(client, host):
    """What DNS rebinding would send."""
    assert client.request("GET", "/", Host=host)[0] in (400, 421)
    assert client.request("POST", "/api/ask", b"{}", Host=host, **JSON)[0] in (400, 421)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_pages_of_elsewhere_are_refused(client, origin):
    body = json.dumps({"do": "models"}).encode()
    assert client.request("POST", "/api/ask", body, Origin=origin, **JSON)[0] == 403
    assert client.request("GET", "/api/events", Origin=origin)[0] == 403


def test_a_page_of_elsewhere_may_link_here_and_no_more(client):
    away = {"Sec_Fetch_Site": "cross-site"}
    assert client.request("GET", "/", Sec_Fetch_Dest="document", **away)[0] == 200
    assert client.request("GET", "/studio.js", Sec_Fetch_Dest="script", **away)[0] == 403
    assert client.request("GET", "/", Sec_Fetch_Dest="iframe", **away)[0] == 403


def test_own_pages_may_send_requests(client):
    body = json.dumps({"do": "models"}).encode()
    own = f"http://127.0.0.1:{client.port}"
    assert client.request("POST", "/api/ask", body, Origin=own, Sec_Fetch_Site="same-origin", **JSON)[0] == 200


def test_the_policy_forbids_foreign_content(client):
    _, headers, body = client.request("GET", "/")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    assert not re.search(rb"<script(?![^>]*(src=|application/json))", body)


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/static/../server.py", "/%2e%2e/%2e%2e/etc/passwd", "/studio.js/..", "//etc/passwd"]
)
def test_no_path_leads_anywhere_else(client, path):
    assert client.request("GET", path)[0] == 404


@pytest.mark.parametrize(
    "model",
    [
        "/etc/passwd",
        "../secret",
        "trace:../../x",
        "lm/../../..",
        "smollm2@1",
        "runs~1",
        "",
        "trace:",
        7,
        None,
        ["lm"],
        {},
    ],
)
def test_a_browser_names_models_and_never_paths(client, model):
    frames = client.respond(do="view", spec={"model": model, "text": "a"})
    (fields, _), *more = frames
    assert fields["kind"] == "problem" and not more and set(fields["say"]) == {"en", "zh"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"do": "nothing"},
        {"do": "view"},
        {"do": "view", "spec": {}},
        {"do": "view", "spec": FIRST, "extra": 1},
        {"do": "view", "spec": FIRST | {"text": "x" * 400_001}},
        {"do": "view", "spec": FIRST | {"edits": [["0.0", "explode"]]}},
        {"do": "view", "spec": FIRST | {"edits": [["0.0", 3.0]]}},
        {"do": "view", "spec": FIRST | {"edits": [["0.0", float("nan")]]}},
        {"do": "head", "spec": FIRST, "part": "decoder", "layer": -1, "head": 0},
        {"do": "head", "spec": FIRST, "part": "decoder", "layer": 10**9, "head": 0},
        {"do": "head", "spec": FIRST, "part": "nowhere", "layer": 0, "head": 0},
        {"do": "head", "spec": FIRST, "part": "decoder", "layer": 99, "head": 0},
        {"do": "head", "spec": FIRST, "part": "decoder", "layer": 0, "head": 99},
        {"do": "tile", "spec": FIRST, "part": "decoder", "layer": 0, "head": 0, "rows": [5, 2], "cols": [0, 1], "tall": 1, "wide": 1, "pool": "max"},
        {"do": "words", "spec": FIRST},
        {"do": "links", "spec": FIRST, "part": "decoder", "query": 99, "key": 0},
        {"do": "fetch", "name": "nothing-of-this-name"},
    ],
    ids=str,
)  # fmt: skip
def test_an_invalid_request_is_a_sentence(client, fields):
    frames = client.respond(**fields)
    fields, _ = frames[-1]
    assert fields["kind"] == "problem" and "bug in qkv" not in fields["say"]["en"] and fields["say"]["zh"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff\xfe", b"7", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(client, body):
    assert client.request("POST", "/api/ask", body, **JSON)[0] == 400


def test_other_kinds_of_content_are_refused(client):
    """A form of another site can send text/plain without a preflight request."""
    body = json.dumps({"do": "models"}).encode()
    assert client.request("POST", "/api/ask", body, Content_Type="text/plain")[0] == 415
    assert client.request("PUT", "/api/ask", body, **JSON)[0] == 404


def test_a_body_of_100_mb_is_refused_unread(client):
    with socket.create_connection((client.host, client.port), timeout=30) as line:
        head = f"POST /api/ask HTTP/1.1\r\nHost: {client.host}:{client.port}\r\nCookie: {client.cookie}\r\n"
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100000000\r\n\r\n".encode())
        assert b" 413 " in line.recv(4096)
    chunked = f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with socket.create_connection((client.host, client.port), timeout=30) as line:
        line.sendall(chunked)
        assert b" 413 " in line.recv(4096)


def test_a_client_that_dawdles_holds_nobody_up(client):
    lines = []
    for _ in range(30):
        line = socket.create_connection((client.host, client.port), timeout=30)
        head = f"POST /api/ask HTTP/1.1\r\nHost: {client.host}:{client.port}\r\nCookie: {client.cookie}\r\n"
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode())
        lines.append(line)
    assert client.kinds(do="models") == ["models", "done"]
    for line in lines:
        line.close()


def test_silent_connections_are_closed_the_oldest_first(studio):
    """The studio uses the protocol that test_connections.py tests."""
    lines = [socket.create_connection((studio.client.host, studio.client.port), timeout=5) for _ in range(MOST + 6)]
    try:
        for line in lines[:4]:
            with contextlib.suppress(ConnectionResetError):
                assert line.recv(1) == b""
        assert studio.client.kinds(do="models") == ["models", "done"]
    finally:
        for line in lines:
            line.close()


def test_scripts_in_names_and_texts_come_as_text(client):
    """Responses are JSON, never HTML; the page inserts them as text nodes (test_rooms.py)."""
    named = "</script><script>alert(1)</script>"
    body = json.dumps({"do": "view", "spec": {"model": named}}).encode()
    status, headers, answer = client.request("POST", "/api/ask", body, **JSON)
    assert status == 200 and headers["content-type"] == "application/octet-stream" and b"alert(1)" in answer
    assert b"alert" not in client.request("GET", "/")[2]


def test_a_worker_killed_in_the_middle_is_a_sentence_and_a_new_worker(shelf):
    running = Running(str(shelf))
    try:
        client = running.client
        until(lambda: b'"ready"' in _first_event(client))
        (worker,) = running.workers()
        frames = []
        spec = {"model": named(client, "lm"), "text": "the cat sat on the mat " * 400}
        thread = threading.Thread(target=lambda: frames.extend(client.respond(do="importance", spec=spec)))
        thread.start()
        time.sleep(0.5)
        os.kill(worker, signal.SIGKILL)
        thread.join(60)
        assert frames[-1][0]["kind"] == "problem" and "started again" in frames[-1][0]["say"]["en"]
        assert "重新启动" in frames[-1][0]["say"]["zh"]
        assert client.kinds(do="view", spec=FIRST)[-1] == "done"
        assert running.workers() != [worker]
    finally:
        running.end()


def _first_event(client):
    with socket.create_connection((client.host, client.port), timeout=30) as line:
        head = f"GET /api/events HTTP/1.1\r\nHost: {client.host}:{client.port}\r\nCookie: {client.cookie}\r\n\r\n"
        line.sendall(head.encode())
        received = b""
        while b"data:" not in received:
            received += line.recv(4096)
        return received


def test_a_newer_request_of_a_tab_cancels_the_older(client):
    spec = {"model": named(client, "lm"), "text": "the cat sat on the mat " * 800}
    older = []
    thread = threading.Thread(target=lambda: older.extend(client.respond(do="importance", spec=spec, tab="one")))
    thread.start()
    time.sleep(0.3)
    newer = client.kinds(do="importance", spec=spec | {"text": "the cat"}, tab="one")
    thread.join(60)
    assert older[-1][0]["kind"] == "superseded", older[-1]
    assert newer[-1] == "done"


def test_an_older_request_that_arrives_late_cancels_nothing(client):
    """On another connection an older request may arrive after a newer one."""
    spec = {"model": named(client, "lm"), "text": "the cat sat on the mat " * 800}
    later = []
    thread = threading.Thread(
        target=lambda: later.extend(client.respond(do="importance", spec=spec, tab="two", turn=8))
    )
    thread.start()
    time.sleep(0.3)
    assert client.kinds(do="importance", spec=spec | {"text": "the mat sat"}, tab="two", turn=7) == ["superseded"]
    assert thread.is_alive()
    assert client.kinds(do="importance", spec=spec | {"text": "the mat sat"}, tab="two", turn=9)[-1] == "done"
    thread.join(60)
    assert later[-1][0]["kind"] == "superseded"


def test_two_studios_at_once_take_two_ports(studio, shelf):
    other = Running("--port", str(studio.client.port))
    try:
        assert other.client.port != studio.client.port and str(studio.client.port) in other.output
        crossed = Client(other.address)
        crossed.cookie = studio.client.cookie
        assert crossed.request("GET", "/")[0] == 403
        assert other.client.request("GET", "/")[0] == studio.client.request("GET", "/")[0] == 200
    finally:
        other.end()


def test_twenty_tabs_hold_streams_and_send_requests(client):
    """Each has an event stream and requests a cached view three times."""
    client.respond(do="view", spec=FIRST)
    wrong, streams = [], []
    for _ in range(20):
        line = socket.create_connection((client.host, client.port), timeout=30)
        line.sendall(
            f"GET /api/events HTTP/1.1\r\nHost: {client.host}:{client.port}\r\nCookie: {client.cookie}\r\n\r\n".encode()
        )
        streams.append(line)

    def tab(name):
        for _ in range(3):
            if client.kinds(do="view", spec=FIRST, tab=name)[-1] != "done":
                wrong.append(name)

    threads = [threading.Thread(target=tab, args=(str(i),)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and all(b"data:" in line.recv(65536) for line in streams)
    for line in streams:
        line.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_only_loopback_unless_a_host_is_named(host, capsys):
    assert main(["studio", "--host", host, "--no-browser"]) == 2
    assert "--i-know" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "70000"], "--port is 70000: give 0 … 65535"),
        (["nowhere"], "there is no folder nowhere"),
        (["--lang", "zh", "nowhere"], "没有文件夹 nowhere"),
    ],
)
def test_bad_options_are_sentences(arguments, sentence, capsys):
    assert main(["studio", "--no-browser", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_ctrl_c_ends_it_and_its_worker(shelf):
    running = Running(str(shelf))
    (worker,) = until(running.workers)
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(20) in (0, 130)
    until(lambda: not _alive(worker))
    running.process.stdout.close()


def _alive(pid):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")
