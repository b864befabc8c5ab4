"""Fuzz targets of what stands above the formats: lists, tables of config/, options, filters, lines of replication.

Others: `targets.py`.
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

from flintmq.errors import FlintError
from flintmq.format import text
from flintmq.ha.follower_line import FollowerLine
from flintmq.ha.master_line import LineRules, LineState, MasterLine
from flintmq.lake.read.offsets import EARLIEST, parse_assignment, parse_json_offsets
from flintmq.message import stored_message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFiles
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue import known_ends
from flintmq.store.layout.config_reader import read_config
from flintmq.store.layout.directories import CONFIG
from labs.fuzz.targets import TARGETS, target
from tests.robustness.hostile.records import LOG

__all__ = ["TARGETS"]
_FOLDER = Path(tempfile.mkdtemp(prefix="flintmq-fuzz-"))


@target
def queue_ends(data: bytes) -> None:
    """`flintmq.queues`: nothing, or ends that can be; what is written again reads the same."""
    (_FOLDER / known_ends.FILE_NAME).write_bytes(data)
    found = known_ends.read(str(_FOLDER), REAL)
    assert all(isinstance(topic, bytes) and 0 <= end <= LARGEST_OFFSET for (topic, _), end in found.items())
    known_ends.write(str(_FOLDER), found, REAL)
    again = known_ends.read(str(_FOLDER), REAL)
    assert again.items() <= found.items()
    assert known_ends.lost(again, again) == []


@target
def config_tables(data: bytes) -> None:
    """The tables of config/, with one of them as it is told by the first byte: problems are told, never raised."""
    folder = _FOLDER / CONFIG
    folder.mkdir(exist_ok=True)
    names = ("topics.json", "consumerOffset.json", "delayOffset.json", "subscriptionGroup.json")
    for n, name in enumerate(names):
        (folder / name).write_bytes(data[1:] if data and data[0] % len(names) == n else b"{}")
        (folder / f"{name}.bak").unlink(missing_ok=True)
    found = read_config(str(_FOLDER))
    for name, topic in found.topics.items():
        assert isinstance(name, str) and found.is_batch(name) in (True, False) and topic is not None
    assert all(len(str(problem)) < 2000 for problem in found.problems)


@target
def spark_offsets(data: bytes) -> None:
    """Offsets and assignments as JSON: refused, or whole numbers of 64 bits for queues that can be."""
    word = text.java_decode(data)
    try:
        assigned = parse_assignment("assign", word)
    except FlintError:
        pass
    else:
        assert all(ids and all(0 <= queue < 10**10 for queue in ids) for ids in assigned.values())
    for (topic, queue), offset in parse_json_offsets("startingOffsets", word).items():
        assert isinstance(topic, str) and 0 <= queue < 10**10 and EARLIEST <= offset < 1 << 63


@target
def filters(data: bytes) -> None:
    """Any names as topics, pattern and tags: the kernel wants what the clear form wants."""
    words = [text.java_decode(word) for word in data.split(b"\n")]
    topic, pattern, tag = (*words, "", "", "")[:3]
    for predicate in (
        Predicate(topics=frozenset({topic, "Basic"})),
        Predicate(
            topic_pattern=pattern[:20].replace("*", ".").replace("+", ".").replace("{", ".")
        ),  # none that never ends
        Predicate(tags=frozenset({tag, "t"}), queue_ids=frozenset({len(data) % 3})),
    ):
        selector, log = Selector(predicate), _log()
        for piece in LogWalk(log):
            every = [stored_message(piece.data, at) for at in piece.positions[: piece.count]]
            wanted = [m.physical_offset for m in every if predicate.wants(m)]
            count = selector.select(piece)
            assert [piece.base + at for at in piece.positions[:count]] == wanted


def _log() -> LogFiles:
    """A log with every kind of record."""
    folder = _FOLDER / "commitlog"
    if not folder.is_dir():
        folder.mkdir()
        (folder / f"{0:020}").write_bytes(LOG)
    return LogFiles.discover([str(folder)])


def _pieces(data: bytes) -> tuple[bytes, list[bytes]]:
    """(the first two bytes, the rest in pieces whose size the second byte says)."""
    head, rest = data[:2].ljust(2, b"\0"), data[2:]
    step = head[1] or len(rest) or 1
    return head, [rest[at : at + step] for at in range(0, len(rest), step)]


def _plainly(data: bytes, due: int | None, size: int) -> tuple[int | None, bytes, bool]:
    """(offset of the first byte of the log, bytes of the log, whether a header is refused), read without a state."""
    at, body, first = 0, b"", due
    while at + 12 <= len(data):
        offset, count = struct.unpack_from(">qi", data, at)
        if due is None and (offset < 0 or offset % size):
            return first, body, True
        due = offset if due is None else due
        first = due if first is None else first
        if offset != due or not 0 <= count <= size - due % size:
            return first, body, True
        body += data[at + 12 : at + 12 + count]
        due, at = due + count, at + 12 + count
    return first, body, False


@target
def frames_of_a_master(data: bytes) -> None:
    """What a follower reads: in any pieces the same bytes of the log at the same offset, and the same refusal."""
    head, pieces = _pieces(data)
    due, size = (None, 0, 5, 1000)[head[0] % 4], 1000
    line, body, first, refused = FollowerLine(due, size, 0.0), b"", due, False
    for piece in pieces:
        buffer = memoryview(bytearray(piece))
        got = line.take(buffer, len(piece), 1.0)
        first = got.offset if first is None else first
        assert not got.size or got.offset == (first or 0) + len(body)
        body += bytes(buffer[: got.size])
        if got.refusal is not None:
            refused = True
            assert got.refusal.reason in ("geometry", "protocol")
            break
    assert (first, body, refused) == _plainly(data[2:], due, size)
    assert line.due is None or line.due == (first or 0) + len(body)


@target
def reports_of_a_follower(data: bytes) -> None:
    """What a master reads: nothing is sent that was not asked for, and nothing counts that was not sent."""
    head, pieces = _pieces(data)
    begin, end, size = 2000, 4700, 1000
    line = MasterLine(LineRules(size, 300, 5.0, 20.0, whole_log=bool(head[0] & 1)), 0.0)
    at, sent, whole = None, b"", 0
    for number, piece in enumerate(pieces):
        before = line.acknowledged
        changed = line.received(piece, begin, end, number / 100)
        sent, whole = sent + piece, (len(sent) + len(piece)) // 8
        assert changed == (line.acknowledged > before) or line.state is LineState.CLOSED
        if whole == 0:
            assert line.state is LineState.WAIT
        frame = line.frame(end, number / 100)
        if frame is None or not frame.size:
            continue
        assert line.state is LineState.TRANSFER
        at = frame.offset if at is None else at
        assert begin <= frame.offset == at and frame.size <= 300 and frame.offset % size + frame.size <= size
        at += frame.size
        assert at <= end
        line.wrote(frame.size, number / 100)
        assert line.sent == at
        assert line.acknowledged <= max(line.sent, line.report)
