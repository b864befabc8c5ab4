"""The master's side of a line: every state and event of its table, without a socket."""

import struct

import pytest

from flintmq.ha.frames import FrameHeader
from flintmq.ha.master_line import REFUSED_S, LineRules, LineState, MasterLine

SIZE, BATCH = 1000, 300
RULES = LineRules(SIZE, BATCH, heartbeat_s=5, silence_s=20)
WAIT, TRANSFER, REFUSED, CLOSED = LineState.WAIT, LineState.TRANSFER, LineState.REFUSED, LineState.CLOSED
BEGIN, END = 2000, 4700  # of the log in these tests


def report(*offsets: int) -> bytes:
    return struct.pack(f">{len(offsets)}q", *offsets)


def line_after(*offsets: int, rules: LineRules = RULES) -> MasterLine:
    """A line that got these reports, each by itself, at second 0."""
    line = MasterLine(rules, 0)
    for offset in offsets:
        line.received(report(offset), BEGIN, END, 0)
    return line


def frames(line: MasterLine, end: int = END, now: float = 0, most: int = 50) -> list[tuple[int, int]]:
    """Every frame that is due at this time; each is sent completely."""
    found: list[tuple[int, int]] = []
    while len(found) < most and (header := line.frame(end, now)) is not None:
        line.wrote(header.size, now)
        found.append(tuple(header))
    return found


@pytest.mark.parametrize(
    ("first", "state", "start"),
    [
        (0, TRANSFER, 4000),
        (BEGIN, TRANSFER, BEGIN),
        (BEGIN + 1, TRANSFER, BEGIN + 1),
        (END - 1, TRANSFER, END - 1),
        (END, TRANSFER, END),
        (END + 1, REFUSED, END + 1),
        (10**12, REFUSED, 10**12),
        (BEGIN - 1, REFUSED, BEGIN - 1),
        (1, REFUSED, 1),
        (-1, CLOSED, -1),
        (-5, CLOSED, -1),
        (-(2**63), CLOSED, -1),
    ],
)
def test_the_first_report(first: int, state: LineState, start: int):
    line = line_after(first)
    assert (line.state, line.next) == (state, start)
    assert line.acknowledged == (first if state is TRANSFER else -1)
    assert bool(line.reason) is (state is not TRANSFER)


@pytest.mark.parametrize(
    ("begin", "end", "whole_log", "start"),
    [
        (0, 0, False, 0),
        (0, 0, True, 0),
        (0, 2500, False, 2000),
        (0, 2500, True, 0),
        (1000, 3000, False, 3000),
        (1000, 2999, True, 1000),
    ],
)
def test_a_follower_without_a_log(begin: int, end: int, whole_log: bool, start: int):
    line = MasterLine(RULES._replace(whole_log=whole_log), 0)
    assert line.received(report(0), begin, end, 0)
    assert (line.state, line.next, line.acknowledged) == (TRANSFER, start, 0)


def test_an_empty_log_gets_its_first_record():
    line = MasterLine(RULES, 0)
    line.received(report(0), 0, 0, 0)
    assert frames(line, end=0, now=5) == [] and frames(line, end=0, now=5.1) == [(0, 0)]
    assert frames(line, end=120, now=6) == [(0, 120)]


def test_frames_end_at_the_batch_and_at_the_file():
    assert frames(line_after(BEGIN + 250)) == [
        (2250, 300), (2550, 300), (2850, 150),
        (3000, 300), (3300, 300), (3600, 300), (3900, 100),
        (4000, 300), (4300, 300), (4600, 100),
    ]  # fmt: skip
    assert frames(line_after(2999), end=3001) == [(2999, 1), (3000, 1)]


def test_nothing_is_sent_before_a_whole_report():
    line = MasterLine(RULES, 0)
    for byte in report(END - 1)[:7]:
        assert not line.received(bytes([byte]), BEGIN, END, 0)
        assert frames(line, now=10) == []
    assert line.received(report(END - 1)[7:], BEGIN, END, 0)
    assert frames(line) == [(END - 1, 1)]


@pytest.mark.parametrize(
    ("sent", "start"),
    [
        (report(-1, 3000), 3000),
        (report(1, 2, 4200), 4200),
        (report(4200) + b"\0\0\0", 4200),
    ],
)
def test_of_what_came_together_the_last_whole_report_counts(sent: bytes, start: int):
    line = MasterLine(RULES, 0)
    line.received(sent, BEGIN, END, 0)
    assert (line.state, line.next) == (TRANSFER, start)


def test_what_came_after_a_report_belongs_to_the_next():
    line = MasterLine(RULES, 0)
    line.received(report(4000) + report(4100)[:3], BEGIN, END, 0)
    frames(line)
    assert not line.received(report(4100)[3:7], BEGIN, END, 0)
    assert line.received(report(4100)[7:], BEGIN, END, 0) and line.acknowledged == 4100


@pytest.mark.parametrize(
    ("later", "state", "acknowledged"),
    [
        (4300, TRANSFER, 4300),
        (4000, TRANSFER, 4000),  # nothing new
        (END, TRANSFER, 4600),  # more than was sent: nobody has that
        (END + 1, CLOSED, 4000),
        (10**12, CLOSED, 4000),
        (3999, CLOSED, 4000),
        (0, CLOSED, 4000),
        (-1, CLOSED, 4000),
    ],
)
def test_later_reports(later: int, state: LineState, acknowledged: int):
    line = line_after(4000)
    assert frames(line, most=2) == [(4000, 300), (4300, 300)]
    changed = line.received(report(later), BEGIN, END, 1)
    assert (line.state, line.acknowledged, changed) == (state, acknowledged, acknowledged > 4000)


def test_a_report_while_a_frame_is_half_sent():
    line = line_after(4000)
    assert line.frame(END, 0) == FrameHeader(4000, 300)
    line.wrote(120, 0)
    line.received(report(4300), BEGIN, END, 0)
    assert (line.sent, line.acknowledged) == (4120, 4120)
    line.wrote(180, 0)
    line.received(report(4300), BEGIN, END, 0)
    assert line.acknowledged == 4300


def test_a_report_of_0_again_while_nothing_came():
    line = MasterLine(RULES, 0)
    line.received(report(0), 0, 0, 0)
    assert not line.received(report(0), 0, 0, 5) and line.state is TRANSFER


def test_reports_after_the_log_was_expired():
    """Retention moves the begin beyond what a follower has acknowledged; its line goes on."""
    line = line_after(BEGIN)
    frames(line)
    assert line.received(report(BEGIN + 10), 4000, END, 0) and line.state is TRANSFER


def test_heartbeats():
    line = line_after(END)
    assert frames(line, now=5) == []
    assert frames(line, now=5.1) == [(END, 0)], "one, and the next after 5 s more"
    assert frames(line, now=10.1) == [] and frames(line, now=10.2) == [(END, 0)]
    assert frames(line, end=END + 50, now=15.3) == [(END, 0), (END, 50)], "before more of the log"
    assert line.due() == 20 and line.silent_at == 20


def test_silence():
    waiting = MasterLine(RULES, 0)
    waiting.received(report(END)[:7], BEGIN, END, 19)  # no whole report
    waiting.tick(20)
    assert waiting.state is WAIT and waiting.due() == 20
    waiting.tick(20.1)
    assert (waiting.state, waiting.reason) == (CLOSED, "no report came for 20 s")
    line = line_after(END)
    line.received(b"\0", BEGIN, END, 19)  # any byte counts
    line.tick(39)
    assert line.state is TRANSFER
    line.tick(39.1)
    assert (line.state, line.reason) == (CLOSED, "no byte came for 20 s")


def test_a_refused_follower_gets_one_heartbeat_and_leaves():
    line = line_after(END + 1)
    assert frames(line, end=END + 500) == [(END + 1, 0)], "nothing of the log, though it has grown past there"
    assert line.due() == REFUSED_S
    assert not line.received(report(END), BEGIN, END, 1)
    assert frames(line, now=1) == []
    line.tick(REFUSED_S)
    assert line.state is REFUSED
    line.tick(REFUSED_S + 0.1)
    assert line.state is CLOSED and line.reason == f"its first report is {END + 1}, and the log has {BEGIN} to {END}"


def test_nothing_follows_the_end_of_a_line():
    line = line_after(-5)
    assert frames(line, now=10) == []
    assert not line.received(report(END), BEGIN, END, 10) and line.state is CLOSED


def test_a_log_that_was_cut_is_not_sent_on():
    line = line_after(4000)
    frames(line)
    assert frames(line, end=END - 1) == []
    assert line.state is CLOSED and str(END - 1) in line.reason


def test_the_most_in_a_second():
    line = MasterLine(RULES._replace(most_a_second=700), 0)
    line.received(report(BEGIN), BEGIN, END, 0)
    assert frames(line) == [(2000, 300), (2300, 300), (2600, 100)]
    assert line.due() == 1 and frames(line, now=0.99) == []
    assert sum(size for _, size in frames(line, now=1)) == 700
    assert sum(size for _, size in frames(line, now=7)) == 700, "what was not used is not saved"
