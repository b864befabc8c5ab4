"""Finding the next record: across windows, files, holes and hostile headers."""

import random
import struct
import time
from pathlib import Path

from flintmq.format.record_view import store_times
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.resync import WINDOW, first_record, next_record
from tests.support.small_logs import FILE_SIZE, SIZE, full_file, log_of, make


def test_every_position_leads_to_the_next_record(tmp_path: Path) -> None:
    one, first = full_file(0, 1000)
    two, second = full_file(FILE_SIZE, 2000, 3)
    log = log_of(tmp_path, one, two, b"")
    every = first + second
    for offset in range(0, FILE_SIZE + 4 * SIZE, 13):
        expected = next((o for o in every if o >= offset), None)
        assert next_record(log, offset) == expected
        assert next_record(log, offset, 1000) == (expected if expected is not None and expected < 1000 else None)


def test_the_first_record_of_a_split_stays_in_its_file(tmp_path: Path) -> None:
    one, first = full_file(0, 1000)
    log = log_of(tmp_path, one, full_file(FILE_SIZE, 2000, 3)[0])
    assert first_record(log, 0) == 0 and first_record(log, FILE_SIZE) == FILE_SIZE
    assert first_record(log, 1) == SIZE
    assert first_record(log, first[-1] + 1) == FILE_SIZE
    assert first_record(log, 10 * FILE_SIZE) == 10 * FILE_SIZE


def test_a_record_behind_windows_of_rubbish_is_found(tmp_path: Path) -> None:
    chance = random.Random(3)
    for behind in (WINDOW - 50, WINDOW - 4, WINDOW + 1, 2 * WINDOW + 777):
        junk = chance.randbytes(1 << 16) * (behind // (1 << 16) + 1)
        data = junk[:behind] + make(behind, 1000, b"x" * 3000)
        log = log_of(tmp_path / str(behind), data, file_size=4 * WINDOW)
        assert next_record(log, 1) == behind


def test_a_record_larger_than_a_window_is_found(tmp_path: Path) -> None:
    data = b"junk" * 5 + make(20, 1000, bytes(1000) * 2000)
    assert next_record(log_of(tmp_path, data, file_size=4 * WINDOW), 0) == 20


def test_holes_are_stepped_over(tmp_path: Path) -> None:
    with open(tmp_path / f"{0:020d}", "wb") as file:
        file.truncate(1 << 30)
        file.seek((1 << 30) - 4096)
        file.write(make((1 << 30) - 4096, 1000))
    log = LogFiles.discover([str(tmp_path)])
    began = time.monotonic()
    assert next_record(log, 5) == (1 << 30) - 4096
    assert next_record(log, (1 << 30) - 4095) is None
    assert time.monotonic() - began < 5


def test_headers_that_claim_huge_records_do_not_cost_the_square(tmp_path: Path) -> None:
    """40,000 headers, each right in its own offset and lengths and naming a record of 8 MiB with a wrong checksum."""
    size, total = 8 << 20, 16 << 20
    data = bytearray(total)
    for at in range(0, 4 << 20, 104):
        struct.pack_into(">iIi", data, at, size, 0xDAA320A7, 5)
        struct.pack_into(">q", data, at + 28, at)
        struct.pack_into(">i", data, at + 84, size - 91)  # the zeros after it: topic and properties of no length
    (tmp_path / f"{0:020d}").write_bytes(data)
    began = time.monotonic()
    assert next_record(LogFiles.discover([str(tmp_path)]), 0) is None
    assert time.monotonic() - began < 30


def test_store_times_of_either_width(tmp_path: Path) -> None:
    data = make(0, 1234) + make(SIZE, -5)
    positions = memoryview(struct.pack("=qq", 0, SIZE)).cast("q")
    assert list(store_times(memoryview(data), positions, 2)) == [1234, -5]
