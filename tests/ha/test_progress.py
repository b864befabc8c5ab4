"""The notes of a follower for other processes: when they are written, and what they say."""

import errno
from pathlib import Path

import pytest

from flintmq.ha.follower import Follower
from flintmq.ha.follower_line import FollowerLine
from flintmq.ha.progress import ProgressNotes
from flintmq.store.layout import following
from flintmq.store.layout.following import FILE_NAME, Following
from tests.compat.replication import GoldenMaster
from tests.ha.simulated import HEADER, SimulatedMaster, SimulatedTime


class Clock(SimulatedTime):
    """A disk that counts its notes, and a wall clock that goes with the other one."""

    def __init__(self) -> None:
        super().__init__()
        self.notes, self.full = 0, False

    def now_ms(self) -> int:
        return 1_000_000 + int(self.now * 1000)

    def rename(self, old: str, new: str) -> None:
        self.notes += 1
        super().rename(old, new)

    def sync(self, fd: int) -> None:
        raise AssertionError("a note is never synced")

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().pwrite(fd, data, position)


def heard(line: FollowerLine, clock: Clock) -> FollowerLine:
    """The line after a heartbeat."""
    data = bytearray(HEADER.pack(line.due or 0, 0))
    line.take(memoryview(data), len(data), clock.now)
    return line


def test_a_note_comes_once_a_second_while_things_change_and_each_five_when_they_do_not(tmp_path: Path):
    clock = Clock()
    notes, line = ProgressNotes(str(tmp_path), clock), FollowerLine(0, 4096, clock.now)
    for _ in range(100):
        notes.take(heard(line, clock), caught_up=False)
        clock.now += 0.1
    assert 9 <= clock.notes <= 10
    clock.notes = 0
    for _ in range(300):
        notes.take(line, caught_up=False)
        clock.now += 0.1
    assert 5 <= clock.notes <= 8, "the last heartbeat, then each 5 s"


def test_a_note_says_what_the_line_says(tmp_path: Path):
    clock = Clock()
    notes, line = ProgressNotes(str(tmp_path), clock), FollowerLine(0, 4096, clock.now)

    def noted(one: FollowerLine | None, *, caught_up: bool, last: bool = False) -> Following:
        clock.now += 2
        notes.take(one, caught_up=caught_up, master_end=77, last=last)
        found = following.read(str(tmp_path), clock)
        assert found is not None and found.at_ms == clock.now_ms()
        return found

    assert noted(line, caught_up=False)[1:] == (False, False, 0, 0, 77)
    at = clock.now_ms()
    assert noted(heard(line, clock), caught_up=False)[1:] == (True, False, at, 0, 77)
    assert noted(line, caught_up=True)[1:] == (True, True, at, at, 77)
    assert noted(None, caught_up=False)[1:] == (False, False, at, at, 77)
    again = clock.now_ms()
    assert noted(heard(line, clock), caught_up=False)[1:] == (True, False, again, at, 77)
    assert noted(line, caught_up=True, last=True)[1:] == (False, False, again, again, 77)


def test_a_disk_that_refuses_a_note_is_said_once_and_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    clock = Clock()
    notes = ProgressNotes(str(tmp_path), clock)
    clock.full = True
    for _ in range(3):
        clock.now += 10
        notes.take(None, caught_up=False)
    assert len(caplog.records) == 1 and "No space left" in caplog.text
    clock.full, clock.now = False, clock.now + 10
    notes.take(None, caught_up=False)
    assert following.read(str(tmp_path), clock) is not None


def test_a_follower_leaves_a_note_that_it_is_not_connected(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    events: list[tuple[str, Following | None]] = []

    def take(event: dict[str, object]) -> None:
        events.append((str(event["event"]), following.read(str(tmp_path / "s"), sim.time)))

    Follower(
        tmp_path / "s", "sim:1", config=master.config, once=True, effects=sim.time, dial=sim.dial, on_event=take
    ).run()
    note = events[-1][1]
    assert events[-1][0] == "closed" and note is not None and not note.connected and note.complete_ms == note.heard_ms
    assert (tmp_path / "s" / FILE_NAME).exists()
