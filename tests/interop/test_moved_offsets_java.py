"""Java's consumers go on where `flintmq offsets` put their group, at a broker of FlintMQ and at Java's own."""

import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from flintmq.cli import app
from flintmq.config.keys import StoreConfig
from flintmq.message import Message
from tests.interop.java import VERSIONS
from tests.interop.running_broker import KEYS, RunningBroker
from tests.interop.served import served
from tests.interop.stock_clients import Client, clients
from tests.support.engine import put_messages

pytestmark = pytest.mark.slow

TOPIC, QUEUES, EACH = "Orders", 4, 60
GROUP = "Billing"
SIZES = {name: value for name, value in KEYS.items() if name.startswith(("mapped", "max"))}
Places = dict[int, int]
"""Queue -> offset of the first message that comes."""


def offsets(*words: object) -> None:
    """`flintmq offsets WORDS...`, which must succeed."""
    assert app.run(["offsets", *map(str, words)]) == 0


def from_places(places: Places) -> Counter[tuple[int, int]]:
    return Counter((queue, offset) for queue, first in places.items() for offset in range(first, EACH))


def consumed(client: Client, names: str, group: str, count: int) -> Counter[tuple[int, int]]:
    """(queue, offset) of what a consumer of a group gets that waits for so many messages."""
    client.consume(group, names, [TOPIC])
    client.await_messages(group, count, settle_s=1.0 if count else 5.0)
    return Counter((row["queue"], row["offset"]) for row in client.stop(group))


def written(root: Path) -> int:
    """A store of messages in two halves; a moment between them."""
    moments: list[int] = []

    def messages() -> list[Message]:
        return [Message(TOPIC, b"%d" % n, queue_id=n % QUEUES) for n in range(QUEUES * EACH // 2)]

    put_messages(root, messages(), SIZES)
    time.sleep(0.05)
    moments.append(time.time_ns() // 1_000_000)
    time.sleep(0.05)
    put_messages(root, messages(), SIZES)
    return moments[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_consumers_go_on_where_they_were_put(version: str, tmp_path: Path) -> None:
    """0 messages twice or missed, after a reset, a set, a clone, an import into a moved store, and a replay."""
    root, moved, file = tmp_path / "java" / "store", tmp_path / "moved", tmp_path / "offsets.json"
    root.parent.mkdir()
    moment = written(root)
    everything, half = dict.fromkeys(range(QUEUES), 0), dict.fromkeys(range(QUEUES), EACH // 2)
    one, of_group = {2: 7}, ("--group", GROUP)
    with clients(f"java-{version}", tmp_path) as client:

        def gets(places: Places, group: str = GROUP, store: Path = root) -> None:
            with served(store, tmp_path, writes=True) as broker:
                assert consumed(client, broker.address, group, sum(EACH - at for at in places.values())) == from_places(
                    places
                )

        gets(everything)
        offsets("reset", root, *of_group, "--to", moment)
        gets(half)
        offsets("set", root, 7, *of_group, "--topic", TOPIC, "--queue", 2)
        gets(one)
        offsets("reset", root, *of_group, "--to", moment)
        offsets("clone", root, "--from", GROUP, "--into", "Audit", "--create")
        gets(half, "Audit")
        gets(half)

        offsets("set", root, 7, *of_group, "--topic", TOPIC, "--queue", 2)
        offsets("export", root, "--out", file)
        shutil.copytree(root, moved, ignore=shutil.ignore_patterns("consumerOffset*", "subscription*"))
        offsets("import", moved, file, "--create")
        gets(one, store=moved)
        gets({}, "Audit", moved)

        pytest.importorskip("pyspark", reason="needs the extra spark")
        from flintmq.spark.jobs.replay.job import replay

        done = replay(
            None, str(root), str(tmp_path / "replayed"), StoreConfig.from_keys(SIZES), live=True, with_offsets=True
        )
        assert done.rows == QUEUES * EACH and not done.offsets_left
        gets(one, store=tmp_path / "replayed")

        # A broker of Java's own on the store, which `gets` of ours left with the group at 7 of queue 2.
        offsets("reset", root, "--group", "Audit", "--to", "first", "--topic", TOPIC)
        with RunningBroker(version, root.parent, [{"op": "send", "topic": "Ready", "count": 1}]) as java:
            java.answers()
            assert consumed(client, java.names, GROUP, EACH - 7) == from_places(one)
            assert consumed(client, java.names, "Audit", QUEUES * EACH) == from_places(everything)
