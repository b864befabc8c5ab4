import base64
import json
import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.spark.schema import spark_schema
from flintmq.spark.sink.rows import as_json, check_columns, judge, named
from flintmq.storage.files.filesystem import REAL
from flintmq.store.append.unique_keys import UniqueKeys

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
        ([("topic", StringType()), ("body", StringType()), ("tag", StringType())], "'?tag'? is not one of"),
        ([("topic", StringType()), ("body", StringType()), ("queue_offset", IntegerType())], "not bigint"),
    ],
)
def test_columns_that_may_not_be(fields: list[tuple[str, Any]], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        check_columns(StructType([StructField(*field) for field in fields]))


def test_rows_without_an_id_get_one_each_and_are_measured_with_it() -> None:
    batch = rows(
        topic=["T"] * 5, body=[b"x"] * 5, msg_id=["id", None, "", None, None], tags=["t"] * 5,
        properties=[None, [("a", "b")], None, [("UNIQ_KEY", "own")], [("p", "v" * (32767 - 3 - 42 - 7))]],
    )  # fmt: skip
    filled, bad = judge(batch, StoreConfig(), (), UniqueKeys(REAL))
    found = [dict(pairs) for pairs in filled.column("properties").to_pylist()]
    ids = [pairs.pop("UNIQ_KEY") for pairs in found]
    assert (ids[0], ids[3]) == ("id", "own") and [len(one) for one in ids[1:3]] == [32, 32] and ids[1] != ids[2]
    assert found == [{"TAGS": "t"}, {"a": "b", "TAGS": "t"}, {"TAGS": "t"}, {"TAGS": "t"}] + found[4:]
    assert not bad and len(found) == 5
    longer = rows(topic=["T"], body=[b"x"], tags=["t"], properties=[[("p", "v" * (32767 - 3 - 42 - 7 + 1))]])
    assert judge(longer, StoreConfig())[1] == []
    [(row, why)] = judge(longer, StoreConfig(), (), UniqueKeys(REAL))[1]
    assert row == 0 and "PROPERTIES_SIZE_EXCEEDED" in why


def test_tags_keys_and_id_go_into_the_properties() -> None:
    batch = rows(
        topic=["T"] * 3, body=[b"a", b"b", b"c"], tags=["t", None, ""], keys=["k1 k2", None, "k"],
        msg_id=["id", None, None],
        properties=[[("TAGS", "old"), ("x", "y")], [("KEYS", "kept")], None],
    )  # fmt: skip
    made = judge(batch, SMALL)[0]
    assert made.schema.equals(SPARK_SCHEMA)
    assert made.column("properties").to_pylist() == [
        [("TAGS", "t"), ("x", "y"), ("KEYS", "k1 k2"), ("UNIQ_KEY", "id")], [("KEYS", "kept")], [("KEYS", "k")]
    ]  # fmt: skip


def test_text_bodies_become_bytes() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["T"], "body": ["库存"]})
    assert judge(batch, SMALL)[0].column("body").to_pylist() == ["库存".encode()]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"topic": [None]}, "row 0, topic .*: it has no topic"),
        ({"body": [None]}, "has no body"),
        ({"topic": ["a/b"]}, "topic 'a/b'.*directory's name"),
        ({"topic": ["t" * 128]}, "127 bytes"),
        ({"body": [bytes(9001)]}, "its body has 9001 bytes"),
        ({"body": [bytes(8990)], "properties": [[("p", "v" * 1200)]]}, "does not fit into a log file"),
        ({"queue_id": [-1]}, "queue -1: its queue id is negative"),
        ({"sys_flag": [4]}, "transaction"),
        ({"properties": [[("a\x01", "b")]]}, "property"),
        ({"properties": [[("TIMER_DELAY_SEC", "9")]]}, "WHEEL_TIMER_NOT_ENABLE"),
        ({"tags": ["a\x02"]}, "property 'TAGS'"),
        ({"properties": [[("a", "b" * 33_000)]]}, "PROPERTIES_SIZE"),
    ],
)
def test_rows_that_make_no_message(columns: dict[str, Any], text: str) -> None:
    batch = rows(**{"topic": ["T"], "body": [b""], **columns})
    [(row, why)] = judge(batch, SMALL)[1]
    assert re.search(text, f"{named(batch, row, 'row 0')}: {why}")


def test_rows_are_judged_one_by_one() -> None:
    """Each bad row with its own reason; the others stay, in their order, and what they say stays with them."""
    wrong: dict[str, dict[str, Any]] = {
        "no topic": {"topic": None},
        "no body": {"body": None},
        "directory's name": {"topic": "a/b"},
        "9001 bytes": {"body": bytes(9001)},
        "negative": {"queue_id": -1},
        "property 'x'": {"properties": [("x", "\x02")]},
        "property 'KEYS'": {"keys": "a\x01"},
        "born_host": {"born_host": "nobody"},
        "sys_flag": {"sys_flag": 12},
    }
    good = {"topic": "T", "body": b"g", "queue_id": 1, "keys": "k", "properties": [("p", "v")], "born_host": "[::1]:7",
            "sys_flag": 0}  # fmt: skip
    given = [each for value in wrong.values() for each in (good, {**good, **value})]
    batch = rows(**{name: [row[name] for row in given] for name in good})
    filled, bad = judge(batch, SMALL)
    assert filled.num_rows == len(wrong) and filled.column("body").to_pylist() == [b"g"] * len(wrong)
    assert filled.column("properties").to_pylist() == [[("p", "v"), ("KEYS", "k")]] * len(wrong)
    assert [row for row, _ in bad] == list(range(1, len(given), 2))
    assert all(text in why for text, (_, why) in zip(wrong, bad, strict=True))
    lines = [json.loads(as_json(batch, row, why)) for row, why in bad]
    assert [line["reason"] for line in lines] == [why for _, why in bad]
    assert [base64.b64decode(line["body"]) for line in lines[2:4]] == [b"g", bytes(9001)]
    assert lines[1]["body"] is None and lines[5]["properties"] == {"x": "\x02"} and lines[0]["keys"] == "k"


def test_a_frame_for_kafka_is_told_how_to_become_one_for_this_sink() -> None:
    kafka = [StructField("key", StringType()), StructField("value", StringType()), StructField("topic", StringType())]
    for fields in (kafka, kafka[1:]):
        with pytest.raises(UsageError, match="selectExpr.*coalesce\\(value, X''\\) AS body"):
            check_columns(StructType(fields))


@pytest.mark.parametrize(("topic", "shown"), [(None, "null"), ("None", "'None'"), ("", "''")])
def test_an_error_names_a_null_topic_as_such(topic: str | None, shown: str) -> None:
    batch = pa.RecordBatch.from_pylist([{"topic": topic, "queue_id": 3}])
    assert named(batch, 0, "row 0") == f"row 0, topic {shown}, queue 3"
