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

    from flintmq.spark.options import ReadOptions

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def narrowed(options: ReadOptions, filters: Iterable[Filter]) -> ReadOptions:
    """The options with the filters that the scan can use worked in: topic, tags and store time.

    Filters on other columns, and of kinds not known here, change nothing.
    """
    for item in filters:
        attribute, value = getattr(item, "attribute", None), getattr(item, "value", None)
        kind = type(item).__name__
        if value is None or attribute not in (("topic",), ("tags",), ("store_timestamp",)):
            continue
        if attribute == ("store_timestamp",):
            options = _with_time(options, kind, value)
        elif kind in ("EqualTo", "EqualNullSafe", "In"):
            texts = frozenset(text for text in (value if kind == "In" else [value]) if isinstance(text, str))
            name = "topics" if attribute == ("topic",) else "tags"
            known = getattr(options, name)
            options = replace(options, **{name: texts if known is None else known & texts})
    return options


def _with_time(options: ReadOptions, kind: str, value: Any) -> ReadOptions:
    if kind == "EqualTo":
        return _with_time(_with_time(options, "GreaterThanOrEqual", value), "LessThanOrEqual", value)
    if not isinstance(value, datetime):
        return options
    ms, rest = divmod((value if value.tzinfo else value.astimezone(UTC)) - _EPOCH, timedelta(milliseconds=1))
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        since = ms if not rest and kind == "GreaterThanOrEqual" else ms + 1
        return replace(options, since_ms=max(since, -(2**63) if options.since_ms is None else options.since_ms))
    if kind in ("LessThan", "LessThanOrEqual"):
        until = ms if not rest and kind == "LessThan" else ms + 1
        return replace(options, until_ms=min(until, 2**63 - 1 if options.until_ms is None else options.until_ms))
    return options
