"""Topics of arguments that nobody has are refused, as by export and Spark; those of filters are conditions."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.errors import UsageError
from flintmq.lake.export.export_once import export
from flintmq.store.commitlog.report import Report


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two brokers, of which each has a topic of its own; topics.json of one has a topic without messages."""
    for broker, topic in (("a", "Orders"), ("b", "Refunds")):
        with MessageStore(tmp_path / broker, dev=True) as store:
            store.put(Message(topic, b"1"))
    return tmp_path


def arrow(*given: Any, **named: Any) -> int:
    return flintmq.scan_arrow(*given, **named).read_all().num_rows


def rows(*given: Any, **named: Any) -> int:
    return flintmq.dataset(*given, **named).count_rows()


def frame(*given: Any, **named: Any) -> int:
    return flintmq.scan_polars(*given, **named).collect().height


READS: list[Callable[..., int]] = [arrow, rows, frame]


@pytest.mark.parametrize("read", READS)
def test_a_topic_that_the_store_has_not(data: Path, read: Callable[..., int]) -> None:
    store = data / "a"
    said = f"{store}: the store has no topic 'Order'; did you mean 'Orders'?"
    rest = "; strict=False reads the rest"  # if there is a rest
    for named in ({"topics": "Order"}, {"topics": ["Orders", "Order"]}, {"queues": [("Order", 0)]}):
        with pytest.raises(UsageError) as caught:
            read(store, **named)
        assert str(caught.value) == said + (rest if named == {"topics": ["Orders", "Order"]} else "")
    report = Report()
    assert read(store, topics=["Orders", "Order"], strict=False, report=report) == 1
    assert [(note.code, note.text) for note in report.notes] == [
        ("not-there", f"{store}: the store has no topic 'Order'; did you mean 'Orders'?")
    ]
    assert read(store, topics="Orders") == 1 and read(store, topics=[]) == 0


@pytest.mark.parametrize("read", READS)
def test_of_several_stores_one_must_have_it(data: Path, read: Callable[..., int]) -> None:
    stores = [data / "a", data / "b"]
    assert read(stores, topics="Refunds") == 1
    with pytest.raises(UsageError, match=r"has no topic 'Order'; did you mean .*\(nor have 1 other stores\)"):
        read(stores, topics="Order")


@pytest.mark.parametrize("read", READS)
def test_a_topic_that_only_the_history_has_is_known(
    data: Path, tmp_path: Path, read: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out = data / "a", tmp_path / "out"
    export(str(store), str(out))
    with pytest.raises(UsageError, match="has no topic 'Order'"):
        read(store, topics="Order", history=out)
    # As if all messages of the topic had expired, with its queues.
    monkeypatch.setattr(
        "flintmq.store.read.known_topics.unknown_topics",
        lambda _, predicate, advice: {name: UsageError(f"no {name}", advice=advice) for name in predicate.named_topics},
    )
    assert read(store, topics="Orders", history=out) == 1
    with pytest.raises(UsageError, match="no Order; strict=False reads the rest"):
        read(store, topics=["Order", "Orders"], history=out)
    report = Report()
    assert read(store, topics=["Order", "Orders"], history=out, strict=False, report=report) == 1
    assert [note.text for note in report.notes if note.code == "not-there"] == ["no Order"]


def test_a_log_alone_may_have_any_topic(data: Path, tmp_path: Path) -> None:
    """Nobody knows its topics before it is read, and nobody reads it twice."""
    shutil.copytree(data / "a" / "commitlog", tmp_path / "log" / "commitlog")
    assert arrow(tmp_path / "log", topics="Order") == 0 and arrow(tmp_path / "log", topics="Orders") == 1


def test_filters_are_conditions(data: Path) -> None:
    assert flintmq.dataset(data / "a").filter(ds.field("topic") == "Order").count_rows() == 0
    import duckdb

    messages = flintmq.dataset(data / "a")
    assert duckdb.sql("select count(*) from messages where topic = 'Order'").fetchall() == [(0,)]
    assert messages.failure is None


def test_a_log_alone_among_other_stores_may_have_any_topic(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "b" / "commitlog", tmp_path / "log" / "commitlog")
    try:
        assert arrow([data / "a", tmp_path / "log"], topics="Refunds") == 1
    except UsageError as error:
        pytest.fail(str(error))
