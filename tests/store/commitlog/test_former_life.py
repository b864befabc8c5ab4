"""Which facts prove that older records are of a former life of the log, one by one and over every combination."""

import itertools
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.errors import CorruptStoreError, LostLogError
from flintmq.format import record
from flintmq.store.commitlog import former_life
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.records import last_file_begun_by
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from tests.support.small_logs import FILE_SIZE, SIZE, full_file, log_of, make

NEW, OLD = 9000, 1000  # store times before and after a step back
FLUSHED = 9_999  # of the checkpoint: the records before the step are flushed


def queue_records(places: list[tuple[bytes, int]], begin: int, time: int) -> bytes:
    """Records of (topic, queue offset) from a log offset on, one ms apart."""
    data = b""
    for number, (topic, offset) in enumerate(places):
        data += make(begin + len(data), time + number, topic=topic, queue_offset=offset)
    return data


def read(log: LogFiles, facts: StopFacts, **options: bool) -> tuple[list[int], Verdict | None, Report]:
    """Log offsets of a walk over the whole log, its verdict and its report."""
    report = Report()
    walk = LogWalk(log, facts, report=report, **options)
    found = [piece.base + at for piece in walk for at in piece.positions[: piece.count]]
    return found, walk.verdict, report


def topics(*offsets: int, topic: bytes = b"T") -> list[tuple[bytes, int]]:
    return [(topic, offset) for offset in offsets]


@pytest.mark.parametrize(
    ("before", "after", "proven"),
    [
        (topics(0, 1, 2), topics(3, 4), False),  # a clock that was set back, or a tail that no fact parts from it
        (topics(0, 1, 2), topics(2, 3), True),
        (topics(5, 6, 7), topics(6, 7), True),
        (topics(5, 6, 7), topics(4, 5, 6), True),
        (topics(0, 1, 2), topics(0, 1), False),  # the queue's topic was deleted, and it began again
        (topics(0, 1, 2, 0), topics(1, 2), False),  # before the step
        (topics(0, 1, 2), topics(9, 10), False),  # RocketMQ goes on after ghost units of its queue
        (topics(0, 1, 2), topics(2, topic=b"U"), False),  # another queue
        (topics(0, 1) + topics(4, topic=b"U"), topics(2, 3) + topics(4, topic=b"U"), True),  # one queue is enough
        (topics(3, 4), topics(5, 4), False),  # the tail's first record of the queue decides
    ],
)
def test_an_aligned_tail_is_stale_where_a_queue_offset_repeats(
    tmp_path: Path, before: list[tuple[bytes, int]], after: list[tuple[bytes, int]], proven: bool
) -> None:
    data = queue_records(before, 0, NEW)
    data += queue_records(after, len(data), OLD)
    log, count = log_of(tmp_path, data), len(before) if proven else len(before) + len(after)
    facts = StopFacts(physic_time=FLUSHED)
    found, verdict, report = read(log, facts)
    assert (len(found), verdict) == (count, Verdict.STALE_TAIL if proven else Verdict.END)
    assert [note.code for note in report.notes] == ["stale_tail" if proven else "time_step"]
    assert find_end(log, facts).offset == count * SIZE
    in_the_tail = replace(facts, latest=FLUSHED, named=len(data) - SIZE)  # as the newest index file names it
    assert find_end(log, in_the_tail).offset == count * SIZE
    # Records that are not older after the tail: it is of this life.
    (tmp_path / "on").mkdir()
    data += make(len(data), NEW + 900, queue_offset=50)
    assert len(read(log_of(tmp_path / "on", data), facts)[0]) == len(before) + len(after) + 1


@pytest.mark.parametrize(
    "kind", [0, record.TRANSACTION_PREPARED, record.TRANSACTION_COMMIT, record.TRANSACTION_ROLLBACK]
)
def test_a_record_without_a_place_in_a_queue_proves_nothing(tmp_path: Path, kind: int) -> None:
    def one(at: int, time: int, sys_flag: int) -> bytes:
        return record.encode(
            record.Record(
                body_crc=record.crc(b"b"), physical_offset=at, queue_offset=4, store_timestamp=time, body=b"b",
                topic=b"T", sys_flag=sys_flag,
            )
        )  # fmt: skip

    data = one(0, NEW, 0)
    data += one(len(data), OLD, kind)
    has_place = kind in (0, record.TRANSACTION_COMMIT)
    assert len(read(log_of(tmp_path, data), StopFacts(physic_time=FLUSHED))[0]) == (1 if has_place else 2)


def test_a_tail_with_records_in_a_later_file_is_of_this_life(tmp_path: Path) -> None:
    """RocketMQ removes later files when it truncates. So a walk of all files and one of the last agree."""
    one = queue_records(topics(3, 4), 0, NEW) + queue_records(topics(3, 4), 2 * SIZE, OLD)
    one += record.encode_blank(FILE_SIZE - len(one))
    facts = StopFacts(physic_time=FLUSHED)
    log = log_of(tmp_path / "on", one, queue_records(topics(5), FILE_SIZE, OLD + 50))
    assert read(log, facts)[0] == [0, SIZE, 2 * SIZE, 3 * SIZE, FILE_SIZE]
    log = log_of(tmp_path / "spare", one, b"")
    assert read(log, facts)[0] == [0, SIZE] and find_end(log, facts).offset == 2 * SIZE
    # A step at a file's begin: what was truncated there would not be older.
    log = log_of(tmp_path / "begin", full_file(0, NEW)[0], queue_records(topics(3, 3), FILE_SIZE, OLD))
    assert read(log, facts)[0][-2:] == [FILE_SIZE, FILE_SIZE + SIZE]


BAD = {
    "flip": lambda data: data[:4] + bytes([data[4] ^ 1]) + data[5:],
    "zeros": lambda data: bytes(len(data)),
    "body": lambda data: data.replace(b"body", b"bodY"),
    "rubbish": lambda data: b"\xee" * len(data),
}
AFTER = {"goes on": (3, 4), "one is missing": (4, 5), "repeats": (2, 3)}


@pytest.mark.parametrize(("bad", "after", "clean"), list(itertools.product(BAD, AFTER, (True, False))))
def test_older_records_after_a_bad_place_are_stale_only_with_proof(
    tmp_path: Path, bad: str, after: str, clean: bool
) -> None:
    """Without it the place is damage: named by a strict reader, and passed by a lenient one, which loses no record."""
    data = queue_records(topics(0, 1, 2), 0, NEW) + BAD[bad](make(3 * SIZE, OLD, queue_offset=3))
    data += queue_records(topics(*AFTER[after]), 4 * SIZE, OLD + 1)
    log, facts = log_of(tmp_path, data), StopFacts(clean=clean, physic_time=NEW if clean else 0)
    proven = after == "repeats" or (after == "goes on" and bad == "rubbish")  # nothing is missing, and no head is there
    if proven:
        assert read(log, facts)[:2] == ([0, SIZE, 2 * SIZE], Verdict.STALE_TAIL)
        return
    with pytest.raises(CorruptStoreError, match=f"records go on at offset {4 * SIZE}"):
        read(log, facts)
    found, _, report = read(log, facts, strict=False)
    assert found == [0, SIZE, 2 * SIZE, 4 * SIZE, 5 * SIZE] and report.damages[0].offset == 3 * SIZE


@pytest.mark.parametrize(
    ("kept", "proven"),
    [
        (SIZE // 2, True),  # the end of the record, with its texts
        (18, True),  # the texts alone, which are 1 + 1 + 2 + 7 bytes
        (10, False),
        (0, False),
    ],
)
def test_the_end_of_an_overwritten_record_is_proof(tmp_path: Path, kept: int, proven: bool) -> None:
    """A record over its head, so that queue offsets are missing; not if it may have begun at the bad place."""
    lost = make(3 * SIZE, OLD, queue_offset=7)
    data = queue_records(topics(0, 1, 2), 0, NEW) + b"\xee" * (SIZE - kept) + lost[SIZE - kept :]
    data += queue_records(topics(8, 9), 4 * SIZE, OLD + 1)
    if proven:
        assert read(log_of(tmp_path, data), StopFacts())[1] is Verdict.STALE_TAIL
    for begin in range(4, 36) if proven else (0,):  # a number of its head that is right
        damaged = lost[:begin] + b"\xee" * (SIZE - kept - begin) + data[4 * SIZE - kept :]
        with pytest.raises(CorruptStoreError):
            read(log_of(tmp_path / str(begin), data[: 3 * SIZE] + damaged), StopFacts())


@pytest.mark.parametrize(
    ("unit", "proven"),
    [
        ((2 * SIZE + 40, SIZE), True),  # where another record is by now
        ((SIZE, SIZE), True),  # that of another queue offset
        ((3 * SIZE, SIZE), False),  # the bad place: the record is lost there
        ((0, 0x7FFFFFFF), False),  # before the queue's first one (pre-blank)
        ((0, 0), False),
        (None, False),
    ],
)
def test_a_unit_whose_record_was_overwritten_is_proof_after_a_bad_place(
    tmp_path: Path, unit: tuple[int, int] | None, proven: bool
) -> None:
    new = [(b"T", 1), (b"U", 0), (b"U", 1)]  # of T the records 2 to 4 are missing
    data = queue_records(new, 0, NEW) + b"\xee" * SIZE + queue_records(topics(5), 4 * SIZE, OLD)
    log = log_of(tmp_path / "commitlog", data)
    if unit is not None:
        folder = tmp_path / "consumequeue" / "T" / "0"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}").write_bytes(bytes(80) + struct.pack(">qiq", *unit, 0))
    facts = StopFacts(physic_time=FLUSHED, root=str(tmp_path))
    if proven:
        assert read(log, facts)[1] is Verdict.STALE_TAIL
        return
    with pytest.raises(CorruptStoreError):
        read(log, facts)


def test_looks_are_few_in_a_log_of_many_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_life, "MOST_LOOKS", 3)
    data = b"".join(make(n * SIZE, NEW - n, queue_offset=n) for n in range(20))
    data += make(20 * SIZE, OLD, queue_offset=2)  # would be proof, were it looked at
    found, _, report = read(log_of(tmp_path, data), StopFacts(physic_time=FLUSHED))
    assert len(found) == 21 and report.note_counts == {"time_step": 20}


def with_unit(root: Path, place: int) -> None:
    folder = root / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(struct.pack(">qiq", place, SIZE, 0).ljust(200, b"\0"))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("place", "lost"), [(None, False), (FILE_SIZE - SIZE, False), (FILE_SIZE, True)])
def test_a_checkpoint_younger_than_all_records_is_no_loss_unless_a_queue_says_so(
    tmp_path: Path, place: int | None, lost: bool, clean: bool
) -> None:
    """A clock of 2050 was set back, and its records have expired; or the log's last files are gone."""
    log = log_of(tmp_path / "commitlog", full_file(0, OLD)[0])
    if place is not None:
        with_unit(tmp_path, place)
    facts = StopFacts(clean=clean, physic_time=2_524_608_000_000, root=str(tmp_path))
    if lost:
        with pytest.raises(LostLogError, match=f"2524608000000 ms.*T/0' names a record at offset {FILE_SIZE}"):
            read(log, facts)
        return
    found, verdict, report = read(log, facts)
    assert (len(found), verdict, report.note_counts) == (len(full_file(0, OLD)[1]), Verdict.END, {"time_step": 1})


@pytest.mark.parametrize("ahead", ["none", "same file", "earlier file"])
def test_after_a_clock_that_ran_ahead_a_hole_is_not_below_the_mark(tmp_path: Path, ahead: str) -> None:
    """The record of the checkpoint's time was flushed; those after it are not known to be."""
    early, _ = full_file(0, NEW if ahead == "earlier file" else OLD)
    times = [NEW if ahead == "same file" else OLD + 50, OLD + 60]
    data = b"".join(make(FILE_SIZE + n * SIZE, time) for n, time in enumerate(times)).ljust(1024, b"\0")
    follower = FILE_SIZE + 1024
    log = log_of(tmp_path, early, data + make(follower, OLD + 70))
    facts = StopFacts(clean=False, physic_time=NEW)
    with pytest.raises(CorruptStoreError) as caught:
        read(log, facts)
    assert ("unordered write-back" in str(caught.value)) is (ahead != "none")


@pytest.mark.parametrize(
    ("times", "time", "found"),
    [
        ((10, 20, 30), 25, 1),
        ((10, 20, 30), 30, 2),
        ((10, 20, 30), 9, None),
        ((10, 20, 2050, 15), 2060, 2),  # the step between the last two: the times after it say nothing
        ((10, 20, 2050, 15), 40, 1),
        ((10, 2050, 15, 16), 2060, 1),
        ((10, 0, 30), 40, 2),
        ((), 5, None),
    ],
)
def test_the_last_file_that_was_surely_begun_by_a_time(
    tmp_path: Path, times: tuple[int, ...], time: int, found: int | None
) -> None:
    log = log_of(tmp_path, *(make(n * FILE_SIZE, at) for n, at in enumerate(times)))
    file = last_file_begun_by(log, time)
    assert file is (None if found is None else log.files[found])
