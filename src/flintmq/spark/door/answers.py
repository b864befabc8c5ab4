"""Answers what the source in the JVM asks: schemas, plans, rows, and the calls of a stream.

A request has `token`, `version` and `op`; a connection may bring several. `read` is answered by an Arrow stream and a
last message, without which the rows are not all. `stream` is followed by calls, for the whole life of a query. What
goes wrong is answered by its kind and its words.
"""

from __future__ import annotations

import hmac
import json
import logging
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas  # noqa: F401  (pyarrow imports it for its first array of Python values; that takes each fork 0.2 s)
import pyspark.sql.pandas.types  # noqa: F401

from flintmq.errors import FlintError
from flintmq.lake.export.workers import packed, unpacked
from flintmq.lake.read.splits import estimated_records
from flintmq.spark.door.catalog import Catalog
from flintmq.spark.door.connection import Connection, Fields
from flintmq.spark.door.filters import comparisons
from flintmq.spark.schema import arrow_schema
from flintmq.spark.source import BatchReader, FlintMQSource
from flintmq.version import OURS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    Calls = dict[str, Callable[[Fields], Fields]]

log = logging.getLogger("flintmq.spark")


def serve_connection(line: socket.socket, token: str) -> None:
    """Answer what one connection asks, until the other side hangs up."""
    connection = Connection(line)
    while (request := connection.request()) is not None:
        refusal = _refusal(request, token)
        if refusal is not None:
            connection.answer(kind="PermissionError", error=f"flintmq.spark.door.serve: {refusal}")
            return
        if request["op"] == "stream":
            _serve_stream(connection, request)
        else:
            operation = OPERATIONS[request["op"]]
            _told(connection, partial(operation, connection, request))


def _refusal(request: Fields, token: str) -> str | None:
    """Return why a request is not answered."""
    if not hmac.compare_digest(str(request.get("token")).encode(), token.encode()):
        return "the token of the request is wrong"
    if request.get("version") != OURS:
        return (
            f"the driver has flintmq {request.get('version')}, and {sys.executable} on {platform.node()} has "
            f"{OURS}; install the same version on both"
        )
    return None


def _told(connection: Connection, act: Callable[[], None]) -> None:
    """Do something, and answer what it raises."""
    try:
        with connection.working():
            act()
    except (BrokenPipeError, ConnectionResetError):  # the other side wants no more
        raise
    except Exception as error:
        if not isinstance(error, FlintError):
            log.exception("a request of the source in the JVM failed")
        connection.answer(kind=type(error).__name__, error=str(error))


def _schema(connection: Connection, request: Fields) -> None:
    connection.answer(schema=FlintMQSource(request["options"]).schema().json())


def _plan(connection: Connection, request: Fields) -> None:
    """Plan a batch read.

    `plans` of the first query of a table are given to the others, which then see the same rows. `bytes`, `rows`: how
    much it is, as far as known before it is read.
    """
    reader, whole = _source(request).reader(_columns(request)), request["plans"]
    if not isinstance(reader, BatchReader):  # of the queues, or of a table and its stores
        tasks = unpacked(whole) if whole else reader.partitions()
        connection.answer(parts=_parts(reader, tasks), plans=whole or packed(tasks))
        return
    plans = unpacked(whole) if whole else reader.plans()
    wanted = reader.narrowed(plans, comparisons(request["filters"], reader.options.shape))
    parts: list[Any] = reader.splits(wanted)
    span = sum(plan.end - plan.begin for _, plan in plans)
    left = sum(part.part.end - part.part.begin for part in parts)  # without the zones that filters leave out
    records = sum(estimated_records(plan.log, plan.begin, plan.end) for _, plan in plans)
    connection.answer(
        parts=_parts(reader, parts),
        plans=whole or packed(plans),
        bytes=left,
        left_out=span - left,
        rows=records * left // span if span else 0,
    )


def _contents(connection: Connection, request: Fields) -> None:
    connection.answer(**Catalog(request["options"]).contents(tuple(request["namespace"])))


def _table(connection: Connection, request: Fields) -> None:
    found = Catalog(request["options"]).table(tuple(request["namespace"]), request["table"], request.get("until"))
    connection.answer(**found)


def _source(request: Fields) -> FlintMQSource:
    """Return the source; the columns are those that the query uses, not those of the option."""
    return FlintMQSource({name: value for name, value in request["options"].items() if name.lower() != "columns"})


def _columns(request: Fields) -> StructType:
    """Return the columns that a query uses: one where it only counts rows."""
    from pyspark.sql.types import StructType

    found = StructType.fromJson(json.loads(request["schema"]))
    if found.fields:
        return found
    every = FlintMQSource(request["options"]).schema().fields
    return StructType([next((one for one in every if one.dataType.typeName() == "integer"), every[0])])


def _parts(reader: Any, parts: Iterable[Any]) -> list[str]:
    """Return what a task gets, for each part: the reader and the part."""
    return [packed((reader, part)) for part in parts]


def _read(connection: Connection, request: Fields) -> None:
    reader, part = unpacked(request["part"])
    rows = reader.read(part)
    try:
        wanted = _first(_sampled(rows, request["sample"], request["task"]), request["limit"])
        connection.rows(wanted, arrow_schema(reader.wanted))
    finally:
        rows.close()
    connection.answer()


def _sampled(batches: Iterable[pa.RecordBatch], sample: Fields | None, task: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a sample: the same ones each time a task runs."""
    if sample is None:
        yield from batches
        return
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng([sample["seed"] % 2**64, task])
    for batch in batches:
        drawn = random.random(batch.num_rows)
        yield batch.filter(pa.array((drawn >= sample["lower"]) & (drawn < sample["upper"])))


def _first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the first rows; all for a negative limit."""
    for batch in batches:
        yield batch if limit < 0 else batch.slice(0, limit)
        if limit >= 0:
            limit -= min(limit, batch.num_rows)
            if not limit:
                return


def _limit(connection: Connection, request: Fields) -> None:
    reader: Any = _source(request).streamReader(_columns(request))
    connection.answer(rows=reader.most_rows())


def _serve_stream(connection: Connection, request: Fields) -> None:
    """Plan the micro-batches of one query, call by call, until the other side hangs up."""
    calls: Calls = {}

    def opened() -> None:
        calls.update(_calls_of(request))
        connection.answer()

    def answered(call: Fields) -> None:
        connection.answer(**calls[call["call"]](call))

    _told(connection, opened)
    while calls and (call := connection.request()) is not None:
        _told(connection, partial(answered, call))


def _calls_of(request: Fields) -> Calls:
    source, columns = _source(request), _columns(request)
    reader: Any = source.streamReader(columns)
    in_tasks: Any = source.streamReader(columns)  # without what the planner knows

    def next_offset(call: Fields) -> Fields:
        return _offset(reader.next_end(json.loads(call["start"]), limits=call["limits"]))

    def tasks(call: Fields) -> Fields:
        return {"parts": _parts(in_tasks, reader.partitions(json.loads(call["start"]), json.loads(call["end"])))}

    if request["now"]:
        reader.prepareForTriggerAvailableNow()
    return {
        "initial": lambda _: _offset(reader.initialOffset()),
        "next": next_offset,
        "progress": lambda _: _offset(reader.reportLatestOffset()),
        "metrics": lambda _: {"metrics": _numbers(reader.reportLatestOffset())},
        "tasks": tasks,
    }


def _offset(offset: Fields) -> Fields:
    """Return an offset as the text that the source in Python writes into a checkpoint."""
    return {"offset": json.dumps(dict(offset))}


def _numbers(progress: Fields) -> dict[str, int]:
    """Return what progress says in numbers, without the offsets of queues."""
    return {name: value for name, value in progress.items() if isinstance(value, int) and "/" not in name}


OPERATIONS = {
    "schema": _schema,
    "plan": _plan,
    "read": _read,
    "limit": _limit,
    "contents": _contents,
    "table": _table,
}
