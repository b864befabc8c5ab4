"""Runs of one fault are one finding, and what only the end decides is told at the end."""

import struct
from pathlib import Path

import pytest

from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.queue_files import Disk, UnitFiles
from flintmq.forensics.verify.queue_findings import MOST_KEPT, QueueKind, UnitFindings
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.queue_name import QueueName


def make(folder: Path, kind: QueueKind | None = None, **ground: int) -> tuple[UnitFindings, Findings]:
    (folder / f"{0:020}").write_bytes(bytes(2000))
    found = Findings()
    files = UnitFiles(str(folder), str(folder), 20, 2000, False, Disk(REAL), found)
    return UnitFindings(QueueName("T", 3), files, kind or QueueKind(), Ground(found, **ground)), found


def unit(offset: int, size: int = 100) -> bytes:
    return struct.pack(">qiq", offset, size, 0)


def test_neighbouring_extra_units_are_one_defect(tmp_path: Path):
    told, found = make(tmp_path)
    for number in (4, 5, 6, 9):
        told.extra(number, 1000 * number)
    told.finish(10, 0)
    assert [(defect.position, defect.expected) for defect in found.defects] == [
        (80, "a record of queue T/3 for units 4 to 6"),
        (180, "a record of queue T/3 for unit 9"),
    ]


def test_missing_units_are_a_hole_once_a_later_one_is_met(tmp_path: Path):
    told, found = make(tmp_path, replay_from=0)
    told.missing(5, 2, 500)
    told.missing(7, 1, 700)
    told.met(8, 1, 0)
    told.missing(9, 3, 900)
    told.finish(9, 6)
    assert [defect.expected for defect in found.defects] == [
        "units 5 to 7 of queue T/3, for records from log offset 500 on"
    ]
    assert [(note.code, note.text) for note in found.notes] == [
        ("units-pending", "queue T/3: 3 messages from log offset 900 on wait for dispatch")
    ]


@pytest.mark.parametrize("light", [False, True])
def test_a_stretch_of_one_shift_is_one_finding(tmp_path: Path, light: bool):
    told, found = make(tmp_path, QueueKind(light=light))
    for number, shift in ((3, -1), (4, -1), (5, -2), (6, 0), (7, -2)):
        told.met(number, 1, shift)
    told.finish(8, 5)
    counts = found.note_counts if light else found.defect_counts
    assert counts == {"lmq-displaced" if light else "unit-displaced": 3}
    if not light:
        assert found.defects[0].expected == "2 records of queue T/3 at queue offsets from 3 on"
        assert found.defects[0].found == "their records say 4 on"


def test_units_that_point_ahead_wait_for_a_new_life_of_the_queue(tmp_path: Path):
    told, found = make(tmp_path)
    told.contradiction(0, unit(100), unit(900))
    told.begun_again(0)
    told.finish(1, 1)
    assert (found.defect_count, found.note_counts) == (0, {"queue-restarted": 1})
    for number in range(MOST_KEPT + 3):
        told.contradiction(number, unit(100), unit(900))
    told.contradiction(9, unit(100), unit(50))  # points back: wrong at once
    assert found.defect_count == 1
    told.finish(1, 1)
    assert found.defect_count == 1 + MOST_KEPT + 1


def test_what_needs_no_record(tmp_path: Path):
    told, found = make(tmp_path, log_begin=1000)
    told.ground.lost.add(2000, 3000)
    assert told.harmless(0, 0x7FFFFFFF) == "units-pre-blank"
    assert told.harmless(999, 100) == "units-expired"
    assert told.harmless(2500, 100) == "units-lost"
    assert told.harmless(1000, 100) is told.harmless(-1, 100) is told.harmless(5000, 0x7FFFFFFF) is None
    told.passed["units-expired"] += 7
    told.report_passed()
    assert found.notes[0].text == "queue T/3: 7 units"


def test_most_times_of_delivery_decide(tmp_path: Path):
    told, found = make(tmp_path)
    for number in range(10):
        told.delivered_after(number, 4000)
    told.delivered_after(10, 1)
    told.finish(11, 11)
    assert (found.note_counts, found.defect_counts) == ({"delay-level": 1}, {"unit-wrong": 1})
    for number in range(MOST_KEPT + 20):
        told.delivered_after(number, number)
    assert found.defect_counts["unit-wrong"] == 1 + 21  # a hundred are kept, two of them from before
