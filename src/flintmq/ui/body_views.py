"""A body for people: its JSON folded, its text, its bytes. Each is cut before it is large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flintmq.cli.body_option import Bodies
from flintmq.cli.message_lines import DecodedBody
from flintmq.cli.text import printable_bytes
from flintmq.errors import FlintError
from flintmq.format.compression import original_body
from flintmq.message import StoredMessage
from flintmq.ui.page import visible

BODY_BYTES = 16 << 20  # that are decompressed for a page
TEXT_BYTES = 64 << 10
JSON_BYTES = 4 << 20
HEX_BYTES = 2048
ROW = 16
NODES = 2000
DEPTH = 24
VALUE_CHARS = 2000
AS_WRITTEN: Any = {
    **dict.fromkeys(("parse_float", "parse_int", "parse_constant"), str.encode),
    "object_pairs_hook": tuple,
}
"""Numbers are bytes, which keep their digits; an object is a tuple of pairs, in which a name may come again."""


class FoldedNode(NamedTuple):
    """A value of JSON: a leaf has a text, an object or a list its members; `left`: how many are not shown."""

    name: str
    kind: str
    text: str
    members: tuple[FoldedNode, ...] = ()
    left: int = 0


class HexRow(NamedTuple):
    offset: str
    hex: str
    text: str


@dataclass
class BodyViews:
    """The forms of one body.

    Attributes:
        stored: bytes as stored, which may be compressed.
        problem: why it does not decompress or decode; "" if it does.
        decoded: its value by the schema that the server was given, as JSON.
    """

    stored: int
    bytes: int
    compressed: bool
    text: str = ""
    is_text: bool = True
    rows: list[HexRow] = field(default_factory=list)
    tree: FoldedNode | None = None
    decoded: FoldedNode | None = None
    problem: str = ""
    text_bytes: int = TEXT_BYTES
    hex_bytes: int = HEX_BYTES


def views_of(message: StoredMessage, bodies: Bodies) -> BodyViews:
    body, problem = message.body, ""
    try:
        body = original_body(message.body, message.sys_flag, BODY_BYTES)
    except FlintError as error:  # its text says which extra is missing, or what is wrong with the bytes
        problem = str(error)
    found = BodyViews(len(message.body), len(body), bool(message.sys_flag & 1), problem=problem)
    found.tree = tree(body)
    if bodies.decoder is not None:
        shown = bodies.of(message)
        if isinstance(shown, DecodedBody):
            found.decoded, found.problem = tree(shown.json.encode()), shown.error or ""
    head = body[:TEXT_BYTES]
    try:
        lines = head.decode()
    except UnicodeDecodeError as error:
        cut = len(body) > len(head) and error.start > len(head) - 4
        found.is_text = cut
        lines = printable_bytes(head[: error.start] if cut else head[: TEXT_BYTES // 4])
    found.text = "\n".join(visible(line, TEXT_BYTES) for line in lines.split("\n")) if found.is_text else lines
    found.rows = list(hex_rows(body[:HEX_BYTES]))
    return found


def hex_rows(data: bytes) -> Iterator[HexRow]:
    for at in range(0, len(data), ROW):
        part = data[at : at + ROW]
        yield HexRow(f"{at:06x}", part.hex(" "), "".join(chr(b) if 32 <= b < 127 else "·" for b in part))


def tree(body: bytes) -> FoldedNode | None:
    """Return the tree of a body that is JSON with members; else None."""
    if len(body) > JSON_BYTES or body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        value = json.loads(body, **AS_WRITTEN)
    except (ValueError, RecursionError):
        return None
    return _Tree().node("", value, 0)


class _Tree:
    def __init__(self) -> None:
        self.left = NODES

    def node(self, name: str, value: Any, depth: int) -> FoldedNode:
        self.left -= 1
        if not isinstance(value, tuple | list):
            kind = "text" if isinstance(value, str) else "word"
            text = value.decode() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
            return FoldedNode(visible(name), kind, visible(text, VALUE_CHARS))
        kind = "object" if isinstance(value, tuple) else "list"
        pairs = value if kind == "object" else ((str(number), one) for number, one in enumerate(value))
        members = []
        for key, one in pairs if depth < DEPTH else ():
            if self.left <= 0:
                break
            members.append(self.node(key, one, depth + 1))
        return FoldedNode(visible(name), kind, str(len(value)), tuple(members), len(value) - len(members))
