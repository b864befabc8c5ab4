"""A store whose first files FlintMQ has deleted, opened by the real Java store, and the other way round."""

from pathlib import Path

import pytest

from flintmq.message import Message
from tests.interop.java import VERSIONS
from tests.interop.running_broker import java_of
from tests.store.services.test_retention import Disk, filled
from tests.support.engine import FILE_SIZE, KEYS, open_small

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", VERSIONS)
def test_both_begin_where_the_log_begins(tmp_path: Path, version: str):
    java, disk, root = java_of(version), Disk(), tmp_path / "store"
    with filled(root, disk, files=8, deleteFileBatchMax=4) as store:
        disk.used = 86
        store._parts.retention.clean_once()
        assert store._parts.files.min_offset == 4 * FILE_SIZE
        ours = store.get("T", 0, 0)
    rows = java("dump", root, KEYS, topics=["T"])
    queue = next(row for row in rows if row["kind"] == "queue" and row["topic"] == "T")
    assert (queue["min"], queue["max"]) == (ours.min_offset, ours.max_offset)
    read = [row for row in rows if row["kind"] == "message" and row["topic"] == "T"]
    assert [row["cq_offset"] for row in read] == list(range(ours.min_offset, ours.max_offset))
    assert all(row["message"] is not None for row in read)
    ops = [{"op": "put", "topic": "T", "queue": 0, "body": {"random": n, "size": 700}} for n in range(8)]
    answers = java("run", root, KEYS, [*ops, {"op": "dispatch"}, {"op": "expire", "files": 2}], ["T"])
    assert [row["queue_offset"] for row in answers[:8]] == list(range(ours.max_offset, ours.max_offset + 8))
    disk.used = 50
    with open_small(root, disk) as store:
        assert store._parts.files.min_offset == 6 * FILE_SIZE, "what Java deleted"
        assert store.put(Message("T", b"x")).queue_offset == ours.max_offset + 8
        assert store.wait_dispatched(60)
        low = store.get("T", 0, 0).min_offset
        found = []
        while more := store.get("T", 0, low + len(found)).messages:
            found += more
        assert [m.queue_offset for m in found] == list(range(low, ours.max_offset + 9))
        assert found[0].physical_offset == 6 * FILE_SIZE
