"""The search for a log's end alone: log files that are missing, damage, tails, and who else has written."""

from pathlib import Path

import pytest

from flintmq.errors import CorruptStoreError, LostLogError
from flintmq.format import record
from flintmq.format.checkpoint import Checkpoint
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict, read_facts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import NO_FILE
from flintmq.store.layout.mark import DurableMark
from flintmq.store.recovery.decisions import Decisions
from flintmq.store.recovery.find_end import EndSearch, check_files, without_empty_last
from tests.support.faults import Faulty
from tests.support.small_logs import FILE_SIZE, SIZE, log_of, make

FLUSHED = StopFacts(clean=True, mark=DurableMark(FILE_SIZE + 2 * SIZE))
KILLED = StopFacts(clean=False, mark=DurableMark(0))


def records(start: int, *queue_offsets: int) -> bytes:
    """Records of one queue from a log offset on."""
    return b"".join(make(start + n * SIZE, 1001 + n, queue_offset=offset) for n, offset in enumerate(queue_offsets))


def search(root: Path, files: LogFiles, facts: StopFacts) -> EndSearch:
    return EndSearch(str(root), files, facts, Checkpoint(), Faulty(), Decisions("store"))


@pytest.mark.parametrize("files_left", [0, 1])
def test_missing_files_are_an_error_until_they_are_accepted_and_told_once(tmp_path: Path, files_left: int):
    first = records(0, 0, 1, 2) + record.encode_blank(FILE_SIZE - 3 * SIZE)
    if files_left:
        files = log_of(tmp_path / "log", first)
    else:
        (tmp_path / "log").mkdir()
        files = LogFiles.discover([str(tmp_path / "log")])
    for asked in ({}, {"accept_lost": False}):
        refused = search(tmp_path, files, FLUSHED)
        with pytest.raises(LostLogError) as caught:
            refused.find(**asked)
        assert (refused.lost, refused.decisions.lines) == (False, [])
    accepted = search(tmp_path, files, FLUSHED)
    end = accepted.find(accept_lost=True)
    # After a blank it ends at the next file's first byte, as that file's loss is accepted.
    assert end.offset == files_left * FILE_SIZE
    assert end.last_time == (1003 if files_left else 0)
    assert accepted.lost is True
    told, ended = accepted.decisions.lines
    assert told == f"accepted as lost: {caught.value.file}: {caught.value.reason}"
    assert ended.startswith("recovery after clean stop: read from 0, the log ends at ")


def test_damage_below_the_mark_refuses(tmp_path: Path):
    data = bytearray(records(0, 0, 1, 2))
    data[SIZE + 90] ^= 1
    files = log_of(tmp_path / "log", bytes(data))
    with pytest.raises(CorruptStoreError) as caught:
        search(tmp_path, files, StopFacts(clean=True, mark=DurableMark(3 * SIZE))).find()
    assert (caught.value.file, caught.value.position) == (files.files[0].path, SIZE)


def test_a_record_that_did_not_arrive_whole_is_a_torn_tail(tmp_path: Path):
    data = records(0, 0, 1, 2)
    found = search(tmp_path, log_of(tmp_path / "log", data[: 2 * SIZE + 30]), KILLED).find()
    assert found == (2 * SIZE, 1002, Verdict.TORN_TAIL)


@pytest.mark.parametrize(("abort", "count"), [("1\nthis-boot", 2), ("1", 4)])
def test_a_queue_that_begins_again_is_torn_where_flintmq_alone_has_written(tmp_path: Path, abort: str, count: int):
    """RocketMQ, whose abort names no boot, begins a queue again whose topic was deleted."""
    (tmp_path / "abort").write_text(abort)
    ours = read_facts(str(tmp_path)).abort_is_ours
    facts = StopFacts(clean=False, mark=DurableMark(0), power_cut=True, abort_is_ours=ours)
    found = search(tmp_path, log_of(tmp_path / "log", records(0, 3, 4, 0, 1)), facts).find()
    assert found.offset == count * SIZE


def test_the_time_before_the_end_is_looked_for_in_two_files_only(tmp_path: Path):
    """A damaged file below them, long durable, is no concern of this start."""
    full = [records(n * FILE_SIZE, 3 * n, 3 * n + 1) + record.encode_blank(FILE_SIZE - 2 * SIZE) for n in range(3)]
    files = log_of(tmp_path / "log", b"\xff" * FILE_SIZE, *full[1:])
    found = search(tmp_path, files, KILLED)
    assert found._time_before(2 * FILE_SIZE) == 1002
    assert found._time_before(2 * FILE_SIZE + SIZE) == 1001


def test_only_an_empty_last_file_is_left_out(tmp_path: Path):
    """An interrupted creation leaves one; every other size is for check_files to judge."""
    log = tmp_path / "log"
    files = log_of(log, records(0, 0), records(FILE_SIZE, 1))
    assert without_empty_last(files) is files
    last = log / f"{2 * FILE_SIZE:020d}"
    last.write_bytes(b"")
    assert without_empty_last(LogFiles.discover([str(log)])) == files
    last.write_bytes(b"x")
    assert [file.size for file in without_empty_last(LogFiles.discover([str(log)])).files] == [FILE_SIZE, FILE_SIZE, 1]


def test_a_link_or_directory_in_the_place_of_a_log_file_is_refused_with_advice(tmp_path: Path):
    log = tmp_path / "log"
    log_of(log, records(0, 0))
    odd = log / f"{FILE_SIZE:020d}"
    odd.mkdir()
    with pytest.raises(CorruptStoreError) as caught:
        check_files(LogFiles.discover([str(log)]), FILE_SIZE)
    assert str(caught.value) == f"{odd}, position 0: {NO_FILE}; put the log file itself there"
