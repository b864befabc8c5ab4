"""Touching the pages of a map from another thread."""

from __future__ import annotations

import errno
import mmap
import threading
import time
from pathlib import Path

import pytest

from flintmq.kernels import _select
from flintmq.storage import touch_ahead
from flintmq.storage.touch_ahead import STEP, TouchAhead


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
    monkeypatch.setattr(touch_ahead, "LEAST", 1)
    monkeypatch.setattr(touch_ahead.walk, "touch", lambda *range_: touched.append(range_))
    map_ = mapped(tmp_path / "file", 3 * STEP)
    ahead = TouchAhead(map_, STEP // 2, 2 * STEP)
    assert ahead._thread is not None
    ahead._thread.join()
    assert touched == [(map_, STEP // 2, 3 * STEP // 2, 1 << 16), (map_, 3 * STEP // 2, 2 * STEP, 1 << 16)]


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

    monkeypatch.setattr(touch_ahead, "LEAST", 1)
    monkeypatch.setattr(touch_ahead.walk, "touch", touch)
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
    monkeypatch.setattr(touch_ahead, "LEAST", 8192)
    monkeypatch.setattr(touch_ahead.walk, "touch", lambda *range_: touched.append(range_))
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
    monkeypatch.setattr(touch_ahead, "LEAST", 1)
    monkeypatch.setattr(touch_ahead.walk, "touch", lambda *_: pytest.fail("touched"))

    def present(given: mmap.mmap, begin: int, end: int) -> int:
        assert given is map_
        seen.append((begin, end))
        return answers[len(seen) - 1]

    monkeypatch.setattr(touch_ahead.walk, "present", present)
    ahead = TouchAhead(map_, 0, 2 * STEP, careful=True)
    assert ahead._thread is not None
    ahead._thread.join()
    assert seen == [(0, STEP), (STEP, 2 * STEP)][:asked]


def test_after_stopping_the_map_can_be_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touch_ahead, "LEAST", 1)
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

    monkeypatch.setattr(touch_ahead.walk, "touch", touch)
    steps = touch_ahead.AHEAD // STEP
    ahead = TouchAhead(mapped(tmp_path / "file", 4 * touch_ahead.AHEAD), 0, 4 * touch_ahead.AHEAD)
    with came:
        assert came.wait_for(lambda: len(touched) == steps, 60)
        ahead.follow(STEP)  # there is much left: it sleeps on
        assert not came.wait_for(lambda: len(touched) > steps, 0.2)
        ahead.follow(touch_ahead.AHEAD - touch_ahead.LEFT)
        assert came.wait_for(lambda: len(touched) == 2 * steps - touch_ahead.LEFT // STEP, 60)
    ahead.stop()
    assert touched == list(range(2 * steps - touch_ahead.LEFT // STEP)) and threads() == []
