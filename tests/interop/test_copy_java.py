"""Copies of a store that Apache RocketMQ writes meanwhile; it opens them, serves every message, and goes on."""

import time
from pathlib import Path

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.forensics.copy import Copied, copy_some, copy_whole
from flintmq.forensics.verify.run import verify
from flintmq.store.commitlog.predicate import Predicate
from labs.torture_spark.actors import Oracle
from labs.torture_spark.writer import KEYS, TOPICS
from tests.forensics.test_copy import log_of
from tests.interop.java import Java
from tests.support.threads import within

pytestmark = pytest.mark.slow
TURNS = 60  # of 15 messages, with breaks


def test_copies_of_a_store_that_rocketmq_writes(java: Java, tmp_path: Path) -> None:
    root, config = tmp_path / "store", StoreConfig.from_keys(KEYS)
    writer, copies = Oracle(tmp_path, java), []
    writer.start("1", turns=TURNS)
    try:
        assert writer.process is not None
        assert within(lambda: writer.process.poll() is not None or len(list(writer.acknowledged())) >= 30)
        while writer.process.poll() is not None or len(copies) < 4:
            known = len(list(writer.acknowledged()))
            done: Copied = copy_whole(str(root), str(tmp_path / f"c{len(copies)}"), config, java.version)
            copies.append((done, known, writer.process.poll() is None))
            time.sleep(0.3)
        some = copy_some(
            str(root), str(tmp_path / "some"), Predicate(topics=frozenset(["Orders"])), config, java.version
        )
        assert writer.process.wait(60) == 0, (tmp_path / "java.err").read_text()[-1000:]
    finally:
        writer.kill()
    assert len(copies) >= 2 and copies[0][2], "it was written meanwhile"
    told = list(writer.acknowledged())
    for number, (done, known, _) in enumerate(copies):
        into = tmp_path / f"c{number}"
        assert verify(into, config).defects == [] and log_of(into, done.end) == log_of(root, done.end)
        with flintmq.open_store(into, config=config) as view:
            held = [message.physical_offset for message in view.messages()]
        assert held == told[: len(held)] and len(held) >= known
        assert served(java, into) == held
    with flintmq.open_store(tmp_path / "some", config=config) as view:
        assert served(java, tmp_path / "some") == [message.physical_offset for message in view.messages()]
    assert verify(tmp_path / "some", config).defects == [] and some.records > 0
    for name in ("c0", "some"):
        ops = [{"op": "put", "topic": "Orders", "queue": 0, "body": "after"}, {"op": "dispatch"}, {"op": "flush"}]
        [put] = [row for row in java("run", tmp_path / name, KEYS, ops, TOPICS) if row["op"] == "put"]
        assert put["status"] == "PUT_OK" and verify(tmp_path / name, config).defects == []


def served(java: Java, root: Path) -> list[int]:
    """Log offsets of the messages that RocketMQ reads through its queues."""
    rows = java("dump", root, KEYS, topics=TOPICS)
    return sorted(row["position"] for row in rows if row["kind"] == "message" and row["message"] is not None)
