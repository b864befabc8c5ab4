"""store/commitlog/sources: the same pieces however a walk comes to its bytes; what cannot be read is an error."""

import errno
import mmap
import os
import threading
import time
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.kernels import _select
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog import sources
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.commitlog.sources import OWN, TouchAhead
from flintmq.store.commitlog.walk import LogWalk
from flintmq.testing import write_store

STEP = TouchAhead.STEP


class Blind(Effects):
    """A system that cannot tell whether a page of a map can be read."""

    def present(self, map_: mmap.mmap, begin: int, end: int) -> bool:
        return False


class Broken(Effects):
    """A disk that cannot read what lies in a range."""

    bad = range(1 << 20, (1 << 20) + 512)

    def present(self, map_: mmap.mmap, begin: int, end: int) -> bool:
        if begin < self.bad.stop and end > self.bad.start:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return True


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("sources") / "store"
    write_store(path, 20_000, body_bytes=100, bodies="random")
    return path


def log_of(path: Path, effects: Effects) -> LogFiles:
    return list_log(str(path), StoreConfig(), effects)


def offsets(log: LogFiles, access: str) -> list[int]:
    return [
        piece.base + piece.positions[n] for piece in LogWalk(log, access=access) for n in range(piece.count)
    ]  # fmt: skip


@pytest.mark.parametrize("effects", [Effects(), Blind()], ids=["populated", "a system that cannot tell"])
def test_who_holds_the_lock_reads_what_everybody_reads(written: Path, effects: Effects):
    found = offsets(log_of(written, effects), "pread")
    assert len(found) == 20_000
    assert offsets(log_of(written, effects), OWN) == found
    assert offsets(log_of(written, effects), "map") == found


def test_a_sector_that_cannot_be_read_is_an_error_that_names_file_and_place(written: Path):
    log, seen = log_of(written, Broken()), 0
    with pytest.raises(OSError, match="between position") as refused:
        for piece in LogWalk(log, access=OWN):
            seen += piece.count
    assert refused.value.errno == errno.EIO and refused.value.filename == log.files[0].path
    assert 0 < seen < 20_000, "what stands before it was given out"


def test_bytes_behind_a_file_are_an_error_and_no_signal(tmp_path: Path):
    with open(tmp_path / "file", "w+b") as file:
        file.truncate(4 * mmap.PAGESIZE)
        map_ = mmap.mmap(file.fileno(), 4 * mmap.PAGESIZE, access=mmap.ACCESS_READ)
        if not Effects().present(map_, 0, 1):
            pytest.skip("this system or build cannot tell (Linux 5.14, compiled kernels)")
        assert Effects().present(map_, 0, len(map_))
        file.truncate(0)
        with pytest.raises(OSError) as refused:
            Effects().present(map_, 0, len(map_))
        assert refused.value.errno == errno.EIO
        map_.close()


def mapped(path: Path, size: int) -> mmap.mmap:
    with path.open("wb") as file:
        file.truncate(size)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "flintmq-touch"]


@pytest.mark.skipif(not _select.compiled(), reason="it does nothing where kernels keep the GIL")
def test_every_part_of_the_range_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[tuple[object, ...]] = []
    monkeypatch.setattr(TouchAhead, "LEAST", 1)
    monkeypatch.setattr(sources, "touch", lambda *range_: touched.append(range_))
    map_ = mapped(tmp_path / "file", 3 * STEP)
    ahead = TouchAhead(map_, STEP // 2, 2 * STEP)
    assert ahead._thread is not None
    ahead._thread.join()
    assert touched == [
        (map_, STEP // 2, 3 * STEP // 2, 1 << 16),
        (map_, 3 * STEP // 2, 2 * STEP, 1 << 16),
    ]


@pytest.mark.skipif(not _select.compiled(), reason="it does nothing where kernels keep the GIL")
def test_stopping_ends_the_thread_at_its_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread has a name, and does not keep a process from ending."""
    made: list[TouchAhead] = []
    begun, known = threading.Event(), threading.Event()
    steps: list[int] = []

    def touch(map_: mmap.mmap, begin: int, *_: int) -> None:
        steps.append(begin)
        begun.set()
        known.wait(60)
        for _wait in range(3000):
            if made[0]._stopped:
                break
            time.sleep(0.001)

    monkeypatch.setattr(TouchAhead, "LEAST", 1)
    monkeypatch.setattr(sources, "touch", touch)
    ahead = TouchAhead(mapped(tmp_path / "file", 2 * STEP), 0, 2 * STEP)
    made.append(ahead)
    assert begun.wait(60)
    assert threads() == ["flintmq-touch"]
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "flintmq-touch"] == [True]
    known.set()
    ahead.stop()
    assert steps == [0] and threads() == []


@pytest.mark.skipif(not _select.compiled(), reason="it does nothing where kernels keep the GIL")
@pytest.mark.parametrize(("begin", "end", "worth"), [(0, 8192, 1), (4096, 12288, 1), (0, 8191, 0), (8192, 12288, 0)])
def test_a_range_is_worth_a_thread_by_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: int, end: int, worth: int
) -> None:
    touched: list[tuple[object, ...]] = []
    monkeypatch.setattr(TouchAhead, "LEAST", 8192)
    monkeypatch.setattr(sources, "touch", lambda *range_: touched.append(range_))
    ahead = TouchAhead(mapped(tmp_path / "file", 16384), begin, end)
    if ahead._thread is not None:
        ahead._thread.join()
    assert len(touched) == worth
    ahead.stop()


@pytest.mark.skipif(not _select.compiled(), reason="it does nothing where kernels keep the GIL")
@pytest.mark.parametrize(("answers", "asked"), [([0, 0], 2), ([errno.EFAULT], 1)])
def test_a_careful_one_touches_nothing_and_ends_where_the_disk_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[int], asked: int
) -> None:
    seen: list[tuple[int, int]] = []
    map_ = mapped(tmp_path / "file", 2 * STEP)
    monkeypatch.setattr(TouchAhead, "LEAST", 1)
    monkeypatch.setattr(sources, "touch", lambda *_: pytest.fail("touched"))

    def present(given: mmap.mmap, begin: int, end: int) -> int:
        assert given is map_
        seen.append((begin, end))
        return answers[len(seen) - 1]

    monkeypatch.setattr(sources, "present", present)
    ahead = TouchAhead(map_, 0, 2 * STEP, careful=True)
    assert ahead._thread is not None
    ahead._thread.join()
    assert seen == [(0, STEP), (STEP, 2 * STEP)][:asked]


def test_after_stopping_the_map_can_be_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TouchAhead, "LEAST", 1)
    map_ = mapped(tmp_path / "file", 64 * STEP)
    ahead = TouchAhead(map_, 0, 64 * STEP)
    ahead.stop()
    assert threads() == []
    map_.close()


def test_a_small_range_needs_no_thread(tmp_path: Path) -> None:
    map_ = mapped(tmp_path / "file", 1 << 20)
    TouchAhead(map_, 0, 1 << 20).stop()
    assert threads() == []
    map_.close()


@pytest.mark.skipif(not _select.compiled(), reason="it does nothing where kernels keep the GIL")
def test_it_stays_near_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last file of a log is mostly a hole, which would become memory of the page cache."""
    touched: list[int] = []
    came = threading.Condition()

    def touch(map_: mmap.mmap, begin: int, *_: int) -> None:
        with came:
            touched.append(begin // STEP)
            came.notify()

    monkeypatch.setattr(sources, "touch", touch)
    steps = TouchAhead.AHEAD // STEP
    ahead = TouchAhead(mapped(tmp_path / "file", 4 * TouchAhead.AHEAD), 0, 4 * TouchAhead.AHEAD)
    with came:
        assert came.wait_for(lambda: len(touched) == steps, 60)
        ahead.follow(STEP)  # there is much left: it sleeps on
        assert not came.wait_for(lambda: len(touched) > steps, 0.2)
        ahead.follow(TouchAhead.AHEAD - TouchAhead.LEFT)
        assert came.wait_for(lambda: len(touched) == 2 * steps - TouchAhead.LEFT // STEP, 60)
    ahead.stop()
    assert touched == list(range(2 * steps - TouchAhead.LEFT // STEP)) and threads() == []
