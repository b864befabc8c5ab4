"""Touching the pages of a map from another thread."""

from __future__ import annotations

import errno
import mmap
import threading
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
    touched: list[tuple[int, int, int]] = []
    monkeypatch.setattr(touch_ahead, "LEAST", 1)
    monkeypatch.setattr(touch_ahead.walk, "touch", lambda map_, *range_: touched.append(range_))
    map_ = mapped(tmp_path / "file", 3 * STEP)
    ahead = TouchAhead(map_, STEP // 2, 2 * STEP)
    assert ahead._thread is not None
    ahead._thread.join()
    assert touched == [(STEP // 2, 3 * STEP // 2, 1 << 16), (3 * STEP // 2, 2 * STEP, 1 << 16)]


@pytest.mark.skipif(not _select.compiled(), reason="it does nothing where kernels keep the GIL")
@pytest.mark.parametrize(("answers", "asked"), [([0, 0], 2), ([errno.EFAULT], 1)])
def test_a_careful_one_touches_nothing_and_ends_where_the_disk_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[int], asked: int
) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(touch_ahead, "LEAST", 1)
    monkeypatch.setattr(touch_ahead.walk, "touch", lambda *_: pytest.fail("touched"))

    def present(map_: mmap.mmap, begin: int, end: int) -> int:
        seen.append((begin, end))
        return answers[len(seen) - 1]

    monkeypatch.setattr(touch_ahead.walk, "present", present)
    ahead = TouchAhead(mapped(tmp_path / "file", 2 * STEP), 0, 2 * STEP, careful=True)
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
    TouchAhead(map_, 0, 1 << 20)
    assert threads() == []
    map_.close()
