"""Small stores for tests of the engine, and what lies in one, read by the slow reference codecs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flintmq.format import index, record
from flintmq.format.consume_queue import UNIT, Unit
from flintmq.message import Message, PutMessageStatus, PutResult
from flintmq.store.message_store import MessageStore

FILE_SIZE = 4096
FIRST_LOG = "commitlog/" + "0" * 20  # a log file that is in use, for faults that must not hit one that is made ahead
KEYS: dict[str, Any] = {  # small files, so that everything rolls over
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 200,
    "maxHashSlotNum": 8,
    "maxIndexNum": 32,
}


def open_small(root: Path | str, effects: Any = None, dispatch: str = "thread", **keys: Any) -> MessageStore:
    """A store of small files; further keys by RocketMQ's names."""
    return MessageStore(
        root, config=KEYS | keys, dispatch=dispatch, **({} if effects is None else {"effects": effects})
    )


def message(number: int, topic: str = "T", queue_id: int = 0, size: int = 20) -> Message:
    """A message that tells its number, with a tag and a key."""
    return Message(
        topic, b"%06d" % number + bytes(size - 6), tags=f"t{number % 3}", keys=f"k{number}", queue_id=queue_id
    )


def put_all(store: MessageStore, count: int, first: int = 0, **rest: Any) -> list[PutResult]:
    """Put messages first..first+count-1; all must be PUT_OK."""
    results = [store.put(message(number, **rest)) for number in range(first, first + count)]
    assert {r.status for r in results} <= {PutMessageStatus.PUT_OK}
    return results


def log_bytes(root: Path | str) -> tuple[bytes, int]:
    """All bytes of the log, and its first offset."""
    files = sorted(Path(root, "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files), int(files[0].name) if files else 0


def records(root: Path | str, file_size: int = FILE_SIZE) -> list[record.Record]:
    """Every record of the log, each fully checked; behind the last one there must be zeros only."""
    data, base = log_bytes(root)
    found, at = [], 0
    while at < len(data):
        file_end = at - at % file_size + file_size
        try:
            found.append(record.check(data, at, base + at, file_end=file_end))
        except record.RecordError as error:
            if error.kind == "BLANK":
                at = file_end
                continue
            assert error.kind == "ZERO" and not any(data[at:]), f"{error} at {base + at}"
            break
        at += found[-1].size
    return found


def units(root: Path | str, topic: str = "T", queue_id: int = 0) -> list[Unit]:
    """The units of a queue, up to the last one that is not zeros."""
    folder = Path(root, "consumequeue", topic, str(queue_id))
    data = b"".join(file.read_bytes() for file in sorted(folder.iterdir()))
    found = list(UNIT.iter(data))
    while found and found[-1] == Unit(0, 0, 0):
        found.pop()
    return found


def expected_units(root: Path | str, topic: str = "T", queue_id: int = 0) -> list[Unit]:
    """The units that the log implies, for queues of plain records that begin at 0."""
    from flintmq.format import properties
    from flintmq.format.text import java_hash

    found = []
    for r in records(root):
        if (r.topic, r.queue_id) == (topic.encode(), queue_id):
            assert r.queue_offset == len(found), "queue offsets without holes, none twice"
            tags = properties.parse_bytes(r.properties).get("TAGS", "")
            found.append(Unit(r.physical_offset, r.size, java_hash(tags)))
    return found


def index_items(root: Path | str, slots: int = 8, items: int = 32) -> list[tuple[int, int]]:
    """(key hash, log offset) of every item of the index, in order; chains and headers are checked on the way."""
    found = []
    for path in sorted(Path(root, "index").iterdir()):
        data = path.read_bytes()
        assert len(data) == 40 + 4 * slots + 20 * items
        header = index.HEADER.unpack(data)
        table = dict.fromkeys(range(slots), 0)
        for number in range(1, max(header.index_count, 1)):
            item = index.ITEM.unpack(data, index.item_position(number, slots))
            assert item.previous == table[item.key_hash % slots], (path.name, number)
            table[item.key_hash % slots] = number
            found.append((item.key_hash, item.physical_offset))
        assert not any(data[index.item_position(max(header.index_count, 1), slots) :]), "items behind the count"
        for slot, number in table.items():
            assert index.SLOT.unpack(data, index.slot_position(slot)).item == number, (path.name, slot)
        assert header.slots_used == sum(number > 0 for number in table.values())
    return found


def expected_items(root: Path | str) -> list[tuple[int, int]]:
    """The items that the log implies."""
    from flintmq.format import properties

    return [
        (index.key_hash(r.topic.decode(), key), r.physical_offset)
        for r in records(root)
        for key in index.keys_of(properties.parse_bytes(r.properties), r.sys_flag)
    ]


def check_derived(root: Path | str) -> None:
    """Queues and index are what the log implies."""
    queues = {(r.topic.decode(), r.queue_id) for r in records(root)}
    for topic, queue_id in queues:
        assert units(root, topic, queue_id) == expected_units(root, topic, queue_id), (topic, queue_id)
    there = {
        (folder.parent.name, int(folder.name))
        for folder in Path(root, "consumequeue").glob("*/*")
        if units(root, folder.parent.name, int(folder.name))
    }
    assert there == queues
    assert index_items(root) == expected_items(root)


def tree(root: Path | str, *folders: str) -> dict[str, bytes]:
    """Relative path -> bytes of every file below these folders (all of log, queues and index if none is named)."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders or ("commitlog", "consumequeue", "index")
        for path in sorted(Path(root, folder).rglob("*"))
        if path.is_file()
    }
