"""`async for message in consumer`: reads in a thread, hands out in the event loop.

A message counts as handed out just before the loop's body gets it, without an `await` between. So a task may be
cancelled anywhere: a commit afterwards covers no message that the body did not get.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from flintmq.errors import UsageError
from flintmq.message import StoredMessage

if TYPE_CHECKING:
    from flintmq.store.consumer.consumer import Consumer
    from flintmq.store.consumer.group import MessageRun

AT_ONCE: Final = 32  # messages that are read by one call of a thread
LOCKED_S: Final = 0.001  # until a lock is tried again that another consumer of the group has, perhaps for a slow disk


async def messages_of(consumer: Consumer) -> AsyncIterator[StoredMessage]:
    """Iterate over messages as Consumer.__iter__ does."""
    loop, arrived, source = asyncio.get_running_loop(), asyncio.Event(), consumer._source

    def wake() -> None:
        if not arrived.is_set():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(arrived.set)

    end = source.on_arrival(wake)
    last = time.monotonic()  # when there was a message, or the begin
    try:
        while True:
            arrived.clear()  # before it looks, so that no arrival falls between
            try:
                _, runs, found = await asyncio.to_thread(consumer._look, AT_ONCE, None)
            except UsageError:
                if consumer._is_open():
                    raise
                return
            for run in runs if found else ():
                while run.begin != run.following:
                    message = await _handed_out(consumer, run)
                    if message is not None:
                        yield message
            if found:
                last = time.monotonic()
            left = source.wait_s if consumer.idle_ms is None else last + consumer.idle_ms / 1000 - time.monotonic()
            if not runs and left <= 0:
                return
            if not runs:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), min(left, source.wait_s))
    finally:
        end()


async def _handed_out(consumer: Consumer, run: MessageRun) -> StoredMessage | None:
    """Hand out the next message of a run; None if it has none, or may not be handed out."""
    lock, one = consumer._group.lock, run.take(1)
    while lock.locked():
        await asyncio.sleep(LOCKED_S)
    with lock:
        mine = consumer._hand_out(one)
    return one.messages[0] if mine and one.messages else None
