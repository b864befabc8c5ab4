"""A table that streams made, of a topic that was deleted, and perhaps made again: `diff` knows what it can have.

RocketMQ deletes the queue files of a topic; its records stay in the log, with queue offsets that the new queue has too.
"""

import shutil
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.lake.history.diff_table import TableComparison, compare_table
from flintmq.testing import write_store
from tests.support.exporting import once
from tests.support.remade import LOG_FILE, number_anew

pytestmark = pytest.mark.usefixtures("no_grace")

READ = 10  # messages of T that are in the table before the topic is deleted


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    put(path, "T", READ)
    put(path, "Other", 3)
    once(str(path), tmp_path / "table", fail_on_data_loss=False)
    return path


def put(path: Path, topic: str, count: int) -> None:
    with MessageStore(path, mapped_file_size_commit_log=LOG_FILE) as opened:
        for number in range(count):
            assert opened.put(Message(topic, b"%d" % number, queue_id=0)).queue_offset is not None


def compared(store: Path) -> TableComparison:
    return compare_table(str(store), str(store.parent / "table"))


def counts(found: TableComparison) -> dict[str, int]:
    return {str(kind): count for kind, count in found.differences.counts.items()}


def carried_on(store: Path) -> None:
    once(str(store), store.parent / "table", fail_on_data_loss=False)


@pytest.mark.parametrize("again", [1, READ - 1, READ, 2 * READ])
def test_all_of_both_queues_is_in_the_table(store: Path, again: int) -> None:
    """Rows of the earlier queue were called only-in-b, or their messages waiting."""
    put(store, "T", again)
    number_anew(store, "T", READ)
    found = compared(store)
    assert (found.equal, found.waiting, found.unqueued) == (True, again, 0)
    carried_on(store)
    found = compared(store)
    assert (found.messages, found.rows) == (READ + 3 + again,) * 2
    assert (counts(found), found.equal, found.waiting, found.unqueued) == ({}, True, 0, 0)


def test_a_topic_that_is_gone(store: Path) -> None:
    shutil.rmtree(store / "consumequeue" / "T")
    put(store, "Other", 2)
    carried_on(store)
    found = compared(store)
    assert (found.messages, found.rows) == (READ + 5,) * 2
    assert (counts(found), found.equal, found.waiting, found.unqueued) == ({}, True, 0, 0)


def test_a_topic_that_was_made_again_and_has_no_message_yet(store: Path) -> None:
    """RocketMQ makes the first file of a queue when somebody asks for a message of it."""
    queue = store / "consumequeue" / "T"
    put(store, "Other", 2)
    shutil.rmtree(queue)
    carried_on(store)  # the stream forgets the queue
    (queue / "0").mkdir(parents=True)
    (queue / "0" / f"{0:020d}").write_bytes(bytes(6_000_000))
    found = compared(store)
    assert (found.messages, found.rows) == (READ + 5,) * 2
    assert (counts(found), found.equal, found.waiting, found.unqueued) == ({}, True, 0, 0)


def test_what_no_stream_came_to_is_in_no_queue(store: Path) -> None:
    """Five messages were put after the last export, before the topic was deleted."""
    put(store, "T", 5)
    put(store, "T", 7)
    number_anew(store, "T", READ + 5)
    carried_on(store)
    found = compared(store)
    assert (found.messages, found.rows) == (READ + 3 + 7,) * 2
    assert (counts(found), found.equal, found.waiting, found.unqueued) == ({}, True, 0, 5)


@pytest.mark.parametrize("of_earlier", [True, False])
def test_a_row_that_differs_is_named(store: Path, of_earlier: bool) -> None:
    """Also one of the earlier queue."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    put(store, "T", 5)
    number_anew(store, "T", READ)
    carried_on(store)
    files = sorted((store.parent / "table").rglob("*.parquet"))
    changed = 0
    for path in files:
        rows = pq.ParquetFile(path).read()
        first = min(rows["physical_offset"].to_pylist()) == 0
        if "T" not in rows["topic"].to_pylist() or first != of_earlier:
            continue
        flags = pc.if_else(pc.equal(rows["queue_offset"], 2), 77, rows["flag"]).cast(pa.int32())
        changed += pc.sum(pc.equal(flags, 77)).as_py()
        pq.write_table(rows.set_column(rows.schema.get_field_index("flag"), "flag", flags), path)
    assert changed > 0
    assert counts(compared(store)) == {"altered": changed}


def test_a_row_of_the_new_queue_that_is_missing_is_named(store: Path) -> None:
    import pyarrow.parquet as pq

    put(store, "T", 5)
    number_anew(store, "T", READ)
    carried_on(store)
    path = max((store.parent / "table").rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    rows = pq.ParquetFile(path).read()
    pq.write_table(rows.slice(1), path)
    assert counts(compared(store)) == {"only-in-a": 1}


def test_a_damaged_store_is_no_deleted_topic(tmp_path: Path) -> None:
    """The files of a queue are lost, and topics.json knows its topic: what was not exported waits."""
    path = tmp_path / "store"
    write_store(path, 300, seed=3, topics=2)
    once(str(path), tmp_path / "table")
    found = compare_table(str(path), str(tmp_path / "table"))
    assert found.equal and found.messages > 200
    directory = max((path / "consumequeue").iterdir())
    shutil.rmtree(directory)
    found = compare_table(str(path), str(tmp_path / "table"))
    assert (counts(found), found.equal, found.unqueued) == ({}, True, 0)
