"""The schema on Spark: the one schema, narrowed by name, never changed in type."""

import pyspark.sql.types as types
import pytest

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.errors import UsageError
from flintmq.message import COLUMNS
from flintmq.spark.schema import check_schema, spark_schema


def test_it_has_the_columns_of_the_one_schema():
    schema = spark_schema()
    assert tuple(schema.fieldNames()) == COLUMNS
    assert schema["properties"].dataType == types.MapType(types.StringType(), types.StringType())
    assert schema["store_timestamp"].dataType == types.TimestampType()


def test_columns_in_the_order_asked_for():
    assert spark_schema(["body", "topic"]).simpleString() == "struct<body:binary,topic:string>"


def test_the_arrow_schema_is_what_spark_expects():
    assert check_schema(spark_schema(), None).equals(SPARK_SCHEMA)
    narrow = types.StructType([types.StructField("queue_id", types.IntegerType(), nullable=False)])
    assert check_schema(narrow, None).field("queue_id").nullable is False


@pytest.mark.parametrize(
    "text, columns, complaint",
    [
        ("topics string", None, "did you mean topic"),
        ("queueOffset long", None, "did you mean queue_offset"),
        ("queue_id long", None, "queue_id is of type int, not bigint"),
        ("store_timestamp long", None, "is of type timestamp"),
        ("topic string", ("body",), "give one of them"),
    ],
)
def test_what_is_refused(text, columns, complaint):
    schema = types.StructType()
    for part in text.split(","):
        schema = schema.add(part.split()[0], part.split()[1])
    with pytest.raises(UsageError, match=complaint):
        check_schema(schema, columns)
