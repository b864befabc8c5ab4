"""RocketMQ goes on at the next offsets that a copy was given for queues whose messages have expired."""

import json
import shutil
from pathlib import Path

import pytest

from flintmq.forensics.verify.run import verify
from tests.ha.followed_broker import BATCH, FILE_SIZE, SIMPLE, SIZES, FollowedBroker, once
from tests.interop.running_broker import java_of

pytestmark = pytest.mark.slow

VERSIONS = ("5.3.3", "5.4.0", "5.5.0")
ENDS = {"One": 1, "Some": 7, "FullFile": 100, "NextFile": 101, "Far": 1234, "Bulk": 7}


@pytest.mark.turn(6)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stop", ["stopped", "killed"])
def test_rocketmq_goes_on_where_the_masters_queues_ended(version: str, stop: str, tmp_path: Path):
    """Also at the start after that, clean or not: it then looks how far its queues were dispatched."""
    java = java_of(version)
    topics = {name: {"queues": 1, "attributes": {"queue.type": BATCH if name == "Bulk" else SIMPLE}} for name in ENDS}
    more = {"topics": {**topics, "Busy": {"queues": 1}}}
    with FollowedBroker(begin=FILE_SIZE) as broker:
        broker.topics = {name: BATCH if name == "Bulk" else SIMPLE for name in (*ENDS, "Busy")}
        broker.put("Busy", 7, 8)
        broker.ends |= {(name, 0): end for name, end in ENDS.items()}
        assert once(broker.follower(tmp_path / "s", once=True)) is None
    shutil.rmtree(tmp_path / "s" / "index")  # made with other sizes than the oracle's
    rows = java("dump", tmp_path / "s", SIZES, more=more)
    found = {row["topic"]: (row["min"], row["max"]) for row in rows if row["kind"] == "queue"}
    assert found == {name: (end, end) for name, end in ENDS.items()} | {"Busy": (7, 9)}
    puts = [{"op": "put", "topic": name, "queue": 0, "body": "more"} for name in (*ENDS, "Busy")]
    told = java("run", tmp_path / "s", SIZES, [*puts, *([{"op": "halt"}] if stop == "killed" else [])], more=more)
    assert [row["queue_offset"] for row in told if row["op"] == "put"] == [*ENDS.values(), 9], json.dumps(told)
    told = java("run", tmp_path / "s", SIZES, puts, more=more)
    assert [row["queue_offset"] for row in told if row["op"] == "put"] == [end + 1 for end in (*ENDS.values(), 9)]
    rows = java("dump", tmp_path / "s", SIZES, more=more)
    ends = {row["topic"]: row["max"] for row in rows if row["kind"] == "queue"}
    assert ends == {name: end + 2 for name, end in ENDS.items()} | {"Busy": 11}
    assert verify(tmp_path / "s").defects == []
