"""Starts a broker, stops it, and joins its rooms."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from flintmq.broker import tls
from flintmq.broker.acl import Guard
from flintmq.broker.broker_keys import BrokerKeys, settings_of
from flintmq.broker.clients import Clients
from flintmq.broker.connection import ClientConnection, ClientLine
from flintmq.broker.consumers import Consumers
from flintmq.broker.filters import Filters
from flintmq.broker.held import Held
from flintmq.broker.listener import BrokerListener
from flintmq.broker.locks import Locks
from flintmq.broker.lookup import Lookup
from flintmq.broker.modes import Modes
from flintmq.broker.name_servers import NameServers
from flintmq.broker.offsets import SAVE_S, KeptOffsets
from flintmq.broker.pop import Pops
from flintmq.broker.pop_requests import PopRequests
from flintmq.broker.pull import Pulls
from flintmq.broker.recall import Recalls
from flintmq.broker.recent import Recent
from flintmq.broker.replies import Replies
from flintmq.broker.requests import Around, PlainTaker, Requests
from flintmq.broker.routes import EVERY_ADDRESS, Routes
from flintmq.broker.send import Sends
from flintmq.broker.served import Offsets, Served
from flintmq.broker.served_store import ServedStore
from flintmq.broker.served_view import ServedView
from flintmq.broker.settings import Settings
from flintmq.broker.stats import BrokerStats
from flintmq.broker.store_offsets import StoreOffsets
from flintmq.broker.tables import Tables
from flintmq.broker.transactions import Endings
from flintmq.broker.workers import ReadingThreads
from flintmq.config.keys import StoreConfig
from flintmq.errors import MissingExtraError, UsageError
from flintmq.format.group_topics import reply_topic
from flintmq.remoting import names
from flintmq.remoting.client import is_ipv6, join_address, split_address
from flintmq.remoting.frames import VERSION
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store import arguments
from flintmq.store.message_store import MessageStore
from flintmq.store.view import StoreView, open_store

if TYPE_CHECKING:
    from flintmq.broker.grpc.service import GrpcService

log = logging.getLogger("flintmq.broker")

WORKERS: Final = 4  # threads that read files
STOP_S: Final = 3.0  # for what is under way at the end
_HOST = re.compile(r"[A-Za-z0-9._-]+")
LOOPBACK: Final = "127.0.0.1"
LEAST_S: Final = 0.2  # of it, for workers that are about to end
WRITES: Final = (
    names.SEND, names.SEND_SHORT, names.SEND_BATCH, names.REPLY, names.REPLY_SHORT, names.SEND_BACK,
    names.END_TRANSACTION,
    names.MAKE_TOPIC, names.DELETE_TOPIC, names.FORGET_TOPIC, names.MAKE_GROUP, names.DELETE_GROUP,
    names.SET_CONFIG, names.RESET_OFFSET, names.RECALL, names.POP, names.ACK, names.ACK_BATCH, names.CHANGE_INVISIBLE,
    names.PEEK, names.NOTIFICATION, names.GET_ASSIGNMENT, names.SET_MODE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Options:
    places: list[tuple[str, int]]  # host, port
    advertise: str | None
    name: str
    cluster: str
    offsets: str | None  # path of a file
    keys: BrokerKeys
    register: str  # name servers, HOST:PORT;HOST:PORT
    acl: str | None  # path of a file
    names_grpc: bool  # an address is for clients of gRPC, so it must be served


class Broker:
    """Serves a store to stock clients of RocketMQ: it is their name server and their broker.

    It is used in a `with` block, where a thread of its own has the loop, or in an `async with` block of a running loop.

        with Broker("/backup/store", read_only=True) as broker:
            print(broker.address)

    One node: it replicates nothing. With `register` it is one broker of a cluster, else it knows no other one. Without
    `acl` whoever reaches its port can read the whole store, and send to it.

    Thread: any.

    Args:
        store: path of a store, made if it is missing; None: a temporary one, removed at the end. A read-only one may be
            a URL, a backup, a copy, or what another process writes.
        read_only: serve a view: sends and changes are refused.
        dev: small files, for experiments.
        listen: where clients come, HOST:PORT; port 0: any free one.
        grpc: one more address of the same kind, for clients by gRPC, whose configuration names it; None: none. They may
            come to `listen` as well.
        advertise: host that clients get; None: the one that they connected to.
        name, cluster: of the broker.
        register: name servers to register with, HOST:PORT each, or all in one text with `;` between them.
        tls_cert, tls_key: a certificate and its key, files in PEM, for clients that come with TLS; a key of None is in
            the file of the certificate.
        tls_self_signed: make a certificate instead, for this run.
        acl: a file of users and of what they may do, JSON or a plain_acl.yml of RocketMQ 4.x, which is read again when
            it changes; None: everybody may do everything.
        offsets: a file that keeps offsets of groups of a read-only store; None: they are forgotten at the end.
        config: RocketMQ's keys of the store and of the broker, a StoreConfig, or the path of a broker.conf.
        settings: such keys as KEY=VALUE, which win.

    Raises:
        TypeError: a switch is neither True nor False.
        UsageError: words that do not go together.
        ConfigError: an unknown key or an impossible value.

    Raises (in `start`):
        UsageError: an address that cannot be listened at; a file of offsets that is none, or inside the store; an ACL
            that is none.
        OSError, RemotingError: no name server answers; one refuses.
        MissingExtraError: `grpc` or `tls_self_signed` needs a package that is not installed.
        FlintError: as `MessageStore`, or `open_store`; the end of the log is damaged (CorruptStoreError).

    Durability: as of a `put` under the store's flushDiskType: what is answered with success is in the log, and under
    SYNC_FLUSH on disk. Read-only: nothing is written but `offsets`, each 5 s and at the end.
    """

    # Set before the start by `testing`.
    around: Around | None = None  # then no request takes a compiled way past it
    effects: Effects = REAL  # the store's disk and clock

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        dev: bool = False,
        listen: str = "127.0.0.1:0",
        grpc: str | None = None,
        advertise: str | None = None,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        offsets: str | os.PathLike[str] | None = None,
        register: str | Sequence[str] = (),
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_self_signed: bool = False,
        acl: str | os.PathLike[str] | None = None,
        config: StoreConfig | Mapping[str, object] | str | os.PathLike[str] | None = None,
        settings: Iterable[str] = (),
    ) -> None:
        arguments.flags(read_only=read_only, dev=dev, tls_self_signed=tls_self_signed)
        if (tls_self_signed and tls_cert is not None) or (tls_key is not None and tls_cert is None):
            raise UsageError("TLS needs a certificate and its key, or tls_self_signed, which makes both")
        if read_only and (store is None or dev):
            raise UsageError("read_only serves a store that is there: give its path, and leave out dev")
        if offsets is not None and not read_only:
            raise UsageError("offsets= is for read_only: a store that is written keeps offsets of groups itself")
        places = [_place(place) for place in (listen, grpc) if place is not None]
        if advertise is not None and not _HOST.fullmatch(advertise) and not is_ipv6(advertise):
            raise UsageError(f"advertise: {advertise!a:.100} is no host; give a name or an address, without a port")
        told = advertise or (None if places[0][0] in EVERY_ADDRESS else places[0][0])
        if register and told is None:
            raise UsageError(f"{listen} means all interfaces; say with advertise (--advertise) where clients reach it")
        file = None if offsets is None else os.path.abspath(offsets)
        servers = register if isinstance(register, str) else ";".join(register)
        self._path, self._is_view = store, read_only
        self._config, keys = settings_of(config, settings, dev=dev)
        if not read_only and self._config.broker_role == "SLAVE":
            raise UsageError("brokerRole=SLAVE takes no messages; leave it out, or serve the store read-only")
        names_grpc, rules = grpc is not None and not read_only, None if acl is None else os.path.abspath(acl)
        self._options = _Options(places, told, name, cluster, file, keys, servers, rules, names_grpc)
        self._tls = (tls_cert, tls_key) if tls_cert is not None else None
        self._is_self_signed = tls_self_signed
        if keys.tls_mode == tls.ENFORCING and tls_cert is None and not tls_self_signed:
            raise UsageError("tls.server.mode=enforcing refuses all who come without TLS: give a certificate, too")
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.addresses: list[str] = []  # where it listens, HOST:PORT
        self.loop: asyncio.AbstractEventLoop | None = None  # in which it runs
        self._running: _RunningBroker | None = None
        self._thread: _LoopThread | None = None

    @property
    def address(self) -> str:
        """Return the address for clients: of the name server, and of the broker."""
        return self.addresses[0]

    @property
    def store(self) -> MessageStore | StoreView:
        """Return the store, to put and get beside the clients; it is closed with the broker.

        Of a read-only broker it is the view as of the last look.
        """
        served = self._now.served
        return served.store if isinstance(served, ServedStore) else served.view

    def stats(self) -> BrokerStats:
        """Return figures of now."""
        return self._now.stats()

    def metrics(self) -> str:
        """Return figures of now as Prometheus text, version 0.0.4, by RocketMQ's names.

        Raises:
            UsageError: the broker is not started, or is stopped.
            FlintError, OSError: its store cannot be read.
        """
        return self._now.metrics()

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
        running, self.loop = _RunningBroker(self._options, self.around, self._tls_context()), asyncio.get_running_loop()
        try:
            self.addresses = await running.bind()
            await running.start(await self.loop.run_in_executor(None, self._opened))
        except BaseException:
            await running.stop()
            self._remove()
            raise
        self._running = running

    async def stop(self) -> None:
        """Accept nobody any more, answer what is under way, close the store. May be called again."""
        running, self._running = self._running, None
        if running is not None:
            try:
                await running.stop()
            finally:
                self._remove()

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

    def _opened(self) -> MessageStore | StoreView:
        if self._is_view:
            return self._opened_view()
        path = self._path
        if path is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="flintmq-broker-")
            path = self._temporary.name
        host, port = split_address(self.address)
        # A message's id names this address, where clients ask for it: the port is the one that was taken, whatever a
        # configuration says of another broker.
        keys: dict[str, object] = {"listenPort": port}
        if "brokerIP1" not in self._config.given:
            keys["brokerIP1"] = _stored_host(self._options.advertise or host)
        return MessageStore(path, self._config.with_keys(keys), effects=self.effects)

    def _opened_view(self) -> StoreView:
        assert self._path is not None
        view = open_store(self._path, config=self._config)
        view.check_end()
        file = self._options.offsets
        root = os.path.join(os.path.realpath(view.root), "")
        if file is not None and os.path.join(os.path.realpath(file), "").startswith(root):
            raise UsageError(f"{file}: is inside the store, into which nothing is written; name another file")
        return view

    def _tls_context(self) -> ssl.SSLContext | None:
        if self._tls is not None:
            return tls.context_of(*self._tls)
        if not self._is_self_signed:
            return None
        hosts = [host for host, _ in self._options.places if host not in EVERY_ADDRESS]
        return tls.self_signed([*hosts, *([self._options.advertise] if self._options.advertise else [])])

    def _remove(self) -> None:
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()


class _Rooms(NamedTuple):
    """Holds the rooms that any broker has."""

    offsets: Offsets
    routes: Routes
    held: Held
    pulls: Pulls
    recent: Recent


class _RunningBroker:
    """A broker between start and stop. Thread: the loop's."""

    served: ServedStore | ServedView

    def __init__(self, options: _Options, around: Around | None, context: ssl.SSLContext | None) -> None:
        self._options, self._is_disturbed = options, around is not None
        self._requests = Requests(VERSION, around)
        self._listener = BrokerListener(self._requests.take, self._left)
        self._listener.tls, self._listener.tls_mode = context, options.keys.tls_mode
        self._grpc: GrpcService | None = None  # None: nobody has spoken it yet
        self._workers, self._clients, self._locks = ReadingThreads(WORKERS, "flintmq-broker"), Clients(), Locks()
        self._filters = Filters(by_properties=options.keys.by_properties)
        self._requests.answered = self._clients.calls.answered
        self._guard = None if options.acl is None else Guard(options.acl, options.cluster)
        self._requests.guard = None if self._guard is None else self._guard.remoting
        self._kept: KeptOffsets | None = None
        self._rooms: _Rooms | None = None  # None: it is not started
        self.pops: Pops | None = None  # None: read-only
        self._name_servers: NameServers | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._store: MessageStore | StoreView | None = None
        self._is_view = False

    async def bind(self) -> list[str]:
        """Take the addresses before the store is opened: each of its records names one."""
        return [await self._listener.bind(*place) for place in self._options.places]

    async def start(self, store: MessageStore | StoreView) -> None:
        """Serve a store from now on, which is closed at the end."""
        self._store = store
        if isinstance(store, MessageStore):
            self._join_store(store)
        else:
            await self._join_view(store)
        await self._listener.serve()
        if self._name_servers is not None:
            await self._name_servers.start()
        self._tasks.append(asyncio.get_running_loop().create_task(self._keep_time()))
        if self._guard is not None:
            self._tasks.append(asyncio.get_running_loop().create_task(self._guard.keep_reading()))

    def _join_store(self, store: MessageStore) -> None:
        options = self._options
        own = {reply_topic(options.cluster), *([options.keys.trace_topic] if options.keys.trace else [])}
        served = ServedStore(store, self._workers, options.keys, lambda places: held.look(places), own)
        self.served = served
        self._clients.admit = served.admit
        offsets = StoreOffsets(store, self._clients.consumers)
        self._clients.ended = offsets.left
        rooms = self._join(served, offsets)
        routes, held = rooms.routes, rooms.held
        self._requests.add(Settings(served, routes, self._clients, offsets, held).handlers())
        pops = self.pops = Pops(served, offsets, held, rooms.recent.got, routes.name)
        self._requests.add(PopRequests(served, pops, self._filters).handlers())
        is_alone = not options.register
        self._requests.add(Modes(served, routes, self._clients, is_alone=is_alone).handlers())
        self._tasks.append(asyncio.get_running_loop().create_task(pops.keep_expiring()))
        sends = Sends(served, self._locks, self._clients, options.name, options.cluster)
        endings = Endings(served, self._clients, options.name)
        replies = Replies(sends, self._clients, routes, stores=options.keys.store_replies)
        self._requests.add(sends.handlers() | endings.handlers() | replies.handlers(), in_any_case=True)
        recalls = Recalls(served, options.name, enabled=options.keys.recall)
        self._requests.add(recalls.handlers())
        self._take_plain(*sends.plain(), *rooms.pulls.plain(self._requests.end))

        def make_grpc() -> GrpcService:
            """Load gRPC, which takes memory that a broker for remoting alone does not need.

            Raises MissingExtraError: its packages are not installed.
            """
            try:
                from flintmq.broker.grpc.service import GrpcService
            except ImportError as error:
                raise MissingExtraError("gRPC needs h2 and protobuf: pip install 'flintmq[grpc]'") from error
            made = GrpcService(
                served,
                self._requests,
                self._clients,
                routes,
                sends,
                endings,
                recalls,
                pops,
                held,
                self._filters,
                self._guard,
            )
            self._tasks += [asyncio.get_running_loop().create_task(work) for work in made.tasks()]
            return made

        def speak(connection: ClientConnection) -> ClientLine:
            if self._grpc is None:
                self._grpc = make_grpc()
            return self._grpc.line(connection)

        self._listener.http2 = speak
        if options.names_grpc:
            self._grpc = make_grpc()

    async def _join_view(self, view: StoreView) -> None:
        self._is_view = True
        kept = self._kept = KeptOffsets(lambda: served.broker, self._options.offsets)
        served = self.served = ServedView(view, self._workers, self._clients.names)
        await served.first_look()
        rooms = self._join(served, kept)
        self._take_plain(*rooms.pulls.plain(self._requests.end))
        why = f"{self._options.name} serves {view.root} read-only: nothing can be sent or changed here"
        self._requests.refuse(WRITES, why)

        def looked(gone: Set[str]) -> None:
            kept.forget(gone)
            rooms.held.look()

        self._tasks.append(asyncio.get_running_loop().create_task(served.keep_looking(looked)))

    def _take_plain(self, *plain: PlainTaker) -> None:
        """Have plain requests answered without frames, which nobody checks, and no test sees."""
        if not self._is_disturbed and self._guard is None:
            self._listener.plain = plain

    def _join(self, served: Served, offsets: Offsets) -> _Rooms:
        """Make the rooms that any broker has."""
        options = self._options
        routes = Routes(served, options.name, options.cluster, options.advertise, self._listener.port)
        held, recent = Held(served), Recent(served)
        pulls = Pulls(served, self._clients, offsets, held, recent.got, self._filters)
        self._clients.gone = self._locks.left
        for room in (
            self._clients,
            self._locks,
            self._filters,
            routes,
            pulls,
            recent,
            Lookup(served, self._clients, offsets),
            Consumers(served, self._clients, options.name),
            Tables(served, routes, self._clients, offsets, None if self._is_view else options.keys),
        ):
            self._requests.add(room.handlers())
        address = join_address(options.advertise or "", self._listener.port)
        self._name_servers = NameServers(options.register, routes, address, self._is_view)
        self._rooms = _Rooms(offsets, routes, held, pulls, recent)
        return self._rooms

    async def stop(self) -> None:
        deadline = time.monotonic() + STOP_S
        if self._name_servers is not None:
            await self._name_servers.stop()
        await self._listener.stop()
        for task in self._tasks:
            task.cancel()
        if self._rooms is not None:
            self._rooms.held.stop()
        await self._requests.drain(STOP_S)
        await self._listener.end(deadline - time.monotonic())
        await self._save()
        if self._kept is not None:
            self._kept.close()
        self._workers.end(max(deadline - time.monotonic(), LEAST_S))
        if self._store is not None:
            await asyncio.to_thread(self._store.close)  # after which it tells of no arrivals

    def stats(self) -> BrokerStats:
        groups = {name: len(members) for name, members in self._clients.groups()}
        listener, requests = self._listener, self._requests
        return BrokerStats(
            listener.connections,
            listener.accepted,
            listener.broken,
            0 if self._rooms is None else self._rooms.held.count,
            groups,
            dict(requests.unsupported),
            requests.failed,
        )

    def metrics(self) -> str:
        from flintmq.broker.figures import BrokerPage  # it takes memory, which only some brokers need

        assert self._rooms is not None  # it is started
        offsets, routes, _, _, recent = self._rooms
        most = self._options.keys.samples_max
        languages = [] if self._grpc is None else self._grpc.sessions.producer_languages()
        page = BrokerPage(self.served, offsets, self._clients, recent, routes, self.pops, most)
        return page.text(self.stats(), languages)

    def _left(self, connection: ClientConnection) -> None:
        self._clients.left(connection)
        if self._rooms is not None:
            self._rooms.held.left(connection)

    async def _keep_time(self) -> None:
        """Take out silent members and leases that have ended, and save offsets, again and again."""
        while True:
            await asyncio.sleep(SAVE_S)
            self._clients.sweep()
            if self._grpc is not None:
                self._grpc.sessions.sweep()
            self._locks.sweep()
            if self._rooms is not None and isinstance(self._rooms.offsets, StoreOffsets):
                self._rooms.offsets.sweep()
            with suppress(UsageError):  # somebody closed the store
                if isinstance(self.served, ServedStore):
                    self.served.sample()
                if self._rooms is not None:
                    self._rooms.recent.sample()
            await self._save()

    async def _save(self) -> None:
        save = None if self._kept is None else self._kept.due()
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


def _stored_host(host: str) -> str:
    """Return what records name as the store's host: an address of IPv4."""
    try:
        found = ipaddress.IPv4Address(host)
    except ValueError:
        return LOOPBACK
    return LOOPBACK if found.is_unspecified else host


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return (host.strip("[]"), 0) if port == "0" and host else split_address(text)
