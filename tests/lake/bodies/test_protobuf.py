"""Bodies as Protobuf: values of the documentation, every type, heads of a registry, damage."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from flintmq.errors import UsageError
from flintmq.lake.bodies.failure import NO_HEAD, NOT_OF_SCHEMA, OTHER_MESSAGE
from flintmq.lake.bodies.form import BodyForm, decoded
from tests.support.shop_proto import SCALARS, F, message, shop, timestamps, write


def form_of(tmp_path, name, head=False):
    return BodyForm.parse("protobuf", write(tmp_path, shop(), timestamps()), message=name, head=head)


def rows(form, *bodies):
    column, bad = decoded(form, pa.array(bodies, pa.binary()))
    assert column.type == form.type
    return column.to_pylist(), bad


def test_the_message_of_the_documentation(tmp_path):
    """Of "Encoding": a field 1 with 150 is 08 96 01."""
    form = form_of(tmp_path, "shop.First")
    assert rows(form, bytes.fromhex("089601"), b"") == ([{"a": 150}, {"a": 0}], [])
    assert form.choice() == {"body": "protobuf", "body_schema": "struct<a:int>", "body_head": False}


def test_every_type(tmp_path):
    form = form_of(tmp_path, "shop.Everything")
    sent = message("shop.Everything")
    for name, (_, value, kind) in SCALARS.items():
        setattr(sent, name, value)
        assert form.type.field(name).type == kind, name
    sent.kind, sent.chosen = 1, 0
    sent.at.FromDatetime(datetime(2026, 1, 31, 1, 2, 3, 4, UTC))
    sent.line.sku = "a"
    sent.lines.add(sku="b")
    sent.lines.add()
    sent.names[7].sku = "seven"
    sent.empty.SetInParent()
    sent.parent.int32 = 9
    sent.counts.extend([1, 2])
    values, bad = rows(form, sent.SerializeToString())
    want = {
        name: Decimal(value) if kind == pa.decimal128(20, 0) else value for name, (_, value, kind) in SCALARS.items()
    }
    want |= {
        "kind": "SOME",
        "at": datetime(2026, 1, 31, 1, 2, 3, 4, UTC),
        "line": {"sku": "a"},
        "lines": [{"sku": "b"}, {"sku": ""}],
        "names": [(7, {"sku": "seven"})],
        "empty": True,
        "parent": bytes.fromhex("2809"),
        "counts": [1, 2],
        "chosen": 0,
    }
    assert bad == [] and values == [want]


def test_what_was_not_sent(tmp_path):
    """Fields without presence have their default, as the language guide of proto3 says; others are null."""
    values, bad = rows(form_of(tmp_path, "shop.Everything"), b"")
    absent = {"at", "line", "empty", "parent", "chosen"}
    defaults = {name: type(value)() for name, (_, value, _) in SCALARS.items()}
    assert bad == []
    assert values == [defaults | {"kind": "NONE", "lines": [], "names": [], "counts": []} | dict.fromkeys(absent)]


def test_bodies_of_another_kind_cost_no_other_row(tmp_path):
    late = message("shop.Everything")
    late.at.seconds = 1 << 50
    odd = [b"\xff", b"\x08", b"\x4a\x01\xff", b"\x4a\x05a", late.SerializeToString(), b"\x0b" * 200]
    values, bad = rows(form_of(tmp_path, "shop.Everything"), *(body for one in odd for body in (one, b"\x28\x09")))
    assert bad == [(number, NOT_OF_SCHEMA) for number in range(0, 2 * len(odd), 2)]
    assert [value and value["int32"] for value in values] == [None, 9] * len(odd)


def test_an_enum_has_a_value_that_the_schema_does_not_know(tmp_path):
    assert rows(form_of(tmp_path, "shop.Everything"), bytes.fromhex("f00107"))[0][0]["kind"] == "7"


def test_heads_name_the_message(tmp_path):
    head = b"\0\0\0\0\x07"
    form = form_of(tmp_path, "shop.First", head=True)
    values, bad = rows(
        form,
        head + b"\0" + b"\x08\x05",  # [0], in short
        head + b"\x02\x00" + b"\x08\x05",  # [0]
        head + b"\x02\x02" + b"\x08\x05",  # [1]
        head + b"\x04\x00\x00" + b"\x08\x05",  # [0, 0]
        head,
        head + b"\xff" * 9,
        b"\x08\x05",
    )
    assert values == [{"a": 5}, {"a": 5}, *[None] * 5]
    assert bad == [*((number, OTHER_MESSAGE) for number in range(2, 6)), (6, NO_HEAD)]
    nested = form_of(tmp_path, "shop.Everything.Line", head=True)
    assert rows(nested, head + b"\x04\x02\x02" + b"\x0a\x01x") == ([{"sku": "x"}], [])


def test_a_message_that_lacks_what_proto2_requires(tmp_path):
    file = descriptor_pb2.FileDescriptorProto(name="old.proto")
    file.message_type.add(name="Old").field.add(name="a", number=1, type=F.TYPE_INT32, label=F.LABEL_REQUIRED)
    form = BodyForm.parse("protobuf", write(tmp_path, file))
    assert rows(form, b"\x08\x05", b"") == ([{"a": 5}, None], [(1, NOT_OF_SCHEMA)])


@pytest.mark.parametrize(
    "files, name, error",
    [
        ([], None, "a descriptor set without files"),
        ([shop()], "shop.First", "no whole descriptor set; write one with protoc --include_imports"),
        ([timestamps(), shop()], None, "the last file has shop.First, shop.Everything; name one as body message"),
        ([timestamps(), shop()], "shop.Lost", "has no message 'shop.Lost'"),
        ([timestamps(), shop()], "shop.Everything.Empty", "has no fields"),
    ],
)
def test_what_is_refused(tmp_path, files, name, error):
    with pytest.raises(UsageError, match=error):
        BodyForm.parse("protobuf", write(tmp_path, *files), message=name)


def test_a_file_that_is_no_descriptor_set(tmp_path):
    (tmp_path / "x").write_text('syntax = "proto3";')
    with pytest.raises(UsageError, match="no whole descriptor set"):
        BodyForm.parse("protobuf", str(tmp_path / "x"))
