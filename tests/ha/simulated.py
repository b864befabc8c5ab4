"""A master on a simulated line: no socket, no thread, no time that passes by itself.

It answers as Java does (golden-ha): the report 0 gives the last file, any other the log from there on, and where it has
nothing there come heartbeats, 5 s after the last byte. Waiting moves the clock.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintmq.ha.follower import Follower
from flintmq.storage.files.filesystem import Effects
from tests.compat.replication import GoldenMaster

HEADER = struct.Struct(">qi")
REPORT = struct.Struct(">q")
STEPS = 20_000


class SimulatedTime(Effects):
    """The real disk, and a clock that moves only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class SimulatedMaster:
    """A master's log, from `begin` on, on a simulated line; the master has it up to `end`."""

    def __init__(self, log: bytes, file_size: int, time: SimulatedTime, begin: int = 0) -> None:
        self.log, self.begin, self.end, self.file_size, self.time = log, begin, begin + len(log), file_size, time
        self.batch, self.piece = 32768, 1 << 20  # most bytes of a frame, and of one read
        self.beat: float | None = 5.0  # seconds from the last byte to a heartbeat; None: it says nothing
        self.cuts: list[int] = []  # bytes after which each session is cut, the first one first; none left: not cut
        # (number of the frame in its session, header and body) -> the bytes instead
        self.spoil: Callable[[int, bytes, bytes], bytes] | None = None
        self.delay: Callable[[int], float] = lambda session: 0.0  # seconds from its first report until its first byte
        self.up = True  # somebody listens
        self.reports: list[tuple[int, int, int]] = []  # after the first: session, offset, how far bytes were given out
        self.asked: list[int] = []  # the first report of each session
        self.sessions = 0

    def dial(self, address: tuple[str, int], seconds: float) -> SimulatedWire:
        if not self.up:
            raise ConnectionRefusedError(111, "Connection refused")
        self.sessions += 1
        return SimulatedWire(self, self.sessions - 1)

    def start(self, report: int) -> int:
        return self.end - self.end % self.file_size if report == 0 else report

    def honest(self) -> None:
        """No report named a byte that had not been given out."""
        assert [report for report in self.reports if report[1] > max(report[2], self.begin)] == []


class SimulatedWire:
    """One session."""

    def __init__(self, master: SimulatedMaster, number: int) -> None:
        self.master, self.number, self.next, self.given = master, number, -1, 0
        self.left = master.cuts.pop(0) if master.cuts else None
        self.out, self.frames, self.bytes_given, self.seconds, self.open = b"", 0, 0, 0.0, True
        self.wrote_at = master.time.now
        self.first: int | None = None
        self.ready_at = 0.0

    def settimeout(self, seconds: float) -> None:
        self.seconds = seconds

    def sendall(self, data: bytes) -> None:
        assert self.open and len(data) == REPORT.size
        (offset,) = REPORT.unpack(data)
        if self.first is None:
            self.first, self.next = offset, self.master.start(offset)
            self.given, self.ready_at = self.next, self.master.time.now + self.master.delay(self.number)
            self.master.asked.append(offset)
        else:
            self.master.reports.append((self.number, offset, self.given))

    def recv_into(self, buffer: memoryview) -> int:
        assert self.open
        master, time = self.master, self.master.time
        if self.left == 0:
            return 0
        if time.now < self.ready_at:
            time.now = min(time.now + self.seconds, self.ready_at)
            raise TimeoutError
        if not self.out:
            self._frame()
        if not self.out:
            wait = self.seconds if master.beat is None else min(self.seconds, self.wrote_at + master.beat - time.now)
            time.now += max(wait, 0.0)
            if master.beat is not None and time.now >= self.wrote_at + master.beat:
                self.out = HEADER.pack(self.next, 0)
                if master.spoil is not None:
                    self.out = master.spoil(-1, self.out, b"")
        if not self.out:
            raise TimeoutError
        count = min(len(buffer), len(self.out), master.piece)
        if self.left is not None:
            count = min(count, self.left)
            self.left -= count
        buffer[:count] = self.out[:count]
        self.out = self.out[count:]
        self.wrote_at = time.now
        return count

    def _frame(self) -> None:
        master = self.master
        if not master.begin <= self.next < master.end:
            return
        size = min(master.batch, master.end - self.next, master.file_size - self.next % master.file_size)
        at = self.next - master.begin
        head, body = HEADER.pack(self.next, size), master.log[at : at + size]
        self.out = head + body if master.spoil is None else master.spoil(self.frames, head, body)
        self.frames, self.next = self.frames + 1, self.next + size
        self.given = self.next

    def close(self) -> None:
        self.open = False


class Driven:
    """A follower whose steps a test takes."""

    def __init__(self, path: Path, master: SimulatedMaster, sizes: dict[str, Any], **more: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.time = master.time
        self.follower = Follower(
            path, "sim:1", config=sizes, effects=master.time, dial=master.dial, on_event=self.events.append, **more
        )
        self.follower.open()

    def step(self) -> None:
        follower, steps = self.follower, self.follower.steps
        if not steps.connected and not (steps.resync_once() and follower.connect_once()):
            self.time.now += steps.wait_s()
            return
        follower.receive_once()
        follower.report_once()

    def until(self, reached: Callable[[], bool]) -> None:
        for _ in range(STEPS):
            if reached():
                return
            self.step()
        raise AssertionError(f"not reached; the last events: {self.events[-5:]}")

    def catch_up(self, end: int) -> None:
        self.until(lambda: any(e["event"] == "caught_up" and e["end"] == end for e in self.events))

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]


@contextmanager
def driven(path: Path, master: SimulatedMaster, sizes: dict[str, Any], **more: Any) -> Iterator[Driven]:
    """Open a follower, and close it at the end."""
    one = Driven(path, master, sizes, **more)
    try:
        yield one
    finally:
        one.follower.close()


def caught_up(path: Path, master: GoldenMaster, sim: SimulatedMaster, **more: Any) -> None:
    """Follow all that there is, and stop."""
    with driven(path, sim, master.config, **more) as one:
        one.catch_up(sim.end)


def log_of(store: Path) -> tuple[int | None, bytes]:
    """Log offset of the first file of a store, and the bytes of all, without the zeros at their end."""
    files = sorted(path for path in (store / "commitlog").iterdir() if path.is_file())
    return (int(files[0].name), b"".join(path.read_bytes() for path in files).rstrip(b"\0")) if files else (None, b"")


def record_end(master: GoldenMaster, number: int) -> int:
    at, size = master.records[number]
    return at + size


def followed(path: Path, master: GoldenMaster, sim: SimulatedMaster, records: int) -> tuple[int | None, bytes]:
    """Follow so many records, and stop; return the log."""
    whole, sim.end = sim.end, record_end(master, records - 1)
    caught_up(path, master, sim, ack=True)
    sim.end = whole
    del sim.asked[:]
    return log_of(path)
