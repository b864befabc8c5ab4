"""Reading the file: bounded, and holes cost nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq.forensics.explain.source import BLOCK, FileSource
from flintmq.storage.files.filesystem import Effects


class Counting(Effects):
    """Counts bytes read."""

    read = 0

    def pread(self, fd: int, count: int, position: int) -> bytes:
        data = super().pread(fd, count, position)
        self.read += len(data)
        return data


@contextmanager
def source_of(path: Path) -> Iterator[tuple[FileSource, Counting]]:
    effects = Counting()
    with effects.reading(str(path)) as fd:
        yield FileSource(str(path), fd, effects), effects


@pytest.mark.parametrize("at", [0, 1, 4095, BLOCK - 1, BLOCK, 3 * BLOCK + 17])
def test_where_zeros_end(at: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(at) + b"x" + bytes(5))
    with source_of(path) as (source, _):
        assert source.zeros_until(0, source.size) == at
        assert source.zeros_until(at + 1, source.size) == source.size
        assert source.used_until(0, source.size) == at + 1
        assert source.used_until(at + 1, source.size) == at + 1
        assert source.read(3, at) == b"x\0\0" and source.read(10, at + 4) == b"\0\0"


def test_a_hole_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 1 << 34)
    with source_of(path) as (source, effects):
        assert source.zeros_until(0, source.size) == source.size
        assert source.used_until(0, source.size) == 0
        assert effects.read <= 2 * BLOCK
