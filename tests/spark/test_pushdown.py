"""Filters from Spark make the scan smaller and never drop a row that they let pass."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pyspark.sql.datasource as filters
import pytest

from flintmq.spark.pushdown import comparisons, described
from flintmq.store.commitlog import pushdown
from flintmq.store.commitlog.predicate import Predicate
from tests.support.spark_reading import SPARK

if SPARK < (4, 1):
    pytest.skip("Spark 4.0 pushes no filters to Python", allow_module_level=True)
EVERYTHING = Predicate()


def narrowed(predicate, offered):
    return pushdown.narrowed(predicate, comparisons(offered))


def at(ms, us=0):
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms, microseconds=us)


def test_topics_and_tags():
    wanted = [
        filters.EqualTo(("topic",), "A"),
        filters.In(("tags",), ["x", "y", None]),
        filters.IsNotNull(("topic",)),
        filters.In(("queue_id",), [1, 2]),
    ]
    predicate = narrowed(EVERYTHING, wanted)
    assert predicate == Predicate(frozenset("A"), queue_ids=frozenset({1, 2}), tags=frozenset("xy"))


def test_filters_meet_the_options():
    predicate = narrowed(Predicate(topics=frozenset("AB")), [filters.In(("topic",), ["B", "C"])])
    assert predicate.topics == {"B"}


@pytest.mark.parametrize(
    "kind, value, since, until",
    [
        ("GreaterThanOrEqual", at(5), 5, None),
        ("GreaterThanOrEqual", at(5, 1), 6, None),
        ("GreaterThan", at(5), 6, None),
        ("GreaterThan", at(5, 999), 6, None),
        ("LessThan", at(5), None, 5),
        ("LessThan", at(5, 1), None, 6),
        ("LessThanOrEqual", at(5), None, 6),
        ("LessThanOrEqual", at(5, 1), None, 6),
        ("EqualTo", at(5), 5, 6),
        ("EqualTo", at(-5), -5, -4),
        ("GreaterThan", 5, None, None),
        ("GreaterThanOrEqual", at(5).astimezone(timezone(timedelta(hours=5))), 5, None),
    ],
)
def test_store_time(kind, value, since, until):
    predicate = narrowed(EVERYTHING, [getattr(filters, kind)(("store_timestamp",), value)])
    assert (predicate.since, predicate.until) == (since, until)


def test_times_meet_the_predicate():
    given = Predicate(since=10, until=20)
    bounds = [filters.GreaterThan(("store_timestamp",), at(4)), filters.LessThan(("store_timestamp",), at(15))]
    predicate = narrowed(given, bounds)
    assert (predicate.since, predicate.until) == (10, 15)


def test_what_is_not_known_changes_nothing():
    others = [
        filters.GreaterThan(("queue_id",), 1),
        filters.Not(filters.EqualTo(("topic",), "A")),
        filters.StringStartsWith(("topic",), "A"),
        filters.EqualNullSafe(("tags",), None),
        filters.EqualTo(("properties", "x"), "1"),
    ]
    assert narrowed(EVERYTHING, others) == EVERYTHING


def test_what_a_scan_takes_in_words():
    assert described(Predicate()) == "anything"
    many = Predicate(topics=frozenset("ABCDEFG"), since=5, until=9, offsets=(("A", 0, 1, 2),), tags=frozenset({"x"}))
    assert described(many) == (
        "topic in ('A', 'B', 'C', 'D', 'E', and 2 more), tags in ('x'), queue_offset bounds of 1 queues, "
        "store_timestamp >= 5, store_timestamp < 9"
    )
    one = Predicate(queues=frozenset({("库", 3)}), topic_pattern="a.*")
    assert described(one) == "(topic, queue_id) in (('\\u5e93', 3)), topic matching 'a.*'"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_time_without_a_zone_at_the_end_of_the_calendar(zone, monkeypatch):
    """In UTC it is in the year 0 or 10000, which Python has not: nothing is taken from it, Spark applies it."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    ends = [datetime.max, datetime.min]
    taken = [narrowed(EVERYTHING, [filters.GreaterThan(("store_timestamp",), end)]) for end in ends]
    monkeypatch.undo()
    time.tzset()
    assert taken.count(EVERYTHING) >= 1
