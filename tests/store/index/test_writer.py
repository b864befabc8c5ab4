"""Index files: names, when a new one begins, what its header repeats."""

import time
from array import array
from datetime import datetime
from pathlib import Path

import pytest

from flintmq.format.index import HEADER, Header, file_size
from flintmq.store.index.writer import IndexFileWriter, IndexWriter, file_name


def test_a_file_is_named_by_local_time_and_one_later_while_the_name_is_taken() -> None:
    moment = int(datetime(2026, 3, 4, 5, 6, 7).timestamp() * 1000) + 89
    taken: dict[str, int] = {}
    assert [file_name(moment, taken) for _ in range(2)] == ["20260304050607089", "20260304050607090"]
    assert len(file_name(-5, taken)) == len(file_name(1 << 62, taken)) == 17


def test_many_files_of_one_time_have_names_soon() -> None:
    """Each name leads on to where the next may be free: no search through all that are taken."""
    taken: dict[str, int] = {}
    began = time.monotonic()
    names = [file_name(1_700_000_000_000, taken) for _ in range(20_000)]
    assert len(set(names)) == 20_000 and names == sorted(names)
    assert time.monotonic() - began < 5


def test_a_clock_that_steps_back_gives_no_name_before_another() -> None:
    """Found by the crash explorer: after it, files came in another order than their items."""
    now = int(datetime(2026, 3, 4, 5, 6, 59).timestamp() * 1000) + 999
    taken: dict[str, int] = {}
    names = [file_name(moment, taken) for moment in (now, now - 3_600_000, 0, now + 5)]
    assert names == ["20260304050659999", "20260304050700000", "20260304050700001", "20260304050700004"]
    assert list(taken) == sorted(taken) == names
    assert file_name(now, {"20261231235959999": 0}) == "20270101000000000"
    assert file_name(now, {"20269999999999999": 0}) == "20270000000000000", "digits that are no time"


def insert(writer: IndexWriter, *keys: tuple[int, int, int]) -> None:
    hashes, offsets, times = (array(code, [key[n] for key in keys]) for n, code in enumerate("iqq"))
    writer.insert(hashes, offsets, times, len(keys))
    writer.check_invariants()


def headers(folder: Path) -> list[Header]:
    files = sorted(folder.iterdir())
    assert all(path.stat().st_size == file_size(5, 4) for path in files)
    return [HEADER.unpack(path.read_bytes()) for path in files]


def test_a_full_file_is_followed_by_one_that_repeats_its_end(tmp_path: Path) -> None:
    writer = IndexWriter(str(tmp_path), 5, 4)
    insert(writer, *[(n, 100 * n, 1000 + n) for n in range(1, 5)])
    writer.finish(400, 1004)
    assert headers(tmp_path) == [Header(1001, 1003, 100, 300, 3, 4), Header(1004, 1004, 400, 400, 1, 2)]


def test_records_without_keys_make_the_file_that_java_makes(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    writer = IndexWriter(str(tmp_path / "a"), 5, 4)
    writer.finish(700, 5000)
    assert headers(tmp_path / "a") == [Header(0, 0, 0, 0, 0, 0)]
    writer = IndexWriter(str(tmp_path / "b"), 5, 4)
    insert(writer, *[(n, 100 * n, 1000 + n) for n in range(1, 4)])
    writer.finish(300, 1003)  # exactly full, and nothing came behind it
    assert len(headers(tmp_path / "b")) == 1
    writer = IndexWriter(str(tmp_path / "c"), 5, 4)
    insert(writer, *[(n, 100 * n, 1000 + n) for n in range(1, 4)])
    writer.finish(400, 2000)
    assert headers(tmp_path / "c")[1] == Header(1003, 1003, 300, 300, 0, 0)


def test_an_empty_log_makes_no_file(tmp_path: Path) -> None:
    IndexWriter(str(tmp_path), 5, 4).finish(-1, 0)
    assert headers(tmp_path) == []


def test_a_shortened_file_knows_how_many_slots_are_used(tmp_path: Path) -> None:
    """Found by the table of recovery times: each item was unpacked in turn, 15 s for five million."""
    hashes = array("i", [(n * 7919) % 100_003 for n in range(60_000)])
    offsets, times = array("q", range(1, 60_001)), array("q", [1000] * 60_000)
    file = IndexFileWriter(str(tmp_path / "20260101000000000"), 5000, 60_001)
    assert file.insert(hashes, offsets, times, 0, 60_000) == 60_000
    for count in (59_000, 4_000, 258, 2):
        file.shorten(count)
        assert file.header().slots_used == len({value % 5000 for value in hashes[: count - 1]})
        assert (file.header().index_count, file.header().end_physical_offset) == (count, count - 1)
    file.close()


def test_another_file_does_not_take_the_place_of_one_that_is_open(tmp_path: Path) -> None:
    writer = IndexWriter(str(tmp_path), 4, 4)
    insert(writer, (1, 100, 1001))
    other = IndexFileWriter(str(tmp_path / ("9" * 17)), 4, 4)
    with pytest.raises(AssertionError):
        writer.continue_with(other, 100, 1001)
    assert isinstance(writer.current, IndexFileWriter)
    with pytest.raises(AssertionError):
        writer.current.shorten(3)
    other.close()
    writer.finish(100, 1001)
    writer.check_invariants()
