"""Descriptors of Protobuf messages with every type, and messages of them."""

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

F = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "double": (F.TYPE_DOUBLE, 1.5, pa.float64()),
    "float": (F.TYPE_FLOAT, 0.5, pa.float32()),
    "int64": (F.TYPE_INT64, -(1 << 63), pa.int64()),
    "uint64": (F.TYPE_UINT64, (1 << 64) - 1, pa.decimal128(20, 0)),
    "int32": (F.TYPE_INT32, -5, pa.int32()),
    "fixed64": (F.TYPE_FIXED64, 1 << 63, pa.decimal128(20, 0)),
    "fixed32": (F.TYPE_FIXED32, (1 << 32) - 1, pa.int64()),
    "bool": (F.TYPE_BOOL, True, pa.bool_()),
    "string": (F.TYPE_STRING, "主", pa.string()),
    "bytes": (F.TYPE_BYTES, b"\xff", pa.binary()),
    "uint32": (F.TYPE_UINT32, (1 << 32) - 1, pa.int64()),
    "sfixed32": (F.TYPE_SFIXED32, -(1 << 31), pa.int32()),
    "sfixed64": (F.TYPE_SFIXED64, -(1 << 63), pa.int64()),
    "sint32": (F.TYPE_SINT32, -(1 << 31), pa.int32()),
    "sint64": (F.TYPE_SINT64, -(1 << 63), pa.int64()),
}


def shop():
    """Make a file of descriptors, as protoc would of shop.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="First").field.add(name="a", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    everything = file.message_type.add(name="Everything")
    for number, (name, (kind, _, _)) in enumerate(SCALARS.items(), 1):
        everything.field.add(name=name, number=number, type=kind, label=F.LABEL_OPTIONAL)
    kinds = everything.enum_type.add(name="Kind")
    kinds.value.add(name="NONE", number=0)
    kinds.value.add(name="SOME", number=1)
    everything.nested_type.add(name="Empty")
    line = everything.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    names = everything.nested_type.add(name="NamesEntry")
    names.options.map_entry = True
    names.field.add(name="key", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    names.field.add(
        name="value", number=2, type=F.TYPE_MESSAGE, type_name=".shop.Everything.Line", label=F.LABEL_OPTIONAL
    )
    own = {
        "kind": (F.TYPE_ENUM, ".shop.Everything.Kind", F.LABEL_OPTIONAL),
        "at": (F.TYPE_MESSAGE, ".google.protobuf.Timestamp", F.LABEL_OPTIONAL),
        "line": (F.TYPE_MESSAGE, ".shop.Everything.Line", F.LABEL_OPTIONAL),
        "lines": (F.TYPE_MESSAGE, ".shop.Everything.Line", F.LABEL_REPEATED),
        "names": (F.TYPE_MESSAGE, ".shop.Everything.NamesEntry", F.LABEL_REPEATED),
        "empty": (F.TYPE_MESSAGE, ".shop.Everything.Empty", F.LABEL_OPTIONAL),
        "parent": (F.TYPE_MESSAGE, ".shop.Everything", F.LABEL_OPTIONAL),
        "counts": (F.TYPE_INT32, "", F.LABEL_REPEATED),
    }
    for number, (name, (kind, of, label)) in enumerate(own.items(), 30):
        everything.field.add(name=name, number=number, type=kind, type_name=of or None, label=label)
    everything.oneof_decl.add(name="_chosen")
    everything.field.add(
        name="chosen", number=50, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL, oneof_index=0, proto3_optional=True
    )
    return file


def timestamps():
    file = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(file)
    return file


def write(tmp_path, *files):
    path = tmp_path / "set.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())
    return str(path)


def message(name):
    pool = descriptor_pool.DescriptorPool()
    pool.Add(timestamps())
    pool.Add(shop())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
