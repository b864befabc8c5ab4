"""Several stores as one: the rows are those of each store, with the columns broker and store."""

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pc = pytest.importorskip("pyarrow.compute", reason="pyarrow is not installed")

import flintmq  # noqa: E402
from flintmq.errors import NotAStoreError, UsageError  # noqa: E402
from flintmq.frames.sql import ask  # noqa: E402
from tests.cluster.conftest import brokers  # noqa: E402, F401 (a fixture)

NAMES = ["broker-a", "broker-b", "库存"]


def expected(brokers: Path, **options: Any) -> Any:  # noqa: F811
    parts = []
    for name in NAMES:
        path = f"{brokers}/{name}/store"
        table = flintmq.scan_arrow(path, strict=False, **options).read_all()  # not each store has the topic
        for column, value in (("broker", name), ("store", path)):
            table = table.append_column(column, pa.array([value] * table.num_rows, pa.string()))
        parts.append(table)
    return pa.concat_tables(parts)


@pytest.mark.parametrize(
    "options", [{}, {"topics": "Orders"}, {"threads": 2}, {"access": "map"}, {"batch_bytes": 9999}]
)
def test_rows_are_those_of_each_store(brokers: Path, options: dict[str, Any]) -> None:  # noqa: F811
    found = flintmq.scan_arrow(f"{brokers}/{{broker}}/store", **options)
    assert found.schema.names == [*flintmq.COLUMNS, "broker", "store"]
    assert found.read_all() == expected(brokers, **options)


def test_columns_are_narrowed_and_ordered(brokers: Path) -> None:  # noqa: F811
    whole = expected(brokers)
    for columns in (["broker"], ["store", "topic"], ["keys", "broker", "size"], ["size"]):
        found = flintmq.scan_arrow(f"{brokers}/*/store", columns=columns).read_all()
        assert found == whole.select(columns)
    with pytest.raises(UsageError, match="no column 'broker'"):
        flintmq.scan_arrow(f"{brokers}/broker-a/store", columns=["broker"])


def test_views_say_the_same(brokers: Path) -> None:  # noqa: F811
    found = flintmq.scan_arrow(f"{brokers}/*/store", views=True).read_all()
    assert found.num_rows == expected(brokers).num_rows
    for name in ("broker", "store", "keys", "queue_offset"):
        assert found.column(name).to_pylist() == expected(brokers).column(name).to_pylist()


def test_log_offsets_are_of_one_store(brokers: Path) -> None:  # noqa: F811
    for bound in ({"begin": 0}, {"end": 5}):
        with pytest.raises(UsageError, match="of one store"):
            flintmq.scan_arrow(f"{brokers}/*/store", **bound)


def test_a_store_that_is_not_there(brokers: Path) -> None:  # noqa: F811
    with pytest.raises(NotAStoreError, match="mounted"):
        flintmq.scan_arrow([f"{brokers}/broker-a/store", f"{brokers}/broker-x/store"])
    found = flintmq.scan_arrow([f"{brokers}/broker-a/store", f"{brokers}/broker-x"], strict=False)
    assert set(found.read_all().column("broker").to_pylist()) == {"store"}


def test_a_filter_on_the_broker_leaves_stores_unread(brokers: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    from flintmq.arrow import scan

    read: list[str] = []
    real = scan.Snapshot.open
    monkeypatch.setattr(scan.Snapshot, "open", lambda path, *rest: read.append(str(path)) or real(path, *rest))
    messages = flintmq.dataset(f"{brokers}/*/store")
    wanted = (pc.field("broker") == "broker-b") & (pc.field("size") > 200)
    rows = expected(brokers).filter(wanted)
    read.clear()
    assert rows.num_rows and messages.to_table(filter=wanted) == rows
    assert read == [f"{brokers}/broker-b/store"]


def test_sql_has_the_columns_in_each_view(brokers: Path) -> None:  # noqa: F811
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    messages = flintmq.dataset(f"{brokers}/*/store")
    whole = expected(brokers)

    def asked(question: str) -> list[tuple[Any, ...]]:
        with ask(messages, question) as answer:
            return [tuple(row.values()) for row in answer.read_all().to_pylist()]

    counts = [(name, pc.sum(pc.equal(whole.column("broker"), name)).as_py()) for name in NAMES]
    assert asked("select broker, count(*) from messages group by 1 order by 1") == counts
    assert asked("select count(*) from messages where broker = 'broker-a'") == [counts[0][1:]]
    assert sorted(asked("select distinct broker from queues")) == [(name,) for name in NAMES]
    with flintmq.open_store(brokers / "broker-a" / "store") as view:
        own = [(queue.topic, queue.queue_id, queue.max_offset) for queue in view.queues()]
    found = asked("select topic, queue_id, max_offset from queues where broker = 'broker-a'")
    assert sorted(found) == sorted(own) and own


def test_polars_has_them_too(brokers: Path) -> None:  # noqa: F811
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = flintmq.scan_polars(f"{brokers}/*/store")
    found = frame.filter(polars.col("broker") == "库存").select("broker", "size").collect()
    whole = expected(brokers)
    assert found["size"].to_list() == whole.filter(pc.equal(whole.column("broker"), "库存")).column("size").to_pylist()
    assert len(frame.collect()) == whole.num_rows
