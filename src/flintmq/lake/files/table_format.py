"""Tells the format of a table that exports made, by its directory; imports no Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

EXPORT_FOLDER = re.compile(r"export=([1-9][0-9]{0,8})", re.ASCII)
_ICEBERG = ("catalog.db", "metadata")


def format_in(names: list[str]) -> str | None:
    """Return "parquet", "delta" or "iceberg" by the names in a directory; else None."""
    if "commitlog" in names:  # a store, whatever else lies there
        return None
    if "_delta_log" in names:
        return "delta"
    if any(name in names for name in _ICEBERG):
        return "iceberg"
    return "parquet" if any(map(EXPORT_FOLDER.fullmatch, names)) else None


def exports_in(names: Iterable[str]) -> list[int]:
    """Return the numbers of exports, rising, by the names in the directory of their table."""
    return sorted(int(match[1]) for match in map(EXPORT_FOLDER.fullmatch, names) if match)


def absent_exports(numbers: Iterable[int]) -> Iterator[int]:
    """Yield the numbers of the exports that are missing, rising.

    Exports to Parquet have the numbers 1, 2, 3 and so on, and no way of removing one.
    """
    expected = 1
    for number in numbers:
        yield from range(expected, number)
        expected = number + 1
