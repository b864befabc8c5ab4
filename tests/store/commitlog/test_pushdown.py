"""Comparisons worked into a predicate: never narrower than what they say."""

from typing import Any

import pytest

from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate
from flintmq.store.commitlog.pushdown import narrowed

MS = 10**6
ALL = Predicate()


def test_sets_are_met() -> None:
    found = narrowed(ALL, [("topic", "in", frozenset("AB")), ("topic", "in", frozenset("BC")), ("tags", "in", {"x"})])
    assert found == Predicate(topics=frozenset("B"), tags=frozenset("x"))
    assert narrowed(Predicate(queue_ids=frozenset([1, 2])), [("queue_id", "in", {2, 3})]).queue_ids == {2}


def test_other_columns_and_operators_change_nothing() -> None:
    assert narrowed(ALL, [("size", ">", 3), ("topic", ">", "A"), ("flag", "in", {1}), ("queue_id", "<", 2)]) == ALL


@pytest.mark.parametrize(
    ("operator", "ns", "since", "until"),
    [
        (">=", 5 * MS, 5, None),
        (">", 5 * MS, 6, None),
        (">=", 5 * MS + 1, 6, None),
        (">", 5 * MS + 1, 6, None),
        ("<", 5 * MS, None, 5),
        ("<=", 5 * MS, None, 6),
        ("<", 5 * MS + 1, None, 6),
        ("<=", 5 * MS - 1, None, 5),
        (">=", -1, 0, None),
        ("<", (MOST + 5) * MS, None, None),
        (">", (MOST + 5) * MS, MOST, None),
        (">=", (LEAST - 5) * MS, LEAST, None),
        ("<", (LEAST - 5) * MS, None, LEAST),
    ],
)
def test_times(operator: str, ns: int, since: int | None, until: int | None) -> None:
    assert narrowed(ALL, [("store_timestamp", operator, ns)]) == Predicate(since=since, until=until)


def test_the_narrower_time_counts() -> None:
    times = [("store_timestamp", ">=", 3 * MS), ("store_timestamp", ">=", 7 * MS), ("store_timestamp", "<", 9 * MS)]
    assert narrowed(Predicate(since=5, until=8), times) == Predicate(since=7, until=8)


@pytest.mark.parametrize(
    ("comparisons", "hint"),
    [
        ([("msg_id", "in", {"a b", "c"})], {"a b", "c"}),
        ([("keys", "in", {"k"})], {"k"}),
        ([("keys", "in", {"k1 k2", " k3 "})], {"k1", "k3"}),
        ([("keys", "in", {"k", ""})], None),
        ([("keys", "in", {" "})], None),
        ([("msg_id", "in", {""})], None),
        ([("msg_id", ">", "a")], None),
        ([("keys", "in", {"k"}), ("msg_id", "in", {"m"})], {"m"}),
    ],
)
def test_keys_are_a_hint(comparisons: list[tuple[str, str, Any]], hint: set[str] | None) -> None:
    assert narrowed(ALL, comparisons) == Predicate(any_key=None if hint is None else frozenset(hint))
