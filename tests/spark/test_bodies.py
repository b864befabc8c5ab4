"""Bodies that the source decodes: `body` is a struct, and what does not decode is a row with its bytes and the reason.

Expected values are written by hand, or sent as Avro's and Protobuf's own libraries wrote them.
"""

import io
import json
import os
import zlib
from datetime import UTC, date, datetime
from typing import Any

import fastavro
import pytest

from flintmq import Message
from flintmq.errors import UsageError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.options import StreamOptions
from flintmq.spark.door import JAR
from tests.support import shop_proto
from tests.support.engine import put_messages
from tests.support.spark_reading import SPARK, by_python, limited

pytestmark = pytest.mark.spark
DDL = "id bigint, at timestamp, day date, price float, address struct<city: string, zip: int>, lines array<struct<sku: string, count: int>>, names map<string, bigint>"  # noqa: E501  # fmt: skip
BODY = (
    b'{"id": 1, "at": "2026-01-31T01:02:03.5+02:00", "day": "2026-01-31", "price": 2.5, "new": [1],'
    b' "address": {"city": "K\xc3\xb6ln", "zip": 50667}, "lines": [{"sku": "a", "count": 2}, null], "names": {"x": 3}}'
)
WRONG = {
    b'{"id": "1"}': "not of the schema",
    b'{"id": 1, "lines": [{"count": 1.0}]}': "not of the schema",
    b"{": "not JSON",
    b'{"id": 1}{"id": 2}': "not JSON",
    b'{"s": "\xff"}': "not UTF-8",
}
"""Body -> why it is none of DDL."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bodies") / "store"
    good = [Message("orders", b'{"id": %d, "lines": [{"sku": "s%d"}]}' % (n, n % 2), tags="A") for n in range(2, 300)]
    bad = [Message("orders", body, tags="B") for body in WRONG]
    put_messages(path, [Message("orders", BODY, tags="A"), *good[:100], *bad, *good[100:], Message("other", b"[]")])
    return str(path)


@pytest.fixture(params=["flintmq", "flintmq_python"])
def load(request: pytest.FixtureRequest, spark: Any, store: str) -> Any:
    by_python(spark)

    def load(path: str = store, **options: str) -> Any:
        options = {"subscribe": "orders", "body": "json", "bodySchema": DDL, **options}
        return spark.read.format(request.param).options(**options).load(path)

    return load


def test_a_whole_row(load: Any, spark: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    names = load().columns
    assert names[names.index("body") :][:3] == ["body", "body_raw", "body_error"]
    (row,) = load().where("body.id = 1").collect()
    assert (row.body_raw, row.body_error, row.queue_offset, row.tags) == (None, None, 0, "A")
    found = row.body.asDict(recursive=True)
    at = found.pop("at").astimezone(UTC)
    assert at == datetime(2026, 1, 30, 23, 2, 3, 500_000, UTC)
    assert found == {
        "id": 1,
        "day": date(2026, 1, 31),
        "price": 2.5,
        "address": {"city": "Köln", "zip": 50667},
        "lines": [{"sku": "a", "count": 2}, None],
        "names": {"x": 3},
    }


def test_what_a_query_uses(load: Any) -> None:
    """Spark asks the source in the JVM for these fields alone."""
    frame = load()
    sums = frame.groupBy("body.lines.sku").count().collect()
    assert {tuple(row.sku or ()): row["count"] for row in sums} == {("a", None): 1, ("s0",): 149, ("s1",): 149, (): 5}
    assert [row.city for row in frame.where("body.address.city is not null").select("body.address.city").collect()] == [
        "Köln"
    ]
    assert frame.selectExpr("sum(body.id)").first()[0] == sum(range(1, 300))
    assert frame.where("body is null").count() == 5
    assert frame.count() == 304
    assert frame.select("topic").distinct().count() == 1


@pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)")
@pytest.mark.skipif(os.environ.get("FLINTMQ_JAR") == "0", reason="FLINTMQ_JAR=0: without the jar")
def test_spark_asks_the_source_in_the_jvm_for_fields(spark: Any, store: str) -> None:
    frame = spark.read.format("flintmq").options(body="json", bodySchema=DDL).load(store)
    plan = frame.select("body.address.zip", "body.lines.sku")._jdf.queryExecution().sparkPlan()
    (column,) = map(plan.collectLeaves().head().output().apply, range(1))
    assert column.dataType().simpleString() == "struct<address:struct<zip:int>,lines:array<struct<sku:string>>>"


def test_dead_letters_are_rows(load: Any) -> None:
    frame = load()
    rows = frame.where("body_error is not null").select("body", "body_raw", "body_error", "tags").collect()
    assert [row.body for row in rows] == [None] * 5
    assert {bytes(row.body_raw): row.body_error for row in rows} == WRONG
    assert {row.tags for row in rows} == {"B"}
    assert frame.select("body_error").groupBy("body_error").count().orderBy("body_error").collect() == [
        (None, 299), ("not JSON", 2), ("not UTF-8", 1), ("not of the schema", 2),
    ]  # fmt: skip
    assert {bytes(row.body_raw) for row in frame.where("body_raw is not null").select("body_raw").collect()} == {*WRONG}


def test_a_row_is_wrong_whatever_of_it_is_asked_for(load: Any) -> None:
    """Of one body `id` is right, and `lines` is not: it is a dead letter also where only `id` is asked for."""
    assert load().where("tags = 'B'").selectExpr("count(body.id)").first()[0] == 0


def test_columns_and_fields_that_are_named(load: Any) -> None:
    named = load(columns="body_error,body")
    assert named.columns == ["body_error", "body"]
    assert named.where("body.id = 2").first().body.lines[0].sku == "s0"


def test_fields_that_a_schema_names(spark: Any, store: str) -> None:
    read = spark.read.format(by_python(spark)).options(subscribe="orders", body="json", bodySchema=DDL)
    frame = read.schema("body struct<id: bigint, lines: array<struct<sku: string>>>").load(store)
    assert frame.where("body.id = 1").first().asDict(recursive=True) == {
        "body": {"id": 1, "lines": [{"sku": "a"}, None]}
    }
    with pytest.raises(Exception, match=r"column body is of type struct<.*>, not struct<id:string>"):
        read.schema("body struct<id: string>").load(store).collect()


def test_a_schema_of_sparks_own_form(load: Any, tmp_path: Any) -> None:
    text = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
    (tmp_path / "orders.json").write_text(text)
    for schema in (text, str(tmp_path / "orders.json")):
        frame = load(bodySchema=schema)
        assert dict(frame.dtypes)["body"] == "struct<id:bigint>"
        assert frame.selectExpr("count(body.id)").first()[0] == 300, (
            "one whose lines are wrong, which are not asked for"
        )


def test_text(load: Any, spark: Any, store: str) -> None:
    frame = spark.read.format("flintmq").options(subscribe="orders", body="text").load(store)
    assert dict(frame.dtypes)["body"] == "string"
    assert frame.where("body_error is null").count() == 303
    (row,) = frame.where("body_error is not null").select("body", "body_raw", "body_error").collect()
    assert tuple(row) == ('{"s": "\ufffd"}', bytearray(b'{"s": "\xff"}'), "not UTF-8"), "as in exports"


def test_several_batches_of_a_struct(load: Any, tmp_path: Any) -> None:
    """A struct that Spark has closed lost its fields: the second batch of a task could not be read."""
    note = "x" * 100_000
    bodies = [json.dumps({"id": n, "address": {"city": note}}).encode() for n in range(150)]
    put_messages(tmp_path / "store", [Message("orders", body) for body in bodies])
    frame = load(str(tmp_path / "store"))
    (row,) = frame.selectExpr("sum(body.id)", "sum(length(body.address.city))", "count(properties)").collect()
    assert tuple(row) == (150 * 149 // 2, 150 * 100_000, 150)
    assert len(frame.select("body.id").limit(3).collect()) == 3


def test_compressed_bodies(load: Any, tmp_path: Any) -> None:
    packed = zlib.compress(b'{"id": 5}')
    messages = [Message("orders", packed, sys_flag=1), Message("orders", b'{"id": 6}', sys_flag=1)]
    put_messages(tmp_path / "store", messages)
    rows = load(str(tmp_path / "store")).select("body.id", "body_raw", "body_error").collect()
    assert [tuple(row) for row in rows] == [
        (5, None, None),
        (None, bytearray(b'{"id": 6}'), "flagged as compressed, and is not"),
    ]


def test_avro(load: Any, tmp_path: Any) -> None:
    schema = {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]},
    ]}  # fmt: skip
    plain, wire = [], []
    for value in ({"id": 7, "city": "Köln"}, {"id": 8, "city": None}):
        file = io.BytesIO()
        fastavro.schemaless_writer(file, schema, value)
        plain.append(file.getvalue())
        wire.append(b"\0\0\0\0\x09" + file.getvalue())
    put_messages(tmp_path / "store", [Message(topic, body) for topic, bodies in
        (("orders", plain), ("wire", wire)) for body in (*bodies, b"\xff")])  # fmt: skip
    (tmp_path / "9.avsc").write_text(json.dumps(schema))
    want = [(7, "Köln", None), (8, None, None)]
    for one in (str(tmp_path / "9.avsc"), json.dumps(schema)):
        frame = load(str(tmp_path / "store"), body="avro", bodySchema=one)
        rows = frame.select("body.id", "body.city", "body_error").collect()
        assert [tuple(row) for row in rows] == [*want, (None, None, "not of the schema")]
    headed = load(str(tmp_path / "store"), subscribe="wire", body="avro", bodySchema=json.dumps(schema),
                  bodyHead="true", schemaRegistry=str(tmp_path))  # fmt: skip
    rows = headed.select("body.id", "body.city", "body_error").collect()
    assert [tuple(row) for row in rows] == [*want, (None, None, "no registry head")]


def test_protobuf(load: Any, tmp_path: Any) -> None:
    path = shop_proto.write(tmp_path, shop_proto.timestamps(), shop_proto.shop())
    # Field 1 of shop.First is `a`, an int32: key 0x08, varint 300.
    put_messages(tmp_path / "store", [Message("orders", b"\x08\xac\x02"), Message("orders", b"\x08")])
    frame = load(str(tmp_path / "store"), body="protobuf", bodySchema=path, bodyMessage="shop.First")
    rows = frame.select("body.a", "body_raw", "body_error").collect()
    assert [tuple(row) for row in rows] == [(300, None, None), (None, bytearray(b"\x08"), "not of the schema")]


@pytest.mark.parametrize("name", ["flintmq", "flintmq_python"])
def test_a_stream(name: str, spark: Any, store: str, tmp_path: Any) -> None:
    by_python(spark)
    options = {"subscribe": "orders", "body": "json", "bodySchema": DDL}
    if name == "flintmq" or SPARK >= (4, 2):
        options |= limited(maxOffsetsPerTrigger="100")
    frame = spark.readStream.format(name).options(**options).load(store).select("body.id", "body_error")
    to = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "table")}
    frame.writeStream.format("parquet").options(**to).trigger(availableNow=True).start().awaitTermination()
    found = spark.read.parquet(to["path"])
    assert sorted(row.id for row in found.where("id is not null").collect()) == list(range(1, 300))
    assert found.where("id is null and body_error is not null").count() == 5


@pytest.mark.parametrize(
    "options, told",
    [
        ({"body": "xml"}, "option body: 'xml' is not one of bytes, text, json, avro, protobuf"),
        ({"body": "json"}, "body json needs a body schema: give FILE.DDL"),
        ({"bodySchema": "id long"}, "body bytes takes none"),
        ({"body": "json", "bodySchema": "id lonk"}, "no such file, and no DDL"),
        ({"body": "json", "bodySchema": "{}"}, "no schema in Spark's JSON form"),
        ({"body": "json", "bodySchema": "id long", "bodyMessage": "M"}, "a body message is for body protobuf"),
        ({"body": "json", "bodySchema": "id long", "bodyHead": "true"}, "a body head is for body avro and protobuf"),
        ({"body": "text", "schemaRegistry": "/r"}, "a schema registry and a body head belong together"),
        ({"body": "text", "decompress": "false"}, "option decompress: body text is made of what the producer gave"),
        ({"body": "avro", "bodySchema": "/no/file.avsc"}, "/no/file.avsc: No such file or directory; give a file"),
        ({"body": "text", "shape": "kafka"}, "option body does not apply to shape=kafka"),
        ({"body": "text", "view": "queues"}, "option body does not apply to view queues"),
        ({"body": "text", "history": "/table"}, "option body does not apply to a read with history"),
    ],
)
def test_wrong_options(options: dict[str, str], told: str) -> None:
    for parse in (ReadOptions.parse, StreamOptions.parse):
        with pytest.raises(Exception, match=told) as error:
            parse({"path": "/store", **options})
        assert "\n" not in str(error.value)


def test_a_wrong_option_ends_a_read_in_one_line(load: Any) -> None:
    with pytest.raises(Exception, match="body schema 'id lonk': no such file, and no DDL") as error:
        load(bodySchema="id lonk").collect()
    assert UsageError.__name__ in str(error.value)
