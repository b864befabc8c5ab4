"""The one schema as Arrow types, and narrowing it."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from flintmq.arrow.schema import FIRST_COLUMNS, SCHEMA, SPARK_SCHEMA, narrow
from flintmq.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
# Written out here on purpose: users rely on it, so a change must be seen twice.
EXPECTED = """
topic: string
queue_id: int32
queue_offset: int64
body: binary
tags: string
keys: string
properties: map<string, string>
msg_id: string
offset_msg_id: string
born_timestamp: timestamp[ms, tz=UTC]
born_host: string
store_timestamp: timestamp[ms, tz=UTC]
store_host: string
physical_offset: int64
size: int32
magic: string
flag: int32
sys_flag: int32
reconsume_times: int32
prepared_transaction_offset: int64
body_crc: int64
"""


def test_the_schema() -> None:
    lines = [f"{field.name}: {field.type}" for field in SCHEMA]
    assert lines == EXPECTED.split("\n")[1:-1]
    assert all(field.nullable for field in SCHEMA)


def test_added_columns_come_after_the_first_21() -> None:
    """Else Delta tables that exports made before are refused, and so are replays of them."""
    assert len(FIRST_COLUMNS) == 21
    assert [*FIRST_COLUMNS, *SCHEMA.names[21:]] == SCHEMA.names


def test_the_page_names_all_columns_in_order() -> None:
    page = (ROOT / "docs" / "operations" / "json.md").read_text(encoding="utf-8")
    table = page.partition("| column | JSON |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]+) \|", table, re.MULTILINE)
    assert [f"{name}: {kind}" for name, kind in rows] == EXPECTED.replace("tz=", "").split("\n")[1:-1]


def test_spark_has_microseconds() -> None:
    differing = [(a.name, str(b.type)) for a, b in zip(SCHEMA, SPARK_SCHEMA, strict=True) if a != b]
    assert differing == [("born_timestamp", "timestamp[us, tz=UTC]"), ("store_timestamp", "timestamp[us, tz=UTC]")]


def test_spark_takes_the_schema_as_it_is() -> None:
    pandas = pytest.importorskip("pyspark.sql.pandas.types", reason="pyspark is not installed")
    struct = pandas.from_arrow_schema(SPARK_SCHEMA)
    assert pandas.to_arrow_schema(struct, timezone="UTC").equals(SPARK_SCHEMA)


def test_narrowing_keeps_the_order_asked_for() -> None:
    assert narrow(None) is SCHEMA
    assert narrow(["body", "topic"]) == pa.schema([("body", pa.binary()), ("topic", pa.string())])
    assert narrow(["born_timestamp"], SPARK_SCHEMA).field(0).type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (["topics"], "no column 'topics'; did you mean topic"),
        (["queueOffset"], "did you mean queue_offset"),
        (["zzz"], "there are: topic, queue_id"),
        (["topic", "body", "topic"], "'topic' is named twice"),
        ([], "names no column"),
        ("topic", "not a string"),
        (["\x1b[31m" * 50], "no column"),
    ],
)
def test_names_that_are_none(columns: list[str], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        narrow(columns)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 400 and str(caught.value).isprintable()
