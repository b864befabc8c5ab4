"""What a predicate means, and that the kernel keeps exactly what filtering afterwards keeps."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintmq.errors import UsageError
from flintmq.message import stored_message
from flintmq.store.commitlog.predicate import MOST, Predicate, Selector
from tests.compat.stores import Golden
from tests.support.arrow_rows import messages_of, pieces_of, store_of, walk_of
from tests.support.kernel_records import COUNTING, LONG_WINDED, READ


def selected(store: Golden | Path, predicate: Predicate, **options: Any) -> list[int]:
    """Physical offsets of what the selector keeps."""
    selector = Selector(predicate)
    found = []
    for piece in walk_of(store, **options):
        count = selector.select(piece)
        found += [piece.base + at for at in piece.positions[:count]]
    return found


def filtered(store: Golden | Path, predicate: Predicate) -> list[int]:
    """The same by decoding everything."""
    return [message.physical_offset for message in messages_of(store) if predicate.wants(message)]


GOLDEN = {
    "one topic": {"topics": {"Shipments"}},
    "topics, one not ASCII, one that is not there": {"topics": {"Payments", "订单", "Nothing"}},
    "a pattern": {"topic_pattern": ".*s"},
    "a pattern and topics": {"topic_pattern": "P.*", "topics": {"Payments", "Shipments"}},
    "queue ids": {"queue_ids": {0, 3}},
    "queues": {"queues": {("Payments", 1), ("Shipments", 0)}},
    "queues and ids": {"queues": {("Payments", 1), ("Shipments", 0)}, "queue_ids": {1}},
    "a range of a queue": {"queues": {("Payments", 1)}, "offsets": (("Payments", 1, 10, 20),)},
    "a range among all": {"offsets": (("Payments", 1, 10, 20), ("Shipments", 2, 5, MOST))},
    "a range and ids": {"queue_ids": {1, 2}, "offsets": (("Payments", 1, 10, 20),)},
    "since": {"since": 1795167380700},
    "until": {"until": 1795167380700},
    "one ms": {"since": 1795167380570, "until": 1795167380571},
    "no time": {"since": 5, "until": 5},
    "tags": {"tags": {"TagA"}},
    "tags, one not ASCII": {"tags": {"报警", "TagB"}},
    "all of it": {"topics": {"Payments"}, "queue_ids": {0, 1}, "since": 1795167380600, "tags": {"TagC", "TagA"}},
    "nothing named": {"topics": set()},
    "everything": {},
}


def predicate_of(parts: dict[str, Any]) -> Predicate:
    return Predicate(**{name: frozenset(part) if isinstance(part, set) else part for name, part in parts.items()})


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_records_that_pass(golden: Any, name: str) -> None:
    store = golden("basic")
    predicate = predicate_of(GOLDEN[name])
    found = selected(store, predicate)
    assert found == filtered(store, predicate)
    empty = ("no time", "nothing named")
    assert bool(found) == (name not in empty)
    assert (len(found) == 3000) == (name == "everything")


def test_java_rows_pass_alike(golden: Any) -> None:
    """The expected rows come from Java's decoding, not from ours."""
    store = golden("flags")
    for topic in {row["topic"] for row in store.rows}:
        expected = [row["physical_offset"] for row in store.rows if row["topic"] == topic]
        assert selected(store, Predicate(topics=frozenset([topic]))) == expected
    for tag in {row["tags"] for row in store.rows} - {None}:
        expected = [row["physical_offset"] for row in store.rows if row["tags"] == tag]
        assert selected(store, Predicate(tags=frozenset([tag]))) == expected
    for queue in {row["queue_id"] for row in store.rows}:
        expected = [row["physical_offset"] for row in store.rows if row["queue_id"] == queue]
        assert selected(store, Predicate(queue_ids=frozenset([queue]))) == expected


PROPERTIES = [*READ.values(), *LONG_WINDED.values()]
TEXTS = [b"", b"Topic", b"\xff", b"\xed\xa0\x80", b"\xef\xbf\xbd", "主题".encode(), b"AaAa", b"BBBB"]
TOPICS = ["", "Topic", "\ufffd", "主题", "AaAa", "\ud800", "Other"]
TAGS = ["", "a", "x", "y", "t", "\ufffd", "报警", "\udc00"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.builds(
        Predicate,
        topics=st.none() | st.frozensets(st.sampled_from(TOPICS)),
        topic_pattern=st.none() | st.sampled_from([".*", "", "T.*|主.", "[^a]+", "AaAa"]),
        queue_ids=st.none() | st.frozensets(st.sampled_from([-2, -1, 0, 1])),
        queues=st.none() | st.frozensets(st.tuples(st.sampled_from(TOPICS), st.integers(-1, 1))),
        offsets=st.lists(
            st.tuples(st.sampled_from(TOPICS), st.integers(-1, 1), st.integers(-3, 3), st.integers(-3, 6)), max_size=2
        ).map(tuple),
        since=st.none() | st.integers(-2, 6),
        until=st.none() | st.integers(-2, 6),
        tags=st.none() | st.frozensets(st.sampled_from(TAGS)),
    )
)
def test_any_predicate_equals_filtering_afterwards(odd_store: Path, predicate: Predicate) -> None:
    assert selected(odd_store, predicate) == filtered(odd_store, predicate)


@pytest.fixture(scope="module")
def odd_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = [
        {
            "topic": TEXTS[n % len(TEXTS)],
            "properties": PROPERTIES[n % len(PROPERTIES)],
            "queue_id": n % 4 - 2,
            "queue_offset": n % 7 - 3,
            "store_timestamp": n * 6 // 400,
        }
        for n in range(400)
    ]
    return store_of(tmp_path_factory.mktemp("odd"), *changes, *({**odd, "store_timestamp": 6} for odd in COUNTING))


def test_more_topics_than_a_table_keeps(tmp_path: Path) -> None:
    topics = [b"t%d" % (n * 7919 % 5000) for n in range(9000)]
    store = store_of(tmp_path / "many", *({"topic": topic, "properties": b"", "body": b""} for topic in topics))
    expected = sum(topic.endswith(b"7") for topic in topics)
    assert len(selected(store, Predicate(topic_pattern=".*7"))) == expected
    assert len(selected(store, Predicate(topic_pattern=".*7", offsets=(("t7", 0, 1, 2),)))) == expected - 2


def test_bodies_of_unwanted_records_do_not_matter(tmp_path: Path) -> None:
    """The positions move, the rest of the piece stays as it is."""
    store = store_of(tmp_path / "s", {"topic": b"A"}, {"topic": b"B"}, {"topic": b"A"})
    selector = Selector(Predicate(topics=frozenset("B")))
    for piece in pieces_of(store):
        before = bytes(piece.data)
        assert selector.select(piece) == 1
        assert stored_message(piece.data, piece.positions[0]).topic == "B"
        assert bytes(piece.data) == before and piece.count == 3


@pytest.mark.parametrize(
    "parts",
    [{"topic_pattern": "("}, {"topic_pattern": "a{99999999999}"}, {"since": 2**63}, {"offsets": (("T", 0, 0, 2**63),)}],
)
def test_impossible_predicates(parts: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Predicate(**parts)
