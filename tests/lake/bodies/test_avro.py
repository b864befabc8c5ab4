"""Bodies as Avro: values of the specification, heads of a registry, damage, and what has no column."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.bodies.failure import (
    LEFT_OVER,
    NO_HEAD,
    NO_UTF8,
    NOT_OF_SCHEMA,
    UNKNOWN_SCHEMA,
    UNREAD_SCHEMA,
)
from flintmq.lake.bodies.form import BodyForm, decoded


def schema_of(*fields, name="test"):
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def form_of(tmp_path, schema, **words):
    path = tmp_path / "schema.avsc"
    path.write_text(json.dumps(schema))
    return BodyForm.parse("avro", str(path), **words)


def rows(form, *bodies):
    column, bad = decoded(form, pa.array(bodies, pa.binary()))
    assert column.type == form.type
    return column.to_pylist(), bad


# Of the specification, "Data Serialization and Deserialization": a record {a: 27, b: "foo"}.
EXAMPLE = schema_of(("a", "long"), ("b", "string"))
BODY = bytes.fromhex("36 06 66 6f 6f")


def test_the_record_of_the_specification(tmp_path):
    form = form_of(tmp_path, EXAMPLE)
    assert form.type == pa.struct([("a", pa.int64()), ("b", pa.string())])
    assert rows(form, BODY) == ([{"a": 27, "b": "foo"}], [])
    assert form.choice() == {"body": "avro", "body_schema": "struct<a:bigint,b:string>", "body_head": False}


def test_bodies_of_another_kind_cost_no_other_row(tmp_path):
    odd = {
        b"": NOT_OF_SCHEMA,
        BODY[:-1]: NOT_OF_SCHEMA,
        BODY + b"\0": LEFT_OVER,
        b"\x36\x02\xff": NO_UTF8,
        b"\x36\x01": NOT_OF_SCHEMA,  # a text of -1 bytes
        b"\x36" + b"\xfe" * 9 + b"\x01": NOT_OF_SCHEMA,  # one of more than there are
        b"\xff" * 20: NOT_OF_SCHEMA,
    }
    values, bad = rows(form_of(tmp_path, EXAMPLE), *(body for one in odd for body in (one, BODY)))
    assert values == [None, {"a": 27, "b": "foo"}] * len(odd)
    assert bad == list(zip(range(0, 2 * len(odd), 2), odd.values(), strict=True))


def test_every_type(tmp_path):
    logical = {
        "day": ({"type": "int", "logicalType": "date"}, date(2026, 1, 31)),
        "ms": ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2026, 1, 31, 1, 2, 3, 4000, UTC)),
        "us": ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2026, 1, 31, 1, 2, 3, 4, UTC)),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.50")),
    }
    plain = {
        "flag": ("boolean", True),
        "i": ("int", -7),
        "l": ("long", 1 << 62),
        "f": ("float", 0.5),
        "d": ("double", 1e300),
        "raw": ("bytes", b"\xff"),
        "text": ("string", "主"),
        "kind": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "B"),
        "sum": ({"type": "fixed", "name": "Sum", "size": 2}, b"ab"),
        "again": ("Kind", "A"),
        "list": ({"type": "array", "items": "long"}, [1, 2]),
        "map": ({"type": "map", "values": {"type": "array", "items": "string"}}, {"k": ["v"]}),
        "maybe": (["null", "long"], None),
        "there": (["long", "null"], 3),
        "inner": (schema_of(("x", "int"), name="Inner"), {"x": 1}),
        "time": ({"type": "int", "logicalType": "time-millis"}, 5),
        "uuid": ({"type": "string", "logicalType": "uuid"}, "not one"),
        "wrapped": ({"type": {"type": "array", "items": ["null", "int"]}}, [1, None]),
    }
    schema = schema_of(*((name, kind) for name, (kind, _) in (plain | logical).items()))
    written = io.BytesIO()
    simple = json.loads(json.dumps(schema).replace("time-millis", "none").replace('"uuid"}', '"none"}'))
    simple["fields"][-5]["type"] = simple["fields"][-5]["type"]["type"]  # fastavro writes no wrapped one
    value = {name: value for name, (_, value) in (plain | logical).items()}
    fastavro.schemaless_writer(written, fastavro.parse_schema(simple), value)
    form = form_of(tmp_path, schema)
    assert rows(form, written.getvalue()) == ([value | {"map": [("k", ["v"])]}], [])
    assert form.type.field("price").type == pa.decimal128(9, 2)


def test_a_number_of_too_many_digits_is_a_bad_body(tmp_path):
    form = form_of(tmp_path, schema_of(("p", {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1})))
    values, bad = rows(form, b"\x02\x0f", b"\x06\x7f\xff\xff", b"\x02\x10")
    assert values == [{"p": Decimal("1.5")}, None, {"p": Decimal("1.6")}] and bad == [(1, NOT_OF_SCHEMA)]


def test_a_time_that_python_has_none_for_is_a_bad_body(tmp_path):
    form = form_of(tmp_path, schema_of(("t", {"type": "long", "logicalType": "timestamp-millis"})))
    values, bad = rows(form, b"\0", b"\xfe" * 9 + b"\x01")
    assert values == [{"t": datetime(1970, 1, 1, tzinfo=UTC)}, None] and bad == [(1, NOT_OF_SCHEMA)]


@pytest.mark.parametrize(
    "schema, message",
    [
        ("{", "no Avro schema"),
        ("7", "no Avro schema"),
        (json.dumps({"type": "record"}), "no Avro schema"),
        (json.dumps("long"), "is a schema of no record"),
        (json.dumps(schema_of(("x", "Lost"))), "names a type that it does not declare"),
        (json.dumps(schema_of(("x", ["long", "string"]))), "the schema.x is a union of several types"),
        (json.dumps(schema_of(("x", "null"))), "the schema.x is of type null"),
        (json.dumps(schema_of(("x", {"type": "array", "items": "null"}))), r"the schema.x\[\] is of type null"),
        (json.dumps(schema_of(("x", schema_of(name="none")))), "the schema.x is a record without fields"),
        (json.dumps(schema_of(("x", ["null", "test"]))), "the schema.x is a test within itself"),
        (json.dumps(schema_of(("x", {"type": "fixed", "name": "f", "size": 0}))), "a fixed of no bytes"),
        (json.dumps(schema_of(("x", "int"), ("X", "int"))), "X occurs twice"),
        (
            json.dumps(schema_of(("x", {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}))),
            "a decimal of 39 digits",
        ),
    ],
)
def test_schemas_without_a_column(tmp_path, schema, message):
    path = tmp_path / "schema.avsc"
    path.write_text(schema)
    with pytest.raises(UsageError, match=message):
        BodyForm.parse("avro", str(path))


def headed(number, body):
    return b"\0" + number.to_bytes(4, "big") + body


def test_heads_name_the_schema_that_a_body_was_written_by(tmp_path):
    """Schema 7 had no b and an int; its rows get b's default. Avro's rules of resolution."""
    registry = tmp_path / "registry"
    registry.mkdir()
    (registry / "7.avsc").write_text(json.dumps(schema_of(("a", "int"))))
    (registry / "8.avsc").write_text(json.dumps(EXAMPLE))
    (registry / "9.avsc").write_text(json.dumps(schema_of(("c", "int"))))
    (registry / "10.avsc").write_text(json.dumps(schema_of(("a", "long"), ("n", {"type": "array", "items": "null"}))))
    (registry / "11.avsc").write_text("{")
    wanted = EXAMPLE | {"fields": [EXAMPLE["fields"][0], EXAMPLE["fields"][1] | {"default": "none"}]}
    form = form_of(tmp_path, wanted, head=True, registry=str(registry))
    values, bad = rows(
        form,
        headed(8, BODY),
        headed(7, b"\x36"),
        headed(9, b"\x36"),
        headed(10, b"\x36" + b"\xfe" * 9 + b"\x01"),
        headed(11, BODY),
        headed(12, BODY),
        b"\1\0\0\0\x08" + BODY,
        b"\0\0\0",
        b"",
    )
    assert values == [{"a": 27, "b": "foo"}, {"a": 27, "b": "none"}, *[None] * 7]
    reasons = [NOT_OF_SCHEMA, UNREAD_SCHEMA, UNREAD_SCHEMA, UNKNOWN_SCHEMA, NO_HEAD, NO_HEAD, NO_HEAD]
    assert bad == list(zip(range(2, 9), reasons, strict=True))


def test_a_registry_that_is_not_there_ends_the_export(tmp_path):
    form = form_of(tmp_path, EXAMPLE, head=True, registry=str(tmp_path / "none"))
    with pytest.raises(StoreAccessError, match="no directory"):
        rows(form, headed(1, BODY))
