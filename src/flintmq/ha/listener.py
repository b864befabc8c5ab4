"""Lets followers have the log of a store: RocketMQ's slaves, and other FlintMQ.

One thread serves all lines with a selector: it accepts, reads reports, and sends frames as far as the sockets take
them. Bodies go from the page cache to the socket (sendfile), so that a follower which does not read costs the header of
one frame. The thread looks at the log's end each millisecond while records come, sleeps when none come, and is woken
by the service that dispatches the first ones; puts do not know of it, but for those that wait for replicas (`acks`).
Where one replica is waited for and one follower is there, the threads that put use its line by themselves (`lending`).

The port has neither authentication nor encryption: whoever reaches it can read the whole log, and whoever reports to it
can answer puts that wait for replicas. So the address must be given, and networks may be.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import math
import os
import selectors
import socket
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, UsageError
from flintmq.ha.acks import AckTable
from flintmq.ha.frames import FRAME_HEADER
from flintmq.ha.lending import Lending, may_lend
from flintmq.ha.listener_line import ListenerLine
from flintmq.ha.master_line import LineRules, LineState, MasterLine
from flintmq.kernels.threads.replica_lane import LaneFacts
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.storage.threads.service_thread import ServiceThread
from flintmq.store.append.replicas import Replicas
from flintmq.store.listening import FollowerInfo, ListenOptions, LogSource

log = logging.getLogger("flintmq.ha")

READ: Final = 4096  # bytes read from a line at once
FRAMES: Final = 64  # frames sent to one follower before the others' turn
ACCEPTS: Final = 16  # followers accepted before the others' turn
LINGER_S: Final = 0.001  # interval of looking for records while they come
LINGERS: Final = 20  # looks without a new record before the thread sleeps
IDLE_S: Final = 0.05  # how long it sleeps without a wake-up
PAUSE_S: Final = 1.0  # how long nobody is accepted after the system had no descriptor or memory
TELL_S: Final = 600.0  # between two lines about one host that is refused
TOLD_MAX: Final = 64  # hosts of which one is logged in that time
LACKS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_MORE: Final = getattr(socket, "MSG_MORE", 0)

_listening: weakref.WeakSet[HaListener] = weakref.WeakSet()


def _leave_in_child() -> None:
    """Close a forked child's copies of all sockets; its parent's stay as they are."""
    for listener in list(_listening):
        listener.forked()


os.register_at_fork(after_in_child=_leave_in_child)


class HaListener:
    """Listens at one address, and sends the log of one store to all followers.

    `source`: the log that is sent: of an open store (`OwnLog` of store/assembly.py), or of files that `serve-ha` reads.

    Thread: any, for `wake`, `followers` and `close`.

    Attributes:
        on_event: called with an event's name and fields, in the listener's thread: "follower" (address, offset),
            "ended" (address, reason). Set before `start`.
        on_turn: called in the listener's thread after each turn, when what could be sent is under way. Likewise.
    """

    def __init__(self, options: ListenOptions, source: LogSource, config: StoreConfig, effects: Effects = REAL) -> None:
        self._networks = _checked(options)
        self._options, self._source, self._effects = options, source, effects
        self._gap = config.ha_max_gap_not_in_sync
        self._rules = LineRules(
            source.file_size,
            config.ha_transfer_batch_size,
            config.ha_send_heartbeat_interval / 1000,
            config.ha_housekeeping_interval / 1000,
            options.new_slave == "first",
            config.max_ha_transfer_byte_in_second if config.ha_flow_control_enable else 0,
        )
        self.on_event: Callable[[str, Mapping[str, object]], None] | None = None
        self.on_turn: Callable[[], None] | None = None
        self._acks: AckTable | None = None
        if config.broker_role == "SYNC_MASTER" and config.in_sync_replicas > 1:
            self._acks = AckTable(
                config.in_sync_replicas - 1,
                config.slave_timeout / 1000,
                by_host=options.replica == "host",
                wake=self.send_now,
                monotonic=effects.monotonic,
            )
        self.replicas: Replicas | None = self._acks  # answers puts that wait for replicas; None: no put does
        self._lines: dict[int, ListenerLine] = {}  # by descriptor
        self._looks, self._end = 0, -1
        self._accepts_from = 0.0
        self._told: dict[str, float] = {}  # when it was last said that this host is refused
        self._is_asleep = self._is_rung = False
        self._closing = Lock()
        self._is_closed = False
        self._server = _bound(options)
        self.address: tuple[str, int] = self._server.getsockname()[:2]
        self._bell, self._ear = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for sock in (self._server, self._bell, self._ear):
            sock.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._lending: Lending | None = None
        if self._acks is not None and may_lend(options, config, effects):
            self._lending = Lending(self._bell.fileno(), self._selector.fileno())
            self._acks.lane = self._lending.lane
        self._service = ServiceThread("flintmq-ha", self._run, self._ring)
        _listening.add(self)
        if not self._networks and not ipaddress.ip_address(self.address[0].partition("%")[0]).is_loopback:
            log.warning(
                "%s:%d: whoever reaches this port can read the whole log, without a password; name the networks of "
                "followers (ha_allow)", *self.address,
            )  # fmt: skip

    # -- for others -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._service.start()
        log.info("%s:%d: followers may come", *self.address)

    def wake(self) -> None:
        """Have what can be sent by now sent soon. Costs a comparison while the thread is awake."""
        if self._is_asleep:
            self._is_asleep = False
            self._ring()

    def send_now(self) -> None:
        """Have what can be sent by now sent at once, for a put that waits.

        Rings at most once a turn of the thread.
        """
        if not self._is_rung:
            self._is_rung = True
            self._ring()

    def followers(self) -> list[FollowerInfo]:
        """Return the followers that are there, oldest first."""
        now, end = self._effects.monotonic(), self._source.end()
        lines = [one for one in list(self._lines.values()) if one.line.state is not LineState.CLOSED]
        return [self._info(one, now, end) for one in lines]

    def _info(self, one: ListenerLine, now: float, end: int) -> FollowerInfo:
        known = one.line.acknowledged if self._lending is None else self._lending.acknowledged_by(one)
        in_sync = known >= 0 and end - known <= self._gap
        sent = max(one.line.sent, known)
        return FollowerInfo(one.address, one.line.state.value, sent, known, in_sync, now - one.since)

    def close(self) -> None:
        """Close all lines and free the port; puts that wait for replicas get FLUSH_SLAVE_TIMEOUT."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            # The thread ends first: from here on nobody else uses the lines.
            self._service.stop()
            if self._acks is not None:
                self._acks.close()
            if self._lending is not None:
                # Before a socket is closed: a put that has the line writes to its number, which might be another file's
                # by then.
                self._lending.close()
            for one in list(self._lines.values()):
                self._drop(one)
            self._selector.close()
            self._close_sockets()

    def forked(self) -> None:
        """Close this process's copies of the sockets: it is a forked child."""
        self._is_closed = True
        if self._lending is not None:
            self._lending.lane.forget()
        self._close_sockets()  # first: whoever sees the end of a line may bind the port
        for one in self._lines.values():
            one.sock.close()
        self._selector.close()  # unregisters nothing, which would reach the parent's

    def _close_sockets(self) -> None:
        for sock in (self._server, self._bell, self._ear):
            sock.close()
        _listening.discard(self)

    def _ring(self) -> None:
        with suppress(OSError):  # it rings already, or is closed
            self._bell.send(b"\0")

    # -- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._service.stopping:
            try:
                self.serve_once()
            except Exception:  # of any kind: without the thread no put that waits would be answered
                log.exception("%s:%d: the listener goes on after an error", *self.address)
                self._effects.sleep(LINGER_S)

    def serve_once(self) -> None:
        """Wait until something can be done, and do it. Thread: one at a time."""
        ready = self._selector.select(self._pause())
        lending = self._lending
        if lending is not None and not ready and not self._accepts_from and self._need_not_send(lending):
            return
        if lending is not None and (taken := lending.take_back()) is not None:
            self._do(taken[0], self._absorb, taken[1])
        for key, events in ready:
            self._handle(key, events)
        # Before the log's end is read: whoever appends from here on rings again. In every turn, because a signal
        # handler that raises may leave it set without a ring.
        self._is_asleep = self._is_rung = False
        now, end = self._effects.monotonic(), self._source.end()
        if self._accepts_from and now >= self._accepts_from:
            self._accepts_from = 0.0
            self._selector.register(self._server, selectors.EVENT_READ)
        self._note_end(end)
        for one in self._usable():
            self._do(one, self._take_turn, end, now)
        if lending is not None:
            lending.lend(self._lines.values(), end, now)
        if self.on_turn is not None:
            self.on_turn()

    def _need_not_send(self, lending: Lending) -> bool:
        """Return whether puts send by themselves what there is, which ends this turn."""
        self._is_asleep = self._is_rung = False  # before the log's end is read, as in a whole turn
        end = self._source.end()
        if not lending.goes_on(end, self._effects.monotonic()):
            return False
        self._note_end(end)
        if self.on_turn is not None:
            self.on_turn()
        return True

    def _note_end(self, end: int) -> None:
        """Count the looks at the log that found nothing new."""
        self._looks = self._looks + 1 if end == self._end else 0
        self._end = end

    def _usable(self) -> list[ListenerLine]:
        """Return the lines that no put has now."""
        lending = self._lending
        return [one for one in list(self._lines.values()) if lending is None or not lending.is_away(one)]

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        if key.fileobj is self._server:
            self._accept()
        elif key.fileobj is self._ear:
            with suppress(BlockingIOError):
                self._ear.recv(READ)
        elif (one := self._lines.get(key.fd)) is not None and one.sock is key.fileobj:
            if self._lending is not None and self._lending.is_away(one):
                return  # it is looked at when the put is done
            if events & selectors.EVENT_READ:
                self._do(one, self._read)  # which may end the line
            if events & selectors.EVENT_WRITE and one.sock.fileno() >= 0:
                self._listen_for(one, writable=False)

    def _pause(self) -> float | None:
        """Return the seconds to wait for an event at most; None: no limit."""
        now, transfers, due = self._effects.monotonic(), False, []
        for one in self._lines.values():
            if one.has_more:
                return 0
            due.append(one.line.due() if not one.is_full else one.line.silent_at)
            transfers |= one.line.state is LineState.TRANSFER and not one.is_full
        if self._accepts_from:
            due.append(self._accepts_from)
        limit = max(0.0, min(due) - now + LINGER_S) if due else None
        if not transfers or limit is None:
            return limit
        if self._looks < LINGERS:
            return min(limit, LINGER_S)
        self._is_asleep = True  # first: whoever appends now rings
        return 0 if self._source.end() != self._end else min(limit, IDLE_S)

    # -- lines ------------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, address = self._server.accept()
            except OSError as error:
                if error.errno in LACKS:
                    self._lack(error)
                return  # nobody is left, or one has gone already
            try:
                self._take(sock, (str(address[0]), int(address[1])))
            except OSError:  # it has gone already
                sock.close()

    def _lack(self, error: OSError) -> None:
        """Accept nobody for a while: the system has no descriptor, or no memory."""
        log.warning("%s:%d: no follower is accepted for %g s: %s", *self.address, PAUSE_S, error.strerror)
        self._accepts_from = self._effects.monotonic() + PAUSE_S
        self._selector.unregister(self._server)

    def _take(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Take a follower, or close its line at once."""
        if not self._may_come(address[0]):
            sock.close()
            self._tell_refused(address)
            return
        if len(self._lines) >= self._options.connections:
            # Who never reports must not keep out those who do.
            silent = next((one for one in self._lines.values() if one.line.state is LineState.WAIT), None)
            if silent is None:
                sock.close()
                log.warning("%s:%d is refused: %d followers are there", *address, len(self._lines))
                return
            self._end_line(silent, "it never reported, and another follower needs its place")
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = self._effects.monotonic()
        self._selector.register(sock, selectors.EVENT_READ)
        self._lines[sock.fileno()] = ListenerLine(sock, address, MasterLine(self._rules, now), now)

    def _tell_refused(self, address: tuple[str, int]) -> None:
        """Log that a host is refused: now and then, for it, and many more, may try for ever."""
        now, host = self._effects.monotonic(), address[0]
        if now - self._told.get(host, -math.inf) < TELL_S:
            return
        if len(self._told) >= TOLD_MAX:
            self._told = {one: at for one, at in self._told.items() if now - at < TELL_S}
        if len(self._told) < TOLD_MAX:
            self._told[host] = now
            log.warning("%s:%d is not in an allowed network and is refused", *address)

    def _may_come(self, host: str) -> bool:
        if not self._networks:
            return True
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)

    def _do(self, one: ListenerLine, step: Callable[..., None], *args: object) -> None:
        """Do something for one follower; an error ends its line, and no other's."""
        try:
            step(one, *args)
        except OSError as error:
            theirs = isinstance(error, (ConnectionError, TimeoutError))
            self._end_line(one, f"the line broke ({error.strerror or error})", is_ours=not theirs)
        except FlintError as error:  # of the store's files
            self._end_line(one, str(error))
        except Exception:
            log.exception("%s: an error in the listener", one)
            self._end_line(one, "an error in the listener")

    def _read(self, one: ListenerLine) -> None:
        try:
            data = one.sock.recv(READ)
        except BlockingIOError:
            return
        if not data:
            self._end_line(one, "it left", is_ours=False)
            return
        self._take_bytes(one, data)

    def _take_bytes(self, one: ListenerLine, data: bytes) -> None:
        line, before = one.line, one.line.state
        changed = line.received(data, self._source.begin(), self._source.end(), self._effects.monotonic())
        if line.state is LineState.CLOSED:
            self._end_line(one, line.reason)
        elif changed:
            if before is LineState.WAIT:
                log.info("%s follows from log offset %d", one, line.next)
                self._note("follower", address=str(one), offset=line.next)
            if self._acks is not None:
                self._acks.acknowledged(one, one.address[0], line.acknowledged)

    def _absorb(self, one: ListenerLine, facts: LaneFacts) -> None:
        before = one.line.acknowledged
        try:
            one.absorb(facts)
        finally:
            # Also if the line broke: what was acknowledged before that is acknowledged.
            if self._acks is not None and one.line.acknowledged > before:
                self._acks.acknowledged(one, one.address[0], one.line.acknowledged)
        if facts.raw:
            self._take_bytes(one, facts.raw)

    def _take_turn(self, one: ListenerLine, end: int, now: float) -> None:
        """Send a follower what is due, and end a silent line."""
        one.line.tick(now)
        if one.line.is_closed:
            self._end_line(one, one.line.reason)
            return
        one.has_more = False
        if one.is_full:
            return
        for _ in range(FRAMES):
            if not self._send(one):
                self._listen_for(one, writable=True)
                return
            header = one.line.frame(end, now)
            if header is None:
                if one.line.is_closed:
                    self._end_line(one, one.line.reason)
                return
            if header.size and not self._open_part(one, header.offset):
                self._end_line(one, f"it needs log offset {header.offset}, and that file was deleted")
                return
            one.head, one.left = FRAME_HEADER.pack(header), header.size
        one.has_more = True

    def _open_part(self, one: ListenerLine, offset: int) -> bool:
        """Hold the file with this log offset for a line; return False if it is not there any more."""
        part = one.part
        if part is not None and part.start <= offset < part.start + part.size:
            return True
        one.part = None
        if part is not None:
            part.release()
        one.part = self._source.open(offset)
        return one.part is not None

    def _send(self, one: ListenerLine) -> bool:
        """Send the rest of the frame under way; return False if the socket takes no more for now."""
        try:
            if one.head:
                # The kernel joins the header with the body, so that a small frame is one packet.
                sent = one.sock.send(one.head, _MORE if one.left else 0)
                one.head = one.head[sent:]
                one.line.wrote(0, self._effects.monotonic())
                if one.head:
                    return False
            while one.left:
                assert one.part is not None
                at = one.line.sent - one.part.start
                sent = self._effects.send_file(one.sock.fileno(), one.part.fd, at, one.left)
                # Retention removes whole files, and this one is held open: somebody else cut it.
                if not sent:
                    raise OSError(errno.EIO, "the log file is shorter than it was")
                one.left -= sent
                one.line.wrote(sent, self._effects.monotonic())
        except BlockingIOError:
            return False
        return True

    def _listen_for(self, one: ListenerLine, *, writable: bool) -> None:
        """Have the selector say when a full socket takes more, or no more."""
        if one.is_full != writable:
            one.is_full = writable
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
            self._selector.modify(one.sock, events)

    def _end_line(self, one: ListenerLine, why: str, *, is_ours: bool = True) -> None:
        level = logging.WARNING if is_ours else logging.INFO
        log.log(level, "%s %s: %s", one, "is hung up on" if is_ours else "follows no longer", why)
        self._note("ended", address=str(one), reason=why)
        one.line.close(why)
        self._drop(one)

    def _note(self, event: str, **fields: object) -> None:
        if self.on_event is not None:
            self.on_event(event, fields)

    def _drop(self, one: ListenerLine) -> None:
        """Close a line, and forget what it acknowledged."""
        if self._lines.pop(one.sock.fileno(), None) is None:
            return
        self._selector.unregister(one.sock)
        # The file is released after the socket: nothing sends from it any more.
        one.sock.close()
        part, one.part = one.part, None
        if part is not None:
            part.release()
        if self._acks is not None:
            self._acks.gone(one)


def _checked(options: ListenOptions) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    name = options.prefix
    if len(options.listen) != 2:
        raise UsageError(f'{name}listen: give a host and a port, such as ("127.0.0.1", 10912)')
    host, port = options.listen
    if not isinstance(host, str) or not host:
        raise UsageError(f"{name}listen names no host; give an address of this machine, such as 127.0.0.1")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 0xFFFF:
        raise UsageError(f"{name}listen: {str(port)[:40]!a} is no port")
    if options.new_slave not in ("last", "first"):
        raise UsageError(f'{name}new_slave={options.new_slave!r}; give "last" or "first"')
    if options.replica not in ("host", "connection"):
        raise UsageError(f'{name}count={options.replica!r}; give "host" or "connection"')
    if options.connections < 1:
        raise UsageError(f"{name}connections={options.connections}; give a number from 1 on")
    try:
        networks = [ipaddress.ip_network(one) for one in options.allow]
        if any(isinstance(one, ipaddress.IPv6Network) and one.subnet_of(_MAPPED) for one in networks):
            raise ValueError("an IPv4 network in IPv6 (::ffff:) matches nobody, as addresses are taken back to IPv4")
        return networks
    except ValueError as error:
        raise UsageError(f"{name}allow: {error}; give networks such as 10.1.2.0/24") from None


def _bound(options: ListenOptions) -> socket.socket:
    """Return a socket that listens at exactly this address."""
    host, port = options.listen
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(64)
    except (OSError, OverflowError, UnicodeError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{options.prefix}listen {host[:100]!a}, port {port}: {reason}; give another address"
        ) from None
    return sock
