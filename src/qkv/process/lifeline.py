"""End a process when the process that started it ends, even if that one is killed with SIGKILL.

The caller holds the write end of a pipe and never writes to it; the system closes it when the caller ends. A thread that
waits for that can't run while C code holds Python's lock (a power of ten million digits), so the system sends a signal.

The pipe must carry nothing else: a write sends its signal after the reader can see the data, so a pipe with requests ends
a process whose caller is alive.
"""

import os
import select
import signal


def end_with_caller(pipe: int) -> None:
    """End this process when the other end of the lifeline is closed. A process that leads its group ends the group.

    Does nothing where the system has no SIGIO (Windows).
    """
    if not hasattr(signal, "SIGIO"):
        return
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)  # which ends a process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGIO])
    is_leader = os.getpgrp() == os.getpid()
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpid() if is_leader else os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(pipe, 0)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):  # the caller ended before the signal was set up
        os._exit(72)
