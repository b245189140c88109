"""qkv studio: attention live in the browser."""

import argparse
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..i18n import Problem, _, echo, say
from .option_checks import check_range

if TYPE_CHECKING:
    import uvicorn

EXAMPLES = ["qkv studio", "qkv studio runs models/mine", "qkv studio --port 9000 --no-browser"]
PORT, MAX_TRIES = 8377, 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folders", nargs="*", metavar="FOLDER", help=say("folders with runs, models and traces (runs, if it exists)"))
    add("--port", type=int, metavar="N", help=say("the port ({port}, or the next one that is free)", port=PORT))
    add("--host", default=LOOPBACK[0], metavar="ADDRESS", help=say("the address of this machine (127.0.0.1)"))
    add("--i-know", action="store_true", help=say("open it to other machines: anyone with the token may use it"))
    add("--no-browser", action="store_true", help=say("print the address without opening a browser"))


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    if options.host not in LOOPBACK and not options.i_know:
        raise Problem(
            "--host {host} would open the studio to other machines, which could then use your models: leave it out, or "
            "add --i-know",
            host=options.host,
        )
    check_range("--port", options.port, 0, 65535)
    folders = [Path(folder) for folder in options.folders or (["runs"] if Path("runs").is_dir() else [])]
    for folder in folders:
        if not folder.exists():
            raise Problem("there is no folder {folder}", folder=folder)
    import uvicorn

    from ..studio.connections import patient_protocol
    from ..studio.server import Studio

    listener = _listener(options.host, options.port)
    port = listener.getsockname()[1]
    if (options.port is None and port != PORT) or options.port not in (None, 0, port):
        echo("port {taken} is taken: using {port}", sys.stderr, taken=options.port or PORT, port=port)
    names = () if options.host in LOOPBACK else (options.host, socket.gethostname())
    app = Studio(port, folders, names=names)
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{port}/?token={app.token}"
    echo("qkv studio is at {address}", address=address)
    print(say("Ctrl-C ends it."), flush=True)
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        http=patient_protocol(),
        ws="none",
        loop="asyncio",
        timeout_graceful_shutdown=1,
    )
    server = _Server(config, None if options.no_browser else address)
    server.run(sockets=[listener])
    return 0


def _listener(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on the port or the first free one after it."""
    first = PORT if port is None else port
    for candidate in range(first, min(first + MAX_TRIES, 65536)) if first else [0]:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, sys.platform != "win32")
        try:
            listener.bind((host, candidate))
            listener.listen(128)
            return listener
        except OSError as error:
            listener.close()
            refusal = error
    sentence = _("no free port from {first} on at {host} ({error}): choose another with --port")
    raise Problem(sentence, first=first, host=host, error=str(refusal))


def _Server(config: "uvicorn.Config", address: str | None) -> "uvicorn.Server":
    """Return a uvicorn server that opens the browser after start-up."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if address is not None:
                import threading
                import webbrowser

                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    return Server(config)
