"""Reads bodies as a Protobuf message of a descriptor set, by Google's library.

A descriptor set is what `protoc --include_imports --descriptor_set_out=FILE` writes. Columns are as Spark's
`from_protobuf` makes them, with these exceptions: uint64 becomes a decimal of 20 digits, so that no value changes; a
message that contains itself stays bytes; one without fields is whether it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flintmq.errors import MissingExtraError, UsageError
from flintmq.lake.bodies.ddl import list_of, read_file, struct_of
from flintmq.lake.bodies.failure import NOT_OF_SCHEMA, OTHER_MESSAGE, BadBody
from flintmq.lake.bodies.registry import split_head

TIMESTAMP = "google.protobuf.Timestamp"
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_UINT64 = pa.decimal128(20, 0)
_TYPES: dict[int, pa.DataType] = {
    1: pa.float64(),
    2: pa.float32(),
    3: pa.int64(),
    4: _UINT64,
    5: pa.int32(),
    6: _UINT64,
    7: pa.int64(),
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    13: pa.int64(),
    14: pa.string(),
    15: pa.int32(),
    16: pa.int64(),
    17: pa.int32(),
    18: pa.int64(),
}
"""The columns of FieldDescriptor.TYPE_DOUBLE and so on; an enum is the name of its value."""

Convert = Callable[[Any], Any]


def read_descriptors(path: str, message: str | None) -> tuple[bytes, str, pa.StructType]:
    """Read a descriptor set; return its bytes, a message's full name, and the column's type.

    `message`: full name of the message; None: the only message at the top of the last file.
    """
    return checked_descriptors(read_file(path), path, message)


def checked_descriptors(content: bytes, path: str, message: str | None) -> tuple[bytes, str, pa.StructType]:
    pool, files = _pool(content, path)
    if message is None:
        names = [f"{files[-1].package}.{each.name}".lstrip(".") for each in files[-1].message_type] if files else []
        if len(names) != 1:
            known = ", ".join(names[:5]) or "no message"
            raise UsageError(f"{path}: the last file has {known}; name one as body message")
        message = names[0]
    kind = _column(_message(pool, path, message), ())
    if not pa.types.is_struct(kind):
        raise UsageError(f"{path}: message {message} has no fields; name another as body message")
    return content, message, kind


def _pool(content: bytes, path: str) -> tuple[Any, Any]:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingExtraError("bodies as Protobuf need protobuf: pip install 'flintmq[protobuf]'") from error
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content).file
        waiting = {each.name: each for each in files}
        while ready := [each for each in waiting.values() if not waiting.keys() & set(each.dependency)]:
            for each in ready:
                pool.Add(waiting.pop(each.name))
        if waiting:
            raise TypeError
        for each in files:
            pool.FindFileByName(each.name)
    except (DecodeError, TypeError, KeyError, ValueError) as error:
        raise UsageError(
            f"{path}: no whole descriptor set; write one with protoc --include_imports --descriptor_set_out=FILE"
        ) from error
    if not files:
        raise UsageError(f"{path}: a descriptor set without files; write one with protoc --descriptor_set_out=FILE")
    return pool, files


def _message(pool: Any, path: str, name: str) -> Any:
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError as error:
        raise UsageError(f"{path}: has no message {name[:80]!r}; give its full name, such as shop.Order") from error


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _contains_itself(message: Any, around: tuple[Any, ...]) -> bool:
    return any(message.full_name == each.full_name for each in around)


def _column(message: Any, around: tuple[Any, ...]) -> pa.DataType:
    if message.full_name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if _contains_itself(message, around):
        return pa.binary()
    if not message.fields:
        return pa.bool_()
    return struct_of([(field.name, _field(field, (*around, message))) for field in message.fields], "")


def _is_list(field: Any) -> bool:
    # protobuf says so from 6.31 on; earlier releases have a label for it, which 7 has no more.
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _field(field: Any, around: tuple[Any, ...]) -> pa.DataType:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        return pa.map_(_single(parts["key"], around), _single(parts["value"], around))
    return list_of(_single(field, around)) if _is_list(field) else _single(field, around)


def _single(field: Any, around: tuple[Any, ...]) -> pa.DataType:
    return _TYPES[field.type] if field.message_type is None else _column(field.message_type, around)


def reader(descriptors: bytes, name: str, head: bool) -> Convert:
    """Return a function that decodes a body; it raises BadBody."""
    pool, _ = _pool(descriptors, "the descriptor set")
    from google.protobuf import message_factory

    message = _message(pool, "the descriptor set", name)
    made, convert, path = message_factory.GetMessageClass(message), _converter(message, ()), _indexes(message)

    def read(body: bytes) -> Any:
        if head:
            body = _after_indexes(split_head(body)[1], path)
        try:
            found = made.FromString(body)
            if not found.IsInitialized():
                raise BadBody(NOT_OF_SCHEMA)
            return convert(found)
        except (BadBody, MemoryError):  # a lack of memory says nothing of the body
            raise
        except Exception as error:  # DecodeError, and what a value out of its range raises
            raise BadBody(NOT_OF_SCHEMA) from error

    return read


def _indexes(message: Any) -> list[int]:
    """Return the numbers that lead to a message: of the outermost around it first."""
    path = []
    while message is not None:
        around = message.containing_type
        siblings: Iterable[Any] = around.nested_types if around else message.file.message_types_by_name.values()
        path.append([each.full_name for each in siblings].index(message.full_name))
        message = around
    return path[::-1]


def _after_indexes(body: bytes, path: list[int]) -> bytes:
    """Return the body after the indexes of the message: a count and as many zigzag varints."""
    numbers: list[int] = []
    at = 0
    while len(numbers) < 1 + (numbers[0] if numbers else 0):
        value = shift = 0
        while True:
            if at >= len(body) or shift > 28 or len(numbers) > len(path):
                raise BadBody(OTHER_MESSAGE)
            value |= (body[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if body[at - 1] < 128:
                break
        numbers.append(value >> 1 ^ -(value & 1))
    if (numbers[1:] or [0]) != path:
        raise BadBody(OTHER_MESSAGE)
    return body[at:]


def _converter(message: Any, around: tuple[Any, ...]) -> Convert:
    if message.full_name == TIMESTAMP:
        return _timestamp
    if _contains_itself(message, around):
        return lambda value: value.SerializeToString()
    if not message.fields:
        return lambda value: True
    parts = [(field.name, field.has_presence, _of_field(field, (*around, message))) for field in message.fields]

    def convert(value: Any) -> dict[str, Any]:
        return {
            name: None if presence and not value.HasField(name) else make(getattr(value, name))
            for name, presence, make in parts
        }

    return convert


def _of_field(field: Any, around: tuple[Any, ...]) -> Convert:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        key, one = _of_single(parts["key"], around), _of_single(parts["value"], around)
        return lambda values: [(key(name), one(values[name])) for name in values]
    single = _of_single(field, around)
    return (lambda values: [single(each) for each in values]) if _is_list(field) else single


def _of_single(field: Any, around: tuple[Any, ...]) -> Convert:
    if field.message_type is not None:
        return _converter(field.message_type, around)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return Decimal if _TYPES[field.type] is _UINT64 else _same


def _same(value: Any) -> Any:
    return value


def _timestamp(value: Any) -> int:
    found: int = value.seconds * 1_000_000 + value.nanos // 1000
    if not FIRST_US <= found <= LAST_US:
        raise ValueError(found)
    return found
