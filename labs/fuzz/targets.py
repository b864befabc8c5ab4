"""What is fuzzed: one function of bytes for each parser, with what must hold for any bytes.

A target may raise FlintError: that is a parser's refusal. Whatever else it raises, AssertionError above all, is a find.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.cli.template import compile_template
from flintmq.cli.text import printable, printable_bytes
from flintmq.cli.values import parse_time
from flintmq.config import text as config_text
from flintmq.config.keys import from_settings
from flintmq.errors import CorruptStoreError, FormatError
from flintmq.format import (
    batch_queue,
    checkpoint,
    config_json,
    consume_queue,
    consume_queue_ext,
    flintmq_mark,
    index,
    inner_batch,
    message_id,
    properties,
    record,
    text,
    timer,
    zone_map,
)
from flintmq.format.compression import original_body
from flintmq.format.layout import Layout
from flintmq.kernels.read import record_parts, walk
from flintmq.message import stored_message
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.index.reader import OpenIndex
from flintmq.store.layout.file_geometry import IndexGeometry
from tests.robustness.hostile.commands import is_harmless

Target = Callable[[bytes], None]
TARGETS: dict[str, Target] = {}
NOW = 1_700_000_000_000
_FOLDER = Path(tempfile.mkdtemp(prefix="flintmq-fuzz-"))


def target(function: Target) -> Target:
    """Enter a target in the table."""
    TARGETS[function.__name__] = function
    return function


def _same_again(layout: Layout[Any], data: bytes) -> None:
    """What is unpacked packs to the bytes it came from."""
    value = layout.unpack(data)
    packed = layout.pack(value)
    assert packed == data[: len(packed)]


# -- the log -----------------------------------------------------------------------------------------------------------


@target
def record_(data: bytes) -> None:
    """The kernel and the clear reference agree on what counts, and why not.

    Where lengths and the stored offset are wrong at once, the kernel looks at the offset first.
    """
    positions = array("q", [0])
    count, _, why, _ = walk.walk(data, 0, len(data), len(data), 1, 0, -(1 << 63), 1 << 20, walk.CHECK_CRC, positions)
    try:
        found = record.check(data, 0, 0, max_size=1 << 20)
    except record.RecordError as error:
        same = why == getattr(walk, error.kind) or (why == walk.OFFSET and error.kind in ("LENGTHS", "MORE"))
        assert count == 0 and same, f"reference {error.kind}, kernel {walk.REASONS[why]}"
    else:
        assert count == 1
        raw = record.encode(found)
        assert raw == data[: len(raw)] and record.split(raw) == found
        message = stored_message(data, 0)
        row = message.as_row()
        assert row["size"] == len(raw) and all(map(is_harmless, printable(row["topic"])))
        message_id.parse_offset_msg_id(message.offset_msg_id)


@target
def resync(data: bytes) -> None:
    """Searching finds what trying every position finds."""
    data, expected = data[:1500], None
    for at in range(max(0, len(data) - 90)):
        with contextlib.suppress(FormatError):
            record.check(data, at, at, max_size=1 << 20)
            expected = at
            break
    at, why = 0, walk.MORE
    while why == walk.MORE and at < len(data):
        at, why = walk.resync(data, at, len(data), len(data), 0, 1 << 20)
        at += why == walk.MORE
    assert (at if why == walk.END else None) == expected


@target
def log(data: bytes) -> None:
    """However a log is walked, the same records come out, and each of them counts."""
    path = _FOLDER / f"{0:020}"
    path.write_bytes(data[:100_000])
    files = LogFiles.discover([str(_FOLDER)])
    results = set()
    for access, piece_bytes in (("pread", 1 << 20), ("pread", 97), ("map", 300)):
        report = Report()
        walked = LogWalk(files, strict=False, report=report, access=access, piece_bytes=piece_bytes, max_rows=5)
        found = []
        for piece in walked:
            for at in piece.positions[: piece.count]:
                record.check(piece.data, at, piece.base + at, max_size=files.max_record)
                found.append(piece.base + at)
        assert found == sorted(set(found))
        results.add((tuple(found), report.damage_count, report.lost_bytes, walked.verdict))
    assert len(results) == 1, results
    with contextlib.suppress(CorruptStoreError):
        strict = [piece.base + at for piece in LogWalk(files) for at in piece.positions[: piece.count]]
        assert tuple(strict) == next(iter(results))[0]


@target
def property_string(data: bytes) -> None:
    """The kernel splits as the reference does, where it does not leave the string to Python."""
    data = data[:40_000]
    expected = properties.parse_bytes(data)
    assert properties.parse(properties.encode(expected).decode()) == expected or "\x01" in "".join(expected.values())
    pairs = array("q", bytes(8 * 102))
    count, doubled = record_parts.split_properties(data, 0, len(data), pairs)
    if count >= 0:
        spans = [pairs[3 * i : 3 * i + 3] for i in range(count)]
        found = {data[name:middle].decode(): data[middle + 1 : stop].decode() for name, middle, stop in spans}
        assert found == expected and doubled == (len(found) < count)
        assert data[pairs[96] : pairs[97]].decode() == expected.get("TAGS", "")
    for flags in (0, 8, 12):
        assert all(index.keys_of(expected, flags, "5.4.0"))
    batch_queue.messages_of(expected, 5)


@target
def inner_batch_(data: bytes) -> None:
    """Entries are given up to the first that cannot be, and write the same bytes."""
    found = []
    try:
        for entry in inner_batch.iterate(data):
            found.append(entry)
    except FormatError:
        assert data.startswith(inner_batch.encode(found))
        raise
    assert inner_batch.encode(found) == data


@target
def compressed_body(data: bytes) -> None:
    """The first byte tells the method; output is bounded."""
    if data:
        assert len(original_body(data[1:], 1 | data[0] % 8 << 8, 1 << 20)) <= 1 << 20


# -- queues, index, small files ----------------------------------------------------------------------------------------


@target
def queue_unit(data: bytes) -> None:
    _same_again(consume_queue.UNIT, data)
    unit = consume_queue.UNIT.unpack(data)
    assert unit.is_written in (True, False) and unit.is_pre_blank in (True, False)


@target
def batch_unit(data: bytes) -> None:
    _same_again(batch_queue.BATCH_UNIT, data)


@target
def extension_unit(data: bytes) -> None:
    unit = consume_queue_ext.decode(data)
    if unit is not None:
        raw = consume_queue_ext.encode(unit)
        assert raw == data[: len(raw)]
        assert [unit.bit(n) for n in (0, 7, 8 * len(unit.bitmap))][-1] is False


@target
def index_file(data: bytes) -> None:
    """Chains end, strictly descending, whatever the bytes are."""
    shape = IndexGeometry(4, max(2, (len(data) - 56) // 20))
    opened = OpenIndex("index", 0, shape, _Memory(data))
    for key_hash in range(5):
        numbers = []
        try:
            for number, _ in opened.chain(key_hash):
                numbers.append(number)
        finally:
            assert numbers == sorted(set(numbers), reverse=True) and len(numbers) <= shape.items
    assert sum(1 for _ in opened.items()) <= shape.items
    assert sum(1 for _ in opened.newest()) <= shape.items


@target
def index_parts(data: bytes) -> None:
    for layout in (index.HEADER, index.ITEM, index.SLOT):
        _same_again(layout, data)
    index.seconds(*index.HEADER.unpack(data)[:2])


@target
def checkpoint_(data: bytes) -> None:
    _same_again(checkpoint.CHECKPOINT, data)
    assert checkpoint.decode(checkpoint.encode(checkpoint.decode(data))) == checkpoint.decode(data)


@target
def mark(data: bytes) -> None:
    found = flintmq_mark.decode(data)
    if found.indexed is not None or found[6:14] == (-1, *bytes(7)):
        times = found.physic_timestamp, found.physic_before
        assert flintmq_mark.encode(found.flushed_offset, *times, found.dispatched_offset, found.indexed) == data


@target
def zone_map_(data: bytes) -> None:
    """What is read can be written, but for the places of blocks, which follow from the rest."""
    zones = zone_map.decode(data, len(data))
    again = b"".join(zone_map.encode(7, 9, zones, [bytes(64)] * len(zones)))
    found = zone_map.decode(again, len(again))
    assert [zone[:7] for zone in found] == [zone[:7] for zone in zones]


@target
def timer_log(data: bytes) -> None:
    found = timer.decode_log(data)
    layout: Layout[Any] = timer.LOG_UNIT if isinstance(found, timer.LogUnit) else timer.LOG_END
    assert layout.pack(found) == data[: layout.size]


@target
def timer_parts(data: bytes) -> None:
    _same_again(timer.TIMER_CHECK, data)
    _same_again(timer.WHEEL_SLOT, data)


# -- text --------------------------------------------------------------------------------------------------------------


@target
def java_text(data: bytes) -> None:
    """Java's text is stable once it was decoded, and never obeyed by a terminal."""
    decoded = text.java_decode(data)
    assert text.java_decode(text.java_encode(decoded)) == decoded
    assert -(1 << 31) <= text.java_hash(decoded) < 1 << 31
    assert 0 <= index.key_hash(decoded, decoded) < 1 << 31
    for shown in (printable(decoded), printable_bytes(data), config_text.short(decoded)):
        assert "\x1b" not in shown and "\u202e" not in shown and "\n" not in shown
    for bits in (16, 32, 64):
        number = text.java_int(decoded, bits)
        assert number is None or -(1 << bits - 1) <= number < 1 << bits - 1


@target
def hosts(data: bytes) -> None:
    """A raw host of any bytes writes and reads back; any text is refused, or a host."""
    for width in (8, 20):
        if len(data) == width:
            assert message_id.parse_host(message_id.host_text(data)) == data
            word = message_id.offset_msg_id(data, 77)
            assert message_id.parse_offset_msg_id(word)[2] == 77
            return
    raw = message_id.parse_host(text.java_decode(data))
    assert message_id.parse_host(message_id.host_text(raw)) == raw


@target
def message_ids(data: bytes) -> None:
    """Any text is refused, or is both kinds of id and reads and writes the same."""
    word = text.java_decode(data)
    assert message_id.client_id(message_id.parse_client_id(word)) == word.upper()
    address, port, physical_offset = message_id.parse_offset_msg_id(word)
    raw = message_id.parse_host(f"{address}:{port}" if len(word) == 32 else f"[{address}]:{port}")
    assert message_id.offset_msg_id(raw, physical_offset) == word.upper()


@target
def json_config(data: bytes) -> None:
    """What the standard library reads is read alike; what is read can be written and read again."""
    try:
        plain = json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        plain = None
    try:
        found = config_json.parse(data)
    except FormatError as error:
        bound = any(word in error.reason for word in ("levels", "64 bits", "range", "values"))
        assert not isinstance(plain, dict) or bound, error.reason
        raise
    if isinstance(plain, dict) and b"\\u" not in data and not _has_float(plain):
        assert found == plain
    for peer in ("5.3.3", "5.4.0", "5.5.0"):
        for compact in (False, True):
            assert config_json.parse(config_json.write(found, peer, compact)) == found or _has_float(found)


def _refuse(word: str) -> None:
    raise ValueError(word)


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    return any(map(_has_float, value)) if isinstance(value, list) else isinstance(value, float)


@target
def broker_conf(data: bytes) -> None:
    path = _FOLDER / "broker.conf"
    path.write_bytes(data)
    for key, value in config_text.read_broker_conf(path).items():
        assert key and key == key.strip() and isinstance(value, str)


@target
def setting(data: bytes) -> None:
    """A word of --set: refused, or the key has the value."""
    word = os.fsdecode(data)
    config = from_settings([word])
    assert config.given == {word.partition("=")[0].strip()}


@target
def delay_levels(data: bytes) -> None:
    assert all(0 <= level < 1 << 63 for level in config_text.parse_delay_levels(os.fsdecode(data)))


@target
def time_(data: bytes) -> None:
    """A TIME of the command line is a whole number that differs from now by no more than people can write."""
    assert math.isfinite(parse_time("--since", os.fsdecode(data), NOW))


@target
def template(data: bytes) -> None:
    """A --format template: refused, or a function whose own fields are escaped."""
    word = os.fsdecode(data)
    made = compile_template(word)
    shown = made(_MESSAGE, _MESSAGE.body)
    assert "\x1b" not in shown or "\x1b" in word


_MESSAGE = stored_message(
    record.encode(
        record.Record(body=b"\x1b[2J\xff", topic=b"\x1b]0;T", properties=b"KEYS\x01\x1b\x02a\x01\xe2\x80\xae\x02")
    ),
    0,
)


class _Memory(Effects):
    """Bytes in the place of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """Bytes from a position."""
        assert count >= 0 and position >= 0
        return self.data[position : position + count]
