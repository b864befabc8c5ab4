"""Apache RocketMQ opens what salvage made, serves every message that was left, and goes on with it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.forensics.salvage.into import salvage_into
from flintmq.format.record import split
from labs.salvaging import config_of, records, try_java
from tests.compat.stores import Golden
from tests.forensics.salvage.test_into import broken
from tests.interop.java import Java

pytestmark = pytest.mark.slow
STORES = ("basic", "batch", "cqext", "crc", "delay", "flags", "lmq", "rolled", "v540", "v550")


@pytest.mark.turn(15, of=["src/flintmq/forensics/salvage/"])
@pytest.mark.parametrize("name", STORES)
def test_java_opens_the_new_store(golden: Any, tmp_path: Path, java: Java, name: str) -> None:
    store: Golden = golden(name)
    root, _ = broken(store, tmp_path, 9)
    into = tmp_path / "into"
    done = salvage_into(str(root), str(into), config_of(store), java.version)
    there = records(into, config_of(store))
    kept = {offset: split(raw) for offset, raw in there.items()}
    rows = java("dump", into, store.config, topics=sorted(store.topics), more={"topics": store.topics})
    assert rows[0]["max_physical_offset"] >= max(offset + record.size for offset, record in kept.items())
    served = {row["position"] for row in rows if row["kind"] == "message" and row["message"] is not None}
    assert served == {offset for offset, record in kept.items() if record.transaction not in (4, 12)}
    assert done.lost_ranges == 1
    put = {"op": "put", "topic": "Next", "queue": 0, "body": "after"}
    ops, more = [put, {"op": "dispatch"}, {"op": "flush"}], {"topics": {**store.topics, "Next": {"queues": 4}}}
    answers = java("run", into, store.config, ops, more=more)
    assert [row["status"] for row in answers if row["op"] == "put"] == ["PUT_OK"]


@pytest.mark.turn(15, of=["src/flintmq/forensics/salvage/"])
@pytest.mark.parametrize("name", STORES)
def test_java_serves_the_store_mended_in_place(golden: Any, tmp_path: Path, java: Java, name: str) -> None:
    store: Golden = golden(name)
    root, lost = broken(store, tmp_path, 10)
    before = records(store.path, config_of(store))
    with plan_in_place(str(root), config_of(store), java.version) as mending:
        mending.carry_out()
    kept = {offset: raw for offset, raw in before.items() if offset != lost["physical_offset"]}
    shutil.rmtree(root / "quarantine")
    assert try_java(root, store, kept, java) == ""
