"""Narrows a predicate by comparisons that an engine wants applied before it reads.

They only exclude early what the engine would exclude anyway, because it applies its filter in full as well. So a
narrowed scan is correct if it returns every row that the filter accepts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flintmq.message import MEMBER_COLUMNS
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate

Comparison = tuple[str, str, Any]
"""Column, operator (in, >, >=, <, <=), and its operand: a set of values, or a time in ns since 1970."""

KEYED = ("keys", "msg_id")
"""Columns whose values tell which zones of a log can be skipped."""
SETS = {"topic": "topics", "queue_id": "queue_ids", "tags": "tags"}
"""Columns that can be limited to a set of values -> the part of the predicate for it."""
LIMITED = frozenset((*SETS, *KEYED, *MEMBER_COLUMNS))
"""Columns whose comparisons with sets of values are of use: those, and the columns that name a store."""
TIME = "store_timestamp"
"""The column that can be limited to a range."""


def narrowed(predicate: Predicate, comparisons: Iterable[Comparison]) -> Predicate:
    """Return the predicate narrowed by comparisons that must all hold.

    Used are those on topic, queue, tags, store time, and, as a hint, on keys and msg_id.

    Comparisons of other columns and with other operators are ignored.
    """
    for column, operator, value in comparisons:
        if column == TIME and operator != "in":
            predicate = _with_time(predicate, operator, value)
        elif column in SETS and operator == "in":
            known = getattr(predicate, SETS[column])
            values = frozenset(value) if known is None else known & value
            changed: dict[str, Any] = {SETS[column]: values}
            predicate = replace(predicate, **changed)
        elif column in KEYED and operator == "in":
            predicate = _with_key(predicate, column, value)
    return predicate


def _with_key(predicate: Predicate, column: str, values: Iterable[str]) -> Predicate:
    """Add the hint that a message has one of these values in a column.

    KEYS holds keys with spaces between them: a message with such a text has its first key.
    """
    firsts = [value.split(" ") if column == "keys" else [value] for value in values]
    keys = [next(filter(None, parts), "") for parts in firsts]
    return predicate if "" in keys else replace(predicate, any_key=frozenset(keys))


def _with_time(predicate: Predicate, operator: str, ns: int) -> Predicate:
    ms, rest = divmod(ns, 1_000_000)
    if operator in (">", ">="):
        since = min(max(LEAST, ms if not rest and operator == ">=" else ms + 1), MOST)
        return replace(predicate, since=since if predicate.since is None else max(since, predicate.since))
    if operator in ("<", "<="):
        until = ms if not rest and operator == "<" else ms + 1
        if until > MOST:
            return predicate  # all times
        until = max(LEAST, until)
        return replace(predicate, until=until if predicate.until is None else min(until, predicate.until))
    return predicate
