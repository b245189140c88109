"""A local stand-in for the Hugging Face hub: serves the requests of huggingface_hub, with optional failures.

A repository is a folder. Small files are served as they are; weights, as on the hub, by a redirect to another place
that states their sha256. Routes: /api/models/ID, /ID/resolve/REVISION/FILE, /blobs/SHA256.
"""

import hashlib
import json
import re
import threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
LARGE = (".safetensors", ".gguf", ".bin", ".model", ".spm")


@contextmanager
def serving(repositories, gated=(), cut=(), changed=None):
    """Serve {"owner/name": folder}; yields the address and the list of requests.

    Repositories in `gated` deny access; those in `cut` send only half of each large file. `changed` maps small files to
    functions that change their content.
    """
    requests = []
    handler = partial(_Handler, repositories, frozenset(gated), frozenset(cut), changed or {}, requests)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()


@cache
def _sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git_sha1(content):
    """Return git's hash of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, repositories, gated, cut, changed, requests, *more):
        self.repositories, self.gated, self.cut, self.changed, self.requests = (
            repositories,
            gated,
            cut,
            changed,
            requests,
        )
        super().__init__(*more)

    def log_message(self, *_):
        """Log nothing: the tests read `requests`."""

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        path = unquote(urlsplit(self.path).path)
        self.requests.append(f"{self.command} {path}")
        if info := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/(.+))?", path):
            self._info(info[1], info[3] or "main")
        elif file := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(file[1], file[3])
        elif blob := re.fullmatch(r"/blobs/([^/]+/[^/]+)/([0-9a-f]{64})", path):
            self._blob(blob[1], blob[2])
        else:
            self._send(404, {})

    def _info(self, name, revision):
        folder = self.repositories.get(name)
        if folder is None:  # without a login, the hub responds 401 to a missing repository
            return self._send(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        if revision not in ("main", COMMIT):
            return self._send(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        siblings = []
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            entry = {"rfilename": file.relative_to(folder).as_posix(), "size": file.stat().st_size}
            entry["blobId"] = _git_sha1(file.read_bytes())
            if file.suffix in LARGE:  # the blob is a git LFS pointer
                entry["blobId"] = _git_sha1(b"oid sha256:" + _sha256(file).encode())
                entry["lfs"] = {"sha256": _sha256(file), "size": file.stat().st_size, "pointerSize": 130}
            siblings.append(entry)
        about = {"_id": "0", "id": name, "modelId": name, "sha": COMMIT, "private": False, "tags": [], "downloads": 0}
        gated = "manual" if name in self.gated else False
        self._send(200, {}, json.dumps(about | {"siblings": siblings, "gated": gated}).encode())

    def _resolve(self, name, filename):
        file = Path(self.repositories.get(name, ".")) / filename
        if name in self.gated:
            message = f"Access to model {name} is restricted. You must be authenticated to access it."
            return self._send(401, {"X-Error-Code": "GatedRepo", "X-Error-Message": message})
        if name not in self.repositories or not file.is_file():
            return self._send(404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        commit = {"X-Repo-Commit": COMMIT}
        if file.suffix not in LARGE:
            content = file.read_bytes()
            sent = self.changed.get(filename, lambda content: content)(content)
            return self._send(200, commit | {"ETag": f'"{_git_sha1(content)}"'}, sent)
        sha256, size = _sha256(file), str(file.stat().st_size)
        away = f"http://localhost:{self.server.server_port}"  # another host than 127.0.0.1, so it gets no token
        linked = {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": size, "Location": f"{away}/blobs/{name}/{sha256}"}
        self._send(302, commit | linked)

    def _blob(self, name, sha256):
        files = (each for each in self.repositories[name].rglob("*") if each.is_file())
        content = next(file.read_bytes() for file in files if _sha256(file) == sha256)
        begin = int((re.match(r"bytes=(\d+)-", self.headers.get("Range", "")) or [0, 0])[1])
        if name not in self.cut:
            return self._send(206 if begin else 200, {"ETag": f'"{sha256}"'}, content[begin:])
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin : len(content) // 2])
        self.close_connection = True

    def _send(self, status, headers, content=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
