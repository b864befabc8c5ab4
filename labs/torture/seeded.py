"""Lives of stores that one number decides; `python -m labs.torture.seeds` tries thousands of each."""

import random
from pathlib import Path

from flintmq.errors import CorruptStoreError
from flintmq.message import PutResult
from flintmq.store.message_store import MessageStore
from tests.support.crashed import Clock, killed, make, zero
from tests.support.engine import open_small, put_all, records

HOUR = 3_600_000
TEN_YEARS = 3652 * 24 * HOUR
SMALL_LOG = {"mappedFileSizeConsumeQueue": 400, "maxIndexNum": 64}


def stale_tail(root: Path, seed: int) -> None:
    """T10. Any hole in an unflushed log, then new records of one size: what is read is what was kept, and the new."""
    chance = random.Random(seed)
    kept = make(root, count=30, size=200)
    at = chance.randrange(30)
    zero(root, kept[at].physical_offset, kept[at].size)
    killed(root)
    expected = kept[:at]
    for _ in range(3):
        try:
            store = open_small(root, Clock())
        except CorruptStoreError:  # the hole covers no whole sector: damage, rightly
            assert kept[at].physical_offset // 512 == (kept[at].physical_offset + kept[at].size) // 512
            return
        assert records(root) == expected
        put_all(store, chance.randrange(3), size=200)
        store.close()
        expected = records(root)
        killed(root)


class Stepping(Clock):
    """A clock that jumps, and a disk that is full when a test says so."""

    used = 50

    def disk_used(self, path: str) -> int:
        return self.used


def clock_steps(root: Path, seed: int) -> None:
    """T14. The clock jumps by an hour and by ten years, back and forth, while messages are put, files expire and the
    store recovers: nothing but what retention took is missing, and all of the rest is served."""
    chance, disk = random.Random(f"clock {seed}"), Stepping()
    told: list[PutResult] = []
    begin = 0  # of the log, as retention left it
    for _ in range(4):
        if chance.random() < 0.5:
            disk.clock += chance.choice((-HOUR, HOUR, -TEN_YEARS, TEN_YEARS))
        with open_small(root, disk, **SMALL_LOG) as store:
            _served(store, root, told, begin)
            for _ in range(chance.randrange(1, 25)):
                if chance.random() < 0.2:
                    disk.clock += chance.choice((-HOUR, HOUR, -TEN_YEARS, TEN_YEARS))
                told += put_all(store, 1, len(told), size=chance.choice((20, 300, 900)))
                if chance.random() < 0.1:
                    begin = _expire(store, disk)
        if chance.random() < 0.7:
            killed(root, flushed=chance.choice((0, told[chance.randrange(len(told))].physical_offset)))
    with open_small(root, disk, **SMALL_LOG) as store:
        _served(store, root, told, begin)
    assert not (root / "quarantine").exists()


def _expire(store: MessageStore, disk: Stepping) -> int:
    """Retention with a full disk: the oldest files go, whatever the clock says. Where the log begins then."""
    store.flush()
    assert store.wait_dispatched(10)
    store._parts.checkpointer.write()
    disk.used = 86
    store._parts.retention.clean_once()
    disk.used = 50
    return min(int(path.name) for path in Path(store.root, "commitlog").iterdir())


def _served(store: MessageStore, root: Path, told: list[PutResult], begin: int) -> None:
    """What stands in the log is what was put from `begin` on, as it was answered, and each of it is given."""
    assert store.wait_dispatched(10)
    found = records(root)
    first = sum(result.physical_offset < begin for result in told)
    for number, (r, result) in enumerate(zip(found, told[first:], strict=True), first):
        place = r.queue_offset, r.physical_offset, r.store_timestamp
        assert place == (result.queue_offset, result.physical_offset, result.store_timestamp), number
        given = store.get("T", 0, r.queue_offset).messages[0].body
        assert given == r.body and given[:6] == b"%06d" % number
