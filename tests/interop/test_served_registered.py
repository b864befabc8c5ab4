"""A broker that is registered at a real name server: clients that know this one alone consume from it."""

from collections import Counter
from pathlib import Path

import pytest

from flintmq.ha import name_server
from flintmq.message import Message
from tests.interop.java import VERSIONS
from tests.interop.running_broker import RunningBroker
from tests.interop.served import files, served
from tests.interop.stock_clients import KINDS, clients
from tests.interop.test_served_clients import KEYS, consumed, facts_of
from tests.support.engine import put_messages
from tests.support.threads import within

pytestmark = pytest.mark.slow

TOPIC, OURS, THEIRS, SENT = "Orders", 400, 100, 20


@pytest.mark.turn(3)
@pytest.mark.parametrize("version", VERSIONS)
def test_one_broker_of_a_cluster(version: str, tmp_path: Path):
    """The topic is also one of a real broker: who consumes gets those of both, and who sends gets to that one alone."""
    root = tmp_path / "store"
    put_messages(root, (Message(TOPIC, b"%d" % n, queue_id=n % 4) for n in range(OURS)), KEYS)
    wanted, before = facts_of(root), files(root)
    ops = [{"op": "send", "topic": TOPIC, "body": "theirs", "count": THEIRS}]
    with RunningBroker(version, tmp_path / "java", ops, topics={TOPIC: {"queues": 4}}) as java:
        assert {row["status"] for row in java.answers()} == {"SEND_OK"}
        with served(root, tmp_path, "--register", java.names, "--name", "copy", "--cluster", "C") as broker:
            known = name_server.routes([java.names])
            assert (known["copy"].cluster, known["copy"].master) == ("C", broker.address)
            for number, kind in enumerate(KINDS):
                (home := tmp_path / kind).mkdir()
                with clients(kind, home) as client:
                    found = consumed(client, java.names, f"G{number}", [TOPIC], OURS + THEIRS + number * SENT)
                    assert found & wanted == wanted and set(found.values()) == {1}, "each of ours once"
                    assert found.total() == OURS + THEIRS + number * SENT
                    if kind.startswith("java"):
                        told = client.ask("send", java.names, topic=TOPIC, bodies=["more"] * SENT)["sent"]
                        assert Counter(one["status"] for one in told) == {"SEND_OK": SENT}
        assert within(lambda: (left := name_server.routes([java.names]).get("copy")) is None or left.master is None)
    assert files(root) == before
