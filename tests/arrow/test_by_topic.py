"""Frequent topics come in batches of their own, and nothing else changes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flintmq.arrow import by_topic as module
from flintmq.arrow.batches import record_batches
from flintmq.arrow.by_topic import topics_apart
from flintmq.arrow.options import BatchOptions
from flintmq.arrow.schema import SCHEMA
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.walk import LogWalk
from flintmq.testing import write_store
from tests.compat.stores import Golden


def walk(path: Path, piece_bytes: int = 1 << 16) -> LogWalk:
    return LogWalk(LogFiles.discover([str(path / "commitlog")]), piece_bytes=piece_bytes)


def by_topic(batches: list[pa.RecordBatch]) -> dict[str, pa.Table]:
    table = pa.Table.from_batches(batches, SCHEMA)
    return {topic: table.filter(pc.equal(table["topic"], topic)) for topic in pc.unique(table["topic"]).to_pylist()}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two frequent topics, thirty rare ones, every kind of odd record."""
    path = tmp_path_factory.mktemp("mixed") / "store"
    topics = {"Often": 50.0, "oft": 30.0} | {f"rare-{n}": 0.7 for n in range(30)}
    write_store(path, 6000, topics=topics, kinds="all", queues_and_index=False)
    return path


def test_each_topic_has_its_rows_in_log_order(mixed: Path) -> None:
    expected = by_topic(list(record_batches(walk(mixed), SCHEMA)))
    found = list(topics_apart(walk(mixed, 1 << 18), SCHEMA, options=BatchOptions(batch_bytes=1 << 18)))
    assert by_topic(found) == expected
    rows: dict[str, int] = {}
    for batch in found:
        topics = pc.unique(batch.column("topic")).to_pylist()
        assert len(topics) == 1 or not {"Often", "oft"} & set(topics)
        rows["alone" if len(topics) == 1 else "shared"] = batch.num_rows
    assert rows.keys() == {"alone", "shared"}


def test_a_topic_that_becomes_frequent_later_keeps_its_order(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_RECORDS", 1)
    monkeypatch.setattr(module, "SHARE", 40)  # rare ones have such a part now and then
    expected = by_topic(list(record_batches(walk(mixed), SCHEMA)))
    options = BatchOptions(batch_bytes=1 << 16)
    assert by_topic(list(topics_apart(walk(mixed, 1 << 14), SCHEMA, options=options))) == expected


def test_a_predicate_and_golden_stores(golden_store: Golden) -> None:
    log = LogFiles.discover([str(golden_store.path / "commitlog")])
    for predicate in (None, Predicate(queue_ids=frozenset([1]))):
        expected = by_topic(list(record_batches(LogWalk(log, strict=False), SCHEMA, predicate)))
        assert by_topic(list(topics_apart(LogWalk(log, strict=False), SCHEMA, predicate))) == expected
