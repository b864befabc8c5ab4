"""The dispatcher's way of reading the log: the records that are there, and no further than they go."""

from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.message import Message
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.commit_log import CommitLog, LogState
from flintmq.store.commitlog import own_log
from flintmq.store.commitlog.own_log import LogTail
from tests.support.engine import FILE_SIZE


class Log:
    def __init__(self, root: Path, count: int) -> None:
        self.files = MappedFileQueue([str(root / "commitlog")], FILE_SIZE)
        keys = {"mappedFileSizeCommitLog": FILE_SIZE}
        self.log = CommitLog(self.files, StoreConfig.from_keys(keys), LogState(0, 0, {}))
        self.results = [self.log.append(Message("T", bytes(200))) for _ in range(count)]
        self.tail = LogTail(self.files)

    def walk(self, begin: int, end: int) -> list[int]:
        """Log offsets of the records given."""
        return [
            piece.base + at for piece in self.tail.pieces(begin, end) for at in piece.positions[: piece.count].tolist()
        ]


@pytest.fixture
def log(tmp_path: Path):
    made = Log(tmp_path, 60)
    yield made
    made.files.close()


@pytest.mark.parametrize("piece_bytes", [1, 300, 1 << 20])
def test_every_record_once_over_several_files(log: Log, monkeypatch: pytest.MonkeyPatch, piece_bytes: int):
    monkeypatch.setattr(own_log, "PIECE_BYTES", piece_bytes)
    offsets = [result.physical_offset for result in log.results]
    assert len(log.files.files) > 3
    assert log.walk(0, log.log.end) == offsets and log.tail.position == log.log.end
    assert log.walk(offsets[7], offsets[40]) == offsets[7:40]
    assert (
        log.tail.position == offsets[40] or log.tail.position == log.results[39].physical_offset + log.results[39].size
    )
    assert log.walk(log.log.end, log.log.end) == []


def test_it_ends_where_no_record_stands(log: Log):
    bad = log.results[20].physical_offset
    log.files.find(bad).view[bad % FILE_SIZE + 4] ^= 0xFF
    assert log.walk(0, log.log.end)[-1] == log.results[19].physical_offset
    assert log.tail.position == bad


def test_files_that_are_closed_give_nothing(log: Log):
    files = log.files.files
    for file in files[1:]:
        file.close()
    offsets = [r.physical_offset for r in log.results if r.physical_offset < FILE_SIZE]
    assert log.walk(0, log.log.end) == offsets and log.tail.position == FILE_SIZE
    log.files.files = files[:1]


def test_a_walk_keeps_its_file_mapped(log: Log):
    pieces = log.tail.pieces(0, log.log.end)
    piece = next(pieces)
    log.files.files[0].close()
    assert bytes(piece.data[:4]) == log.results[0].size.to_bytes(4, "big")
    pieces.close()
    assert not log.files.files[0].hold()
    log.files.files = log.files.files[1:]


def test_the_listing_is_what_is_there(log: Log):
    listed = log.tail.listed()
    assert [(f.start, f.size) for f in listed.files] == [(f.start, FILE_SIZE) for f in log.files.files]
    assert listed.file_size == FILE_SIZE
