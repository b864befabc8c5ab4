"""Ranges of lost log, and what may still be dispatched."""

from flintmq.forensics.verify.context import MOST_RANGES, Ground, Ranges
from flintmq.forensics.verify.findings import Findings


def test_ranges_are_half_open():
    ranges = Ranges()
    ranges.add(10, 20)
    ranges.add(30, 31)
    assert [offset for offset in range(40) if offset in ranges] == [*range(10, 20), 30]


def test_neighbours_grow_together():
    ranges = Ranges()
    ranges.add(10, 20)
    ranges.add(20, 25)
    ranges.add(22, 24)
    assert 24 in ranges and 25 not in ranges
    assert len(ranges._starts) == 1


def test_very_many_ranges_stay_bounded():
    ranges = Ranges()
    for number in range(MOST_RANGES + 10):
        ranges.add(10 * number, 10 * number + 1)
    assert len(ranges._starts) == MOST_RANGES
    assert 5 not in ranges
    assert 10 * (MOST_RANGES + 5) in ranges  # nothing lost is forgotten; some of what is not passes for it
    assert 10 * (MOST_RANGES + 5) + 5 in ranges


def test_what_waits_for_dispatch():
    assert not Ground(Findings()).is_pending(10**12)
    assert Ground(Findings(), live=True).is_pending(0)
    ground = Ground(Findings(), replay_from=500)
    assert [ground.is_pending(offset) for offset in (499, 500)] == [False, True]
