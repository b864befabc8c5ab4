"""The columns of an export: properties chosen, bodies as text or JSON, and what is refused."""

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from pyspark.sql.types import LongType, StructField, StructType

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.errors import UsageError
from flintmq.lake.columns import ExportColumns

ROWS = [
    (b'{"n": 1}', {"region": "r1", "order-id": "7"}),
    ("Grüße".encode(), {"region": "r2"}),
    (b"\xff{}", {}),
    (b'{"n": 2}', {"region": ""}),
]


def batch():
    columns = {field.name: [None] * len(ROWS) for field in SPARK_SCHEMA}
    columns["body"] = [body for body, _ in ROWS]
    columns["properties"] = [list(values.items()) for _, values in ROWS]
    return pa.RecordBatch.from_pydict(columns, schema=SPARK_SCHEMA)


def test_as_it_comes():
    whole = batch()
    assert ExportColumns().shaped(whole) == (whole, 0) and ExportColumns().schema() == SPARK_SCHEMA
    assert ExportColumns.parse() == ExportColumns() and not ExportColumns().decompresses


def test_chosen_properties():
    shape = ExportColumns.parse(["region", "order-id:order_id", "a:b:c"])
    rows, bad = shape.shaped(batch())
    assert bad == 0 and rows.schema == shape.schema()
    at = SPARK_SCHEMA.names.index("properties")
    assert rows.schema.names == [*SPARK_SCHEMA.names[:at], "region", "order_id", "c", *SPARK_SCHEMA.names[at + 1 :]]
    assert rows.column("region").to_pylist() == ["r1", "r2", None, ""]
    assert rows.column("order_id").to_pylist() == ["7", None, None, None]
    assert shape.properties[2] == ("a:b", "c")


def test_bodies_as_text():
    rows, bad = ExportColumns.parse(body="text").shaped(batch())
    assert bad == 1
    assert rows.column("body").to_pylist() == ['{"n": 1}', "Grüße", "\ufffd{}", '{"n": 2}']
    assert rows.column("body_raw").to_pylist() == [None, None, b"\xff{}", None]
    assert ExportColumns.parse(body="text").shaped(batch().slice(0, 2))[1] == 0


def test_a_replacement_character_that_was_sent_is_text():
    rows, bad = ExportColumns(body="text").shaped(batch().slice(0, 0))
    assert (rows.num_rows, bad) == (0, 0)
    sent = batch().to_pylist()[:2]
    sent[0]["body"], sent[1]["body"] = "\ufffd".encode(), b"\xff"
    rows, bad = ExportColumns(body="text").shaped(pa.RecordBatch.from_pylist(sent, schema=SPARK_SCHEMA))
    assert bad == 1 and rows.column("body_raw").to_pylist() == [None, b"\xff"]


def test_bodies_as_json():
    shape = ExportColumns(body="json", body_schema=StructType([StructField("n", LongType(), nullable=False)]))
    rows, bad = shape.shaped(batch())
    assert bad == 2 and shape.decompresses
    assert rows.column("body").to_pylist() == [{"n": 1}, None, None, {"n": 2}]
    assert rows.column("body_raw").to_pylist() == [None, *(body for body, _ in ROWS[1:3]), None]
    assert shape.choice() == {"properties": None, "body": "json", "body_schema": "struct<n:bigint>"}


@pytest.mark.parametrize(
    "words, message",
    [
        ({"properties": ["order-id"]}, "'order-id' is not a valid column name; give NAME:COLUMN"),
        ({"properties": ["a:"]}, "'' is not a valid column name"),
        ({"properties": [":a"]}, "not a valid column name"),
        ({"properties": ["KEYS"]}, "column 'KEYS' exists already"),
        ({"properties": ["x:Topic_Name"]}, "exists already"),
        ({"properties": ["x:body_raw"]}, "exists already"),
        ({"properties": ["a", "b:A"]}, "property 'b': column 'A' exists already"),
        ({"body": "xml"}, "'xml' is not one of: bytes, text, json"),
        ({"body": "json"}, "needs a body schema"),
        ({"body": "text", "schema": "a long"}, "only json takes one"),
    ],
)
def test_what_is_refused(words, message):
    with pytest.raises(UsageError, match=message):
        ExportColumns.parse(**words)
