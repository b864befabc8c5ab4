"""Comparisons that an engine asks for before it reads: what of them a scan can use.

Only to leave out early what the engine would leave out anyway: whoever asks applies its filter in full as well. So a
narrower scan is never wrong as long as it gives every row that the filter lets pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate

Comparison = tuple[str, str, Any]
"""Column, operator (in, >, >=, <, <=), and what it is compared with: a set of values, or a time in ns since 1970."""

SETS = {"topic": "topics", "queue_id": "queue_ids", "tags": "tags"}
"""Columns of which a scan can want some values -> the part of the predicate that says so."""
TIME = "store_timestamp"
"""The column that a scan can want a range of."""


def narrowed(predicate: Predicate, comparisons: Iterable[Comparison]) -> Predicate:
    """The predicate with comparisons worked in that must all hold: on topic, queue, tags and store time.

    Comparisons of other columns and by other operators change nothing.
    """
    for column, operator, value in comparisons:
        if column == TIME and operator != "in":
            predicate = _with_time(predicate, operator, value)
        elif column in SETS and operator == "in":
            known = getattr(predicate, SETS[column])
            values = frozenset(value) if known is None else known & value
            changed: dict[str, Any] = {SETS[column]: values}
            predicate = replace(predicate, **changed)
    return predicate


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
