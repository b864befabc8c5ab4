"""The durability contract as one function: a store and the ledger of what was sent and answered.

It reads the log by the slow reference codec alone, and the store's answers by its own `get`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintmq.format import properties, record
from flintmq.format.index import key_hash, keys_of
from flintmq.message import GetMessageStatus
from flintmq.store.message_store import MessageStore
from tests.crash.lives import FILE_SIZE, KEYS, digest
from tests.store import engine

NEVER = 1 << 62


@dataclass
class Told:
    """What the contract found. Everything from `lost` on must be 0.

    Attributes:
        acknowledged, unknown: puts answered OK, and those whose answer is missing or uncertain.
        uncommitted: acknowledged from the transient pool without a sync, behind the last commit that the life told of,
            and gone: the pool's price. Not among `acknowledged`.
        stored: records in the log.
        lost: acknowledged messages that are not there.
        phantom: records that were never sent, or whose put was refused.
        altered: records that differ from what was sent or answered.
        duplicated: messages that are there twice.
        holes: places in queues that are missing or given twice.
        derived: queues, units or index items that do not say what the log says.
        unserved: messages that `get` does not give at their place.
        notes: what was seen, a line each.
    """

    acknowledged: int = 0
    unknown: int = 0
    uncommitted: int = 0
    stored: int = 0
    lost: int = 0
    phantom: int = 0
    altered: int = 0
    duplicated: int = 0
    holes: int = 0
    derived: int = 0
    unserved: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> dict[str, int]:
        """The violations, by name."""
        names = ("lost", "phantom", "altered", "duplicated", "holes", "derived", "unserved")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def read_ledger(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """(sent, told), each by identity. A line that a kill cut says nothing: its put had not begun, or has no answer."""
    sent: dict[str, dict[str, Any]] = {}
    told: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if not line.endswith("}"):
            continue
        fields = json.loads(line)
        if "sent" in fields:
            assert fields["sent"] not in sent, "an identity is sent once"
            sent[fields["sent"]] = fields
        else:
            told[fields["told"]] = fields
    return sent, told


def check_contract(root: Path, ledger: Path) -> Told:
    """Recover the store, close it, recover it again; compare log, queues, index and answers with the ledger."""
    with MessageStore(root, config=KEYS) as store:
        assert store.wait_dispatched(30)
    before = engine.tree(root)
    sent, told = read_ledger(ledger)
    found = Told()
    with MessageStore(root, config=KEYS) as store:
        log = engine.records(root, FILE_SIZE)
        _compare(log, sent, told, found)
        _derived(root, log, found)
        _served(store, log, found)
    after = engine.tree(root)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    found.derived += len(changed)  # line 4: recovering again gives the same
    found.notes += [f"changed by recovering again: {name}" for name in changed]
    return found


def _life(identity: str) -> str:
    """The life that sent a message."""
    return identity.partition("-")[0]


def _compare(log: list[record.Record], sent: dict[str, Any], told: dict[str, Any], found: Told) -> None:
    """Lines 1, 2 and 4: nothing lost, phantom, altered or double."""
    there: dict[str, record.Record] = {}
    safe: dict[str, int] = {}
    for identity, answer in told.items():
        if answer.get("committed") is not None:
            safe[_life(identity)] = max(answer["committed"], safe.get(_life(identity), 0))
    for r in log:
        found.stored += 1
        pairs = properties.parse_bytes(r.properties)
        identity = pairs.get("KEYS", "")
        if identity in there:
            found.duplicated += 1
        there[identity] = r
        if identity not in sent or told.get(identity, {}).get("outcome") == "failed":
            found.phantom += 1
            continue
        others = {name: value for name, value in pairs.items() if name not in ("KEYS", "TAGS")} or None
        whole = digest(r.topic.decode(), r.queue_id, r.body, pairs.get("TAGS"), others)
        found.altered += whole != sent[identity]["digest"]
    for identity in sent:
        answer = told.get(identity)
        if answer is None or answer["outcome"] == "unknown":
            found.unknown += 1
        elif answer["outcome"] == "ok":
            stored = there.get(identity)
            if stored is None and answer["place"] + answer["size"] > safe.get(_life(identity), NEVER):
                found.uncommitted += 1
                continue
            found.acknowledged += 1
            if stored is None:
                found.lost += 1
                continue
            place = (stored.queue_offset, stored.physical_offset, stored.size, stored.store_timestamp)
            found.altered += place != (answer["queue_offset"], answer["place"], answer["size"], answer["time"])


def _derived(root: Path, log: list[record.Record], found: Told) -> None:
    """Line 5, and the holes of line 4."""
    queues = Counter((r.topic.decode(), r.queue_id) for r in log)
    expected: dict[tuple[str, int], list[tuple[int, int]]] = {place: [] for place in queues}
    for r in log:
        units = expected[r.topic.decode(), r.queue_id]
        found.holes += r.queue_offset != len(units)
        units.append((r.physical_offset, r.size))
    for (topic, queue_id), units in expected.items():
        there = [(u.physical_offset, u.size) for u in engine.units(root, topic, queue_id)]
        if there != units:
            found.derived += 1
            found.notes.append(
                f"{topic}-{queue_id}: {len(there)} units, {len(units)} records, differing at {_first(there, units)}"
            )
    items = [
        (key_hash(r.topic.decode(), key), r.physical_offset)
        for r in log
        for key in keys_of(properties.parse_bytes(r.properties), r.sys_flag)
    ]
    there = engine.index_items(root, KEYS["maxHashSlotNum"], KEYS["maxIndexNum"])
    if there != items:
        found.derived += 1
        found.notes.append(f"{len(there)} index items, {len(items)} keys, differing at {_first(there, items)}")


def _first(there: list[Any], wanted: list[Any]) -> str:
    """Where two lists begin to differ, and how."""
    at = next((n for n, pair in enumerate(zip(there, wanted, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(there), len(wanted)) if at is None else at
    return f"{at}: {there[at : at + 2]} and not {wanted[at : at + 2]}"


def _served(store: MessageStore, log: list[record.Record], found: Told) -> None:
    """Every record by its queue and offset."""
    ends = Counter((r.topic.decode(), r.queue_id) for r in log)
    places = {(r.topic.decode(), r.queue_id, r.queue_offset): r.physical_offset for r in log}
    for (topic, queue_id), end in ends.items():
        at = 0
        while at < end:
            got = store.get(topic, queue_id, at)
            if got.status is not GetMessageStatus.FOUND:
                found.unserved += end - at
                break
            for m in got.messages:
                found.unserved += places.get((topic, queue_id, m.queue_offset)) != m.physical_offset
            found.unserved += [m.queue_offset for m in got.messages] != list(range(at, got.next_begin_offset))
            at = got.next_begin_offset
