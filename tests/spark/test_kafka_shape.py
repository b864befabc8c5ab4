"""Rows with the columns of Spark's Kafka source: a program for that one runs with another format and a path."""

from typing import Any

import pytest

from flintmq import Message
from flintmq.errors import UsageError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.options import StreamOptions
from tests.support.engine import put_messages
from tests.support.spark_reading import by_python, limited

pytestmark = pytest.mark.spark
COLUMNS = [  # of org.apache.spark.sql.kafka010.KafkaRecordToRowConverter
    ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint"),
    ("timestamp", "timestamp"), ("timestampType", "int"),
]  # fmt: skip
HEADERS = ("headers", "array<struct<key:string,value:binary>>")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("kafka") / "store"
    made = [Message("orders", b"%d" % n, keys=f"k{n}" if n % 3 else None, queue_id=n % 2) for n in range(30)]
    put_messages(path, [*made, Message("orders", b"", properties={"city": "Köln"}), Message("other", b"x")])
    return str(path)


@pytest.fixture(params=["flintmq", "flintmq_python"])
def load(request: pytest.FixtureRequest, spark: Any, store: str) -> Any:
    by_python(spark)
    return lambda **options: spark.read.format(request.param).options(shape="kafka", **options).load(store)


def test_columns_are_those_of_kafkas_source(load):
    assert load().dtypes == COLUMNS
    assert load(includeHeaders="true").dtypes == [*COLUMNS, HEADERS]


def test_a_program_for_kafka(load):
    """As Spark's own guide for Kafka has it."""
    frame = load(subscribe="orders").selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset")
    rows = {(row.partition, row.offset): (row.key, row.value) for row in frame.where("value <> ''").collect()}
    assert rows == {(n % 2, n // 2): (f"k{n}" if n % 3 else None, str(n)) for n in range(30)}


def test_times_are_those_of_the_store(load, spark, store):
    want = {
        (row.queue_id, row.queue_offset): row.store_timestamp
        for row in spark.read.format("flintmq").option("subscribe", "orders").load(store).collect()
    }
    rows = load(subscribe="orders").select("timestamp", "timestampType", "partition", "offset").collect()
    assert {(row.partition, row.offset): row.timestamp for row in rows} == want
    assert {row.timestampType for row in rows} == {1}, "Kafka's LogAppendTime"


def test_headers_are_the_properties(load):
    rows = load(includeHeaders="true").where("value = X''").select("headers").collect()
    (headers,) = [dict(row.headers) for row in rows]
    assert headers["city"] == "Köln".encode()


def test_filters_on_names_of_kafka(load):
    assert load().where("partition = 1 AND topic = 'orders'").count() == 15
    assert load().where("timestamp < timestamp'1970-01-02'").count() == 0
    assert load().where("key = X'6b31'").count() == 1, "the key k1"
    assert load().where("offset >= 3").select("offset").distinct().count() == 13
    assert load().count() == 32


def test_columns_that_are_chosen(load):
    assert load(columns="offset,topic").dtypes == [("offset", "bigint"), ("topic", "string")]
    assert load(columns="timestampType").count() == 32


def test_a_stream(spark, store, tmp_path):
    frame = (
        spark.readStream.format("flintmq")
        .options(shape="kafka", subscribe="orders", **limited(maxOffsetsPerTrigger=10))
        .load(store)
    )
    found: list[tuple[int, int]] = []
    writing = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = writing.foreachBatch(
        lambda rows, _: found.extend(
            (row.partition, row.offset) for row in rows.select("partition", "offset").collect()
        )
    ).start()
    query.awaitTermination()
    assert len(found) == len(set(found)) == 31


@pytest.mark.parametrize(
    "options, told",
    [
        ({"kafka.bootstrap.servers": "b:9092"}, "path names the store"),
        ({"kafka.group.id": "g"}, "there is no broker in between"),
        ({"groupIdPrefix": "g"}, "a read belongs to no group"),
        ({"fetchOffset.numRetries": "3"}, "offsets are in the store's files"),
        ({"kafkaConsumer.pollTimeoutMs": "512"}, "there is no consumer"),
        ({"includeHeaders": "true"}, "includeHeaders is for shape=kafka"),
        ({"shape": "rows"}, "option shape: 'rows' is not one of messages, kafka"),
        ({"shape": "kafka", "history": "/table"}, "does not apply to a read with history"),
    ],
)
def test_what_has_no_counterpart_is_told(options, told):
    for parse in (ReadOptions.parse, StreamOptions.parse):
        with pytest.raises(UsageError, match=told):
            parse({"path": "/store", **options})
