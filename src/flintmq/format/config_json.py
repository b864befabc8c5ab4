"""JSON of config/ in the two dialects of Java (docs/internals/format/config.md).

Maps with integer keys are written with unquoted keys, which is not JSON. The reader takes whatever either version of
upstream takes (fastjson 1.2.83 and fastjson2 2.0.43): integer keys with and without quotes, single quotes, comments, a
trailing comma, a leading byte order mark, unquoted names. Size, depth and numbers are bounded.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from flintmq.errors import FormatError
from flintmq.format.text import java_decode, java_encode, java_int

JsonObject: TypeAlias = dict[str | int, Any]
Texts: TypeAlias = Mapping[str | int, Mapping[str | int, str]]  # key of an object -> key of a member -> its text

MAX_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 4_000_000  # of any kind: an empty list takes three bytes of file and many times as much memory

_SPACE = re.compile(r"(?:[ \t\r\n\f\v]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"-?[0-9]+")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
_PLAIN = {'"': re.compile(r'[^"\\]*+'), "'": re.compile(r"[^'\\]*+")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")
_WORDS = {"true": True, "false": False, "null": None}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(data: bytes | bytearray | memoryview, loose_max: int = MAX_BYTES) -> JsonObject:
    """Parse the object that a configuration file holds.

    `loose_max`: bytes of a text that is not plain JSON, which takes a hundred times as long.

    Returns:
        Integer keys without quotes are ints, all others strings. If a key occurs twice, the last value wins. The order
        is the file's.

    Raises:
        FormatError: the bytes are no object of this dialect, continue after it, or exceed a bound (64 MiB, 64 levels,
            4,000,000 values, numbers of 64 bits). The position counts bytes of UTF-8.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"{len(data)} bytes of JSON, more than the {MAX_BYTES} that are read")
    text = java_decode(data)
    plain = _plain(text)
    if plain is None and len(data) > loose_max:
        raise FormatError(f"{len(data)} bytes that are no plain JSON, more than the {loose_max} that are read")
    return _Reader(text).document() if plain is None else plain


def _plain(text: str) -> JsonObject | None:
    """Parse with the standard library where it agrees with `_Reader`, or return None.

    Left to `_Reader`: text that is not JSON or is too long, numbers of more than 18 digits or with a fraction, and
    escapes of surrogates, because Java and Python differ on half a pair.
    """
    has_surrogate = "\\u" in text and _ESCAPED_SURROGATE.search(text)
    if has_surrogate or text.count(",") + text.count("{") + text.count("[") > MAX_VALUES:
        return None
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    inside: list[Any] = [value]
    for _ in range(MAX_DEPTH if isinstance(value, dict) else 0):
        below = (one.values() if isinstance(one, dict) else one for one in inside)
        inside = [one for each in below for one in each if isinstance(one, (dict, list))]
        if not inside:
            return cast(JsonObject, value)
    return None


def _short_number(digits: str) -> int:
    if len(digits) > 18:
        raise ValueError(digits)
    return int(digits)


def _other_number(digits: str) -> float:
    raise ValueError(digits)


_DECODER = json.JSONDecoder(parse_int=_short_number, parse_float=_other_number, parse_constant=_other_number)


def integer(value: Any) -> int | None:
    """Return a number as Java's loader takes it, with or without quotes; None for anything else."""
    if isinstance(value, str):
        return java_int(value, 64)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class _Reader:
    """A recursive descent over one text; `at` is the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text.startswith("\ufeff") else 0
        self.left = MAX_VALUES

    def document(self) -> JsonObject:
        if self.next() != "{":
            raise self.error("an object begins with {")
        value = self.object(1)
        if self.next():
            raise self.error("text after the object")
        return value

    def error(self, reason: str) -> FormatError:
        return FormatError(reason, len(java_encode(self.text[: self.at])))

    def next(self) -> str:
        """Return the next character that is neither space nor comment, without consuming it.

        Empty at the end of the text.
        """
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def object(self, depth: int) -> JsonObject:
        if depth > MAX_DEPTH:
            raise self.error(f"deeper than {MAX_DEPTH} levels")
        self.at += 1
        pairs: JsonObject = {}
        while self.next() != "}":
            begin = self.at
            key = self.key()
            self.enter(key, begin)
            if self.next() != ":":
                raise self.error("no : after a key")
            self.at += 1
            pairs[key] = self.value(depth)
            self.leave(pairs[key])
            self.comma("}")
        self.at += 1
        return pairs

    def array(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise self.error(f"deeper than {MAX_DEPTH} levels")
        self.at += 1
        values: list[Any] = []
        while self.next() != "]":
            self.enter(len(values), self.at)
            values.append(self.value(depth))
            self.leave(values[-1])
            self.comma("]")
        self.at += 1
        return values

    def enter(self, key: str | int, begin: int) -> None:
        """Begin a member of an object, whose key ends at `at`, or an element of an array."""

    def leave(self, value: Any) -> None:
        """Finish the member or element that was begun last; its value ends at `at`."""

    def comma(self, closing: str) -> None:
        """Consume the comma after a value; none is needed before the closing bracket."""
        char = self.next()
        if char == ",":
            self.at += 1
        elif char != closing:
            raise self.error(f"neither , nor {closing} after a value" if char else "the text ends early")

    def key(self) -> str | int:
        char = self.next()
        if char in ('"', "'"):
            return self.string(char)
        if match := _INTEGER.match(self.text, self.at):
            return self.bounded(match.group())
        if match := _NAME.match(self.text, self.at):
            self.at = match.end()
            return match.group()
        raise self.error("no key" if char else "the text ends early")

    def value(self, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.error(f"more than {MAX_VALUES} values")
        char = self.next()
        if char in ('"', "'"):
            return self.string(char)
        if char == "{":
            return self.object(depth + 1)
        if char == "[":
            return self.array(depth + 1)
        if (match := _NAME.match(self.text, self.at)) and match.group() in _WORDS:
            self.at = match.end()
            return _WORDS[match.group()]
        if match := _NUMBER.match(self.text, self.at):
            return self.fraction(match.group()) if match.group(1) or match.group(2) else self.bounded(match.group())
        raise self.error("no value" if char else "the text ends early")

    def bounded(self, digits: str) -> int:
        number = int(digits) if len(digits) <= 20 else 1 << 64
        if not -(1 << 63) <= number < 1 << 63:
            raise self.error("a number beyond 64 bits")
        self.at += len(digits)
        return number

    def fraction(self, digits: str) -> float:
        number = float(digits) if len(digits) <= 64 else math.inf
        if not math.isfinite(number):
            raise self.error("a number out of range")
        self.at += len(digits)
        return number

    def string(self, quote: str) -> str:
        pieces, plain, self.at = [], _PLAIN[quote], self.at + 1
        while True:
            match = plain.match(self.text, self.at)
            assert match, "the pattern matches anything, nothing too"
            pieces.append(match.group())
            self.at = match.end()
            char = self.text[self.at : self.at + 1]
            if char == quote:
                break
            if not char:
                raise self.error("a string does not end")
            pieces.append(self.escape())
        self.at += 1
        text = "".join(pieces)
        # Escaped pairs are one character; Java writes a lone surrogate back as a question mark.
        return java_decode(java_encode(text)) if _SURROGATE.search(text) else text

    def escape(self) -> str:
        """Return the character that the backslash at `at` escapes."""
        char = self.text[self.at + 1 : self.at + 2]
        if char == "u" and (match := _HEX4.match(self.text, self.at + 2)):
            self.at += 6
            return chr(int(match.group(), 16))
        if char not in _ESCAPES or not char:
            raise self.error("an unknown escape in a string")
        self.at += 2
        return _ESCAPES[char]


class JsonMember:
    """A member of an object, or an element of an array, with its position in the text.

    Attributes:
        path: keys and numbers from the file's top object on.
        begin: byte where its key (in an array its value) begins.
        value: None until it is read to its end, which damage may prevent; for an object or an array its number of
            members, as text.
    """

    __slots__ = ("begin", "known", "path", "value")

    def __init__(self, path: tuple[str | int, ...], begin: int) -> None:
        self.path, self.begin = path, begin
        self.value: Any = None
        self.known = False  # whether the value was read


def members(data: bytes, take: Callable[[JsonMember], None]) -> FormatError | None:
    """Report every member with its position, in text order and as it begins.

    Its value is set later.

    Returns:
        None if all was read, else the error with the position (in bytes) at which reading stopped.
    """
    try:
        _Members(data, take).document()
    except FormatError as error:
        return error
    return None


class _Members(_Reader):
    """Reads bytes as if each were a character, so that positions are byte positions.

    Text is decoded piece by piece. Only ASCII characters separate tokens, and none is part of another character in
    UTF-8.
    """

    def __init__(self, data: bytes, take: Callable[[JsonMember], None]) -> None:
        super().__init__(data.decode("latin-1"))
        self.data, self.take = data, take
        self.at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self.path: list[str | int] = []
        self.open: list[tuple[JsonMember, int]] = []

    def error(self, reason: str) -> FormatError:
        return FormatError(reason, self.at)

    def enter(self, key: str | int, begin: int) -> None:
        if isinstance(key, str):
            key = _Reader(java_decode(self.data[begin : self.at])).key()
        self.path.append(key)
        member = JsonMember(tuple(self.path), begin)
        self.open.append((member, self.at))
        self.take(member)

    def leave(self, value: Any) -> None:
        self.path.pop()
        member, begin = self.open.pop()
        if isinstance(value, str):
            reader = _Reader(java_decode(self.data[begin : self.at]))
            if reader.next() == ":":  # of a member; an element of an array has none
                reader.at += 1
            value = reader.value(0)
        elif isinstance(value, (dict, list)):
            value = f"{len(value)} {'member' if isinstance(value, dict) else 'element'}{'' if len(value) == 1 else 's'}"
        member.value, member.known = value, True


def write(
    value: Mapping[str | int, Any],
    peer: str = "5.3.3",
    compact: bool = False,
    known: Texts | None = None,
) -> bytes:
    """Encode a configuration file in the layout of `peer`; int keys are written without quotes.

    Args:
        value: the object; keys are written in its order (upstream: fields by alphabet, maps in any).
        peer: "5.3.3", "5.4.0" or "5.5.0"; the last is like 5.4.0, but writes an empty map or list as {} or [].
        compact: all on one line, as the metrics files are; 5.3.3 then escapes everything that is not ASCII.
        known: of objects in the top object, what `write_member` returned for each of their members, in their order.

    Raises:
        FormatError: a value that is not an object, list, string, number, true, false or null.
    """
    return java_encode(_JsonWriter(peer != "5.3.3", compact, peer == "5.4.0", known or {}).value(value, 0))


def write_member(key: str | int, value: Any, peer: str) -> str:
    """Encode a member of an object that is in the top object, for `known` of `write`."""
    return _JsonWriter(peer != "5.3.3", False, peer == "5.4.0", {}).member(key, value, 2)


class _JsonWriter:
    """Writes the layouts, which differ in empty maps and lists, integer keys, lists and escapes."""

    def __init__(self, by_line: bool, compact: bool, open_empty: bool, known: Texts) -> None:
        self.by_line, self.compact, self.open_empty, self.known = by_line, compact, open_empty, known

    def value(self, value: Any, depth: int) -> str:
        if isinstance(value, str):
            return self.string(value)
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, (int, float)):
            return repr(value)
        if isinstance(value, Mapping):
            return self.object(value, depth)
        if isinstance(value, (list, tuple)):
            return self.array(value, depth)
        raise FormatError(f"{type(value).__name__} cannot be written as JSON")

    def member(self, key: str | int, value: Any, depth: int) -> str:
        name = key if isinstance(key, int) else self.string(key)
        if depth == 1 and key in self.known:
            return f"{name}:{self.object(value, depth, self.known[key].values())}"
        return f"{name}:{self.value(value, depth)}"

    def object(self, pairs: Mapping[str | int, Any], depth: int, known: Iterable[str] | None = None) -> str:
        items = [self.member(key, value, depth + 1) for key, value in pairs.items()] if known is None else known
        if self.compact or not (pairs or self.open_empty):
            return "{" + ",".join(items) + "}"
        inside, outside = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
        if all(isinstance(key, int) for key in pairs) and not self.by_line:
            return "{" + ",".join(items) + outside + "}"
        return "{" + inside + ("," + inside).join(items) + outside + "}"

    def array(self, values: Sequence[Any], depth: int) -> str:
        items = [self.value(value, depth + 1) for value in values]
        numbers = all(isinstance(value, int) for value in values)
        if self.compact or not self.by_line or (numbers and (items or not self.open_empty)):
            return "[" + ",".join(items) + "]"
        inside, outside = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
        return "[" + inside + ("," + inside).join(items) + outside + "]"

    def string(self, text: str) -> str:
        if text.isascii() and text.isprintable() and not _ESCAPED.search(text):  # most are names
            return f'"{text}"'
        return '"' + "".join(map(self.character, text)) + '"'

    def character(self, char: str) -> str:
        if char in _UNESCAPES:
            return _UNESCAPES[char]
        if self.by_line:  # fastjson2 escapes what JSON must have escaped
            return char if char >= " " else f"\\u{ord(char):04x}"
        if self.compact and char == "/":
            return "\\/"
        if " " <= char <= "~" or (not self.compact and char > "\x9f" and char not in "\u2028\u2029"):
            return char
        units = char.encode("utf-16-be", "surrogatepass").hex().upper()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


_ESCAPED = re.compile(r'["\\/]')  # the solidus in a compact text alone
_UNESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
