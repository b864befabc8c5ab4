"""The table of store/recovery.py, over every combination, and the small files it is fed from."""

from __future__ import annotations

import itertools
import os
import struct
from pathlib import Path

import pytest

from flintmq.format import checkpoint, flintmq_mark
from flintmq.store.recovery import Facts, Follows, Verdict, decide, read_facts, zeros_to_sector

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
        (b"", 0, False),
    ],
)
def test_a_sector_that_never_was_written(data: bytes, position: int, expected: bool) -> None:
    assert zeros_to_sector(data, position) is expected


def write_mark(root: Path, flushed: int, time: int) -> None:
    (root / flintmq_mark.FILE_NAME).write_bytes(flintmq_mark.encode(flushed, time))


def test_facts_of_an_empty_directory_are_unknown(tmp_path: Path) -> None:
    assert read_facts(str(tmp_path)) == Facts(clean=True, live=False, physic_time=0, mark=None)


def test_facts_come_from_abort_checkpoint_and_mark(tmp_path: Path) -> None:
    (tmp_path / "abort").write_text("1")
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(physic_timestamp=77)))
    write_mark(tmp_path, 4096, 77)
    assert read_facts(str(tmp_path)) == Facts(clean=False, live=False, physic_time=77, mark=4096, latest=77)


def test_a_mark_is_void_when_the_checkpoint_has_moved_on_or_its_bytes_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(struct.pack(">q", 78).ljust(4096, b"\0"))
    write_mark(tmp_path, 4096, 77)
    assert read_facts(str(tmp_path)).mark is None
    write_mark(tmp_path, 4096, 78)
    assert read_facts(str(tmp_path)).mark == 4096
    mark = tmp_path / flintmq_mark.FILE_NAME
    good = mark.read_bytes()
    for at in range(len(good)):
        broken = bytearray(good)
        broken[at] ^= 1
        mark.write_bytes(broken)
        assert read_facts(str(tmp_path)).mark is None, at
        mark.write_bytes(good[:at])
        assert read_facts(str(tmp_path)).mark is None, at


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\xff" * 4096, b"short"])
def test_a_checkpoint_that_says_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "checkpoint").write_bytes(data)
    assert read_facts(str(tmp_path)).physic_time == 0


def test_facts_are_read_without_writing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"lock")
    before = sorted(os.listdir(tmp_path))
    read_facts(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == before
