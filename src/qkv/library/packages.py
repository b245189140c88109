"""Archives of package registries: an exact version, located by an index and verified by its hash.

Python packages come from simple indexes (PEP 503 in HTML, PEP 691 in JSON) or from folders of archives; npm's from its
registry. Neither pip nor npm is needed, and packages are not built, installed or run.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ..i18n import Message, Problem, _, refused
from .catalogue import Package
from .registries import npm_registry, python_registry
from .transfer import Client, Progress, TransferError, join, local_path

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
MISSING = _("the package registry does not have it (any more); use a file of your own")


@dataclass(frozen=True)
class Link:
    """An archive in an index; `sha256` is "" if the index states none."""

    filename: str
    url: str
    sha256: str = ""


def download(package: Package, folder: Path, progress: Progress) -> Path:
    """Return the archive of a package, written into a folder, from the first source that has exactly this archive."""
    registry = npm_registry() if package.registry == "npm" else python_registry()
    client = Client(registry.network)
    if package.registry == "npm":
        address = f"{registry.indexes[0].rstrip('/')}/{quote(package.name, safe='@')}/{quote(package.version, safe='')}"
        sources = [partial(_links_of_record, client, address, package)]
    else:
        sources = [partial(_links_of_location, client, location) for location in registry.find_links]
        pages = [f"{address.rstrip('/')}/{_normalised(package.name)}/" for address in registry.indexes]
        sources += [partial(_links_of_page, client, page) for page in pages]
    return _first_exact(package, client, sources, folder, progress)


def _first_exact(
    package: Package, client: Client, sources: Sequence[Callable[[], list[Link]]], folder: Path, progress: Progress
) -> Path:
    """Fetch the archive from the first source whose file has the right hash; else raise the most specific failure."""
    failure = TransferError(Message(MISSING), is_missing=True)
    for links in sources:
        try:
            for link in _candidates(links(), package):
                file = folder / (Path(unquote(link.filename)).name or "archive")
                _download(client, link, file, package, progress)
                with file.open("rb") as opened:
                    if hashlib.file_digest(opened, "sha256").hexdigest() == package.sha256:
                        return file
                file.unlink()
                raise _wrong_hash()
        except TransferError as error:
            if failure.is_missing and not error.is_missing:
                failure = error
    raise Problem("{what} could not be fetched: {why}", what=f"{package.name} {package.version}", why=failure.reason)


def _download(client: Client, link: Link, file: Path, package: Package, progress: Progress) -> None:
    try:
        client.download(link.url, file, package.size, progress)
    except OSError as error:
        raise Problem(
            "{what} could not be fetched: {why}; {size} MB are needed in {folder}",
            what=f"{package.name} {package.version}",
            why=refused(error),
            size=f"{package.size / 1e6:.1f}",
            folder=file.parent.parent,
        ) from None


def _candidates(links: list[Link], package: Package) -> list[Link]:
    """Return the links that may lead to the archive, at most one with its hash stated; raise if all state another."""
    if exact := [link for link in links if link.sha256 == package.sha256]:
        return exact[:1]
    named = [link for link in links if _is_archive(link.filename, package)]
    if named and all(link.sha256 for link in named):
        raise _wrong_hash()
    return [link for link in named if not link.sha256][:1]


def _wrong_hash() -> TransferError:
    return TransferError(Message("the registry offers something else under this name (wrong hash), which was not used"))


def _is_archive(filename: str, package: Package) -> bool:
    """True for an archive of the right name, version and kind."""
    expected = _normalised(f"{package.name}-{package.version}")
    if package.registry == "npm":
        return True
    if not package.sdist:
        return filename.endswith(".whl") and _normalised("-".join(filename.split("-")[:2])) == expected
    stem = re.sub(r"\.(tar\.gz|zip|tar\.bz2|tgz)$", "", filename)
    return stem != filename and _normalised(stem) == expected


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _links_of_location(client: Client, location: str) -> list[Link]:
    """Return the archives of a folder, or those that a page links to."""
    if "://" not in location and not location.startswith("file:"):
        location = Path(os.path.abspath(location)).as_uri()
    path = local_path(location)
    if path is not None and path.is_dir():
        return [Link(file.name, file.as_uri()) for file in sorted(path.iterdir()) if file.is_file()]
    return _links_of_page(client, location)


def _links_of_page(client: Client, address: str) -> list[Link]:
    """Return the links of a simple index's page, in JSON or HTML."""
    body, kind, url = client.read(address, ACCEPT)
    try:
        return _parse_json(body, url) if kind.endswith("json") else _parse_html(body, url)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise TransferError(Message("{url} is not the page of a package index", url=url)) from None


def _links_of_record(client: Client, address: str, package: Package) -> list[Link]:
    """Return the tarball that npm's record of a version names."""
    body, _kind, url = client.read(address, "application/json")
    try:
        tarball = join(url, json.loads(body)["dist"]["tarball"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise TransferError(Message("{url} is not the page of a package index", url=url)) from None
    return [Link(f"{package.name}-{package.version}.tgz", tarball)]


def _parse_json(body: bytes, url: str) -> list[Link]:
    """
    >>> page = b'{"files": [{"filename": "b-1.tar.gz", "url": "../b-1.tar.gz", "hashes": {"sha256": "c0"}}]}'
    >>> _parse_json(page, "https://example.org/simple/b/")
    [Link(filename='b-1.tar.gz', url='https://example.org/simple/b-1.tar.gz', sha256='c0')]
    """
    files = json.loads(body)["files"]
    return [
        Link(str(file["filename"]), link, str(file.get("hashes", {}).get("sha256", "")).lower())
        for file in files
        if (link := join(url, file["url"]))
    ]


def _parse_html(body: bytes, url: str) -> list[Link]:
    """
    >>> _parse_html(b'<a href="../b-1.tar.gz#sha256=c0">b-1.tar.gz</a>', "https://example.org/simple/b/")
    [Link(filename='b-1.tar.gz', url='https://example.org/simple/b-1.tar.gz', sha256='c0')]
    """
    parser = _Anchors()
    parser.feed(body.decode("utf-8", "replace"))
    links = []
    for href in parser.hrefs:
        address = join(join(url, parser.base) or url, href)
        bare, _hash, fragment = address.partition("#")
        stated = re.search(r"sha256=([0-9a-fA-F]+)", fragment)
        if bare:
            links.append(
                Link(unquote(urlsplit(bare).path.rpartition("/")[2]), bare, stated[1].lower() if stated else "")
            )
    return links


class _Anchors(HTMLParser):
    """The addresses that a page links to, and what they are relative to."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        value = dict(attrs).get("href")
        if value and tag == "a":
            self.hrefs.append(value.strip())
        elif value and tag == "base" and not self.base:
            self.base = value.strip()
