"""Compare a broker's store at rest with what the senders were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.run import verify
from flintmq.store.view import open_store
from labs.broker.ledger import TOPIC, SendLedger, text_of
from labs.three_brokers.check import Found
from labs.three_brokers.ledger import name_of

WRONG = ("missing", "foreign", "altered", "elsewhere", "offsets twice", "holes", "defects")


class Stored(Protocol):
    """What is looked at of a message."""

    @property
    def queue_id(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def body(self) -> bytes: ...


def check_store(store: Path, keys: Mapping[str, object], ledger: SendLedger, found: Found, but: str = "") -> None:
    """Everything of a store that nobody has open: `verify`, and its messages.

    Args:
        store: closed cleanly, or recovered.
        keys: of its configuration.
        ledger: of all senders.
        found: added to.
        but: the code of a defect that clients may bring about.
    """
    for defect in verify(store, StoreConfig.from_keys(keys)).defects:
        if defect.code != but:
            found.note("defects", f"{defect.code} {defect.file} {defect.position}")
    with open_store(store, set=dict(keys)) as view:
        check_messages((message for message in view.messages() if message.topic == TOPIC), ledger, found)


def check_messages(stored: Iterable[Stored], ledger: SendLedger, found: Found) -> None:
    """Each acknowledged message is at its place, and none is there that nobody sent.

    One may be there more than once: a client that got no answer has sent it again.
    """
    places, names = Counter[tuple[int, int]](), Counter[str]()
    where = dict[str, set[tuple[int, int, int]]]()
    for message in stored:
        name = name_of(message.body)
        places[message.queue_id, message.queue_offset] += 1
        names[name] += 1
        if name in ledger.acknowledged:
            at = message.queue_id, message.queue_offset, message.physical_offset
            where.setdefault(name, set()).add(at)
        if name not in ledger.sent:
            found.note("foreign", f"{name!r:.60} in queue {message.queue_id} at {message.queue_offset}")
        elif message.body != text_of(name).encode():
            found.note("altered", f"{name} in queue {message.queue_id} at {message.queue_offset}")
    for name, told in ledger.acknowledged.items():
        if name not in names:
            found.note("missing", f"{name}, acknowledged at {told[:3]}")
        elif not any(told[:2] == at[:2] and told.physical_offset in (None, at[2]) for at in where[name]):
            found.note("elsewhere", f"{name}, acknowledged at {told[:3]}, is at {sorted(where[name])}")
    for place, count in places.items():
        if count > 1:
            found.note("offsets twice", f"queue {place[0]} has {count} messages at {place[1]}")
    for queue_id in {queue for queue, _ in places}:
        offsets = {offset for queue, offset in places if queue == queue_id}
        if len(offsets) != max(offsets) + 1:
            found.note("holes", f"queue {queue_id} has {len(offsets)} offsets up to {max(offsets)}")
    found.counted["acknowledged"] += len(ledger.acknowledged)
    found.counted["sent"] += len(ledger.sent)
    found.counted["stored"] += names.total()
    found.counted["sent again"] += names.total() - len(names)
