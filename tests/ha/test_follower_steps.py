"""A follower of one master, step by step, on a simulated line."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import flintmq
from flintmq.errors import (
    DamagedStreamError,
    DivergedError,
    OffsetGoneError,
    ReplicationError,
    StoreAccessError,
    UsageError,
)
from flintmq.ha.follower_line import REPORT_S, SILENCE_S
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout import followed as layout
from tests.compat.replication import GoldenMaster, queue_units
from tests.ha.simulated import HEADER, Driven, SimulatedMaster, caught_up, driven, followed, log_of, record_end

Spoil = Callable[[int, bytes, bytes], bytes]


@pytest.mark.parametrize("batch", [97, 32768, 1 << 20])
def test_the_log_and_the_queues_arrive_byte_for_byte(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, batch: int
):
    sim.batch = batch
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        one.catch_up(sim.end)
        assert one.follower.end == one.follower.whole == sim.end and one.follower.lag_ms == 0
        assert one.names() == ["opened", "connected", "resumed", "caught_up"]
        assert one.events[0] == {"event": "opened", "begin": None, "end": None}
    assert log_of(tmp_path / "s") == (0, master.log.rstrip(b"\0"))
    assert queue_units(tmp_path / "s") == master.queue_units()
    assert sim.asked == [1] and sim.reports[-1][1] == sim.end
    sim.honest()


def test_a_line_that_is_cut_at_every_place_of_the_first_records(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    """Each session goes some bytes further, or breaks within a header, a record or a blank."""
    sim.cuts = [*range(1, 1200, 7), *range(60_000, 66_000, 501)]
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        one.catch_up(sim.end)
        assert sim.sessions > 172
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")
    sim.honest()


def test_random_cuts_frames_and_pieces_with_stops_between(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    chance = random.Random(master.version)
    for number in range(12):
        sim.batch, sim.piece = chance.choice((97, 5000, 32768)), chance.choice((11, 700, 1 << 20))
        sim.end = record_end(master, (len(master.records) - 1) * (number + 1) // 12)
        sim.cuts = [chance.randrange(1, 40_000) for _ in range(3)]
        caught_up(tmp_path / "s", master, sim, ack=True)
        assert master.log.startswith(log_of(tmp_path / "s")[1])
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")
    assert queue_units(tmp_path / "s") == master.queue_units()
    sim.honest()


def test_what_is_not_whole_is_neither_acknowledged_nor_shown(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    sim.end = record_end(master, 5) + 60
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        one.until(lambda: one.follower.end == sim.end)
        one.until(lambda: sim.time.now > 1030)
        assert one.follower.whole == record_end(master, 5) and "caught_up" not in one.names()
        assert max(report for _, report, _ in sim.reports) == record_end(master, 5)
        with one.follower.view() as view:
            assert len(list(view.messages())) == 6
    assert log_of(tmp_path / "s")[1] == master.log[: record_end(master, 5)].rstrip(b"\0")


def test_what_the_master_writes_later_comes_and_is_caught_up_again(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    sim.end = record_end(master, 3)
    with driven(tmp_path / "s", sim, master.config) as one:
        one.catch_up(sim.end)
        sim.end = record_end(master, 9)
        one.step()
        assert not one.follower.caught_up
        one.catch_up(sim.end)
        assert one.names().count("caught_up") == 2 and one.follower.caught_up


@pytest.mark.parametrize("piece", [5, 12, 12 + 60])
def test_the_first_bytes_of_more_end_being_caught_up(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, piece: int
):
    """Bytes of a header, a header without its body, a header and some of a record."""
    sim.end = record_end(master, 3)
    with driven(tmp_path / "s", sim, master.config) as one:
        one.catch_up(sim.end)
        sim.end, sim.piece = record_end(master, 9), piece
        one.follower.receive_once()
        assert one.follower.whole == record_end(master, 3) and not one.follower.caught_up
        assert one.follower.lag_ms > 0 and not one.follower.wait_caught_up(0)


def test_a_flood_of_heartbeats_is_not_answered(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    sim.spoil = lambda number, head, body: (HEADER.pack(HEADER.unpack(head)[0], 0) * 20_000) + head + body
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        one.catch_up(sim.end)
        assert one.follower.stats().heartbeats >= 20_000 * 12
    assert len(sim.reports) <= 13 and log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")


def test_a_report_comes_every_five_seconds_while_nothing_happens(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        one.catch_up(sim.end)
        del sim.reports[:]
        until = sim.time.now + 60
        one.until(lambda: sim.time.now > until)
    assert 11 <= len(sim.reports) <= 13 and {offset for _, offset, _ in sim.reports} == {sim.end}
    assert sim.sessions == 1


def test_a_tap_repeats_its_first_report_and_never_names_more(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    sim.end = record_end(master, 10)
    caught_up(tmp_path / "s", master, sim)
    sim.end, last = record_end(master, 40), master.records[10][0]
    with driven(tmp_path / "s", sim, master.config) as one:
        one.catch_up(sim.end)
        until = sim.time.now + 3 * REPORT_S
        one.until(lambda: sim.time.now > until)
    assert sim.asked == [1, last]
    assert {offset for session, offset, _ in sim.reports if session == 1} == {last} and len(sim.reports) >= 3


def test_sync_acknowledges_only_what_is_on_disk(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    with driven(tmp_path / "s", sim, master.config, ack=True, flush="SYNC") as one:
        raw = one.follower.steps.opened().raw
        for _ in range(30):
            one.step()
            assert max((offset for _, offset, _ in sim.reports), default=0) <= raw.durable
    assert sim.reports[-1][1] == sim.end


def other_offset(number: int, head: bytes, body: bytes) -> bytes:
    return HEADER.pack(HEADER.unpack(head)[0] + 1, len(body)) + body if number == 1 else head + body


def size(value: int) -> Spoil:
    return lambda number, head, body: (HEADER.pack(HEADER.unpack(head)[0], value) if number == 1 else head) + body


@pytest.mark.parametrize("spoil", [other_offset, size(-5), size(-(1 << 31)), size(0x7FFFFFFF), size(65_537)])
def test_a_frame_that_cannot_be_is_refused_and_what_came_before_is_acknowledged(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, spoil: Spoil
):
    sim.spoil = spoil
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        with pytest.raises(ReplicationError) as error:
            one.catch_up(sim.end)
        assert error.value.reason == "protocol"
        whole = one.follower.whole
    first = 1 + 32768
    assert whole == max(at + size for at, size in master.records if at + size <= first)
    assert sim.reports[-1][1] == whole
    assert log_of(tmp_path / "s")[1] == master.log[:whole].rstrip(b"\0")


@pytest.mark.parametrize("what", ["a flipped bit in a body", "zeros"])
def test_a_record_that_does_not_count_is_refused_and_not_acknowledged(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, what: str
):
    at, length = next(record for record in master.records[150:] if record[1] > 200)
    hurt = bytearray(master.log)
    if what == "zeros":
        hurt[at : at + length] = bytes(length)
    else:
        hurt[at + 120] ^= 4
    sim.log = bytes(hurt)
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        with pytest.raises(DamagedStreamError, match=str(at)) as error:
            one.catch_up(sim.end)
        assert error.value.reason == "damaged" and one.follower.whole == at
    assert sim.reports[-1][1] == at
    assert log_of(tmp_path / "s")[1] == master.log[:at].rstrip(b"\0")


def test_the_high_byte_of_the_first_size_is_not_sent_and_must_be_zero(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    """A log that begins with a record of 16 MiB or more cannot be asked for; the record then does not count."""
    sim.log = b"\x01" + master.log[1:]
    with driven(tmp_path / "s", sim, master.config) as one:
        one.catch_up(sim.end)  # byte 0 is never on the line
    sim.log = master.log[:1] + b"\x01" + master.log[2:]
    with driven(tmp_path / "t", sim, master.config) as one, pytest.raises(DamagedStreamError):
        one.catch_up(sim.end)


def test_the_name_of_the_next_file_is_taken(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    (tmp_path / "s" / "commitlog" / f"{master.file_size:020d}").mkdir(parents=True)
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        with pytest.raises(StoreAccessError, match="cannot be made"):
            one.catch_up(sim.end)
    assert sim.reports[-1][1] == master.file_size


def test_a_silent_master_is_lost_three_times_and_then_refused(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    sim.end = record_end(master, 3)
    caught_up(tmp_path / "s", master, sim)
    sim.end, sim.beat = sim.begin, None
    began = sim.time.now
    with driven(tmp_path / "s", sim, master.config) as one:
        with pytest.raises(ReplicationError) as error:
            one.until(lambda: False)
        assert error.value.reason == "protocol" and sim.sessions == 4
    assert 3 * SILENCE_S < sim.time.now - began < 3 * SILENCE_S + 15


def test_a_silent_master_of_an_empty_follower(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    sim.end, sim.beat = 0, None
    with driven(tmp_path / "s", sim, master.config) as one:
        with pytest.raises(ReplicationError) as error:
            one.until(lambda: False)
    assert error.value.reason == "protocol" and sim.asked == [1, 0] * 3


def other_times(master: GoldenMaster, first: int) -> bytes:
    """The log with other store times from a record on."""
    changed = bytearray(master.log)
    for at, _ in master.records[first:]:
        place = at + 48 + (20 if struct.unpack_from(">i", changed, at + 36)[0] & 0x10 else 8)
        struct.pack_into(">q", changed, place, struct.unpack_from(">q", changed, place)[0] + 12_345)
    return bytes(changed)


@pytest.mark.parametrize("first", [100, 99, 30])
def test_a_master_with_another_past_is_refused(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, first: int):
    before = followed(tmp_path / "s", master, sim, 101)
    sim.log = other_times(master, first)
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        with pytest.raises(DivergedError) as error:
            one.catch_up(sim.end)
        assert "resumed" not in one.names()
    at = master.records[100][0]
    (ours,) = struct.unpack_from(">q", master.log, at + 56)
    assert error.value.reason == "diverged" and f"compared from {at} on" in str(error.value)
    assert f"store time here {ours}, there {ours + 12_345}" in str(error.value)
    assert log_of(tmp_path / "s") == before and {offset for _, offset, _ in sim.reports if offset > at} <= {
        record_end(master, 100)
    }


@pytest.mark.parametrize("is_torn", [False, True])
def test_after_a_power_cut_all_that_was_not_on_disk_is_compared(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, is_torn: bool
):
    """No checksum covers a record's born time: torn, it would differ from the master's for good."""
    followed(tmp_path / "s", master, sim, 101)
    certain, torn = master.records[40][0], master.records[60][0] + 40
    layout.note_unsure(str(tmp_path / "s"), certain, REAL)
    if is_torn:
        with open(tmp_path / "s" / "commitlog" / f"{torn // master.file_size * master.file_size:020}", "r+b") as file:
            file.seek(torn % master.file_size)
            file.write(b"\xff" * 8)
    with driven(tmp_path / "s", sim, master.config) as one:
        if is_torn:
            with pytest.raises(DivergedError, match=f"differs from ours at offset {torn}, compared from {certain} on"):
                one.catch_up(sim.end)
        else:
            one.catch_up(sim.end)
    assert sim.asked == [certain]
    known = layout.read(str(tmp_path / "s"), REAL)
    assert known is not None and known.unsure_from == (certain if is_torn else None)


def test_a_power_cut_that_the_master_cannot_mend_any_more_is_no_reason_to_refuse_it(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    count = next(n for n, (at, _) in enumerate(master.records) if at >= 2 * master.file_size) + 20
    followed(tmp_path / "s", master, sim, count)
    layout.note_unsure(str(tmp_path / "s"), master.records[40][0], REAL)
    begin = 2 * master.file_size
    sim.begin, sim.log = begin, master.log[begin:]
    caught_up(tmp_path / "s", master, sim)
    assert sim.asked[:2] == [master.records[40][0], master.records[count - 1][0]]
    known = layout.read(str(tmp_path / "s"), REAL)
    assert known is not None and known.unsure_from == master.records[40][0]


def test_a_wrong_file_size_is_named(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    keys = master.config | {"mappedFileSizeCommitLog": 4 * master.file_size}
    with (
        driven(tmp_path / "s", sim, keys) as one,
        pytest.raises(ReplicationError, match=f"ends at offset {master.file_size}, and none of") as error,
    ):
        one.catch_up(sim.end)
    assert error.value.reason == "geometry"


def test_a_master_that_lost_its_tail_is_refused_as_behind(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    before = followed(tmp_path / "s", master, sim, 200)
    sim.end = record_end(master, 120)
    began = sim.time.now
    with driven(tmp_path / "s", sim, master.config) as one:
        with pytest.raises(DivergedError) as error:
            one.until(lambda: False)
    assert error.value.reason == "behind" and sim.time.now - began < 10
    assert sim.asked == [master.records[199][0], 0] and log_of(tmp_path / "s") == before


def test_a_master_that_lost_everything_is_behind(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    followed(tmp_path / "s", master, sim, 200)
    sim.end = 0
    with driven(tmp_path / "s", sim, master.config) as one, pytest.raises(DivergedError) as error:
        one.until(lambda: False)
    assert error.value.reason == "behind"


def test_a_place_that_the_master_deleted_is_gone(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    before = followed(tmp_path / "s", master, sim, 20)
    sim.begin, sim.log = 2 * master.file_size, master.log[2 * master.file_size :]
    with driven(tmp_path / "s", sim, master.config) as one, pytest.raises(OffsetGoneError) as error:
        one.until(lambda: False)
    assert error.value.reason == "gone" and log_of(tmp_path / "s") == before


def at_a_border(master: GoldenMaster) -> tuple[int, int]:
    """(number of records, offset) where a file of the log ends."""
    number = next(n for n, (at, _) in enumerate(master.records) if at >= master.file_size)
    return number, master.file_size


def followed_to_a_border(path: Path, master: GoldenMaster, sim: SimulatedMaster) -> int:
    _, border = at_a_border(master)
    whole, sim.end = sim.end, border
    caught_up(path, master, sim)
    sim.end, sim.begin, sim.log = whole, border, master.log[border:]
    del sim.asked[:]
    return border


def test_a_master_that_begins_exactly_where_we_end_is_followed(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    border = followed_to_a_border(tmp_path / "s", master, sim)
    caught_up(tmp_path / "s", master, sim)
    assert sim.asked[-1] == border and log_of(tmp_path / "s") == (0, master.log.rstrip(b"\0"))
    assert queue_units(tmp_path / "s") == master.queue_units()


def test_after_a_gap_other_queue_offsets_are_another_past(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    border = followed_to_a_border(tmp_path / "s", master, sim)
    before, changed = log_of(tmp_path / "s"), bytearray(sim.log)
    number, _ = at_a_border(master)
    for at, _ in master.records[number:]:
        (offset,) = struct.unpack_from(">q", changed, at - border + 20)
        struct.pack_into(">q", changed, at - border + 20, offset + 1)
    sim.log = bytes(changed)
    with driven(tmp_path / "s", sim, master.config) as one, pytest.raises(DivergedError, match="queue offset"):
        one.catch_up(sim.end)
    assert log_of(tmp_path / "s") == before


def test_a_master_whose_only_file_begins_where_we_end_is_waited_for(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    border, whole = followed_to_a_border(tmp_path / "s", master, sim), sim.end
    sim.end = border
    with driven(tmp_path / "s", sim, master.config) as one:
        one.catch_up(border)
        sim.end = whole
        one.catch_up(whole)
    assert log_of(tmp_path / "s") == (0, master.log.rstrip(b"\0"))


def test_an_empty_master_is_waited_for(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    whole, sim.end = sim.end, 0
    with driven(tmp_path / "s", sim, master.config, ack=True) as one:
        one.catch_up(0)
        assert log_of(tmp_path / "s") == (None, b"")
        sim.end = whole
        one.catch_up(whole)
    assert log_of(tmp_path / "s") == (0, master.log.rstrip(b"\0"))
    sim.honest()


def test_waits_between_attempts_grow_to_five_seconds_and_begin_anew(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    sim.up = False
    with driven(tmp_path / "s", sim, master.config) as one:
        waits = []
        for _ in range(9):
            before = sim.time.now
            one.step()
            waits.append(sim.time.now - before)
        expected = (0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 5)
        assert all(0.7 * most <= wait <= most for wait, most in zip(waits, expected, strict=True))
        assert one.events[1:] == [{"event": "lost", "what": "line", "reason": "Connection refused"}]
        sim.up = True
        one.catch_up(sim.end)
        assert 0.14 <= one.follower.steps.wait_s() <= 0.2


def test_once_ends_when_all_is_here(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    with driven(tmp_path / "s", sim, master.config, once=True) as one:
        one.until(lambda: one.follower.steps.done)
        assert one.follower.whole == sim.end
    whole, sim.end = sim.end, 0
    with driven(tmp_path / "t", sim, master.config, once=True) as one:
        one.until(lambda: one.follower.steps.done)
    sim.end, sim.up = whole, False
    with (
        driven(tmp_path / "u", sim, master.config, once=True) as one,
        pytest.raises(UsageError, match="nobody answers"),
    ):
        one.until(lambda: False)


def test_another_store_is_followed_into_only_if_it_is_adopted(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    followed(tmp_path / "s", master, sim, 50)
    with flintmq.MessageStore(tmp_path / "s", config=master.config):
        pass
    with pytest.raises(UsageError, match="--adopt"):
        Driven(tmp_path / "s", sim, master.config)
    caught_up(tmp_path / "s", master, sim, adopt=True)
    with driven(tmp_path / "s", sim, master.config) as one:  # from now on it is a copy again
        one.catch_up(sim.end)
    (tmp_path / "s" / "flintmq.follow").unlink()
    with pytest.raises(UsageError, match="no follower has written"):
        Driven(tmp_path / "s", sim, master.config)
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")


def test_a_store_with_a_record_of_its_own_is_adopted_in_vain(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    followed(tmp_path / "s", master, sim, 50)
    with flintmq.MessageStore(tmp_path / "s", config=master.config) as store:
        store.put(flintmq.Message("T", b"ours"))
    with driven(tmp_path / "s", sim, master.config, adopt=True) as one, pytest.raises(DivergedError):
        one.until(lambda: False)
