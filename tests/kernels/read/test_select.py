"""Selecting records by bytes: tables of topics and tags, queue rules, store time; what is asked of Python."""

from __future__ import annotations

from array import array

import pytest

from flintmq.kernels.read import select as kernel
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import HOST6, LONG_WINDED, ODD, records

LEAST, MOST = -(2**63), 2**63 - 1
ANY = (kernel.ANY_QUEUE, LEAST, MOST)


def table(texts: dict[bytes, int], slots: int = 16) -> tuple[array[int], bytes]:
    """A table of texts with verdicts, and its arena."""
    numbers, arena = array("q", (0, kernel.FREE, 0)) * slots, b"\0"
    for text, verdict in texts.items():
        spot = kernel.slot_of(text, slots)
        while numbers[3 * spot + 1] != kernel.FREE:
            spot = (spot + 1) % slots
        numbers[3 * spot : 3 * spot + 3] = array("q", (len(arena), len(text), verdict))
        arena += text
    return numbers, arena


def rules(*lists: list[tuple[int, int, int]]) -> array[int]:
    """Lists of queue rules, each with its end."""
    return array("q", [number for rule in lists for one in (*rule, (kernel.END, 0, 0)) for number in one])


def select(
    data: bytes,
    positions: array[int],
    *,
    since: int = LEAST,
    until: int = MOST,
    topics: dict[bytes, int] | None = None,
    closed: bool = True,
    tags: set[bytes] | None = None,
    queues: array[int] | None = None,
    read: int = 0,
    kept: int = 0,
) -> tuple[list[int], int, int]:
    """(indices of the kept records, read, why)."""
    left = array("q", positions)
    query = array("q", (since, until, 0 if topics is None else 1 + closed, int(tags is not None)))
    read, kept, why = kernel.select(
        guarded(data),
        left,
        read,
        kept,
        len(left),
        query,
        *table(topics or {}),
        queues or rules([ANY]),
        *table(dict.fromkeys(tags or (), 0)),
    )
    return [positions.index(at) for at in left[:kept]], read, why


def test_nothing_asked_keeps_everything() -> None:
    data, positions = records(*ODD)
    assert select(data, positions) == (list(range(len(ODD))), len(ODD), kernel.DONE)


def test_store_time_with_both_ends() -> None:
    times = [{"store_timestamp": time} for time in (5, -3, 9, 7, 5)]
    data, positions = records(*times, {"store_timestamp": 6, "born_host": HOST6})
    assert select(data, positions, since=5, until=7)[0] == [0, 3, 4, 5]
    assert select(data, positions, since=10)[0] == []
    assert select(data, positions, until=-3)[0] == [1]


def test_topics_of_a_closed_table() -> None:
    texts = [b"A", b"B", b"", b"A", b"AA", "主题".encode(), b"\xff", b"B"]
    data, positions = records(*({"topic": topic, "body": b"x" * n} for n, topic in enumerate(texts)))
    assert select(data, positions, topics={b"A": 0})[0] == [0, 3]
    assert select(data, positions, topics={b"B": 0, "主题".encode(): 0, b"A": kernel.UNWANTED})[0] == [1, 5, 7]
    assert select(data, positions, topics={b"": 0, b"\xff": 0})[0] == [2, 6]
    assert select(data, positions, topics={})[0] == []


def test_unknown_topics_of_an_open_table_are_asked_about() -> None:
    data, positions = records({"topic": b"A"}, {"topic": b"B"}, {"topic": b"A"}, {"topic": b"C"})
    known = {b"A": 0}
    assert select(data, positions, topics=known, closed=False) == ([0], 1, kernel.TOPIC)
    known[b"B"] = kernel.UNWANTED
    assert select(data, positions, topics=known, closed=False) == ([0, 2], 3, kernel.TOPIC)
    known[b"C"] = 0
    assert select(data, positions, topics=known, closed=False) == ([0, 2, 3], 4, kernel.DONE)


def test_a_call_goes_on_where_the_one_before_stopped() -> None:
    data, positions = records({"topic": b"A"}, {"topic": b"B"}, {"topic": b"A"})
    moved = array("q", positions)
    assert select(data, moved, topics={b"A": 0}, read=1, kept=1) == ([0, 2], 3, kernel.DONE)


def test_texts_of_one_hash_are_told_apart() -> None:
    """AaAa and BBBB have one Java hash; so do they collide at every size of a table."""
    data, positions = records({"topic": b"AaAa"}, {"topic": b"BBBB"}, {"topic": b"AaBB"})
    assert select(data, positions, topics={b"BBBB": 0, b"AaAa": kernel.UNWANTED})[0] == [1]


def test_queue_rules() -> None:
    places = [(0, 5), (1, 5), (0, 9), (-1, 0), (2, 5), (-2, 7), (0, 10)]
    data, positions = records(*({"queue_id": q, "queue_offset": o} for q, o in places))
    every = {b"Topic": 0}
    assert select(data, positions, topics=every, queues=rules([(0, 5, 10)]))[0] == [0, 2]
    assert select(data, positions, topics=every, queues=rules([(0, 6, 10), ANY]))[0] == [1, 2, 3, 4, 5]
    assert select(data, positions, topics=every, queues=rules([(-1, LEAST, MOST), (-2, LEAST, MOST)]))[0] == [3, 5]
    assert select(data, positions, topics=every, queues=rules([]))[0] == []
    second = rules([(0, 0, 1)], [(1, 0, 100)])
    assert select(data, positions, topics={b"Topic": 6}, queues=second)[0] == [1]


def test_a_rule_that_is_not_there_wants_nothing() -> None:
    data, positions = records({})
    assert select(data, positions, topics={b"Topic": 2**40}, queues=rules([ANY]))[0] == []


def test_tags() -> None:
    texts = [b"TAGS\x01a\x02", b"", b"TAGS\x01b\x02", b"X\x01a\x02", b"TAGS\x01a\x02K\x01v\x02"]
    texts.append("TAGS\x01报警\x02".encode())
    data, positions = records(*({"properties": text} for text in texts))
    assert select(data, positions, tags={b"a"})[0] == [0, 4]
    assert select(data, positions, tags={b"b", "报警".encode()})[0] == [2, 5]
    assert select(data, positions, tags=set())[0] == []


def test_odd_properties_are_asked_about_only_where_the_tag_matters() -> None:
    odd = LONG_WINDED["malformed"]
    data, positions = records({}, {"properties": odd, "topic": b"Other"}, {"properties": odd}, {})
    assert select(data, positions, tags={b"a"}) == ([0], 1, kernel.TAG)
    assert select(data, positions, topics={b"Topic": 0}, tags={b"a"}) == ([0], 2, kernel.TAG)
    assert select(data, positions, topics={b"Other": 0}, until=-1, tags={b"a"}) == ([], 4, kernel.DONE)


@pytest.mark.parametrize("lie", [-1, 1, 2**62])
def test_positions_that_lie(lie: int) -> None:
    data, positions = records({}, {})
    positions[1] = lie
    with pytest.raises(ValueError, match="no whole record at position"):
        select(data, positions)


def test_arguments_that_do_not_fit() -> None:
    data, positions = records({}, {})
    topics, arena = table({})
    query = array("q", (LEAST, MOST, 0, 0))

    def call(read: int = 0, kept: int = 0, count: int = 2, **changed: array[int]) -> None:
        arrays = {"query": query, "topics": topics, "rules": rules([])} | changed
        kernel.select(
            data, positions, read, kept, count, arrays["query"], arrays["topics"], arena, arrays["rules"], topics, arena
        )

    for numbers in ((-1, 0, 2), (0, 1, 2), (1, 0, 0), (0, 0, 3), (0, -1, 2)):
        with pytest.raises(ValueError, match="in this order"):
            call(*numbers)
    with pytest.raises(ValueError, match="in this order"):
        call(query=query[:3])
    for wrong in (topics[:9], topics[:47], array("q")):
        with pytest.raises(ValueError, match="power of two"):
            call(topics=wrong)
    with pytest.raises(ValueError, match="empty"):
        call(rules=array("q"))


def test_a_full_table_is_searched_once_round() -> None:
    data, positions = records({"topic": b"Z"})
    texts = {bytes([65 + i]): 0 for i in range(16)}
    assert select(data, positions, topics=texts) == ([], 1, kernel.DONE)
