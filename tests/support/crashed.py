"""Stores as crashes leave them, made by hand: records zeroed or flipped, small files that say what was flushed."""

from collections.abc import Callable
from pathlib import Path

from flintmq.format import checkpoint, flintmq_mark, record
from flintmq.storage.files.filesystem import Effects
from flintmq.store.dispatch import dispatcher
from flintmq.store.message_store import MessageStore
from flintmq.testing import damage
from tests.support.engine import FILE_SIZE, check_derived, open_small, put_all, records
from tests.support.faults import Faulty

BEGIN = 1_700_000_000_000


class Clock(Faulty):
    """A clock that goes on 10 ms a look."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = BEGIN

    def now_ms(self) -> int:
        self.clock += 10
        return self.clock


def small_and_quick(put: Callable[[object, str, object], None]) -> None:
    """No syncs, as nobody pulls a plug, and small arrays for dispatch, as the stores have few records.

    `put` sets an attribute: `setattr`, or a monkeypatch's.
    """
    put(Effects, "sync", lambda self, fd: None)
    put(Effects, "sync_dir", lambda self, path: None)
    put(dispatcher, "MOST_UNITS", 2048)
    put(dispatcher, "MOST_KEYS", 2048)


def make(root: Path, count: int = 12, size: int = 300) -> list[record.Record]:
    """A store of some files, closed cleanly. Its records."""
    with open_small(root, Clock()) as store:
        put_all(store, count, size=size)
    return records(root)


def killed(root: Path, flushed: int = 0) -> None:
    """Let the store look as after kill -9, its log flushed up to a log offset."""
    (root / "abort").write_text("1")
    found = [r for r in all_records(root) if r.physical_offset + r.size <= flushed]
    time = found[-1].store_timestamp if found else 0
    (root / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(time, time)))
    (root / "flintmq.mark").write_bytes(flintmq_mark.encode(flushed, time))


def all_records(root: Path) -> list[record.Record]:
    """The records of a log that may have a bad tail."""
    try:
        return records(root)
    except AssertionError:
        return []


def log_file(root: Path, offset: int) -> tuple[Path, int]:
    return root / "commitlog" / f"{offset - offset % FILE_SIZE:020d}", offset % FILE_SIZE


def flip(root: Path, offset: int) -> None:
    path, position = log_file(root, offset)
    damage.flip(path, position)


def zero(root: Path, offset: int, count: int) -> None:
    while count > 0:
        path, position = log_file(root, offset)
        step = min(count, FILE_SIZE - position)
        damage.zero(path, position, step)
        offset, count = offset + step, count - step


def reopened(root: Path, kept: list[record.Record]) -> MessageStore:
    """Open, compare the log with what must be kept, close, and do so again: the second time gives the same."""
    for _ in range(2):
        store = open_small(root, Clock())
        assert records(root) == kept
        end = kept[-1].physical_offset + kept[-1].size if kept else 0
        assert store.recovered.state.end in (end, end - end % FILE_SIZE + FILE_SIZE), "there, or behind a blank record"
        store.close()
        check_derived(root)
        assert not (root / "abort").exists()
    return store


def quarantined(root: Path) -> list[bytes]:
    """The records that were copied before a cut, in log order."""
    return [path.read_bytes() for path in sorted((root / "quarantine").glob("*.record"))]
