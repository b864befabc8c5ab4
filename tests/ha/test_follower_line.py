"""The follower's side of a line: every event in every state, and what Java sent, cut at every byte."""

import base64
import hashlib
import json
import random
import struct
from typing import Any

import pytest

from flintmq.ha.follower_line import REPORT_S, SILENCE_S, FollowerLine, Received
from tests.compat.replication import FOLDER, VERSIONS, GoldenMaster
from tests.ha.simulated import HEADER, REPORT, SimulatedMaster, SimulatedTime

FILE = 1000


def take(line: FollowerLine, data: bytes, now: float = 0.0) -> tuple[Received, bytes]:
    """(what the line says, the bytes of the log) for one read."""
    buffer = bytearray(data) + b"rest of the buffer"
    got = line.take(memoryview(buffer), len(data), now)
    return got, bytes(buffer[: got.size])


def frame(offset: int, body: bytes = b"") -> bytes:
    return HEADER.pack(offset, len(body)) + body


# A state is the bytes that lead to it, on a line where offset 200 is due, or none.
UNKNOWN, NEXT, HEAD, BODY = (None, b""), (200, b""), (200, frame(200)[:5]), (200, frame(200, b"abcdef")[:-2])
RIGHT: list[tuple[tuple[int | None, bytes], bytes, tuple[int | None, bytes, int]]] = [
    (UNKNOWN, frame(3000), (3000, b"", 1)),
    (UNKNOWN, frame(0), (0, b"", 1)),
    (UNKNOWN, frame(3000, b"abc"), (3000, b"abc", 0)),
    (UNKNOWN, frame(3000)[:11], (None, b"", 0)),
    (NEXT, frame(200), (200, b"", 1)),
    (NEXT, frame(200) * 3, (200, b"", 3)),
    (NEXT, frame(200, b"abc"), (200, b"abc", 0)),
    (NEXT, frame(200, b"abc") + frame(203, b"de") + frame(205), (200, b"abcde", 1)),
    (NEXT, frame(200, bytes(800)), (200, bytes(800), 0)),
    (NEXT, frame(200, bytes(800)) + frame(1000, bytes(1000)), (200, bytes(1800), 0)),
    (NEXT, b"\0", (200, b"", 0)),
    (HEAD, frame(200)[5:], (200, b"", 1)),
    (HEAD, frame(200, b"ab")[5:], (200, b"ab", 0)),
    (BODY, b"e", (204, b"e", 0)),
    (BODY, b"ef" + frame(206), (204, b"ef", 1)),
]
WRONG: list[tuple[tuple[int | None, bytes], bytes, str, bytes]] = [
    (UNKNOWN, frame(3001), "geometry", b""),
    (UNKNOWN, frame(-1000), "geometry", b""),
    (UNKNOWN, HEADER.pack(3000, 1001), "protocol", b""),
    (NEXT, frame(201, b"abc"), "protocol", b""),
    (NEXT, frame(199), "protocol", b""),
    (NEXT, frame(-5), "protocol", b""),
    (NEXT, HEADER.pack(200, -1), "protocol", b""),
    (NEXT, HEADER.pack(200, -(1 << 31)), "protocol", b""),
    (NEXT, HEADER.pack(200, 801), "protocol", b""),
    (NEXT, HEADER.pack(200, 0x7FFFFFFF), "protocol", b""),
    (NEXT, b"HTTP/1.1 400 Bad Request\r\n", "protocol", b""),
    (NEXT, frame(200, b"abc") + frame(204, b"d"), "protocol", b"abc"),
    (HEAD, b"\1" + frame(200)[6:], "protocol", b""),
    (BODY, b"ef" + frame(205), "protocol", b"ef"),
]


def line_in(state: tuple[int | None, bytes]) -> FollowerLine:
    due, lead = state
    line = FollowerLine(due, FILE, 0.0)
    if lead:
        take(line, lead)
    return line


@pytest.mark.parametrize(("state", "data", "expected"), RIGHT)
def test_right_bytes(state: tuple[int | None, bytes], data: bytes, expected: tuple[int | None, bytes, int]):
    got, body = take(line_in(state), data)
    assert (got.offset, body, got.heartbeats, got.refusal) == (*expected, None)


@pytest.mark.parametrize(("state", "data", "reason", "before"), WRONG)
def test_wrong_bytes(state: tuple[int | None, bytes], data: bytes, reason: str, before: bytes):
    got, body = take(line_in(state), data)
    assert got.refusal is not None and got.refusal.reason == reason and body == before


@pytest.mark.parametrize(("state", "data", "expected"), RIGHT)
def test_right_bytes_one_by_one(state: tuple[int | None, bytes], data: bytes, expected: tuple[int | None, bytes, int]):
    line, body, heartbeats = line_in(state), b"", 0
    for n in range(len(data)):
        got, part = take(line, data[n : n + 1])
        body, heartbeats = body + part, heartbeats + got.heartbeats
        assert got.refusal is None
    assert (body, heartbeats) == expected[1:]


def test_between_frames():
    assert [line_in(state).between_frames for state in (UNKNOWN, NEXT, HEAD, BODY)] == [True, True, False, False]


def test_counters():
    line = FollowerLine(200, FILE, 0.0)
    take(line, frame(200, b"abc") + frame(203) * 2 + frame(203, b"defg"))
    assert (line.frames, line.heartbeats, line.bytes, line.due) == (2, 2, 7, 207)


@pytest.mark.parametrize(("offset", "now", "due"), [(5, 0.1, False), (6, 0.1, True), (5, REPORT_S, True)])
def test_a_report_is_due_when_there_is_more_or_time_is_up(offset: int, now: float, due: bool):
    line = FollowerLine(5, FILE, 0.0)
    assert line.report(5, 0.0) == REPORT.pack(5)
    assert line.report_due(offset, now) is due


@pytest.mark.parametrize(
    ("offset", "now", "due"), [(6, 0.04, False), (6, 0.06, True), (5, 0.06, False), (5, 5.0, True)]
)
def test_reports_are_fewer_while_there_is_more_to_read(offset: int, now: float, due: bool):
    line = FollowerLine(5, FILE, 0.0)
    line.report(5, 0.0)
    assert line.report_due(offset, now, more=True) is due


def test_a_line_is_silent_after_twenty_seconds_without_a_header_or_a_byte_of_a_body():
    line = FollowerLine(200, FILE, 0.0)
    assert not line.silent(SILENCE_S) and line.silent(SILENCE_S + 0.1)
    head = struct.pack(">qi", 200, 2)
    for at in range(11):  # a header that drips is not heard before its end
        take(line, head[at : at + 1], 1.7 * at)
    assert line.silent(SILENCE_S + 0.1)
    take(line, head[11:], 19.0)
    assert not line.silent(SILENCE_S + 18.9) and line.silent(SILENCE_S + 19.1)
    take(line, b"\0", 38.0)
    assert not line.silent(SILENCE_S + 37.9) and line.silent(SILENCE_S + 38.1)


def java_session(version: str) -> tuple[bytes, int]:
    """(the bytes that a master sent in a session, its file size)."""
    text = (FOLDER / f"slave-session{version}.jsonl").read_text(encoding="utf-8")
    told = [json.loads(line) for line in text.splitlines()]
    return b"".join(base64.b64decode(one["bytes"]) for one in told if one["way"] == "<"), 1 << 20


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_cut_at_each_byte_gives_a_prefix_and_goes_on(version: str):
    sent, size = java_session(version)
    whole = take(FollowerLine(None, size, 0.0), sent)[1]
    assert len(whole) > 10_000
    for cut in range(1, len(sent)):
        line = FollowerLine(None, size, 0.0)
        got, first = take(line, sent[:cut])
        assert got.refusal is None and whole.startswith(first)
        if cut % 97 == 0 or cut < 300:
            got, rest = take(line, sent[cut:])
            assert got.refusal is None and first + rest == whole and line.between_frames


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_in_any_pieces_is_the_same(version: str):
    sent, size = java_session(version)
    whole, chance = take(FollowerLine(None, size, 0.0), sent)[1], random.Random(version)
    for most in (1, 13, 1000, 9000):
        line, found, at = FollowerLine(None, size, 0.0), b"", 0
        while at < len(sent):
            count = chance.randrange(1, most + 1)
            got, part = take(line, sent[at : at + count])
            assert got.refusal is None
            found, at = found + part, at + count
        assert found == whole


def test_random_bytes_raise_nothing():
    chance = random.Random(7)
    for _ in range(3000):
        line = FollowerLine(chance.choice((None, 0, 200, 999)), FILE, 0.0)
        for _ in range(3):
            data = chance.randbytes(chance.randrange(1, 60))
            if chance.random() < 0.5:
                data = HEADER.pack(line.due or 0, chance.randrange(-3, 30)) + data
            got, body = take(line, data)
            if got.refusal is not None:
                assert got.refusal.reason in ("protocol", "geometry")
                break


# -- The simulated master answers what Java answered, and a follower's line takes each of Java's answers ---------------


def sessions(master: GoldenMaster) -> list[dict[str, Any]]:
    told = json.loads((FOLDER / f"master-sessions{master.version}.json").read_text(encoding="utf-8"))
    assert told["max"] == len(master.log)
    return list(told["sessions"])


def test_the_model_answers_as_java_did(master: GoldenMaster):
    compared = 0
    for session in sessions(master):
        (first, *more), frames = session["reports"], session["frames"]
        if more or first == -1 or not frames:
            continue
        sim = SimulatedMaster(master.log, master.file_size, SimulatedTime())
        wire = sim.dial(("sim", 1), 1)
        wire.settimeout(10)
        wire.sendall(REPORT.pack(first))
        buffer, said = memoryview(bytearray(1 << 20)), []
        for _ in frames:
            count = wire.recv_into(buffer)
            offset, size = HEADER.unpack_from(buffer)
            said.append((offset, size, hashlib.sha1(buffer[12:count]).hexdigest() if size else None))
        assert said == [(one["offset"], one["size"], one.get("sha1") if one["size"] else None) for one in frames]
        compared += 1
    assert compared >= 9


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_a_line_takes_what_java_sent(master: GoldenMaster, piece: int):
    for session in sessions(master):
        frames = session["frames"]
        if not frames or frames[0]["offset"] < 0:
            continue
        sent = b""
        for one in frames:
            body = master.log[one["offset"] : one["offset"] + one["size"]]
            assert not one["size"] or hashlib.sha1(body).hexdigest() == one["sha1"]
            sent += HEADER.pack(one["offset"], one["size"]) + body
        first = session["reports"][-1]
        begin = frames[0]["offset"]
        line, found = FollowerLine(first or None, master.file_size, 0.0), b""
        for at in range(0, len(sent), piece):
            buffer = memoryview(bytearray(sent[at : at + piece]))
            got = line.take(buffer, len(buffer), 0.0)
            assert got.refusal is None
            found += bytes(buffer[: got.size])
        assert found == master.log[begin : begin + len(found)] and line.between_frames
        assert len(found) == sum(one["size"] for one in frames)
        if piece == 1:
            break
