"""Converts the filters that Spark offers to comparisons of store/commitlog/pushdown.py.

Every filter goes back to Spark, which applies it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from flintmq.store.commitlog import pushdown

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from flintmq.store.commitlog.predicate import Predicate
    from flintmq.store.commitlog.pushdown import Comparison

NAMED_MOST = 5  # values that a description names
_EQUAL = ("EqualTo", "EqualNullSafe")
_ORDER = {"GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<="}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def comparisons(filters: Iterable[Filter]) -> list[Comparison]:
    """Return the comparisons in filters that must all hold, as far as understood."""
    return [one for item in filters for one in _comparisons(item)]


def _comparisons(item: Filter) -> Iterator[Comparison]:
    attribute, value = getattr(item, "attribute", None), getattr(item, "value", None)
    kind = type(item).__name__
    if value is None or not isinstance(attribute, tuple) or len(attribute) != 1:
        return
    column = attribute[0]
    if column in pushdown.LIMITED and (kind in _EQUAL or kind == "In"):
        values = value if kind == "In" else [value]
        yield column, "in", frozenset(one for one in values if one is not None)
    elif column == pushdown.TIME and isinstance(value, datetime) and (ns := _ns(value)) is not None:
        yield from ((column, operator, ns) for operator in _operators(kind))


def _operators(kind: str) -> tuple[str, ...]:
    return (">=", "<=") if kind == "EqualTo" else (_ORDER[kind],) if kind in _ORDER else ()


def _ns(time: datetime) -> int | None:
    try:
        moment = time if time.tzinfo else time.astimezone(UTC)
    except (OverflowError, ValueError):  # at an end of the calendar, where Python has no UTC time
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def described(predicate: Predicate) -> str:
    """Describe a predicate for people: `topic in ('A', 'B'), store_timestamp >= 5`."""
    parts = []
    for column, values in (
        ("topic", predicate.topics),
        ("queue_id", predicate.queue_ids),
        ("(topic, queue_id)", predicate.queues),
        ("tags", predicate.tags),
    ):
        if values is not None:
            shown = sorted(values)[:NAMED_MOST]
            more = f", and {len(values) - NAMED_MOST} more" if len(values) > NAMED_MOST else ""
            parts.append(f"{column} in ({', '.join(f'{value!a}' for value in shown)}{more})")
    parts += [] if predicate.topic_pattern is None else [f"topic matching {predicate.topic_pattern!a}"]
    parts += [f"queue_offset bounds of {len(predicate.offsets)} queues"] if predicate.offsets else []
    parts += [] if predicate.since is None else [f"store_timestamp >= {predicate.since}"]
    parts += [] if predicate.until is None else [f"store_timestamp < {predicate.until}"]
    return ", ".join(parts) or "anything"
