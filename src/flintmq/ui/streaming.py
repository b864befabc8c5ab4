"""Answers that go on: they end when their reader leaves, and wait for one that reads slowly, but not for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import suppress

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

SLOW_S = 20.0
"""Seconds that a reader may take nothing; then the connection is closed. A page of events connects again."""


class Streamed(StreamingResponse):
    """An answer whose pieces are made one by one, each when the one before was taken.

    The server cancels it when its reader leaves; then no further piece is made.
    """

    async def stream_response(self, send: Send) -> None:
        async def patient(message: Message) -> None:
            with fail_after(SLOW_S):
                await send(message)

        await super().stream_response(patient)


async def in_threads(texts: Generator[str], limiter: CapacityLimiter) -> AsyncIterator[str]:
    """Yield texts that a blocking generator makes; empty ones only show that it goes on."""
    try:
        while (text := await to_thread.run_sync(next, texts, None, limiter=limiter)) is not None:
            if text:
                yield text
    finally:
        with suppress(ValueError):  # its thread still makes a piece, and leaves it then
            texts.close()
