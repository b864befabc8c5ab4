"""A whole broker with its name server on 127.0.0.1, that runs while a test talks to it."""

import json
import random
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.interop.java import Java, home

KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
    "timerFlushIntervalMs": 20_000,  # a flush of its timer, which nothing here uses, copies 38 MB each second
}
LONGEST_S = 120


def java_of(version: str, options: Iterable[str] = ()) -> Java:
    """The real broker of this version, or a skip; `options` are Java's."""
    built, why = home(version)
    if built is None:
        pytest.skip(f"RocketMQ {version}: {why}")
    return Java(version, built, options)


def free_ports() -> tuple[int, int]:
    """A port for the name server and one for the broker, which takes the two before and the one after it too."""
    chance = random.Random()
    while True:
        port = chance.randrange(20_000, 30_000)
        try:
            for other in range(port, port + 6):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", other))
        except OSError:
            continue
        return port, port + 4


def run_broker(
    java: Java, root: Path, ops: list[dict[str, Any]], topic: str, keys: dict[str, Any]
) -> list[dict[str, Any]]:
    """Run a broker and clients on a store until all is done; the answers."""
    names, port = free_ports()
    more = {
        # A broker spins through its first interval between two flushes of transactions' figures, ten seconds by itself.
        "broker": {
            "brokerClusterName": "C",
            "brokerName": "b",
            "flushConsumerOffsetInterval": 1000,
            "transactionMetricFlushInterval": 500,
        },
        "namesrv_port": names,
        "broker_port": port,
    }
    return java("broker", root, keys, ops, [topic], more=more)


class RunningBroker:
    """Starts the broker, lets its clients do `ops`, and ends it at the end of the `with` block.

    `folder` is for its store, `root`, and its files; `broker` and `store` are keys of its configuration; `names` and
    `address` are those of the name server and of the broker's listenPort, `HOST:PORT`; `options` are Java's, else those
    for one that lives for seconds; after `longest_s` it ends by itself.
    """

    def __init__(
        self,
        version: str,
        folder: Path,
        ops: list[dict[str, Any]],
        *,
        topics: dict[str, Any] | None = None,
        broker: dict[str, Any] | None = None,
        store: dict[str, Any] | None = None,
        options: Iterable[str] = (),
        longest_s: int = LONGEST_S,
    ) -> None:
        java, (names, port) = java_of(version, options), free_ports()
        folder.mkdir(exist_ok=True)
        self.names, self.address, self.root = f"127.0.0.1:{names}", f"127.0.0.1:{port}", folder / "store"
        self._ops, self._out = ops, folder / "out"
        more = {
            "broker": {"brokerClusterName": "C", "brokerName": "b", "flushConsumerOffsetInterval": 500}
            | (broker or {}),
            "namesrv_port": names,
            "broker_port": port,
            "topics": topics or {},
        }
        forever = {"op": "sleep", "ms": longest_s * 1000}
        words = java.words("broker", self.root, KEYS | (store or {}), [*ops, forever], [], folder, more)
        with open(self._out, "wb") as out, open(folder / "err", "wb") as err:
            self.process = subprocess.Popen(words, stdout=out, stderr=err)

    def answers(self) -> list[dict[str, Any]]:
        """What the operations gave, once all are done."""
        limit = time.monotonic() + LONGEST_S
        wanted = sum(op.get("count", 1) if op["op"] == "send" else 1 for op in self._ops)
        while True:
            rows = [json.loads(line) for line in self._out.read_bytes().splitlines()]
            if len(rows) >= wanted:
                return rows
            assert self.process.poll() is None and time.monotonic() < limit, rows
            time.sleep(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
