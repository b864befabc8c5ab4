"""Replication with Apache RocketMQ on the other side: a copy of its log, a slave of ours, and a copy of a copy."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore, open_store
from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.run import verify
from flintmq.ha import Follower
from labs.interop.live import KEYS, QUEUES, TOPICS, LiveJava
from labs.replication.logs import Log, read_log
from labs.torture_spark.actors import end, spawn
from tests.compat.replication import queue_units
from tests.interop.java import VERSIONS
from tests.interop.running_broker import java_of
from tests.support.threads import within

pytestmark = pytest.mark.slow

CATCH_UP_S = 60
SLAVE_MS = 40_000  # a slave of Java connects up to 5 s after its start, and 5 s after a line is lost


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each version of RocketMQ, or a skip."""
    return java_of(request.param).version


@pytest.fixture
def live(version: str, tmp_path: Path) -> Any:
    """Starts living stores of this version; what still runs at the end is killed."""
    started: list[LiveJava] = []

    def start(name: str, **more: Any) -> LiveJava:
        started.append(LiveJava(version, tmp_path / name, **more))
        return started[-1]

    yield start
    for java in started:
        java.kill()


def same_log(ours: Path, theirs: Path, end: int) -> None:
    """Both have the same bytes below the end, and zeros above."""
    one, other = read_log(ours), read_log(theirs)
    assert one.begin == other.begin and one.below(one.begin, end) == other.below(other.begin, end)
    assert nothing_above(one, end) and nothing_above(other, end)


def nothing_above(log: Log, end: int) -> bool:
    """Whether all bytes from a log offset on are zero."""
    return not any(log.data[end - log.begin :])


def carries_on(java: LiveJava, tops: dict[tuple[str, int], int]) -> None:
    """Java puts into the store at the next offset of each queue."""
    for (topic, queue), top in tops.items():
        put = java("put", topic=topic, queue=queue, body="after")
        assert (put["status"], put["queue_offset"]) == ("PUT_OK", top), (topic, queue)
    java.stop()


def tops_of(java: LiveJava) -> dict[tuple[str, int], int]:
    """The next offset of each queue."""
    return {(topic, n): java("offsets", topic=topic, queue=n)["max"] for topic in TOPICS for n in range(QUEUES)}


def test_a_copy_of_a_master_of_java(live: Callable[..., LiveJava], tmp_path: Path):
    """Byte for byte, keys and queues too; the master knows how far it is; Java goes on where the copy ends."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    master = live("theirs")
    master.fill(1, 400)
    with Follower(ours, f"127.0.0.1:{master.port}", config=KEYS, ack=True) as follower:
        assert follower.wait_caught_up(CATCH_UP_S)
        for seed in range(2, 6):
            master.fill(seed, 100)
        last = master.end
        limit = time.monotonic() + CATCH_UP_S
        while acknowledged(master) != last and time.monotonic() < limit:
            time.sleep(0.05)
        assert acknowledged(master) == last
        assert follower.whole == last
    master("dispatch")
    keys = {key: master("query", topic="T1", key=key, max=1000)["physical_offsets"] for key in ("k7", "k123", "k400")}
    tops = tops_of(master)
    master.stop()
    same_log(ours, theirs, last)
    assert queue_units(ours) == queue_units(theirs)
    with open_store(ours, set=KEYS) as view:
        found = {key: [m.physical_offset for m in view.query("T1", key, limit=1000)] for key in keys}
    assert found == {key: sorted(offsets) for key, offsets in keys.items()} and any(found.values())
    assert verify(ours, StoreConfig.from_keys(KEYS)).defects == []
    carries_on(live("ours"), tops)


def acknowledged(master: LiveJava) -> int | None:
    """What the master's only follower has acknowledged."""
    return next((one["ack"] for one in master("ha")["connections"]), None)


def test_a_synchronous_master_of_java_waits_for_a_copy_that_acknowledges(
    live: Callable[..., LiveJava], tmp_path: Path
):  # fmt: skip
    """One that does not is no replica, though it gets the same bytes."""
    master = live("theirs", brokerRole="SYNC_MASTER", inSyncReplicas=2, slaveTimeout=700)
    address = f"127.0.0.1:{master.port}"
    assert master("put", topic="T0", queue=0, body="alone")["status"] == "FLUSH_SLAVE_TIMEOUT"
    with Follower(tmp_path / "tap", address, config=KEYS) as tap:
        assert tap.wait_caught_up(CATCH_UP_S)
        assert master("put", topic="T0", queue=0, body="tapped")["status"] == "FLUSH_SLAVE_TIMEOUT"
        with Follower(tmp_path / "replica", address, config=KEYS, ack=True, flush="SYNC") as replica:
            assert replica.wait_caught_up(CATCH_UP_S)
            answers = [master("put", topic="T0", queue=0, body=f"{n}")["status"] for n in range(20)]
            assert answers == ["PUT_OK"] * 20
            last = master.end
            assert replica.whole == last
    same_log(tmp_path / "replica", tmp_path / "theirs", last)


@pytest.mark.turn(3)
def test_a_slave_of_java_follows_flintmq(live: Callable[..., LiveJava], tmp_path: Path):
    """From the first byte on, through a restart of ours; then it is opened as a master."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with MessageStore(ours, config=KEYS, ha_listen=("127.0.0.1", 0), ha_new_slave="first") as store:
        port = store.ha.address[1]
        last = put_some(store, 0, 600)
        slave = live("theirs", master=port)
        assert slave("await", offset=last, ms=SLAVE_MS)["max_physical_offset"] == last
        last = put_some(store, 600, 100)
        assert slave("await", offset=last, ms=SLAVE_MS)["max_physical_offset"] == last
        assert within(lambda: [one.acknowledged for one in store.ha.followers()] == [last])
    with MessageStore(ours, config=KEYS, ha_listen=("127.0.0.1", port), ha_new_slave="first") as store:
        last = put_some(store, 700, 100)
        assert slave("await", offset=last, ms=SLAVE_MS)["max_physical_offset"] == last
        tops = {(queue.topic, queue.queue_id): queue.max_offset for queue in store.view().queues()}
    slave("dispatch")
    slave.stop()
    same_log(theirs, ours, last)
    assert queue_units(theirs) == queue_units(ours)
    carries_on(live("theirs"), tops)


@pytest.mark.turn(3)
def test_flintmq_waits_for_a_slave_of_java(live: Callable[..., LiveJava], tmp_path: Path):
    """As SYNC_MASTER; without one a put is answered FLUSH_SLAVE_TIMEOUT."""
    keys = KEYS | {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 700}
    with MessageStore(tmp_path / "ours", config=keys, ha_listen=("127.0.0.1", 0), ha_new_slave="first") as store:
        first = store.put(Message("T0", b"alone", queue_id=0))
        assert first.status.name == "FLUSH_SLAVE_TIMEOUT"
        slave = live("theirs", master=store.ha.address[1])
        last = first.physical_offset + first.size
        assert slave("await", offset=last, ms=SLAVE_MS)["max_physical_offset"] == last
        assert within(lambda: store.put(Message("T0", b"until it is there")).status.name == "PUT_OK")
        assert {store.put(Message("T0", b"%d" % n)).status.name for n in range(20)} == {"PUT_OK"}
        slave.stop()


def put_some(store: MessageStore, first: int, count: int) -> int:
    """Put messages; the end of the log."""
    for n in range(first, first + count):
        result = store.put(Message(TOPICS[n % 3], b"%d " % n * (n % 150), keys=f"k{n}", queue_id=n % QUEUES))
        assert result.status.name == "PUT_OK"
    return result.physical_offset + result.size


def test_a_copy_of_a_copy_of_a_master_of_java(live: Callable[..., LiveJava], tmp_path: Path):
    """`flintmq serve-ha` serves a copy while it follows; the second copy is the master's log too."""
    master = live("theirs")
    master.fill(1, 300)
    with Follower(tmp_path / "first", f"127.0.0.1:{master.port}", config=KEYS, ack=True) as first:
        assert first.wait_caught_up(CATCH_UP_S)
        server, port = serve(tmp_path / "first", tmp_path)
        try:
            with Follower(tmp_path / "second", f"127.0.0.1:{port}", config=KEYS, ack=True) as second:
                assert second.wait_caught_up(CATCH_UP_S)
                master.fill(2, 300)
                last = master.end
                assert within(lambda: first.whole == second.whole == last)
        finally:
            end(server)
    master("dispatch")
    master.stop()
    for copy in ("first", "second"):
        same_log(tmp_path / copy, tmp_path / "theirs", last)
        assert queue_units(tmp_path / copy) == queue_units(tmp_path / "theirs")


def serve(store: Path, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """`flintmq serve-ha`, and its port."""
    sets = [word for key, value in KEYS.items() for word in ("--set", f"{key}={value}")]
    words = [sys.executable, "-m", "flintmq", "serve-ha", str(store), "--listen", "127.0.0.1:0", "--json", *sets]
    out = folder / "serve.out"
    server = spawn(words, out, folder / "serve.err")
    assert within(lambda: out.read_bytes().endswith(b"\n")), (folder / "serve.err").read_text()
    told = json.loads(out.read_bytes().splitlines()[0])
    assert told["event"] == "listening"
    return server, int(told["address"].rpartition(":")[2])
