"""Reads a store by the slow reference codecs of `flintmq.format` alone.

Tests compare the engine with this: the two share nothing but the declarations of the formats. It reads a real disk or a
simulated one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from flintmq.format import index, record
from flintmq.format.consume_queue import UNIT, Unit
from flintmq.format.record_view import size_at
from flintmq.storage.files.filesystem import REAL, Effects

DERIVED = ("commitlog", "consumequeue", "index")


def whole(path: str, effects: Effects = REAL) -> bytes:
    """Return all bytes of a file; none if it is missing."""
    return effects.read_file(path, 1 << 62) or b""


def log_bytes(root: str | os.PathLike[str], effects: Effects = REAL) -> tuple[bytes, int]:
    """Return all bytes of the log, and its first offset."""
    folder = os.path.join(root, "commitlog")
    data = b"".join(whole(os.path.join(folder, name), effects) for name in effects.listdir(folder))
    return data, log_begin(root, effects)


def log_begin(root: str | os.PathLike[str], effects: Effects = REAL) -> int:
    """Return the log's first offset; 0 without files."""
    names = effects.listdir(os.path.join(root, "commitlog"))
    return int(names[0]) if names else 0


@lru_cache(maxsize=1 << 14)
def _checked(raw: bytes, offset: int, room: int) -> record.Record:
    """Return the fully checked record at a log offset, `room` bytes before its file's end."""
    return record.check(raw, 0, offset, file_end=room)


def _at(data: bytes, at: int, offset: int, room: int) -> tuple[record.Record, int]:
    size = size_at(data, at)
    if record.MIN_SIZE <= size <= room:
        return _checked(data[at : at + size], offset, room), size
    found = record.check(data, at, offset, file_end=at + room)
    return found, found.size


def records(root: str | os.PathLike[str], file_size: int, effects: Effects = REAL) -> list[record.Record]:
    """Return every record of the log, each fully checked; only zeros may follow the last one.

    Raises:
        AssertionError: something else is there.
    """
    data, base = log_bytes(root, effects)
    found: list[record.Record] = []
    at = 0
    while at < len(data):
        room = file_size - at % file_size
        try:
            one, size = _at(data, at, base + at, room)
        except record.RecordError as error:
            if error.kind == "BLANK":
                at += room
                continue
            zeros = data.count(0, at)  # pytest on CI would tell long bytes that differ, for minutes
            assert error.kind == "ZERO" and zeros == len(data) - at, f"{error} at {base + at}"
            break
        found.append(one)
        at += size
    return found


def queues(root: str | os.PathLike[str], effects: Effects = REAL) -> Iterator[tuple[str, int]]:
    """Yield (topic, queue id) of every plain queue that has a directory."""
    folder = os.path.join(root, "consumequeue")
    for topic in effects.listdir(folder):
        for queue_id in effects.listdir(os.path.join(folder, topic)):
            yield topic, int(queue_id)


def first_unit(root: str | os.PathLike[str], topic: str, queue_id: int, effects: Effects = REAL) -> int:
    """Return the queue offset of the first unit that has a place; 0 without files."""
    names = effects.listdir(os.path.join(root, "consumequeue", topic, str(queue_id)))
    return int(names[0]) // UNIT.size if names else 0


def units(root: str | os.PathLike[str], topic: str, queue_id: int, effects: Effects = REAL) -> list[Unit]:
    """Return the units of a queue from its first file up to the last one that is not zeros."""
    folder = os.path.join(root, "consumequeue", topic, str(queue_id))
    data = b"".join(whole(os.path.join(folder, name), effects) for name in effects.listdir(folder))
    return list(UNIT.iter(data[: -(-len(data.rstrip(b"\0")) // UNIT.size) * UNIT.size]))


def index_items(root: str | os.PathLike[str], slots: int, items: int, effects: Effects = REAL) -> list[tuple[int, int]]:
    """Return (key hash, log offset) of every index item, in order; check chains and headers.

    Raises:
        AssertionError: a file is not whole.
    """
    found: list[tuple[int, int]] = []
    folder = os.path.join(root, "index")
    for name in effects.listdir(folder):
        found += _index_file(whole(os.path.join(folder, name), effects), name, slots, items)
    return found


@lru_cache(maxsize=256)
def _index_file(data: bytes, name: str, slots: int, items: int) -> tuple[tuple[int, int], ...]:
    assert len(data) == index.file_size(slots, items), (name, len(data))
    found: list[tuple[int, int]] = []
    header = index.HEADER.unpack(data)
    table = dict.fromkeys(range(slots), 0)
    for number in range(1, max(header.index_count, 1)):
        item = index.ITEM.unpack(data, index.item_position(number, slots))
        assert item.previous == table[item.key_hash % slots], (name, number)
        table[item.key_hash % slots] = number
        found.append((item.key_hash, item.physical_offset))
    assert not any(data[index.item_position(max(header.index_count, 1), slots) :]), "items after the count"
    for slot, number in table.items():
        assert index.SLOT.unpack(data, index.slot_position(slot)).item == number, (name, slot)
    assert header.slots_used == sum(number > 0 for number in table.values())
    return tuple(found)


def tree(root: str | os.PathLike[str], *folders: str, effects: Effects = REAL) -> dict[str, bytes]:
    """Return path -> bytes of every file below these folders (log, queues, index by default)."""
    found: dict[str, bytes] = {}
    for folder in folders or DERIVED:
        _tree(str(root), folder, effects, found)
    return found


def _tree(root: str, inside: str, effects: Effects, found: dict[str, bytes]) -> None:
    for name in effects.listdir(os.path.join(root, inside)):
        relative = os.path.join(inside, name)
        if effects.is_dir(os.path.join(root, relative)):
            _tree(root, relative, effects, found)
        else:
            found[relative] = whole(os.path.join(root, relative), effects)
