"""kernels/threads/replica_lane: what goes out, what comes back, and what is known of it after anything went wrong."""

import os
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintmq.kernels.threads.replica_lane import LaneFacts, ReplicaLane, native
from tests.support.threads import alarms, at_once, beside

SIZE = 1 << 17
START = 1 << 20  # log offset of the file
BATCH = 32 << 10
LONG_S = 10.0

if not native():

    def test_uncompiled_there_is_none():
        with pytest.raises(NotImplementedError):
            ReplicaLane(0)


needs_lane = pytest.mark.skipif(not native(), reason="kernels run uncompiled, or this system has no futex")


class Ends:
    """A lane with a line of this process, whose other end is `far`; `ear` is the other end of the bell."""

    def __init__(self, folder: Path, *, send_buffer: int = 0) -> None:
        self.data = random.Random(7).randbytes(SIZE)
        (folder / "log").write_bytes(self.data)
        self.fd = os.open(folder / "log", os.O_RDONLY)
        with socket.create_server(("127.0.0.1", 0)) as server:
            if send_buffer:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
            self.far = socket.socket()
            if send_buffer:
                self.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, send_buffer)
            self.far.settimeout(LONG_S)
            self.far.connect(server.getsockname())
            self.near, _ = server.accept()
        for end in (self.near, self.far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.near.setblocking(False)
        self.bell, self.ear = socket.socketpair()
        self.ear.setblocking(False)
        self.epoll = select.epoll()
        self.epoll.register(self.near, select.EPOLLIN)
        self.lane = ReplicaLane(self.bell.fileno())

    def lend(self, sent: int = START, *, batch: int = BATCH, size: int = SIZE) -> None:
        assert self.lane.take(1.0)
        self.lane.lend(self.near.fileno(), self.epoll.fileno(), self.fd, START, size, batch, sent)

    def facts(self) -> LaneFacts:
        """What the lane knows; no line is lent any more."""
        assert self.lane.take(1.0)
        found = self.lane.facts()
        self.lane.end()
        return found

    def received(self, size: int) -> bytes:
        """So many bytes at the other end."""
        found = b""
        while len(found) < size:
            got = self.far.recv(size - len(found))
            assert got, "the end"
            found += got
        return found

    def frame(self) -> tuple[int, int]:
        """The offset and size of the next frame, whose body is the log's."""
        offset, size = struct.unpack(">qi", self.received(12))
        assert self.received(size) == self.data[offset - START : offset - START + size]
        return offset, size

    def report(self, *offsets: int) -> None:
        self.far.sendall(struct.pack(f">{len(offsets)}q", *offsets))

    def rung(self) -> int:
        try:
            return len(self.ear.recv(100))
        except BlockingIOError:
            return 0

    def has_event(self) -> bool:
        return bool(self.epoll.poll(0.2))

    def close(self) -> None:
        self.epoll.close()
        os.close(self.fd)
        for end in (self.near, self.far, self.bell, self.ear):
            end.close()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    one = Ends(tmp_path)
    yield one
    one.close()


def answering(ends: Ends, *reports: bytes) -> Callable[[], None]:
    """Takes one frame, and answers with these bytes, one piece after the other."""

    def work() -> None:
        ends.frame()
        for piece in reports:
            ends.far.sendall(piece)
            time.sleep(0.02)

    return work


def be(*offsets: int) -> bytes:
    return struct.pack(f">{len(offsets)}q", *offsets)


@needs_lane
def test_a_whole_exchange(ends: Ends):
    lane, seen = ends.lane, []
    assert lane.acknowledged == -1 and not lane.exchange(START + 5, LONG_S), "no line is lent"
    ends.lend()
    assert lane.acknowledged == START

    def follow() -> None:
        seen.append(ends.received(12 + 5))
        ends.report(START + 5)

    before = time.monotonic()
    with beside(follow):
        assert lane.exchange(START + 5, LONG_S)
    assert seen == [bytes.fromhex("0000000000100000 00000005") + ends.data[:5]]
    assert (lane.acknowledged, lane.exchanges, ends.rung(), ends.epoll.poll(0)) == (START + 5, 1, 0, [])
    facts = ends.facts()
    assert facts[:5] == (START, START + 5, START + 5, START + 5, 0) and facts[7:] == (0, b"")
    assert before <= facts.wrote <= facts.received <= time.monotonic()
    assert lane.acknowledged == -1 and not lane.exchange(START + 6, LONG_S), "the line was taken back"


@needs_lane
def test_the_listener_hears_of_reports_only_outside_of_exchanges(ends: Ends):
    ends.lend()
    polled: list[object] = []

    def follow() -> None:
        ends.frame()
        ends.far.sendall(be(START + 5)[:7])
        polled.append(ends.epoll.poll(0.1))
        ends.far.sendall(be(START + 5)[7:])

    with beside(follow):
        assert ends.lane.exchange(START + 5, LONG_S)
    assert polled == [[]]
    ends.report(START + 5)
    assert ends.epoll.poll(LONG_S) == [(ends.near.fileno(), select.EPOLLIN)]


@needs_lane
def test_many_exchanges_after_another(ends: Ends):
    ends.lend()
    sizes = [1, 2, 1000, BATCH, 17, BATCH - 1, 3]
    frames: list[tuple[int, int]] = []

    def follow() -> None:
        for _ in sizes:
            frames.append(ends.frame())
            ends.report(sum(frames[-1]))

    end = START
    with beside(follow):
        for size in sizes:
            end += size
            assert ends.lane.exchange(end, LONG_S)
    assert [size for _, size in frames] == sizes and ends.lane.exchanges == len(sizes)


@needs_lane
@pytest.mark.parametrize(
    "pieces",
    [
        [be(START + 5)[:3], be(START + 5)[3:]],
        [bytes([one]) for one in be(START + 5)],
        [be(START, START, START + 4), be(START + 5)],
        [be(START + 2) + be(START + 5)[:1], be(START + 5)[1:]],
        [be(*[START] * 40) + be(START + 5)],
    ],
)
def test_reports_that_come_in_pieces(ends: Ends, pieces: list[bytes]):
    ends.lend()
    with beside(answering(ends, *pieces)):
        assert ends.lane.exchange(START + 5, LONG_S)
    assert ends.facts()[2:5] == (START + 5, START + 5, 0) and ends.lane.facts().raw == b""


@needs_lane
def test_what_was_acknowledged_is_not_sent_again(ends: Ends):
    ends.lend()
    with beside(answering(ends, be(START + 9))):
        assert ends.lane.exchange(START + 9, LONG_S)
    for end in (START + 9, START + 1, 0):
        assert ends.lane.exchange(end, 0)
    assert ends.lane.exchanges == 1 and not select.select([ends.far], [], [], 0.05)[0]


@needs_lane
def test_what_was_sent_is_waited_for_and_not_sent_again(ends: Ends):
    ends.lend()
    assert not ends.lane.exchange(START + 9, 0.02)
    assert ends.frame() == (START, 9)
    ends.report(START + 4)
    assert ends.lane.exchange(START + 4, LONG_S)
    ends.report(START + 9)
    assert ends.lane.exchange(START + 7, LONG_S) and ends.lane.acknowledged == START + 9
    assert not select.select([ends.far], [], [], 0.05)[0]


@needs_lane
@pytest.mark.parametrize(
    ("end", "fields"),
    [
        (START + 1001, {"batch": 1000}),
        (START + (64 << 10) + 1, {"batch": 1 << 20}),
        (START + 501, {"size": 500}),
        (START + SIZE + 1, {"batch": 1 << 20, "sent": START + SIZE - 10}),
        (START + SIZE, {"size": SIZE + 1, "sent": START + SIZE - 1, "batch": 0}),
        (START + SIZE + 1, {"size": SIZE + 1, "sent": START + SIZE - 1}),  # shorter than it was
    ],
)
def test_records_that_are_sent_in_another_way(ends: Ends, end: int, fields: dict[str, int]):
    ends.lend(**fields)
    sent = fields.get("sent", START)
    assert not ends.lane.exchange(end, LONG_S)
    assert ends.facts() == (sent, sent, sent, sent, 0, 0, 0, 0, b"")
    assert not select.select([ends.far], [], [], 0.05)[0]


@needs_lane
def test_the_last_bytes_of_a_file_and_the_largest_frame(ends: Ends):
    most = 64 << 10
    ends.lend(START + SIZE - most, batch=1 << 20)
    with beside(answering(ends, be(START + SIZE))):
        assert ends.lane.exchange(START + SIZE, LONG_S)


ODD = {
    "more than was sent": be(START + 6),
    "below zero": be(-1),
    "no number": b"\xff" * 8,
    "a good one, then more than was sent": be(START + 3, START + 6),
    "the end, and less": be(START + 5, START + 4),
    "an odd one and a part": be(1) + b"abc",
}


@needs_lane
@pytest.mark.parametrize("name", list(ODD))
def test_odd_reports_are_kept_for_the_listener(ends: Ends, name: str):
    ends.lend(START + 2)
    with beside(answering(ends, ODD[name])):
        assert not ends.lane.exchange(START + 5, LONG_S)
    kept = ODD[name]
    good = START + 2
    while kept and START + 2 <= (one := struct.unpack(">q", kept[:8])[0]) <= START + 5 and one >= good:
        good, kept = one, kept[8:]
    assert ends.lane.acknowledged == good
    assert good >= START + 5 or not ends.lane.exchange(START + 5, LONG_S), "nothing more is done on this line"
    assert not ends.lane.exchange(START + 6, LONG_S)
    assert ends.facts()[1:5] == (START + 5, START + 5, good, 0) and ends.lane.facts().raw == kept


@needs_lane
def test_a_part_of_a_report_is_kept(ends: Ends):
    ends.lend()
    with beside(answering(ends, be(START + 5)[:6])):
        assert not ends.lane.exchange(START + 5, 0.05)
    ends.far.sendall(be(START + 5)[6:])
    assert not ends.lane.exchange(START + 5, 0.05), "the listener must go on"
    assert ends.facts()[1:4] == (START + 5, START + 5, START) and ends.lane.facts().raw == be(START + 5)[:6]
    assert ends.near.recv(100) == be(START + 5)[6:]


@needs_lane
def test_the_time_is_up(ends: Ends):
    ends.lend()
    before = time.monotonic()
    assert not ends.lane.exchange(START + 5, 0.1)
    assert 0.1 <= time.monotonic() - before < 8
    assert ends.frame() == (START, 5) and ends.lane.acknowledged == START
    ends.report(START + 5)
    assert ends.has_event(), "the listener hears of the late report"
    assert ends.facts()[1:5] == (START + 5, START + 5, START, 0)


@needs_lane
@pytest.mark.parametrize("seconds", [0, -1, -(10**9)])
def test_no_time_at_all(ends: Ends, seconds: float):
    ends.lend()
    assert not ends.lane.exchange(START + 5, seconds)


@needs_lane
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("how", ["end", "reset"])
def test_the_follower_leaves(ends: Ends, when: str, how: str):
    ends.lend()

    def leave() -> None:
        if when == "meanwhile":
            ends.frame()
        if how == "reset":
            ends.far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends.far.close()

    before = time.monotonic()
    if when == "before":
        leave()
        time.sleep(0.05)
        assert not ends.lane.exchange(START + 5, LONG_S)
    else:
        with beside(leave):
            assert not ends.lane.exchange(START + 5, LONG_S)
    assert time.monotonic() - before < 5 and ends.has_event()
    facts = ends.facts()
    assert facts.report == START and facts.raw == b"" and facts.sent == facts.next
    assert (facts.error != 0) is (how == "reset")
    assert facts.sent == (START if (how, when) == ("reset", "before") else START + 5)


@needs_lane
def test_a_socket_that_is_full_half_way(tmp_path: Path):
    ends = Ends(tmp_path, send_buffer=4096)
    end = START + (60 << 10)
    ends.lend(batch=1 << 20)
    assert not ends.lane.exchange(end, 0.05)
    assert not ends.lane.exchange(end, 0.05), "no other frame may begin"
    facts = ends.facts()
    assert (facts.begun, facts.next, facts.report, facts.error) == (START, end, START, 0)
    assert START < facts.sent < end and facts.head_left == 0 and facts.wrote > 0
    size = facts.sent - START
    assert ends.received(12 + size) == struct.pack(">qi", START, 60 << 10) + ends.data[:size]
    assert not select.select([ends.far], [], [], 0.05)[0]
    ends.close()


@needs_lane
def test_a_socket_that_is_full_from_the_beginning(tmp_path: Path):
    ends = Ends(tmp_path, send_buffer=4096)
    size = 0
    with pytest.raises(BlockingIOError):
        while True:
            size += ends.near.send(bytes(4096))
    time.sleep(0.05)
    with pytest.raises(BlockingIOError):
        while True:
            size += ends.near.send(bytes(1))
    ends.lend()
    before = time.monotonic()
    assert not ends.lane.exchange(START + 5, LONG_S)
    assert time.monotonic() - before < 5
    assert ends.facts() == (START, START, START, START, 0, 0, 0, 0, b"")
    ends.received(size)
    assert not select.select([ends.far], [], [], 0.05)[0]
    ends.close()


@needs_lane
@pytest.mark.parametrize("raises", [False, True])
def test_a_signal_ends_the_wait_and_loses_nothing(ends: Ends, raises: bool):
    seen: list[int] = []

    def handle(*_: object) -> None:
        seen.append(1)
        if raises:
            raise TimeoutError("of a user")

    ends.lend()
    began = time.monotonic()
    with alarms(handle, 0.1):
        if raises:
            with pytest.raises(TimeoutError, match="of a user"):
                ends.lane.exchange(START + 5, LONG_S)
        else:
            assert not ends.lane.exchange(START + 5, LONG_S)
    assert seen == [1] and time.monotonic() - began < 5
    assert ends.frame() == (START, 5)
    ends.report(START + 5)
    assert ends.has_event()
    assert ends.facts()[:5] == (START, START + 5, START + 5, START, 0)


@needs_lane
def test_a_signal_while_another_thread_has_the_lane(ends: Ends):
    ends.lend()
    assert ends.lane.take(0)
    began = time.monotonic()
    with alarms(lambda *_: None, 0.1):
        assert not ends.lane.exchange(START + 5, LONG_S)
        assert time.monotonic() - began < 5


@needs_lane
def test_the_listener_takes_the_lane_as_soon_as_a_put_is_done(ends: Ends):
    ends.lend()
    answers: list[bool] = []
    with beside(lambda: answers.append(ends.lane.exchange(START + 5, LONG_S))):
        assert ends.frame() == (START, 5)
        assert not ends.lane.take(0.05) and not ends.lane.take(0) and ends.rung() == 0
        ends.report(START + 5)
        assert select.select([ends.ear], [], [], LONG_S)[0], "the bell rings"
        assert not ends.lane.exchange(START + 6, 0.02), "it is kept for the listener"
        assert ends.lane.take(0) and not ends.lane.take(0)
    assert answers == [True] and ends.rung() == 1
    ends.lane.end()
    ends.lend(START + 5)
    with beside(answering(ends, be(START + 6))):
        assert ends.lane.exchange(START + 6, LONG_S)
    assert ends.rung() == 0, "nobody wanted it"


@needs_lane
def test_a_put_waits_while_the_listener_has_the_lane(ends: Ends):
    ends.lend()
    assert ends.lane.take(0) and not ends.lane.take(0), "it is held"
    before = time.monotonic()
    assert not ends.lane.exchange(START + 5, 0.05)
    assert 0.05 <= time.monotonic() - before < 8
    answers: list[bool] = []
    with beside(answering(ends, be(START + 5))), beside(lambda: answers.append(ends.lane.exchange(START + 5, LONG_S))):
        time.sleep(0.05)
        assert answers == []
        ends.lane.lend(ends.near.fileno(), ends.epoll.fileno(), ends.fd, START, SIZE, BATCH, START)
    assert answers == [True]


@needs_lane
@pytest.mark.parametrize("seconds", [0, 0.001, 1])
def test_puts_do_not_keep_the_lane_from_the_listener(ends: Ends, seconds: float):
    """Four threads put without a pause; the listener takes the lane a hundred times, as it is given or waits for it."""
    ends.lend()
    over, gone, end, lock, done = threading.Event(), threading.Event(), START, threading.Lock(), 0
    unanswered: list[int] = []

    def follow() -> None:
        while not gone.is_set():
            if select.select([ends.far], [], [], 0.05)[0]:
                ends.report(sum(ends.frame()))

    def put() -> None:
        nonlocal end, done
        while not over.is_set():
            with lock:
                end += 1
                mine = end
            if not ends.lane.exchange(mine, 1.0):
                unanswered.append(mine)
            done += 1

    with beside(follow):
        with beside(*[put] * 4):
            for _ in range(100):
                limit = time.monotonic() + LONG_S
                while not ends.lane.take(seconds):
                    assert time.monotonic() < limit
                    if not seconds:
                        assert select.select([ends.ear], [], [], LONG_S)[0], "the bell rings"
                        ends.rung()
                facts, before = ends.lane.facts(), done
                assert facts.next == facts.sent == facts.report and not facts.raw
                time.sleep(0.001)
                assert ends.lane.facts() == facts and done <= before + 4, "nobody else has the line"
                ends.lane.lend(
                    ends.near.fileno(), ends.epoll.fileno(), ends.fd, START, SIZE, BATCH, facts.sent
                )  # fmt: skip
                while done < before + 8:
                    time.sleep(0.0005)
            over.set()
        gone.set()
    assert unanswered == []


@needs_lane
def test_no_put_begins_after_refusal_and_the_last_one_ends(ends: Ends):
    ends.lend()
    answers: list[bool] = []
    with beside(lambda: answers.append(ends.lane.exchange(START + 5, 0.2))):
        assert ends.frame() == (START, 5)
        ends.lane.refuse()
        before = time.monotonic()
        assert not ends.lane.exchange(START + 6, LONG_S)
        assert ends.lane.take(LONG_S) and time.monotonic() - before < 5
    assert answers == [False]


@needs_lane
def test_a_forked_child_forgets_it(ends: Ends):
    ends.lend()
    assert ends.lane.take(0)
    ends.lane.forget()
    assert not ends.lane.exchange(START + 5, LONG_S) and ends.lane.acknowledged == -1
    assert ends.lane.take(0), "nobody has it"


@needs_lane
def test_it_rests(ends: Ends):
    lane = ends.lane
    assert not lane.rests(START), "no line is lent"
    ends.lend()
    assert lane.rests(START) and not lane.rests(START + 1) and lane.rests(START - 1)
    answers: list[bool] = []
    with beside(lambda: answers.append(lane.exchange(START + 5, LONG_S))):
        ends.frame()
        assert lane.rests(START) and lane.rests(START + 9), "a put has the line"
        ends.report(START + 3)
        ends.report(START + 5)
    assert answers == [True] and lane.rests(START + 5) and not lane.rests(START + 6)
    assert not lane.exchange(START + 9, 0.01) and not lane.rests(START), "it was not acknowledged"


@needs_lane
def test_many_threads_share_frames(ends: Ends):
    """Each appends and asks; a record is in one frame, frames follow each other, no answer is early."""
    ends.lend(batch=2000)
    lock, over, early = threading.Lock(), threading.Event(), []
    end, known, frames = START, START, 0
    answers: list[bool] = []

    def follow() -> None:
        nonlocal known, frames
        chance = random.Random(3)
        while not over.is_set():
            if not select.select([ends.far], [], [], 0.05)[0]:
                continue
            offset, size = ends.frame()
            assert offset == known
            if chance.random() < 0.1:
                time.sleep(0.002)
            known, frames = offset + size, frames + 1
            ends.report(known)

    def put() -> None:
        nonlocal end
        chance = random.Random(threading.get_ident())
        for _ in range(150):
            with lock:
                end += chance.randrange(1, 100)
                mine = end
            done = ends.lane.exchange(mine, LONG_S)
            answers.append(done)
            if done and known < mine:
                early.append(mine)

    with beside(follow):
        at_once(*[put] * 6)
        over.set()
    assert answers == [True] * 900 and early == [] and known == end
    assert ends.lane.exchanges <= frames < 900, "records of several threads go together"
