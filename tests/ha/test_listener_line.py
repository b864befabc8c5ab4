"""A listener's line takes what threads that put have exchanged: whole frames, halves, errors."""

import errno
import socket
from collections.abc import Iterator

import pytest

from flintmq.ha.listener_line import ListenerLine
from flintmq.ha.master_line import LineRules, LineState, MasterLine
from flintmq.kernels.threads.replica_lane import LaneFacts
from flintmq.store.listening import LogPart

RULES = LineRules(1 << 16, 1 << 15, 5.0, 20.0)
HEAD = bytes.fromhex("0000000000000064 00000028")  # 40 bytes from 100 on


@pytest.fixture
def one() -> Iterator[ListenerLine]:
    """A line that has acknowledged the log up to 100."""
    line = MasterLine(RULES, 1.0)
    line.received((100).to_bytes(8), 0, 100, 2.0)
    with socket.socket() as sock:
        made = ListenerLine(sock, ("127.0.0.1", 1), line, 1.0)
        made.part = LogPart(0, 0, 1 << 16, lambda: None)
        yield made


def facts(begun: int, next_: int, sent: int, report: int, head: int = 0, **more: object) -> LaneFacts:
    known: dict[str, object] = {"wrote": 3.0, "received": 4.0, "error": 0, "raw": b""}
    return LaneFacts(begun, next_, sent, report, head, **(known | more))  # type: ignore[arg-type]


def test_whole_frames(one: ListenerLine):
    assert one.rests(100)
    one.absorb(facts(120, 140, 140, 140))
    assert (one.head, one.left, one.line.next, one.line.sent, one.line.acknowledged) == (b"", 0, 140, 140, 140)
    assert one.rests(140) and not one.rests(100) and not one.rests(150)
    assert one.line.due() == 3.0 + 5 and one.line.silent_at == 4.0 + 20


def test_nothing_was_exchanged(one: ListenerLine):
    one.absorb(facts(100, 100, 100, 100, wrote=0.0, received=0.0))
    assert one.rests(100) and (one.head, one.left) == (b"", 0)
    assert one.line.due() == 1.0 + 5 and one.line.silent_at == 2.0 + 20


@pytest.mark.parametrize(("head", "sent"), [(12, 100), (11, 100), (1, 100), (0, 100), (0, 139)])
def test_a_frame_that_went_out_in_part(one: ListenerLine, head: int, sent: int):
    one.absorb(facts(100, 140, sent, 100, head, received=0.0))
    assert one.head == HEAD[12 - head :] and one.left == 140 - sent
    assert (one.line.next, one.line.sent, one.line.acknowledged) == (140, sent, 100)
    assert not one.rests(140) and not one.rests(100)


def test_sent_and_not_acknowledged(one: ListenerLine):
    one.absorb(facts(100, 140, 140, 120))
    assert not one.rests(140) and (one.line.report, one.line.acknowledged) == (120, 120)
    assert one.line.received((140).to_bytes(8), 0, 140, 5.0) and one.rests(140)


def test_an_error_comes_after_what_was_acknowledged(one: ListenerLine):
    with pytest.raises(ConnectionResetError):
        one.absorb(facts(100, 140, 140, 130, error=errno.ECONNRESET))
    assert one.line.acknowledged == 130


def test_a_line_does_not_rest(one: ListenerLine):
    for name, busy in (("head", b"x"), ("left", 1), ("is_full", True), ("has_more", True), ("part", None)):
        before = getattr(one, name)
        setattr(one, name, busy)
        assert not one.rests(100), name
        setattr(one, name, before)
    one.part = LogPart(0, 0, 100, lambda: None)
    assert not one.rests(100), "the next bytes are in another file"
    one.part = LogPart(0, 0, 101, lambda: None)
    assert one.rests(100)
    one.line.received(b"abc", 0, 100, 5.0)
    assert not one.rests(100), "a part of a report came"
    one.line.received((100).to_bytes(8)[3:], 0, 100, 5.0)
    assert not one.rests(100)


@pytest.mark.parametrize("state", [LineState.WAIT, LineState.REFUSED, LineState.CLOSED])
def test_no_line_rests_in_another_state(one: ListenerLine, state: LineState):
    one.line.state = state
    assert not one.rests(100)
