"""Starts a broker, stops it, and joins its rooms."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Coroutine, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final, Self

from flintmq.broker.clients import Clients
from flintmq.broker.connection import ClientConnection
from flintmq.broker.listener import BrokerListener
from flintmq.broker.lookup import Lookup
from flintmq.broker.offsets import SAVE_S, KeptOffsets
from flintmq.broker.pull import Pulls
from flintmq.broker.requests import Requests
from flintmq.broker.routes import EVERY_ADDRESS, Routes
from flintmq.broker.served_view import ServedView
from flintmq.broker.tables import Tables
from flintmq.broker.workers import ReadingThreads
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.remoting import names
from flintmq.remoting.client import split_address
from flintmq.remoting.frames import VERSION
from flintmq.store import arguments
from flintmq.store.view import StoreView, open_store

log = logging.getLogger("flintmq.broker")

WORKERS: Final = 4  # threads that read files
STOP_S: Final = 3.0  # for what is under way at the end
LEAST_S: Final = 0.2  # of it, for workers that are about to end
WRITES: Final = (
    names.SEND, names.SEND_SHORT, names.SEND_BATCH, names.SEND_BACK, names.END_TRANSACTION,
    names.MAKE_TOPIC, names.DELETE_TOPIC, names.FORGET_TOPIC, names.MAKE_GROUP, names.DELETE_GROUP,
    names.SET_CONFIG, names.RESET_OFFSET,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """Figures of a running broker.

    Attributes:
        connections: how many there are now.
        accepted: how many there were.
        broken: how many of these were closed because they broke a rule, or were silent, which the log tells.
        held: pulls that wait for messages.
        groups: consumer group -> number of its members.
        unsupported: code of a request that is not known here -> how many came.
        failed: requests that met an error, which the log tells.
    """

    connections: int
    accepted: int
    broken: int
    held: int
    groups: Mapping[str, int]
    unsupported: Mapping[int, int]
    failed: int


@dataclass(frozen=True, slots=True)
class _Options:
    places: list[tuple[str, int]]  # host, port
    advertise: str | None
    name: str
    cluster: str
    offsets: str | None  # path of a file


class Broker:
    """Serves a store to stock clients of RocketMQ: it is their name server and their broker.

    It is used in a `with` block, where a thread of its own has the loop, or in an `async with` block of a running loop.

        with Broker("/backup/store", read_only=True) as broker:
            print(broker.address)

    One node: it replicates nothing and knows no other broker. There is no password: whoever reaches its port can read
    the whole store.

    Thread: any.

    Args:
        store: path or URL of a store; a read-only one may be a backup, a copy, or what another process writes.
        read_only: serve a view; so far nothing else can be served.
        listen: where clients come, HOST:PORT; port 0: any free one.
        grpc: one more address of the same kind, for clients whose configuration names it; None: none.
        advertise: host that clients get; None: the one that they connected to.
        name, cluster: of the broker.
        offsets: a file that keeps offsets of groups; None: they are forgotten at the end.
        config: as for `open_store`.

    Raises:
        TypeError: `read_only` is neither True nor False.

    Raises (in `start`):
        UsageError: an address that cannot be listened at; a file of offsets that is none, or inside the store.
        FlintError: as `open_store`; the end of the log is damaged (CorruptStoreError).

    Durability: nothing is written but `offsets`, each 5 s and at the end.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        *,
        read_only: bool = False,
        listen: str = "127.0.0.1:0",
        grpc: str | None = None,
        advertise: str | None = None,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        offsets: str | os.PathLike[str] | None = None,
        config: StoreConfig | str | os.PathLike[str] | None = None,
    ) -> None:
        arguments.flags(read_only=read_only)
        if not read_only:
            raise UsageError("a broker takes no messages yet; say read_only=True (--read-only)")
        places = [_place(place) for place in (listen, grpc) if place is not None]
        told = advertise or (None if places[0][0] in EVERY_ADDRESS else places[0][0])
        file = None if offsets is None else os.path.abspath(offsets)
        self._path, self._config, self._options = store, config, _Options(places, told, name, cluster, file)
        self.addresses: list[str] = []  # where it listens, HOST:PORT
        self._running: _RunningBroker | None = None
        self._thread: _LoopThread | None = None

    @property
    def address(self) -> str:
        """Return the address for clients: of the name server, and of the broker."""
        return self.addresses[0]

    @property
    def store(self) -> StoreView:
        """Return the view that is served, as of the last look. It is closed with the broker."""
        return self._now.served.view

    def stats(self) -> BrokerStats:
        return self._now.stats()

    @property
    def _now(self) -> _RunningBroker:
        if self._running is None:
            raise UsageError("this broker is not started, or is stopped")
        return self._running

    # -- in a running loop --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store and listen."""
        if self._running is not None:
            raise UsageError("this broker is started already")
        view = await asyncio.get_running_loop().run_in_executor(None, self._opened)
        running = _RunningBroker(view, self._options)
        try:
            self.addresses = await running.start()
        except BaseException:
            await running.stop()
            raise
        self._running = running

    async def stop(self) -> None:
        """Accept nobody any more, answer what is under way, close the store. May be called again."""
        running, self._running = self._running, None
        if running is not None:
            await running.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- with a thread of its own --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread = _LoopThread()
        try:
            self._thread.run(self.start())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self.stop())
            finally:
                thread.stop()

    # -- its parts ----------------------------------------------------------------------------------------------------

    def _opened(self) -> StoreView:
        view = open_store(self._path, config=self._config)
        view.check_end()
        file = self._options.offsets
        root = os.path.join(os.path.realpath(view.root), "")
        if file is not None and os.path.join(os.path.realpath(file), "").startswith(root):
            raise UsageError(f"{file}: is inside the store, into which nothing is written; name another file")
        return view


class _RunningBroker:
    """A broker between start and stop. Thread: the loop's."""

    def __init__(self, view: StoreView, options: _Options) -> None:
        self._places = options.places
        self._offsets = KeptOffsets(lambda: served.broker, options.offsets)  # first: it may be refused
        self._workers, self._clients = ReadingThreads(WORKERS, "flintmq-broker"), Clients()
        self.served = served = ServedView(view, self._workers, self._clients.names)
        self._requests = Requests(VERSION)
        self._listener = BrokerListener(self._requests.take, self._left)
        self._routes = Routes(served, options.name, options.cluster, options.advertise)
        self._pulls = Pulls(served, self._clients, self._offsets)
        for room in (
            self._clients,
            self._routes,
            self._pulls,
            Lookup(served, self._clients, self._offsets),
            Tables(served, self._routes, self._clients, self._offsets),
        ):
            self._requests.add(room.handlers())
        why = f"{options.name} serves {view.root} read-only: nothing can be sent or changed here"
        self._requests.refuse(WRITES, why)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> list[str]:
        """Listen; return the addresses."""
        await self.served.first_look()
        addresses = [await self._listener.start(*place) for place in self._places]
        self._routes.port = split_address(addresses[0])[1]
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(one) for one in (self.served.keep_looking(self._looked), self._keep_time())]
        return addresses

    async def stop(self) -> None:
        deadline = time.monotonic() + STOP_S
        await self._listener.stop()
        for task in self._tasks:
            task.cancel()
        self._pulls.stop()
        await self._requests.drain(STOP_S)
        await self._listener.end(deadline - time.monotonic())
        await self._save()
        self._offsets.close()
        self._workers.end(max(deadline - time.monotonic(), LEAST_S))
        self.served.view.close()

    def stats(self) -> BrokerStats:
        groups = {name: len(members) for name, members in self._clients.groups()}
        listener, requests = self._listener, self._requests
        return BrokerStats(
            listener.connections,
            listener.accepted,
            listener.broken,
            self._pulls.held,
            groups,
            dict(requests.unsupported),
            requests.failed,
        )

    def _looked(self, gone: Set[str]) -> None:
        self._offsets.forget(gone)
        self._pulls.look()

    def _left(self, connection: ClientConnection) -> None:
        self._clients.left(connection)
        self._pulls.left(connection)

    async def _keep_time(self) -> None:
        """Take out silent members, and save offsets, again and again."""
        while True:
            await asyncio.sleep(SAVE_S)
            self._clients.sweep()
            await self._save()

    async def _save(self) -> None:
        save = self._offsets.due()
        if save is not None:
            try:
                await asyncio.to_thread(save)  # not by a worker: all may wait for the store's disk
            except OSError as error:
                log.error("offsets are not saved: %s", error)


class _LoopThread:
    """A thread with an event loop, for those who have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flintmq-broker", daemon=True)
        self._thread.start()

    def run(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return (host.strip("[]"), 0) if port == "0" and host else split_address(text)
