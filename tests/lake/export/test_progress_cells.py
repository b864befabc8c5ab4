"""What becomes of an export when log or table is replaced, put back, shortened, written again or copied.

What docs/internals/progress.md says of exports: refused by name in every door, or the rows are
those of the store, each once. Never silent.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq import Message, MessageStore, open_store
from flintmq.errors import UsageError
from flintmq.lake.export.export import Exported
from flintmq.lake.export.export_once import export
from flintmq.lake.export.export_stream import export_stream
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.history.history import History
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report
from tests.compat.recorded import bodies_in

KINDS = ["parquet whole", "parquet topic", "parquet stream", "delta topic", "iceberg topic"]
REFUSED = {
    "replaced": r"is another record|no record|the log ends at",
    "replaced by records of the same sizes": "is another record",
    "put back": "the log ends at offset",
    "put back, a little grown": "the log ends at offset|is another record",
    "put back, written again beyond the end": "is another record",
    "emptied": "the log ends at offset 0, before",
}
GOES_ON = ["as it was", "copied", "table put back", "both put back", "table copied"]


def put(store: Path, word: bytes, count: int) -> None:
    """Messages of A, then more of B, so that the log's last record is of B; all of one size."""
    with MessageStore(store, dev=True) as open_one:
        for topic, number in (("A", count), ("B", 2 * count)):
            bodies = [b"%s-%s-%03d" % (word, topic.encode(), each) for each in range(number)]
            open_one.put_many([Message(topic, body, queue_id=0, born_timestamp=1) for body in bodies])


def run(kind: str, store: Path, table: Path) -> Exported:
    to, way = kind.split()
    if way == "stream":
        return export_stream(str(store), str(table), once=True, to=to, topics=["A"])
    return export(str(store), str(table), to=to, topics=["A"] if way == "topic" else None)


def stored(kind: str, store: Path) -> Counter[bytes]:
    with open_store(store) as view:
        return Counter(m.body for m in view.messages() if kind == "parquet whole" or m.topic == "A")


def history(store: Path, table: Path) -> Counter[bytes]:
    frame = History.open(str(store), str(table), Predicate())
    schema = frame.schema
    return Counter(
        body for batch in frame.rows(schema, Report()) for body in batch.column(schema.names.index("body")).to_pylist()
    )


@pytest.fixture
def world(tmp_path: Path) -> Path:
    put(tmp_path / "store", b"one", 5)
    return tmp_path


def exported_twice(kind: str, world: Path) -> tuple[Path, Path]:
    """Export, put, export; of both times there are copies, `earlier`."""
    store, table = world / "store", world / f"{kind.split()[0]}-table"
    run(kind, store, table)
    (world / "earlier").mkdir()
    shutil.copytree(store, world / "earlier" / "store")
    shutil.copytree(table, world / "earlier" / table.name)
    put(store, b"two", 5)
    run(kind, store, table)
    assert bodies_in(table) == stored(kind, store)
    return store, table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", REFUSED)
def test_another_log_is_refused_by_every_door(world: Path, kind: str, change: str) -> None:
    store, table = exported_twice(kind, world)
    before = bodies_in(table)
    shutil.rmtree(store)
    if change.startswith("put back"):
        shutil.copytree(world / "earlier" / "store", store)
    if change == "emptied":
        MessageStore(store, dev=True).close()
        know_topics(store)
    more = {
        "replaced": (b"another one, longer", 40), "replaced by records of the same sizes": (b"off", 40),
        "put back, a little grown": (b"new", 1), "put back, written again beyond the end": (b"new", 40),
    }  # fmt: skip
    if change in more:
        put(store, *more[change])
    doors: list[Callable[[], object]] = [
        lambda: run(kind, store, table), lambda: history(store, table), lambda: compare_table(str(store), str(table)),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(UsageError, match=REFUSED[change]) as caught:
            door()
        assert str(table) in str(caught.value) and "\n" not in str(caught.value)
        assert "bring that log back" in str(caught.value)
    assert bodies_in(table) == before


def know_topics(store: Path) -> None:
    (store / "config").mkdir(exist_ok=True)
    one = {"perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
    topics = {name: {**one, "topicName": name, "order": False} for name in "AB"}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", GOES_ON)
def test_the_same_log_goes_on(world: Path, kind: str, change: str) -> None:
    store, table = exported_twice(kind, world)
    if change in ("table put back", "both put back"):
        shutil.rmtree(table)
        shutil.copytree(world / "earlier" / table.name, table)
    if change in ("copied", "both put back"):
        there = world / "earlier" / "store" if change == "both put back" else shutil.copytree(store, world / "copy")
        shutil.rmtree(store)
        store = shutil.copytree(there, world / "elsewhere")
    if change == "table copied" and not kind.startswith("iceberg"):  # Iceberg names its directory, and refuses another
        table = Path(shutil.copytree(table, world / f"{table.name}-2"))
    assert history(store, table) == stored(kind, store)
    put(store, b"end", 2)
    assert history(store, table) == stored(kind, store)
    done = run(kind, store, table)
    assert bodies_in(table) == stored(kind, store) and "unchecked" not in done.notes
    assert compare_table(str(store), str(table)).equal
    assert run(kind, store, table).rows == 0


def test_a_copy_that_is_behind_is_told_until_it_has_caught_up(world: Path) -> None:
    """The same words as for a log that was cut: only the copy itself can tell, and it can be waited for."""
    store, table = exported_twice("parquet topic", world)
    behind = world / "earlier" / "store"
    with pytest.raises(
        UsageError, match="lost its tail, was put back, is another store's, or is a copy that is behind"
    ):
        run("parquet topic", behind, table)
    shutil.rmtree(behind)
    shutil.copytree(store, behind)
    assert run("parquet topic", behind, table).rows == 0


def test_a_broker_of_a_cluster_is_named_with_a_way_out_that_keeps_the_others(tmp_path: Path) -> None:
    for broker in "xyz":
        put(tmp_path / broker, broker.encode(), 5)
    shutil.copytree(tmp_path / "y", tmp_path / "earlier")
    put(tmp_path / "y", b"y", 5)
    table, given = tmp_path / "parquet-table", [str(tmp_path / broker) for broker in "xyz"]
    export(given, str(table / "once"))
    export_stream(given, str(table / "stream"), once=True)
    shutil.rmtree(tmp_path / "y")
    (tmp_path / "earlier").rename(tmp_path / "y")
    doors: list[Callable[[], object]] = [
        lambda: export(given, str(table / "once")), lambda: export_stream(given, str(table / "stream"), once=True),
        lambda: compare_table(given, str(table / "once")), lambda: compare_table(given, str(table / "stream")),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(
            UsageError, match="broker 'y': the log ends at .*: bring that log back, leave the broker out"
        ):
            door()
    put(tmp_path / "x", b"more", 1)
    done = export([given[0], given[2]], str(table / "once"))
    assert done.rows == 3, "the others go on without it"
