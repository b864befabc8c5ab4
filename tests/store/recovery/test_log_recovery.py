"""The log's part of recovery alone, on files of a few records: its end, what is read again, what is cut and told."""

import json
import logging
from pathlib import Path

import pytest

from flintmq.errors import CorruptStoreError
from flintmq.format import record
from flintmq.format.checkpoint import Checkpoint
from flintmq.storage.files.whole_file import NEW
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.walk import REFUSED
from flintmq.store.layout.mark import DurableMark
from flintmq.store.recovery import truncate
from flintmq.store.recovery.decisions import Decisions
from flintmq.store.recovery.derived import begin_of_dispatch
from flintmq.store.recovery.find_end import MARGIN_MS, EndSearch, check_files, recovery_scan_start
from flintmq.store.recovery.truncate import truncate_log
from tests.support.faults import Faulty
from tests.support.makers import flip
from tests.support.small_logs import FILE_SIZE, SIZE, log_of, make

SIZE_2 = 2 * FILE_SIZE
UNCLEAN = StopFacts(clean=False)
PAGE = 4096


class Asked(Faulty):
    """Notes which pages were to be forgotten, too."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[tuple[int, int]] = []

    def drop_cache(self, fd: int, position: int, count: int) -> None:
        self.dropped.append((position, count))


def some(start: int, *queue_offsets: int, full: int = 0) -> bytes:
    """Records of one queue, store times from 1001 on by their queue offsets; a blank up to `full` bytes behind."""
    data = b""
    for n in queue_offsets:
        data += make(start + len(data), 1001 + n, queue_offset=n)
    return data + record.encode_blank(full - len(data)) if full else data


def recovery_of(
    files: LogFiles, facts: StopFacts = UNCLEAN, known: Checkpoint | None = None
) -> tuple[EndSearch, Asked]:
    """For files of tmp_path/log, with tmp_path as the store."""
    effects = Asked()
    root = str(Path(files.files[0].path).parent.parent)
    return EndSearch(root, files, facts, known or Checkpoint(), effects, Decisions("store")), effects


def cut(search: EndSearch, end: int) -> None:
    truncate_log(search.root, search.files, end, search.effects, search.decisions)


def two_files(root: Path, second: bytes = b"", **kept: int) -> LogFiles:
    """A first file that is full, with queue offsets 0 to 2, and a second one."""
    return log_of(root / "log", some(0, 0, 1, 2, full=FILE_SIZE), second, **kept)


@pytest.mark.parametrize(("time", "counts"), [(0, False), (1, True), (1000, True), (1001, False)])
def test_a_file_whose_first_record_has_a_time_before_the_checkpoint_s_is_a_place_to_begin(
    tmp_path: Path, time: int, counts: bool
):
    files = log_of(tmp_path, make(0, 1) + record.encode_blank(FILE_SIZE - SIZE), make(FILE_SIZE, time))
    known = Checkpoint(1000 + MARGIN_MS, 1000 + MARGIN_MS)
    assert recovery_scan_start(files, UNCLEAN, known) == (FILE_SIZE if counts else 0)
    marked = StopFacts(clean=False, mark=DurableMark(FILE_SIZE))
    assert begin_of_dispatch(files, marked, known) == (FILE_SIZE if counts else 0)


@pytest.mark.parametrize(
    ("mark", "dispatched", "begin"),
    [
        (SIZE_2 + 100, FILE_SIZE - 1, SIZE_2),  # below the log: it says nothing, so the queues' time does
        (SIZE_2 + 100, FILE_SIZE, FILE_SIZE),
        (SIZE_2 + 100, FILE_SIZE + 50, FILE_SIZE + 50),
        (SIZE_2 + 100, SIZE_2 + 100, SIZE_2 + 100),
        (SIZE_2 + 100, SIZE_2 + 101, SIZE_2),  # more than is flushed cannot be
        (SIZE_2 + 100, -1, SIZE_2),
    ],
)
def test_units_are_written_again_from_where_the_mark_says(tmp_path: Path, mark: int, dispatched: int, begin: int):
    files = log_of(tmp_path, some(FILE_SIZE, 0, full=FILE_SIZE), some(SIZE_2, 1), first=FILE_SIZE)
    facts = StopFacts(False, mark=DurableMark(mark, dispatched))
    assert begin_of_dispatch(files, facts, Checkpoint(10**6, 10**6)) == begin


@pytest.mark.parametrize(
    ("mark", "dispatched", "listed", "begin"),
    [
        (SIZE_2 + 100, SIZE_2 + 100, True, SIZE_2 + 100),  # all units are there: none is written
        (SIZE_2 + 100, FILE_SIZE, True, FILE_SIZE),
        (SIZE_2 + 100, SIZE_2 + 100, False, SIZE_2),  # a queue without its files would not be missed
        (SIZE_2 + 100, SIZE_2 + 101, True, SIZE_2),
        (SIZE_2 + 100, FILE_SIZE - 1, True, SIZE_2),
        (SIZE_2 + 100, -1, True, SIZE_2),  # others dispatched
        (None, -1, True, SIZE_2),  # RocketMQ wrote
    ],
)
def test_after_a_clean_stop_units_are_written_again_but_for_those_that_mark_and_list_tell_of(
    tmp_path: Path, mark: int | None, dispatched: int, listed: bool, begin: int
):
    files = log_of(tmp_path, some(FILE_SIZE, 0, full=FILE_SIZE), some(SIZE_2, 1), first=FILE_SIZE)
    facts = StopFacts(True, mark=DurableMark(mark, dispatched))
    assert begin_of_dispatch(files, facts, Checkpoint(10**6, 10**6), listed) == begin


def test_without_a_mark_nothing_is_known_to_be_dispatched(tmp_path: Path):
    files = two_files(tmp_path, some(FILE_SIZE, 3))
    for mark, dispatched in ((None, 1), (0, 1)):
        begin = begin_of_dispatch(files, StopFacts(False, mark=DurableMark(mark, dispatched)), Checkpoint(10**6, 10**6))
        assert begin == (0 if mark == 0 else FILE_SIZE)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("second", "end", "last_time"),
    [
        (some(FILE_SIZE, 3, 4), FILE_SIZE + 2 * SIZE, 1005),
        (b"", FILE_SIZE, 1003),  # behind the blank, as the next file is there
        (None, 3 * SIZE, 1003),  # and before it where it is not
    ],
)
def test_the_end_and_what_is_told_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool, second: bytes | None, end: int, last_time: int
):
    caplog.set_level(logging.INFO, "flintmq.recovery")
    files = two_files(tmp_path, second or b"")
    if second is None:
        Path(files.files[1].path).unlink()
        files = LogFiles.discover([str(tmp_path / "log")])
    begin = FILE_SIZE if clean and second else 0
    recovery, _ = recovery_of(files, StopFacts(clean=clean, live=True))
    assert recovery.facts.live is False, "the lock is ours"
    assert recovery.find() == (end, last_time, Verdict.END)
    stop = "clean" if clean else "unclean"
    told = f"recovery after {stop} stop: read from {begin}, the log ends at {end} (end of the log)"
    assert recovery.decisions.lines == [told]
    assert [r.getMessage() for r in caplog.records] == [f"store: {told}"]
    assert recovery.compared == begin


def test_an_empty_log_ends_where_it_begins(tmp_path: Path):
    for first in (0, SIZE_2):
        recovery, _ = recovery_of(log_of(tmp_path / str(first) / "log", b"", first=first))
        assert recovery.find() == (first, 0, Verdict.END)


@pytest.mark.parametrize(("clean", "mark"), [(True, None), (True, 0), (False, None)])
def test_the_order_of_queues_counts_only_where_flintmq_alone_has_written_and_did_not_stop(
    tmp_path: Path, clean: bool, mark: int | None
):
    files = log_of(tmp_path / "log", some(0, 0, 1, 5, 6))
    recovery, _ = recovery_of(files, StopFacts(clean=clean, mark=DurableMark(mark)))
    assert recovery.find() == (4 * SIZE, 1007, Verdict.END)


def test_what_lies_before_the_walk_s_begin_is_not_read(tmp_path: Path):
    files = two_files(tmp_path, some(FILE_SIZE, 3))
    path = Path(files.files[0].path)
    flip(path, SIZE + 90)
    recovery, _ = recovery_of(files, StopFacts(clean=True))
    assert recovery.find() == (FILE_SIZE + SIZE, 1004, Verdict.END)


WRONG = "queue offset 8 where 4 is the next"


@pytest.mark.parametrize(
    ("second", "end", "last_time", "wrong"),
    [
        ((3, 8), FILE_SIZE + SIZE, 1004, WRONG),
        ((8,), FILE_SIZE, 1003, "queue offset 8 where 3 is the next"),  # the last time is of the file before
        ((3, 4, 5, 8), FILE_SIZE + 3 * SIZE, 1006, "queue offset 8 where 6 is the next"),
    ],
)
def test_a_last_record_out_of_order_is_a_torn_tail(
    tmp_path: Path, second: tuple[int, ...], end: int, last_time: int, wrong: str
):
    recovery, _ = recovery_of(two_files(tmp_path, some(FILE_SIZE, *second)), StopFacts(False, mark=DurableMark(0)))
    assert recovery.find() == (end, last_time, Verdict.TORN_TAIL)
    assert recovery.decisions.lines == [f"recovery after unclean stop: the log ends at {end} (torn tail: {wrong})"]


def test_the_first_record_of_a_log_has_no_time_before_it(tmp_path: Path):
    for first in (0, FILE_SIZE):
        recovery, _ = recovery_of(log_of(tmp_path / str(first) / "log", some(first, 0, 1), first=first))
        assert recovery._time_before(first) == 0
        assert recovery._time_before(first + SIZE) == 1001


def test_one_that_others_follow_is_damage_but_after_a_power_cut(tmp_path: Path):
    files, at = two_files(tmp_path, some(FILE_SIZE, 3, 8, 9)), FILE_SIZE + SIZE
    recovery, _ = recovery_of(files, StopFacts(False, mark=DurableMark(0)))
    with pytest.raises(CorruptStoreError) as caught:
        recovery.find()
    assert (caught.value.file, caught.value.position) == (files.files[1].path, SIZE)
    assert str(caught.value).endswith(f": {WRONG}; records go on at offset {at + SIZE}; {REFUSED}")
    recovery, _ = recovery_of(files, StopFacts(False, mark=DurableMark(0), power_cut=True))
    assert recovery.find() == (at, 1004, Verdict.UNORDERED)
    assert recovery.decisions.lines == [
        f"recovery after unclean stop: the log ends at {at} (unordered write-back: {WRONG})"
    ]


@pytest.mark.parametrize(
    ("mark", "files", "dropped"),
    [
        (None, [0, 1, 2], [(0, 12288)] * 3),
        (0, [0, 1, 2], [(0, 12288)] * 3),
        (5000, [0, 1, 2], [(PAGE, 8192), (0, 12288), (0, 12288)]),
        (12288, [1, 2], [(0, 12288)] * 2),
        (12288 + 2 * PAGE - 1, [1, 2], [(PAGE, 8192), (0, 12288)]),
        (12288 + 2 * PAGE, [1, 2], [(2 * PAGE, PAGE), (0, 12288)]),
        (3 * 12288, [2], [(12288, 0)]),
    ],
)
def test_after_an_unclean_stop_what_lies_above_the_mark_is_read_from_the_disk(
    tmp_path: Path, mark: int | None, files: list[int], dropped: list[tuple[int, int]]
):
    size = 3 * PAGE
    log = log_of(tmp_path / "log", *[some(n * size, n, full=size) for n in range(3)], file_size=size)
    recovery, effects = recovery_of(log, StopFacts(False, mark=DurableMark(mark)))
    recovery.find()
    paths = [log.files[n].path for n in files]
    assert [path for name, path in effects.calls if name == "sync"] == paths
    assert effects.dropped == dropped and effects.calls[-1] == ("sync_dir", str(tmp_path / "log"))
    for again in (
        recovery_of(log, StopFacts(False, mark=DurableMark(mark))),
        recovery_of(log, StopFacts(True, mark=DurableMark(mark))),
    ):
        again[0].find(reread=again[0].facts.clean)
        assert again[1].calls == [] == again[1].dropped, "not for a preview, and not after a clean stop"


@pytest.mark.parametrize("step", [100, 1 << 20])
def test_everything_behind_the_end_is_zeroed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int):
    monkeypatch.setattr(truncate, "ZERO_STEP", step)
    data = some(0, 0, 1, 2)
    files = log_of(tmp_path / "log", data + b"\xff" * 7 + bytes(500) + b"\xff" * 3, some(FILE_SIZE, 3))
    first, second = (file.path for file in files.files)
    recovery, effects = recovery_of(files)
    cut(recovery, 3 * SIZE)
    assert Path(first).read_bytes() == data.ljust(FILE_SIZE, b"\0") and not Path(second).exists()
    kept = tmp_path / "quarantine" / f"{FILE_SIZE:020d}-1004.record"
    assert kept.read_bytes() == some(FILE_SIZE, 3) and [kept] == list(kept.parent.iterdir())
    line = {"offset": FILE_SIZE, "size": SIZE, "topic": "T", "cut_at": 3 * SIZE}
    assert recovery.decisions.lines == [
        f"quarantine: {json.dumps(line)}",
        f"removed {second}, which begins after the log's end",
        f"zeroed 10 bytes of {first} from position {3 * SIZE}",
    ]
    names = [(name, path) for name, path in effects.calls if name != "pwrite"]
    folder = str(kept.parent)
    assert names[-5:] == [
        ("sync_dir", folder), ("unlink", second), ("sync_dir", str(tmp_path / "log")), ("open_write", first),
        ("sync", first),
    ]  # fmt: skip
    assert ("sync", str(kept) + NEW) in names
    again, quiet = recovery_of(LogFiles.discover([str(tmp_path / "log")]))
    cut(again, 3 * SIZE)
    assert again.decisions.lines == [] and {name for name, _ in quiet.calls} <= {"open_write", "sync_dir"}


def test_a_file_that_begins_at_the_end_stays_and_is_zeroed(tmp_path: Path):
    files = log_of(tmp_path / "log", some(0, 0, full=FILE_SIZE), b"\xff" * FILE_SIZE, b"x")
    recovery, _ = recovery_of(files)
    cut(recovery, FILE_SIZE)
    assert [path.name for path in sorted((tmp_path / "log").iterdir())] == [f"{n:020d}" for n in (0, FILE_SIZE)]
    assert Path(files.files[0].path).read_bytes() == some(0, 0, full=FILE_SIZE).ljust(FILE_SIZE, b"\0")
    assert Path(files.files[1].path).read_bytes() == bytes(FILE_SIZE)
    assert recovery.decisions.lines[-1] == f"zeroed {FILE_SIZE} bytes of {files.files[1].path} from position 0"


RECORD_1 = some(0, 0, 1)[SIZE:]  # the one that is copied first


@pytest.mark.parametrize("there", [RECORD_1, b"", RECORD_1[:-1], bytes(SIZE), RECORD_1 + b"x"])
def test_what_is_in_quarantine_as_a_whole_is_not_copied_twice(tmp_path: Path, there: bytes):
    """A start that died in the middle of a copy leaves a name that must not pass for the copy."""
    data = some(0, 0, 1, 2, 3)
    files = log_of(tmp_path / "log", data)
    folder = tmp_path / "quarantine"
    folder.mkdir()
    rest = {f"{n * SIZE:020d}-{1001 + n}.record": data[n * SIZE : (n + 1) * SIZE] for n in (1, 2, 3)}
    (folder / next(iter(rest))).write_bytes(there)
    recovery, effects = recovery_of(files)
    truncate._quarantine(recovery.root, files, SIZE, effects, recovery.decisions)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == rest
    assert len(recovery.decisions.lines) == (2 if there == RECORD_1 else 3)
    assert effects.calls[-1] == ("sync_dir", str(folder))


@pytest.mark.parametrize("size", [FILE_SIZE // 2, FILE_SIZE, SIZE_2])
def test_files_of_another_size_are_refused_with_advice(tmp_path: Path, size: int):
    files = two_files(tmp_path)
    if size == FILE_SIZE:
        check_files(files, size)
        return
    with pytest.raises(CorruptStoreError) as caught:
        check_files(files, size)
    path, position = files.files[0].path, min(size, FILE_SIZE)
    assert str(caught.value) == (
        f"{path}, position {position}: the file has {FILE_SIZE} bytes, not {size}; "
        "set mappedFileSizeCommitLog to the store's own size, or bring the whole file back"
    )


@pytest.mark.parametrize("by", [1, FILE_SIZE - 1])
def test_a_file_too_many_is_refused_with_advice(tmp_path: Path, by: int):
    files = log_of(tmp_path / "log", b"", b"")
    first, second = files.files
    spare = LogFile(str(tmp_path / "log" / f"{by:020}"), by, FILE_SIZE)
    with pytest.raises(CorruptStoreError) as caught:
        check_files(LogFiles((first, spare, second), FILE_SIZE, files.max_record), FILE_SIZE)
    assert str(caught.value) == (
        f"{spare.path}, position 0: it begins inside {first.path}: one file is too many; "
        "move away the one that is not the log's"
    )


def test_a_gap_is_refused_with_advice(tmp_path: Path):
    files = log_of(tmp_path / "log", b"", b"", b"")
    with pytest.raises(CorruptStoreError) as caught:
        check_files(LogFiles(files.files[:1] + files.files[2:], FILE_SIZE, files.max_record), FILE_SIZE)
    first, _, third = (file.path for file in files.files)
    assert str(caught.value) == (
        f"{third}, position 0: the file before it is missing: {first} ends elsewhere; bring the missing file back"
    )


def test_a_list_of_which_nothing_is_said_is_not_there(tmp_path: Path):
    """The mark alone is not enough after a clean stop: queues that lost their files would not be missed."""
    files = log_of(tmp_path, make(0, 1001) + record.encode_blank(FILE_SIZE - SIZE), make(FILE_SIZE, 1002))
    end = FILE_SIZE + SIZE
    facts = StopFacts(clean=True, mark=DurableMark(end, end))
    assert begin_of_dispatch(files, facts, Checkpoint(10**6, 10**6)) == FILE_SIZE
    assert begin_of_dispatch(files, facts, Checkpoint(10**6, 10**6), listed=True) == end
