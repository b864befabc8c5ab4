"""Small stores for tests of the engine, and what lies in one, read by the slow reference codecs alone."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flintmq.format import index, record
from flintmq.format.consume_queue import Unit
from flintmq.message import Message, PutMessageStatus, PutResult
from flintmq.store.message_store import MessageStore
from flintmq.testing import slow_read
from flintmq.testing.slow_read import log_bytes, tree

__all__ = ["log_bytes", "tree"]

FILE_SIZE = 4096
FIRST_LOG = "commitlog/" + "0" * 20  # a log file that is in use, for faults that must not hit one that is made ahead
KEYS: dict[str, Any] = {  # small files, so that everything rolls over
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 200,
    "maxHashSlotNum": 8,
    "maxIndexNum": 32,
}


def open_small(
    root: Path | str, effects: Any = None, dispatch: str = "thread", unique_keys: bool = False, **keys: Any
) -> MessageStore:
    """A store of small files; keys by RocketMQ's names. No unique keys: its tests count bytes and index items."""
    more = {} if effects is None else {"effects": effects}
    return MessageStore(root, config=KEYS | keys, dispatch=dispatch, unique_keys=unique_keys, **more)


def message(number: int, topic: str = "T", queue_id: int = 0, size: int = 20) -> Message:
    """A message that tells its number, with a tag and a key."""
    return Message(
        topic, b"%06d" % number + bytes(size - 6), tags=f"t{number % 3}", keys=f"k{number}", queue_id=queue_id
    )


def put_all(store: MessageStore, count: int, first: int = 0, **rest: Any) -> list[PutResult]:
    """Put messages first..first+count-1; all must be PUT_OK."""
    results = [store.put(message(number, **rest)) for number in range(first, first + count)]
    assert {r.status for r in results} <= {PutMessageStatus.PUT_OK}
    log = store._parts.log
    log.locked(log.check_invariants, None)
    return results


def put_dispatched(store: MessageStore, count: int, first: int = 0, **rest: Any) -> list[PutResult]:
    """Put messages, and wait until queues and index have them."""
    results = put_all(store, count, first, **rest)
    assert store.wait_dispatched(60)
    return results


def stored(
    root: Path | str, count: int, first: int = 0, topic: str = "T", queue_id: int = 0, size: int = 20, **keys: Any
) -> list[PutResult]:
    """Open a small store, put messages, and close it."""
    with open_small(root, **keys) as store:
        return put_all(store, count, first, topic=topic, queue_id=queue_id, size=size)


def put_messages(root: str | Path, messages: Iterable[Message], config: Any = None, **keys: Any) -> None:
    """Open a store, put messages, each of which must be PUT_OK, and close it."""
    with MessageStore(root, config, **keys) as store:
        for one in messages:
            assert store.put(one).status is PutMessageStatus.PUT_OK


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def records(root: Path | str, file_size: int = FILE_SIZE) -> list[record.Record]:
    """Every record of the log, each fully checked; behind the last one there must be zeros only."""
    return slow_read.records(root, file_size)


def units(root: Path | str, topic: str = "T", queue_id: int = 0) -> list[Unit]:
    """The units of a queue, up to the last one that is not zeros."""
    return slow_read.units(root, topic, queue_id)


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
    return slow_read.index_items(root, slots, items)


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
