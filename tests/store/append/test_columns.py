"""Columns put at once: the same bytes as the same messages put one by one; refusals; full disks; roll-over."""

import errno
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import UsageError
from flintmq.kernels.write import append_columns as kernel
from flintmq.message import ColumnsResult, Message, Outcome, PutMessageStatus
from flintmq.store.append.columns import put_columns
from flintmq.store.message_store import MessageStore
from tests.store.append.test_commit_log import NOW
from tests.store.append.test_commit_log import Log as LogAlone
from tests.support.engine import FILE_SIZE, KEYS, check_derived, open_small, records
from tests.support.faults import Faulty, unclean
from tests.support.threads import at_once

MAP = pa.map_(pa.string(), pa.string())
only_compiled = pytest.mark.skipif(not kernel.COMPILED, reason="uncompiled it is found while they are written")


class Log(LogAlone):
    def put(self, batch: pa.RecordBatch, topic: str = "T") -> ColumnsResult:
        return put_columns(self.log, topic, batch)

    def data(self) -> bytes:
        self.files.close()
        return b"".join(path.read_bytes() for path in sorted((self.root / "commitlog").iterdir()))


def bodies(*values: bytes, **others: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array(values, pa.binary())} | others)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\x01\x02"), max_size=8)
NAME = TEXT.filter(lambda name: not name.startswith(("KEYS", "TAGS", "WAIT", "DELA", "TIME", "INNE")))
ROW = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=200),
        "tags": st.none() | TEXT,
        "keys": st.none() | TEXT,
        "queue_id": st.sampled_from([0, 1, 7, 65_535]),
        "born_timestamp": st.integers(-(1 << 62), 1 << 62),
        "properties": st.none() | st.dictionaries(NAME, TEXT, max_size=3),
    }
)
TYPES = {
    "tags": pa.string(),
    "keys": pa.string(),
    "queue_id": pa.int32(),
    "born_timestamp": pa.int64(),
    "properties": MAP,
}


@pytest.mark.parametrize("crc_property", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=40),
    columns=st.sets(st.sampled_from(sorted(TYPES))),
    wide=st.booleans(),
    cut=st.integers(0, 5),
)
def test_columns_are_stored_as_the_same_messages_one_by_one(tmp_path_factory, crc_property, rows, columns, wide, cut):
    root = tmp_path_factory.mktemp("log")
    keys = {"enabledAppendPropCRC": str(crc_property).lower()}
    at_once, one_by_one = Log(root / "a", **keys), Log(root / "b", **keys)
    arrays = {"body": pa.array([row["body"] for row in rows], pa.large_binary() if wide else pa.binary())}
    for name in columns:
        values = [row[name] for row in rows]
        if name == "properties":
            values = [None if value is None else list(value.items()) for value in values]
        arrays[name] = pa.array(values, pa.large_string() if wide and TYPES[name] == pa.string() else TYPES[name])
    batch, rows = pa.record_batch(arrays).slice(cut), rows[cut:]
    result = at_once.put(batch)
    told = [one_by_one.log.append(Message("T", row["body"], **{name: row[name] for name in columns})) for row in rows]
    assert result.status is PutMessageStatus.PUT_OK and result.count == len(rows)
    assert at_once.log.next_offsets == one_by_one.log.next_offsets
    assert (at_once.log.end, at_once.log.last_time) == (one_by_one.log.end, one_by_one.log.last_time)
    if rows:
        first: dict[int, int] = {}
        for row, one in zip(rows, told, strict=True):
            first.setdefault(row["queue_id"] if "queue_id" in columns else 0, one.queue_offset)
        end = told[-1].physical_offset + told[-1].size
        assert result == ColumnsResult(
            PutMessageStatus.PUT_OK, len(rows), told[0].physical_offset, end, first, NOW, told[0].store_host
        )
        assert at_once.data() == one_by_one.data()


def test_a_second_batch_goes_on_where_the_first_ended(tmp_path: Path):
    log = Log(tmp_path)
    ids = pa.array([0, 1, 0], pa.int32())
    assert log.put(bodies(b"a", b"b", b"c", queue_id=ids)).queue_offsets == {0: 0, 1: 0}
    assert log.log.append(Message("T", b"d")).queue_offset == 2
    again = log.put(bodies(b"e", b"f", b"g", queue_id=ids))
    assert again.queue_offsets == {0: 3, 1: 1} and again.outcome is Outcome.OK
    log.files.close()
    assert [(r.body, r.queue_id, r.queue_offset) for r in records(tmp_path)] == [
        (b"a", 0, 0), (b"b", 1, 0), (b"c", 0, 1), (b"d", 0, 2), (b"e", 0, 3), (b"f", 1, 1), (b"g", 0, 4),
    ]  # fmt: skip


@only_compiled
@pytest.mark.parametrize(
    ("batch", "status"),
    [
        (bodies(b"x", bytes(1001)), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", b"y", queue_id=pa.array([0, -1], pa.int32())), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", b"y", queue_id=pa.array([65_536, 0], pa.int32())), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", b"y", tags=pa.array(["a", "b\x01"])), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", b"y", keys=pa.array([None, "b\0"])), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", properties=pa.array([[("a", "\x02")]], MAP)), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", properties=pa.array([[("DELAY", "3")]], MAP)), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", properties=pa.array([[("KEYS", "k")]], MAP)), PutMessageStatus.MESSAGE_ILLEGAL),
        (bodies(b"x", keys=pa.array(["k" * 32_768])), PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (bodies(b"x", keys=pa.array(["k" * 20_000]), tags=pa.array(["t" * 20_000])),
         PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (bodies(b"x", keys=pa.array(["k" * 4_000])), PutMessageStatus.MESSAGE_ILLEGAL),  # no file can hold it
    ],
)  # fmt: skip
def test_a_row_that_makes_no_message_refuses_the_batch(tmp_path: Path, batch: pa.RecordBatch, status: PutMessageStatus):
    log = Log(tmp_path, maxMessageSize="1000")
    assert log.put(batch) == ColumnsResult(status)
    assert log.log.end == 0 and log.files.files == () and log.log.next_offsets == {}


def test_an_illegal_topic_and_a_closed_log_are_statuses(tmp_path: Path):
    log = Log(tmp_path)
    assert log.put(bodies(b"x"), "a/b") == ColumnsResult(PutMessageStatus.MESSAGE_ILLEGAL)
    log.log.close()
    refused = log.put(bodies(b"x"))
    assert refused == ColumnsResult(PutMessageStatus.SERVICE_NOT_AVAILABLE) and refused.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"tags": pa.array(["a"])}, "body"),
        ({"body": pa.array([b"x"], pa.binary()), "extra": pa.array([1])}, "extra"),
        ({"body": pa.array([1])}, "int64"),
        ({"body": pa.array([None], pa.binary())}, "nulls"),
        ({"body": pa.array([b"x"], pa.binary()), "queue_id": pa.array([1], pa.int64())}, "int32"),
        ({"body": pa.array([b"x"], pa.binary()), "properties": pa.array([[("a", None)]], MAP)}, "null"),
    ],
)
def test_columns_that_cannot_be_taken_say_why(tmp_path: Path, columns: dict[str, pa.Array], said: str):
    with pytest.raises(UsageError, match=said):
        Log(tmp_path).put(pa.record_batch(columns))


@only_compiled
def test_a_full_disk_keeps_the_rows_before_it(tmp_path: Path):
    log = Log(tmp_path)
    log.effects.refuse("create", f"{FILE_SIZE:020d}", error=errno.ENOSPC, times=1)
    batch = bodies(*[bytes([n]) * 500 for n in range(20)])
    result = log.put(batch)
    assert result.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED and 0 < result.count < 20
    assert result.outcome is Outcome.UNKNOWN and result.end == FILE_SIZE == log.log.end
    rest = log.put(batch.slice(result.count))
    assert rest.status is PutMessageStatus.PUT_OK and rest.queue_offsets == {0: result.count}
    log.files.close()
    assert [(r.body[0], r.queue_offset) for r in records(tmp_path)] == [(n, n) for n in range(20)]


def test_times_come_from_the_clock_or_the_column(tmp_path: Path):
    log = Log(tmp_path, maxMessageSize="1000")
    log.put(bodies(b"a"))
    log.put(bodies(b"b", born_timestamp=pa.array([5], pa.timestamp("ms", tz="UTC"))))
    log.files.close()
    assert [(r.born_timestamp, r.store_timestamp) for r in records(tmp_path)] == [(NOW, NOW), (5, NOW)]


def test_puts_of_others_come_between_and_take_nothing_apart(tmp_path: Path):
    store = open_small(tmp_path / "s")
    batch = bodies(*[b"%04d" % n for n in range(300)], keys=pa.array([f"k{n}" for n in range(300)]))
    results: list[Any] = []

    def work(columns: bool) -> None:
        for _ in range(5):
            results.append(
                store.put_columns("T", batch) if columns else [store.put(Message("T", b"x")) for _ in range(200)]
            )

    at_once(*(partial(work, n % 2 == 0) for n in range(4)))
    store.close()
    check_derived(tmp_path / "s")
    found = records(tmp_path / "s")
    assert len(found) == 10 * 300 + 10 * 200 and [r.queue_offset for r in found] == list(range(5000))
    for result in results:
        if isinstance(result, ColumnsResult):
            first = result.queue_offsets[0]
            assert [found[first + n].body for n in range(300)] == [b"%04d" % n for n in range(300)]


@pytest.mark.parametrize("disk", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_the_store_answers_when_the_disk_has_them(tmp_path: Path, disk: str):
    effects = Faulty()
    with unclean(), open_small(tmp_path / "s", effects, flushDiskType=disk) as store:
        result = store.put_columns("T", bodies(*[b"x"] * 10))
        assert result.outcome is Outcome.OK
        assert (store._parts.files.flushed_where == result.end) or disk == "ASYNC_FLUSH"
        assert store.wait_dispatched(60)
        assert [m.body for m in store.get("T", 0, 0).messages] == [b"x"] * 10
        effects.refuse("sync", "commitlog")
        late = store.put_columns("T", bodies(b"y"))
        wanted = PutMessageStatus.FLUSH_DISK_TIMEOUT if disk == "SYNC_FLUSH" else PutMessageStatus.PUT_OK
        assert late.status is wanted and late.count == 1
        if disk == "SYNC_FLUSH":
            assert store.put_columns("T", bodies(b"z")) == ColumnsResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    with pytest.raises(UsageError):
        store.put_columns("T", bodies(b"x"))


@pytest.mark.parametrize(
    "names", [(), ("queue_id",), ("tags",), ("queue_id", "tags"), ("keys", "born_timestamp")], ids=str
)
def test_nothing_of_the_callers_is_looked_at_after_the_answer(tmp_path: Path, names: tuple[str, ...]):
    """Every buffer is used again for the next batch before anything is dispatched."""
    rows, rounds = 40, 6
    memory = {name: bytearray(8 * (rows + 1)) for name in ("body", "tags", "keys", "queue_id", "born_timestamp")}
    text_offsets = memoryview(bytearray(4 * (rows + 1))).cast("i")

    def column(name: str, number: int) -> pa.Array:
        if name == "queue_id":
            memoryview(memory[name]).cast("i")[:rows] = array("i", [(row + number) % 3 for row in range(rows)])
            return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(memory[name])])
        if name == "born_timestamp":
            memoryview(memory[name]).cast("q")[:rows] = array("q", range(number, number + rows))
            return pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(memory[name])])
        kind = pa.binary() if name == "body" else pa.string()
        memory[name][: 4 * rows] = b"%s%03d" % (name[:1].encode(), number) * rows
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(text_offsets), pa.py_buffer(memory[name])])

    with MessageStore(tmp_path / "s", KEYS, services=False) as store:
        for number in range(rounds):
            begin = number % 2  # sizes change, too
            text_offsets[:] = array("i", [begin + (4 - begin) * row for row in range(rows + 1)])
            batch = pa.record_batch({name: column(name, number) for name in ("body", *names)})
            assert store.put_columns("T", batch).status is PutMessageStatus.PUT_OK
        for one in memory.values():
            one[:] = b"\xff" * len(one)
        text_offsets[:] = array("i", [-1] * (rows + 1))
        assert store.wait_dispatched(30)
    check_derived(tmp_path / "s")
    assert len(records(tmp_path / "s")) == rows * rounds
