"""The two layouts on the line, against bytes that Java sent."""

import base64
import json

import pytest

from flintmq.errors import FormatError
from flintmq.ha.frames import FRAME_HEADER, REPORT, FrameHeader, OffsetReport
from tests.compat.replication import FOLDER, VERSIONS

CASES = [
    (FRAME_HEADER, FrameHeader(1, 32768), "0000000000000001 00008000"),
    (FRAME_HEADER, FrameHeader(196608, 0), "0000000000030000 00000000"),
    (FRAME_HEADER, FrameHeader(-5, 0), "fffffffffffffffb 00000000"),
    (REPORT, OffsetReport(0), "0000000000000000"),
    (REPORT, OffsetReport(188772), "000000000002e164"),
]


@pytest.mark.parametrize(("layout", "value", "text"), CASES)
def test_values_and_their_bytes(layout, value, text: str):  # type: ignore[no-untyped-def]
    assert layout.pack(value) == bytes.fromhex(text)
    assert layout.unpack(bytes.fromhex(text)) == value


def test_sizes():
    assert (FRAME_HEADER.size, REPORT.size) == (12, 8)


def test_too_few_bytes():
    with pytest.raises(FormatError):
        FRAME_HEADER.unpack(bytes(11))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_java_sent_is_made_of_these(version: str):
    """Reports of a whole session, and the frames that follow each other without a gap."""
    text = (FOLDER / f"slave-session{version}.jsonl").read_text(encoding="utf-8")
    ways: dict[str, bytes] = {">": b"", "<": b""}
    for line in text.splitlines():
        told = json.loads(line)
        if told["way"] in ways:
            ways[told["way"]] += base64.b64decode(told["bytes"])
    reports = [report.offset for report in REPORT.iter(ways[">"])]
    assert len(ways[">"]) % 8 == 0 and reports == sorted(reports) and reports[0] == 0 and len(set(reports)) > 3
    at, due, frames = 0, 0, 0
    while at < len(ways["<"]):
        header = FRAME_HEADER.unpack(ways["<"], at)
        assert header.offset == due
        at, due, frames = at + 12 + header.size, due + header.size, frames + 1
    assert at == len(ways["<"]) and due == reports[-1] and frames > 3
