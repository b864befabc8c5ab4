"""The simulated master answers what Java answered, and a follower's line takes each of Java's answers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from flintmq.ha.follower_line import FollowerLine
from tests.compat.replication import FOLDER, GoldenMaster
from tests.ha.simulated import HEADER, REPORT, SimulatedMaster, SimulatedTime


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
