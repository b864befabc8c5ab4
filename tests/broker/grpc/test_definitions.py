"""The classes that are shipped are those of definitions.proto; a client's own classes stay beside them."""

import re
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import flintmq.broker.grpc
from flintmq.broker.grpc import definitions_pb2 as wire

PROTO = Path(flintmq.broker.grpc.__path__[0]) / "definitions.proto"


def test_the_classes_are_those_of_the_file():
    """`make definitions` was not forgotten."""
    text = re.sub(r"//.*", "", PROTO.read_text(encoding="utf-8"))
    said, found = dict[str, set[tuple[str, int]]](), dict[str, set[tuple[str, int]]]()
    for name, body in re.findall(r"^(?:message|enum) (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        said[name] = {(field, int(number)) for field, number in re.findall(r"(\w+) = (\d+);", body)}
    for name, one in wire.DESCRIPTOR.message_types_by_name.items():
        found[name] = {(field.name, field.number) for field in one.fields}
    for name, one in wire.DESCRIPTOR.enum_types_by_name.items():
        found[name] = {(value.name, value.number) for value in one.values}
    assert found == said and len(said) > 50


def test_they_are_registered_beside_those_of_a_client():
    """rocketmq-python-client registers apache.rocketmq.v2 in the same pool of the same process."""
    file = descriptor_pb2.FileDescriptorProto(name="apache/rocketmq/v2/definition.proto", package="apache.rocketmq.v2")
    file.message_type.add(name="Resource").field.add(name="name", number=2, type=9, label=1)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    theirs = descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Resource")
    made = message_factory.GetMessageClass(theirs)(name="T")
    assert wire.Resource.FromString(made.SerializeToString()).name == "T"
