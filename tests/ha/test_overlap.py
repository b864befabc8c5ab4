"""What the master sends again is compared; why it sends nothing is judged."""

import struct

import pytest

from flintmq.errors import DivergedError, OffsetGoneError, ReplicationError, UsageError
from flintmq.ha.overlap import Overlap, QueueGapCheck, judge_silence
from tests.compat.replication import GoldenMaster
from tests.support.small_logs import make


def overlap(master: GoldenMaster, begin: int, end: int) -> Overlap:
    return Overlap(begin, end, lambda offset, size: master.log[offset : offset + size])


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_equal_bytes_agree_and_what_follows_is_not_of_the_overlap(master: GoldenMaster, piece: int):
    begin, size = master.records[50]
    one, at, left = overlap(master, begin, begin + size), begin, 0
    while not one.agreed:
        data = memoryview(master.log)[at : at + piece]
        same = one.compare(at, data)
        at, left = at + same, len(data) - same
    assert at == begin + size and left == (-size) % piece


def test_each_flipped_bit_of_the_last_record_is_seen(master: GoldenMaster):
    begin, size = master.records[50]
    for at in range(size):
        theirs = bytearray(master.log[begin : begin + size])
        theirs[at] ^= 1 << at % 8
        with pytest.raises(DivergedError, match=f"at offset {begin + at}, compared from {begin} on ") as error:
            overlap(master, begin, begin + size).compare(begin, memoryview(theirs))
        assert error.value.reason == "diverged"


def test_the_first_record_is_asked_for_without_its_first_byte(master: GoldenMaster):
    size = master.records[0][1]
    assert overlap(master, 1, size).compare(1, memoryview(master.log)[1:5000]) == size - 1
    theirs = bytearray(master.log[1:size])
    theirs[size - 2] ^= 1
    (time,) = struct.unpack_from(">q", master.log, 56)
    with pytest.raises(DivergedError, match=rf"compared from 0 on \(store time here {time}, there {time}\)"):
        overlap(master, 1, size).compare(1, memoryview(theirs))


def test_a_difference_is_named_also_if_the_record_before_it_was_deleted_meanwhile(master: GoldenMaster):
    begin, end = master.records[50][0], sum(master.records[51])

    def read(offset: int, size: int) -> bytes:
        if offset < master.records[51][0]:
            raise UsageError("retention deleted it")
        return master.log[offset : offset + size]

    one = overlap(master, begin, end)
    one.compare(begin, memoryview(master.log)[begin : master.records[51][0]])
    one._read = read
    with pytest.raises(DivergedError, match=r"store time here unknown, there \d+") as error:
        one.compare(one.at, memoryview(bytes(end - one.at)))
    assert error.value.reason == "diverged"


@pytest.mark.parametrize(
    ("last_file", "end", "kind", "reason"),
    [(0, 5, DivergedError, "behind"), (900, 1000, DivergedError, "behind"), (2000, 1000, OffsetGoneError, "gone")],
)
def test_reasons_of_silence(last_file: int, end: int, kind: type[ReplicationError], reason: str):
    with pytest.raises(kind) as error:
        judge_silence(last_file, end)
    assert error.value.reason == reason


def test_a_last_file_that_begins_at_our_end_is_no_reason():
    assert judge_silence(1000, 1000) is None


def gap(master: GoldenMaster, changes: dict[tuple[bytes, int], int]) -> tuple[QueueGapCheck, memoryview]:
    """The check at the begin of the second file, with some queues' next offsets changed; and the bytes there."""
    after = [row for row in master.rows if row["physical_offset"] >= master.file_size]
    expected: dict[tuple[bytes, int], int] = {}
    for row in after:
        expected.setdefault((row["topic"].encode(), row["queue_id"]), row["queue_offset"])
    return QueueGapCheck(expected | changes, master.file_size, master.file_size), memoryview(
        master.log[master.file_size :]
    )


def test_a_gap_with_the_next_queue_offsets_is_none(master: GoldenMaster):
    check, data = gap(master, {})
    first = next(row for row in master.rows if row["physical_offset"] >= master.file_size)
    assert check.check(data) and check.check(data[: first["size"]])
    assert not check.check(data[: first["size"] - 1]) and not check.check(data[:3])


def test_a_gap_with_another_queue_offset_is_another_past(master: GoldenMaster):
    first = next(row for row in master.rows if row["physical_offset"] >= master.file_size)
    check, data = gap(master, {(first["topic"].encode(), first["queue_id"]): first["queue_offset"] + 1})
    with pytest.raises(DivergedError, match=f"queue offset {first['queue_offset']} where"):
        check.check(data)


def test_after_a_gap_no_record_is_damage(master: GoldenMaster):
    check, _ = gap(master, {})
    with pytest.raises(ReplicationError) as error:
        check.check(memoryview(bytes(200)))
    assert error.value.reason == "damaged"


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("number", [0, 1])
def test_after_a_gap_each_queue_goes_on_with_its_next_offset(master: GoldenMaster, number: int, change: int):
    """In the first queue that comes and in a later one; one message too early, or after a hole of one."""
    after = [row for row in master.rows if row["physical_offset"] >= master.file_size]
    firsts: dict[tuple[bytes, int], int] = {}
    for row in after:
        firsts.setdefault((row["topic"].encode(), row["queue_id"]), row["queue_offset"])
    queue, offset = list(firsts.items())[number]
    check, data = gap(master, {queue: offset + change})
    with pytest.raises(DivergedError, match=f"queue offset {offset} where {offset + change} is next"):
        check.check(data)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("whole", [True, False], ids=["from 0", "from later"])
@pytest.mark.parametrize("older", [True, False], ids=["older", "younger"])
@pytest.mark.parametrize("offset", [0, 500, 672])
def test_which_first_records_after_a_gap_are_another_past(known: bool, whole: bool, older: bool, offset: int):
    """672 is next where the queue is known. A time alone proves nothing."""
    record = memoryview(make(4096, 5000, queue_offset=offset))
    check = QueueGapCheck({(b"T", 0): 672} if known else {}, 4096, 4096, whole=whole, last_time=6000 if older else 4000)
    if known:
        refused = offset == 500 or (offset == 0 and older)
    else:
        refused = offset > 0 and (whole or older)
    if refused:
        with pytest.raises(DivergedError, match=f"queue offset {offset} where {672 if known else 0} is next"):
            check.check(record)
    else:
        assert check.check(record)
