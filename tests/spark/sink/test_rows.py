"""Rows of a DataFrame as messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config import StoreConfig
from flintmq.errors import UsageError
from flintmq.spark.schema import spark_schema
from flintmq.spark.sink.rows import check_columns, to_schema

SMALL = StoreConfig.from_keys({"mappedFileSizeCommitLog": 10_000, "maxMessageSize": 9000})


def rows(**columns: Any) -> pa.RecordBatch:
    types = {name: SPARK_SCHEMA.field(name).type for name in columns}
    return pa.RecordBatch.from_arrays([pa.array(v, types[k]) for k, v in columns.items()], list(columns))


def test_columns_that_may_be() -> None:
    check_columns(spark_schema())
    check_columns(spark_schema(["topic", "body"]))
    check_columns(StructType([StructField("topic", StringType()), StructField("body", StringType())]))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([("topic", StringType())], "no column body"),
        ([("topic", StringType()), ("body", StringType()), ("tag", StringType())], "'?tag'? is none of"),
        ([("topic", StringType()), ("body", StringType()), ("queue_offset", IntegerType())], "not bigint"),
    ],
)
def test_columns_that_may_not_be(fields: list[tuple[str, Any]], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        check_columns(StructType([StructField(*field) for field in fields]))


def test_tags_keys_and_id_go_into_the_properties() -> None:
    batch = rows(
        topic=["T"] * 3, body=[b"a", b"b", b"c"], tags=["t", None, ""], keys=["k1 k2", None, "k"],
        msg_id=["id", None, None],
        properties=[[("TAGS", "old"), ("x", "y")], [("KEYS", "kept")], None],
    )  # fmt: skip
    made = to_schema(batch, SMALL)
    assert made.schema.equals(SPARK_SCHEMA)
    assert made.column("properties").to_pylist() == [
        [("TAGS", "t"), ("x", "y"), ("KEYS", "k1 k2"), ("UNIQ_KEY", "id")], [("KEYS", "kept")], [("KEYS", "k")]
    ]  # fmt: skip


def test_text_bodies_become_bytes() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["T"], "body": ["库存"]})
    assert to_schema(batch, SMALL).column("body").to_pylist() == ["库存".encode()]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"topic": [None]}, "row 0 of a batch has no topic"),
        ({"body": [None]}, "has no body"),
        ({"topic": ["a/b"]}, "topic 'a/b'.*directory's name"),
        ({"topic": ["t" * 128]}, "127 bytes"),
        ({"body": [bytes(9001)]}, "too large"),
        ({"body": [bytes(8990)], "properties": [[("p", "v" * 1200)]]}, "larger than a log file"),
        ({"queue_id": [-1]}, "queue -1: its queue id is negative"),
        ({"sys_flag": [4]}, "transaction"),
        ({"properties": [[("a\x01", "b")]]}, "property"),
        ({"tags": ["a\x02"]}, "property 'TAGS'"),
        ({"properties": [[("a", "b" * 33_000)]]}, "PROPERTIES_SIZE"),
    ],
)
def test_rows_that_make_no_message(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        to_schema(rows(**{"topic": ["T"], "body": [b""], **columns}), SMALL)
