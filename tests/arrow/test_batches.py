"""Pieces to batches: every golden row, sizes of batches, oddities, decompression and its bounds."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from flintmq.arrow.batches import record_batches
from flintmq.arrow.options import BatchOptions
from flintmq.arrow.schema import SCHEMA, SPARK_SCHEMA, narrow
from flintmq.errors import CorruptStoreError
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report
from tests.support.arrow_rows import messages_of, pieces_of, row_of, rows_of, store_of
from tests.support.kernel_records import COUNTING, HOST6, LONG_WINDED

lz4 = pytest.importorskip("lz4.frame", reason="lz4 is not installed")
BOMB = zlib.compress(bytes(3 << 20))


def read(store: Any, schema: Any = SCHEMA, predicate: Predicate | None = None, **options: Any) -> list[Any]:
    piece_bytes = options.pop("piece_bytes", 1 << 20)
    given = {name: options.pop(name) for name in ("report", "rates") if name in options}
    pieces = pieces_of(store, piece_bytes=piece_bytes)
    return list(record_batches(pieces, schema, predicate, BatchOptions(**options), **given))


@pytest.mark.parametrize("piece_bytes", [500, 1 << 20])
def test_golden_rows_by_the_slow_way(golden_store: Any, piece_bytes: int) -> None:
    assert rows_of(read(golden_store, piece_bytes=piece_bytes)) == [
        row_of(message) for message in messages_of(golden_store)
    ]


def test_batch_sizes_do_not_change_the_rows(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", *COUNTING * 20)
    whole = rows_of(read(store))
    assert whole == [row_of(message) for message in messages_of(store)]
    for batch_bytes in (1, 1000, 50_000):
        batches = read(store, batch_bytes=batch_bytes)
        assert rows_of(batches) == whole
        assert len(batches) > 1
    for max_rows in (1, 7, 100):
        batches = read(store, max_rows=max_rows)
        assert rows_of(batches) == whole
        assert max(batch.num_rows for batch in batches) <= max_rows


def test_a_batch_is_filled_from_many_pieces_and_few_rows(golden: Any) -> None:
    store = golden("basic")
    assert len(read(store, piece_bytes=300)) == 1
    (batch,) = read(store, predicate=Predicate(tags=frozenset(["TagA"])), piece_bytes=300)
    assert 0 < batch.num_rows < 3000


def test_records_larger_than_what_was_seen_before(tmp_path: Path) -> None:
    sizes = [10] * 50 + [300_000] + [10] * 50 + [500_000, 20, 900_000] + [0] * 100
    properties = b"".join(b"name%d\x01%s\x02" % (n, b"v" * 1500) for n in range(20))
    changes = [{"body": b"x" * n, "properties": properties if n > 99 else b"", "topic": b"t" * 100} for n in sizes]
    store = store_of(tmp_path / "s", *changes)
    batches = read(store, batch_bytes=100_000)
    rows = rows_of(batches)
    assert [len(row["body"]) for row in rows] == sizes
    assert rows == [row_of(message) for message in messages_of(store)]
    assert all(batch.nbytes < 2_500_000 for batch in batches)


def test_batches_keep_their_rows_when_others_are_made(tmp_path: Path) -> None:
    """The memory of a batch is its own: the buffer of pieces and the next block do not show through."""
    store = store_of(tmp_path / "s", *({"body": b"%05d" % n} for n in range(2000)))
    batches = read(store, piece_bytes=2000, batch_bytes=20_000)
    assert len(batches) > 5
    assert [row["body"] for row in rows_of(batches)] == [b"%05d" % n for n in range(2000)]


def test_odd_rows_alone_and_in_runs(tmp_path: Path) -> None:
    odd = [{"topic": b"\xff", "born_host": HOST6, "properties": text} for text in LONG_WINDED.values()]
    store = store_of(tmp_path / "s", *(odd * 100 + [{}] * 50 + odd[:1] + [{}] * 3) * 2)
    for columns in (None, ["topic"], ["tags", "keys"], ["properties"], ["born_host", "body"], ["msg_id"]):
        schema = narrow(columns)
        expected = [{name: row_of(message)[name] for name in schema.names} for message in messages_of(store)]
        assert rows_of(read(store, schema)) == expected


def test_no_rows_no_batches(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", {})
    assert read(store, predicate=Predicate(topics=frozenset())) == []
    assert read(store, predicate=Predicate(since=1)) == []


def test_spark_schema(golden: Any) -> None:
    rows = rows_of(read(golden("basic"), SPARK_SCHEMA))
    assert [row["store_timestamp"] for row in rows] == [row["store_timestamp"] * 1000 for row in golden("basic").rows]


# -- decompression ------------------------------------------------------------------------------------------------

COMPRESSED = [
    {"body": zlib.compress(b"old client"), "sys_flag": 0x001},
    {"body": b"plain"},
    {"body": lz4.compress(b"lz4 " * 100), "sys_flag": 0x101},
    {"body": zlib.compress(b""), "sys_flag": 0x301},
    {"body": b"", "sys_flag": 0x300},
]
ORIGINAL = [b"old client", b"plain", b"lz4 " * 100, b"", b""]


def test_bodies_as_the_producer_gave_them(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", *COMPRESSED * 30)
    assert [row["body"] for row in rows_of(read(store, decompress=True))] == ORIGINAL * 30
    assert [row["body"] for row in rows_of(read(store))] == [change["body"] for change in COMPRESSED * 30]
    assert rows_of(read(store, narrow(["queue_id"]), decompress=True)) == [{"queue_id": 0}] * 150


def test_golden_bodies_that_are_compressed(golden: Any) -> None:
    """`flags` holds bodies by every method; they were made of the text that `config` clients and the script gave."""
    rows = rows_of(read(golden("flags"), decompress=True))
    stored = rows_of(read(golden("flags")))
    changed = {
        row["sys_flag"] & 0x701 for row, before in zip(rows, stored, strict=True) if row["body"] != before["body"]
    }
    assert {0x001, 0x101, 0x201, 0x301} <= changed
    assert all(
        row["body"] == before["body"] for row, before in zip(rows, stored, strict=True) if not row["sys_flag"] & 1
    )


def test_a_body_that_cannot_be_decompressed(tmp_path: Path) -> None:
    wrong = [
        {"body": b"junk", "sys_flag": 0x301},
        {"body": b"junk", "sys_flag": 0x701},
        {"body": BOMB[:-5], "sys_flag": 1},
    ]
    store = store_of(tmp_path / "s", *COMPRESSED, *wrong, {})
    position = [message.physical_offset for message in messages_of(store)][5]
    with pytest.raises(CorruptStoreError, match=f"0{{20}}, position {position}: .*ZLIB.*without decompress") as caught:
        read(store, decompress=True)
    assert caught.value.position == position
    report = Report()
    rows = rows_of(read(store, decompress=True, strict=False, report=report))
    assert [row["body"] for row in rows] == [*ORIGINAL, *(change["body"] for change in wrong), b"hello"]
    assert report.note_counts == {"undecodable_body": 3}


def test_what_expands_a_thousandfold_comes_in_batches_of_the_size_asked_for(tmp_path: Path) -> None:
    changes = ([{"body": BOMB, "sys_flag": 0x301}] * 2 + [{}]) * 20
    store = store_of(tmp_path / "s", *changes)
    sizes = []
    for batch in record_batches(pieces_of(store), SCHEMA, options=BatchOptions(decompress=True, batch_bytes=4 << 20)):
        assert batch.nbytes <= 8 << 20
        sizes += [len(value.as_py()) for value in batch.column("body")]
    assert sizes == [3 << 20, 3 << 20, 5] * 20
