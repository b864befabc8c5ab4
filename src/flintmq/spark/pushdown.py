"""Filters that Spark offers before it reads: what of them the scan can use.

Only to leave out early what Spark would leave out anyway: every filter goes back to Spark, which applies it as well.
So a narrower scan is never wrong as long as it gives every row that the filters let pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from flintmq.store.predicate import Predicate

_SETS = {"topic": "topics", "queue_id": "queue_ids", "tags": "tags"}  # column -> part of the predicate
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def narrowed(predicate: Predicate, filters: Iterable[Filter]) -> Predicate:
    """The predicate with the filters that a scan can use worked in: on topic, queue, tags and store time.

    Filters on other columns, and of kinds not known here, change nothing.
    """
    for item in filters:
        attribute, value = getattr(item, "attribute", None), getattr(item, "value", None)
        kind = type(item).__name__
        if value is None or not isinstance(attribute, tuple) or len(attribute) != 1:
            continue
        if attribute == ("store_timestamp",):
            predicate = _with_time(predicate, kind, value)
        elif attribute[0] in _SETS and kind in ("EqualTo", "EqualNullSafe", "In"):
            name = _SETS[attribute[0]]
            values = frozenset(one for one in (value if kind == "In" else [value]) if one is not None)
            known = getattr(predicate, name)
            changed: dict[str, Any] = {name: values if known is None else known & values}
            predicate = replace(predicate, **changed)
    return predicate


def _with_time(predicate: Predicate, kind: str, value: Any) -> Predicate:
    if kind == "EqualTo":
        return _with_time(_with_time(predicate, "GreaterThanOrEqual", value), "LessThanOrEqual", value)
    if not isinstance(value, datetime):
        return predicate
    ms, rest = divmod((value if value.tzinfo else value.astimezone(UTC)) - _EPOCH, timedelta(milliseconds=1))
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        since = ms if not rest and kind == "GreaterThanOrEqual" else ms + 1
        return replace(predicate, since=since if predicate.since is None else max(since, predicate.since))
    if kind in ("LessThan", "LessThanOrEqual"):
        until = ms if not rest and kind == "LessThan" else ms + 1
        return replace(predicate, until=until if predicate.until is None else min(until, predicate.until))
    return predicate
