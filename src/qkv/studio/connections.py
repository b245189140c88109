"""Limits for connections that don't finish their headers: seconds per request, and how many may wait at once.

uvicorn's `timeout_keep_alive` only closes connections that are idle after a response.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0  # for the headers of a request, from its first byte or from the connection on
MOST = 64  # connections that may wait for headers at once; a browser opens about six


def patient_protocol(seconds: float = SECONDS, most: int = MOST) -> type[H11Protocol]:
    """uvicorn's protocol for one server, which closes connections whose headers take too long, and the oldest of too many."""

    class PatientProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self._wait()
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            if self in waiting:
                return
            waiting[self] = self.loop.call_later(seconds, self._give_up)
            if len(waiting) > most:
                next(iter(waiting))._give_up()

        def _stop_waiting(self) -> None:
            if (timer := waiting.pop(self, None)) is not None:
                timer.cancel()

        def _give_up(self) -> None:
            self._stop_waiting()
            self.transport.abort()

    waiting: dict[PatientProtocol, asyncio.TimerHandle] = {}  # in the order in which they began to wait
    return PatientProtocol
