"""Listing a log's files: names, sizes, several directories, and finding by offset."""

import os
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.store.commitlog.files import MAX_RECORD, LogFiles, file_start, largest_record


def put(directory: Path, name: str, size: int = 100) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(bytes(size))


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("00000000000000000000", 0),
        ("00000000001073741824", 1 << 30),
        ("9223372036854775807".rjust(20, "0"), (1 << 63) - 1),
        ("9223372036854775808".rjust(20, "0"), None),
        ("0000000000000000000", None),
        ("0000000000000000000x", None),
        ("٠" * 20, None),
        ("-0000000000000000001", None),
    ],
)
def test_names(name: str, start: int | None) -> None:
    assert file_start(name) == start


def test_files_of_several_directories_are_one_log(tmp_path: Path) -> None:
    for directory, start in (("b", 0), ("a", 100), ("b", 200)):
        put(tmp_path / directory, f"{start:020d}")
    put(tmp_path / "a", f"{200:020d}")
    put(tmp_path / "a", "readme.txt")
    os.mkdir(tmp_path / "a" / f"{300:020d}")
    log = LogFiles.discover([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "missing")])
    assert [(f.start, Path(f.path).parent.name) for f in log.files] == [(0, "b"), (100, "a"), (200, "a")]
    assert [Path(p).parent.name for p in log.doubled] == ["b"]
    assert (log.file_size, log.min_offset, log.limit, log.max_record) == (100, 0, 300, MAX_RECORD)


def test_the_size_that_most_files_have_is_the_log_s(tmp_path: Path) -> None:
    for start, size in ((0, 100), (100, 100), (200, 37)):
        put(tmp_path, f"{start:020d}", size)
    assert LogFiles.discover([str(tmp_path)]).file_size == 100
    assert LogFiles.discover([str(tmp_path)], file_size=50).file_size == 50
    put(tmp_path, f"{0:020d}", 36)
    (tmp_path / f"{100:020d}").unlink()
    assert LogFiles.discover([str(tmp_path)]).file_size == 37, "of two sizes the larger one: a file may be cut short"


def test_a_key_raises_the_largest_record_that_is_read_and_never_lowers_it() -> None:
    """RocketMQ asks for it when it stores: what was stored with a higher value before is sound."""
    sizes = (0, 1000, 4_194_304, MAX_RECORD, 100 << 20)
    found = [largest_record(StoreConfig.from_keys({"maxMessageSize": size})) for size in sizes]
    assert found == [MAX_RECORD, MAX_RECORD, MAX_RECORD, MAX_RECORD + 65_536, (100 << 20) + 65_536]


def test_find(tmp_path: Path) -> None:
    for start in (100, 200, 400):
        put(tmp_path, f"{start:020d}")
    log = LogFiles.discover([str(tmp_path)])
    for offset, start in ((99, None), (100, 100), (299, 200), (300, None), (399, None), (499, 400), (500, None)):
        found = log.find(offset)
        assert (found.start if found else None) == start


def test_no_files(tmp_path: Path) -> None:
    log = LogFiles.discover([str(tmp_path)])
    assert (log.files, log.file_size, log.min_offset, log.limit, log.find(0)) == ((), 0, 0, 0, None)


def test_a_file_that_would_end_beyond_64_bits_is_no_log_file(tmp_path: Path) -> None:
    for start, size in ((0, 100), (2**63 - 101, 100), (2**63 - 1, 100)):
        (tmp_path / f"{start:020d}").write_bytes(bytes(size))
    assert [file.start for file in LogFiles.discover([str(tmp_path)]).files] == [0, 2**63 - 101]
