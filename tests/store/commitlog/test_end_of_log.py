"""The table of store/commitlog/end_of_log.py, over every combination, and the small files it is fed from."""

import itertools
import os
import struct
from pathlib import Path

import pytest

from flintmq.format import checkpoint, flintmq_mark, index
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.lock import StoreLock
from flintmq.store.commitlog.end_of_log import (
    Follows,
    StopFacts,
    Verdict,
    decide,
    evidence_beyond,
    read_facts,
    zeros_to_sector,
)
from flintmq.store.layout.mark import DurableMark

# The rules of the design, written again as rows: the first that matches gives the verdict. None matches anything.
#        follows            clean  below  own    zeros  sector  verdict
ROWS = [
    (None,              False, True,  None,  None,  None,  Verdict.DAMAGE),
    (None,              True,  True,  True,  None,  None,  Verdict.DAMAGE),
    (Follows.NOTHING,   None,  None,  None,  True,  None,  Verdict.END),
    (Follows.NOTHING,   None,  None,  None,  False, None,  Verdict.TORN_TAIL),
    (Follows.OLDER,     None,  None,  None,  None,  None,  Verdict.STALE_TAIL),
    (Follows.NOT_OLDER, True,  None,  None,  None,  None,  Verdict.DAMAGE),
    (Follows.NOT_OLDER, False, False, None,  None,  True,  Verdict.UNORDERED),
    (Follows.NOT_OLDER, False, False, None,  None,  False, Verdict.DAMAGE),
]  # fmt: skip


def test_every_combination_of_facts_has_the_verdict_of_the_table() -> None:
    seen = set()
    for case in itertools.product(Follows, *[(True, False)] * 5):
        row = next(r for r in ROWS if all(want is None or want == got for want, got in zip(r, case, strict=False)))
        follows, clean, below, own, zeros, sector = case
        verdict = decide(follows, clean=clean, below_mark=below, own_mark=own, zeros=zeros, lost=sector)
        assert verdict is row[-1], case
        seen.add(verdict)
    assert seen == set(Verdict)


@pytest.mark.parametrize(
    ("data", "position", "expected"),
    [
        (bytes(512), 0, True),
        (b"x" * 100 + bytes(412), 0, False),  # zeros, but the sector was written
        (b"x" * 512 + bytes(512), 0, True),
        (b"x" * 511 + bytes(512), 0, False),
        (bytes(12) + b"x" * 500, 500, True),  # from the bad place to the boundary
        (bytes(4) + b"x" * 500, 508, True),  # the size alone was in it
        (bytes(3) + b"x" * 500, 509, False),  # as the leading zeros of a size may do
        (b"x" * 12 + bytes(512), 500, True),
        (bytes(12), 500, True),  # no byte more is at hand
        (b"", 0, False),
    ],
)
def test_a_sector_that_never_was_written(data: bytes, position: int, expected: bool) -> None:
    assert zeros_to_sector(data, position) is expected


def write_mark(root: Path, flushed: int, time: int) -> None:
    (root / flintmq_mark.FILE_NAME).write_bytes(flintmq_mark.encode(flushed, time))


@pytest.mark.parametrize(
    ("facts", "youngest", "evidence"),
    [
        (StopFacts(), 0, ""),
        (StopFacts(mark=DurableMark(4096)), 0, ""),
        (StopFacts(mark=DurableMark(4095), physic_time=9), 0, ""),  # the mark is exact: no time counts beside it
        (
            StopFacts(mark=DurableMark(4097)),
            0,
            "flintmq.mark records that it was flushed up to offset 4097, but its files end at 4096",
        ),
        (StopFacts(physic_time=1700), 1700, ""),
        (StopFacts(physic_time=1700), 1701, ""),
        (
            StopFacts(physic_time=1700),
            1699,
            "the checkpoint records a flushed record of 1700 ms, but the newest record in the log is of 1699 ms",
        ),
        (
            StopFacts(physic_time=1700),
            0,
            "the checkpoint records a flushed record of 1700 ms, but the log has no record",
        ),
    ],
)
def test_what_was_flushed_and_is_not_there_is_evidence_of_lost_files(
    facts: StopFacts, youngest: int, evidence: str
) -> None:
    """Files that end at log offset 4096."""
    assert evidence_beyond(facts, 4096, youngest) == evidence


def test_facts_of_an_empty_directory_are_unknown(tmp_path: Path) -> None:
    assert read_facts(str(tmp_path)) == StopFacts(clean=True, live=False, physic_time=0)


def test_facts_come_from_abort_checkpoint_and_mark(tmp_path: Path) -> None:
    (tmp_path / "abort").write_text("1")
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(physic_timestamp=77)))
    write_mark(tmp_path, 4096, 77)
    facts = StopFacts(clean=False, live=False, physic_time=77, mark=DurableMark(4096), latest=77)
    assert read_facts(str(tmp_path)) == facts


def test_a_mark_is_void_when_the_checkpoint_has_moved_on_or_its_bytes_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(struct.pack(">q", 78).ljust(4096, b"\0"))
    write_mark(tmp_path, 4096, 77)
    assert read_facts(str(tmp_path)).mark.flushed is None
    write_mark(tmp_path, 4096, 78)
    assert read_facts(str(tmp_path)).mark.flushed == 4096
    mark = tmp_path / flintmq_mark.FILE_NAME
    good = mark.read_bytes()
    for at in range(len(good)):
        broken = bytearray(good)
        broken[at] ^= 1
        mark.write_bytes(broken)
        assert read_facts(str(tmp_path)).mark.flushed is None, at
        mark.write_bytes(good[:at])
        assert read_facts(str(tmp_path)).mark.flushed is None, at


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\xff" * 4096, b"short"])
def test_a_checkpoint_that_says_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "checkpoint").write_bytes(data)
    assert read_facts(str(tmp_path)).physic_time == 0


def test_facts_are_read_without_writing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"lock")
    before = sorted(os.listdir(tmp_path))
    read_facts(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == before


def test_a_mark_at_the_log_s_begin_is_a_mark(tmp_path: Path) -> None:
    write_mark(tmp_path, 0, 0)
    assert read_facts(str(tmp_path)).mark.flushed == 0
    write_mark(tmp_path, -1, 0)
    assert read_facts(str(tmp_path)).mark.flushed is None


def test_a_store_whose_lock_is_held_is_live(tmp_path: Path) -> None:
    lock = StoreLock(str(tmp_path))
    assert read_facts(str(tmp_path)).live
    lock.release()
    assert not read_facts(str(tmp_path)).live


class Afar(Effects):
    """A disk that counts as object storage, and notes which small files are read."""

    remote = True  # type: ignore[assignment]

    def __init__(self) -> None:
        self.read: list[str] = []

    def read_file(self, path: str, most: int) -> bytes | None:
        self.read.append(os.path.basename(path))
        return super().read_file(path, most)


def index_header(root: Path, name: str, end_offset: int, next_item: int) -> None:
    (root / "index").mkdir(exist_ok=True)
    header = index.Header(1, 2, 0, end_offset, 1, next_item)
    (root / "index" / name).write_bytes(index.HEADER.pack(header) + bytes(100))


def test_from_afar_the_newest_index_file_with_an_item_tells_how_far_the_log_goes(tmp_path: Path) -> None:
    assert read_facts(str(tmp_path), Afar()) == StopFacts(clean=True, named=None, zeros_end=0)
    write_mark(tmp_path, 4096, 0)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20260102030405678").write_bytes(b"too short for a header")
    index_header(tmp_path, "20260102030405679.copy", 8000, 2)  # no name of an index file
    facts = read_facts(str(tmp_path), Afar())
    assert (facts.mark.flushed, facts.named, facts.zeros_end) == (4096, None, 4096)
    index_header(tmp_path, "20260102030405600", 9000, 2)
    index_header(tmp_path, "20260102030405601", 9500, 1)  # a new file without an item
    facts = read_facts(str(tmp_path), afar := Afar())
    assert (facts.named, facts.zeros_end, facts.live) == (9000, 9001, False)
    assert [name for name in afar.read if name.startswith("2026")] == [
        "20260102030405678",
        "20260102030405601",
        "20260102030405600",
    ], "the newest first, and none after the one with an item"
    index_header(tmp_path, "20260102030405602", 3000, 7)
    assert read_facts(str(tmp_path), Afar()).zeros_end == 4096, "the mark says more"
    assert read_facts(str(tmp_path)).zeros_end is None, "a disk tells its holes"


def test_the_latest_time_is_the_youngest_of_the_checkpoint(tmp_path: Path) -> None:
    for times, physic, latest in (((5, 7, 6), 5, 7), ((5, 6, 7), 5, 7), ((9, 6, 7), 9, 9), ((-3, -2, -1), 0, 0)):
        (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(*times)))
        facts = read_facts(str(tmp_path))
        assert (facts.physic_time, facts.latest) == (physic, latest)


def test_another_boot_since_a_store_was_left_is_a_power_cut(tmp_path: Path) -> None:
    """Only where the store did not stop cleanly; where it did, all of it was synced."""
    abort = tmp_path / "abort"
    for text, cut in (("4242\nanother-boot/7", True), ("4242", False)):
        abort.write_text(text)
        assert read_facts(str(tmp_path)).power_cut is cut
    abort.unlink()
    assert read_facts(str(tmp_path)).power_cut is False


INDEXED = flintmq_mark.Indexed(300, 20261121120000000, index.Header(1000, 1009, 0, 290, 3, 4))


@pytest.mark.parametrize(
    ("abort", "believed"),
    [
        (None, True),
        ("4242\nthis-boot/7", True),
        ("4242", False),  # RocketMQ ran, and may have worked on queues and index
        ("", False),
    ],
)
def test_what_the_mark_says_of_queues_and_index_counts_if_rocketmq_was_not_there(
    tmp_path: Path, abort: str | None, believed: bool
) -> None:
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(77, 78, 79)))
    (tmp_path / flintmq_mark.FILE_NAME).write_bytes(flintmq_mark.encode(500, 77, 77, 400, INDEXED))
    if abort is not None:
        (tmp_path / "abort").write_text(abort)
    facts = read_facts(str(tmp_path))
    assert (facts.clean, facts.mark.flushed, facts.latest) == (abort is None, 500, 79)
    assert (facts.mark.dispatched, facts.mark.indexed) == ((400, INDEXED) if believed else (-1, None))
    afar = read_facts(str(tmp_path), Afar())
    assert (afar.mark.flushed, afar.latest) == (500, 79)
