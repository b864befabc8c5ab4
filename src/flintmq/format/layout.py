"""One declaration per layout: the codec, the sizes and the tables of docs/internals/format all come from it.

A layout is declared as a NamedTuple whose fields carry, as `Annotated` metadata, what stands on disk:

    class Unit(NamedTuple):
        physical_offset: Annotated[int, Int("i64", "where the record begins in the log")]
        size: Annotated[int, Int("i32", "bytes of the record")]

    UNIT = Layout("Consume queue unit", Unit)

Five kinds of metadata exist. `Int` is a number of fixed width. `Total` is the size of the whole thing; it stands before
the field that carries it and is not part of the value, because it follows from the rest. `Sized` is bytes whose width
earlier fields tell. `CountedBytes` is bytes behind a length of their own. Everything is big-endian and packed, as
Java's ByteBuffer writes it.

A declaration carries what its bytes mean in words, and how a value is shown to people (`shows`, `bits`): the tables of
docs/internals/format and the command `explain` say the same because they read the same. `Layout.pieces` gives the
fields of bytes that may be anything, one by one, as far as they make sense.

Nothing here trusts a length: each is compared with what is left of the buffer before it is used. Bytes that do not form
the value raise FormatError, and nothing else.
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
    """Some bits of a number that mean something together.

    Attributes:
        mask: the bits.
        meaning: what they say.
        names: what the number has under the mask -> its name; a value without a name is told as a number.
    """

    mask: int
    meaning: str
    names: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Int:
    """A number of the fixed type `type` (a key of CODES).

    Attributes:
        shows: how a value is shown to people: TIME, HEX, or as a decimal number.
        bits: what its bits mean, if it is made of bits.
    """

    type: str
    meaning: str
    shows: str = ""
    bits: tuple[Bits, ...] = ()


@dataclass(frozen=True, slots=True)
class Total:
    """The size in bytes of the whole thing, this field included. It precedes the field that it is declared with."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Sized:
    """Bytes whose width earlier fields tell.

    Attributes:
        symbol: the letter that stands for the width in the tables.
        widths: every width there is, the least first.
        choose: earlier fields (and what is `given` to the codec) -> the width, one of `widths`.
        shows: how a value is shown to people: HOST, or as bytes.
    """

    symbol: str
    widths: tuple[int, ...]
    choose: Callable[[Values], int]
    meaning: str
    shows: str = ""


@dataclass(frozen=True, slots=True)
class CountedBytes:
    """Bytes behind their own length; a negative length is an error.

    Attributes:
        name: name of the length field.
        symbol: the letter that stands for the length in the tables.
        types: every type that the length can have, the narrowest first.
        choose: earlier fields -> the type of the length; None where there is only one.
        meaning: what the bytes are.
    """

    name: str
    symbol: str
    types: tuple[str, ...]
    meaning: str
    choose: Callable[[Values], str] | None = None

    def type_for(self, values: Values) -> str:
        """The type of the length field, given the fields before it."""
        return self.choose(values) if self.choose else self.types[0]

    def length_meaning(self, field: str) -> str:
        """What the length in front of `field` means."""
        return f"bytes of the {field}"


Part: TypeAlias = Int | Total | Sized | CountedBytes


class FieldPiece(NamedTuple):
    """One field as it stands on disk (Layout.pieces).

    Attributes:
        name: of the field; of a length, its own name.
        at: where it begins in the buffer.
        size: bytes of it that are there.
        value: a number, or the bytes; None if the number is cut.
        meaning: from the declaration.
        shows, bits: from the declaration.
        error: why nothing behind it can be told apart; empty if all is well.
    """

    name: str
    at: int
    size: int
    value: int | bytes | None
    meaning: str
    shows: str = ""
    bits: tuple[Bits, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class _NumberRun:
    """Neighbouring numbers, read and written with one struct."""

    struct: struct.Struct
    names: tuple[str, ...]
    types: tuple[str, ...]


class Layout(Generic[T]):
    """The codec of one layout, derived from the annotated NamedTuple `type`.

    Attributes:
        name: what the layout is called in the documentation and in errors.
        type: the NamedTuple class.
        parts: (name of the field on disk, its declaration), in the order of the disk.
        min_size: bytes of the smallest value.
        fixed: True if every value has `min_size` bytes.
        struct: of the numbers that it begins with; of all of it if fixed.
    """

    def __init__(self, name: str, type_: type[T]) -> None:
        self.name, self.type = name, type_
        self._make: Callable[[Iterable[Any]], T] = cast(Any, type_)._make
        self._fields: tuple[str, ...] = cast(Any, type_)._fields
        self.parts = tuple(_parts(type_))
        self.total = next((field for field, part in self.parts if isinstance(part, Total)), None)
        self._steps = tuple(_steps(self.parts))
        self.fixed = len(self._steps) == 1 and isinstance(self._steps[0], _NumberRun) and self.total is None
        self.min_size = sum(map(_least, (part for _, part in self.parts)))
        self._widths = sum(WIDTHS[part.type] for _, part in self.parts if isinstance(part, (Int, Total)))
        numbers = {field: n for n, field in enumerate(self._fields)}
        self._loose = tuple((numbers[f], p) for f, p in self.parts if not isinstance(p, (Int, Total)))
        first = self._steps[0]
        self.struct = first.struct if isinstance(first, _NumberRun) else struct.Struct(">")

    @property
    def size(self) -> int:
        """Bytes of every value of a fixed layout."""
        assert self.fixed, f"{self.name} has no fixed size"
        return self.min_size

    def offset(self, field: str) -> int:
        """Where `field` begins; only for fields before the first one of variable width."""
        at = 0
        for name, part in self.parts:
            if name == field:
                return at
            assert isinstance(part, (Int, Total)), f"{field} of {self.name} has no fixed place"
            at += WIDTHS[part.type]
        raise KeyError(field)

    def unpack(self, buf: Buffer, at: int = 0, limit: int | None = None, given: Values | None = None) -> T:
        """The value that begins at buf[at]; no byte at or behind buf[limit] is looked at.

        `given` holds what the bytes do not tell and a part's `choose` wants to know.

        Raises:
            FormatError: the bytes do not hold a whole value, or lengths contradict each other.
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
        """The fields of whatever stands at buf[at], one behind the other, as far as they can be told apart.

        Raises nothing. A field that is cut, or a length that cannot be, is the last one and carries an `error`. A size
        of the whole is not compared with anything: behind a wrong one the other fields may still be right.
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
        """The bytes of `value`; `given` as for unpack.

        Raises:
            FormatError: a number does not fit its field, or bytes have a width that the other fields do not allow.
        """
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
        """Bytes that `value` takes on disk."""
        size = self._widths
        for number, part in self._loose:
            size += len(value[number])
            if isinstance(part, CountedBytes):
                values = dict(zip(self._fields, value, strict=True)) if part.choose else {}
                size += WIDTHS[part.type_for(values)]
        return size

    def iter(self, buf: Buffer, at: int = 0, end: int | None = None) -> Iterator[T]:
        """The values of a fixed layout that stand back to back in buf[at:end]; a rest too short for one is left out."""
        end = len(buf) if end is None else min(end, len(buf))
        whole = max(end - at, 0) // self.size * self.size
        return map(self._make, self.struct.iter_unpack(memoryview(buf)[at : at + whole]))


def _parts(type_: type[Any]) -> Iterator[tuple[str, Part]]:
    """The declarations of a NamedTuple's fields, flattened: a Total comes before the field that carries it."""
    for field, hint in get_type_hints(type_, include_extras=True).items():
        for part in hint.__metadata__:
            yield (part.name if isinstance(part, Total) else field), part


def _steps(parts: Iterable[tuple[str, Part]]) -> Iterator[_NumberRun | tuple[str, Sized | CountedBytes]]:
    """Neighbouring numbers joined to runs, everything else by itself."""
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
    """The fewest bytes that a part can take."""
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
    """What the bits of a number say, lowest first; bits that have no meaning come last, as one hexadecimal number."""
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
