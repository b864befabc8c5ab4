"""Real servers of object storage in processes of their own, on loopback: S3, Google's, Azure's, and HDFS.

    make object-servers                                   builds them into build/object-servers (Go, npm, Maven)
    python -m tests.support.object_servers guard ...      runs a command until standard input ends: a server must not
                                                          outlive a test that is killed
    python -m tests.support.object_servers NAME           runs one until standard input ends, and prints what a reader
                                                          must be told

Each has one bucket, empty. What they keep is in a directory that is removed with them.
"""

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

from flintmq.config.keys import StoreConfig
from flintmq.objects.bucket import Bucket
from flintmq.objects.opening import bucket_of
from tests.interop.java import SHORT_LIVED

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "object-servers"
BUCKET = "stores"
START_SECONDS = 90
_AZURITE_ACCOUNT = "devstoreaccount1"  # it, and its key, are in Azurite's documentation
_AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_WORDS = {"access": "flintmq", "secret": "flintmq-secret"}


@dataclass(frozen=True)
class RealServer:
    """A server with an empty bucket."""

    url: str  # of the bucket
    keys: dict[str, str] = field(default_factory=dict)  # what a reader must be told
    environment: dict[str, str] = field(default_factory=dict)  # credentials

    def bucket(self) -> Bucket:
        """The bucket, for a process that has the credentials in its environment."""
        return bucket_of(self.url, StoreConfig.from_keys(self.keys).s3)[0]

    def put(self, folder: Path, name: str) -> str:
        """Copy a directory to the server; gives its URL."""
        bucket = self.bucket()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                bucket.put_file(f"{name}/{path.relative_to(folder).as_posix()}", str(path))
        return f"{self.url}/{name}"


def _versitygw(folder: Path, port: int) -> Iterator[RealServer]:
    (folder / BUCKET).mkdir()
    access = ["--access", _WORDS["access"], "--secret", _WORDS["secret"]]
    with _process([BUILT / "bin" / "versitygw", "--port", f"127.0.0.1:{port}", *access, "--quiet", "posix", folder]):
        _wait(port)
        yield RealServer(
            f"s3://{BUCKET}",
            {"s3.endpoint": f"http://127.0.0.1:{port}"},
            {"AWS_ACCESS_KEY_ID": _WORDS["access"], "AWS_SECRET_ACCESS_KEY": _WORDS["secret"]},
        )


def _fake_gcs(folder: Path, port: int) -> Iterator[RealServer]:
    url = f"http://127.0.0.1:{port}"
    words = ["-scheme", "http", "-host", "127.0.0.1", "-port", port, "-external-url", url, "-public-host", url[7:]]
    store = ["-backend", "memory", "-log-level", "error"]
    with _process([BUILT / "bin" / "fake-gcs-server", *words, *store]), _xml_front(port) as front:
        _wait(port)
        body = json.dumps({"name": BUCKET}).encode()
        request = urllib.request.Request(
            f"{url}/storage/v1/b?project=test", body, {"Content-Type": "application/json"}, method="POST"
        )
        urllib.request.urlopen(request, timeout=30).close()
        yield RealServer(f"gs://{BUCKET}", {"gs.endpoint": front, "gs.anonymous": "true"})


@contextmanager
def _xml_front(port: int) -> Iterator[str]:
    """The front of fake-gcs-server, in a process of its own: clients in a test may hold its interpreter's lock."""
    with _process([sys.executable, "-m", "tests.support.object_servers", "front", port]) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"


def _serve_xml_front(port: int) -> None:
    """Serve before fake-gcs-server, which has no PUT of Google's XML interface: send these on as JSON's."""

    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            bucket, _, key = self.path[1:].partition("/")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key, generation = unquote(key), self.headers.get("x-goog-if-generation-match")
            if "?" in self.path:
                self.send_error(501, "uploads in parts")
            elif source := self.headers.get("x-goog-copy-source"):
                of, _, old = unquote(source).lstrip("/").partition("/")
                place = f"/storage/v1/b/{of}/o/{quote(old, '')}/rewriteTo/b/{bucket}/o/{quote(key, '')}"
                self._send("POST", place, b"{}", {"Content-Type": "application/json"})
            else:
                when = f"&ifGenerationMatch={generation}" if generation else ""
                place = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, '')}{when}"
                self._send("POST", place, body, {})

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
            headers = {name: self.headers[name] for name in ("Range", "Content-Type") if name in self.headers}
            self._send(self.command, self.path, body, headers)

        do_HEAD = do_DELETE = do_POST = do_GET

        def _send(self, method: str, place: str, body: bytes | None, headers: dict[str, str]) -> None:
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(method, place, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            size = answer.headers.get("Content-Length", "0") if method == "HEAD" else str(len(data))
            if method == "POST" and answer.headers.get("ETag") is None:  # the XML interface names it
                self.send_header("ETag", json.loads(data).get("etag", '"-"') if answer.status == 200 else "")
            self.send_header("Content-Length", size)
            self.end_headers()
            self.wfile.write(data)
            connection.close()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


def _azurite(folder: Path, port: int) -> Iterator[RealServer]:
    newer = ["--skipApiVersionCheck"]  # pyarrow, with which tests look, asks by a newer version
    command = [BUILT / "azurite" / "node_modules" / ".bin" / "azurite-blob", "--blobHost", "127.0.0.1"]
    with _process([*command, "--blobPort", port, "--location", folder, "--silent", "--disableTelemetry", *newer]):
        _wait(port)
        url = f"http://127.0.0.1:{port}/{_AZURITE_ACCOUNT}"
        told = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        place = f"/{_AZURITE_ACCOUNT}/{_AZURITE_ACCOUNT}/{BUCKET}\nrestype:container"
        text = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in told.items()) + place
        word = base64.b64encode(hmac.digest(base64.b64decode(_AZURITE_KEY), text.encode(), hashlib.sha256)).decode()
        request = urllib.request.Request(
            f"{url}/{BUCKET}?restype=container",
            method="PUT",
            headers={**told, "Authorization": f"SharedKey {_AZURITE_ACCOUNT}:{word}"},
        )
        urllib.request.urlopen(request, timeout=30).close()
        yield RealServer(
            f"abfs://{BUCKET}@{_AZURITE_ACCOUNT}.dfs.core.windows.net",
            {"azure.endpoint": url},
            {"AZURE_STORAGE_ACCOUNT_KEY": _AZURITE_KEY},
        )


def _mini_hdfs(folder: Path, port: int) -> Iterator[RealServer]:
    source = ROOT / "tests" / "support" / "servers" / "MiniHdfs.java"
    with _process(["java", *SHORT_LIVED, "-Xmx512m", "-cp", f"{BUILT / 'hadoop'}/*", source, folder]) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield RealServer("hdfs://127.0.0.1:8020", {"hdfs.http": f"http://127.0.0.1:{port}"})


SERVERS: dict[str, tuple[Path, Callable[[Path, int], Iterator[RealServer]]]] = {
    "versitygw": (BUILT / "bin" / "versitygw", _versitygw),
    "fake-gcs-server": (BUILT / "bin" / "fake-gcs-server", _fake_gcs),
    "azurite": (BUILT / "azurite" / "node_modules" / ".bin" / "azurite-blob", _azurite),
    "hdfs": (BUILT / "hadoop", _mini_hdfs),
}
"""Name -> what make object-servers builds of it, and how it is started."""


def lacks(name: str) -> str | None:
    """The reason for which a server cannot run here; None if it can."""
    if not SERVERS[name][0].exists():
        return f"{name} is not built; run make object-servers"
    if name == "hdfs" and shutil.which("java") is None:
        return "no Java runtime"
    return None


@contextmanager
def serving(name: str, scratch: Path | None = None) -> Iterator[RealServer]:
    """A server, for the length of a `with` block; what it keeps is in a directory of the system's, or in `scratch`."""
    with tempfile.TemporaryDirectory(prefix=f"flintmq-{name}-", dir=scratch, ignore_cleanup_errors=True) as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        yield from SERVERS[name][1](Path(folder), port)


@contextmanager
def _process(command: list[object]) -> Iterator[subprocess.Popen[bytes]]:
    guard = [sys.executable, "-m", "tests.support.object_servers", "guard", *map(str, command)]
    process = subprocess.Popen(
        guard, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(30)


def _wait(port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _guard(command: list[str]) -> None:
    """Run a command until standard input ends."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            sys.stdin.read()
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def main(words: list[str]) -> None:
    if words[0] == "guard":
        _guard(words[1:])
        return
    if words[0] == "front":
        _serve_xml_front(int(words[1]))
        return
    with serving(words[0]) as server:
        os.environ.update(server.environment)
        print(json.dumps({"url": server.url, "keys": server.keys, "environment": server.environment}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
