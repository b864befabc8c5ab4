"""A small REST catalog of Iceberg on loopback: the requests that PyIceberg makes of one table, answered by SQLite.

It follows Iceberg's `rest-catalog-open-api.yaml` as far as an export needs it: configuration, namespaces, tables.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest

STATUS = {CommitFailedException: 409, NoSuchTableError: 404, NoSuchNamespaceError: 404}


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a catalog that is in this directory; gives its URL and the requests, as they come."""
    requests: list[str] = []
    catalog = SqlCatalog("served", uri=f"sqlite:///{folder}/served.db", warehouse=str(folder))
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer()

        do_POST = do_HEAD = do_GET

        def answer(self) -> None:
            requests.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                with one_at_a_time:
                    status, found = 200, answered(catalog, self.path.split("/")[2:], body)
            except tuple(STATUS) as error:
                status = STATUS[type(error)]
                found = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
            data = b"" if self.command == "HEAD" else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        catalog.close()


def answered(catalog: SqlCatalog, path: list[str], body: bytes) -> dict[str, Any]:
    """Answer the request for a path below `/v1/`; with a body it is a POST."""
    match path:
        case ["config" | "config?warehouse="]:
            return {"defaults": {}, "overrides": {}}
        case ["namespaces"]:
            levels = tuple(json.loads(body)["namespace"])
            catalog.create_namespace_if_not_exists(levels)
            return {"namespace": levels, "properties": {}}
        case ["namespaces", space]:
            return {"namespace": [space], "properties": dict(catalog.load_namespace_properties(space))}
        case ["namespaces", space, "tables"]:
            asked = CreateTableRequest.model_validate_json(body)
            spec = asked.partition_spec or UNPARTITIONED_PARTITION_SPEC
            table = catalog.create_table(
                (space, asked.name), asked.table_schema, asked.location, spec, properties=asked.properties
            )
        case ["namespaces", space, "tables", name] if body:
            change = CommitTableRequest.model_validate_json(body)
            catalog.commit_table(catalog.load_table((space, name)), change.requirements, change.updates)
            table = catalog.load_table((space, name))
        case ["namespaces", space, "tables", name]:
            table = catalog.load_table((space, name))
        case _:
            raise NoSuchTableError(f"no such resource: {path}")
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}
