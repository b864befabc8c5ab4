"""Plans and scans for the source in the JVM: the Python process of one driver or executor.

    python -m flintmq.spark.door.serve

Its parent writes a token to the standard input and gets the path of a Unix socket back, in a directory that only this
user may enter. The process ends when its standard input does: with the JVM, however that ends. Each connection is
served by a process of its own, forked with everything imported.

A request is its length in four bytes and JSON with `token` and `op`; an answer likewise. `read` is answered by a head,
an Arrow stream, and a last message: without it the rows are not all.
"""

from __future__ import annotations

import base64
import gc
import hmac
import json
import os
import pickle
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from typing import Any

from flintmq.spark.source import FlintMQSource

LONGEST = 64 << 20  # bytes of a request


class Connection:
    """One line to the JVM."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._bytes = line.makefile("rb")

    def request(self) -> dict[str, Any] | None:
        head = self._bytes.read(4)
        if len(head) < 4:
            return None
        length = int.from_bytes(head, "big")
        if length > LONGEST:
            raise ValueError(f"a request of {length} bytes")
        found: dict[str, Any] = json.loads(self._bytes.read(length))
        return found

    def answer(self, **fields: Any) -> None:
        data = json.dumps(fields).encode()
        self._line.sendall(len(data).to_bytes(4, "big") + data)

    def rows(self, batches: Any, schema: Any) -> None:
        import pyarrow as pa

        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        with self._line.makefile("wb", buffering=0) as sink, pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)


def serve_connection(line: socket.socket, token: str) -> None:
    """Answer one request."""
    connection = Connection(line)
    request = connection.request()
    if request is None:
        return
    if not hmac.compare_digest(str(request.get("token")), token):
        connection.answer(error="the token is wrong")
        return
    try:
        {"schema": _schema, "plan": _plan, "read": _read}[request["op"]](connection, request)
    except Exception as error:
        connection.answer(error=str(error))


def _schema(connection: Connection, request: dict[str, Any]) -> None:
    connection.answer(schema=FlintMQSource(request["options"]).schema().json())


def _plan(connection: Connection, request: dict[str, Any]) -> None:
    from pyspark.sql.types import IntegerType, StructType

    schema = StructType.fromJson(json.loads(request["schema"]))
    if not schema.fields:  # rows are only counted
        schema = StructType().add("queue_id", IntegerType())
    reader = FlintMQSource(request["options"]).reader(schema)
    parts = [base64.b64encode(pickle.dumps((reader, part))).decode() for part in reader.partitions()]
    connection.answer(parts=parts)


def _read(connection: Connection, request: dict[str, Any]) -> None:
    from flintmq.spark.schema import check_schema

    reader, part = pickle.loads(base64.b64decode(request["part"]))
    schema = check_schema(reader.wanted, None, reader.options.many)
    connection.answer()
    connection.rows(reader.read(part), schema)
    connection.answer()


def main() -> None:
    """Serve until the standard input ends."""
    token = sys.stdin.readline().strip()
    folder = tempfile.mkdtemp(prefix="flintmq-")  # mode 0700
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
                    code = 1
                    try:
                        serve_connection(line, token)
                        code = 0
                    finally:
                        os._exit(code)
                line.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _import_all() -> None:
    """Import what each request needs, once."""
    import pyspark.sql.pandas.types
    import pyspark.sql.types

    import flintmq.arrow.batches
    import flintmq.lake.read.members
    import flintmq.lake.read.scan
    import flintmq.spark.schema
    import flintmq.spark.worker  # noqa: F401

    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
