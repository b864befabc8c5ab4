"""LogWriter fills files to their end and goes on in the next."""

import os
import struct
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.store.commitlog.bulk_writer import BUFFER, LogWriter
from flintmq.testing.rows import Rows


def rows_of(*sizes: int) -> Rows:
    """Rows whose records have these sizes."""
    rows = Rows()
    for number, size in enumerate(sizes):
        rows.add(b"T", 0, number, bytes(size - 92))
    return rows


def test_a_record_that_does_not_fit_goes_into_the_next_file(tmp_path: Path) -> None:
    log = LogWriter([os.fspath(tmp_path)], 1000, 5000, 10_000, 0)
    rows = rows_of(500, 492, 500, 493, 200)
    log.append(rows, 0, 5)
    log.close()
    assert log.end == 7693
    assert list(rows.physical_offsets) == [5000, 5500, 6000, 7000, 7493]
    first, second, third = (path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert [len(first), len(second), len(third)] == [1000, 1000, 1000]
    assert first[992:] == struct.pack(">iI", 8, 0xCBD43194)
    assert second[500:508] == struct.pack(">iI", 500, 0xCBD43194)
    assert second[508:] == bytes(492)
    assert third[693:] == bytes(307)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n:020d}" for n in (5000, 6000, 7000)]


def test_records_larger_than_the_buffer(tmp_path: Path) -> None:
    log = LogWriter([os.fspath(tmp_path)], 16 << 20, 0, 8 << 20, 0)
    sizes = (300, 3 * BUFFER, 500, BUFFER - 1, BUFFER + 1)
    log.append(rows_of(*sizes), 0, 5)
    log.spare()
    log.close()
    assert log.end == sum(sizes)
    data, spare = (path.read_bytes() for path in sorted(tmp_path.iterdir()))
    at = 0
    for size in sizes:
        assert struct.unpack_from(">i", data, at)[0] == size
        at += size
    assert spare == bytes(16 << 20)


def test_what_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    log = LogWriter([os.fspath(tmp_path)], 1000, 0, 10_000, 0)
    with pytest.raises(UsageError, match="1000 bytes"):
        log.append(rows_of(993), 0, 1)
    with pytest.raises(UsageError, match="1000 bytes"):
        log.append(rows_of(500, 500), 0, 2, 1000)
    log.append(rows_of(992), 0, 1)
    log.close()


def test_files_that_stand_there_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / ("0" * 20)).write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        LogWriter([os.fspath(tmp_path)], 1000, 0, 10_000, 0)
    assert (tmp_path / ("0" * 20)).read_bytes() == b"mine"


def test_a_file_that_is_left_early_ends_with_a_blank_record(tmp_path: Path) -> None:
    log = LogWriter([os.fspath(tmp_path)], 1000, 2000, 10_000, 0, sync=True)
    log.append(rows_of(300, 200), 0, 2)
    log.close(full=True)
    [file] = tmp_path.iterdir()
    assert file.read_bytes()[500:] == struct.pack(">iI", 500, 0xCBD43194) + bytes(492)
