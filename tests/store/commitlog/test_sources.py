"""store/commitlog/sources: the same pieces however a walk comes to its bytes; what cannot be read is an error."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.storage.filesystem import Effects
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.commitlog.sources import OWN
from flintmq.store.commitlog.walk import LogWalk
from flintmq.testing import write_store


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
