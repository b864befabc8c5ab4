"""The processes of the soak: `python -m labs.soak.processes KIND STORE LEDGER NUMBER SEED`.

Each ends by SIGTERM: the writer with a clean stop, a reader with one line that says how many messages or answers it
checked. Anything that must not be ends it with a traceback.
"""

from __future__ import annotations

import itertools
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flintmq import open_store
from flintmq.errors import CorruptStoreError, FlintError
from flintmq.format import record
from flintmq.message import Message
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.report import Report
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import PutLedger, digest_of

KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65_536, "mappedFileSizeConsumeQueue": 2_000, "maxHashSlotNum": 50, "maxIndexNum": 400
}  # fmt: skip
KEPT_FILES = 40  # of the log; older ones are cleaned
READERS = ("follow", "walk", "lookups", "mapped")
PACE_S = 0.002  # between two puts of a thread: readers are to keep up on one core


class Stop:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.event = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.event.set())

    def __bool__(self) -> bool:
        return self.event.is_set()


class Aging(Effects):
    """A disk that says that files are old once there are too many of them."""

    def __init__(self, root: Path) -> None:
        self.folder = str(root / "commitlog")

    def modified_ms(self, path: str) -> int | None:
        return 0 if path.startswith(self.folder) and len(self.listdir(self.folder)) > KEPT_FILES else self.now_ms()


# -- the writer --------------------------------------------------------------------------------------------------------


def made(identity: str, chance: random.Random) -> Message:
    """A message that names itself in its keys."""
    size = chance.choice((0, 30, 300, 300, 1500, 9000))
    properties = {"p": "v" * chance.choice((1, 30, 900))} if chance.random() < 0.3 else None
    return Message(
        f"T{chance.randrange(3)}", chance.randbytes(size), tags=f"t{chance.randrange(4)}", keys=identity,
        properties=properties, queue_id=chance.randrange(2),
    )  # fmt: skip


def writer(root: Path, ledger_path: Path, number: int, seed: int) -> int:
    """Put, read back, clean; until SIGTERM or a kill."""
    stop, ledger = Stop(), PutLedger(ledger_path)
    disk = ("ASYNC_FLUSH", "SYNC_FLUSH", "ASYNC_FLUSH")[number % 3]
    hour = ";".join(map(str, range(24)))
    keys = KEYS | {"flushDiskType": disk, "deleteWhen": hour, "deleteCommitLogFilesInterval": 1}
    failures: list[BaseException] = []
    with MessageStore(root, config=keys, effects=Aging(root), unique_keys=False) as store:
        own = [threading.Thread(target=_guarded, args=(failures, _puts, store, ledger, stop, number, n, seed))
               for n in range(2)]  # fmt: skip
        for thread in own:
            thread.start()
        while not stop and not failures:
            store._parts.housekeeping.retention.clean_once()
            _reads(store)
            stop.event.wait(0.2)
        stop.event.set()
        for thread in own:
            thread.join()
    if failures:
        raise failures[0]
    return number


def _guarded(failures: list[BaseException], do: Callable[..., None], *words: Any) -> None:
    try:
        do(*words)
    except BaseException as error:
        failures.append(error)


def _puts(store: MessageStore, ledger: PutLedger, stop: Stop, life: int, thread: int, seed: int) -> None:
    chance = random.Random(f"{seed} {life} {thread}")
    for number in itertools.count():
        if stop:
            return
        identity = f"{life}-{thread}-{number}"
        message = made(identity, chance)
        ledger.line(sent=identity, digest=digest_of(message))
        result = store.put(message)
        ledger.line(
            told=identity, outcome=result.outcome.value, status=result.status.name, queue_offset=result.queue_offset,
            place=result.physical_offset, size=result.size, time=result.store_timestamp, committed=None,
        )  # fmt: skip
        time.sleep(PACE_S)


def _reads(store: MessageStore) -> None:
    """What a consumer asks: the newest of each queue."""
    for topic, queue_id in itertools.product(("T0", "T1", "T2"), range(2)):
        end = store.get(topic, queue_id, 0).max_offset
        got = store.get(topic, queue_id, max(end - 20, 0))
        assert [m.queue_offset for m in got.messages] == sorted({m.queue_offset for m in got.messages})
        for m in got.messages[-1:]:
            assert m.keys in {found.keys for found in store.query(topic, m.keys)}, "a key of the newest message"


# -- readers -----------------------------------------------------------------------------------------------------------


def counts(message: Any) -> bool:
    """Whether the slow codec says so too."""
    return record.check(message.raw, 0, message.physical_offset).physical_offset == message.physical_offset


def follow(root: Path, stop: Stop) -> Iterator[int]:
    """Follow the log; after a recovery that cut it, begin again at its end."""
    begin = None
    while not stop:
        try:
            with open_store(root, set=KEYS) as view:
                last = -1
                for message in view.follow(begin, poll_ms=50, stop=stop.event):
                    assert message.physical_offset > last and counts(message)
                    last = message.physical_offset
                    begin = last + message.size
                    yield 1
        except CorruptStoreError:
            stop.event.wait(0.05)
            with open_store(root, set=KEYS) as view:
                begin = view.max_physical_offset


def walk(root: Path, stop: Stop, access: str = "pread") -> Iterator[int]:
    """All messages, again and again."""
    while not stop:
        with open_store(root, set=KEYS, access=access) as view:
            last = -1
            for message in view.messages(strict=False, report=Report()):
                assert message.physical_offset > last and counts(message)
                last = message.physical_offset
                yield 1
        stop.event.wait(0.5)


def mapped(root: Path, stop: Stop) -> Iterator[int]:
    """The same through maps: FlintMQ never makes a file shorter."""
    return walk(root, stop, "map")


def lookups(root: Path, stop: Stop) -> Iterator[int]:
    """Queue offsets, keys and times, on one view that is refreshed."""
    chance = random.Random(7)
    with open_store(root, set=KEYS) as view:
        while not stop:
            try:
                view.refresh()
                for queue in view.queues():
                    if queue.max_offset == queue.min_offset:
                        continue
                    message = view.get(
                        queue.topic, queue.queue_id, chance.randrange(queue.min_offset, queue.max_offset)
                    )
                    assert counts(message) and (message.topic, message.queue_id) == (queue.topic, queue.queue_id)
                    assert all(m.keys == message.keys for m in view.query(queue.topic, message.keys))
                    view.offset_at_time(queue.topic, queue.queue_id, message.store_timestamp)
                    yield 1
            except FlintError:  # it expired, or was cut, meanwhile
                yield 0
            stop.event.wait(0.1)


def main() -> int:
    """Be one of them."""
    kind, store, ledger, number, seed = sys.argv[1:]
    if kind == "writer":
        writer(Path(store), Path(ledger), int(number), int(seed))
        return 0
    stop, seen = Stop(), 0
    reader: Callable[[Path, Stop], Iterator[int]] = {
        "follow": follow,
        "walk": walk,
        "lookups": lookups,
        "mapped": mapped,
    }[kind]
    for one in reader(Path(store), stop):
        seen += one
        if stop:
            break
    print(seen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
