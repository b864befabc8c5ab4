"""Filters that Spark offers before it reads, as the comparisons of flintmq.store.narrow.

Every filter goes back to Spark, which applies it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from flintmq.store import narrow

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from flintmq.store.narrow import Comparison
    from flintmq.store.predicate import Predicate

_EQUAL = ("EqualTo", "EqualNullSafe")
_ORDER = {"GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<="}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def narrowed(predicate: Predicate, filters: Iterable[Filter]) -> Predicate:
    """The predicate with the filters that a scan can use worked in: on topic, queue, tags and store time.

    Filters on other columns, and of kinds not known here, change nothing.
    """
    return narrow.narrowed(predicate, (one for item in filters for one in _comparisons(item)))


def _comparisons(item: Filter) -> Iterator[Comparison]:
    attribute, value = getattr(item, "attribute", None), getattr(item, "value", None)
    kind = type(item).__name__
    if value is None or not isinstance(attribute, tuple) or len(attribute) != 1:
        return
    column = attribute[0]
    if column in narrow.SETS and (kind in _EQUAL or kind == "In"):
        values = value if kind == "In" else [value]
        yield column, "in", frozenset(one for one in values if one is not None)
    elif column == narrow.TIME and isinstance(value, datetime):
        yield from ((column, operator, _ns(value)) for operator in _operators(kind))


def _operators(kind: str) -> tuple[str, ...]:
    return (">=", "<=") if kind == "EqualTo" else (_ORDER[kind],) if kind in _ORDER else ()


def _ns(time: datetime) -> Any:
    moment = time if time.tzinfo else time.astimezone(UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
