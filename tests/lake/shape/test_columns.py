"""The columns of an export: properties chosen, bodies as text or JSON, and what is refused."""

import pyarrow as pa
import pytest

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.errors import UsageError
from flintmq.lake.bodies.form import TEXT, BodyForm
from flintmq.lake.shape.columns import ExportColumns

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
    assert ExportColumns().shaped(whole) == (whole, []) and ExportColumns().schema() == SPARK_SCHEMA
    assert ExportColumns.parse() == ExportColumns() and not ExportColumns().decompresses


def test_chosen_properties():
    shape = ExportColumns.parse(["region", "order-id:order_id", "a:b:c"])
    rows, bad = shape.shaped(batch())
    assert bad == [] and rows.schema == shape.schema()
    at = SPARK_SCHEMA.names.index("properties")
    assert rows.schema.names == [*SPARK_SCHEMA.names[:at], "region", "order_id", "c", *SPARK_SCHEMA.names[at + 1 :]]
    assert rows.column("region").to_pylist() == ["r1", "r2", None, ""]
    assert rows.column("order_id").to_pylist() == ["7", None, None, None]
    assert shape.properties[2] == ("a:b", "c")


def test_bodies_as_text():
    rows, bad = ExportColumns(body=TEXT).shaped(batch())
    assert bad == [(2, "not UTF-8")]
    assert rows.column("body").to_pylist() == ['{"n": 1}', "Grüße", "\ufffd{}", '{"n": 2}']
    assert rows.column("body_raw").to_pylist() == [None, None, b"\xff{}", None]
    assert ExportColumns(body=TEXT).shaped(batch().slice(0, 2)).bad == []


def test_a_replacement_character_that_was_sent_is_text():
    rows, bad = ExportColumns(body=TEXT).shaped(batch().slice(0, 0))
    assert (rows.num_rows, bad) == (0, [])
    sent = batch().to_pylist()[:2]
    sent[0]["body"], sent[1]["body"] = "\ufffd".encode(), b"\xff"
    rows, bad = ExportColumns(body=TEXT).shaped(pa.RecordBatch.from_pylist(sent, schema=SPARK_SCHEMA))
    assert bad == [(1, "not UTF-8")] and rows.column("body_raw").to_pylist() == [None, b"\xff"]


def test_bodies_as_json():
    shape = ExportColumns(body=BodyForm.parse("json", "n long not null"))
    rows, bad = shape.shaped(batch())
    assert bad == [(1, "not JSON"), (2, "not UTF-8")] and shape.decompresses
    assert rows.column("body").to_pylist() == [{"n": 1}, None, None, {"n": 2}]
    assert rows.column("body_raw").to_pylist() == [None, *(body for body, _ in ROWS[1:3]), None]
    assert shape.choice() == {"properties": None, "body": "json", "body_schema": "struct<n:bigint>", "body_head": False}


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
    ],
)
def test_what_is_refused(words, message):
    with pytest.raises(UsageError, match=message):
        ExportColumns.parse(**words)


@pytest.mark.parametrize(
    "name, words, message",
    [
        ("xml", {}, "'xml' is not one of: bytes, text, json, avro, protobuf"),
        ("json", {}, "body json needs a body schema"),
        ("avro", {}, r"body avro needs a body schema: give FILE.avsc"),
        ("text", {"schema": "a long"}, "body text takes none"),
        ("bytes", {"schema": "a long"}, "body bytes takes none"),
        ("json", {"schema": "a long", "message": "A"}, "a body message is for body protobuf"),
        ("json", {"schema": "a long", "head": True}, "a body head is for body avro and protobuf"),
        ("avro", {"schema": "a.avsc", "head": True}, "a schema registry and a body head belong together"),
        ("avro", {"schema": "a.avsc", "registry": "dir"}, "a schema registry and a body head belong together"),
        ("protobuf", {"schema": "a", "head": True, "registry": "dir"}, "belong together for body avro"),
        ("avro", {"schema": "a.avsc", "head": True, "registry": "ftp://x"}, "give a URL http://HOST"),
    ],
)
def test_forms_of_bodies_that_are_refused(name, words, message):
    with pytest.raises(UsageError, match=message):
        BodyForm.parse(name, **words)
