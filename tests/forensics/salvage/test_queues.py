"""Old and new queue offsets: dense, in order, and consumers go on at the first message they have not seen."""

from typing import Any

from flintmq.forensics.salvage.queues import QueueMap, QueueMaps


def mapped(*old: int) -> tuple[QueueMap, list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    queue = QueueMap("T", 1, told.append)
    assert [queue.give(offset) for offset in old] == list(range(len(old)))
    queue.finish()
    return queue, [{name: line[name] for name in line if name not in ("topic", "queue_id")} for line in told]


def test_a_hole_closes_up() -> None:
    queue, told = mapped(5, 6, 9, 10)
    assert [queue.new_of(old) for old in range(4, 12)] == [None, 0, 1, None, None, 2, 3, None]
    assert [queue.next_of(old) for old in range(4, 13)] == [0, 0, 1, 2, 2, 2, 3, 4, 4]
    assert told == [
        {"kind": "queue", "old": 5, "new": 0, "count": 2},
        {"kind": "missing", "old": 7, "count": 2},
        {"kind": "queue", "old": 9, "new": 2, "count": 2},
    ]


def test_a_repeat_gets_an_offset_of_its_own_and_the_first_is_the_one_meant() -> None:
    queue, told = mapped(0, 1, 2, 1, 3)
    assert [queue.new_of(old) for old in range(4)] == [0, 1, 2, 4]
    assert [line["new"] for line in told] == [0, 3, 4] and queue.next_of(3) == 4


def test_a_queue_begun_again_means_its_new_life() -> None:
    queue, _ = mapped(0, 1, 2, 0, 1)
    assert [queue.new_of(old) for old in range(3)] == [3, 4, None] and queue.next_of(0) == 3


def test_batches_take_as_many_offsets_as_messages() -> None:
    queue = QueueMap("T", 0, lambda line: None)
    assert [queue.give(10, 4), queue.give(16, 2)] == [0, 4]
    assert [queue.new_of(old) for old in (12, 14, 17)] == [2, None, 5] and queue.next_of(15) == 4


def test_a_queue_that_kept_nothing_begins_at_zero() -> None:
    maps = QueueMaps(lambda line: None)
    assert maps.next_of("T", 0, 1000) == 0 and maps.next_of("T", 0, -1) == -1
    maps.of("T", 0).give(3)
    assert maps.of("T", 0) is maps.of("T", 0) and maps.next_of("T", 0, 3) == 0 and maps.next_of("T", 0, -1) == -1
