"""Walking logs of files: golden stores both ways in, and every kind of stop with what strict and lenient readers do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.errors import CorruptStoreError, UsageError
from flintmq.format import record
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict, read_facts
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.report import DamageKind, Report
from flintmq.store.commitlog.walk import AfterStop, LogWalk, Piece
from flintmq.store.layout.mark import DurableMark
from tests.compat.stores import Golden
from tests.support.small_logs import FILE_SIZE, SIZE, full_file, log_of, make

UNCLEAN = StopFacts(clean=False)


def offsets(walk: LogWalk) -> list[int]:
    return [piece.base + at for piece in walk for at in piece.positions[: piece.count]]


@pytest.mark.parametrize("access", ["pread", "map"])
@pytest.mark.parametrize("piece_bytes", [1 << 20, 1000])
def test_golden_stores(golden_store: Golden, access: str, piece_bytes: int) -> None:
    log = LogFiles.discover([str(golden_store.path / "commitlog")])
    facts = read_facts(str(golden_store.path))
    expected = [row["physical_offset"] for row in golden_store.live]
    for max_rows in (7, 65_536):
        walk = LogWalk(log, facts, access=access, piece_bytes=piece_bytes, max_rows=max_rows)
        found = offsets(walk)
        assert found[: len(expected)] == expected
        assert len(found) == len(expected) + golden_store.expect.get("beyond", 0)
        assert walk.verdict is (Verdict.STALE_TAIL if golden_store.name == "stale" else Verdict.END)
    assert find_end(log, facts).offset == walk.position


def test_pieces_end_where_they_say(tmp_path: Path) -> None:
    data, expected = full_file(0, 1000)
    walk = LogWalk(log_of(tmp_path, data), max_rows=5)
    for piece in walk:
        last = piece.positions[piece.count - 1]
        assert piece.end == last + SIZE and bytes(piece.data[last : piece.end]) == make(
            piece.base + last, 1001 + expected.index(piece.base + last)
        )


@pytest.mark.parametrize("more", [1, SIZE, FILE_SIZE])
def test_a_file_that_is_too_long_hides_no_record_of_the_next_one(tmp_path: Path, more: int) -> None:
    one, first = full_file(0, 1000)
    two, second = full_file(FILE_SIZE, 2000)
    three, third = full_file(2 * FILE_SIZE, 3000, 4)
    log = log_of(tmp_path, one, two, three)
    with Path(log.files[0].path).open("ab") as file:
        file.write(one[:more])
    log = LogFiles.discover([str(Path(log.files[0].path).parent)])
    for access in ("pread", "map"):
        assert offsets(LogWalk(log, access=access)) == first + second + third
        assert offsets(LogWalk(log, access=access, strict=False)) == first + second + third


def test_a_range_gives_the_records_that_start_in_it(tmp_path: Path) -> None:
    one, first = full_file(0, 1000)
    two, second = full_file(FILE_SIZE, 2000, 4)
    log = log_of(tmp_path, one, two)
    every = first + second
    for cut in (0, 1, SIZE, SIZE + 1, FILE_SIZE - 1, FILE_SIZE, FILE_SIZE + SIZE):
        assert offsets(LogWalk(log, begin=0, end=cut)) == [o for o in every if o < cut]
    walk = LogWalk(log, begin=every[3], end=every[7])
    assert offsets(walk) == every[3:7] and walk.position == every[7]


def test_unknown_access_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'magic' is not one of: pread, map"):
        LogWalk(log_of(tmp_path), access="magic")


def test_an_empty_log_ends_at_once(tmp_path: Path) -> None:
    walk = LogWalk(log_of(tmp_path))
    assert offsets(walk) == [] and walk.verdict is Verdict.END
    assert find_end(log_of(tmp_path)).offset == 0


def broken(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_torn_last_record_is_a_tail_and_no_damage(tmp_path: Path) -> None:
    data, every = full_file(0, 1000, 5)
    for facts in (StopFacts(), UNCLEAN):
        report = Report()
        walk = LogWalk(log_of(tmp_path, broken(data, every[4] + 90)), facts, report=report)
        assert offsets(walk) == every[:4]
        assert walk.verdict is Verdict.TORN_TAIL and walk.position == every[4]
        assert [note.code for note in report.notes] == ["torn_tail"] and not report.damages


def test_a_bad_record_in_the_middle_is_damage(tmp_path: Path) -> None:
    data, every = full_file(0, 1000, 5)
    log = log_of(tmp_path, broken(data, every[2] + 90))
    for facts in (StopFacts(), StopFacts(clean=False, physic_time=5000), UNCLEAN):
        with pytest.raises(CorruptStoreError, match=f"position {every[2]}: body CRC is wrong") as caught:
            offsets(LogWalk(log, facts))
        assert (caught.value.file, caught.value.position) == (log.files[0].path, every[2])
        report = Report()
        assert offsets(LogWalk(log, facts, strict=False, report=report)) == every[:2] + every[3:]
        assert [(d.position, d.lost) for d in report.damages] == [(every[2], SIZE)]


def test_a_sector_never_written_is_unordered_write_back_after_a_crash(tmp_path: Path) -> None:
    data, every = full_file(0, 1000, 20)
    hole = data[:512] + bytes(512) + data[1024:]
    # The record that loses only the last bytes of its properties still counts: no checksum covers them.
    lost = [o for o in every if o + SIZE > 516 and o < 1024]
    log = log_of(tmp_path, hole)
    for facts, text in ((UNCLEAN, "unordered write-back"), (StopFacts(), "body|size|magic|offset|lengths")):
        with pytest.raises(CorruptStoreError, match=text):
            offsets(LogWalk(log, facts))
    report = Report()
    assert offsets(LogWalk(log, UNCLEAN, strict=False, report=report)) == [o for o in every if o not in lost]
    assert report.damages[0].reason.startswith("unordered write-back")
    assert report.damages[0].kind is DamageKind.UNORDERED


def test_programs_tell_damage_by_its_kind(tmp_path: Path) -> None:
    """Bytes that are no record, a link in place of a file, and a log that went on after its last file."""
    (first, every), (last, _) = full_file(0, 1000), full_file(2 * FILE_SIZE, 3000)
    log_of(tmp_path, first[: every[2]] + bytes(8) + first[every[2] + 8 :])
    (tmp_path / f"{FILE_SIZE:020d}").symlink_to(tmp_path / "elsewhere")
    log, report = log_of(tmp_path, last, first=2 * FILE_SIZE), Report()
    offsets(LogWalk(log, StopFacts(mark=DurableMark(9 * FILE_SIZE)), strict=False, report=report))
    assert [damage.kind for damage in report.damages] == [DamageKind.RECORD, DamageKind.GAP, DamageKind.END]


def test_below_the_checkpoint_a_hole_is_damage_even_after_a_crash(tmp_path: Path) -> None:
    data, _ = full_file(0, 1000, 20)
    log = log_of(tmp_path, data[:512] + bytes(512) + data[1024:])
    with pytest.raises(CorruptStoreError) as caught:
        offsets(LogWalk(log, StopFacts(clean=False, physic_time=9000)))
    assert "unordered" not in str(caught.value)


def test_records_older_than_the_last_good_one_are_a_stale_tail(tmp_path: Path) -> None:
    old = b"".join(make(n * SIZE, 1001 + n, queue_offset=n) for n in range(10))
    new = b"".join(
        make(n * (SIZE - 1), 5000 + n, b"new", queue_offset=n) for n in range(3)
    )  # then the old ones, unaligned
    report = Report()
    walk = LogWalk(log_of(tmp_path, new + old[len(new) :]), report=report)
    assert offsets(walk) == [0, SIZE - 1, 2 * SIZE - 2] and walk.verdict is Verdict.STALE_TAIL


def test_an_aligned_stale_tail_ends_the_log_if_its_queue_offsets_repeat_and_the_checkpoint_is_not_older(
    tmp_path: Path,
) -> None:
    old, every = b"".join(make(n * SIZE, 1001 + n, queue_offset=n) for n in range(10)), [n * SIZE for n in range(10)]
    new = make(0, 5000, queue_offset=1) + make(SIZE, 5001, queue_offset=2)
    log = log_of(tmp_path, new + old[2 * SIZE :])
    walk = LogWalk(log, StopFacts(physic_time=5001))
    assert offsets(walk) == every[:2] and walk.verdict is Verdict.STALE_TAIL
    report = Report()  # the checkpoint knows nothing so young: a clock was set back, and the records count
    assert offsets(LogWalk(log, StopFacts(physic_time=5000), report=report)) == every
    assert [note.code for note in report.notes] == ["time_step"]


def test_a_clock_set_back_for_a_while_drops_nothing(tmp_path: Path) -> None:
    times = [1000, 1001, 500, 501, 2000, 2001, 1500, 3000]
    data = b"".join(make(n * SIZE, time) for n, time in enumerate(times))
    report = Report()
    walk = LogWalk(log_of(tmp_path, data), StopFacts(physic_time=3000), report=report)
    assert offsets(walk) == [n * SIZE for n in range(len(times))]
    assert report.note_counts == {"time_step": 2}


@pytest.mark.parametrize("flushed", [3 * SIZE, 3 * SIZE + 1])
def test_our_own_mark_makes_a_missing_tail_damage(tmp_path: Path, flushed: int) -> None:
    data, every = full_file(0, 1000, 3)
    facts = StopFacts(mark=DurableMark(flushed))
    if flushed == 3 * SIZE:
        assert offsets(LogWalk(log_of(tmp_path, data), facts)) == every
    else:
        with pytest.raises(CorruptStoreError, match="no valid record follows"):
            offsets(LogWalk(log_of(tmp_path, data), facts))


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    files = [full_file(n * FILE_SIZE, 1000 + 100 * n) for n in range(3)]
    log_of(tmp_path, *[data for data, _ in files])
    (tmp_path / f"{FILE_SIZE:020d}").unlink()
    log = LogFiles.discover([str(tmp_path)])
    with pytest.raises(CorruptStoreError, match="gap of 4096 bytes"):
        offsets(LogWalk(log))
    report = Report()
    assert offsets(LogWalk(log, strict=False, report=report)) == files[0][1] + files[2][1]
    assert report.lost_bytes == FILE_SIZE


def test_a_file_that_vanishes_or_shrinks_does_not_kill_the_reader(tmp_path: Path) -> None:
    files = [full_file(n * FILE_SIZE, 1000 + 100 * n) for n in range(3)]
    log = log_of(tmp_path, *[data for data, _ in files])
    (tmp_path / f"{0:020d}").unlink()
    assert offsets(LogWalk(log)) == files[1][1] + files[2][1]
    with open(tmp_path / f"{2 * FILE_SIZE:020d}", "r+b") as file:
        file.truncate(SIZE + 10)
    assert offsets(LogWalk(log)) == [*files[1][1], 2 * FILE_SIZE]


def test_a_last_file_that_ends_in_a_blank_ends_the_log_at_the_blank(tmp_path: Path) -> None:
    data, every = full_file(0, 1000)
    end = find_end(log_of(tmp_path, data))
    assert (end.offset, end.verdict) == (every[-1] + SIZE, Verdict.END)


def test_a_record_larger_than_a_piece_is_read_whole(tmp_path: Path) -> None:
    body = bytes(range(256)) * 100
    data = make(0, 1000) + make(SIZE, 1001, body)
    data += make(len(data), 1002)
    log = log_of(tmp_path, data, file_size=65_536)
    assert offsets(LogWalk(log, piece_bytes=1000)) == [0, SIZE, len(data) - SIZE]


def test_a_spare_file_of_zeros_is_not_read(tmp_path: Path) -> None:
    data, every = full_file(0, 1000, 3)
    log = log_of(tmp_path, data, b"", b"")
    walk = LogWalk(log, UNCLEAN)
    assert offsets(walk) == every and walk.verdict is Verdict.END


def test_records_behind_zeros_in_a_later_file_are_damage(tmp_path: Path) -> None:
    one, first = full_file(0, 1000, 3)
    two, second = full_file(FILE_SIZE, 2000, 3)
    log = log_of(tmp_path, one, two)
    with pytest.raises(CorruptStoreError, match="zeros"):
        offsets(LogWalk(log))
    assert offsets(LogWalk(log, strict=False)) == first + second


def test_the_magic_of_a_blank_is_enough(tmp_path: Path) -> None:
    data, every = full_file(0, 1000, 3)
    two, more = full_file(FILE_SIZE, 2000, 1)
    blank = record.encode_blank(77)  # its size is not compared: the next file is
    assert offsets(LogWalk(log_of(tmp_path, data + blank + b"junk" * 9, two))) == every + more


def test_a_walk_may_begin_where_a_file_is_missing(tmp_path: Path) -> None:
    """Between two files, or in one that is empty, the records behind are not lost."""
    one, first = full_file(0, 1000)
    two, second = full_file(3 * FILE_SIZE, 2000, 4)
    log_of(tmp_path, one)
    (tmp_path / f"{FILE_SIZE:020d}").write_bytes(b"")
    log = log_of(tmp_path, two, first=3 * FILE_SIZE)
    for begin in (FILE_SIZE, FILE_SIZE + 5, 2 * FILE_SIZE):
        report = Report()
        assert offsets(LogWalk(log, begin=begin, strict=False, report=report)) == second
        assert [(damage.reason, damage.kind) for damage in report.damages] == [("missing file", DamageKind.GAP)]
        with pytest.raises(CorruptStoreError, match="gap"):
            offsets(LogWalk(log, begin=begin))
    assert offsets(LogWalk(log, begin=4 * FILE_SIZE + 9)) == []


@pytest.mark.parametrize("left", [0, 1, 7, 8, 40, SIZE - 1, SIZE])
def test_a_file_cut_while_it_is_read_ends_the_walk(tmp_path: Path, left: int) -> None:
    """The file was long enough when it was opened; now it ends inside a record, and always will."""
    data, expected = full_file(0, 1000, 20)
    log = log_of(tmp_path, data)
    walk = iter(LogWalk(log, StopFacts(clean=False, live=True), piece_bytes=2 * SIZE))
    piece = next(walk)
    path = tmp_path / f"{0:020d}"
    with path.open("r+b") as file:
        file.truncate(piece.end + left)
    rest = [found.base + at for found in walk for at in found.positions[: found.count]]
    assert rest == expected[2 : 2 + left // SIZE]


def test_store_times_below_zero_in_a_file_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    """A step back is looked at by the file's name; where that is gone the walk goes on all the same."""
    data = b"".join(make(SIZE * number, -number) for number in range(6))
    log = log_of(tmp_path, data)
    walk = iter(LogWalk(log, StopFacts(physic_time=1 << 40), max_rows=2))
    assert next(walk).count == 1
    (tmp_path / f"{0:020d}").unlink()
    assert sum(piece.count for piece in walk) == 5


def test_a_file_that_grew_behind_what_was_listed(tmp_path: Path) -> None:
    """It goes on where another file begins now, and ends in rubbish there."""
    one, first = full_file(0, 1000)
    two, second = full_file(FILE_SIZE, 2000)
    log = log_of(tmp_path, one, two)
    grown, every = full_file(0, 1000, file_size=FILE_SIZE + 20 * SIZE)
    (tmp_path / f"{0:020d}").write_bytes(grown[: len(every) * SIZE] + b"rubbish" * 30)
    report = Report()
    found = offsets(LogWalk(log, UNCLEAN, strict=False, report=report))
    assert found[: len(every)] == every and found[-1] == second[-1]
    assert report.damage_count >= 1


@pytest.mark.parametrize("left", range(10))
@pytest.mark.parametrize("piece_bytes", [1 << 20, SIZE + 7, 97])
def test_a_few_zeros_at_a_file_s_end_are_its_end_however_it_is_read(
    tmp_path: Path, left: int, piece_bytes: int
) -> None:
    """A buffer that is used again still holds the bytes of the read before behind a short one."""
    data = make(0, 1000) + make(SIZE, 1001, b"x" * 400)
    log = log_of(tmp_path, data, file_size=len(data) + left)
    walk = LogWalk(log, piece_bytes=piece_bytes)
    assert len(offsets(walk)) == 2 and walk.verdict is Verdict.END


class Noted(LogWalk):
    """Notes how the walk goes on after each stop."""

    def __iter__(self) -> Iterator[Piece]:
        self.after: list[AfterStop] = []
        return super().__iter__()

    def _judge_stop(self, file: LogFile, p: int, reason: int, zeros: bool) -> AfterStop:
        self.after.append(super()._judge_stop(file, p, reason, zeros))
        return self.after[-1]


AGAIN, GO_ON, OVER = AfterStop.READ_AGAIN, AfterStop.GO_ON, AfterStop.OVER
TORN = b"\x01" * SIZE  # where the third record should be


@pytest.mark.parametrize(
    ("third", "time", "facts", "end", "after"),
    [
        (b"", 1004, StopFacts(), None, [OVER]),  # zeros
        (b"", 1004, UNCLEAN, None, [AGAIN, OVER]),
        (b"", 1004, StopFacts(live=True), None, [AGAIN, OVER]),
        (TORN, 1004, StopFacts(), None, [GO_ON, OVER]),  # damage, and then the end
        (TORN, 1004, StopFacts(), 4 * SIZE, [GO_ON]),
        (TORN, 1004, UNCLEAN, None, [AGAIN, GO_ON, AGAIN, OVER]),
        (
            make(2 * SIZE, 1003),
            900,
            StopFacts(mark=DurableMark(4 * SIZE)),
            None,
            [GO_ON, OVER],
        ),  # the clock stepped back
        (make(2 * SIZE, 1003, queue_offset=9), 900, StopFacts(physic_time=1003), None, [OVER]),  # a stale tail
    ],
    ids=range(8),
)
def test_a_judged_stop_says_how_the_walk_goes_on(
    tmp_path: Path, third: bytes, time: int, facts: StopFacts, end: int | None, after: list[AfterStop]
) -> None:
    data = make(0, 1001) + make(SIZE, 1002) + third + (make(3 * SIZE, time, queue_offset=5) if third else b"")
    walk = Noted(log_of(tmp_path, data), facts, end=end, strict=False)
    found = offsets(walk)
    assert walk.after == after
    assert (3 * SIZE in found) is (GO_ON in after), "what is after a stop that ends the walk is not read"
