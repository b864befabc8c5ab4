"""Apache RocketMQ opens what a replay made, reads every message by queue and key, and goes on with it."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from flintmq.config.keys import StoreConfig
from tests.interop.java import Java
from tests.interop.test_engine_java import dumped
from tests.spark.jobs.replay.replaying import KEYS, bulk, held, tasks_as_calls
from tests.support.engine import records

pytestmark = pytest.mark.slow


def test_java_reads_and_continues_a_bulk_load(
    golden: Any, tmp_path: Path, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks_as_calls(monkeypatch)
    root, topics = tmp_path / "new", ("Orders", "Shipments", "Payments", "库存")
    bulk(golden("basic").path, root, StoreConfig.from_keys(KEYS), peer=java.version)
    found = java("dump", root, KEYS, topics=topics, ask=["Orders:k108"])
    want = sorted((r["topic"], r["queue_id"], r["queue_offset"]) for r in golden("basic").rows)
    rows = dumped(found)
    assert sorted((topic, queue_id, offset) for _, topic, queue_id, offset, _ in rows) == want
    log = records(root, KEYS["mappedFileSizeCommitLog"])
    assert [row[0] for row in rows] == [r.physical_offset for r in log]
    [key] = [row for row in found if row["kind"] == "key"]
    with_key = [r for r in log if r.topic == b"Orders" and b"k108" in _keys(r.properties)]
    assert sorted(key["physical_offsets"]) == [r.physical_offset for r in with_key] and with_key
    ops = [{"op": "put", "topic": "Orders", "queue": 1, "body": {"random": 1, "size": 50}}, {"op": "dispatch"}]
    [put] = [row for row in java("run", root, KEYS, [*ops, {"op": "flush"}], topics) if row["op"] == "put"]
    assert (put["status"], put["queue_offset"]) == ("PUT_OK", 185)
    assert len(held(root)["Orders", 1]) == 186


def _keys(properties: bytes) -> list[bytes]:
    pairs = dict(part.split(b"\1", 1) for part in properties.split(b"\2") if b"\1" in part)
    return pairs.get(b"KEYS", b"").split(b" ")
