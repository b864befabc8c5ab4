"""Forms of bodies, and what a manifest keeps of them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.lake.bodies.form import BodyForm
from tests.support import shop_proto

SCHEMA = json.dumps({"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]})


@pytest.fixture
def avro(tmp_path: Path) -> str:
    (tmp_path / "n.avsc").write_text(SCHEMA)
    return str(tmp_path / "n.avsc")


def form(name: str, schema: str | None = None, **words: Any) -> BodyForm:
    found = BodyForm.parse(name, schema, **words)
    assert found is not None
    return found


def test_forms_that_need_nothing_more(tmp_path: Path) -> None:
    for found in (form("text"), form("json", "n bigint")):
        assert found.source_kept() is None
        assert BodyForm.of_kept({"body_head": False, **found.choice()}, None) == found
    assert BodyForm.of_kept({"body": "bytes", "body_schema": None, "body_head": False}, None) is None


def test_avro_is_kept(avro: str) -> None:
    plain, headed = form("avro", avro), form("avro", avro, head=True, registry="http://127.0.0.1:9/r")
    assert json.loads((plain.source_kept() or {})["avro"])["name"] == "N"
    assert (headed.source_kept() or {})["registry"] == "http://127.0.0.1:9/r"
    for found in (plain, headed):
        assert BodyForm.of_kept(found.choice(), json.loads(json.dumps(found.source_kept()))) == found


def test_protobuf_is_kept(tmp_path: Path) -> None:
    path = shop_proto.write(tmp_path, shop_proto.timestamps(), shop_proto.shop())
    found = form("protobuf", path, message="shop.Everything")
    kept = found.source_kept() or {}
    assert base64.b64decode(kept["protobuf"]) == Path(path).read_bytes()
    assert BodyForm.of_kept(found.choice(), kept) == found


def test_a_password_is_not_kept(avro: str) -> None:
    found = form("avro", avro, head=True, registry="https://me:secret@127.0.0.1:9")
    assert found.source_kept() is None
    with pytest.raises(LookupError, match="avro"):
        BodyForm.of_kept(found.choice(), None)


@pytest.mark.parametrize("name, text", [("avro", "{"), ("protobuf", "?"), ("protobuf", "AAAA")])
def test_what_is_kept_is_no_schema(name: str, text: str) -> None:
    choice = {"body": name, "body_schema": "struct<n:bigint>", "body_head": False}
    with pytest.raises(UsageError, match="the schema of the table's bodies"):
        BodyForm.of_kept(choice, {name: text, "message": "N"})
