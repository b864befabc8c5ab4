"""Plans and scans for the source in the JVM: the Python process of one driver or executor.

    python -m flintmq.spark.door.serve

Its parent writes a token to the standard input and gets the path of a Unix socket back, in a directory that only this
user may enter. The process ends when its standard input does: with the JVM, however that ends. Each connection is
served by a process of its own, forked with everything imported; it ends when the other side hangs up.

A request is its length in four bytes and JSON with `token` and `op`; an answer likewise. `read` is answered by a head,
an Arrow stream, and a last message: without it the rows are not all. `stream` is followed by calls, for the whole life
of a query.
"""

from __future__ import annotations

import base64
import gc
import hmac
import json
import logging
import os
import pickle
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from flintmq.errors import FlintError
from flintmq.spark.source import FlintMQSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType
LONGEST = 64 << 20  # bytes of a request
SENT_AT_ONCE = 4 << 20  # bytes that wait in the socket while the JVM makes rows of those before
Fields = dict[str, Any]

log = logging.getLogger("flintmq.spark")


class Connection:
    """One line to the JVM. Thread: one."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._bytes = line.makefile("rb")

    def request(self) -> Fields | None:
        """Return the next request; None if the other side has hung up."""
        head = self._bytes.read(4)
        if len(head) < 4:
            return None
        length = int.from_bytes(head, "big")
        if length > LONGEST:
            raise ValueError(f"a request of {length} bytes; the most is {LONGEST}")
        found: Fields = json.loads(self._bytes.read(length))
        return found

    def answer(self, **fields: Any) -> None:
        data = json.dumps(fields).encode()
        self._line.sendall(len(data).to_bytes(4, "big") + data)

    def rows(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Send an Arrow stream, which also ends where `batches` raises."""
        import pyarrow as pa

        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AT_ONCE)
        with self._line.makefile("wb", buffering=0) as sink, pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)


def serve_connection(line: socket.socket, token: str) -> None:
    """Answer what one connection asks."""
    connection = Connection(line)
    request = connection.request()
    if request is None:
        return
    if not hmac.compare_digest(str(request.get("token")), token):
        connection.answer(kind="PermissionError", error="flintmq.spark.door.serve: the token of the request is wrong")
        return
    operations: dict[str, Callable[[Connection, Fields], None]]
    operations = {"schema": _schema, "plan": _plan, "read": _read, "stream": _stream}
    _told(connection, lambda: operations[request["op"]](connection, request))


def _told(connection: Connection, act: Callable[[], None]) -> None:
    """Do something, and answer what it raises."""
    try:
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
    """Plan a batch read. `bytes`, `rows`: how much it is, as far as known before it is read."""
    from flintmq.lake.read.splits import estimated_records
    from flintmq.spark.door.filters import comparisons
    from flintmq.spark.source import BatchReader

    reader = _source(request).reader(_columns(request))
    if not isinstance(reader, BatchReader):  # of the queues, or of a table and its stores
        connection.answer(parts=_parts(reader, reader.partitions()), plans=None, bytes=None, rows=None)
        return
    whole = request["plans"]
    plans = _unpacked(whole) if whole else reader.plans()
    wanted = reader.narrowed(plans, comparisons(request["filters"]))
    connection.answer(
        parts=_parts(reader, reader.splits(wanted)),
        plans=whole or _packed(plans),
        bytes=sum(plan.end - plan.begin for _, plan in wanted),
        rows=sum(estimated_records(plan.log, plan.begin, plan.end) for _, plan in wanted),
    )


def _source(request: Fields) -> FlintMQSource:
    """Return the source; the columns are those that the query uses, not those of the option."""
    return FlintMQSource({name: value for name, value in request["options"].items() if name.lower() != "columns"})


def _columns(request: Fields) -> StructType:
    """Return the columns that a query uses: one where it only counts rows."""
    from pyspark.sql.types import IntegerType, StructType

    found = StructType.fromJson(json.loads(request["schema"]))
    return found if found.fields else StructType().add("queue_id", IntegerType())


def _parts(reader: Any, parts: Iterable[Any]) -> list[str]:
    """Return what a task gets, for each part: the reader and the part."""
    return [_packed((reader, part)) for part in parts]


def _packed(value: object) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def _unpacked(packed: str) -> Any:
    """Return what `_packed` got. Whoever has the token could run any code here anyway: it is the JVM's own process."""
    return pickle.loads(base64.b64decode(packed))  # noqa: S301


def _read(connection: Connection, request: Fields) -> None:
    from flintmq.spark.schema import arrow_schema

    reader, part = _unpacked(request["part"])
    connection.answer()
    rows = reader.read(part)
    try:
        connection.rows(_first(rows, request["limit"]), arrow_schema(reader.wanted))
    finally:
        rows.close()
    connection.answer()


def _first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the first rows; all for a negative limit."""
    for batch in batches:
        yield batch if limit < 0 else batch.slice(0, limit)
        if limit >= 0:
            limit -= min(limit, batch.num_rows)
            if not limit:
                return


def _stream(connection: Connection, request: Fields) -> None:
    """Plan the micro-batches of one query, call by call."""
    source, columns = _source(request), _columns(request)
    reader: Any = source.streamReader(columns)
    in_tasks: Any = source.streamReader(columns)  # without what the planner knows
    connection.answer()

    def next_end(start: Fields, limits: bool) -> Fields:
        return dict(reader.stream.next_end(start, limits=limits))

    calls: dict[str, Callable[[Fields], Fields]] = {
        "initial": lambda _: {"offset": json.dumps(reader.initialOffset())},
        "limit": lambda _: {"rows": reader.most_rows()},
        "now": lambda _: reader.prepareForTriggerAvailableNow() or {},
        "next": lambda call: {
            "offset": json.dumps(reader.stream.next_end(json.loads(call["start"]), limits=call["limits"]))
        },
        "progress": lambda _: {"offset": json.dumps(reader.reportLatestOffset())},
        "metrics": lambda _: {"metrics": _numbers(reader.reportLatestOffset())},
        "tasks": lambda call: {
            "parts": _parts(in_tasks, reader.partitions(json.loads(call["start"]), json.loads(call["end"])))
        },
    }

    def answer(call: Fields) -> None:
        connection.answer(**calls[call["call"]](call))

    while (call := connection.request()) is not None:
        _told(connection, partial(answer, call))


def _numbers(progress: Fields) -> dict[str, int]:
    return {name: value for name, value in progress.items() if isinstance(value, int) and "/" not in name}


def main() -> None:
    """Serve until the standard input ends."""
    token = sys.stdin.readline().strip()
    folder = tempfile.mkdtemp(prefix="flintmq-spark-")  # of mode 0700
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with socket.socket(socket.AF_UNIX) as door, selectors.DefaultSelector() as selector:
            path = os.path.join(folder, "door")
            door.bind(path)
            door.listen(64)
            print(path, flush=True)
            _import_all()
            selector.register(sys.stdin, selectors.EVENT_READ)
            selector.register(door, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if sys.stdin in ready:
                    break
                line, _ = door.accept()
                if os.fork() == 0:
                    _serve_and_exit(line, token)
                line.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve_and_exit(line: socket.socket, token: str) -> None:
    """Serve a connection as a forked process, which ends here."""
    code = 1
    try:
        serve_connection(line, token)
        code = 0
    except (BrokenPipeError, ConnectionResetError):  # the other side wants no more
        code = 0
    finally:
        os._exit(code)


def _import_all() -> None:
    """Import what each request needs, once."""
    import pyspark.sql.pandas.types  # noqa: F401

    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
