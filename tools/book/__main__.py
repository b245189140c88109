"""python -m tools.book [--slow] [--serve]: build, check and serve the site. `make docs` calls this."""

import argparse
import functools
import http.server
import sys
import time
from pathlib import Path

from .cells import Stale
from .checks import problems
from .site import ROOT, build

OUT, WORK = ROOT / "site", ROOT / "out" / "book"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.book", description=__doc__)
    parser.add_argument("--slow", action="store_true", help="also run the slow cells (training, fetched models)")
    parser.add_argument("--serve", action="store_true", help="serve the site on this machine after building it")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    start_time = time.perf_counter()
    try:
        build(OUT, WORK, options.slow)
    except Stale as error:
        print(error, file=sys.stderr)
        return 2
    messages = problems(OUT)
    for message in messages:
        print(message, file=sys.stderr)
    size = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file())
    print(
        f"{OUT.relative_to(ROOT)}/index.html: {size / 1e6:.1f} MB, {time.perf_counter() - start_time:.0f} s, {len(messages)} problems"
    )
    if options.serve and not messages:
        _serve(OUT, options.port)
    return 1 if messages else 0


def _serve(folder: Path, port: int) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{port}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


sys.exit(main())
