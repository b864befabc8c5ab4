"""Tells the format of a table that exports made, by its directory; imports no Arrow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

EXPORT_FOLDER = re.compile(r"export=([1-9][0-9]{0,8})", re.ASCII)
_ICEBERG = ("catalog.db", "metadata")


def format_of(path: str) -> str | None:
    """Return "parquet", "delta" or "iceberg"; None if the directory holds no such table."""
    return format_in(os.listdir(path)) if os.path.isdir(path) else None


def format_in(names: list[str]) -> str | None:
    """Return what `format_of` does, by the names in the directory."""
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


def absent_export(numbers: Iterable[int]) -> int | None:
    """Return the least number of an export that is missing; None if none is.

    Exports to Parquet have the numbers 1, 2, 3 and so on, and no way of removing one.

    Args:
        numbers: of those that are there, rising.
    """
    return next((least for least, number in enumerate(numbers, 1) if least != number), None)
