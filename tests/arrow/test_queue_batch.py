"""A queue as Arrow: the rows that `get` gives, with its statuses, in the one schema."""

import threading
from pathlib import Path
from typing import Any

import pytest

from flintmq import scan_arrow
from flintmq.arrow.schema import SCHEMA
from flintmq.errors import UsageError
from flintmq.message import COLUMNS, GetMessageStatus, Message
from flintmq.store.message_store import MessageStore
from tests.support.arrow_rows import row_of, rows_of
from tests.support.engine import FILE_SIZE, message, open_small, put_all

S = GetMessageStatus


@pytest.fixture
def store(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue="4000") as opened:
        yield opened


def filled(store: MessageStore, count: int, **rest: Any) -> MessageStore:
    put_all(store, count, **rest)
    assert store.wait_dispatched(60)
    return store


@pytest.mark.parametrize("offset", [-1, 0, 3, 99, 100, 101, 1 << 60])
def test_it_says_what_get_says(store: MessageStore, offset: int):
    filled(store, 100)
    got, found = store.get("T", 0, offset, 1 << 20), store.get_batch("T", 0, offset)
    assert (found.status, found.min_offset, found.max_offset) == (got.status, got.min_offset, got.max_offset)
    assert found.batch.schema == SCHEMA
    if got.status is S.FOUND:
        assert found.next_begin_offset == 100 and found.batch.num_rows == 100 - offset
        assert rows_of(found.batch)[: len(got.messages)] == [row_of(m) for m in got.messages]
    else:
        assert found.batch.num_rows == 0 and found.next_begin_offset == got.next_begin_offset


def test_all_rows_come_once_over_log_and_queue_files(tmp_path: Path):
    with open_small(tmp_path) as store:  # ten units a file of the queue, some thirty records a file of the log
        filled(store, 95)
        offset, seen = 0, []
        while (found := store.get_batch("T", 0, offset, 7)).status is S.FOUND:
            assert 0 < found.batch.num_rows <= 7
            seen += [(row["queue_offset"], row["body"][:6]) for row in found.batch.to_pylist()]
            offset = found.next_begin_offset
        assert found.status is S.OFFSET_OVERFLOW_ONE
        assert seen == [(n, b"%06d" % n) for n in range(95)]


def test_columns_in_the_order_wanted(store: MessageStore):
    filled(store, 3)
    found = store.get_batch("T", 0, 0, columns=["tags", "queue_offset"])
    assert found.batch.schema.names == ["tags", "queue_offset"]
    assert found.batch.to_pylist() == [{"tags": f"t{n}", "queue_offset": n} for n in range(3)]
    with pytest.raises(UsageError, match="did you mean"):
        store.get_batch("T", 0, 0, columns=["tag"])


@pytest.mark.parametrize("limit", [{"max_messages": 0}, {"max_bytes": 0}, {"max_bytes": (1 << 30) + 1}])
def test_impossible_limits(store: MessageStore, limit: dict[str, int]):
    with pytest.raises(UsageError, match="1 GiB"):
        store.get_batch("T", 0, 0, **limit)


def test_bytes_are_limited_but_for_the_first_message(store: MessageStore):
    filled(store, 20, size=500)
    size = store.get("T", 0, 0).messages[0].size
    assert store.get_batch("T", 0, 0, max_bytes=1).next_begin_offset == 1
    assert 3 <= store.get_batch("T", 0, 0, max_bytes=5 * size + 1).next_begin_offset <= 5
    assert store.get_batch("T", 0, 0, max_bytes=20 * (size + 1)).next_begin_offset == 20


def test_odd_rows(store: MessageStore):
    """What the kernels leave to the slow way."""
    for number in range(3):
        odd = b"\xff\xfe\1v\2a\1b\2a\1c\2"
        store.put(Message("T", b"x", properties_bytes=odd, born_host="[2001:db8::7]:7", flag=number))
    assert store.wait_dispatched(60)
    got = store.get("T", 0, 0)
    assert rows_of(store.get_batch("T", 0, 0).batch) == [row_of(m) for m in got.messages]


def test_light_and_batch_queues(tmp_path: Path):
    with open_small(tmp_path, enableLmq="true", enableMultiDispatch="true") as store:
        store.create_topic("B", 1, "BatchCQ")
        for n in range(12):
            store.put(message(n, queue_id=n % 3))
            store.put(Message("T", b"light", queue_id=n % 2, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
            store.put_batch([Message("B", b"%d" % n)] * 3)
        assert store.wait_dispatched(60)
        for topic, end in (("%LMQ%a", 10), ("B", 36)):  # ten units a file of the one queue, all in one of the other
            found = store.get_batch(topic, 0, 0)
            got = store.get(topic, 0, 0, 1 << 20)
            assert (found.status, found.next_begin_offset) == (S.FOUND, end)
            assert rows_of(found.batch)[: len(got.messages)] == [row_of(m) for m in got.messages]
            assert len(got.messages) >= 10


def test_messages_that_are_gone(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue="4000") as store:
        filled(store, 60)
        first = store._parts.files.drop_first()
        assert first.size == FILE_SIZE
        gone = store.get_batch("T", 0, 0, 5)
        assert (gone.status, gone.next_begin_offset, gone.batch.num_rows) == (S.MESSAGE_WAS_REMOVING, 5, 0)
        rest = store.get_batch("T", 0, 0)
        assert rest.status is S.FOUND and rest.batch["physical_offset"][0].as_py() == FILE_SIZE
        assert rest.next_begin_offset == 60


def test_it_waits_for_the_first_message(store: MessageStore):
    threading.Timer(0.1, lambda: store.put(Message("T", b"late"))).start()
    found = store.get_batch("T", 0, 0, wait_ms=10_000, columns=["body"])
    assert found.batch.to_pylist() == [{"body": b"late"}]


def test_the_log_may_go_once_the_batch_is_there(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue="4000") as store:
        filled(store, 40)
        before = [file._holders for file in store._parts.files.files]
        batch = store.get_batch("T", 0, 0).batch
        assert [file._holders for file in store._parts.files.files] == before
        assert store.stats().messages_got == 40 and batch.num_rows == 40 and len(COLUMNS) == batch.num_columns
    assert batch["body"][39].as_py()[:6] == b"000039"


@pytest.mark.parametrize("access", ["get_batch", "pread", "map"])
def test_what_readers_give_is_their_callers_own(tmp_path: Path, access: str):
    """It stays what it was when the store is closed and its log holds other bytes."""
    bodies = [b"%d " % n * (n + 1) for n in range(40)]
    with MessageStore(tmp_path, dev=True) as store:
        for body in bodies:
            store.put(Message("T", body, keys="k"))
        assert store.wait_dispatched(60)
        given = store.get_batch("T", 0, 0, 100).batch if access == "get_batch" else None
    if given is None:
        given = scan_arrow(tmp_path, ["body", "keys"], access=access).read_all()
    for path in (tmp_path / "commitlog").iterdir():
        with path.open("rb+") as file:
            file.write(b"\xff" * 65536)
    assert given.column("body").to_pylist() == bodies and set(given.column("keys").to_pylist()) == {"k"}
