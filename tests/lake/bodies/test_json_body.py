"""Bodies as JSON of a schema: what counts, what does not, and that nothing is converted or crosses into another row."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from flintmq.lake.bodies.ddl import read_schema
from flintmq.lake.bodies.failure import NO_JSON, NO_UTF8, NOT_OF_SCHEMA, TOO_DEEP
from flintmq.lake.bodies.form import BodyForm, decoded
from flintmq.lake.bodies.json_body import reader


def parsed(bodies, kind):
    column, bad = decoded(BodyForm("json", read_schema(f"v {kind}")), pa.array(bodies, pa.binary()))
    assert column.type == read_schema(f"v {kind}")
    return column, bad


@pytest.mark.parametrize(
    "kind, text, want",
    [
        ("string", '"x"', "x"),
        ("string", '"\\u20ac 主"', "€ 主"),
        ("long", "-9223372036854775808", -(1 << 63)),
        ("byte", "127", 127),
        ("short", "-32768", -32768),
        ("int", "7", 7),
        ("double", "1", 1.0),
        ("double", "1.5e3", 1500.0),
        ("float", "0.5", 0.5),
        ("boolean", "true", True),
        ("date", '"2026-01-31"', date(2026, 1, 31)),
        ("timestamp", '"2026-01-31T01:02:03.5+02:00"', datetime(2026, 1, 30, 23, 2, 3, 500_000, UTC)),
        ("timestamp", '"2026-01-31T01:02:03"', datetime(2026, 1, 31, 1, 2, 3, 0, UTC)),
        ("array<long>", "[1, null, 3]", [1, None, 3]),
        ("map<string, long>", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        ("struct<v: long>", '{"v": 3, "other": [1]}', {"v": 3}),
        ("long", "null", None),
    ],
)
def test_values(kind, text, want):
    column, bad = parsed([b'{"v": %s}' % text.encode()], kind)
    assert bad == []
    assert column.to_pylist() == [{"v": want}]


@pytest.mark.parametrize(
    "kind, text",
    [
        ("long", '"12"'),
        ("long", "1.0"),
        ("long", "true"),
        ("long", "9223372036854775808"),
        ("byte", "128"),
        ("double", "true"),
        ("double", "NaN"),
        ("double", "1e999"),
        ("double", "1" + 400 * "0"),
        ("float", "1e39"),
        ("string", "1"),
        ("string", '"\\ud800"'),
        ("boolean", "1"),
        ("date", '"31.1.2026"'),
        ("date", "20260131"),
        ("timestamp", "1700000000"),
        ("array<string>", '"ab"'),
        ("map<string, long>", "[]"),
        ("struct<v: long>", "[3]"),
        ("long", "1" + 5000 * "0"),
        ("array<long>", 100_000 * "["),
    ],
)
def test_what_is_no_value_of_the_type(kind, text):
    column, bad = parsed([b'{"v": %s}' % text.encode(), b'{"v": null}'], kind)
    assert [number for number, _ in bad] == [0] and column.to_pylist() == [None, {"v": None}]


def test_bodies_that_are_no_object_of_their_own():
    """None of them shifts or reaches into its neighbours."""
    odd = {
        b"": NO_JSON,
        b"{}{}": NO_JSON,
        b'{"v": 1}{"v": 2}': NO_JSON,
        b"null": NOT_OF_SCHEMA,
        b"[]": NOT_OF_SCHEMA,
        b'"x"': NOT_OF_SCHEMA,
        b"\xff": NO_UTF8,
        b'{"v": 1': NO_JSON,
        b'\xef\xbb\xbf{"v": 1}': NO_JSON,
        b"{} x": NO_JSON,
        b'{"v": NaN}': NO_JSON,
        b'{"x": %s%s}' % (b"[" * 1_000_000, b"]" * 1_000_000): TOO_DEEP,
    }
    bodies = [body for one in odd for body in (one, b'{"v": 9}')]
    column, bad = parsed(bodies, "long")
    assert bad == list(zip(range(0, len(bodies), 2), odd.values(), strict=True))
    assert column.to_pylist() == [None, {"v": 9}] * len(odd)


def test_the_last_of_two_equal_names_counts():
    assert reader(read_schema("v long"))(b'{"v": 1, "v": 2}') == {"v": 2}
