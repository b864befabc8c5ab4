"""`flintmq broker`, RocketMQ's broker 5.5.0 and the stock Java client that loads them, for lines.

A broker has the machine alone while it is measured: the others are stopped (SIGSTOP), so that Java's code stays
compiled. No client is connected to one that is stopped. RocketMQ's name server is in its broker's process, as ours is.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import java
from harness import Context, Cost
from replication_lines import Process

from tests.interop.java import OFTEN
from tests.interop.running_broker import RunningBroker
from tests.interop.served import served
from tests.interop.stock_clients import Client, clients

VERSION = "5.5.0"
# Both compilers, the collector that RocketMQ uses, and packages of Java that it and Netty want to be open.
OPENED = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
          "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED")  # fmt: skip
JAVA = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", *OPENED)
# RocketMQ's own sizes of files, which ours has too; on a busy machine nothing is refused.
STORE = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
    "osPageCacheBusyTimeOutMills": 20_000,
}
BROKER = {"waitTimeMillsInSendQueue": 20_000}
WINDOW = 256  # asynchronous sends under way
PIECE = 50_000
WARM = 200_000  # sends to either broker before anything is measured, so that Java has compiled its code
SETTLE_S = 0.5  # before: what a broker does once it runs again; after: dispatch and flush of what came last
LONGEST_S = 3600
NAMES = itertools.count()
T = TypeVar("T")


class Lost(Exception):
    """A broker refused a message, or does not have it: such a line has no figure."""


class Server(Process):
    """A server that runs while it is measured, and is stopped else.

    Args:
        process: the server, which is ready.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.child = process
        self.stop()

    def stop(self) -> None:
        os.kill(self.child.pid, signal.SIGSTOP)

    def run(self) -> None:
        os.kill(self.child.pid, signal.SIGCONT)

    def cost_of(self, ask: Callable[[], T]) -> tuple[T, float]:
        """What a client gets from it, and its processor seconds."""
        self.run()
        try:
            time.sleep(SETTLE_S)
            before = self.cpu
            found = ask()
            time.sleep(SETTLE_S)
            return found, self.cpu - before
        finally:
            self.stop()


class Loaded(Server):
    """A broker and the stock Java client that loads it.

    Args:
        store: its directory.
    """

    def __init__(self, address: str, process: subprocess.Popen[bytes], store: Path, client: Client) -> None:
        super().__init__(process)
        self.store, self.client = store, client
        self._address, self._sent = address, Counter[str]()

    def send(self, topic: str, count: int, size: int = 100, window: int = WINDOW) -> Cost:
        """What a stock producer's messages cost; with a window of 0 it waits for each.

        Raises:
            Lost: one was refused, or is not there.
        """
        words = {"topic": topic, "count": count, "size": size, "window": window, "before": self._sent[topic]}
        found, cpu = self._ask("load", **words)
        self._sent[topic] += count
        _check(count, acknowledged=found["acknowledged"], stored=found["stored"])
        return {"us": cpu / count * 1e6, "a second": count / found["seconds"]}

    def fill(self, topic: str, count: int) -> None:
        """Send so many messages of 100 B, in pieces that a busy machine also sends within the client's patience.

        Raises:
            Lost: as `send`.
        """
        for begin in range(0, count, PIECE):
            self.send(topic, min(PIECE, count - begin))

    def deliver(self, topic: str, count: int) -> Cost:
        """What the messages of a topic cost that one stock push consumer gets.

        Raises:
            Lost: it did not get all.
        """
        found, cpu = self._ask("drain", topic=topic, count=count, group=f"Drain{next(NAMES)}")
        _check(count, delivered=found["messages"])
        return {"us": cpu / count * 1e6, "a second": count / found["seconds"]}

    def latency(self, count: int, pause_ms: int) -> Cost:
        """How long a message takes from before its send until a push consumer has it, while nothing else happens.

        Raises:
            Lost: it did not get all.
        """
        number = next(NAMES)
        words = {"topic": f"Pace{number}", "group": f"Pace{number}", "count": count, "pause_ms": pause_ms}
        found, _ = self._ask("pace", **words)
        _check(count, delivered=found["messages"])
        return {"ms, 99 %": found["p99_us"] / 1000, "ms, median": found["p50_us"] / 1000}

    def _ask(self, op: str, **words: Any) -> tuple[dict[str, Any], float]:
        """The client's answer, and the broker's processor seconds."""
        return self.cost_of(partial(self.client.ask, op, self._address, **words))


def _check(count: int, **found: int) -> None:
    if wrong := {what: number for what, number in found.items() if number != count}:
        raise Lost(f"of {count} messages: {wrong}")


def stock_client(folder: Path) -> Client:
    """A process that makes stock Java clients as they are asked for.

    Raises:
        Unavailable: there is no Java, no Maven, or it cannot build.
    """
    java.built(VERSION)
    return clients(f"java-{VERSION}", folder, ["-Xmx1g", OFTEN])


@contextmanager
def flintmq_broker(folder: Path, client: Client, store: Path | None = None) -> Iterator[Loaded]:
    """A broker of ours with an empty store, or read-only with one that is there."""
    folder.mkdir()
    root = store or folder / "store"
    with served(root, folder, writes=store is None) as running:
        broker = Loaded(running.address, running.process, root, client)
        try:
            yield broker
        finally:
            broker.run()  # one that is stopped does not hear that it shall end


@contextmanager
def java_broker(folder: Path, client: Client) -> Iterator[Loaded]:
    """RocketMQ's with an empty store."""
    ready = [{"op": "sleep", "ms": 0}]
    with RunningBroker(
        VERSION, folder, ready, broker=BROKER, store=STORE, options=JAVA, longest_s=LONGEST_S
    ) as running:
        running.answers()
        yield Loaded(running.names, running.process, running.root, client)


@contextmanager
def both_brokers(context: Context) -> Iterator[tuple[Loaded, Loaded]]:
    """A broker of ours and RocketMQ's, warm.

    Raises:
        Unavailable: as `stock_client`.
    """
    with context.folder("brokers") as folder, ExitStack() as running:
        client = running.enter_context(stock_client(folder))
        ours = running.enter_context(flintmq_broker(folder / "flintmq", client))
        theirs = running.enter_context(java_broker(folder / "java", client))
        for broker in (ours, theirs):
            broker.fill("Warm", WARM // 20 if context.quick else WARM)
        yield ours, theirs
