"""Schemas of JSON bodies: Spark's DDL and JSON form, read without Spark as Spark reads them."""

import json

import pyarrow as pa
import pytest

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.bodies.ddl import SCHEMA_BYTES_MAX, read_schema


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no DDL such as"),
        ("a", "no DDL such as"),
        ("a int,", "no DDL such as"),
        ("a long b", "no DDL such as"),
        ("v thing", "no DDL such as"),
        ("v `int`", "no DDL such as"),
        ("a int; b int", "no DDL such as"),
        ("x struct<>", "no DDL such as"),
        ("x int NOT", "no DDL such as"),
        ("v array<decimal(3,1)>", r"v\[\] is of type decimal; there are string"),
        ("v binary", "v is of type binary"),
        ("v map<int, int>", "v is of type map<int,...>"),
        ("v " + 100 * "array<" + "int" + 100 * ">", "nested in more than 64"),
        ("a int, A int", "A occurs twice"),
        ("s struct<a: int, a: int>", "s.a occurs twice"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        read_schema(text)


def form(kind):
    return {"type": "struct", "fields": [{"name": "v", "type": kind, "nullable": True, "metadata": {}}]}


def test_a_file_of_sparks_form(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(form({"type": "array", "elementType": "date", "containsNull": True})))
    assert read_schema(str(path)) == pa.struct([("v", pa.list_(pa.field("element", pa.date32())))])


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[1]", "nonsense", '{"type": "struct", "fields": []}', '{"type": "struct"}', "7", '"long"'),
        '{"type": "struct", "fields": [{"name": 1, "type": "long"}]}',
        10_000 * "[",
    ],
)
def test_a_file_that_is_no_schema(tmp_path, text):
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="schema"):
        read_schema(str(path))
    with pytest.raises(StoreAccessError, match="No such file"):
        read_schema(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    "kind", ["decimal(10,0)", "binary", "timestamp_ntz", {"type": "map", "keyType": "long", "valueType": "long"}]
)
def test_types_without_json_values(tmp_path, kind):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(form({"type": "array", "elementType": kind, "containsNull": True})))
    with pytest.raises(UsageError, match=r"v\[\] is of type"):
        read_schema(str(path))


def test_a_name_twice_in_a_file(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"type": "struct", "fields": form("long")["fields"] * 2}))
    with pytest.raises(UsageError, match="v occurs twice"):
        read_schema(str(path))


def test_a_file_without_end_is_not_read_whole():
    with pytest.raises(UsageError, match=f"more than {SCHEMA_BYTES_MAX >> 20} MiB"):
        read_schema("/dev/zero")
