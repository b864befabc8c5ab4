"""Files that grow, roll, vanish, shrink and are replaced while readers iterate: short answers or flintmq's errors.

One thread does to a store what brokers, retention and people do; readers of every kind run beside it, each checking
that what it was given are records that count. Nobody may crash, hang, or raise anything but a FlintError.
"""

import os
import random
import shutil
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError
from flintmq.forensics.inspect import inspect
from flintmq.forensics.verify.run import verify
from flintmq.format import record
from flintmq.store.commitlog.report import Report
from tests.robustness.hostile.records import T0, encoded
from tests.support.makers import patch

SECONDS = float(os.environ.get("FLINTMQ_LIVE_SECONDS", "2"))
FILE_SIZE = 16_384


class Writer:
    """Writes a log as a broker does: files of full size, a record at a time, blanks where a file is full."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "commitlog"
        self.folder.mkdir(parents=True)
        (root / "abort").write_bytes(b"")
        self.at = self.count = 0
        self.chance = random.Random(5)

    def path(self, offset: int) -> Path:
        return self.folder / f"{offset // FILE_SIZE * FILE_SIZE:020}"

    def put(self) -> None:
        """Append one record, in two halves now and then, so that readers meet it half-written."""
        data = self._next()
        if FILE_SIZE - self.at % FILE_SIZE < len(data) + 8:
            self._write(record.encode_blank(FILE_SIZE - self.at % FILE_SIZE))
            self.at += FILE_SIZE - self.at % FILE_SIZE
            data = self._next()
        half = self.chance.randrange(len(data)) if self.chance.random() < 0.2 else 0
        self._write(data[half:], half)
        if half:
            time.sleep(0.0005)
            self._write(data[:half])
        self.at += len(data)
        self.count += 1

    def _next(self) -> bytes:
        body = self.chance.randbytes(self.chance.randrange(300))
        text = b"KEYS\x01k%d\x02" % self.count
        return encoded(self.at, queue_offset=self.count, store_timestamp=T0 + self.count, body=body, properties=text)

    def _write(self, data: bytes, ahead: int = 0) -> None:
        path = self.path(self.at)
        if not path.exists():
            path.write_bytes(b"")
            os.truncate(path, FILE_SIZE)
        patch(path, self.at % FILE_SIZE + ahead, data)

    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())

    def expire(self) -> None:
        """Delete the oldest file, as retention does."""
        files = self.files()
        if len(files) > 4:
            files[0].unlink()


def spoil(writer: Writer) -> None:
    """What no broker does: cut, grow, swap, replace, rename a file, or take the whole directory away for a moment."""
    path = writer.chance.choice(writer.files())
    match writer.chance.randrange(7):
        case 0:
            os.truncate(path, writer.chance.randrange(FILE_SIZE))
        case 1:
            os.truncate(path, FILE_SIZE * 2)
        case 2:
            path.write_bytes(writer.chance.randbytes(FILE_SIZE))
        case 3:
            path.unlink()
            path.mkdir()
            path.rmdir()
        case 4:
            path.unlink()
            os.mkfifo(path)
            path.unlink()
        case 5:
            away = writer.root / "away"
            os.rename(writer.folder, away)
            os.rename(away, writer.folder)
        case 6:
            path.write_bytes(b"")


def follow(root: Path, stop: threading.Event) -> int:
    seen, last = 0, -1
    with flintmq.open_store(root) as view:
        for message in view.follow(poll_ms=5, stop=stop):
            assert message.physical_offset > last and record.check(message.raw, 0, message.physical_offset), (
                "a record that does not count"
            )
            last, seen = message.physical_offset, seen + 1
    return seen


def scan(root: Path, stop: threading.Event) -> int:
    return sum(batch.num_rows for batch in flintmq.scan_arrow(root, ["topic", "body", "properties"], strict=False))


def messages(root: Path, stop: threading.Event) -> int:
    with flintmq.open_store(root) as view:
        given = view.messages(strict=False, report=Report())
        return sum(bool(record.check(one.raw, 0, one.physical_offset)) for one in given)


def lookups(root: Path, stop: threading.Event) -> int:
    with flintmq.open_store(root) as view:
        queues = view.queues()
        for queue in queues:
            for offset in {queue.min_offset, (queue.min_offset + queue.max_offset) // 2, queue.max_offset - 1}:
                if offset >= 0:
                    view.get(queue.topic, queue.queue_id, offset)
            view.query(queue.topic, f"k{queue.max_offset - 1}")
            view.offset_at_time(queue.topic, queue.queue_id, T0 + queue.max_offset // 2)
        view.refresh()
    return len(queues)


def look(root: Path, stop: threading.Event) -> int:
    return inspect(root, StoreConfig()).messages


def check(root: Path, stop: threading.Event) -> int:
    return verify(root, StoreConfig()).records


READERS: list[Callable[[Path, threading.Event], int]] = [follow, scan, messages, lookups, look, check]


def beside(writer: Writer, act: Callable[[], None], readers: list[Callable[..., int]]) -> dict[str, list[object]]:
    """Run readers again and again while `act` runs; reader -> what each run gave: a number, or what it raised."""
    stop, found = threading.Event(), {reader.__name__: [] for reader in readers}  # type: dict[str, list[object]]

    def again(reader: Callable[..., int]) -> None:
        while not stop.is_set():
            try:
                found[reader.__name__].append(reader(writer.root, stop))
            except Exception as error:  # judged by the test
                error.add_note("".join(traceback.format_tb(error.__traceback__)[-4:]))
                found[reader.__name__].append(error)

    threads = [threading.Thread(target=again, args=(reader,), daemon=True) for reader in readers]
    for thread in threads:
        thread.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        act()
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a reader hangs"
    return found


def test_readers_beside_a_broker(tmp_path: Path) -> None:
    """Growth, roll-over and retention are no errors: a strict follower sees all that was not deleted before it came."""
    writer = Writer(tmp_path / "store")

    def act() -> None:
        writer.put()
        if writer.chance.random() < 0.01:
            writer.expire()

    for _ in range(50):
        writer.put()
    found = beside(writer, act, [follow, messages, lookups])
    errors = [(name, one) for name, runs in found.items() for one in runs if isinstance(one, Exception)]
    assert [one for one in errors if not isinstance(one[1], flintmq.MessageNotFoundError)] == []
    assert all(runs for runs in found.values())
    assert isinstance(found["follow"][0], int) and found["follow"][0] > 100


@pytest.mark.parametrize("readers", [READERS[:3], READERS[3:]], ids=["walks", "lookups"])
def test_readers_of_files_that_are_spoiled_meanwhile(tmp_path: Path, readers: list[Callable[..., int]]) -> None:
    writer = Writer(tmp_path / "store")
    for _ in range(300):
        writer.put()
    copy = tmp_path / "copy"
    shutil.copytree(writer.folder, copy)

    def act() -> None:
        spoil(writer)
        time.sleep(0.001)
        for path in copy.iterdir():  # and back, so that readers get further than the first file
            if writer.chance.random() < 0.3:
                shutil.copyfile(path, writer.folder / path.name)

    found = beside(writer, act, readers)
    errors = [one for runs in found.values() for one in runs if isinstance(one, Exception)]
    wrong = {f"{error!r}\n{error.__notes__[0]}" for error in errors if not _is_answer(error)}
    assert not wrong, "\n".join(wrong)
    assert all(runs for runs in found.values())


def _is_answer(error: Exception) -> bool:
    """One of flintmq's errors, in few words."""
    return isinstance(error, FlintError) and len(str(error)) < 2000
