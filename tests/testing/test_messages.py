"""Cycles of messages: the second round differs from the first only where it must."""

import sys

import pytest

from flintmq.errors import MissingExtraError, UsageError
from flintmq.format import properties
from flintmq.format.compression import original_body
from flintmq.testing.messages import Maker, Shape, compress, pool_of

PLAIN = Shape([("A", 1.0), ("B", 2.0)], 2, (10, 50), False, ("x", "y"), 2)


def test_a_second_round_goes_on_where_the_first_ended() -> None:
    numbers: dict[tuple[str, int], int] = {}
    cycle = Maker(PLAIN, "seed", pool_of(PLAIN, 1, 1000), numbers, {}).make(100)
    counters = [0] * len(numbers)
    cycle.fill(0, 0, counters, range(1000, 1100))
    first = list(cycle.rows.queue_offsets)
    texts = [properties.parse_bytes(cycle.rows.properties[row]) for row in range(100)]
    bodies = [cycle.rows.bodies[row] for row in range(100)]
    assert [text["UNIQ_KEY"][-8:] for text in texts] == [f"{n:08X}" for n in range(100)]
    counters = [cycle.steps[number] for number in range(len(numbers))]
    assert cycle.steps_of(100) == cycle.steps
    assert sum(cycle.steps_of(30).values()) == 30
    cycle.fill(100, 4099, counters, range(1100, 1200))
    assert [b - a for a, b in zip(first, cycle.rows.queue_offsets, strict=True)] == [
        cycle.steps[number] for number in cycle.queue_of
    ]
    again = [properties.parse_bytes(cycle.rows.properties[row]) for row in range(100)]
    assert [text["UNIQ_KEY"][-8:] for text in again] == [f"{n:08X}" for n in range(100, 200)]
    assert [text.get("TAGS") for text in again] == [text.get("TAGS") for text in texts]
    others = [cycle.rows.bodies[row] for row in range(100)]
    assert list(map(len, bodies)) == list(map(len, others))
    assert sum(a == b for a, b in zip(bodies, others, strict=True)) < 10
    assert list(cycle.rows.store_times) == list(range(1100, 1200))
    assert all(0 <= store - born < 30 for store, born in zip(range(1100, 1200), cycle.rows.born_times, strict=True))


def test_a_cycle_has_the_length_asked_for() -> None:
    shape = Shape([("A", 1.0)], 1, (0, 9), True, (), 0, frozenset(["batches", "transactions", "delay"]))
    for count in (1, 2, 3, 10, 333):
        assert len(Maker(shape, "s", pool_of(shape, 1, count), {}, {}).make(count)) == count


def test_unknown_kinds_are_named() -> None:
    with pytest.raises(UsageError, match=r"unknown kinds of messages: nonsense; there are: flags"):
        Shape([("A", 1.0)], 1, (0, 9), True, (), 0, frozenset(["nonsense"]))


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_compressed_bodies_come_back(kind: int) -> None:
    assert original_body(compress(b"text " * 100, kind), 1 | kind << 8) == b"text " * 100


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(MissingExtraError, match=r"flintmq\[compress\]"):
        compress(b"x", 1)
