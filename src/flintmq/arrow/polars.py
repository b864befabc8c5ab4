"""Offers a store as a Polars LazyFrame: columns, filters and row limits go into the scan.

Needs the extra `polars`. The scan itself drops rows that a filter excludes by topic, queue, tags or store time; then
Polars applies the whole filter, batch by batch.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintmq.arrow.dataset import dataset
from flintmq.arrow.schema import SCHEMA, narrow
from flintmq.errors import MissingExtraError
from flintmq.store.commitlog.pushdown import SETS, TIME, Comparison, narrowed

if TYPE_CHECKING:
    import polars

_ORDER = {"Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
_NS = {"Milliseconds": 10**6, "Microseconds": 10**3, "Nanoseconds": 1}


def scan_polars(path: str | os.PathLike[str], **options: Any) -> polars.LazyFrame:
    """Offer a store's log as a Polars LazyFrame.

    Each collect begins anew and sees the log as it is then.

    Args:
        path: as for scan_arrow.
        options: those of flintmq.dataset: topics, queues, since, until, tags, decompress, access, config, set, strict,
            report, threads.

    Raises:
        MissingExtraError: Polars is not installed.
        FlintError: as flintmq.dataset raises it.
    """
    try:
        import polars
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingExtraError(
            "flintmq.scan_polars needs polars 1.10 or later: pip install 'flintmq[polars]'"
        ) from error
    source = dataset(path, **options)

    def frames(
        columns: list[str] | None, predicate: polars.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[polars.DataFrame]:
        wanted = source.predicate
        if predicate is not None:
            wanted = narrowed(wanted, comparisons(_tree(predicate)))
        left = rows
        for batch in source.read(narrow(columns or None), wanted):
            frame: Any = polars.from_arrow(batch)
            frame = frame if predicate is None else frame.filter(predicate)
            yield frame if left is None else frame.head(left)
            if left is not None:
                left -= min(left, len(frame))
                if not left:
                    return

    empty: Any = polars.from_arrow(SCHEMA.empty_table())
    return register_io_source(frames, schema=empty.schema)


def _tree(predicate: polars.Expr) -> Any:
    """Return the expression as nested dicts from Polars' own serialization; None if that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the form may change; unknown parts are not used
            return json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # Polars raises several kinds, its own panics among them
        return None


def comparisons(node: Any) -> list[Comparison]:
    """Return the comparisons of single columns that every row passing the expression meets.

    Args:
        node: a Polars expression as nested dicts.
    """
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return comparisons(left) + comparisons(right)
        case {"BinaryExpr": {"left": {"Column": column}, "op": "Eq", "right": {"Literal": value}}} if column in SETS:
            return _among(column, [_plain(value)])
        case {"BinaryExpr": {"left": {"Column": column}, "op": operator, "right": {"Literal": value}}} if (
            column == TIME
        ):
            return _in_time(operator, value)
        case {"Function": {"input": [{"Column": column}, {"Literal": {"Scalar": {"List": data}}}], "function": kind}}:
            inner = kind.get("Boolean") if isinstance(kind, dict) else None
            return _among(column, _listed(data)) if isinstance(inner, dict) and "IsIn" in inner else []
    return []


def _among(column: str, values: list[Any]) -> list[Comparison]:
    kind = int if column == "queue_id" else str
    known = column in SETS and all(type(value) is kind for value in values)
    return [(column, "in", frozenset(values))] if known else []


def _in_time(operator: str, value: Any) -> list[Comparison]:
    match value:
        case {"Scalar": {"Datetime": [int(time), str(unit), *_]}} if unit in _NS:
            ns = time * _NS[unit]
            if operator == "Eq":
                return [(TIME, ">=", ns), (TIME, "<=", ns)]
            return [(TIME, _ORDER[operator], ns)] if operator in _ORDER else []
    return []


def _plain(value: Any) -> Any:
    match value:
        case {"Scalar": {"String": str(text)}}:
            return text
        case {"Scalar": {"Int32": int(number)}} | {"Dyn": {"Int": int(number)}}:
            return number
    return None


def _listed(data: Any) -> list[Any]:
    """Decode a literal list, which Polars writes as an Arrow stream of one column."""
    try:
        values: list[Any] = pa.ipc.open_stream(bytes(data)).read_all().column(0).to_pylist()
    except (pa.ArrowException, TypeError, ValueError):
        return [None]
    return values
