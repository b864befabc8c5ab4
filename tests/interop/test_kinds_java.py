"""Batches, light queues and queue extensions to and fro: FlintMQ and the real Java store by turns in one directory."""

import random
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.run import verify
from flintmq.store.message_store import MessageStore
from labs.interop.operations import KEYS, KINDS, last, put
from tests.interop.java import VERSIONS
from tests.interop.running_broker import java_of

pytestmark = pytest.mark.slow


@pytest.mark.turn(9)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["batch", "light", "ext"])
def test_they_take_turns(tmp_path: Path, version: str, kind: str):
    """Each goes on with the other's queue offsets; nothing is out of place in the end, and Java reads every message."""
    java, what, root = java_of(version), KINDS[kind], tmp_path / "store"
    keys, more = KEYS | what.keys, {"topics": what.java_topics()}
    stored = 0
    for turn in range(4):
        chance = random.Random(f"{kind} {turn}")
        ops = [*(what.operation(chance, 1000 * turn + n) for n in range(150)), last(chance, 1000 * turn)]
        if turn % 2:
            rows = java("run", root, keys, [*ops, {"op": "dispatch"}], more=more)
            stored += sum(row["status"] == "PUT_OK" for row in rows if row["op"] != "dispatch")
            continue
        with MessageStore(root, config=keys, peer=version, unique_keys=False) as store:
            store._parts.housekeeping.stop()  # nothing is to be delivered
            for topic in what.batch_topics:
                store.create_topic(topic, 4, "BatchCQ")
            for op in ops:
                results = put(store, op)
                stored += results[0].status.name == "PUT_OK"
            assert store.wait_dispatched(30)
    found = verify(str(root), StoreConfig.from_keys(keys))
    assert found.defects == [], found.defects[:3]
    rows = java("dump", root, keys, more=more)
    read = [row for row in rows if row["kind"] == "message"]
    assert stored > 400 and len(read) > stored // 2 and all(row["message"] is not None for row in read)
