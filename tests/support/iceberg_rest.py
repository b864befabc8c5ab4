"""A small REST catalog of Iceberg on loopback: the requests that PyIceberg makes of one table, answered by SQLite.

It follows Iceberg's `rest-catalog-open-api.yaml` as far as an export needs it: configuration, namespaces, tables.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest

from tests.support.http_answers import Answer, Asked, answering

STATUS = {CommitFailedException: 409, NoSuchTableError: 404, NoSuchNamespaceError: 404}


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a catalog that is in this directory; gives its URL and the requests, as they come."""
    requests: list[str] = []
    catalog = SqlCatalog("served", uri=f"sqlite:///{folder}/served.db", warehouse=str(folder))

    def answer(asked: Asked) -> Answer:
        requests.append(f"{asked.method} {asked.path}")
        try:
            status, found = 200, answered(catalog, asked.path.split("/")[2:], asked.body)
        except tuple(STATUS) as error:
            status = STATUS[type(error)]
            found = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
        return (
            status,
            {"Content-Type": "application/json"},
            b"" if asked.method == "HEAD" else json.dumps(found).encode(),
        )

    try:
        with answering(answer) as url:
            yield url, requests
    finally:
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
