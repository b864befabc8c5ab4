"""The pop engine without a broker: over a store, in the loop of a test."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from flintmq.broker.broker_keys import BrokerKeys
from flintmq.broker.held import Held
from flintmq.broker.pop import Pops
from flintmq.broker.recent import Got
from flintmq.broker.served_store import ServedStore
from flintmq.broker.store_offsets import StoreOffsets
from flintmq.store.message_store import MessageStore


class InCaller(Executor):
    """Runs functions at once, in the thread that asks."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        future.set_result(fn(*args, **kwargs))
        return future


class Popper:
    """Who pops, and never goes."""

    is_closed, is_writable = False, True

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(1)

    async def writable(self) -> None:
        return


def pops_of(store: MessageStore) -> Pops:
    """The engine of a store, as a broker has it after its start; `keep_expiring` is the caller's to run."""
    served = ServedStore(store, InCaller(), BrokerKeys(), lambda places: held.look(places))
    held = Held(served)
    return Pops(served, StoreOffsets(store), held, Got(), "broker-a")
