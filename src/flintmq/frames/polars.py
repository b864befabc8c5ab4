"""Offers a store as a Polars LazyFrame: columns, filters and row limits go into the scan.

Needs the extra `polars`. The scan itself drops rows that a filter excludes by topic, queue, tags or store time; then
Polars applies the whole filter, batch by batch.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintmq.arrow.schema import VIEW_SCHEMA, narrow, of_many
from flintmq.cluster.members import Stores
from flintmq.config.releases import is_older
from flintmq.errors import MissingExtraError
from flintmq.frames.dataset import dataset
from flintmq.frames.expression import among, in_time
from flintmq.store.commitlog.pushdown import LIMITED, TIME, Comparison, narrowed

if TYPE_CHECKING:
    import polars

_ORDER = {"Eq": "=", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
_FIRST_ROWS = 64  # that pass a filter are a frame of their own, so that few of them do not hold a whole batch
_NS = {"Milliseconds": 10**6, "Microseconds": 10**3, "Nanoseconds": 1}


OLDEST = (1, 37)
"""The first Polars that is tested: 1.20 panics on batches with views, 1.10 crashes, and until 1.36 less is pushed."""
NEEDED = "flintmq.scan_polars needs polars 1.37 or later: pip install 'flintmq[polars]'"


def scan_polars(path: Stores, **options: Any) -> polars.LazyFrame:
    """Offer a store's log, or several, as a Polars LazyFrame.

    Each collect begins anew and sees the log as it is then.

    Args:
        path: as for scan_arrow.
        options: those of flintmq.dataset: topics, queues, since, until, tags, decompress, access, config, set, strict,
            report, threads, history, catalog, body, body_schema, body_message, body_head, schema_registry.

    Raises:
        MissingExtraError: Polars is not installed, or too old.
        FlintError: as flintmq.dataset raises it.
    """
    try:
        import polars
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingExtraError(NEEDED) from error
    if is_older(polars.__version__, OLDEST):
        raise MissingExtraError(f"{NEEDED} (here is {polars.__version__})")
    source = dataset(path, **options)
    copied = source.copied_schema
    empty: Any = polars.from_arrow(copied.empty_table())
    viewed_schema = of_many(VIEW_SCHEMA, source.many)
    rows_schema = viewed_schema if empty.schema == _with_views(polars, viewed_schema) else copied

    def frames(
        columns: list[str] | None, predicate: polars.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[polars.DataFrame]:
        limits = [] if predicate is None else comparisons(_tree(predicate))
        wanted = narrowed(source.predicate, limits)
        # Rows that are copied from among others, by the scan or by Polars, are copied faster from copied columns.
        viewed = source.history is None and wanted.everything and (predicate is None or source.options.access == "map")
        left, first = rows, predicate is not None
        for batch in source.read(narrow(columns or None, rows_schema if viewed else copied), wanted, limits):
            frame: Any = polars.from_arrow(plain_text(batch))
            frame = frame if predicate is None else frame.filter(predicate)
            frame = frame if left is None else frame.head(left)
            if first and len(frame) > _FIRST_ROWS:  # a head after the filter, of which Polars tells nothing
                yield _alone(frame.head(_FIRST_ROWS), polars)
                frame, first = frame.slice(_FIRST_ROWS), False
                if left is not None:
                    left -= _FIRST_ROWS
            yield _alone(frame, polars) if 2 * len(frame) < len(batch) else frame
            if left is not None:
                left -= len(frame)
                if not left:
                    return

    return register_io_source(frames, schema=empty.schema)


def _alone(frame: Any, polars: Any) -> Any:
    """Copy a frame of a few rows, which would hold the memory, or the map, of their whole batch."""
    table = frame.to_arrow(compat_level=polars.CompatLevel.oldest())
    copied = pa.BufferOutputStream()
    with pa.ipc.new_stream(copied, table.schema) as writer:
        writer.write_table(table)
    return polars.from_arrow(pa.ipc.open_stream(copied.getvalue()).read_all(), schema=frame.schema)


def _with_views(polars: Any, schema: pa.Schema) -> Any:
    """Return the columns that Polars makes of batches with views; None if it takes none."""
    try:
        empty = pa.RecordBatch.from_pylist([], schema)
        return polars.from_arrow(pa.Table.from_batches([plain_text(empty)])).schema
    except Exception:  # Polars raises several kinds, its own panics among them
        return None


def plain_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace dictionaries by views of their texts: Polars would make categories of them."""
    columns = [_text_views(column) if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _text_views(column: Any) -> pa.Array[Any]:
    """Return the texts of a dictionary column without nulls as views of the dictionary."""
    texts = column.dictionary.cast(pa.string_view())
    _, views, *held = texts.buffers()
    words = pa.Array.from_buffers(pa.binary(16), len(texts), [None, views], offset=texts.offset)
    taken: Any = words.take(column.indices)
    # Texts of up to 12 bytes need no buffer, and there is None then: handed to Polars, that ends the process (pyarrow
    # before 24, in its C data interface).
    there = [pa.py_buffer(b"") if one is None else one for one in held]
    return pa.Array.from_buffers(pa.string_view(), len(taken), [None, taken.buffers()[1], *there], offset=taken.offset)


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
        case {"BinaryExpr": {"left": {"Column": column}, "op": "Eq", "right": {"Literal": value}}} if column in LIMITED:
            return among(column, [_plain(value)])
        case {"BinaryExpr": {"left": {"Column": column}, "op": operator, "right": {"Literal": value}}} if (
            column == TIME
        ):
            return _in_time(operator, value)
        case {"Function": {"input": [{"Column": column}, {"Literal": {"Scalar": {"List": data}}}], "function": kind}}:
            inner = kind.get("Boolean") if isinstance(kind, dict) else None
            return among(column, _listed(data)) if isinstance(inner, dict) and "IsIn" in inner else []
    return []


def _in_time(operator: str, value: Any) -> list[Comparison]:
    match value:
        case {"Scalar": {"Datetime": [int(time), str(unit), *_]}} if unit in _NS:
            return in_time(_ORDER[operator], time * _NS[unit]) if operator in _ORDER else []
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
