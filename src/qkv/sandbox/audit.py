"""The audit hook: refuses, with a sentence, what the user's code may not do.

It sees what Python code does, not what C code does. Where the kernel restricts the process too (confine.py), the hook gives
the sentence and the kernel the guarantee. Elsewhere the hook is all there is, so it also refuses ctypes.
"""

import os
import sys
from typing import Any

from ..i18n import _

RULES = _(
    "Checked code may not write, rename or remove files outside its temporary folder, start or end processes, or use the "
    "network. Take this out of what it runs, and check again."
)
PROCESSES = frozenset(
    "os.fork os.forkpty os.posix_spawn os.spawn os.exec os.system os.kill os.killpg os.startfile os.startfile/2 "
    "pty.spawn subprocess.Popen _winapi.CreateProcess _winapi.OpenProcess _winapi.TerminateProcess".split()
)
NETWORK = frozenset(
    "socket.connect socket.bind socket.sendto socket.sendmsg socket.getaddrinfo socket.gethostbyname "
    "socket.gethostbyaddr socket.getnameinfo".split()
)
# Events that change files: which arguments are paths, and which the folders that they are relative to.
FILES = {
    "open": ((0, None),),
    "os.chflags": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.removexattr": ((0, None),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.setxattr": ((0, None),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
    "shutil.rmtree": ((0, 1),),
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class AuditHook:
    """While it is on, refuses to start or signal processes, to use the network and to change files outside a folder.

    An audit hook can't be removed by code that runs later.
    """

    def __init__(self, scratch: str, *, has_kernel: bool) -> None:
        """Files may change below `scratch` only. ctypes is refused unless the kernel restricts C code (`has_kernel`)."""
        self.on = False
        self.has_kernel = has_kernel
        self.realpath, self.fsdecode, self.split, self.join = os.path.realpath, os.fsdecode, os.path.split, os.path.join
        self.folder = self.realpath(scratch) + os.sep
        self.pid = os.getpid()
        sys.addaudithook(self._hook)

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and self._is_refused(event, arguments):
            action = "writing files" if event == "open" else event
            raise PermissionError(f"{action} is not allowed while qkv checks a file")

    def _is_refused(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event in FILES:
            reads = event == "open" and not (arguments[2] or 0) & WRITES
            return not reads and not all(
                self._is_inside(arguments[path], None if folder is None else arguments[folder])
                for path, folder in FILES[event]
            )
        if event == "resource.prlimit":
            return arguments[0] not in (0, self.pid)
        return event in PROCESSES or event in NETWORK or (not self.has_kernel and event.startswith("ctypes."))

    def _is_inside(self, path: int | str | bytes | os.PathLike[str] | None, folder: int | None) -> bool:
        """Whether a path is in the scratch folder, both a link and what it points to.

        The number of an open file counts as inside: opening it for writing was allowed.
        """
        if path is None or isinstance(path, int):
            return True
        path = self.fsdecode(path)
        if folder is not None and folder != -1:
            try:
                path = self.join(os.readlink(f"/proc/self/fd/{folder}"), path)
            except OSError:  # not Linux
                return False
        if self.realpath(path) == os.devnull:
            return True
        parent, name = self.split(path)
        places = self.realpath(path), self.join(self.realpath(parent), name)
        return all(place.startswith(self.folder) for place in places)
