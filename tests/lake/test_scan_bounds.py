"""A scan of single queues begins and ends where their units say, if the units are right."""

import pytest

from flintmq.lake.scan_bounds import scan_bounds
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate


def bounds(path, queues, offsets, end):
    log = LogFiles.discover([str(path / "commitlog")])
    return scan_bounds(str(path), log, Predicate(queues=frozenset(queues), offsets=tuple(offsets)), end)


@pytest.fixture
def queues(golden):
    """Two queues of `basic` with their records, and where the log ends."""
    rows = golden("basic").rows
    found = {}
    for row in rows:
        found.setdefault((row["topic"], row["queue_id"]), []).append((row["physical_offset"], row["size"]))
    one, other = sorted(found, key=lambda queue: -len(found[queue]))[:2]
    return (one, found[one]), (other, found[other]), rows[-1]["physical_offset"] + rows[-1]["size"]


def test_between_the_units(golden, queues):
    (one, first), (other, second), end = queues
    offsets = [(*one, 20, 30), (*other, 25, 40)]
    assert bounds(golden("basic").path, [one, other], offsets, end) == (
        min(first[20], second[25])[0],
        sum(max(first[30], second[40])),
    )


def test_every_queue_must_have_an_offset(golden, queues):
    (one, first), (other, _), end = queues
    path = golden("basic").path
    assert bounds(path, [one, other], [(*one, 20, 30)], end) == (0, end)
    assert bounds(path, [one], [(*one, LEAST, 30)], end) == (0, sum(first[30]))
    assert bounds(path, [one], [(*one, 20, MOST)], end) == (first[20][0], end)
    assert bounds(path, [], [], end) == (0, end)


def test_offsets_that_no_unit_has(golden, queues):
    (one, first), _, end = queues
    assert bounds(golden("basic").path, [one], [(*one, len(first), 10**9)], end) == (0, end)
    assert bounds(golden("basic").path, [("Nowhere", 0)], [("Nowhere", 0, 1, 2)], end) == (0, end)


def test_a_wrong_unit_is_not_believed(golden, queues, tmp_path):
    (one, first), _, end = queues
    path = golden("basic").copy(tmp_path)
    file = sorted((path / "consumequeue" / one[0] / str(one[1])).iterdir())[0]
    data = bytearray(file.read_bytes())
    data[20 * 20 : 20 * 20 + 8] = first[25][0].to_bytes(8, "big")
    file.write_bytes(data)
    assert bounds(path, [one], [(*one, 20, MOST)], end) == (0, end)


def test_inside_an_inner_batch(golden):
    rows = golden("batch").rows
    row = next(r for r in rows if r["sys_flag"] & 128 and int(r["properties"]["INNER_NUM"]) > 3 and r["queue_offset"])
    queue = (row["topic"], row["queue_id"])
    end = rows[-1]["physical_offset"] + rows[-1]["size"]
    found = bounds(golden("batch").path, [queue], [(*queue, row["queue_offset"] + 2, MOST)], end)
    assert found == (row["physical_offset"], end)
    found = bounds(golden("batch").path, [queue], [(*queue, LEAST, row["queue_offset"] + 2)], end)
    assert found == (0, row["physical_offset"] + row["size"])
