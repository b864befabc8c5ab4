"""A stream of a table and its stores: backfill, then what comes; each message once, wherever it is stopped."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flintmq.errors import NotAStoreError, StoreError, UsageError
from flintmq.lake.history.history import task_rows
from flintmq.lake.history.history_stream import HISTORY, Backfill, HistoryStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.store.commitlog.report import Report
from tests.lake.history.test_history import SMALL, expire, numbers, put
from tests.support.exporting import Export, iceberg_table, whole


class Query:
    """A query with a checkpoint, as Spark runs one."""

    at_once = False  # each batch is all that there is, as Spark 4.0 and 4.1 have it of a source in Python

    def __init__(self, store: Any, out: Path, **options: Any) -> None:
        texts = {name: str(value) for name, value in options.items()}
        self.options = {"path": str(store), "history": str(out), **texts}
        self.rows: list[tuple[str, int]] = []
        self.batches: list[int] = []
        self.lines: list[str] = []
        self.start()
        self.offset = self.kept(self.stream.initial())

    def start(self) -> None:
        """Start the driver, anew with what the checkpoint says."""
        self.stream = HistoryStream(StreamOptions.parse(self.options), self.lines.append)

    @staticmethod
    def kept(offset: Any) -> Any:
        """What a checkpoint gives back."""
        return json.loads(json.dumps(offset))

    def batch(self, twice: bool = False) -> bool:
        """Run one micro-batch, a second time after a death; return whether there was one."""
        end = self.kept(self.stream.present_end() if self.at_once else self.stream.next_end(self.offset))
        if end == self.offset:
            return False
        read = self.read(end)
        if twice:
            self.start()
            assert sorted(self.read(end)) == sorted(read), "a micro-batch that is run again has the same rows"
        self.rows += read
        self.batches.append(len(read))
        self.offset = end
        return True

    def read(self, end: Any) -> list[tuple[str, int]]:
        history, found = self.stream.history, []
        for task in self.stream.tasks(self.offset, end):
            for batch in task_rows(history.shape, history.predicate, task, history.schema, Report()):
                names = batch["broker"].to_pylist() if "broker" in batch.schema.names else [""] * batch.num_rows
                found += list(zip(names, numbers(batch), strict=True))
        return found

    def drain(self) -> None:
        while self.batch():
            pass

    @property
    def backfills(self) -> bool:
        """Whether the query is still in the table."""
        return HISTORY in self.offset


def test_backfill_then_live(tmp_path: Path, make: Export, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 40)
    make(store, out, to=to)
    put(store, 40, 55)
    query = Query(store, out)
    assert query.backfills and query.batch() and len(query.rows) == 40
    assert query.batch() and not query.backfills and not query.batch()
    put(store, 55, 60)
    make(store, out, to=to)
    query.drain()
    assert [number for _, number in query.rows[40:]] == list(range(40, 60))
    assert sorted(query.rows) == [("", number) for number in range(60)]


def test_batches_of_everything(tmp_path: Path, make: Export, to: str) -> None:
    """A batch reaches from within the table into the stores; what came with a later export is not read twice."""
    store, out = tmp_path / "store", tmp_path / "out"
    for begin in (0, 20):
        put(store, begin, begin + 20)
        make(store, out, to=to)
    put(store, 40, 55)
    query = Query(store, out, maxOffsetsPerTrigger=7)
    assert query.batch() and query.backfills and 0 < len(query.rows) < 40
    query.at_once = True
    assert query.batch(twice=True) and not query.backfills and not query.batch()
    put(store, 55, 60)
    make(store, out, to=to)
    put(store, 60, 65)
    query.start()
    assert query.batch(twice=True) and query.batches[1:] == [55 - query.batches[0], 10] and not query.batch()
    assert sorted(query.rows) == [("", number) for number in range(65)]


@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": 7}, {"maxBytesPerTrigger": 5000}], ids=str)
def test_limits_and_deaths(tmp_path: Path, make: Export, to: str, limit: dict[str, int]) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    for begin in range(0, 100, 20):
        put(store, begin, begin + 20)
        make(store, out, to=to)
    put(store, 100, 130)
    query = Query(store, out, **limit)
    while query.batch(twice=True):
        pass
    assert sorted(query.rows) == [("", number) for number in range(130)]
    assert len(query.batches) > 5


def test_exports_and_retention_during_the_backfill(tmp_path: Path, make: Export, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 200, **SMALL)
    make(store, out, to=to)
    query = Query(store, out, maxOffsetsPerTrigger=50)
    assert query.batch()
    put(store, 200, 500, **SMALL)
    make(store, out, to=to)
    expire(store, 1)
    put(store, 500, 510, **SMALL)
    query.drain()
    assert sorted(query.rows) == [("", number) for number in range(510)]


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_a_restart_after_the_table_was_compacted(tmp_path: Path, make: Export, to: str) -> None:
    """The version that is read keeps its files, which the present one has no more."""
    store, out = tmp_path / "store", tmp_path / "out"
    for begin in range(0, 60, 20):
        put(store, begin, begin + 20)
        make(store, out, to=to, partition_by=())
    query = Query(store, out, maxOffsetsPerTrigger=20)
    assert query.batch()
    if to == "delta":
        assert DeltaTable(str(out)).optimize.compact()["numFilesRemoved"]
    else:
        table = iceberg_table(out)
        table.overwrite(table.scan().to_arrow())
    query.start()
    put(store, 60, 65)
    query.drain()
    assert sorted(query.rows) == [("", number) for number in range(65)]


def test_a_step_from_version_0_reads_no_file_twice(tmp_path: Path) -> None:
    """Delta counts from 0, so 0 must not mean that nothing was read."""
    put(tmp_path / "store", 0, 10)
    whole(tmp_path / "store", tmp_path / "out", to="delta", partition_by=())
    query = Query(tmp_path / "store", tmp_path / "out")
    first = query.offset[HISTORY]["version"]
    put(tmp_path / "store", 10, 20)
    whole(tmp_path / "store", tmp_path / "out", to="delta", partition_by=())
    later = DeltaTable(str(tmp_path / "out")).version()
    for after, count in ((None, 2), (first, 1), (0, 1 if first == 0 else 2)):
        place = {"version": later, "after": after, "files": 0}
        start = {HISTORY: place, "@then": query.offset["@then"]}
        assert len(query.stream.tasks(start, query.stream.next_end(start))) == count


def test_messages_that_no_export_has(tmp_path: Path, make: Export) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 100, **SMALL)
    make(store, out)
    query, lenient = Query(store, out), Query(store, out, failOnDataLoss="false")
    put(store, 100, 400, **SMALL)
    expire(store, 1)
    with pytest.raises(StoreError, match="expired|no longer|lost"):
        query.drain()
    lenient.drain()
    found = [number for _, number in lenient.rows]
    assert len(found) == len(set(found)) and set(range(100)) < set(found) < set(range(400)) and 399 in found
    assert lenient.lines


@pytest.mark.parametrize(
    "options", [{"subscribe": "Orders"}, {"tags": "tag1 || tag3"}, {"assign": '{"Orders": [0, 2]}'}]
)
def test_selections(tmp_path: Path, make: Export, options: dict[str, str]) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 50)
    make(store, out)
    put(store, 50, 90)
    query = Query(store, out, **options)
    query.drain()
    expected = {
        "subscribe": lambda n: n % 2 == 0,
        "tags": lambda n: n % 4 in (1, 3),
        "assign": lambda n: n % 2 == 0 and n % 3 in (0, 2),
    }[next(iter(options))]
    assert sorted(query.rows) == [("", number) for number in range(90) if expected(number)]


def test_several_stores_and_one_that_comes(tmp_path: Path, make: Export, to: str) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    put(data / "a" / "store", 0, 20)
    put(data / "库存" / "store", 0, 10)
    pattern = f"{data}/{{broker}}/store"
    make(pattern, out, to=to)
    put(data / "a" / "store", 20, 30)
    put(data / "new" / "store", 0, 5)
    query = Query(pattern, out, maxOffsetsPerTrigger=8)
    while query.batch(twice=True):
        pass
    put(data / "later" / "store", 0, 7)
    query.drain()
    expected = {"a": 30, "库存": 10, "new": 5, "later": 7}
    assert sorted(query.rows) == sorted((broker, n) for broker, count in expected.items() for n in range(count))


def test_a_store_of_the_table_that_is_away_when_the_stream_begins(tmp_path: Path, make: Export) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    for broker in ("a", "b"):
        put(data / broker / "store", 0, 20)
    pattern = f"{data}/{{broker}}/store"
    make(pattern, out)
    (data / "b").rename(tmp_path / "away")
    if make is whole:
        with pytest.raises(NotAStoreError, match="has rows of broker '?b'?, whose store is not there"):
            Query(pattern, out)
        return
    query = Query(pattern, out)
    query.drain()
    put(tmp_path / "away" / "store", 20, 25)
    (tmp_path / "away").rename(data / "b")
    query.drain()
    assert sorted(query.rows) == [*(("a", n) for n in range(20)), *(("b", n) for n in range(25))]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "latest"}, "option startingOffsets does not apply"),
        ({"startingTimestamp": "5"}, "option startingTimestamp does not apply beside history"),
        ({"decompress": "true"}, "option decompress does not apply to a read with history"),
        ({"catalog": "here"}, "is not NAME:NAMESPACE.TABLE"),
        ({"subscribe": "库存"}, "was not exported into it"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, str], text: str) -> None:
    put(tmp_path / "store", 0, 10)
    whole(tmp_path / "store", tmp_path / "out", topics=["Orders"])
    with pytest.raises(UsageError, match=text):
        Query(tmp_path / "store", tmp_path / "out", **options)


def test_a_checkpoint_of_another_source(tmp_path: Path) -> None:
    put(tmp_path / "store", 0, 10)
    whole(tmp_path / "store", tmp_path / "out")
    query = Query(tmp_path / "store", tmp_path / "out")
    for place in (5, {}, {"version": "1", "after": None, "files": 0}, {"version": 1, "after": "0", "files": 0}):
        with pytest.raises(UsageError, match="names no place in a table; begin with a new checkpoint"):
            query.stream.next_end({HISTORY: place, "@then": {}})


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_events(tmp_path: Path, make: Export, to: str, seed: int) -> None:
    """Puts, exports, retention of what is exported, micro-batches, deaths: all messages come, each once."""
    chosen = random.Random(seed)
    store, out = tmp_path / "store", tmp_path / "out"
    done = exported = chosen.randrange(20, 200)
    put(store, 0, done, **SMALL)
    make(store, out, to=to)
    query = Query(store, out, maxOffsetsPerTrigger=chosen.choice([15, 60, 1000]))
    for _ in range(12):
        event = chosen.choice(["put", "put", "export", "expire", "batch", "batch", "die"])
        if event == "put":
            more = chosen.randrange(1, 120)
            put(store, done, done + more, **SMALL)
            done += more
        elif event == "export":
            make(store, out, to=to)
            exported = done
        elif event == "expire" and exported == done and query.backfills:
            expire(store, chosen.choice([1, 2]))
        elif event == "batch":
            query.batch(twice=chosen.random() < 0.3)
        elif event == "die":
            query.start()
    query.drain()
    assert Counter(query.rows) == Counter(("", number) for number in range(done))


def test_files_that_were_rewritten_are_not_taken_for_new_ones(tmp_path: Path) -> None:
    """A version without the files that are done has their rows in others."""
    store, out = tmp_path / "store", tmp_path / "out"
    versions = []
    for begin in (0, 20, 40):
        put(store, begin, begin + 20)
        whole(store, out, to="delta", partition_by=())
        versions.append(DeltaTable(str(out)).version())
    stream = Query(store, out).stream
    fresh = stream.tasks(Backfill(versions[2], versions[0], 0, {}).offset(), {})
    assert len(fresh) == 2
    assert DeltaTable(str(out)).optimize.compact()["numFilesRemoved"] == 3
    with pytest.raises(StoreError, match="was rewritten while it was read"):
        stream.tasks(Backfill(DeltaTable(str(out)).version(), versions[0], 0, {}).offset(), {})
