"""A directory served as one bucket: the few requests of S3 that reading a store takes, by the system's own file copy.

    python bench/folder_server.py DIR    prints its port; `POST /_count` gives [requests, bytes] since the last one;
                                         ends when its standard input does

For measuring alone. Tests use a server that somebody else wrote.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

MOST = 1000  # names of an answer, as S3


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    folder: Path
    count = [0, 0]

    def do_POST(self) -> None:
        told, self.count[:] = json.dumps(self.count).encode(), [0, 0]
        self._answer(200, told)

    def do_HEAD(self) -> None:
        self._object(body=False)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if "list-type" in query:
            self.count[0] += 1
            self._answer(200, self._listing(query).encode())
        else:
            self._object(body=True)

    def _object(self, *, body: bool) -> None:
        self.count[0] += 1
        path = self.folder / unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]
        if not path.is_file():
            self._answer(404, b"")
            return
        size = path.stat().st_size
        first, stop = 0, size
        if "Range" in self.headers:
            begin, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
            first, stop = int(begin), min(int(end) + 1, size)
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(stop - first))
        self.send_header("Content-Range", f"bytes {first}-{stop - 1}/{size}")
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
        self.end_headers()
        if body:
            self.wfile.flush()
            self.count[1] += stop - first
            with path.open("rb") as file:
                while first < stop:
                    first += os.sendfile(self.connection.fileno(), file.fileno(), first, stop - first)

    def _listing(self, query: dict[str, str]) -> str:
        prefix, deep = query.get("prefix", ""), "delimiter" not in query
        base = self.folder / prefix
        names: list[str] = []
        if base.is_dir():
            found = base.rglob("*") if deep else base.iterdir()
            names = sorted(str(path.relative_to(self.folder)) + ("/" if path.is_dir() else "") for path in found)
        if deep:
            names = [name for name in names if not name.endswith("/")]
        after = query.get("continuation-token", "")
        rest = [name for name in names if name > after]
        told = []
        for name in rest[:MOST]:
            if name.endswith("/"):
                told.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            else:
                size = (self.folder / name).stat().st_size
                told.append(
                    f"<Contents><Key>{escape(name)}</Key><Size>{size}</Size>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        more = len(rest) > MOST
        token = f"<NextContinuationToken>{escape(rest[MOST - 1])}</NextContinuationToken>" if more else ""
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(told)}</ListBucketResult>"
        )

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: requests are counted."""


def main(folder: str) -> None:
    """Serve until standard input ends."""
    Handler.folder = Path(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
