"""Visits of clients that mean a broker harm, or are slow: each is a few connections for some moments."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from flintmq.remoting import names
from flintmq.remoting.client import split_address
from labs.broker.hostile_frames import (
    GROUPS,
    MAKERS,
    NEW_NAMES_MAX,
    TEXTS,
    TOPICS,
    good,
    names_of,
    valid_sends,
)
from tests.broker.talk import batch, pull, request, send

GONE = (ConnectionError, TimeoutError)
READ_S, SLOW_S, LIMIT_S = 0.05, 3.0, 10.0
FLOOD, PULLS, IDLE = 2_000, 300, 60


class Asked:
    """What all visits together have asked to store, and what names they brought. Thread: any.

    Attributes:
        counted: visits by kind, bytes, sends.
    """

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self._topics: dict[bytes, set[str]] = {}  # by the hash of a body
        self._names, self._new = {*TOPICS, *GROUPS, *TEXTS}, 0
        self._lock = threading.Lock()

    def may(self, data: bytes) -> bool:
        """Note what the bytes of one connection ask; whether they may go: not if they bring too many names."""
        with self._lock:
            new = names_of(data) - self._names
            if self._new + len(new) > NEW_NAMES_MAX:
                self.counted["left out"] += 1
                return False
            self._names |= new
            self._new += len(new)
            self.counted["bytes"] += len(data)
            for topic, body in valid_sends(data):
                self._topics.setdefault(hashlib.sha1(body).digest(), set()).add(topic)
                self.counted["sends asked"] += 1
            return True

    def topics_of(self, body: bytes) -> set[str]:
        """Topics of the sends that had this body."""
        return set(self._topics.get(hashlib.sha1(body).digest(), ()))

    def count(self, kind: str) -> None:
        """Count a visit."""
        with self._lock:
            self.counted.update([kind, "visits"])


class Visitor:
    """Makes one visit after the other.

    Args:
        address: of the broker.
        chance: decides what is random.
        asked: what this visitor asks is noted there.
    """

    def __init__(self, address: str, chance: random.Random, asked: Asked) -> None:
        self._place, self._chance, self._asked = split_address(address), chance, asked
        self._kinds: dict[Callable[[], None], int] = {
            self.talk: 60, self.half: 6, self.drip: 3, self.large: 3, self.flood: 2, self.slow: 2, self.idle: 1
        }  # fmt: skip

    def visit(self) -> None:
        """Make one visit of some kind; that the broker hangs up is what a visitor expects."""
        [kind] = self._chance.choices(list(self._kinds), list(self._kinds.values()))
        with suppress(*GONE):
            kind()
        self._asked.count(kind.__name__)

    def talk(self) -> None:
        """Some blocks of bytes, which may end anywhere, and whatever is answered at once."""
        pieces = [self._chance.choice(MAKERS)(self._chance) for _ in range(self._chance.choice((1, 2, 8)))]
        if self._asked.may(b"".join(pieces)):
            with self._connected() as line:
                for piece in pieces:
                    line.sendall(piece)
                self._read(line, READ_S)
                self._leave(line)

    def half(self) -> None:
        """A part of a frame, and silence."""
        data = good(self._chance)
        with self._connected() as line:
            line.sendall(data[: self._chance.randrange(len(data))])
            self._read(line, self._chance.uniform(0, SLOW_S))
            self._leave(line)

    def drip(self) -> None:
        """A request byte by byte."""
        data = good(self._chance)
        if self._asked.may(data):
            with self._connected() as line:
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for at in range(len(data)):
                    line.sendall(data[at : at + 1])
                    time.sleep(0.001)
                self._read(line, READ_S)

    def large(self) -> None:
        """What a frame has room for: many small messages, one of megabytes, a header of a megabyte."""
        size = self._chance.choice((60_000, 1 << 20, 4 << 20, 15 << 20))
        data = self._chance.choice((
            lambda: request(names.SEND_BATCH, send("F2", 0, batch="true"), batch((b"", "")) * (size // 22)),
            lambda: request(names.SEND_SHORT, send("F2", 1), bytes(size)),
            lambda: request(names.SEND_SHORT, send("F2", 1, "a\x01b\x02" * (size // 4)), b""),
            lambda: request(names.HEARTBEAT, {}, b" " * size + b"{}"),
            lambda: request(names.GET_ROUTE, {"topic": "y" * size}),
        ))()  # fmt: skip
        if self._asked.may(data):
            with self._connected() as line:
                line.sendall(data)
                self._read(line, 1.0)

    def flood(self) -> None:
        """Thousands of requests of which nobody takes the answers before the last one is gone."""
        data = b"".join(good(self._chance) for _ in range(FLOOD))
        if self._asked.may(data):
            with self._connected() as line:
                line.sendall(data)
                self._read(line, self._chance.uniform(0, 1))
                self._leave(line)

    def slow(self) -> None:
        """Large answers, taken by a few bytes at a time."""
        asks = b"".join(request(names.PULL, pull("F1", 2, 0, "FG"), opaque=number) for number in range(PULLS))
        with self._connected(receive_buffer=4096) as line:
            line.sendall(asks)
            until = time.monotonic() + self._chance.uniform(0.5, SLOW_S)
            while time.monotonic() < until and line.recv(1024):
                time.sleep(0.02)
            self._leave(line)

    def idle(self) -> None:
        """Many connections that say nothing."""
        lines = [self._connected() for _ in range(IDLE)]
        time.sleep(self._chance.uniform(0, SLOW_S))
        for line in lines:
            self._leave(line)
            line.close()

    def _connected(self, receive_buffer: int = 0) -> socket.socket:
        line = socket.socket()
        if receive_buffer:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        line.settimeout(LIMIT_S)
        line.connect(self._place)
        return line

    def _read(self, line: socket.socket, seconds: float) -> None:
        """Take what comes, for so long."""
        until = time.monotonic() + seconds
        with suppress(TimeoutError):
            while (left := until - time.monotonic()) > 0:
                line.settimeout(left)
                if not line.recv(1 << 18):
                    return

    def _leave(self, line: socket.socket) -> None:
        """Have the end of the connection be a reset, now and then."""
        if self._chance.random() < 0.3:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
