"""Packages without pip and npm: located in an index, verified, resumed; failures are explained. Loopback servers only."""

import errno
import hashlib
import json
import os
import shutil
import ssl
import subprocess
from email.utils import formatdate

import pytest

from qkv.i18n import Problem
from qkv.library import packages, transfer
from qkv.library.catalogue import Package
from tests.library.registry_server import cut, failing, serving

ARCHIVE = bytes(range(256)) * 5000  # several chunks
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()
WHEEL, SDIST = "Tiny_Book-1.0-py3-none-any.whl", "tiny_book-1.0.tar.gz"
PACKAGE = Package("tiny.book", "1.0", SHA256, len(ARCHIVE))
FROM_NPM = Package("tiny-book", "1.0.1", SHA256, len(ARCHIVE), registry="npm")
PAGE = "/simple/tiny-book/"


@pytest.fixture(autouse=True)
def pauses(tmp_path, monkeypatch):
    """Only the settings of a test count, and pauses are recorded instead of waited for."""
    for name in list(os.environ):
        if name.upper().startswith(("PIP_", "UV_", "NPM_CONFIG_")) or name.upper().endswith(("_PROXY", "_CA_BUNDLE")):
            monkeypatch.delenv(name)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "me"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NPM_CONFIG_GLOBALCONFIG", str(home / "none"))
    waited = []
    monkeypatch.setattr(transfer.Client.__init__, "__defaults__", (waited.append,))
    return waited


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "home" / "bench"
    path.mkdir(parents=True)
    return path


SIGNED = b'<a href="/files/%s.asc">a signature</a>' % WHEEL.encode()


def html(filename=WHEEL, sha256=SHA256, path="/files/"):
    stated = f"#sha256={sha256}" if sha256 else ""
    return f'<html><body><a href="{path}{filename}{stated}">{filename}</a></body></html>'.encode()


def fetch(folder, package=PACKAGE, progress=lambda *_: None):
    return packages.download(package, folder, progress)


def paths(requests):
    return [path for _method, path, _headers in requests]


def test_a_wheel_of_an_html_index(folder, monkeypatch):
    reports = []
    with serving({PAGE: html(), f"/files/{WHEEL}": ARCHIVE}) as (address, requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple/")
        file = fetch(folder, progress=lambda *now: reports.append(now))
    assert file == folder / WHEEL and file.read_bytes() == ARCHIVE
    assert paths(requests) == [PAGE, f"/files/{WHEEL}"]
    assert reports == sorted(reports) and reports[-1] == (len(ARCHIVE), len(ARCHIVE)) and len(reports) > 3


def test_an_sdist_of_a_json_index(folder, monkeypatch):
    """The archive is taken as it is: nothing in it is run, so it need not be one that can be built."""
    files = [
        {"filename": WHEEL, "url": "/files/other.whl", "hashes": {"sha256": "0" * 64}},
        {"filename": SDIST, "url": f"../../files/{SDIST}", "hashes": {"sha256": SHA256.upper()}},
    ]
    page = json.dumps({"meta": {"api-version": "1.1"}, "files": files}).encode()

    def as_json(handler):
        assert "application/vnd.pypi.simple.v1+json" in handler.headers["Accept"]
        handler.respond(200, page, {"Content-Type": "application/vnd.pypi.simple.v1+json"})

    with serving({PAGE: as_json, f"/files/{SDIST}": ARCHIVE}) as (address, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        assert fetch(folder, Package("tiny-book", "1.0", SHA256, len(ARCHIVE), sdist=True)).name == SDIST


@pytest.mark.parametrize("name", ["PIP_FIND_LINKS", "UV_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_INDEX"])
def test_folders_of_this_machine_are_sources(name, folder, tmp_path, monkeypatch):
    """With and without a page; the user's own file stays where it is."""
    source = tmp_path / "my wheels"
    (source / "simple" / "tiny-book").mkdir(parents=True)
    (source / WHEEL).write_bytes(ARCHIVE)
    (source / "simple" / "tiny-book" / "index.html").write_bytes(html(path="../../"))
    monkeypatch.setenv(
        "PIP_NO_INDEX" if "FIND" in name else "PIP_INDEX_URL", "1" if "FIND" in name else source.as_uri()
    )
    monkeypatch.setenv(name, source.as_uri() if "FIND" in name else (source / "simple").as_uri())
    assert fetch(folder).read_bytes() == ARCHIVE and (source / WHEEL).is_file()


def test_a_wrong_file_of_a_source_does_not_hide_the_right_file_of_another(folder, monkeypatch):
    pages = {
        "/wrong/tiny-book/": html(sha256="0" * 64),
        "/silent/tiny-book/": html(sha256="", path="/wrong/"),
        f"/wrong/{WHEEL}": ARCHIVE[::-1],
        PAGE: html(sha256=""),
        f"/files/{WHEEL}": ARCHIVE,
    }
    with serving(pages) as (address, requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/none")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{address}/wrong {address}/silent\n{address}/simple")
        assert fetch(folder).read_bytes() == ARCHIVE
    assert f"/wrong/{WHEEL}" in paths(requests) and os.listdir(folder) == [WHEEL]


def test_a_redirect_is_followed_and_credentials_stay_with_their_host(folder, monkeypatch):
    with serving({f"/elsewhere/{WHEEL}": ARCHIVE}) as (elsewhere, there):
        moved = {"Location": f"{elsewhere}/elsewhere/{WHEEL}"}
        pages = {PAGE: html(), f"/files/{WHEEL}": lambda handler: handler.respond(302, b"", moved)}
        with serving(pages) as (address, here):
            monkeypatch.setenv("PIP_INDEX_URL", address.replace("//", "//me:s%40cret@") + "/simple")
            assert fetch(folder).read_bytes() == ARCHIVE
    assert [headers.get("Authorization") for _, _, headers in here] == ["Basic bWU6c0BjcmV0"] * 2
    assert len(there) == 1 and "Authorization" not in there[0][2]


@pytest.mark.parametrize("resumable", [True, False])
def test_a_broken_transfer_is_resumed(resumable, folder, monkeypatch, pauses):
    with serving({PAGE: html(), f"/files/{WHEEL}": cut(ARCHIVE, resumable, times=3)}) as (address, requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        assert fetch(folder).read_bytes() == ARCHIVE
    ranges = [headers.get("Range") for _, path, headers in requests if path != PAGE]
    assert len(ranges) == 4 and ranges[:2] == [None, f"bytes={len(ARCHIVE) // 2}-"] and len(pauses) == 3


@pytest.mark.parametrize(
    ("stated", "waits"),
    [({"Retry-After": "7"}, [7, 7]), ({}, [5, 20]), ({"Retry-After": formatdate(0, usegmt=True)}, [0, 0])],
    ids=["seconds", "none", "a date that is past"],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_tried_again(status, stated, waits, folder, monkeypatch, pauses):
    with serving({PAGE: failing(2, status, html(), stated), f"/files/{WHEEL}": ARCHIVE}) as (address, _):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        assert fetch(folder).read_bytes() == ARCHIVE
    assert pauses == waits


WEB = {PAGE: html(), f"/files/{WHEEL}": ARCHIVE}


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ({}, r"does not have it \(any more\); use a file of your own"),
        ({PAGE: html("Tiny_Book-1.1-py3-none-any.whl", "0" * 64)}, r"does not have it"),
        ({PAGE: html(SDIST, "0" * 64)}, r"does not have it"),
        ({PAGE: html(path="file:///etc/")}, r"does not have it"),
        ({PAGE: SIGNED, f"/files/{WHEEL}.asc": b"a signature"}, "does not have it"),
        ({PAGE: html()}, r"does not have it"),
        ({PAGE: html(sha256="0" * 64)}, r"offers something else under this name \(wrong hash\), which was not used"),
        ({**WEB, f"/files/{WHEEL}": ARCHIVE[:-1] + b"!"}, "wrong hash"),
        ({**WEB, f"/files/{WHEEL}": ARCHIVE * 3}, "wrong hash"),
        ({**WEB, f"/files/{WHEEL}": cut(ARCHIVE[:8])}, r"cannot be reached \(the connection was closed too early\)"),
        ({PAGE: cut(html())}, "the connection was closed too early"),
        ({PAGE: failing(9, 429, b"")}, "received too many requests; try again in a few minutes"),
        ({PAGE: failing(9, 503, b"")}, r"reported a server error \(HTTP 503\); try again in a few minutes"),
        ({PAGE: failing(1, 403, b"")}, r"refuses access \(HTTP 403\); put a user name and a password"),
        ({PAGE: failing(1, 418, b"")}, "responded with HTTP 418"),
        (
            {PAGE: lambda handler: handler.respond(200, b"[", {"Content-Type": "application/json"})},
            "is not the page of a package index",
        ),
    ],
    ids="absent other-version other-kind local-link signature no-file other-hash changed longer cut cut-page busy fault "
    "forbidden teapot no-index".split(),
)
def test_failures_of_an_index_are_reported(pages, message, folder, monkeypatch):
    with serving(pages) as (address, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", address.replace("//", "//me:secret@") + "/simple")
        with pytest.raises(Problem, match=f"^tiny.book 1.0 could not be fetched: .*{message}") as raised:
            fetch(folder)
    assert "secret" not in str(raised.value)
    assert any("\u4e00" <= letter <= "\u9fff" for letter in raised.value.values["why"].say("zh"))


def test_an_endless_file_is_not_read_to_its_end(folder, monkeypatch):
    sent = []

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        for _ in range(200):
            handler.wfile.write(ARCHIVE)
            sent.append(len(ARCHIVE))

    with serving({PAGE: html(), f"/files/{WHEEL}": endless}) as (address, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        with pytest.raises(Problem, match="wrong hash"):
            fetch(folder)
    assert len(sent) < 100


def test_an_unreachable_index_is_reported_though_another_has_nothing(folder, monkeypatch):
    with serving({}) as (address, _requests):
        pass  # nobody listens there any more
    with serving({}) as (alive, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{alive}/simple")
        with pytest.raises(Problem, match=r"127\.0\.0\.1:\d+ cannot be reached \(.+\); go online and try again"):
            fetch(folder)


def test_a_full_disk_is_reported(folder, monkeypatch):
    def full(self, url, file, size, progress):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfer.Client, "download", full)
    with serving(WEB) as (address, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        with pytest.raises(Problem, match=r"the disk is full; 1\.3 MB are needed in .*home$"):
            fetch(folder)


def test_a_proxy_is_used_unless_no_proxy_names_the_host(folder, monkeypatch):
    with serving({f"http://index.test{path}": page for path, page in WEB.items()}) as (proxy, requests):
        monkeypatch.setenv("PIP_INDEX_URL", "http://index.test/simple")
        monkeypatch.setenv("http_proxy", proxy)
        assert fetch(folder).read_bytes() == ARCHIVE and len(requests) == 2
        monkeypatch.setenv("no_proxy", "index.test")
        with pytest.raises(Problem, match=r"index\.test cannot be reached"):
            fetch(folder)
        monkeypatch.delenv("http_proxy")
        monkeypatch.delenv("no_proxy")
        monkeypatch.setenv("PIP_PROXY", proxy)
        assert fetch(folder).read_bytes() == ARCHIVE and len(requests) == 4


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        (
            "http://me:secret@{host}",
            r"the proxy http://127\.0\.0\.1:\d+ cannot be used \(Tunnel connection failed: 403",
        ),
        ("socks5://{host}", "is a SOCKS proxy"),
    ],
)
def test_a_proxy_that_refuses_is_reported(proxy, message, folder, monkeypatch):
    with serving({"index.test:443": failing(9, 403, b"")}) as (address, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", "https://index.test/simple")
        monkeypatch.setenv("https_proxy", proxy.format(host=address.partition("//")[2]))
        with pytest.raises(Problem, match=message) as raised:
            fetch(folder)
    assert "secret" not in str(raised.value)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A key and a certificate for 127.0.0.1 that nobody else knows."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command")
    file = tmp_path_factory.mktemp("tls") / "own.pem"
    command = (
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=own".split()
    )
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", f"{file}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + file.with_name("own.pem.crt").read_bytes())
    return file


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "{file}"),
        ("REQUESTS_CA_BUNDLE", "{file}"),
        ("PIP_CERT", "{file}"),
        ("PIP_TRUSTED_HOST", "{host}"),
    ],
)
def test_certificates_are_verified_with_those_that_the_user_names(name, value, certificate, folder, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(WEB, wrap=lambda plain: context.wrap_socket(plain, server_side=True)) as (address, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        with pytest.raises(
            Problem, match=r"certificate of 127\.0\.0\.1:\d+ can't be verified \(.*name their file in SSL"
        ):
            fetch(folder)
        monkeypatch.setenv(name, value.format(file=f"{certificate}.crt", host="127.0.0.1"))
        assert fetch(folder).read_bytes() == ARCHIVE


def test_other_faults_of_tls_are_reported(folder, tmp_path, monkeypatch):
    with serving(WEB) as (address, _requests):
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple".replace("http:", "https:"))
        with pytest.raises(Problem, match=r"a secure connection to 127\.0\.0\.1:\d+ failed"):
            fetch(folder)
        monkeypatch.setenv("PIP_CERT", str(tmp_path / "none.pem"))
        with pytest.raises(Problem, match=r"the certificates in .*none\.pem can't be read \(there is no such file"):
            fetch(folder)


def test_a_tarball_of_npm(folder, monkeypatch):
    with serving({"/npm/files/book.tgz": ARCHIVE}) as (address, requests):
        record = json.dumps({"dist": {"tarball": f"{address}/npm/files/book.tgz"}}).encode()
        with serving({"/npm/tiny-book/1.0.1": record}) as (registry, _requests):
            monkeypatch.setenv("npm_config_registry", f"{registry}/npm/")
            assert fetch(folder, FROM_NPM) == folder / "tiny-book-1.0.1.tgz"
    assert (folder / "tiny-book-1.0.1.tgz").read_bytes() == ARCHIVE and len(requests) == 1


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ({}, "does not have it"),
        ({"/tiny-book/1.0.1": b'{"dist": []}'}, "is not the page of a package index"),
        ({"/tiny-book/1.0.1": b'{"dist": {"tarball": "/x"}}', "/x": ARCHIVE[::-1]}, "wrong hash"),
    ],
    ids=["absent", "not a record", "changed"],
)
def test_failures_of_npm_are_reported(pages, message, folder, monkeypatch):
    with serving(pages) as (address, _requests):
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", address)
        with pytest.raises(Problem, match=f"^tiny-book 1.0.1 could not be fetched: .*{message}"):
            fetch(folder, FROM_NPM)
