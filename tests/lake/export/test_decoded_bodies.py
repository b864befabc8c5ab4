"""Bodies as Avro and Protobuf in tables of each format: readers get the values that were sent."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from flintmq import Message
from flintmq.errors import UsageError
from flintmq.lake.export.export_once import export
from tests.support import shop_proto as proto
from tests.support.engine import put_messages
from tests.support.exporting import table_of

SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line",
            "fields": [{"name": "sku", "type": ["null", "string"]}, {"name": "count", "type": "int"}],
        }}},
        {"name": "names", "type": {"type": "map", "values": "string"}},
    ],
}  # fmt: skip
ORDER: dict[str, Any] = {
    "id": 7,
    "at": datetime(2026, 1, 31, 1, 2, 3, 4, UTC),
    "price": Decimal("12.50"),
    "lines": [{"sku": "a", "count": 2}, {"sku": None, "count": -1}],
    "names": {"de": "Grüße"},
}


def bodies_of(out: Path, to: str) -> list[tuple[Any, bytes | None]]:
    """(body, body_raw) of each row, by its place in the log, as a reader of the format gives them."""
    rows = table_of(out, to).to_pylist()
    return [(row["body"], row["body_raw"]) for row in sorted(rows, key=lambda row: row["physical_offset"])]


def put(store: Path, *bodies: bytes) -> None:
    put_messages(store, (Message("Orders", body) for body in bodies))


def test_avro(tmp_path: Path, to: str) -> None:
    file, written = tmp_path / "order.avsc", io.BytesIO()
    file.write_text(json.dumps(SCHEMA))
    fastavro.schemaless_writer(written, fastavro.parse_schema(SCHEMA), ORDER)
    put(tmp_path / "store", written.getvalue(), b"\x01")
    names = {"to": to, "body": "avro", "body_schema": str(file)}
    done = export(str(tmp_path / "store"), str(tmp_path / "out"), **names)
    assert done.bad_reasons == {"not of the schema": 1}
    want = ORDER | {"names": [("de", "Grüße")]}
    assert bodies_of(tmp_path / "out", to) == [(want, None), (None, b"\x01")]
    file.write_text(json.dumps(SCHEMA | {"fields": SCHEMA["fields"][:1]}))
    with pytest.raises(UsageError, match='other --body-schema .* there, "struct<id:bigint>" now'):
        export(str(tmp_path / "store"), str(tmp_path / "out"), **names)


def test_protobuf(tmp_path: Path, to: str) -> None:
    sent = proto.message("shop.Everything")
    sent.uint64, sent.kind, sent.int32 = (1 << 64) - 1, 1, -3
    sent.lines.add(sku="b")
    sent.names[7].sku = "seven"
    sent.at.seconds = 1
    put(tmp_path / "store", sent.SerializeToString(), b"\xff")
    path = proto.write(tmp_path, proto.timestamps(), proto.shop())
    names = {"to": to, "body": "protobuf", "body_schema": path, "body_message": "shop.Everything"}
    done = export(str(tmp_path / "store"), str(tmp_path / "out"), **names)
    assert done.bad_reasons == {"not of the schema": 1}
    (body, raw), bad = bodies_of(tmp_path / "out", to)
    assert raw is None and bad == (None, b"\xff")
    assert (body["uint64"], body["kind"], body["int32"], body["parent"]) == (Decimal((1 << 64) - 1), "SOME", -3, None)
    assert body["lines"] == [{"sku": "b"}] and body["names"] == [(7, {"sku": "seven"})]
    assert body["at"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
