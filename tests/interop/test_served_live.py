"""Stock clients consume from a store that another process writes meanwhile; the broker between them writes nothing.

FLINTMQ_LIVE_MESSAGES=100000 has many more messages go through.
"""

import os
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from labs.interop.live import LiveJava
from tests.interop.live_writer import TOPICS, LiveWriter
from tests.interop.running_broker import RunningBroker, java_of
from tests.interop.served import Served, files, served, stored
from tests.interop.stock_clients import Client, clients
from tests.support.threads import within

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("FLINTMQ_LIVE_MESSAGES", "4000"))
PIECES = 20  # of each half
PIECE = COUNT // 2 // PIECES
KINDS = ("java-5.5.0", "go")
CATCH_UP_S = 60 + COUNT / 500
O_ACCMODE = 3


class JavaWriter:
    """Apache RocketMQ's store, as LiveWriter."""

    def __init__(self, store: Path) -> None:
        java_of("5.5.0")  # else a skip
        self._java, self.count = LiveJava("5.5.0", store), 0

    def fill(self, count: int) -> None:
        self.count += count
        self._java.fill(self.count, count)

    def stop(self) -> None:
        self._java("dispatch")
        self._java.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._java.kill()


def check_reads_only(broker: Served, store: Path) -> None:
    """No file of the store is open or mapped for writing in the broker's process."""
    for number in os.listdir(f"/proc/{broker.process.pid}/fd"):
        try:
            path = os.readlink(f"/proc/{broker.process.pid}/fd/{number}")
            told = Path(f"/proc/{broker.process.pid}/fdinfo/{number}").read_text()
        except FileNotFoundError:  # closed meanwhile
            continue
        if path.startswith(f"{store}/"):
            flags = next(line.split()[1] for line in told.splitlines() if line.startswith("flags:"))
            assert int(flags, 8) & O_ACCMODE == os.O_RDONLY, path
    for line in Path(f"/proc/{broker.process.pid}/maps").read_text().splitlines():
        assert f"{store}/" not in line or line.split()[1][1] == "-", line


def places(rows: list[dict[str, Any]]) -> Counter[tuple[str, int, int]]:
    return Counter((row["topic"], row["queue"], row["offset"]) for row in rows)


def consumed(client: Client, broker: Served, count: int, store: Path) -> Counter[tuple[str, int, int]]:
    """What a group gets until it has so many messages."""
    limit = time.monotonic() + CATCH_UP_S
    while len(client.got("Live")) < count and time.monotonic() < limit:
        check_reads_only(broker, store)
        time.sleep(0.2)
    client.await_messages("Live", count, 1)
    return places(client.stop("Live"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fdinfo"), reason="no /proc to look into")
@pytest.mark.parametrize("make", [LiveWriter, JavaWriter])
def test_two_halves_and_a_new_broker_between_them(make: type[LiveWriter | JavaWriter], tmp_path: Path) -> None:
    """Each group gets each message once, half of them from a second broker with the first one's file of offsets."""
    store, offsets = tmp_path / "store", ("--offsets", str(tmp_path / "offsets.json"))
    got: dict[str, Counter[tuple[str, int, int]]] = {kind: Counter() for kind in KINDS}
    with ExitStack() as stack:
        writer, running = stack.enter_context(make(store)), []
        for kind in KINDS:
            (tmp_path / kind).mkdir()
            running.append(stack.enter_context(clients(kind, tmp_path / kind)))
        writer.fill(200)  # a topic that nobody has put to is none that a consumer can find
        assert within(lambda: {topic for topic, _, _ in stored(store)} == set(TOPICS))
        for _ in range(2):
            with served(store, tmp_path, *offsets) as broker:
                for client in running:
                    client.consume("Live", broker.address, list(TOPICS), group=f"Live-{client.kind.partition('-')[0]}")
                for _ in range(PIECES):
                    writer.fill(PIECE)
                    check_reads_only(broker, store)
                for client in running:
                    known = got[client.kind]
                    known += consumed(client, broker, writer.count - known.total(), store)
        writer.stop()
        with served(store, tmp_path, *offsets) as broker:
            before = files(store)
            for client in running:
                client.consume("Live", broker.address, list(TOPICS), group=f"Fresh-{client.kind.partition('-')[0]}")
                assert consumed(client, broker, writer.count, store) == got[client.kind]
        assert files(store) == before
    assert Counter(stored(store).keys()) == got["java-5.5.0"] == got["go"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fdinfo"), reason="no /proc to look into")
def test_a_broker_of_rocketmq_that_runs(tmp_path: Path) -> None:
    """Its directory is served while its own clients send: topics and groups come from its config/."""
    count = COUNT // 4
    ops = [{"op": "send", "topic": "Plain", "body": "x", "count": count}]
    (tmp_path / "java-5.5.0").mkdir()
    with (
        RunningBroker("5.5.0", tmp_path / "java", ops, topics={"Plain": {"queues": 4}}) as java,
        clients("java-5.5.0", tmp_path / "java-5.5.0") as client,
    ):
        assert within(lambda: (java.root / "consumequeue" / "Plain").is_dir(), 120)
        with served(java.root, tmp_path) as broker:
            client.consume("Live", broker.address, ["Plain"])
            got = consumed(client, broker, count, java.root)
    assert got == Counter(place for place in stored(java.root) if place[0] == "Plain") and got.total() == count
