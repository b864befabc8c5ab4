"""Reads and writes HDFS through WebHDFS, with nothing but Python's own HTTP client.

The name node answers questions, and sends whoever reads or writes bytes to a data node. A new object is written under a
name that listings here leave out, and then renamed. On the name node a rename is one step; by its option it replaces an
earlier object, or fails. So an object appears whole or not at all, and of two that put one key, one wins. The user is
named by `user.name`, as in clusters without Kerberos; Kerberos is not spoken here. fsspec and opendal were tried in
place of this client (experiments/2026-11-28-webhdfs.md): with one two writers may win, the other has no put-if-absent.
"""

from __future__ import annotations

import getpass
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.objects.bucket import Bucket, ObjectEntry
from flintmq.overriding import override

PORT = 9870  # of the name node's HTTP server, since Hadoop 3
UNSEEN = ".flintmq-put-"  # beginning of the names of objects that are not whole yet
PIECE = 8 << 20  # of files and copies that are sent
LISTERS = 8  # directories that are listed at a time
_LATER = ("StandbyException", "RetriableException", "SafeModeException", "ObserverRetryOnActiveException")
ADVICE = "check hdfs.http (the name node's HTTP address), hdfs.user, and that the server answers"


class _Body(NamedTuple):
    pieces: Callable[[], Iterable[bytes]]  # gives the bytes from the beginning, for each attempt again
    size: int


class _RemoteError(Exception):
    """A refusal of the server. `kind`: name of the exception in Java; "" if it gave none."""

    def __init__(self, status: int, data: bytes) -> None:
        try:
            told = json.loads(data)["RemoteException"]
            self.kind, text = str(told["exception"]), str(told["message"]).partition("\n\tat ")[0]  # Java's stack
        except (ValueError, KeyError, TypeError):
            self.kind, text = "", ascii(data[:100].decode("latin-1"))
        self.status = status
        super().__init__(f"{self.kind or f'HTTP status {status}'}: {' '.join(text.split())[:300]}")

    @property
    def passes(self) -> bool:
        """Whether another name node, or this one later, may do what was asked."""
        return self.kind in _LATER or self.status in (429, 502, 503, 504)


class WebHdfs(Bucket):
    """The files of a cluster; see Bucket. Directories that deletes leave empty remain.

    `host`: `HOST` or `HOST:PORT` of the URL; the port is that of RPC, and means nothing here.
    """

    def __init__(self, host: str, options: S3Options) -> None:
        self.url = f"hdfs://{host}"
        self._servers = (options.hdfs_http or f"http://{host.partition(':')[0]}:{PORT}").split(",")
        self._user, self._timeout_s, self._attempts = options.hdfs_user, options.timeout_s, options.attempts
        if not self._user:
            try:
                self._user = getpass.getuser()
            except (OSError, KeyError):  # a container whose user has no name
                self._user = "dr.who"  # as Hadoop calls whom it does not know

    @override
    def listed(self, folder: str, whole: bool) -> list[ObjectEntry]:
        found = self._children(folder)
        if not whole:
            return found
        objects = [one for one in found if one.size is not None]
        level = [one.key for one in found if one.size is None]
        with ThreadPoolExecutor(LISTERS, "flintmq-list") as pool:
            while level:
                below = [one for children in pool.map(self._children, level) for one in children]
                objects += [one for one in below if one.size is not None]
                level = [one.key for one in below if one.size is None]
        return objects

    @override
    def find(self, key: str) -> ObjectEntry | None:
        try:
            found = self._statuses(key, "GETFILESTATUS", key)[0]
        except FileNotFoundError:
            return None
        return found if found.size is not None else None

    @override
    def read(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        if end is None:
            found = self.find(key)
            if found is None or found.size is None:
                raise FileNotFoundError(2, os.strerror(2), f"{self.url}/{key}")
            end = found.size  # with a length a data node tells how much it sends
        if end <= begin:
            return b""
        try:
            return self._ask("GET", key, "OPEN", offset=begin, length=end - begin)
        except StoreAccessError as error:
            if str(error.__cause__).startswith("IOException: Offset="):  # out of the range
                return b""
            raise

    @override
    def put(self, key: str, data: bytes) -> None:
        self._put(key, _Body(lambda: [data], len(data)), "OVERWRITE")

    @override
    def put_file(self, key: str, path: str) -> None:

        def pieces() -> Iterator[bytes]:
            with open(path, "rb") as file:
                while piece := file.read(PIECE):
                    yield piece

        self._put(key, _Body(pieces, os.stat(path).st_size), "OVERWRITE")

    @override
    def put_new(self, key: str, data: bytes) -> bool:
        return self._put(key, _Body(lambda: [data], len(data)), "NONE")

    def copy(self, key: str, to: str) -> None:
        """Copy by way of this process: WebHDFS has no copies of its own."""
        found = self.find(key)
        if found is None or found.size is None:
            raise FileNotFoundError(2, os.strerror(2), f"{self.url}/{key}")
        size = found.size

        def pieces() -> Iterator[bytes]:
            for begin in range(0, size, PIECE):
                yield self.read(key, begin, min(begin + PIECE, size))

        self._put(to, _Body(pieces, size), "OVERWRITE")

    @override
    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._ask("DELETE", key, "DELETE", recursive="false")

    def _children(self, folder: str) -> list[ObjectEntry]:
        try:
            found = self._statuses(folder, "LISTSTATUS", f"{folder}/" if folder else "")
        except FileNotFoundError:
            return []
        names = [one.key.rpartition("/")[2] for one in found]
        # A file is listed too, without a name.
        return [one for one, name in zip(found, names, strict=True) if name and not name.startswith(UNSEEN)]

    def _statuses(self, key: str, operation: str, above: str) -> list[ObjectEntry]:
        """Ask for the status of a file, or of all in a directory; names follow `above`."""
        data = self._ask("GET", key, operation)
        try:
            answer = json.loads(data)
            statuses = answer["FileStatuses"]["FileStatus"] if "FileStatuses" in answer else [answer["FileStatus"]]
            return [_found(above + one.get("pathSuffix", ""), one) for one in statuses]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = ascii(data[:100].decode("latin-1"))
            raise StoreAccessError(
                f"{what} is no answer of WebHDFS", place=f"{self.url}/{key}", advice=ADVICE
            ) from error

    def _put(self, key: str, body: _Body, rule: str) -> bool:
        """Write an object under an unseen name and rename it; return whether the rule let it replace what was there."""
        above, _, _ = key.rpartition("/")
        unseen = f"{above}/{UNSEEN}{uuid.uuid4().hex}".lstrip("/")
        try:
            self._ask("PUT", unseen, "CREATE", body, overwrite="true")  # nobody else has this name: a retry may replace
            try:
                self._ask("PUT", unseen, "RENAME", destination=f"/{key}", renameoptions=rule)
            except (FileExistsError, FileNotFoundError, StoreAccessError):
                # An attempt whose answer was lost may have done it: only a rename takes the unseen name away.
                if self.find(unseen) is not None or self.find(key) is None:
                    raise
        except FileExistsError:
            self.delete([unseen])
            return False
        except StoreAccessError:
            self._forget(unseen)
            raise
        return True

    def _forget(self, unseen: str) -> None:
        """Delete an object that did not become whole, if the server answers; no listing shows it."""
        try:
            self.delete([unseen])
        except (OSError, StoreAccessError):
            return

    def _ask(self, method: str, key: str, operation: str, body: _Body | None = None, **values: str | int) -> bytes:
        """Ask the servers in turn, several times, and return the answer's bytes."""
        query = urlencode({"op": operation, "user.name": self._user, **values})
        error: Exception = StoreAccessError("no attempt was made")
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(min(0.1 * 2**attempt, 5))
            for server in self._servers:
                try:
                    return self._attempt(method, f"{server}/webhdfs/v1/{quote(key)}?{query}", body)
                except _RemoteError as refused:
                    error = refused
                    if not refused.passes:
                        raise self._told(key, refused) from refused
                except (HTTPException, OSError) as failed:
                    error = failed
        raise self._told(key, error) from error

    def _attempt(self, method: str, url: str, body: _Body | None) -> bytes:
        # The name node gets no bytes: it only says who takes them.
        status, place, data = self._request(method, url, _Body(list, 0) if body else None)
        if status == 307:
            status, _, data = self._request(method, place, body)
        if status >= 300:
            raise _RemoteError(status, data)
        return data

    def _request(self, method: str, url: str, body: _Body | None) -> tuple[int, str, bytes]:
        """Send one request; return status, place of a redirect, and bytes."""
        parts = urlsplit(url)
        make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = make(parts.hostname or "", parts.port, timeout=self._timeout_s)
        try:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(body.size)} if body else {}
            connection.request(method, f"{parts.path}?{parts.query}", body.pieces() if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Location", ""), answer.read()
        finally:
            connection.close()

    def _told(self, key: str, error: Exception) -> Exception:
        where = f"{self.url}/{key}"
        kind = error.kind if isinstance(error, _RemoteError) else ""
        if kind == "FileNotFoundException":
            return FileNotFoundError(2, os.strerror(2), where)
        if kind == "FileAlreadyExistsException":
            return FileExistsError(17, os.strerror(17), where)
        text = " ".join(str(error).split())[:300] or type(error).__name__
        return StoreAccessError(text, place=where, advice=ADVICE)


def _found(key: str, status: dict[str, Any]) -> ObjectEntry:
    if status["type"] != "FILE":
        return ObjectEntry(key, None)
    return ObjectEntry(key, int(status["length"]), int(status["modificationTime"]))
