"""Stores as namespaces of Spark's catalog, their topics as tables."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, open_store
from flintmq.spark.door import JAR
from tests.support.engine import put_messages
from tests.support.spark_reading import SPARK

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)"),
    pytest.mark.skipif(os.environ.get("FLINTMQ_JAR") == "0", reason="FLINTMQ_JAR=0: without the jar"),
]

SETTING = "spark.sql.catalog."
NUMBERS = iter(range(1000))


def filled(path: Path, **topics: int) -> Path:
    """A store with so many messages of each topic."""
    numbers = [(topic, number) for topic, count in topics.items() for number in range(count)]
    put_messages(path, [Message(topic, b"%d" % number, keys=f"k{number}") for topic, number in numbers])
    return path


@pytest.fixture
def named(spark: Any) -> Iterator[Any]:
    """Makes a catalog of a new name; Spark keeps those that it has loaded."""
    given: list[str] = []

    def make(**settings: object) -> str:
        name = f"mq{next(NUMBERS)}"
        for setting, value in {"": "flintmq.spark.Catalog", **settings}.items():
            key = f"{SETTING}{name}.{setting}".rstrip(".")
            spark.conf.set(key, str(value))
            given.append(key)
        return name

    yield make
    for key in given:
        spark.conf.unset(key)


def rows(spark: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def test_topics_of_a_store_are_tables(spark, named, tmp_path):
    mq = named(path=filled(tmp_path / "store", Orders=30, Payments=7))
    assert rows(spark, f"SHOW TABLES IN {mq}") == [("", "Orders", False), ("", "Payments", False)]
    assert rows(spark, f"SELECT count(*), count(DISTINCT topic) FROM {mq}.Orders") == [(30, 1)]
    assert spark.table(f"{mq}.Payments").where("queue_offset = 3").count() == 1
    described = dict(row[:2] for row in rows(spark, f"DESCRIBE EXTENDED {mq}.Orders"))
    assert described["body"] == "binary" and described["Provider"] == "flintmq"
    assert described["Location"] == str(tmp_path / "store") and "Orders" in described["Comment"]


def test_stores_are_namespaces(spark, named, tmp_path):
    shop, bank = filled(tmp_path / "shop", Orders=3), filled(tmp_path / "bank", Orders=5, Transfers=1)
    mq = named(**{"stores.shop": shop, "stores.bank": bank})
    assert sorted(rows(spark, f"SHOW NAMESPACES IN {mq}")) == [("bank",), ("shop",)]
    assert rows(spark, f"SHOW TABLES IN {mq}.bank") == [("bank", "Orders", False), ("bank", "Transfers", False)]
    joined = f"SELECT count(*) FROM {mq}.shop.Orders s JOIN {mq}.bank.Orders b ON s.queue_offset = b.queue_offset"
    assert rows(spark, f"{joined} AND s.queue_id = b.queue_id") == [(3,)]
    spark.sql(f"USE {mq}.bank")
    try:
        assert rows(spark, "SELECT count(*) FROM Orders") == [(5,)]
    finally:
        spark.sql("USE spark_catalog.default")


def test_a_table_has_the_messages_of_now_and_a_new_topic_is_there(spark, named, tmp_path):
    mq = named(path=filled(tmp_path / "store", Orders=3))
    assert rows(spark, f"SELECT count(*) FROM {mq}.Orders") == [(3,)]
    filled(tmp_path / "store", Orders=2, Refunds=1)
    assert rows(spark, f"SELECT count(*) FROM {mq}.Orders") == [(5,)]
    assert rows(spark, f"SELECT keys FROM {mq}.Refunds") == [("k0",)]


def test_what_the_files_say_is_a_table_below_each_topic(spark, named, tmp_path):
    mq = named(path=filled(tmp_path / "store", Orders=9, Payments=4))
    found = rows(spark, f"SELECT topic, sum(messages) FROM {mq}.Orders.queues GROUP BY topic")
    assert found == [("Orders", 9)]
    tables = [("Payments", name, False) for name in ("queues", "groups", "index", "halves", "timers", "dead")]
    assert sorted(rows(spark, f"SHOW TABLES IN {mq}.Payments")) == sorted(tables)
    offsets = {"offsetTable": {"Orders@billing": {"0": 4}, "Payments@billing": {"0": 4}}}
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    wanted = "SELECT consumer_group, next_offset, lag"
    assert rows(spark, f"{wanted} FROM {mq}.Orders.groups WHERE queue_id = 0") == [("billing", 4, 5)]
    with open_store(tmp_path / "store") as view:
        places = {view.get("Payments", 0, number).physical_offset for number in range(4)}
    found = rows(spark, f"SELECT physical_offset FROM {mq}.Payments.index")
    assert {offset for (offset,) in found} == places and len(places) == 4
    assert rows(spark, f"SELECT count(*) FROM {mq}.Payments.index") == [(len(found),)]


@pytest.mark.parametrize("table", ["queues", "groups", "index", "halves", "timers", "dead"])
def test_options_of_messages_are_none_of_a_metadata_table(spark, named, tmp_path, table):
    mq = named(
        path=filled(tmp_path / "store", Orders=6), minpartitions=2, body="text", startingTimestamp=1_577_836_800_000
    )
    assert rows(spark, f"SELECT body FROM {mq}.Orders WHERE queue_offset = 5") == [("5",)]
    found = {"queues": 1, "groups": 0, "index": 12, "halves": 0, "timers": 0, "dead": 0}  # a key and an id of each
    assert rows(spark, f"SELECT count(*) FROM {mq}.Orders.{table}") == [(found[table],)]


def test_a_metadata_table_is_not_written(spark, named, tmp_path):
    from pyspark.errors import PySparkException

    mq = named(path=filled(tmp_path / "store", Orders=1), writable="true")
    with pytest.raises(PySparkException, match="flintmq writes messages; a table queues is read from other files"):
        spark.sql(f"INSERT INTO {mq}.Orders.queues SELECT * FROM {mq}.Orders.queues")


@pytest.mark.parametrize("name", ["Nothing", "Orders.nothing", "nowhere.Orders"])
def test_what_is_not_there_is_no_table(spark, named, tmp_path, name):
    from pyspark.errors import AnalysisException

    mq = named(path=filled(tmp_path / "store", Orders=1))
    with pytest.raises(AnalysisException) as refused:
        spark.table(f"{mq}.{name}")
    assert refused.value.getCondition() in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")


def test_a_time_shows_what_was_stored_until_then(spark, named, tmp_path):
    mq = named(path=filled(tmp_path / "store", Orders=20))
    (last,) = rows(spark, f"SELECT max(store_timestamp) FROM {mq}.Orders")[0]
    assert rows(spark, f"SELECT count(*) FROM {mq}.Orders TIMESTAMP AS OF '{last}'") == [(20,)]
    before = f"timestamp'{last}' - INTERVAL 1 HOUR"
    assert rows(spark, f"SELECT count(*) FROM {mq}.Orders TIMESTAMP AS OF {before}") == [(0,)]


@pytest.mark.parametrize(
    ("table", "travel", "words"),
    [
        ("Orders", "TIMESTAMP AS OF '1989-12-31'", "TIMESTAMP AS OF 1989-12-31T.*Z: .*name a time since 1990-01-01"),
        (
            "Orders.queues",
            "TIMESTAMP AS OF '2026-01-01'",
            "TIMESTAMP AS OF is for messages; a table queues shows .* now",
        ),
        ("Orders", "VERSION AS OF 3", "no versions: time travel is by store time, as TIMESTAMP AS OF '"),
    ],
)
def test_time_travel_that_there_is_not_is_refused_in_the_words_of_sql(spark, named, tmp_path, table, travel, words):
    from pyspark.errors import PySparkException

    mq = named(path=filled(tmp_path / "store", Orders=1))
    with pytest.raises(PySparkException, match=words) as refused:
        spark.sql(f"SELECT * FROM {mq}.{table} {travel}").collect()
    assert "endingTimestamp" not in str(refused.value)


def test_a_permanent_view_and_a_stream_of_a_table(spark, named, tmp_path):
    mq = named(path=filled(tmp_path / "store", Orders=12))
    spark.sql(f"CREATE VIEW keys_of_orders AS SELECT keys FROM {mq}.Orders WHERE queue_id = 0")
    try:
        assert spark.table("keys_of_orders").count() == len(rows(spark, "SELECT * FROM keys_of_orders"))
    finally:
        spark.sql("DROP VIEW keys_of_orders")
    sizes: list[int] = []
    reading = spark.readStream.option("startingOffsets", "earliest").table(f"{mq}.Orders")
    writing = reading.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writing.foreachBatch(lambda frame, _: sizes.append(frame.count())).start().awaitTermination()
    assert sum(sizes) == 12


def test_nothing_is_written_unless_the_catalog_says_so(spark, named, tmp_path):
    from pyspark.errors import PySparkException

    mq = named(path=filled(tmp_path / "store", Orders=1))
    words = r"this catalog of flintmq writes nothing; set spark\.sql\.catalog\.NAME\.writable=true"
    for how in ("INTO", "OVERWRITE"):
        with pytest.raises(PySparkException, match=words):
            spark.sql(f"INSERT {how} {mq}.Orders SELECT * FROM {mq}.Orders")
    reading = spark.readStream.table(f"{mq}.Orders").writeStream.option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(PySparkException, match=words):
        reading.trigger(availableNow=True).toTable(f"{mq}.Orders").awaitTermination()
    for change in (f"DROP TABLE {mq}.Orders", f"ALTER TABLE {mq}.Orders ADD COLUMN x int"):
        with pytest.raises(PySparkException):
            spark.sql(change)
    with open_store(tmp_path / "store") as view:
        assert view.topics() == ["Orders"]
    assert rows(spark, f"SELECT count(*) FROM {mq}.Orders") == [(1,)]


@pytest.mark.skipif(SPARK < (4, 1), reason="Spark 4.0 wants all columns of an INSERT")
def test_rows_are_put_into_the_topic_of_the_table(spark, named, tmp_path):
    from pyspark.errors import PySparkException

    mq = named(path=filled(tmp_path / "store", Orders=1), writable="true")
    spark.sql(f"INSERT INTO {mq}.Orders (body, keys) VALUES (X'6f6e65', 'k-new'), (X'74776f', NULL)")
    with open_store(tmp_path / "store") as view:
        found = [view.get("Orders", 0, offset) for offset in range(3)]
        assert [message.body for message in found] == [b"0", b"one", b"two"]
        assert found[1].keys == "k-new"
    with pytest.raises(PySparkException, match="its topic is not .*Orders"):
        spark.sql(f"INSERT INTO {mq}.Orders (topic, body) VALUES ('Payments', X'01')")
    with open_store(tmp_path / "store") as view:
        assert view.topics() == ["Orders"]


def test_several_stores_are_not_written(spark, named, tmp_path):
    """By a pattern a new store would be made whose name is the pattern."""
    from pyspark.errors import PySparkException

    for name in ("a", "b"):
        filled(tmp_path / name / "store", Orders=2)
    mq = named(**{"stores.all": tmp_path / "*" / "store", "writable": "true"})
    assert rows(spark, f"SELECT count(*) FROM {mq}.all.Orders") == [(4,)]
    with pytest.raises(PySparkException, match="flintmq writes into one store, and this table is of several"):
        spark.sql(f"INSERT INTO {mq}.all.Orders SELECT * FROM {mq}.all.Orders")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_catalog_without_a_store_says_how_to_give_one(spark, named):
    from pyspark.errors import PySparkException

    mq = named()
    with pytest.raises(PySparkException, match=r"the catalog has no store; give it one: spark\.sql\.catalog"):
        spark.sql(f"SHOW TABLES IN {mq}").collect()


@pytest.mark.parametrize("user", ["user:hidden", ":hidden"])
def test_a_catalog_with_a_password_is_refused(spark, named, tmp_path, user):
    """Spark writes its settings into the event log."""
    from pyspark.errors import PySparkException

    mq = named(path=filled(tmp_path / "store", Orders=1), schemaregistry=f"https://{user}@registry")
    with pytest.raises(PySparkException, match=r"schemaRegistry has a password.*~/\.netrc") as refused:
        spark.sql(f"SELECT * FROM {mq}.Orders").collect()
    assert "hidden" not in str(refused.value)


def test_a_topic_with_a_comma_or_blanks_is_that_topic(spark, named, tmp_path):
    counts = {"a": 1, "b": 2, "a,b": 4, "ord": 1, "ord ": 2, " lead": 3, "x.y*": 5}
    for topic, count in counts.items():
        filled(tmp_path / "store", **{topic: count})
    mq = named(path=tmp_path / "store")
    for topic, count in counts.items():
        assert rows(spark, f"SELECT topic, count(*) FROM {mq}.`{topic}` GROUP BY 1") == [(topic, count)]
        assert rows(spark, f"SELECT sum(messages) FROM {mq}.`{topic}`.queues") == [(count,)]
