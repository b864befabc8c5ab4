"""A connection whose client has some seconds for its request, in whatever pieces it sends it.

Uvicorn waits for ever for the rest of a request's head; a hundred such connections would be all that there are.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0


class PatientProtocol(H11Protocol):
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._timer.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._timer = self.loop.call_later(REQUEST_S, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
