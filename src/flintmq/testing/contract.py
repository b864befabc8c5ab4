"""The durability contract as one function of a store and the ledger of puts and answers.

It reads log, queues and index by the slow reference codecs alone (`slow_read`), and the store's messages by its own
`get`, on the real disk or on a simulated one. The ledger is outside the disk under test.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.format import properties, record
from flintmq.format.index import PEER_533, key_hash, keys_of
from flintmq.message import GetMessageStatus, Message
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store import arguments
from flintmq.store.message_store import MessageStore
from flintmq.testing import slow_read
from flintmq.testing.consumer_ledger import Consumed, Placed, wrong_offsets

NEVER = 1 << 62
SMALL: dict[str, Any] = {  # small files, so that everything rolls over
    "mappedFileSizeCommitLog": 16384,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 8,
    "maxIndexNum": 64,
}


def digest(*parts: object) -> str:
    """Return a digest of a message's content: topic, queue id, body, tags, other properties."""
    return hashlib.sha1(repr(parts).encode()).hexdigest()


def digest_of(message: Message) -> str:
    """Return the `digest` of a message that is put."""
    return digest(message.topic, message.queue_id, message.body, message.tags, message.properties)


class PutLedger:
    """A ledger in a file: JSON lines, one write each, so that a kill cuts at most one line.

    Before a put comes the line `{"sent": identity, "digest": ...}`, after it
    `{"told": identity, "outcome": "ok", ...}`
    with queue_offset, place, size, time and committed. Other outcomes are "failed" and "unknown". An identity is
    `life-...`; it is the message's key.
    """

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        size = os.fstat(self.fd).st_size
        if size and os.pread(self.fd, 1, size - 1) != b"\n":  # a kill cut the last line of the previous life
            os.write(self.fd, b"\n")

    def line(self, **fields: object) -> None:
        """Append one line."""
        os.write(self.fd, json.dumps(fields).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


@dataclass
class Book:
    """A ledger in memory.

    Attributes:
        sent: identity -> its line; `digest` is of the content sent.
        answers: identity -> its line. If `committed` is not None, the message is promised only below the life's `safe`.
        safe: life -> log offset below which its answers with `committed` hold nevertheless.
        gone: identities that an earlier recovery dropped, as it may: they must not come back.
        expired: log offset below which retention may have deleted files.
        consumed: the ledger of consumers; None if there were none.
    """

    sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    safe: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    expired: int = 0
    consumed: Consumed | None = None


@dataclass
class ContractReport:
    """The findings of the contract. Everything from `lost` on must be 0.

    Attributes:
        acknowledged, unknown: puts answered OK, and those whose answer is missing or uncertain.
        uncommitted: acknowledged without a promise beyond the committed part (transient pool) or the flushed part (a
            power cut under ASYNC_FLUSH), and gone: the price. Not among `acknowledged`. Always the newest of a life.
        torn: messages without a promise that are there except for zeros in their store time or queue id: it was at the
            edge of a page or sector of which a power cut took bytes, and no checksum covers it (enabledAppendPropCRC
            adds one). If its queue offset does not continue the queue, recovery truncates such a record.
        stored: records in the log.
        lost: acknowledged messages that are missing.
        phantom: records that were never sent, or whose put was refused, or that came back after they had gone.
        altered: records that differ from the message sent or the answer.
        duplicated: messages that are there twice.
        holes: places in queues that are missing or assigned twice.
        derived: queues, units or index items that do not agree with the log.
        unserved: messages that `get` does not return at their place.
        skipped: offsets of consumers that went back or ahead, and queues of which a consumer does not get all.
        notes: observations, a line each.
    """

    acknowledged: int = 0
    unknown: int = 0
    uncommitted: int = 0
    torn: int = 0
    stored: int = 0
    lost: int = 0
    phantom: int = 0
    altered: int = 0
    duplicated: int = 0
    holes: int = 0
    derived: int = 0
    unserved: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> dict[str, int]:
        """The violations, by name."""
        names = ("lost", "phantom", "altered", "duplicated", "holes", "derived", "unserved", "skipped")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def read_ledger(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return (lines of puts, lines of answers), each by identity.

    A line that a kill cut is ignored: its put had not begun, or has no answer.
    """
    sent: dict[str, dict[str, Any]] = {}
    answers: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if not line.endswith("}"):
            continue
        fields = json.loads(line)
        if "sent" in fields:
            assert fields["sent"] not in sent, "an identity is sent once"
            sent[fields["sent"]] = fields
        else:
            answers[fields["told"]] = fields
    return sent, answers


def read_book(path: Path) -> Book:
    """Read a ledger's file; `safe` is the largest committed offset in a life's answers."""
    book = Book(*read_ledger(path))
    for identity, answer in book.answers.items():
        if answer.get("committed") is not None:
            book.safe[life_of(identity)] = max(answer["committed"], book.safe.get(life_of(identity), 0))
    return book


def life_of(identity: str) -> str:
    """Return the life that sent a message."""
    return identity.partition("-")[0]


def check_contract(
    root: str | os.PathLike[str],
    ledger: Path | Book,
    keys: Mapping[str, Any] | None = None,
    *,
    effects: Effects = REAL,
    again: bool = True,
    opened: Callable[[MessageStore], None] = lambda store: None,
    peer: str = PEER_533,
    **rest: Any,
) -> ContractReport:
    """Recover the store twice; compare log, queues, index and messages with the ledger.

    Args:
        root: of the store.
        ledger: the ledger of puts and answers.
        keys: RocketMQ's keys of the store, its geometry among them; SMALL if None.
        effects: the store's disk.
        again: False leaves out the first recovery, and so the comparison of the two.
        opened: called with the store that is compared.
        peer: the RocketMQ version whose habits the store follows, as in MessageStore.
        rest: further arguments of MessageStore.

    Raises:
        AssertionError: log or index are not whole.
        FlintError, OSError: the store cannot be opened.
    """
    arguments.flags(again=again)
    keys = SMALL if keys is None else keys
    words: dict[str, Any] = {"config": config_of(tuple(keys.items())), "effects": effects, "peer": peer, **rest}
    book = ledger if isinstance(ledger, Book) else read_book(ledger)
    before: dict[str, bytes] = {}
    if again:
        with MessageStore(root, **words) as store:
            assert store.wait_dispatched(30)
        before = slow_read.tree(root, effects=effects)
    found = ContractReport()
    with MessageStore(root, **words) as store:
        assert store.wait_dispatched(30)
        opened(store)
        log = slow_read.records(root, keys["mappedFileSizeCommitLog"], effects)
        _compare(log, book, found)
        check_derived(store, log, keys, found, peer)
        if book.consumed is not None:
            wrong = wrong_offsets(store, placed(log), book.consumed, book.expired)
            found.skipped += len(wrong)
            found.notes += wrong
    if again:
        after = slow_read.tree(root, effects=effects)
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        found.derived += len(changed)  # line 4 of the contract: a second recovery changes nothing
        found.notes += [f"changed by recovering again: {name}" for name in changed]
    return found


def check_derived(
    store: MessageStore, log: list[record.Record], keys: Mapping[str, Any], found: ContractReport, peer: str = PEER_533
) -> None:
    """Compare queues, index and answers to `get` of an open store with its log.

    Args:
        store: the store; everything is dispatched.
        log: every record, by `slow_read.records`.
        keys: as in check_contract.
        found: receives the violations.
        peer: as in check_contract.

    Raises:
        AssertionError: the index is not whole.
    """
    _queues(store.root, log, store.effects, found)
    _index(store.root, log, keys, store.effects, peer, found)
    _served(store, log, found)


@lru_cache(maxsize=64)
def config_of(keys: tuple[tuple[str, Any], ...]) -> StoreConfig:
    """Return the configuration of these keys, cached: simulations open thousands of stores."""
    return StoreConfig.from_keys(dict(keys))


def other_properties(pairs: Mapping[str, str]) -> dict[str, str] | None:
    """Return the properties that a digest lists by themselves; None without any."""
    own = ("KEYS", "TAGS", "WAIT", "__CRC32#")
    return {name: value for name, value in pairs.items() if name not in own} or None


@lru_cache(maxsize=1 << 14)
def content_of(r: record.Record, peer: str = PEER_533) -> tuple[str, str, tuple[int, ...], int]:
    """Return (identity, digest, hashes of its keys, size), without the store's own properties."""
    pairs = properties.parse_bytes(r.properties)
    whole = digest(r.topic.decode(), r.queue_id, r.body, pairs.get("TAGS"), other_properties(pairs))
    hashes = tuple(key_hash(r.topic.decode(), key) for key in keys_of(pairs, r.sys_flag, peer))
    return pairs.get("KEYS", ""), whole, hashes, r.size


def _in_queue(r: record.Record) -> bool:
    """Return whether a record has a place in a queue: it is not prepared or rolled back."""
    return r.transaction in (record.TRANSACTION_NONE, record.TRANSACTION_COMMIT)


def placed(log: list[record.Record]) -> Iterator[Placed]:
    """Yield the records of a log that have a place in a queue."""
    for r in filter(_in_queue, log):
        identity, _, _, size = content_of(r)
        yield Placed(r.topic.decode(), r.queue_id, r.queue_offset, identity, r.physical_offset + size)


def _compare(log: list[record.Record], book: Book, found: ContractReport) -> None:
    """Check lines 1, 2 and 4: nothing lost, phantom, altered or duplicated."""
    there: dict[str, record.Record] = {}
    for r in log:
        found.stored += 1
        identity, whole, _, _ = content_of(r)
        if identity in there:
            found.duplicated += 1
            found.notes.append(f"{identity} at {there[identity].physical_offset} and {r.physical_offset}")
        there[identity] = r
        refused = book.answers.get(identity, {}).get("outcome") == "failed"
        if identity not in book.sent or refused or identity in book.gone:
            found.phantom += 1
            found.notes.append(f"phantom {identity!r} at {r.physical_offset}")
            continue
        if whole != book.sent[identity]["digest"]:
            if not _promised(identity, book) and _lacks_its_queue(r, book.sent[identity]["digest"]):
                found.torn += 1
                continue
            found.altered += 1
            found.notes.append(f"altered {identity} at {r.physical_offset}: {r.properties!r:.80}")
    ends = _ends_of_lives(log, book)
    for identity in book.sent:
        answer = book.answers.get(identity)
        if identity in book.gone:
            continue
        if answer is None or answer["outcome"] == "unknown":
            found.unknown += 1
        elif answer["outcome"] == "ok":
            _acknowledged(identity, answer, there.get(identity), book, ends[life_of(identity)], found)


def _ends_of_lives(log: list[record.Record], book: Book) -> dict[str, int]:
    """Return, per life, the log offset after its last record, or an earlier life's if larger."""
    last = {life_of(identity): r.physical_offset + size for r in log for identity, _, _, size in (content_of(r),)}
    ends: dict[str, int] = {}
    end = 0
    for life in dict.fromkeys(map(life_of, book.sent)):
        ends[life] = end = max(end, last.get(life, 0))
    return ends


def _acknowledged(
    identity: str, answer: dict[str, Any], stored: record.Record | None, book: Book, end: int, found: ContractReport
) -> None:
    """Check one message that was answered OK; `end` is the end of its life's messages."""
    promised = _promised(identity, book)
    if stored is None:
        if answer["place"] + answer["size"] <= book.expired:
            return
        if not promised and answer["place"] >= end:  # only a life's newest messages may be the price
            found.uncommitted += 1
        else:
            found.acknowledged += 1
            found.lost += 1
            found.notes.append(f"lost {identity} at {answer['place']}, its life's messages end at {end}")
        return
    found.acknowledged += 1
    place = (stored.queue_offset, stored.physical_offset, content_of(stored)[3], stored.store_timestamp)
    expected = answer["queue_offset"], answer["place"], answer["size"], answer["time"]
    if not promised and not _is_covered(stored) and place[:3] == expected[:3] and _lacks_bytes(place[3], expected[3]):
        found.torn += 1
    elif place != expected:
        found.altered += 1
        found.notes.append(f"{identity} was answered {answer}, and is at {place}")


def _promised(identity: str, book: Book) -> bool:
    """Return whether a message must be there, as it was sent and answered."""
    answer = book.answers.get(identity)
    if answer is None or answer["outcome"] != "ok":
        return False
    if answer.get("committed") is None:
        return True
    return bool(answer["place"] + answer["size"] <= book.safe.get(life_of(identity), NEVER))


def _is_covered(r: record.Record) -> bool:
    """Return whether a checksum covers a record's head, too."""
    return properties.CRC32.encode() in r.properties


def _lacks_its_queue(r: record.Record, sent: str) -> bool:
    """Return whether a record is as sent except for zeros from a power cut in its queue id."""
    pairs = properties.parse_bytes(r.properties)
    tags, others = pairs.get("TAGS"), other_properties(pairs)
    small = r.queue_id == 0 and not _is_covered(r)
    return small and any(digest(r.topic.decode(), n, r.body, tags, others) == sent for n in range(1, 256))


def _lacks_bytes(now: int, before: int) -> bool:
    """Return whether a time differs only by neighbouring zero bytes, cut off at an edge."""
    there, was = now.to_bytes(8, "big", signed=True), before.to_bytes(8, "big", signed=True)
    differing = [n for n in range(8) if there[n] != was[n]]
    return bool(differing) and not any(there[differing[0] : differing[-1] + 1])


def _queues(root: str | os.PathLike[str], log: list[record.Record], effects: Effects, found: ContractReport) -> None:
    """Check line 5 for queues, and the holes of line 4.

    A queue may still have units of files that retention deleted.
    """
    expected: dict[tuple[str, int], list[tuple[int, int]]] = {}
    first: dict[tuple[str, int], int] = {}
    begin = slow_read.log_begin(root, effects)
    for r in filter(_in_queue, log):
        place = r.topic.decode(), r.queue_id
        units = expected.setdefault(place, [])
        wanted = first.setdefault(place, r.queue_offset if begin else 0) + len(units)
        if r.queue_offset != wanted:
            found.holes += 1
            found.notes.append(f"{place}: the record at {r.physical_offset} has {r.queue_offset} and not {wanted}")
        units.append((r.physical_offset, content_of(r)[3]))
    for place in sorted({*expected, *slow_read.queues(root, effects)}):
        wanted_units = expected.get(place, [])
        there = [(u.physical_offset, u.size) for u in slow_read.units(root, *place, effects)]
        gone = len(there) if begin else 0
        if place in first:
            gone = max(first[place] - slow_read.first_unit(root, *place, effects), 0)
        if there[gone:] != wanted_units or any(at >= begin for at, _ in there[:gone]):
            found.derived += 1
            differing = _first(there[gone:], wanted_units)
            found.notes.append(f"{place}: {len(there)} units, {len(wanted_units)} records, differing at {differing}")


def _index(
    root: str | os.PathLike[str],
    log: list[record.Record],
    keys: Mapping[str, Any],
    effects: Effects,
    peer: str,
    found: ContractReport,
) -> None:
    """Check line 5 for the index."""
    begin = slow_read.log_begin(root, effects)
    items = [(hashed, r.physical_offset) for r in log for hashed in content_of(r, peer)[2]]
    there = slow_read.index_items(root, keys["maxHashSlotNum"], keys["maxIndexNum"], effects)
    there = [item for item in there if item[1] >= begin]
    if there != items:
        found.derived += 1
        found.notes.append(f"{len(there)} index items, {len(items)} keys, differing at {_first(there, items)}")


def _first(there: list[Any], wanted: list[Any]) -> str:
    """Describe the first difference of two lists."""
    at = next((n for n, pair in enumerate(zip(there, wanted, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(there), len(wanted)) if at is None else at
    return f"{at}: {there[at : at + 2]} and not {wanted[at : at + 2]}"


def _served(store: MessageStore, log: list[record.Record], found: ContractReport) -> None:
    """Check that `get` returns every record at its queue and offset."""
    places = {(r.topic.decode(), r.queue_id, r.queue_offset): r.physical_offset for r in filter(_in_queue, log)}
    counts = Counter((topic, queue_id) for topic, queue_id, _ in places)
    begins: dict[tuple[str, int], int] = {}
    for topic, queue_id, offset in places:
        begins[topic, queue_id] = min(offset, begins.get((topic, queue_id), offset))
    for (topic, queue_id), count in counts.items():
        at = begins[topic, queue_id]
        end = at + count
        while at < end:
            got = store.get(topic, queue_id, at)
            if got.status is not GetMessageStatus.FOUND:
                found.unserved += end - at
                break
            stored = [m.fields for m in got.messages]
            offsets = [r.queue_offset for r in stored]
            for r in stored:
                found.unserved += places.get((topic, queue_id, r.queue_offset)) != r.physical_offset
            found.unserved += offsets != list(range(at, got.next_begin_offset))
            at = got.next_begin_offset
