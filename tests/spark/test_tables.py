"""Stores as tables of Spark's own catalog, by `flintmq.spark.table`."""

import re

import pytest

import flintmq.spark
from flintmq import Message, MessageStore
from flintmq.errors import UsageError

pytestmark = pytest.mark.spark


def filled(path, **topics):
    with MessageStore(path) as store:
        for topic, count in topics.items():
            for number in range(count):
                store.put(Message(topic, b"%d" % number, queue_id=number % 2, keys=f"k{number}"))
    return str(path)


@pytest.fixture
def drop(spark):
    names = []
    yield lambda kind, name: names.append(f"DROP {kind} IF EXISTS spark_catalog.{name}") or name
    for statement in reversed(names):
        spark.sql(statement)


def test_sql_views_and_streams_know_it_by_name(spark, drop, tmp_path):
    path = filled(tmp_path / "store", Orders=10, Payments=3)
    orders = flintmq.spark.table(spark, drop("TABLE", "default.orders_1"), path, subscribe="Orders")
    assert orders.count() == 10
    assert spark.sql("SELECT count(*) FROM orders_1 WHERE queue_id = 1").collect()[0][0] == 5
    spark.sql(f"CREATE VIEW {drop('VIEW', 'default.by_queue')} AS SELECT queue_id, count(*) n FROM orders_1 GROUP BY 1")
    filled(tmp_path / "store", Orders=2)
    assert {tuple(row) for row in spark.table("by_queue").collect()} == {(0, 6), (1, 6)}  # what is there now
    sizes = []
    writing = spark.readStream.table("orders_1").writeStream.trigger(availableNow=True)
    writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writing.foreachBatch(lambda frame, _: sizes.append(frame.count())).start().awaitTermination()
    assert sum(sizes) == 12


def test_two_tables_have_their_own_options(spark, drop, tmp_path):
    path = filled(tmp_path / "store", Orders=4, Payments=3)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {drop('DATABASE', 'shop')}")
    one = flintmq.spark.table(spark, drop("TABLE", "default.shop_t"), path, subscribe="Orders")
    other = flintmq.spark.table(spark, drop("TABLE", "shop.t"), path, subscribe="Payments", view="queues")
    third = flintmq.spark.table(spark, drop("TABLE", "shop.shop_t"), path, subscribe="Payments")
    assert (one.count(), other.groupBy().sum("messages").first()[0], third.count()) == (4, 3, 3)
    spark.sql("USE shop")
    try:
        assert flintmq.spark.table(spark, "T", path, subscribe="Payments", view="queues").columns == other.columns
    finally:
        spark.sql("USE spark_catalog.default")


def test_a_program_that_comes_later_binds_the_name_again(spark, drop, tmp_path):
    name = drop("TABLE", "default.later")
    flintmq.spark.table(spark, name, filled(tmp_path / "a", Orders=4))
    assert flintmq.spark.table(spark, name, filled(tmp_path / "b", Orders=6)).count() == 6


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("default.refused", {"subscrib": "Orders"}, "subscrib.*did you mean.*subscribe|subscrib.*subscribe"),
        ("a.b.c", {}, "'a.b.c' is no name of a table"),
        ("`x`; DROP TABLE y", {}, "is no name of a table"),
        ("default.taken", {}, "there is another table 'default.taken'"),
        ("default.made", {"columns": "topic"}, "was made with other columns than these options have; DROP TABLE"),
    ],
)
def test_what_is_refused(spark, drop, tmp_path, name, options, complaint):
    path = filled(tmp_path / "store", Orders=1)
    spark.sql(f"CREATE TABLE {drop('TABLE', 'default.taken')} (n INT) USING parquet")
    flintmq.spark.table(spark, drop("TABLE", "default.made"), path)
    with pytest.raises(UsageError, match=complaint) as refused:
        flintmq.spark.table(spark, name, path, **options)
    assert not re.search("\n", str(refused.value))
    assert not spark.catalog.tableExists("default.refused")
