"""Dropping what the master does not have, and going on with it."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import DivergedError, ReplicationError, UsageError
from flintmq.ha.follower import Follower
from flintmq.ha.follower_line import Received
from flintmq.ha.resync import PartingSearch, Tail
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout import followed
from tests.compat.replication import GoldenMaster, queue_units
from tests.ha.simulated import SimulatedMaster, SimulatedTime, caught_up, driven, log_of, record_end
from tests.ha.test_follower_steps import other_times
from tests.support.makers import patch


def other_past(path: Path, master: GoldenMaster, sim: SimulatedMaster, first: int, last: int) -> bytes:
    """Follow a master whose records differ from one on, up to another; then the master is the recorded one again."""
    sim.log, sim.end = other_times(master, first), record_end(master, last)
    caught_up(path, master, sim)
    sim.log, sim.end = master.log, len(master.log)
    return log_of(path)[1]


def numbers(master: GoldenMaster) -> list[tuple[int, int]]:
    """(first record that differs, last record that is here): in one file, over two, the first of a file, most."""
    border = next(n for n, (at, _) in enumerate(master.records) if at >= master.file_size)
    return [
        (100, 100),
        (100, 120),
        (border - 3, border + 200),
        (border, border + 5),
        (border + 1, border + 5),
        (1, 400),
    ]


@pytest.mark.parametrize("case", range(6))
def test_our_tail_goes_to_quarantine_and_the_masters_comes(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, case: int
):
    first, last = numbers(master)[case]
    before = other_past(tmp_path / "s", master, sim, first, last)
    with driven(tmp_path / "s", sim, master.config, resync=True) as one:  # it asks, and changes nothing
        with pytest.raises(
            UsageError, match=f"{last - first + 1} messages from log offset {master.records[first][0]} "
        ):
            one.catch_up(sim.end)
        assert one.events[-1]["event"] == "resync" and one.events[-1]["records"] == last - first + 1
    assert log_of(tmp_path / "s")[1] == before and not (tmp_path / "s" / "quarantine").exists()
    caught_up(tmp_path / "s", master, sim, resync=True, confirmed=True)
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")
    assert queue_units(tmp_path / "s") == master.queue_units()
    kept = {int(path.name[:20]): path.read_bytes() for path in (tmp_path / "s" / "quarantine").iterdir()}
    assert kept == {at: before[at : at + size] for at, size in master.records[first : last + 1]}
    caught_up(tmp_path / "s", master, sim)


def test_a_master_that_is_behind_is_followed_from_its_end(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    sim.end = record_end(master, 300)
    caught_up(tmp_path / "s", master, sim)
    sim.end = record_end(master, 180)
    with driven(tmp_path / "s", sim, master.config, resync=True, confirmed=True) as one:
        one.catch_up(sim.end)
        sim.end = len(master.log)
        one.catch_up(sim.end)
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")


def test_nothing_is_dropped_where_nothing_differs(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    sim.end = record_end(master, 300)
    caught_up(tmp_path / "s", master, sim)
    sim.end = len(master.log)
    with driven(tmp_path / "s", sim, master.config, resync=True) as one:
        one.catch_up(sim.end)
        assert "resync" not in one.names()
    with driven(tmp_path / "t", sim, master.config, resync=True) as one:  # a new directory
        one.catch_up(sim.end)


def test_logs_without_a_common_record_are_refused(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    before = other_past(tmp_path / "s", master, sim, 0, 200)
    with driven(tmp_path / "s", sim, master.config, resync=True, confirmed=True) as one:
        with pytest.raises(DivergedError, match="no record in common"):
            one.catch_up(sim.end)
    assert log_of(tmp_path / "s")[1] == before


def test_a_cut_that_was_interrupted_goes_on_at_the_next_start(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    """Killed after the cut was noted, and before anything else was done."""
    other_past(tmp_path / "s", master, sim, 100, 120)
    noted = followed.read(str(tmp_path / "s"), sim.time)
    assert noted is not None
    document = json.loads((tmp_path / "s" / followed.FILE_NAME).read_text())
    document["cutAt"] = master.records[100][0]
    (tmp_path / "s" / followed.FILE_NAME).write_text(json.dumps(document))
    with driven(tmp_path / "s", sim, master.config) as one:
        assert one.follower.whole == master.records[100][0]
        one.catch_up(sim.end)
    again = followed.read(str(tmp_path / "s"), sim.time)
    assert again is not None and again.cut_at is None
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")


def test_a_store_with_records_of_its_own_is_adopted_and_resynced(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    sim.end = record_end(master, 50)
    caught_up(tmp_path / "s", master, sim)
    sim.end = len(master.log)
    with flintmq.MessageStore(tmp_path / "s", config=master.config) as store:
        store.put(flintmq.Message("Ours", b"ours"))
    with driven(tmp_path / "s", sim, master.config, adopt=True, resync=True, confirmed=True) as one:
        one.catch_up(sim.end)
        event = next(event for event in one.events if event["event"] == "resync")
        assert (event["begin"], event["records"]) == (record_end(master, 50), 1)
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0")
    assert queue_units(tmp_path / "s") == master.queue_units()


def test_what_a_power_cut_took_is_found_although_the_logs_agree_after_it(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    path = tmp_path / "s"
    caught_up(path, master, sim)
    (torn, _), name = master.records[60], f"{0:020d}"
    followed.note_unsure(str(path), master.records[40][0], REAL)
    patch(path / "commitlog" / name, torn + 40, b"\xff" * 8)  # the born time
    with driven(path, sim, master.config, resync=True, confirmed=True) as one:
        one.catch_up(sim.end)
        assert [event["begin"] for event in one.events if event["event"] == "resync"] == [torn]
    log = b"".join(file.read_bytes() for file in sorted((path / "commitlog").iterdir()))
    assert log.rstrip(b"\0") == master.log.rstrip(b"\0")


def test_the_place_is_found_by_the_first_byte_that_differs(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    """Also where it is the last byte of a record, or the size of the first of a file."""
    whole = master.log
    for number, place in ((100, -1), (100, 0), (2, 3)):
        at, size = master.records[number]
        path = tmp_path / f"{number}{place}"
        sim.log, sim.end = whole, record_end(master, number + 20)  # in the same file
        caught_up(path, master, sim)
        changed = bytearray(whole)
        changed[at + (size + place if place < 0 else place)] ^= 1
        sim.log = bytes(changed)
        with driven(path, sim, master.config, resync=True) as one, pytest.raises(UsageError) as error:
            one.catch_up(sim.end)
        assert f"from log offset {at} to" in str(error.value)
        assert struct.unpack_from(">q", whole, at + 28)[0] == at


class Line:
    """What a master sends: reads that each take a second, the last one again and again."""

    def __init__(self, time: SimulatedTime, reads: list[tuple[bytes, ReplicationError | None]]) -> None:
        self.time, self.reads, self.buffer = time, reads, memoryview(bytearray(100))

    def receive(self, seconds: float) -> Received:
        self.time.now += 1
        data, refusal = self.reads.pop(0) if self.reads[1:] else self.reads[0]
        self.buffer[: len(data)] = data
        return Received(None, len(data), 0, refusal)

    def close(self) -> None:
        pass


class Raw:
    """A log of one file of five records of 10 bytes, asked for from byte 1 on."""

    begin, end, file_size = 0, 50, 100
    data = bytes(range(50))

    def read(self, at: int, size: int) -> bytes:
        return self.data[at : at + size]

    def records(self, begin: int, end: int) -> list[tuple[int, int]]:
        return [(at, 7000 + at) for at in range(0, 50, 10) if begin <= at < end]


def parting(*reads: tuple[bytes, ReplicationError | None]) -> Tail | None:
    time = SimulatedTime()
    line: Any = Line(time, list(reads))
    raw: Any = Raw()
    return PartingSearch(lambda report, due: line, raw, time, lambda: False).tail()


def test_a_line_that_is_slow_is_no_difference():
    """Bytes come every two seconds; only 1.5 s without any say that the master has no more."""
    silence, data = (b"", None), Raw.data
    assert parting((data[1:20], None), silence, (data[20:40], None), silence, (data[40:], None)) is None
    assert parting((data[1:35], None), silence) == Tail(30, 50, 2, 7030)


def test_a_line_that_is_refused_is_no_difference():
    refusal = ReplicationError("line", "no frame")
    with pytest.raises(ReplicationError, match="no frame"):
        parting((Raw.data[1:35], refusal), (b"", None))


def test_a_new_directory_is_made_once_the_master_answers(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    path, sim.up = tmp_path / "s", False
    asked: dict[str, Any] = {
        "config": master.config,
        "effects": sim.time,
        "dial": sim.dial,
        "once": True,
        "resync": True,
    }
    with pytest.raises(UsageError, match="nobody answers"):
        Follower(path, "sim:1", **asked).run()
    assert not path.exists()
    sim.up = True
    Follower(path, "sim:1", **asked).run()
    assert log_of(path)[1] == master.log.rstrip(b"\0")
