"""Bodies that the command line and Python decode: every reader gives the same, written here by hand."""

import json
import sys
import zlib
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq import Message, Report, UsageError
from tests.cli.conftest import Run, run
from tests.support import shop_proto
from tests.support.engine import put_messages

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("fastavro")
__all__ = ["run"]  # a fixture

DDL = "id bigint, at timestamp, day date, price double, lines array<struct<sku: string, count: int>>, names map<string, bigint>"  # noqa: E501  # fmt: skip
KEPT = "at timestamp, day date, ok boolean, n array<struct<b: byte>>"
AVSC = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}, {"name": "seal", "type": "bytes"},
]})  # fmt: skip
Rows = list[tuple[Any, ...]]
Case = tuple[dict[str, Any], list[tuple[bytes, int, Any, bytes | None, str | None]]]
CASES: dict[str, Case] = {
    "a schema of JSON": ({"body": "json", "body_schema": DDL}, [
        (b'{"id": 1, "at": "2026-01-31T01:02:03.5+02:00", "day": "2026-01-31", "price": 1e2, "new": 1,'
         b' "lines": [{"sku": "K\xc3\xb6ln", "count": 2}, null], "names": {"x": 3}}', 0,
         {"id": 1, "at": "2026-01-30 23:02:03.500000+00:00", "day": "2026-01-31", "price": 100.0,
          "lines": [{"sku": "Köln", "count": 2}, None], "names": {"x": 3}}, None, None),
        (b'{"names": {}, "lines": []}', 0,
         {"id": None, "at": None, "day": None, "price": None, "lines": [], "names": {}}, None, None),
        (b'{"id": "1"}', 0, None, b'{"id": "1"}', "not of the schema"),
        (b"[]", 0, None, b"[]", "not of the schema"),
        (b"", 0, None, b"", "not JSON"),
        (b'{"id": 1}{"id": 2}', 0, None, b'{"id": 1}{"id": 2}', "not JSON"),
        (b'{"s": "\xff"}', 0, None, b'{"s": "\xff"}', "not UTF-8"),
    ]),
    "values that need no Arrow": ({"body": "json", "body_schema": KEPT}, [
        (b'{"at": "2026-01-31", "day": "0001-01-01", "ok": true, "n": [{"b": -128}, null, {}]}', 0,
         {"at": "2026-01-31 00:00:00+00:00", "day": "0001-01-01", "ok": True, "n": [{"b": -128}, None, {"b": None}]},
         None, None),
        (b'{"n": [{"b": 128}]}', 0, None, b'{"n": [{"b": 128}]}', "not of the schema"),
    ]),
    "float": ({"body": "json", "body_schema": "f float"}, [
        (b'{"f": 0.1}', 0, {"f": 0.10000000149011612}, None, None),
        (b'{"f": 1e39}', 0, None, b'{"f": 1e39}', "not of the schema"),
    ]),
    "packed": ({"body": "json", "body_schema": "id bigint"}, [
        (zlib.compress(b'{"id": 5}'), 1, {"id": 5}, None, None),
        (b'{"id": 6}', 1, None, b'{"id": 6}', "flagged as compressed, and is not"),
        (zlib.compress(b"{"), 1, None, b"{", "not JSON"),
    ]),
    "text": ({"body": "text"}, [
        ('a "quoted"\n\u2028 Köln \U0001f600'.encode(), 0, 'a "quoted"\n\u2028 Köln \U0001f600', None, None),
        (b"", 0, "", None, None),
        (b"a\xffb", 0, "a\ufffdb", b"a\xffb", "not UTF-8"),
        (b"no zlib", 1, None, b"no zlib", "flagged as compressed, and is not"),
    ]),
    "avro": ({"body": "avro", "body_schema": AVSC}, [
        (b"\x0e\x02\x0aK\xc3\xb6ln\x02\xff", 0, {"id": 7, "city": "Köln", "seal": "/w=="}, None, None),
        (b"\x10\x00\x00", 0, {"id": 8, "city": None, "seal": ""}, None, None),
        (b"\x10\x00\x00\x00", 0, None, b"\x10\x00\x00\x00", "bytes after the value"),
    ]),
}  # fmt: skip
"""What a user asks for; and of each message the value as JSON, body_raw and body_error."""

Reader = Callable[[str, dict[str, Any], Run], Rows]
COLUMNS = ["body", "body_raw", "body_error"]


def plain(value: Any) -> Any:
    """A value of Arrow or DuckDB as JSON has it."""
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    if isinstance(value, (date, datetime)):
        return str(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def rows_of(table: Any) -> Rows:
    return [tuple(plain(row[name]) for name in COLUMNS) for row in table.to_pylist(maps_as_pydicts="strict")]


def scan_arrow(store: str, words: dict[str, Any], run: Run) -> Rows:
    return rows_of(flintmq.scan_arrow(store, **words).read_all())


def some_columns(store: str, words: dict[str, Any], run: Run) -> Rows:
    names = ["body_error", "tags", "body_raw", "body"]
    return rows_of(flintmq.scan_arrow(store, names, access="map", **words).read_all())


def two_stores(store: str, words: dict[str, Any], run: Run) -> Rows:
    table = flintmq.scan_arrow([store], **words).read_all()
    assert table.column_names[-2:] == ["broker", "store"]
    return rows_of(table)


def dataset(store: str, words: dict[str, Any], run: Run) -> Rows:
    return rows_of(flintmq.dataset(store, **words).to_table())


def lines(command: str, *more: str) -> Reader:
    def read(store: str, words: dict[str, Any], run: Run) -> Rows:
        options = [word for name, value in words.items() for word in ("--" + name.replace("_", "-"), value)]
        found = run(command, store, *more, *options, "--json")
        rows = [tuple(row[name] for name in COLUMNS) for row in found.rows]
        if command != "sql":  # whose answer has the reasons
            failed = [error for *_, error in rows if error is not None]
            assert found.code == 1
            told = f"{len(failed)} of the bodies could not be decoded as {words['body']}; offset "
            assert json.loads(found.err)["note"].startswith(told) and found.err.endswith(f': {failed[0]}"}}\n')
        return rows

    return read


READERS: dict[str, Reader] = {
    "scan_arrow": scan_arrow,
    "columns": some_columns,
    "stores": two_stores,
    "dataset": dataset,
    "scan": lines("scan"),
    "tail": lines("tail", "T"),
    "query": lines("query", "T", "k"),
    "sql": lines("sql", "select body, body_raw, body_error from messages"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", CASES)
def test_every_reader_gives_the_same(reader: str, case: str, tmp_path: Path, run: Run) -> None:
    words, messages = CASES[case]
    put_messages(tmp_path / "store", [Message("T", body, sys_flag=flag, keys="k") for body, flag, *_ in messages])
    rows = [(value, None if raw is None else b64encode(raw).decode(), error) for _, _, value, raw, error in messages]
    assert READERS[reader](str(tmp_path / "store"), words, run) == rows


FREE = {
    b'{"n": 1.10, "big": 12345678901234567890, "k": "\xc3\xb6"}': '{"n": 1.10, "big": 12345678901234567890, "k": "ö"}',
    b'[1,\r\n\t"a\\nb"] ': '[1,\r\n\t"a\\nb"] ',
    b"null": "null",
    b'"\xf0\x9f\x98\x80\x7f"': '"\U0001f600\x7f"',
}  # fmt: skip
"""Bodies of any JSON, and their text."""


def test_json_without_a_schema_is_its_text(tmp_path: Path, run: Run) -> None:
    store = tmp_path / "store"
    put_messages(store, [Message("T", body) for body in (*FREE, b"NaN", b"{")])
    table = flintmq.scan_arrow(store, COLUMNS, body="json").read_all()
    assert table["body"].to_pylist() == [*FREE.values(), None, None]
    assert table["body_error"].to_pylist()[-3:] == [None, "not JSON", "not JSON"]
    found = run("scan", store, "--body", "json", "--json")
    assert [row["body"] for row in found.rows] == [*map(json.loads, FREE.values()), None, None]
    assert '"body":{"n": 1.10, "big": 12345678901234567890, "k": "\\u00f6"},"body_raw":null' in found.out
    assert found.out.isascii() and found.code == 1
    assert run("scan", store, "--body", "json", "--format", "{body}").out.splitlines()[1] == '[1, "a\\nb"] '
    asked = run(
        "sql",
        store,
        "select body->>'k' as k from messages where (body->>'n')::double = 1.1",
        "--body",
        "json",
        "--json",
    )
    assert asked.rows == [{"k": "ö"}]


def test_protobuf(tmp_path: Path, run: Run) -> None:
    schema, store = shop_proto.write(tmp_path, shop_proto.timestamps(), shop_proto.shop()), tmp_path / "store"
    # Field 1 of shop.First is `a`, an int32: key 0x08, varint 300.
    put_messages(store, [Message("T", b"\x08\xac\x02"), Message("T", b"\x08"), Message("T", b"")])
    words = {"body": "protobuf", "body_schema": schema, "body_message": "shop.First"}
    want = [({"a": 300}, None, None), (None, "CA==", "not of the schema"), ({"a": 0}, None, None)]
    for name in ("scan_arrow", "scan", "tail", "sql"):
        assert READERS[name](str(store), words, run) == want, name


def test_people_see_the_value_or_the_bytes_and_why(tmp_path: Path, run: Run) -> None:
    store = tmp_path / "store"
    put_messages(store, [Message("T", b"\x0e\x02\x0aK\xc3\xb6ln\x00"), Message("T", b"\x10")])
    words = ("--body", "avro", "--body-schema", AVSC)
    shown = [line.partition(" B  ")[2] for line in run("scan", store, *words).out.splitlines()]
    assert shown == ['{"id":7,"city":"Köln","seal":""}', "\\x10  body_error=not of the schema"]
    assert run("get", store, "T", 0, 0, *words).out.splitlines()[-1].split(None, 1) == [
        "body", '33 B: {"id":7,"city":"Köln","seal":""}',
    ]  # fmt: skip
    wrong = run("get", store, "T", 0, 1, *words)
    assert [line.split(None, 1) for line in wrong.out.splitlines()[-2:]] == [
        ["body_raw", "1 B: \\x10"], ["body_error", "not of the schema"],
    ]  # fmt: skip
    assert (wrong.code, wrong.err) == (
        1, "flintmq: 1 of the bodies could not be decoded as avro; offset 143: not of the schema\n",
    )  # fmt: skip
    found = run("scan", store, *words, "--grep", '"city":"K', "--format", "{queue_offset} {body}")
    assert found.out == '0 {"id":7,"city":"Köln","seal":""}\n', "--grep looks at what is shown"


def test_a_question_that_reads_bodies_alone_is_told_of_those_that_are_null(tmp_path: Path, run: Run) -> None:
    store = tmp_path / "store"
    bodies = (b'{"id": 1, "total": 9.5}', b"{", b'{"id": 2, "total": 20}', b"[]")
    put_messages(store, [Message("T", body) for body in bodies] + [Message("other", b"")])
    words = ("--body", "json", "--body-schema", "id long, total double", "--json")
    found = run("sql", store, "select sum(body.total) s from messages where body.id > 0 and topic = 'T'", *words)
    assert (found.rows, found.code) == ([{"s": 29.5}], 1)
    assert json.loads(found.err)["note"] == (
        "2 of the bodies read could not be decoded as json, and are null; ask for body_error too"
    )
    found = run("sql", store, "select body_error e, count(body.id) n from messages group by 1 order by 1", *words)
    assert found.rows == [{"e": "not JSON", "n": 0}, {"e": "not of the schema", "n": 0}, {"e": None, "n": 2}]
    assert (found.code, found.err) == (0, "")
    found = run("sql", store, "select count(*) n from messages", *words)
    assert (found.rows, found.code, found.err) == ([{"n": 5}], 0, "")
    report = Report()
    flintmq.scan_arrow(store, ["topic", "body"], body="json", report=report).read_all()
    assert report.note_counts == {"undecoded-body": 2}
    assert report.undecoded is None, "the next read with this report is strict again"


@pytest.mark.parametrize(
    "words, told",
    [
        ({"body": "xml"}, "body 'xml' is not one of: bytes, text, json, avro, protobuf"),
        ({"body": "avro"}, "body avro needs a body schema: give FILE.avsc"),
        ({"body": "protobuf"}, "body protobuf needs a body schema: give FILE"),
        ({"body_schema": "id long"}, "a body schema is for json, avro and protobuf; body bytes takes none"),
        ({"body": "json", "body_message": "M"}, "a body message is for body protobuf; body json has none"),
        ({"body": "json", "body_schema": 5}, "body_schema is of type int; give a file, or a text such as 'id long'"),
        ({"body": "json", "body_schema": "id lonk"}, "body schema 'id lonk': no such file, and no DDL such as"),
        ({"body": "text", "views": True}, "views are of bodies as they are stored; leave out views, or body"),
        ({"body": "text", "history": "/table"}, "body does not apply to a read with history; leave it out"),
    ],
)
def test_words_that_do_not_fit(words: dict[str, Any], told: str, tmp_path: Path) -> None:
    put_messages(tmp_path / "store", [Message("T", b"{}")])
    for read in (flintmq.scan_arrow, flintmq.dataset):
        with pytest.raises(UsageError) as error:
            read(tmp_path / "store", **words)
        assert str(error.value).startswith(told)


@pytest.mark.parametrize("package, form", [("numpy", "text"), ("fastavro", "avro")])
def test_a_package_that_is_missing(
    package: str, form: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_messages(tmp_path / "store", [Message("T", b"{}")])
    monkeypatch.delitem(sys.modules, "flintmq.lake.bodies.column", raising=False)  # which would have it already
    monkeypatch.setitem(sys.modules, package, None)
    schema = () if form == "text" else ("--body-schema", AVSC)
    found = run("scan", tmp_path / "store", "--body", form, *schema)
    extra = {"numpy": "arrow", "fastavro": "avro"}[package]
    assert found.code == 8 and found.out == ""
    assert package in found.err and found.err.endswith(f"pip install 'flintmq[{extra}]'\n")


def test_raw_bytes_are_not_decoded(tmp_path: Path, run: Run) -> None:
    put_messages(tmp_path / "store", [Message("T", b"{}")])
    found = run("get", tmp_path / "store", "T", 0, 0, "--raw", "--body", "json")
    assert (found.code, found.out, found.err) == (
        2, "", "flintmq: --raw writes the body's bytes, which --body would decode; leave one of them out\n",
    )  # fmt: skip


def test_the_fields_that_a_read_asks_for(tmp_path: Path) -> None:
    store, ddl = (
        tmp_path / "store",
        "id long, at struct<city: string, zip: int>, lines array<struct<sku: string, n: int>>",
    )
    body = b'{"id": 1, "at": {"city": "Bonn", "zip": 5}, "lines": [{"sku": "a", "n": 2}, null]}'
    put_messages(store, [Message("T", body), Message("T", b'{"id": "1", "at": null}')])

    def read(*columns: str) -> Any:
        return flintmq.scan_arrow(store, columns, body="json", body_schema=ddl).read_all()

    found = read("body.lines.sku", "topic", "body.at.zip")
    assert (
        str(found.schema.field("body").type)
        == "struct<at: struct<zip: int32>, lines: list<element: struct<sku: string>>>"
    )
    assert found.column_names == ["body", "topic"]
    assert found["body"].to_pylist() == [{"at": {"zip": 5}, "lines": [{"sku": "a"}, None]}, None], "id is wrong"
    assert read("body.at")["body"].to_pylist() == [{"at": {"city": "Bonn", "zip": 5}}, None]
    for wrong, told in {
        ("body.x",): "no field 'x' in body; there are: id, at, lines",
        ("body.id.x",): "no field 'x' in body.id; it has no fields",
        ("topic.x",): "no field 'x' in topic; it has no fields",
        ("body", "body.id"): "column 'body' is named twice",
        ("body.id", "topic", "body.id"): "column 'body.id' is named twice",
        ("bodi.id",): "no column 'bodi'; did you mean body",
    }.items():
        with pytest.raises(UsageError) as error:
            read(*wrong)
        assert str(error.value).startswith(told)


def test_polars_and_stores_by_a_pattern(tmp_path: Path, run: Run) -> None:
    polars = pytest.importorskip("polars")
    for name, number in (("a", 1), ("b", 20)):
        put_messages(tmp_path / name / "store", [Message("T", b'{"id": %d}' % number), Message("T", b"-")])
    words = {"body": "json", "body_schema": "id long"}
    frame = flintmq.scan_polars(str(tmp_path / "{broker}" / "store"), **words)
    field = polars.col("body").struct.field("id")
    assert frame.filter(field > 1).select("broker", field).collect().rows() == [("b", 20)]
    assert frame.filter(polars.col("body_error").is_not_null()).select(polars.len()).collect().item() == 2
    options = ("--body", "json", "--body-schema", "id long", "--json")
    found = run("scan", tmp_path / "{broker}" / "store", *options)
    assert [(row["broker"], row["body"], row["body_error"]) for row in found.rows] == [
        ("a", {"id": 1}, None), ("a", None, "not JSON"), ("b", {"id": 20}, None), ("b", None, "not JSON"),
    ]  # fmt: skip
    question = "select broker, sum(body.id) s from messages group by 1 order by 1"
    assert run("sql", tmp_path / "{broker}" / "store", question, *options).rows == [
        {"broker": "a", "s": 1}, {"broker": "b", "s": 20},
    ]  # fmt: skip
