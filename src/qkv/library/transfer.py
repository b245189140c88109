"""HTTP transfers with the standard library: proxies, certificates, credentials, retries and resumed downloads.

`registries.py` reads the settings from the configuration of pip, uv and npm. Nothing here knows about packages.
"""

import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

from ..i18n import Message, quoted

Progress = Callable[[int, int], None]
CHUNK = 1 << 18
PAGE_LIMIT = 1 << 26  # bytes; the largest index pages have some millions
PAUSES = (5, 20, 60)  # seconds before each retry of a busy server, unless it sends Retry-After
LONGEST_PAUSE = 120
RESUMES = 4  # attempts without new bytes


class TransferError(Exception):
    """A URL could not be read. `is_missing` is True if the server responded that it doesn't exist."""

    def __init__(self, reason: Message, is_missing: bool = False) -> None:
        super().__init__(reason, is_missing)
        self.reason, self.is_missing = reason, is_missing


@dataclass(frozen=True)
class NetworkSettings:
    """How to reach a server. `proxies` replaces the system's; `authorization` maps an origin to its header."""

    timeout: float = 30.0
    ca_bundle: str = ""
    proxies: Mapping[str, str] | None = None
    trusted_hosts: tuple[str, ...] = ()  # HOST or HOST:PORT whose certificates are not verified
    authorization: Mapping[str, str] = field(default_factory=dict)


def origin(url: str) -> str:
    """Return the scheme, host and port of a URL.

    >>> origin("https://me:secret@example.org:8080/simple/")
    'https://example.org:8080'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"


def local_path(url: str) -> Path | None:
    """Return the path that a file: URL names; None for any other URL."""
    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


class Client:
    """Reads http:, https: and file: URLs."""

    def __init__(self, settings: NetworkSettings, sleep: Callable[[float], None] = time.sleep) -> None:
        self.settings, self.sleep = settings, sleep
        proxies = dict(urllib.request.getproxies() if settings.proxies is None else settings.proxies)
        if everything := proxies.pop("all", ""):
            proxies = {"http": everything, "https": everything, **proxies}
        self.proxies = proxies
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(proxies),
            urllib.request.HTTPHandler(),
            _HTTPS(settings),
            _Authorization(settings.authorization),
            urllib.request.HTTPRedirectHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.HTTPDefaultErrorHandler(),
        ):
            self._opener.add_handler(handler)

    def read(self, url: str, accept: str = "*/*") -> tuple[bytes, str, str]:
        """Return a page, its content type and the URL it came from after redirects."""
        if path := local_path(url):
            file = path / "index.html" if path.is_dir() else path
            try:
                return file.read_bytes(), "text/html", url
            except OSError as error:
                raise TransferError(Message("{why}: {file}", why=quoted(error), file=file), True) from None
        for attempt in range(RESUMES + 1):
            with self._open(url, {"Accept": accept}) as response:
                body = self._read_chunks(response)
                if body is not None:
                    return body, response.headers.get_content_type(), response.url
            self.sleep(2**attempt)
        raise TransferError(_unreachable(url, Message("the connection was closed too early")))

    def _read_chunks(self, response: HTTPResponse) -> bytes | None:
        """Return the body of a response; None if the connection broke before its end."""
        body, expected = b"", _length(response)
        try:
            while len(body) <= PAGE_LIMIT and (chunk := response.read(CHUNK)):
                body += chunk
        except (OSError, http.client.HTTPException):
            return None
        return None if len(body) < expected else body

    def download(self, url: str, file: Path, size: int, progress: Progress) -> None:
        """Write the content of a URL to a file, resuming a broken transfer; stops soon after `size` bytes.

        `progress(done, size)` counts bytes. OSError means that the file could not be written.
        """
        if path := local_path(url):
            _copy(path, file, size, progress)
            return
        failures = 0
        with file.open("wb") as out:
            while failures <= RESUMES:
                start = out.tell()
                if self._continue(url, out, size, progress):
                    return
                failures = 0 if out.tell() > start else failures + 1
                self.sleep(2**failures)
        raise TransferError(_unreachable(url, Message("the connection was closed too early")))

    def _continue(self, url: str, out: BinaryIO, size: int, progress: Progress) -> bool:
        """Append the rest of a file; True if it is complete, False if the connection broke."""
        done = out.tell()
        with self._open(url, {"Range": f"bytes={done}-"} if done else {}) as response:
            if done and not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
                out.seek(0)
                out.truncate()
                done = 0
            expected = done + _length(response)
            while done <= size:
                try:
                    chunk = response.read(CHUNK)
                except (OSError, http.client.HTTPException):
                    return False
                if not chunk:
                    return done >= expected
                out.write(chunk)
                done += len(chunk)
                progress(min(done, size), size)
        return True

    @contextmanager
    def _open(self, url: str, headers: dict[str, str]) -> Iterator[HTTPResponse]:
        """Open an http: or https: URL, waiting for busy servers."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise TransferError(Message("{url} is not an http, https or file address", url=url))
        proxy = self._proxy(url)
        if proxy.startswith("socks"):
            raise TransferError(
                Message("{proxy} is a SOCKS proxy, which qkv can't use: name an HTTP proxy", proxy=_redacted(proxy))
            )
        headers = {"User-Agent": "qkv", "Accept-Encoding": "identity", **headers}
        for pause in (*PAUSES, None):
            try:
                request = urllib.request.Request(url, headers=headers)
                response = self._opener.open(request, timeout=self.settings.timeout)
                break
            except urllib.error.HTTPError as error:
                error.close()
                if pause is None or not (error.code == 429 or error.code >= 500) or error.code == 501:
                    raise TransferError(_refusal(url, error.code, proxy), error.code in (404, 410)) from None
                self.sleep(_retry_after(error.headers.get("Retry-After"), pause))
            except (OSError, http.client.HTTPException) as error:
                raise TransferError(_failure(url, error, proxy)) from None
            except ValueError as error:  # a URL with an impossible port or control characters
                raise TransferError(
                    Message("{url} is not a web address ({why})", url=_redacted(url), why=error)
                ) from None
        with response:
            yield response

    def _proxy(self, url: str) -> str:
        parts = urlsplit(url)
        bypassed = urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2])
        return "" if bypassed else self.proxies.get(parts.scheme, "")


class _HTTPS(urllib.request.HTTPSHandler):
    """HTTPS that verifies certificates, except those of trusted hosts."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.trusted, self.ca_bundle = settings.trusted_hosts, settings.ca_bundle

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        host = getattr(request, "_tunnel_host", None) or request.host
        is_trusted = host in self.trusted or host.rpartition(":")[0] in self.trusted
        context = ssl._create_unverified_context() if is_trusted else _verifying(self.ca_bundle)
        return self.do_open(http.client.HTTPSConnection, request, context=context)


def _verifying(ca_bundle: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the named certificates, else the system's, else those of certifi."""
    if ca_bundle:
        try:
            if os.path.isdir(ca_bundle):
                return ssl.create_default_context(capath=ca_bundle)
            return ssl.create_default_context(cafile=ca_bundle)
        except OSError as error:
            raise TransferError(
                Message("the certificates in {file} can't be read ({why})", file=ca_bundle, why=quoted(error))
            ) from None
    paths = ssl.get_default_verify_paths()
    context = ssl.create_default_context()
    if os.name != "nt" and not (paths.cafile or paths.capath):  # as in python.org's Python on macOS
        try:
            import certifi

            context.load_verify_locations(certifi.where())
        except (ImportError, OSError):
            pass
    return context


class _Authorization(urllib.request.BaseHandler):
    """Sends credentials to the origins they are for and to no other, also after a redirect."""

    def __init__(self, authorization: Mapping[str, str]) -> None:
        self.authorization = authorization

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        if header := self.authorization.get(origin(request.full_url)):
            request.add_unredirected_header("Authorization", header)
        return request

    https_request = http_request


def join(page: str, link: str) -> str:
    """Return a link of a page as a full URL; "" if a web page links to a file of this machine.

    >>> join("https://example.org/simple/book/", "../../files/book-1.0.tar.gz")
    'https://example.org/files/book-1.0.tar.gz'
    >>> join("https://example.org/simple/book/", "file:///etc/passwd")
    ''
    """
    try:
        url = urljoin(page, link)
        allowed = ("http", "https", "file") if local_path(page) else ("http", "https")
        return url if urlsplit(url).scheme in allowed else ""
    except ValueError:
        return ""


def _copy(source: Path, target: Path, size: int, progress: Progress) -> None:
    try:
        opened = source.open("rb")
    except OSError as error:
        raise TransferError(Message("{why}: {file}", why=quoted(error), file=source), True) from None
    with opened, target.open("wb") as out:
        done = 0
        while done <= size and (chunk := opened.read(CHUNK)):
            out.write(chunk)
            done += len(chunk)
            progress(min(done, size), size)


def _length(response: HTTPResponse) -> int:
    """Return the length that a response states, 0 if none."""
    stated = response.headers.get("Content-Length", "")
    return int(stated) if stated.isdecimal() else 0


def _retry_after(stated: str | None, otherwise: float) -> float:
    """Return the seconds that a Retry-After header names, as a number or as a date.

    >>> _retry_after("7", 5), _retry_after("99999", 5), _retry_after("soon", 5)
    (7.0, 120, 5)
    """
    if stated is None:
        return otherwise
    try:
        seconds = float(stated) if stated.isdecimal() else parsedate_to_datetime(stated).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return min(max(seconds, 0.0), LONGEST_PAUSE)


def _redacted(url: str) -> str:
    """Return a URL without its credentials."""
    return f"{origin(url)}{urlsplit(url).path}" if "://" in url else url.rpartition("@")[2]


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _unreachable(url: str, why: object) -> Message:
    return Message(
        "{host} cannot be reached ({why}); go online and try again, or use a file of your own", host=_host(url), why=why
    )


def _refusal(url: str, status: int, proxy: str) -> Message:
    """Return what an HTTP error status means and what to do."""
    host = _host(url)
    if status == 407:
        return _proxy_refusal(proxy, Message("HTTP {status}", status=status))
    if status == 429:
        return Message("{host} received too many requests; try again in a few minutes", host=host)
    if status in (401, 403):
        return Message(
            "{host} refuses access (HTTP {status}); put a user name and a password into the address of the index or "
            "into ~/.netrc",
            host=host,
            status=status,
        )
    if status >= 500:
        return Message(
            "{host} reported a server error (HTTP {status}); try again in a few minutes", host=host, status=status
        )
    return Message("{host} responded with HTTP {status}", host=host, status=status)


def _proxy_refusal(proxy: str, why: object) -> Message:
    return Message(
        "the proxy {proxy} cannot be used ({why}); correct HTTPS_PROXY or the proxy that pip is set to",
        proxy=_redacted(proxy),
        why=why,
    )


def _failure(url: str, error: Exception, proxy: str) -> Message:
    """Return what a failed connection means and what to do."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Message(
            "the certificate of {host} can't be verified ({why}); if your network has certificates of its own, name "
            "their file in SSL_CERT_FILE",
            host=_host(url),
            why=reason.verify_message,
        )
    if isinstance(reason, ssl.SSLError):
        return Message("a secure connection to {host} failed ({why})", host=_host(url), why=str(reason))
    why = quoted(reason) if isinstance(reason, Exception) else Message("{library_message}", library_message=str(reason))
    if proxy:
        return _proxy_refusal(proxy, why)
    return _unreachable(url, why)
