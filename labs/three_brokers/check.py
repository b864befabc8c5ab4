"""Compare the copy of one broker with its master, and with what the producers were told."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flintmq.errors import FlintError
from flintmq.message import StoredMessage
from flintmq.store.view import open_store
from labs.replication.logs import check_prefix, read_log, written_end
from labs.three_brokers.ledger import TOPIC, Ledger, body_of, name_of
from tests.compat.replication import queue_units

SHOWN = 3  # examples of each kind
VERIFY_S = 600
WRONG = (
    "missing", "doubled", "altered", "foreign", "elsewhere", "lost without a kill", "other logs", "other queues",
    "unreadable", "defects",
)  # fmt: skip


@dataclass
class Found:
    """What a comparison gave.

    Attributes:
        counted: figures; those of WRONG must be 0.
        wrong: a line about each thing that is wrong, a few of a kind.
    """

    counted: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, kind: str, text: str) -> None:
        """Count something that is wrong."""
        self.counted[kind] += 1
        if self.counted[kind] <= SHOWN:
            self.wrong.append(f"{kind}: {text}")


def check_broker(name: str, copy: Path, master: Path, ledger: Ledger, found: Found, *, size: int, kills: int) -> None:
    """Compare everything of one broker, both sides at rest.

    Args:
        name: of the broker.
        copy, master: the stores.
        ledger: what its producer was told.
        found: added to.
        size: of a log file.
        kills: how often the broker was killed; else it may have lost nothing.
    """
    _check_logs(name, copy, master, size, found)
    _check_queues(name, copy, master, found)
    try:
        check_messages(name, _messages(copy), _messages(master), ledger, found, kills=kills)
    except FlintError as error:
        found.note("unreadable", f"{name}: {error}")
    words = [sys.executable, "-m", "flintmq", "verify", str(copy)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=VERIFY_S)
    if done.returncode:
        found.note("defects", f"{name}: verify ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}")


def check_messages(
    name: str,
    copy: Iterable[StoredMessage],
    master: Iterable[StoredMessage],
    ledger: Ledger,
    found: Found,
    *,
    kills: int,
) -> None:
    """The messages of a copy are those that were acknowledged, and perhaps some of unknown fate, each once.

    One that the master does not have either is lost by the master, if that was killed.
    """
    places, names = set[tuple[int, int]](), set[str]()
    for message in copy:
        place = message.queue_id, message.queue_offset
        called = name_of(message.body)
        told = ledger.acknowledged.get(called)
        if place in places or called in names:
            found.note("doubled", f"{called} at {place} of {name}")
        elif told is None and called not in ledger.unknown:
            found.note("foreign", f"{called} at {place} of {name} was not sent")
        elif message.body != body_of(called):
            found.note("altered", f"{called} at {place} of {name} has another body")
        elif told is not None and told != (*place, message.physical_offset):
            found.note("elsewhere", f"{called} of {name} was acknowledged at {told}, and is at {place}")
        places.add(place)
        names.add(called)
    missing = ledger.acknowledged.keys() - names
    there = {name_of(message.body) for message in master} & missing if missing else set[str]()
    for called in sorted(there):
        found.note("missing", f"{called} of {name} at {ledger.acknowledged[called]} is in the master's log")
    if not kills:
        for called in sorted(missing - there):
            found.note("lost without a kill", f"{called} of {name} at {ledger.acknowledged[called]}")
    found.counted["acknowledged"] += len(ledger.acknowledged)
    found.counted["in the copies"] += len(names)
    found.counted["unknown fate"] += len(ledger.unknown)
    found.counted["of them stored"] += len(ledger.unknown & names)
    found.counted["lost by killed masters"] += len(missing - there) if kills else 0


def _messages(store: Path) -> Iterable[StoredMessage]:
    with open_store(store) as view:
        yield from (message for message in view.messages() if message.topic == TOPIC)


def _check_logs(name: str, copy: Path, master: Path, size: int, found: Found) -> None:
    """The copy has the bytes that the master wrote, and then zeros."""
    try:
        ours, theirs = read_log(copy), read_log(master)
        check_prefix(ours, theirs, size)
        last = written_end(theirs)
        assert ours.begin == theirs.begin, f"the log begins at {ours.begin}, and the master's at {theirs.begin}"
        assert ours.below(ours.begin, last) == theirs.below(ours.begin, last), f"not all bytes up to {last} are there"
    except AssertionError as error:
        found.note("other logs", f"{name}: {error}")
        return
    found.counted["log bytes compared"] += last - ours.begin
    found.counted["log files"] += len(ours.data) // size


def _check_queues(name: str, copy: Path, master: Path, found: Found) -> None:
    ours, theirs = queue_units(copy), queue_units(master)
    for queue in sorted(ours.keys() | theirs.keys()):
        if ours.get(queue) != theirs.get(queue):
            found.note("other queues", f"{queue} of {name} has other units")
