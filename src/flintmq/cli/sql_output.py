"""Formats the rows of an answer: a table for people, CSV, JSON or Parquet.

All formats are streams. Texts come from messages, so a table and CSV have them escaped for a terminal, and in CSV a
text that a spreadsheet would take for a formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from flintmq.cli.json_value import json_value
from flintmq.cli.output import dumps
from flintmq.cli.terminal import GAP, padded, width_of
from flintmq.cli.text import iso, printable, printable_bytes, shorten_text
from flintmq.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "csv", "json", "parquet")
CELL = 100
"""Characters in a cell of a table."""
MEASURED = 1000
"""Number of first rows that decide the width of a table's columns."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def lines(kind: str, answer: pa.RecordBatchReader) -> Iterator[str]:
    """Yield the answer's lines, without line ends, in one of the text FORMATS."""
    return {"table": _table, "csv": _csv, "json": _json}[kind](answer)


def write_parquet(path: str, answer: pa.RecordBatchReader) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, answer.schema, compression="zstd") as writer:
        for batch in answer:
            writer.write_batch(batch)


def write_lines(path: str, rows: Iterator[str]) -> None:
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        for row in rows:
            file.write(row + "\n")


def _table(answer: pa.RecordBatchReader) -> Iterator[str]:
    """Yield a table with columns as wide as the first rows need, numbers to the right."""
    import pyarrow as pa

    types = pa.types
    names = [shorten_text(printable(name), CELL) for name in answer.schema.names]
    right = [types.is_integer(t) or types.is_floating(t) or types.is_decimal(t) for t in answer.schema.types]
    rows = ([shorten_text(_text(value), CELL) for value in row] for batch in answer for row in _rows(batch))
    first = list(islice(rows, MEASURED))
    widths = [max(map(width_of, column)) for column in zip(names, *first, strict=True)]
    rule = ["-" * width for width in widths]
    for row in chain([names, rule] if names else [], first, rows):
        yield GAP.join(map(padded, row, widths, right)).rstrip()


def _csv(answer: pa.RecordBatchReader) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="")

    def line(cells: list[str]) -> str:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(cells)
        return buffer.getvalue()

    if answer.schema.names:
        yield line([_harmless(name) for name in answer.schema.names])
    for batch in answer:
        for row in _rows(batch):
            yield line([_text(value) if _is_number(value) else _harmless(_text(value, raw=True)) for value in row])


def _harmless(text: str) -> str:
    return printable("'" + text if text.startswith(_FORMULA) else text)


def _json(answer: pa.RecordBatchReader) -> Iterator[str]:
    names = answer.schema.names
    doubled = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if doubled is not None:
        raise UsageError(f"two columns are named {doubled!r}; rename one with `as`, JSON holds only one")
    for batch in answer:
        for row in _rows(batch):
            yield dumps(dict(zip(names, map(json_value, row), strict=True)))


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: Any) -> list[Any]:
    """Return a column as Python values; timestamps as text, since Python's calendar is shorter."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        try:
            values = _listed(column)
        except (OverflowError, ValueError) as error:
            raise UsageError(f"a value cannot be shown ({error}); cast it to varchar") from None
        return list(map(_without_intervals, values)) if "interval" in str(column.type) else values
    per_s, zone = _PER_S[column.type.unit], column.type.tz is not None
    return [None if ticks is None else _moment(ticks, per_s, zone) for ticks in column.cast(pa.int64()).to_pylist()]


def _listed(column: Any) -> list[Any]:
    """Return a column as Python values, maps as dicts: an empty list would be no map."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (KeyError, TypeError):  # keys of which Python makes none
        values = column.to_pylist()
    return values


def _without_intervals(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_without_intervals, value))
    if isinstance(value, dict):
        return {key: _without_intervals(one) for key, one in value.items()}
    if not isinstance(value, tuple):
        return value
    return _interval(*value) if hasattr(value, "nanoseconds") else tuple(map(_without_intervals, value))


def _interval(months: int, days: int, ns: int) -> str:
    years, months = int(months / 12), int(math.fmod(months, 12))
    named = [(years, "year"), (months, "month"), (days, "day")]
    parts = [f"{count} {name}{'' if abs(count) == 1 else 's'}" for count, name in named if count]
    if ns or not parts:
        s, us = divmod(abs(ns) // 1000, 10**6)
        fraction = f".{us:06d}".rstrip("0") if us else ""
        parts.append(f"{'-' if ns < 0 else ''}{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}{fraction}")
    return " ".join(parts)


def _moment(ticks: int, per_s: int, zone: bool) -> str:
    us = ticks * 10**6 // per_s
    text = iso(us // 1000)
    if text.endswith("Z"):
        text = (f"{text[:-1]}{us % 1000:03d}Z" if us % 1000 else text)[: None if zone else -1]
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _text(value: Any, raw: bool = False) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value if raw else printable(value)
    if isinstance(value, bytes):
        return printable_bytes(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, dict)):
        return dumps(json_value(value))
    return str(value)
