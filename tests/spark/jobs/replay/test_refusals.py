"""Refused rows: known beforehand by the rules that the store has, and nothing behind one is stored, however often."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.format.record import COMPRESSED, INNER_BATCH, MAX_PROPERTIES, NEED_UNWRAP
from flintmq.lake.export.export_once import export
from flintmq.message import Message, PutMessageStatus
from flintmq.spark.jobs.replay.exactly_once import WriterIds, put_all
from flintmq.spark.jobs.replay.refusals import batches_of, target_config, why_refused
from flintmq.store.message_store import MessageStore
from tests.spark.jobs.replay.replaying import SMALL, bulk
from tests.support.engine import put_messages

FILE = 1 << 17
KEYS = {"mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 500, "maxIndexNum": 2000}


def pairs(size: int) -> bytes:
    """A property string of so many bytes."""
    return b"p\x01" + b"v" * (size - 3) + b"\x02"


def odd_messages(seed: int, count: int) -> list[Message]:
    """Messages that lie at and around every bound of a put."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        topic = rng.choice(
            ["T", "t" * 127, "t" * 128, "库" * 42, "库" * 43, "a/b", ".", "..", "", "%RETRY%" + "g" * 130]
        )
        properties = rng.choice([b"", b"", pairs(50), pairs(MAX_PROPERTIES), pairs(MAX_PROPERTIES + 1),
            pairs(MAX_PROPERTIES - 19), pairs(MAX_PROPERTIES - 20), b"a\x01\0\x02", b"INNER_NUM\x012\x02",
            b"INNER_MULTI_DISPATCH\x01%LMQ%a,b\x02", b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"])  # fmt: skip
        born = rng.choice([None, None, "10.0.0.1:80", "[::1]:80", "nobody"])
        flags = rng.choice([0, 0, 0, 1, 4, 8, 12, 0x80])
        raw = len(topic.encode()) + len(properties)
        if b"MULTI" in properties:  # with the offsets, which are not known yet, its record becomes larger
            raw = FILE - 1000
        around = FILE - 8 - 91 - raw - rng.choice([0, 12]) - rng.choice([0, 20])
        body = rng.choice([0, 10, 10, 90_000, 90_001, around - 1, around, around + 1, around + 2])
        found.append(Message(topic, bytes(max(0, body)), queue_id=rng.choice([0, 0, 0, 3, -1]), sys_flag=flags,
            properties_bytes=properties, born_host=born))  # fmt: skip
    return found


@pytest.mark.parametrize("keys", [{}, {"enabledAppendPropCRC": True}, {"maxMessageSize": 90_000}, {"enableLmq": True,
    "enableMultiDispatch": True}])  # fmt: skip
def test_what_is_refused_is_what_the_store_refuses(tmp_path: Path, keys: dict[str, Any]) -> None:
    """The store's own answers are the measure, over messages at every bound. Transactions only it takes."""
    config, answers = StoreConfig.from_keys({**KEYS, **keys}), Counter[bool]()
    with MessageStore(tmp_path / "s", config, unique_keys=False) as store:
        real, inner = target_config(str(tmp_path / "s"), config), batches_of(str(tmp_path / "s"))
        for message in odd_messages(20, 400):
            why = why_refused(message, real, inner)
            if message.sys_flag & 4:
                assert why
                continue
            taken = store.put(message).status is PutMessageStatus.PUT_OK
            assert taken == (why == ""), (message.topic, len(message.body), message.properties_bytes[:30], why)
            answers[taken] += 1
    assert min(answers[True], answers[False]) > 10


def test_the_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    root = str(tmp_path / "s")
    assert target_config(root, StoreConfig()).mapped_file_size_commit_log == 1 << 30
    put_messages(root, [Message("T", b"x")], StoreConfig.from_keys(KEYS), unique_keys=False)
    assert target_config(root, StoreConfig()).mapped_file_size_commit_log == FILE


def source_with_a_bad_one(root: Path, bad: Message) -> str:
    with MessageStore(
        root, StoreConfig.from_keys({**KEYS, "mappedFileSizeCommitLog": 1 << 20}), unique_keys=False
    ) as store:
        for message in (Message("T", b"one"), bad, Message("T", b"three"), Message("T", b"four")):
            assert store.put(message).status is PutMessageStatus.PUT_OK
    return str(root)


def bodies(root: Path) -> list[bytes]:
    with flintmq.open_store(root) as store:
        return [bytes(message.body[:5]) for message in store.messages()]


@pytest.mark.parametrize("into", ["a store", "nothing"])
def test_a_replay_with_a_refused_message_puts_nothing_and_never_twice(tmp_path: Path, into: str) -> None:
    source, root = source_with_a_bad_one(tmp_path / "source", Message("T", bytes(200_000))), tmp_path / "target"
    want = []
    if into == "a store":
        put_messages(root, [Message("T", b"zero")], StoreConfig.from_keys(KEYS), unique_keys=False)
        want = [b"zero"]
    config = StoreConfig() if want else StoreConfig.from_keys(KEYS)
    for _ in range(3):
        with pytest.raises(UsageError, match=r"topic 'T', queue 0, offset 1 of the source.*does not fit.*131072"):
            bulk(source, root, config, live=True)
        assert (bodies(root) == want) if want else not root.exists()
    for rows in (3, 0):
        done = bulk(source, root, config, live=True, skip_refused=True)
        assert done.rows == rows and bodies(root) == [*want, b"one", b"three", b"four"]
        assert done.left_out == ({"refused_messages": 1} if rows else {})


def test_a_bulk_load_leaves_out_what_it_cannot_write(tmp_path: Path) -> None:
    source = source_with_a_bad_one(tmp_path / "source", Message("T", bytes(200_000)))
    with pytest.raises(UsageError, match="offset 1 of the source: makes a record of 200092 bytes"):
        bulk(source, tmp_path / "new")
    done = bulk(source, tmp_path / "new", skip_refused=True)
    assert (done.rows, done.left_out) == (3, {"refused_messages": 1})
    with flintmq.open_store(tmp_path / "new", config=SMALL) as store:
        assert [message.body for message in store.messages()] == [b"one", b"three", b"four"]


def table_without(root: Path, column: str, flags: int = 0) -> Path:
    """A table of three messages, whose second one has no value in a column, as if it was erased."""
    store = root / "source"
    with MessageStore(store, StoreConfig.from_keys(KEYS), unique_keys=False) as open_store:
        for text in (b"one", b"two", b"three"):
            assert open_store.put(Message("T", text, keys="k")).status is PutMessageStatus.PUT_OK
    export(str(store), str(root / "table"))
    (path,) = (path for path in (root / "table").rglob("*.parquet") if pq.read_metadata(path).num_rows)
    rows = pq.ParquetFile(path).read()
    place = rows.schema.get_field_index(column)
    values = rows.column(place).to_pylist()
    assert values[1] is not None
    values[1] = None
    rows = rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))
    if flags:
        place = rows.schema.get_field_index("sys_flag")
        rows = rows.set_column(place, rows.schema.field(place), pa.array([0, flags, 0], pa.int32()))
    pq.write_table(rows, path)
    return root / "table"


ALWAYS = ("topic", "queue_id", "body", "properties", "size", "flag", "sys_flag", "reconsume_times",
    "prepared_transaction_offset", "body_crc")  # fmt: skip


@pytest.mark.parametrize("into", ["a new store", "a store", "a new one, one by one"])
@pytest.mark.parametrize("column", ALWAYS)
def test_a_row_that_lacks_what_each_message_has(tmp_path: Path, column: str, into: str) -> None:
    """It became a message with an empty body, or with 0, and nothing was said."""
    table, root, config = table_without(tmp_path, column), tmp_path / "target", StoreConfig.from_keys(KEYS)
    want = []
    if into == "a store":
        put_messages(root, [Message("T", b"zero")], config, unique_keys=False)
        want = [b"zero"]
    live = into != "a new store"
    with pytest.raises(UsageError, match=rf"offset 1 of the source: it has no {column}; nothing was put: .*--skip-ref"):
        bulk(table, root, config, live=live)
    assert (bodies(root) == want) if want else not root.exists()
    done = bulk(table, root, config, live=live, skip_refused=True)
    assert (done.rows, done.left_out) == (2, {"refused_messages": 1})
    assert bodies(root) == [*want, b"one", b"three"]


@pytest.mark.parametrize("column", ["physical_offset", "queue_offset"])
def test_a_row_that_has_no_place(tmp_path: Path, column: str) -> None:
    table = table_without(tmp_path, column)
    for skip in (False, True):
        with pytest.raises(UsageError, match=rf"{table}/export=1/.*\.parquet: a row has no {column}, which says"):
            bulk(table, tmp_path / "target", skip_refused=skip)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("flags", [COMPRESSED, INNER_BATCH, COMPRESSED | INNER_BATCH | NEED_UNWRAP])
@pytest.mark.parametrize("column", ["body", "body_crc", "properties"])
def test_a_packed_row_that_lacks_something(tmp_path: Path, column: str, flags: int) -> None:
    """A body is looked at first where flags say that it is compressed, or a batch."""
    table = table_without(tmp_path, column, flags)
    with pytest.raises(UsageError, match=f"it has no {column}"):
        bulk(table, tmp_path / "target")
    assert bulk(table, tmp_path / "target", skip_refused=True).rows == 2


@pytest.mark.parametrize("column", ["keys", "born_host", "store_host", "born_timestamp", "store_timestamp", "magic"])
def test_what_a_row_may_lack(tmp_path: Path, column: str) -> None:
    assert bulk(table_without(tmp_path, column), tmp_path / "target").rows == 3
    assert bodies(tmp_path / "target") == [b"one", b"two", b"three"]


def test_nothing_behind_a_refused_message_is_stored(tmp_path: Path) -> None:
    """Whatever the looking missed: `put_all` stops, and `put_many` can be told to."""
    with MessageStore(tmp_path / "s", StoreConfig.from_keys(KEYS), unique_keys=False) as store:
        given = [
            Message("T", b"a"),
            Message("T", b"b"),
            Message("T", bytes(FILE)),
            Message("T", b"c"),
            Message("T", b"d"),
        ]
        for attempt in range(3):
            with pytest.raises(StoreError, match="third: MESSAGE_ILLEGAL"):
                put_all(store, given[2 * bool(attempt) :], ["first", "second", "third"][2 * bool(attempt) :])
        results = store.put_many(given[2:], until_refused=True)
        assert [result.status for result in results] == [PutMessageStatus.MESSAGE_ILLEGAL]
        assert [result.status.name for result in store.put_many(given[2:4])] == ["MESSAGE_ILLEGAL", "PUT_OK"]
    assert bodies(tmp_path / "s") == [b"a", b"b", b"c"]


def test_no_ledger_says_that_a_refused_replay_runs(tmp_path: Path) -> None:
    source = source_with_a_bad_one(tmp_path / "source", Message("T", bytes(200_000)))
    put_messages(tmp_path / "t", [Message("T", b"zero")], StoreConfig.from_keys(KEYS), unique_keys=False)
    with pytest.raises(UsageError):
        bulk(source, tmp_path / "t", StoreConfig())
    assert WriterIds(str(tmp_path / "t")).of("") == {}
