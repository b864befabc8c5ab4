"""Rows as records: the bytes are those of the reference encoder."""

from collections import Counter
from typing import Any

import numpy
import pyarrow as pa
import pytest

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.errors import UsageError
from flintmq.format import record
from flintmq.format.message_id import parse_host
from flintmq.spark.jobs.replay.refusals import checked
from flintmq.spark.jobs.replay.rows import Records, RowRules, SourceRow, messages, rows_after
from flintmq.store.commitlog.bulk_writer import LogRoom

RULES = RowRules(1 << 20, 1 << 19)


def batch_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    """Rows of the schema, with what is left out as a message has it."""
    usual: dict[str, Any] = {
        "topic": "T", "queue_id": 0, "queue_offset": 0, "body": b"", "properties": [], "born_timestamp": 1_000_000,
        "born_host": "1.2.3.4:5", "store_timestamp": 2_000_000, "store_host": "9.8.7.6:10911", "physical_offset": 0,
        "size": 0, "flag": 0, "sys_flag": 0, "reconsume_times": 0, "prepared_transaction_offset": 0, "body_crc": 0,
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([{**usual, **row} for row in rows], schema=SPARK_SCHEMA)


ROWS = [
    {"body": b"x" * 300, "properties": [("KEYS", "a b"), ("TAGS", "报警"), ("odd", "1\x012")], "flag": -7},
    {"topic": "t" * 128, "queue_id": 3, "sys_flag": 8, "born_host": "[::1]:80", "reconsume_times": 2},
    {"topic": "库存", "queue_id": -1, "store_host": "[fe80::2]:1", "sys_flag": 0x301, "body": b"y"},
    {"prepared_transaction_offset": 1 << 40, "properties": [("__CRC32#", "0123456789"), ("p", "v")]},
    {"born_timestamp": None, "store_timestamp": None, "born_host": None},
]


def test_the_bytes_are_those_of_the_reference() -> None:
    records = Records(batch_of(*ROWS).slice(0))
    sizes, _ = records.sizes(RULES)
    records.count({("T", 0): 5})
    assert records.rise(0) == 2000
    out = bytearray(4096)
    row, end, _ = records.append(LogRoom(out, 0, 1 << 20, 1000, RULES.max_size), 0, len(ROWS), 0)
    assert (row, end) == (len(ROWS), sizes.sum())
    at = 0
    for number, given in enumerate(ROWS):
        found = record.decode(out, at)
        born, stored = (given.get(name) for name in ("born_host", "store_host"))
        pairs = [pair for pair in given.get("properties", []) if pair[0] != "__CRC32#"]
        assert (found.topic.decode(), found.queue_id, found.body) == (
            given.get("topic", "T"), given.get("queue_id", 0), given.get("body", b"")
        )  # fmt: skip
        assert found.properties == "".join(f"{k}\x01{v}\x02" for k, v in pairs).encode()
        assert found.born_host == (parse_host(born or "1.2.3.4:5") if number != 4 else bytes(8))
        assert found.store_host == parse_host(stored or "9.8.7.6:10911")
        assert found.sys_flag & ~0x30 == given.get("sys_flag", 0) and found.flag == given.get("flag", 0)
        assert (found.born_timestamp, found.store_timestamp) == (2000 if number == 4 else 1000, 2000)
        assert (found.physical_offset, found.reconsume_times) == (1000 + at, given.get("reconsume_times", 0))
        assert found.prepared_transaction_offset == given.get("prepared_transaction_offset", 0)
        at += int(sizes[number])
    offsets = records.queue_offsets.tolist()
    assert offsets == [5, 0, 0, 6, 7]


def test_queue_offsets_count_each_queue() -> None:
    queues: dict[tuple[str, int], int] = {("A", 1): 10}
    names = [("A", 1), ("B", 1), ("A", -2), ("A", 1), ("B", 1), ("A", 1)]
    records = Records(batch_of(*({"topic": topic, "queue_id": queue_id} for topic, queue_id in names)))
    records.count(queues)
    assert records.queue_offsets.tolist() == [10, 0, 0, 11, 1, 12]
    assert queues == {("A", 1): 13, ("B", 1): 2, ("A", -2): 1}


def test_store_times_rise() -> None:
    times = [5000, None, 9_000_000, 3_000_000]
    records = Records(batch_of(*({"store_timestamp": time} for time in times)))
    assert records.rise(7) == 9000 and records.store_times.tolist() == [7, 7, 9000, 9000]


def test_a_missing_last_separator_stays_missing() -> None:
    """The size in the source tells: a record with it would be one byte larger."""
    batch = batch_of({"properties": [("a", "b")], "size": 91 + 1 + 3}, {"properties": [("a", "b")], "size": 91 + 1 + 4})
    records = Records(batch)
    assert (records.properties[2] - records.properties[1]).tolist() == [3, 4]
    assert records.sizes(RULES)[0].tolist() == [95, 96]
    assert records.sizes(RowRules(1 << 20, 1 << 19, crc_property=True))[0].tolist() == [116, 116]


def test_what_makes_no_record_is_named() -> None:
    for row in ({"body": bytes(1 << 19)}, {"properties": [("a", "b" * 32_765)]}):
        with pytest.raises(UsageError, match="topic 'T', queue 0, offset 0 of the source: makes a record of"):
            checked(batch_of(row), RULES, Counter())
    with pytest.raises(UsageError, match="host"):
        Records(batch_of({"born_host": "here"}))


def test_messages_leave_out_what_is_none() -> None:
    own = ["SCHEDULE_TOPIC_" + "X" * 4, "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer", "RMQ_SY"]
    batch = batch_of(*({"topic": topic} for topic in own), {"sys_flag": 4}, {"sys_flag": 8}, {"sys_flag": 12})
    left_out = Counter[str]()
    assert messages(batch, RULES, left_out).column("topic").to_pylist() == ["RMQ_SY", "T"]
    assert left_out == {"system_topics": 3, "transaction_records": 2}
    assert messages(batch, RowRules(1 << 20, 1 << 19, system_topics=True), Counter()).num_rows == 5


def test_rows_after() -> None:
    batch = batch_of(
        *({"physical_offset": p, "queue_offset": q, "size": 9} for p, q in ((1, 0), (5, 1), (5, 2), (8, 0)))
    )
    last = SourceRow(5, 1, 9, 0)
    places = [b.column("queue_offset").to_pylist() for b in rows_after([batch], last, True)]
    assert places == [[2, 0]] and [b.num_rows for b in rows_after([batch], None)] == [4]
    for other in (SourceRow(5, 1, 10, 0), SourceRow(5, 1, 9, 3), SourceRow(6, 0, 9, 0)):
        with pytest.raises(UsageError, match="replayed last"):
            list(rows_after([batch], other, True))
    assert SourceRow.of(batch, -1) == SourceRow(8, 0, 9, 0)
    assert numpy.array_equal(batch.column("size").to_numpy(), [9, 9, 9, 9])
