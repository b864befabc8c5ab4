"""Bodies as JSON of a schema: what counts, what does not, and that nothing is converted or crosses into another row."""

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from pyspark.sql import types as t

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.json_bodies import arrow_type, body_schema, parsed, reader


def of(kind):
    return t.StructType([t.StructField("v", kind)])


@pytest.mark.parametrize(
    "kind, text, want",
    [
        (t.StringType(), '"x"', "x"),
        (t.StringType(), '"\\u20ac 主"', "€ 主"),
        (t.LongType(), "-9223372036854775808", -(1 << 63)),
        (t.ByteType(), "127", 127),
        (t.ShortType(), "-32768", -32768),
        (t.IntegerType(), "7", 7),
        (t.DoubleType(), "1", 1.0),
        (t.DoubleType(), "1.5e3", 1500.0),
        (t.FloatType(), "0.5", 0.5),
        (t.BooleanType(), "true", True),
        (t.DateType(), '"2026-01-31"', date(2026, 1, 31)),
        (t.TimestampType(), '"2026-01-31T01:02:03.5+02:00"', datetime(2026, 1, 30, 23, 2, 3, 500_000, UTC)),
        (t.TimestampType(), '"2026-01-31T01:02:03"', datetime(2026, 1, 31, 1, 2, 3, 0, UTC)),
        (t.ArrayType(t.LongType()), "[1, null, 3]", [1, None, 3]),
        (t.MapType(t.StringType(), t.LongType()), '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        (of(t.LongType()), '{"v": 3, "other": [1]}', {"v": 3}),
        (t.LongType(), "null", None),
    ],
)
def test_values(kind, text, want):
    column, bad = parsed([b'{"v": %s}' % text.encode()], of(kind))
    assert bad == [] and column.type == arrow_type(of(kind))
    assert column.to_pylist() == [{"v": want}]


@pytest.mark.parametrize(
    "kind, text",
    [
        (t.LongType(), '"12"'),
        (t.LongType(), "1.0"),
        (t.LongType(), "true"),
        (t.LongType(), "9223372036854775808"),
        (t.ByteType(), "128"),
        (t.DoubleType(), "true"),
        (t.DoubleType(), "NaN"),
        (t.DoubleType(), "1e999"),
        (t.DoubleType(), "1" + 400 * "0"),
        (t.FloatType(), "1e39"),
        (t.StringType(), "1"),
        (t.StringType(), '"\\ud800"'),
        (t.BooleanType(), "1"),
        (t.DateType(), '"31.1.2026"'),
        (t.DateType(), "20260131"),
        (t.TimestampType(), "1700000000"),
        (t.ArrayType(t.StringType()), '"ab"'),
        (t.MapType(t.StringType(), t.LongType()), "[]"),
        (of(t.LongType()), "[3]"),
        (t.LongType(), "1" + 5000 * "0"),
        (t.ArrayType(t.LongType()), 100_000 * "["),
    ],
)
def test_what_is_no_value_of_the_type(kind, text):
    column, bad = parsed([b'{"v": %s}' % text.encode(), b'{"v": null}'], of(kind))
    assert bad == [0] and column.to_pylist() == [None, {"v": None}]


def test_bodies_that_are_no_object_of_their_own():
    """None of them shifts or reaches into its neighbours."""
    odd = [
        b"",
        b"{}{}",
        b'{"v": 1}{"v": 2}',
        b"null",
        b"[]",
        b'"x"',
        b"\xff",
        b'{"v": 1',
        b'\xef\xbb\xbf{"v": 1}',
        b"{} x",
    ]
    bodies = [body for one in odd for body in (one, b'{"v": 9}')]
    column, bad = parsed(bodies, of(t.LongType()))
    assert bad == list(range(0, len(bodies), 2))
    assert column.to_pylist() == [None, {"v": 9}] * len(odd)


def test_the_last_of_two_equal_names_counts():
    assert reader(of(t.LongType()))(b'{"v": 1, "v": 2}') == {"v": 2}


def test_a_schema_from_a_file(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(of(t.ArrayType(t.DateType())).json())
    assert body_schema(str(path)) == of(t.ArrayType(t.DateType()))
    assert arrow_type(body_schema(str(path))) == pa.struct([("v", pa.list_(pa.date32()))])


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "nonsense", '{"type": "struct", "fields": []}', '{"type": "struct"}']
)
def test_a_file_that_is_no_schema(tmp_path, text):
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="schema"):
        body_schema(str(path))
    with pytest.raises(StoreAccessError, match="No such file"):
        body_schema(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    "kind", [t.DecimalType(), t.BinaryType(), t.TimestampNTZType(), t.MapType(t.LongType(), t.LongType())]
)
def test_types_without_json_values(tmp_path, kind):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(of(t.ArrayType(kind)).jsonValue()))
    with pytest.raises(UsageError, match=r"v\[\] is of type"):
        body_schema(str(path))


def test_a_name_twice(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(t.StructType([t.StructField("a", t.LongType())] * 2).json())
    with pytest.raises(UsageError, match="a occurs twice"):
        body_schema(str(path))


@pytest.mark.spark
def test_ddl(spark):
    assert body_schema("v array<struct<sku: string, count: int>>").simpleString() == (
        "struct<v:array<struct<sku:string,count:int>>>"
    )
    with pytest.raises(UsageError, match="no DDL such as"):
        body_schema("v thing")
