"""Sorting units by queue, and runs of offsets."""

import random
from array import array

import pytest

from flintmq.kernels.read import group_units


def test_group_sorts_by_queue_and_keeps_the_order_within() -> None:
    chance = random.Random(2)
    n, queues = 500, 7
    rows = [(chance.randrange(queues), i, chance.randrange(1000), chance.randbytes(20)) for i in range(n)]
    starts, offsets, times, out = (
        array("q", bytes(8 * (queues + 1))),
        array("q", bytes(8 * n)),
        array("q", bytes(8 * n)),
        bytearray(20 * n),
    )
    group_units.group(
        array("i", [r[0] for r in rows]), array("q", [r[1] for r in rows]), array("q", [r[2] for r in rows]),
        b"".join(r[3] for r in rows), n, starts, offsets, times, out,
    )  # fmt: skip
    ordered = sorted(rows, key=lambda r: r[0])
    assert list(offsets) == [r[1] for r in ordered] and list(times) == [r[2] for r in ordered]
    assert out == b"".join(r[3] for r in ordered)
    assert list(starts) == [sum(r[0] < q for r in rows) for q in range(queues + 1)]
    with pytest.raises(ValueError, match="queue number"):
        group_units.group(array("i", [9]), array("q", [0]), array("q", [0]), bytes(20), 1, starts, offsets, times, out)


def test_run_length_counts_steps_of_one() -> None:
    offsets = array("q", [5, 6, 7, 9, 10, 10])
    assert [group_units.run_length(offsets, i, 6) for i in range(7)] == [3, 2, 1, 2, 1, 1, 0]
    with pytest.raises(ValueError, match="within offsets"):
        group_units.run_length(offsets, 0, 7)
