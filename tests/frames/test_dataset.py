"""The dataset gives what scan_arrow gives, filtered; and asks the scan for no more than is needed."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import flintmq
from flintmq.arrow.options import ScanOptions
from flintmq.errors import CorruptStoreError, NotAStoreError, UsageError
from flintmq.frames import dataset as module
from flintmq.store.commitlog.predicate import Predicate


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Predicate]]:
    """What the scan is asked for."""
    calls: list[tuple[list[str], Predicate]] = []
    real = module.read_members

    def spy(members: Any, schema: Any, predicate: Predicate, *options: Any) -> Any:
        calls.append((schema.names, predicate))
        return real(members, schema, predicate, *options)

    monkeypatch.setattr(module, "read_members", spy)
    return calls


def test_rows_are_those_of_the_scan(golden: Any) -> None:
    path = golden("basic").path
    whole = flintmq.scan_arrow(path).read_all()
    messages = flintmq.dataset(path)
    assert messages.schema == whole.schema
    assert messages.to_table() == whole and messages.count_rows() == whole.num_rows
    assert messages.head(5, columns=["keys"]) == whole.select(["keys"]).slice(0, 5)
    wanted = (pc.field("topic") == "Orders") & (pc.field("size") > 200)
    assert messages.to_table(columns=["body"], filter=wanted) == whole.filter(wanted).select(["body"])
    assert (
        messages.filter(pc.field("queue_id") == 1).count_rows(wanted)
        == whole.filter(wanted & (pc.field("queue_id") == 1)).num_rows
    )
    assert sum(batch.num_rows for batch in messages.to_batches(columns=["topic"])) == whole.num_rows


def test_columns_and_rows_go_into_the_scan(golden: Any, asked: list[tuple[list[str], Predicate]]) -> None:
    messages = flintmq.dataset(golden("basic").path, topics=["Orders", "Payments"])
    wanted = (pc.field("topic") == "Orders") & (pc.field("size") > 200)
    messages.to_table(columns=["keys"], filter=wanted)
    assert asked[-1] == (["keys", "topic", "size"], Predicate(topics=frozenset(["Orders"])))
    messages.count_rows()
    assert asked[-1] == (["queue_id"], Predicate(topics=frozenset(["Orders", "Payments"])))


def test_a_filter_that_is_not_understood_is_applied_all_the_same(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden("basic").path
    wanted = pc.field("topic") == "Orders"
    expected = flintmq.scan_arrow(path).read_all().filter(wanted).select(["keys"])
    monkeypatch.setattr(module, "tree_of", lambda expression: None)
    assert flintmq.dataset(path).to_table(columns=["keys"], filter=wanted) == expected


def test_duckdb_pushes_into_it(golden: Any, asked: list[tuple[list[str], Predicate]]) -> None:
    import duckdb

    path = golden("basic").path
    messages = flintmq.dataset(path)  # noqa: F841 (DuckDB finds it by name)
    found = duckdb.sql(
        "select count(*) from messages where topic in ('Orders', 'Payments') and queue_id = 1"
        " and store_timestamp >= '2026-11-20 09:36:20.600Z' and size > 200"
    ).fetchall()
    table = flintmq.scan_arrow(path, topics=["Orders", "Payments"], queues=[1], since=1795167380600).read_all()
    assert found == [(table.filter(pc.field("size") > 200).num_rows,)] and found[0][0] > 0
    names, predicate = asked[-1]
    assert set(names) <= {"topic", "queue_id", "store_timestamp", "size"}
    assert predicate.topics == {"Orders", "Payments"} and predicate.queue_ids == {1}
    assert predicate.since == 1795167380600
    assert duckdb.sql("select count(*) from messages a join messages b using (physical_offset)").fetchall() == [(3000,)]


def test_damage_is_kept_as_it_was_raised(golden: Any, tmp_path: Any) -> None:
    store = golden("basic").copy(tmp_path)
    with (store / "commitlog" / "00000000000000262144").open("rb+") as file:
        file.write(b"\xff" * 50)
    messages = flintmq.dataset(store)
    with pytest.raises(CorruptStoreError, match="00000000000000262144"):
        messages.to_table()
    assert isinstance(messages.failure, CorruptStoreError)
    assert 0 < flintmq.dataset(store, strict=False).count_rows() < 3000


def test_refusals(golden: Any, tmp_path: Any) -> None:
    messages = flintmq.dataset(golden("basic").path)
    with pytest.raises(UsageError, match="no column 'topics'"):
        messages.to_table(columns=["topics"])
    with pytest.raises(UsageError, match="computed"):
        messages.scanner(columns={"x": pc.field("size") + 1})
    with pytest.raises(UsageError, match="DuckDB"):
        messages.get_fragments()
    with pytest.raises(NotAStoreError):
        flintmq.dataset(tmp_path / "none")
    with pytest.raises(UsageError, match="threads"):
        flintmq.dataset(golden("basic").path, threads=0)


def test_a_store_that_is_written_is_read_anew_each_time(tmp_path: Any) -> None:
    messages, counts = None, []
    with flintmq.MessageStore(tmp_path / "s") as store:
        for number in range(3):
            for _ in range(100):
                store.put(flintmq.Message("T", b"body", keys=str(number)))
            messages = messages or flintmq.dataset(tmp_path / "s")
            counts.append((messages.count_rows(), messages.count_rows(pc.field("keys") == str(number))))
    assert counts == [(100, 100), (200, 100), (300, 100)]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("column", ["store_timestamp", "born_timestamp"])
@pytest.mark.parametrize("far", [2**62, -(2**62)])
def test_a_list_with_a_time_that_python_has_not(golden: Any, unit: str, column: str, far: int) -> None:
    """The reader takes nothing from such a list, and Arrow applies it."""
    messages = flintmq.dataset(golden("basic").path)
    there = messages.to_table(columns=[column]).column(0).cast(pa.int64()).to_pylist()
    known = there[7] * {"ms": 1, "us": 1000, "ns": 10**6}[unit]
    values = pa.array([known, far], pa.timestamp(unit, "UTC"))
    assert messages.count_rows(pc.field(column).isin(values)) == there.count(there[7])


def test_other_options_keep_the_filter(golden: Any) -> None:
    messages = flintmq.dataset(golden("basic").path).filter(pc.field("queue_offset") == 0)
    queues = len({(row["topic"], row["queue_id"]) for row in golden("basic").rows})
    assert messages.with_options(ScanOptions(access="map")).count_rows() == queues > 1
