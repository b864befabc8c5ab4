"""An S3-compatible server in a process of its own: moto's, on loopback, that counts its requests.

    python -m tests.support.object_server    prints its port; `POST /_count` gives the requests since the last one and
                                             forgets them; ends when its standard input does

It is no part of the product: tests and the bench use it. Objects are held in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
BUCKET = "stores"


class Server:
    """The server, seen from a test."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._connection = HTTPConnection(endpoint.removeprefix("http://"), timeout=60)

    @property
    def keys(self) -> dict[str, str]:
        """What a reader must be told."""
        return {"s3.endpoint": self.endpoint, "s3.anonymous": "true"}

    def requests(self) -> list[str]:
        """`METHOD /bucket/key bytes=A-B` of each request since the last call, and forget them."""
        with urllib.request.urlopen(f"{self.endpoint}/_count", data=b"", timeout=10) as answer:
            return json.load(answer)

    @property
    def filesystem(self) -> S3FileSystem:
        """A client that may write."""
        from pyarrow.fs import S3FileSystem

        host = self.endpoint.removeprefix("http://")
        keys = {"access_key": "test", "secret_key": "test"}
        return S3FileSystem(
            **keys, endpoint_override=host, scheme="http", region="us-east-1", allow_bucket_creation=True
        )

    def put(self, folder: Path, name: str) -> str:
        """Copy a directory to the server; gives its URL."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put_object(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"s3://{BUCKET}/{name}"

    def put_object(self, key: str, data: bytes) -> None:
        self._connection.request("PUT", f"/{BUCKET}/{quote(key)}", data, {"x-amz-acl": "public-read"})
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200, (key, answer.status)

    def delete(self, key: str) -> None:
        self.filesystem.delete_file(f"{BUCKET}/{key}")


@contextmanager
def running() -> Iterator[Server]:
    """A server with one bucket, for the length of a `with` block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.object_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        server = Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        server.filesystem.create_dir(BUCKET)
        yield server
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Serve until standard input ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    os.environ.update(KEYS)
    seen: list[str] = []
    app = DomainDispatcherApplication(create_backend_app)

    def counted(environment: dict[str, Any], start: Any) -> Any:
        if environment["PATH_INFO"] == "/_count":
            told = json.dumps(seen).encode()
            seen.clear()
            start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(told)))])
            return [told]
        query = environment.get("QUERY_STRING", "")
        place = environment["PATH_INFO"] + (f"?{query}" if query else "")
        seen.append(f"{environment['REQUEST_METHOD']} {place} {environment.get('HTTP_RANGE', '')}".rstrip())
        return app(environment, start)

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, *_: Any) -> None:
            """Nothing: requests are counted."""

    server = make_server("127.0.0.1", 0, counted, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
