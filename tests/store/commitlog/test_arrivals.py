"""A log that grows while it is read: no reader gives a record whose bytes are not all there, and each comes once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.format import record
from flintmq.kernels.read import fetch
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.arrivals import Arrivals
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict, read_facts
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.layout.mark import DurableMark
from flintmq.store.view import open_store
from tests.compat.stores import Golden
from tests.support.kernel_records import PAIRS, records

FILE = 1 << 14
LIVE, KILLED, STOPPED = StopFacts(clean=False, live=True), StopFacts(clean=False), StopFacts()
NUL = b"A\x01b\0\x02"  # a legal text, which is doubtful
ENDS_IN_NUL = PAIRS + b"B\x01\0\0"
SHAPES: dict[str, dict[str, Any]] = {
    "usual": {},
    "V2, a long topic": {"magic": record.MAGIC_V2, "topic": b"t" * 300},
    "a body that ends in zeros": {"body": b"x" + bytes(40)},
    "a body of zeros, no properties": {"body": bytes(30), "properties": b""},
    "no body, no properties": {"body": b"", "properties": b""},
    "properties of a length that ends in a zero byte": {"properties": b"A\x01" + b"v" * 254},
    "a zero byte amid the properties": {"properties": NUL},
    "properties that end in zeros": {"properties": ENDS_IN_NUL},
    "an inner batch": {"sys_flag": record.INNER_BATCH},
}


def fields(number: int, **more: Any) -> dict[str, Any]:
    return {"queue_offset": number, "store_timestamp": 1000 + number} | more


def log_of(root: Path, data: bytes, effects: Effects | None = None, file: int = FILE) -> LogFiles:
    """A log of one file, or a file that has grown."""
    (root / "commitlog").mkdir(parents=True, exist_ok=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(data + bytes(file - len(data)))
    return LogFiles.discover([str(root / "commitlog")], effects=effects or Effects())


def given(walk: LogWalk) -> list[bytes]:
    """The records of a walk, byte for byte."""
    found = []
    for piece in walk:
        ends = [*piece.positions[1 : piece.count], piece.end]
        found += [bytes(piece.data[a:b]) for a, b in zip(piece.positions[: piece.count], ends, strict=True)]
    return found


def split(data: bytes, positions: Any) -> list[bytes]:
    return [data[a:b] for a, b in zip(positions, [*positions[1:], len(data)], strict=True)]


@pytest.mark.parametrize("access", ["pread", "map"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_that_is_cut_at_every_byte_waits_until_it_is_whole(tmp_path: Path, shape: str, access: str) -> None:
    data, positions = records(fields(0), fields(1, **SHAPES[shape]), fields(2))
    whole = split(data, positions)
    first, second = positions[1:]
    doubtful = b"\0" in SHAPES[shape].get("properties", b"")
    for cut in range(first, second + 12):
        log = log_of(tmp_path, data[:cut])
        followed = any(data[second:cut])
        come = cut >= second and (followed or not doubtful)
        # Bytes that are zeros anyway are not missed; without a zero in its texts a record is whole.
        same = (data[:cut] + bytes(FILE))[:second] == data[:second] and not doubtful
        for facts in (LIVE, KILLED):
            for rows in (1, 2, 100):
                walk = LogWalk(log, facts, access=access, max_rows=rows)
                assert given(walk) == (whole[:2] if come or same else whole[:1]), (cut - first, facts)
                assert walk.verdict is not Verdict.DAMAGE
            assert find_end(log, facts).offset == (second if come or same else first)
    log = log_of(tmp_path, data)
    assert given(LogWalk(log, LIVE, access=access)) == whole


@pytest.mark.parametrize("shape", [name for name in SHAPES if "zero" in name])
def test_a_last_record_with_a_zero_byte_comes_when_nothing_more_can(tmp_path: Path, shape: str) -> None:
    """After an orderly stop; once it is below the durable mark; when the file's blank record follows it."""
    data, positions = records(fields(0), fields(1, **SHAPES[shape]))
    whole = split(data, positions)
    log = log_of(tmp_path, data)
    assert given(LogWalk(log, STOPPED)) == given(LogWalk(log, KILLED, cut_unordered=True)) == whole
    marked = StopFacts(clean=False, live=True, mark=DurableMark(len(data)))
    assert given(LogWalk(log, marked)) == whole and find_end(log, marked).offset == len(data)
    assert given(LogWalk(log_of(tmp_path, data, file=len(data)), LIVE)) == whole, "the file ends"
    assert given(LogWalk(log_of(tmp_path, data + record.encode_blank(FILE - len(data))), LIVE)) == whole


def test_a_record_that_is_left_out_after_a_kill_is_noted(tmp_path: Path) -> None:
    data, positions = records(fields(0), fields(1, properties=NUL))
    for facts, notes in ((KILLED, 1), (LIVE, 0)):
        report = Report()
        walk = LogWalk(log_of(tmp_path, data), facts, report=report)
        assert len(given(walk)) == 1 and walk.left_out == walk.position == positions[1]
        assert [note.code for note in report.notes] == ["torn_tail"] * notes
    assert find_end(log_of(tmp_path, records(fields(0, properties=NUL))[0]), LIVE).last == 0


@pytest.mark.parametrize("pieces", [{}, {"piece_bytes": 200}, {"max_rows": 1}, {"max_rows": 3}])
@pytest.mark.parametrize("facts", [LIVE, KILLED, STOPPED], ids=["live", "killed", "stopped"])
def test_zero_bytes_in_the_middle_hide_nothing(tmp_path: Path, facts: StopFacts, pieces: dict[str, int]) -> None:
    shapes = [SHAPES[name] for name in SHAPES] * 3
    data, positions = records(*(fields(n, **shape) for n, shape in enumerate([*shapes, {}])))
    report = Report()
    for access in ("pread", "map"):
        walk = LogWalk(log_of(tmp_path, data), facts, access=access, report=report, **pieces)
        assert given(walk) == split(data, positions) and walk.verdict is Verdict.END and walk.left_out is None
    assert not report.notes and not report.damage_count


def test_records_after_zeros_make_it_no_end(tmp_path: Path) -> None:
    """The doubtful record is not the log's last one, so what a disk lost is told as ever."""
    data, positions = records(fields(0), fields(1, properties=NUL), fields(2, body=bytes(600)), fields(3))
    log = log_of(tmp_path, data[: positions[2]] + bytes(positions[3] - positions[2]) + data[positions[3] :])
    for facts in (LIVE, KILLED):
        report = Report()
        walk = LogWalk(log, facts, strict=False, report=report)
        whole = split(data, positions)
        assert given(walk) == [whole[0], whole[1], whole[3]] and report.damage_count == 1


class Growing(Effects):
    """A disk on which a writer goes on (`once`) while a read copies bytes: the first part is older than the rest."""

    def __init__(self, part: int, once: Callable[[], object]) -> None:
        self.part = part
        self.once: Callable[[], object] | None = once

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        if self.once is None or position or len(buffer) <= self.part:
            return super().pread_into(fd, buffer, position)
        got = super().pread_into(fd, buffer[: self.part], position)
        once, self.once = self.once, None
        once()
        return got + super().pread_into(fd, buffer[self.part :], position + got)


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("facts", [LIVE, KILLED], ids=["live", "killed"])
def test_a_writer_that_goes_on_amid_a_read(tmp_path: Path, facts: StopFacts, rows: int) -> None:
    """The read has zeros of a record that was incomplete, and then whole records after it."""
    data, positions = records(*(fields(n) for n in range(4)))
    effects = Growing(positions[2], lambda: log_of(tmp_path, data))
    walk = LogWalk(log_of(tmp_path, data[: positions[2] - 3], effects), facts, max_rows=rows)
    assert given(walk) == split(data, positions) and effects.once is None


def test_a_writer_that_begins_after_the_small_files_were_read(tmp_path: Path) -> None:
    data, positions = records(fields(0), fields(1))
    log_of(tmp_path, data[:-3])
    with open_store(tmp_path) as view:
        (tmp_path / "abort").touch()
        assert [m.physical_offset for m in view.messages()] == [0]
        (tmp_path / "abort").unlink()
        log_of(tmp_path, data)
        assert [m.physical_offset for m in view.messages()] == list(positions)


@pytest.mark.parametrize("piece_bytes", [700, 1 << 20])
def test_golden_stores_lose_nothing_while_they_are_live(golden_store: Golden, piece_bytes: int) -> None:
    """Each record as in a store at rest; only a last one with a zero byte in its texts may have to wait."""
    log, rest = (
        LogFiles.discover([str(golden_store.path / "commitlog")]),
        read_facts(str(golden_store.path)),
    )
    expected = given(LogWalk(log, rest, strict=False))
    live = replace(rest, live=True)
    found = given(LogWalk(log, live, strict=False, piece_bytes=piece_bytes))
    missing = expected[len(found) :]
    assert found == expected[: len(found)] and len(missing) <= 1
    assert all(b"\0" in record.decode(r).topic + record.decode(r).properties for r in missing)


def test_only_the_last_piece_of_a_log_is_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, positions = records(*(fields(n, body=b"%05d" % n * 20) for n in range(2000)))
    log = log_of(tmp_path, data, file=1 << 20)
    looked = []
    whole = fetch.whole
    monkeypatch.setattr(fetch, "whole", lambda d, p, count: (looked.append(count), whole(d, p, count))[1])
    walk = LogWalk(log, LIVE, piece_bytes=20_000)
    assert given(walk) == split(data, positions)
    assert 0 < sum(looked) * 200 < 2 * (20_000 + (1 << 14)), "the last piece, and what is near"
    looked.clear()
    assert given(LogWalk(log, end=len(data))) == split(data, positions) and not looked, "the end was known before"


def test_mapped_bytes_that_a_writer_takes_back(tmp_path: Path) -> None:
    """A lost line: what came of the record is zeroed between the walk's look at it and ours."""
    data, positions = records(fields(0), fields(1))
    log = log_of(tmp_path, data[:-3])
    arrivals = Arrivals(log, LIVE, LogWalk(log)._effort, ends=False)
    begin = positions[1]
    for zeroed in range(len(data) - begin):
        mapped = memoryview(data[:begin] + bytes(zeroed) + data[begin + zeroed : -3] + bytes(1000))
        assert arrivals.sure(mapped, 0, memoryview(positions), 2, len(data), False) == 1
    assert arrivals.sure(memoryview(data), 0, memoryview(positions), 2, len(data), False) == 2


def test_every_reader_of_a_store_that_grows_byte_by_byte(tmp_path: Path) -> None:
    """messages, follow, query, and the end of the log; each record once, with all its properties."""
    data, positions = records(*(fields(n, properties=b"KEYS\x01k%d\x02TAGS\x01t%d" % (n, n)) for n in range(4)))
    log_of(tmp_path, data[: positions[1]])
    (tmp_path / "abort").touch()
    ends, got, cut = [*positions[1:], len(data)], [], positions[1]

    class Steps:
        """A byte more at each wait."""

        def is_set(self) -> bool:
            return False

        def wait(self, _seconds: float) -> bool:
            nonlocal cut
            count = sum(end <= cut for end in ends)
            with open_store(tmp_path) as view:
                assert [m.properties for m in view.messages()] == [
                    {"KEYS": f"k{n}", "TAGS": f"t{n}"} for n in range(count)
                ]
                assert view.max_physical_offset == ends[count - 1]
                assert [len(view.query("Topic", f"k{n}")) for n in range(4)] == [int(n < count) for n in range(4)]
            assert len(got) == count
            cut += 1
            log_of(tmp_path, data[:cut])
            return cut > len(data) + 1

    with open_store(tmp_path) as view:
        for message in view.follow(0, 0, Steps()):  # type: ignore[arg-type]
            got.append(message.properties)
    assert got == [{"KEYS": f"k{n}", "TAGS": f"t{n}"} for n in range(4)]
