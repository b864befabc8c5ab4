"""Converts filters that the planner offers to comparisons of store/commitlog/pushdown.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintmq.arrow.kafka_shape import SOURCES
from flintmq.store.commitlog import pushdown
from flintmq.store.commitlog.pushdown import Comparison

_OPERATORS = {"=": (">=", "<="), ">": (">",), ">=": (">=",), "<": ("<",), "<=": ("<=",)}


def comparisons(filters: Iterable[dict[str, Any]], shape: str) -> list[Comparison]:
    """Return the comparisons in filters that must all hold, as far as understood.

    Args:
        filters: each a column, an operator in the words of Spark (`=`, `<=>`, `IN`, `>=`, ...), values, and their type;
            times are microseconds since 1970.
        shape: of the rows, as the option has it.
    """
    found: list[Comparison] = []
    for one in filters:
        column, operator, values = one["column"], one["operator"], one["values"]
        if shape == "kafka":
            column = SOURCES.get(column, column)
        if column in pushdown.LIMITED and operator in ("=", "<=>", "IN"):
            found.append((column, "in", frozenset(value for value in values if value is not None)))
        elif column == pushdown.TIME and one["type"] == "timestamp" and values[0] is not None:
            found += [(column, name, values[0] * 1000) for name in _OPERATORS.get(operator, ())]
    return found
