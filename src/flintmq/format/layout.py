"""Declarative layouts: codec, sizes and documentation tables from one declaration each.

A layout is declared as a NamedTuple whose fields carry their form on disk as `Annotated` metadata:

    class Unit(NamedTuple):
        physical_offset: Annotated[int, Int("i64", "where the record begins in the log")]
        size: Annotated[int, Int("i32", "bytes of the record")]

    UNIT = Layout("Consume queue unit", Unit)

Four kinds of metadata exist. `Int` is a number of fixed width. `Total` is the size of the whole value; it precedes the
field that carries it and is not part of the value, because it follows from the rest. `Sized` is bytes whose width
follows from earlier fields. `CountedBytes` is bytes after a length of their own. Everything is big-endian and packed,
as Java's ByteBuffer writes it.

A declaration also carries the meaning of its bytes in words, and how a value is shown to people (`shows`, `bits`): the
tables of docs/internals/format and the command `explain` agree because they read the same declarations. `Layout.pieces`
reads the fields of arbitrary bytes one by one, as far as they make sense.
No length is trusted: each is compared with the rest of the buffer before it is used. Bytes that do not form the value
raise FormatError, and no other exception.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

from flintmq.errors import FormatError

Buffer: TypeAlias = bytes | bytearray | memoryview
Values: TypeAlias = Mapping[str, Any]
T = TypeVar("T", bound=tuple[Any, ...])

CODES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
WIDTHS = {name: struct.calcsize(">" + code) for name, code in CODES.items()}
_PREFIXES = {name: struct.Struct(">" + code) for name, code in CODES.items()}


TIME: Final = "time"  # how a value is shown: ms since 1970
HEX: Final = "hex"  # as a hexadecimal number
HOST: Final = "host"  # address and port


@dataclass(frozen=True, slots=True)
class Bits:
    """A group of bits of a number with one meaning."""

    mask: int
    meaning: str
    names: Mapping[int, str]  # value under the mask -> its name; a value without a name is shown as a number


@dataclass(frozen=True, slots=True)
class Int:
    type: str
    meaning: str
    shows: str = ""  # how a value is shown to people: TIME, HEX, or as a decimal number
    bits: tuple[Bits, ...] = ()


@dataclass(frozen=True, slots=True)
class Total:
    """The size in bytes of the whole value, this field included.

    It precedes the field that it is declared with.
    """

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Sized:
    """Bytes whose width follows from earlier fields.

    `choose`: earlier fields (and the values `given` to the codec) -> the width, one of `widths`.
    """

    symbol: str
    widths: tuple[int, ...]  # all possible widths, the least first
    choose: Callable[[Values], int]
    meaning: str
    shows: str = ""  # how a value is shown to people: HOST, or as bytes


@dataclass(frozen=True, slots=True)
class CountedBytes:
    """Bytes after their own length; a negative length is an error.

    `choose`: earlier fields -> the type of the length; None where there is only one.
    """

    name: str
    symbol: str  # the letter for the length in the tables
    types: tuple[str, ...]  # all possible types of the length, the narrowest first
    meaning: str
    choose: Callable[[Values], str] | None = None

    def type_for(self, values: Values) -> str:
        return self.choose(values) if self.choose else self.types[0]

    def length_meaning(self, field: str) -> str:
        return f"bytes of the {field}"


Part: TypeAlias = Int | Total | Sized | CountedBytes


class FieldPiece(NamedTuple):
    """One field as it is on disk (Layout.pieces)."""

    name: str  # of the field; of a length, its own name
    at: int
    size: int
    value: int | bytes | None  # a number, or the bytes; None if the number is incomplete
    meaning: str
    shows: str = ""
    bits: tuple[Bits, ...] = ()
    error: str = ""  # why the fields after it cannot be located; empty if all is well


@dataclass(frozen=True, slots=True)
class _NumberRun:
    """Adjacent numbers, read and written with one struct."""

    struct: struct.Struct
    names: tuple[str, ...]
    types: tuple[str, ...]


class Layout(Generic[T]):
    """The codec of one layout, derived from the annotated NamedTuple `type`.

    Attributes:
        name: name of the layout in the documentation and in errors.
        fixed: True if every value has `min_size` bytes.
        struct: of the leading numbers; of the whole value if fixed.
    """

    def __init__(self, name: str, type_: type[T]) -> None:
        self.name, self.type = name, type_
        self._make: Callable[[Iterable[Any]], T] = cast(Any, type_)._make
        self._fields: tuple[str, ...] = cast(Any, type_)._fields
        self.parts = tuple(_parts(type_))  # (name of the field on disk, its declaration), in the order of the disk
        self.total = next((field for field, part in self.parts if isinstance(part, Total)), None)
        self._steps = tuple(_steps(self.parts))
        self.fixed = len(self._steps) == 1 and isinstance(self._steps[0], _NumberRun) and self.total is None
        self.min_size = sum(map(_least, (part for _, part in self.parts)))  # bytes of the smallest value
        self._widths = sum(WIDTHS[part.type] for _, part in self.parts if isinstance(part, (Int, Total)))
        numbers = {field: n for n, field in enumerate(self._fields)}
        self._loose = tuple((numbers[f], p) for f, p in self.parts if not isinstance(p, (Int, Total)))
        first = self._steps[0]
        self.struct = first.struct if isinstance(first, _NumberRun) else struct.Struct(">")

    @property
    def size(self) -> int:
        """Size in bytes of each value of a fixed layout."""
        assert self.fixed, f"{self.name} has no fixed size"
        return self.min_size

    def offset(self, field: str, values: Values | None = None) -> int:
        """Return the offset of `field`; of bytes with a length of their own, of that length.

        `values`: the earlier fields on which the widths before `field` depend; None if none does.
        """
        at = 0
        for name, part in self.parts:
            if name == field:
                return at
            if isinstance(part, Sized) and values is not None:
                at += part.choose(values)
                continue
            assert isinstance(part, (Int, Total)), f"{field} of {self.name} has no fixed place"
            at += WIDTHS[part.type]
        raise KeyError(field)

    def numbers(self, *fields: str) -> struct.Struct:
        """Return a struct that unpacks only these numbers; name them in their order on disk.

        It begins where the value begins: `struct.unpack_from(buf, at)`.
        """
        parts, code, at = dict(self.parts), ">", 0
        for field in fields:
            part, begin = parts[field], self.offset(field)
            assert isinstance(part, (Int, Total)) and begin >= at, (
                f"{field} of {self.name} is no number, or out of order"
            )
            code += (f"{begin - at}x" if begin > at else "") + CODES[part.type]
            at = begin + WIDTHS[part.type]
        return struct.Struct(code)

    def columns(self) -> list[tuple[str, str]]:
        """Return (name, type) of each field of a fixed layout, as `numpy.dtype` takes them."""
        assert self.fixed, f"{self.name} has no fixed size"
        return [(name, ">" + CODES[part.type]) for name, part in self.parts if isinstance(part, Int)]

    def unpack(self, buf: Buffer, at: int = 0, limit: int | None = None, given: Values | None = None) -> T:
        """Decode the value at buf[at]; bytes at or after buf[limit] are not looked at.

        `given` holds values that a part's `choose` needs and the bytes do not hold.
        """
        end = len(buf) if limit is None else min(limit, len(buf))
        if at < 0 or end - at < self.min_size:
            raise FormatError(f"{self.name} needs {self.min_size} bytes, {max(end - at, 0)} are left", at)
        if self.fixed:
            return self._make(self.struct.unpack_from(buf, at))
        return self._unpack_parts(buf, at, end, dict(given or {}))

    def _unpack_parts(self, buf: Buffer, start: int, end: int, values: dict[str, Any]) -> T:
        at = start
        for step in self._steps:
            if isinstance(step, _NumberRun):
                _room(step.names[0], at, step.struct.size, end)
                values.update(zip(step.names, step.struct.unpack_from(buf, at), strict=True))
                at += step.struct.size
                if self.total is not None and self.total in step.names:
                    total = values[self.total]
                    if not self.min_size <= total <= end - start:
                        raise FormatError(f"{self.total} {total} is not in {self.min_size}..{end - start}", start)
                    end = start + total
                continue
            name, part = step
            length = part.choose(values) if isinstance(part, Sized) else 0
            if isinstance(part, CountedBytes):
                prefix = _PREFIXES[part.type_for(values)]
                _room(part.name, at, prefix.size, end)
                (length,) = prefix.unpack_from(buf, at)
                if length < 0:
                    raise FormatError(f"{part.name} is negative: {length}", at)
                at += prefix.size
            _room(name, at, length, end)
            values[name] = bytes(buf[at : at + length])
            at += length
        if self.total is not None and at != end:
            raise FormatError(f"{self.total} is {end - start}, the parts add up to {at - start}", start)
        return self._make([values[field] for field in self._fields])

    def pieces(
        self, buf: Buffer, at: int = 0, limit: int | None = None, given: Values | None = None
    ) -> Iterator[FieldPiece]:
        """Yield the fields of the bytes at buf[at] in order, as far as they can be located.

        Raises nothing. A field that is incomplete, or a length that is impossible, is the last one and carries an
        `error`. The size of the whole value is not compared with anything: after a wrong size the other fields may
        still be right.
        """
        end = len(buf) if limit is None else min(limit, len(buf))
        values = dict(given or {})
        for name, part in self.parts:
            if isinstance(part, (Int, Total)):
                piece = _number(buf, at, end, name, part.type, part.meaning)
                if isinstance(part, Int):
                    piece = piece._replace(shows=part.shows, bits=part.bits)
                yield piece
                if piece.error:
                    return
                values[name], at = piece.value, at + piece.size
                continue
            shows, error = "", ""
            if isinstance(part, CountedBytes):
                piece = _number(buf, at, end, part.name, part.type_for(values), part.length_meaning(name))
                length = piece.value if isinstance(piece.value, int) else 0
                if length < 0:
                    piece = piece._replace(error=f"{part.name} is negative: {length}")
                yield piece
                if piece.error:
                    return
                at += piece.size
            else:
                length, shows = part.choose(values), part.shows
            if length > end - at:
                error = f"{name} needs {length} bytes, {end - at} are left"
            data = bytes(buf[at : min(at + length, end)])
            yield FieldPiece(name, at, len(data), data, part.meaning, shows, (), error)
            if error:
                return
            values[name], at = data, at + length

    def pack(self, value: T, given: Values | None = None) -> bytes:
        """Encode `value`; `given` as for unpack."""
        values: dict[str, Any] = {**(given or {}), **dict(zip(self._fields, value, strict=True))}
        if self.total is not None:
            values[self.total] = self.size_of(value)
        pieces = []
        for step in self._steps:
            if isinstance(step, _NumberRun):
                pieces.append(_pack_run(step, values))
                continue
            name, part = step
            data = values[name]
            if isinstance(part, CountedBytes):
                type_ = part.type_for(values)
                pieces.append(_pack_run(_NumberRun(_PREFIXES[type_], (part.name,), (type_,)), {part.name: len(data)}))
            elif len(data) != part.choose(values):
                raise FormatError(f"{name} has {len(data)} bytes where {part.choose(values)} are due")
            pieces.append(data)
        return b"".join(pieces)

    def size_of(self, value: T) -> int:
        size = self._widths
        for number, part in self._loose:
            size += len(value[number])
            if isinstance(part, CountedBytes):
                values = dict(zip(self._fields, value, strict=True)) if part.choose else {}
                size += WIDTHS[part.type_for(values)]
        return size

    def iter(self, buf: Buffer, at: int = 0, end: int | None = None) -> Iterator[T]:
        """Iterate over the values of a fixed layout that fill buf[at:end] back to back.

        A remainder too short for a value is left out.
        """
        end = len(buf) if end is None else min(end, len(buf))
        whole = max(end - at, 0) // self.size * self.size
        return map(self._make, self.struct.iter_unpack(memoryview(buf)[at : at + whole]))


def _parts(type_: type[Any]) -> Iterator[tuple[str, Part]]:
    """Yield the declarations of a NamedTuple's fields; a Total precedes its field."""
    for field, hint in get_type_hints(type_, include_extras=True).items():
        for part in hint.__metadata__:
            yield (part.name if isinstance(part, Total) else field), part


def _steps(parts: Iterable[tuple[str, Part]]) -> Iterator[_NumberRun | tuple[str, Sized | CountedBytes]]:
    """Join adjacent numbers into runs; every other part is a step by itself."""
    names: list[str] = []
    types: list[str] = []
    for name, part in parts:
        if isinstance(part, (Int, Total)):
            names.append(name)
            types.append(part.type)
            continue
        if names:
            yield _run(names, types)
            names, types = [], []
        yield name, part
    if names:
        yield _run(names, types)


def _run(names: list[str], types: list[str]) -> _NumberRun:
    return _NumberRun(struct.Struct(">" + "".join(CODES[type_] for type_ in types)), tuple(names), tuple(types))


def _least(part: Part) -> int:
    """Return the fewest bytes that a part can take."""
    if isinstance(part, (Int, Total)):
        return WIDTHS[part.type]
    return part.widths[0] if isinstance(part, Sized) else WIDTHS[part.types[0]]


def _number(buf: Buffer, at: int, end: int, name: str, type_: str, meaning: str) -> FieldPiece:
    width = WIDTHS[type_]
    if width > end - at:
        return FieldPiece(
            name, at, max(end - at, 0), None, meaning, error=f"{name} needs {width} bytes, {end - at} are left"
        )
    return FieldPiece(name, at, width, _PREFIXES[type_].unpack_from(buf, at)[0], meaning)


def bit_names(bits: Iterable[Bits], value: int) -> list[str]:
    """Return the names of the bits that are set in a number, lowest first.

    Bits without a meaning come last, as one hexadecimal number.
    """
    names, rest = [], value
    for group in bits:
        under = value & group.mask
        rest &= ~group.mask
        if under:
            names.append(group.names.get(under, f"0x{under:X} unknown"))
    return names + ([f"0x{rest & 0xFFFFFFFF:X} unknown"] if rest else [])


def _room(name: str, at: int, need: int, end: int) -> None:
    if need > end - at:
        raise FormatError(f"{name} needs {need} bytes, {max(end - at, 0)} are left", at)


def _pack_run(run: _NumberRun, values: Values) -> bytes:
    numbers = [values[name] for name in run.names]
    try:
        return run.struct.pack(*numbers)
    except struct.error:
        for name, type_, number in zip(run.names, run.types, numbers, strict=True):
            try:
                _PREFIXES[type_].pack(number)
            except struct.error:
                raise FormatError(f"{name} {str(number)[:40]} does not fit {type_}") from None
        raise
