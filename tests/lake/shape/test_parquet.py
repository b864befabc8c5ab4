"""Files by topic and store date: names, order, row groups, bounded memory."""

import hashlib
import random
import re
import tempfile
import threading
from urllib.parse import unquote

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.lake.shape import parquet
from flintmq.lake.shape.parquet import PartitionedWriter, by_group, escape, folder_of, partition_value

DAY = 86_400_000_000


def batch(rows):
    """A batch of (topic, store time in us or None, queue offset, body)."""
    columns = {field.name: [None] * len(rows) for field in SPARK_SCHEMA}
    columns.update(
        zip(("topic", "store_timestamp", "queue_offset", "body"), map(list, zip(*rows, strict=True)), strict=True)
    )
    return pa.RecordBatch.from_pydict(columns, schema=SPARK_SCHEMA)


def group(topic, day):
    """The partition values of a topic and a day since 1970."""
    return ("topic_name", topic), ("date", None if day is None else str(numpy.datetime64(day, "D")))


@pytest.mark.parametrize(
    "topic, name",
    [
        ("Orders", "Orders"),
        ("a_b-c.9", "a_b-c.9"),
        ("%RETRY%group", "%25RETRY%25group"),
        ("..", ".."),
        ("a/b", "a%2Fb"),
        ("a=b c", "a%3Db%20c"),
        ("\0\x1b[31m", "%00%1B%5B31m"),
        ("~text", "%7Etext"),
        ("Größe", "Größe"),
        ("主题 1", "主题%201"),
        ("😀", "😀"),
        ("\x80\xff\ufffd", "\x80\xff\ufffd"),
    ],
)
def test_topics_as_names_of_directories(topic, name):
    assert escape(topic) == name and partition_value(topic) == topic
    assert folder_of([("topic_name", topic)]) == f"topic_name={name}"


def test_the_value_that_readers_take_for_null():
    """PyArrow and Polars even if it is escaped."""
    name = "__HIVE_DEFAULT_PARTITION__"
    assert partition_value(name) == f"{name}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    assert folder_of([("topic_name", None)]) == f"topic_name={name}" != folder_of([("topic_name", name)])


def test_what_hive_and_spark_escape_is_escaped():
    """The characters of Spark's ExternalCatalogUtils.charToEscape, on Windows too."""
    special = [chr(n) for n in range(1, 32)] + [*"\"#%'*/:=?\\\x7f{[]^ <>|"]
    assert [escape(char) for char in special] == [f"%{ord(char):02X}" for char in special]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_name_is_read_again_and_fits_a_file_system(topic):
    name, value = escape(topic), partition_value(topic)
    assert unquote(name) == value and len(f"topic_name={name}".encode()) <= 255
    assert re.sub("%(..)", lambda found: chr(int(found[1], 16)), name) == value, (
        "as Spark does it, character by character"
    )
    if value != topic:
        begin, _, digest = value.rpartition("~")
        assert topic.startswith(begin) and digest == hashlib.sha256(topic.encode()).hexdigest()[:16]
        assert len(f"topic_name={''.join(map(escape, topic))}".encode()) > 200


@pytest.mark.parametrize(
    "char, whole, cut", [("x", 200, 160), ("/", 66, 53), ("日", 66, 53), ("😀", 50, 40), ("é", 100, 80)]
)
def test_long_topics_fit_a_file_system(char, whole, cut):
    """All that RocketMQ allows (127 bytes of UTF-8, of letters) is whole; what is cut is cut behind a character."""
    assert partition_value(char * whole) == char * whole
    one, other = partition_value(char * (whole + 1)), partition_value(char * (whole + 2))
    assert one != other and one[:-17] == other[:-17] == char * cut
    assert escape(char * (whole + 1)).isascii() == char.isascii()


def test_directories():
    assert folder_of(group("A", 0)) == "topic_name=A/date=1970-01-01"
    assert folder_of(group("A", 20_000)) == "topic_name=A/date=2024-10-04"
    assert folder_of(group("A", -719_162)) == "topic_name=A/date=0001-01-01"
    assert folder_of(group(None, None)) == "topic_name=__HIVE_DEFAULT_PARTITION__/date=__HIVE_DEFAULT_PARTITION__"
    assert folder_of([("date", "2026-01-31")]) == "date=2026-01-31" and folder_of([]) == ""


def test_groups_keep_their_rows_in_order():
    rows = [
        ("A", 1, 0, b"a"),
        ("B", DAY, 1, b"b"),
        ("A", DAY - 1, 2, b"c"),
        ("A", DAY, 3, b"d"),
        ("B", None, 4, b"e"),
        ("A", -1, 5, b"f"),
        ("A", 5, 6, b"g"),
    ]

    def found(*by):
        return {values: part.column("queue_offset").to_pylist() for values, part in by_group(batch(rows), by)}

    assert found() == {(): [0, 1, 2, 3, 4, 5, 6]}
    assert found("topic_name") == {(("topic_name", "A"),): [0, 2, 3, 5, 6], (("topic_name", "B"),): [1, 4]}
    days = {"1969-12-31": [5], "1970-01-01": [0, 2, 6], "1970-01-02": [1, 3], None: [4]}
    assert found("date") == {(("date", day),): numbers for day, numbers in days.items()}
    assert found("topic_name", "date") == {
        group("A", -1): [5],
        group("A", 0): [0, 2, 6],
        group("A", 1): [3],
        group("B", 1): [1],
        group("B", None): [4],
    }


def test_an_empty_batch_has_no_groups():
    for by in (("topic_name", "date"), ("date",), ()):
        assert list(by_group(batch([("A", 1, 0, b"")]).slice(0, 0), by)) == []


def test_what_is_written_is_read_again(tmp_path):
    chance = random.Random(1)
    rows = [
        (chance.choice("ABC"), chance.choice([1, DAY, None]), n, chance.randbytes(chance.randrange(50)))
        for n in range(5000)
    ]
    writer = PartitionedWriter(str(tmp_path), SPARK_SCHEMA)
    for at in range(0, len(rows), 100):
        writer.write(batch(rows[at : at + 100]))
    writer.close()
    assert {file.values for file in writer.files} == {group(t, d) for t in "ABC" for d in (0, 1, None)}
    assert sum(file.rows for file in writer.files) == len(rows)
    found = []
    for file in writer.files:
        table = pq.read_table(file.path)
        assert table.schema.equals(SPARK_SCHEMA)
        kept = list(zip(*(table.column(n).to_pylist() for n in ("topic", "queue_offset", "body")), strict=True))
        assert kept == sorted(kept, key=lambda row: row[1])
        found += kept
    assert sorted(found) == sorted((topic, n, body) for topic, _, n, body in rows)


def test_no_more_files_are_open_than_agreed_and_little_waits(tmp_path, monkeypatch):
    """Many topics, small bounds: groups get several files, nothing is lost."""
    monkeypatch.setattr(parquet, "OPEN_FILES", 3)
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 60_000)
    monkeypatch.setattr(parquet, "PENDING_BYTES", 400_000)
    writer = PartitionedWriter(str(tmp_path), SPARK_SCHEMA)
    for n in range(300):
        writer.write(batch([(f"T{n % 20}", 1, n, bytes(3000))] * 2))
        assert writer._pending <= 400_000
        assert sum(waiting.writer is not None for waiting in writer._groups.values()) <= 3
    writer.close()
    assert sum(file.rows for file in writer.files) == 600
    assert len({file.path for file in writer.files}) == len(writer.files)
    assert sum(pq.read_metadata(file.path).num_rows for file in writer.files) == 600


STEPS = st.lists(st.tuples(st.integers(0, 11), st.integers(1, 4), st.sampled_from([10, 1500, 9000])), max_size=60)


@settings(max_examples=60, deadline=None)
@given(
    steps=STEPS, open_files=st.integers(1, 4), pending=st.integers(1, 120_000), target=st.sampled_from([None, 20_000])
)
def test_rows_in_are_rows_out(steps, open_files, pending, target):
    """Any sequence of writes to many groups under small bounds, then close: each row once, in its group's order."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(parquet, "OPEN_FILES", open_files)
        patched.setattr(parquet, "BATCH_COST", 100)
        patched.setattr(parquet, "ROW_GROUP_BYTES", 40_000)
        patched.setattr(parquet, "PENDING_BYTES", pending)
        patched.setattr(parquet, "sync_file", lambda path, effects: None)
        writer = PartitionedWriter(folder, SPARK_SCHEMA, target_bytes=target)
        given_rows = {}
        for number, (topic, count, size) in enumerate(steps):
            rows = [(f"T{topic}", 1, 10 * number + n, bytes(size)) for n in range(count)]
            given_rows.setdefault(f"T{topic}", []).extend(row[2] for row in rows)
            writer.write(batch(rows))
            assert writer._pending <= pending
            assert sum(waiting.writer is not None for waiting in writer._groups.values()) <= open_files
        writer.close()
        found = {}
        for file in sorted(writer.files, key=lambda file: file.path):
            table = pq.read_table(file.path)
            assert table.num_rows == file.rows and set(table["topic"].to_pylist()) == {file.values[0][1]}
            found.setdefault(table["topic"][0].as_py(), []).extend(table["queue_offset"].to_pylist())
        assert found == given_rows
        assert writer._groups == {} and writer._pending == 0


def test_flushing_at_the_end_closes_files_of_other_groups(tmp_path, monkeypatch):
    """The case that ended exports of many topics with a KeyError: more groups wait than files may be open."""
    monkeypatch.setattr(parquet, "PENDING_BYTES", 1 << 20)
    writer = PartitionedWriter(str(tmp_path), SPARK_SCHEMA)
    for topic, size in [(f"small{n}", 10) for n in range(5)] + [(f"large{n}", 1 << 20) for n in range(40)]:
        writer.write(batch([(topic, 0, 0, bytes(size))]))
    writer.close()
    assert len(writer.files) == 45 == sum(pq.read_metadata(file.path).num_rows for file in writer.files)


def test_parts_of_a_batch_do_not_keep_the_whole_of_it():
    """A rare topic's row that waits must not hold a megabyte of others."""
    whole = batch([("A", 1, n, bytes(1000)) for n in range(1000)] + [("B", 1, 0, b"small")])
    small = next(part for values, part in by_group(whole) if values[0] == ("topic_name", "B"))
    assert sum(buffer.size for column in small.columns for buffer in column.buffers() if buffer) < 10_000


def test_a_sync_that_fails_behind_the_writer_is_told(tmp_path, monkeypatch):
    """It ran on another thread, and a later sync of the same file that succeeds does not make it good."""
    failed = []

    def sync(path, effects):
        if threading.current_thread() is not threading.main_thread():
            failed.append(path)
            raise OSError(5, "the disk failed")

    monkeypatch.setattr(parquet, "sync_file", sync)
    writer = PartitionedWriter(str(tmp_path), SPARK_SCHEMA)
    writer.write(batch([("T", 1000, 0, b"x")]))
    with pytest.raises(OSError, match="the disk failed"):
        writer.close()
    assert len(failed) == 1


LAST = 4 * "\U0010ffff"


def test_statistics_are_those_of_the_rows(tmp_path):
    """Least, most and nulls of all numbers, times and texts, over row groups; a text's bounds are wide, or cut."""
    rows = [("A", 1_700_000_000_123_000 + 1000 * n, n, b"x") for n in range(10)] + [("B", None, 50, b"y")]
    writer = PartitionedWriter(str(tmp_path), SPARK_SCHEMA, partition_by=())
    for at in (0, 6):
        given = batch(rows[at : at + 6])
        tags = pa.array(["t" if n else None for n in range(given.num_rows)], pa.string())
        writer.write(given.set_column(given.schema.get_field_index("tags"), "tags", tags))
        writer._flush(())
    writer.close()
    assert pq.read_metadata(writer.files[0].path).num_row_groups == 2
    stats = writer.files[0].stats
    assert stats["numRecords"] == 11
    assert stats["minValues"] == {
        "topic": "A", "queue_offset": 0, "store_timestamp": "2023-11-14T22:13:20.123Z", "tags": "",
    }  # fmt: skip
    assert stats["maxValues"] == {
        "topic": "B", "queue_offset": 50, "store_timestamp": "2023-11-14T22:13:20.132Z", "tags": LAST,
    }  # fmt: skip
    described = {field.name for field in SPARK_SCHEMA} - {"body", "properties"}
    some = {"topic": 0, "queue_offset": 0, "store_timestamp": 1, "tags": 2}
    assert stats["nullCount"] == dict.fromkeys(described, 11) | some
    long = PartitionedWriter(str(tmp_path), SPARK_SCHEMA)
    long.write(batch([("x" * 33, -62_135_596_800_000_000, 0, b"")]))
    long.close()
    assert long.files[0].stats["minValues"]["topic"] == "x" * 32
    assert long.files[0].stats["maxValues"]["topic"] == "x" * 32 + LAST
    assert long.files[0].stats["minValues"]["store_timestamp"] == "0001-01-01T00:00:00.000Z"
